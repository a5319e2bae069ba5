"""Settings of the way to Alertmanager."""

from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from agent.contracts.settings import Settings

Url = Annotated[str, Field(pattern=r"^https?://[^\s/]{1,255}(/\S{0,255})?$")]


class AlertmanagerSettings(Settings):
    """Alertmanagers that are told of alerts, besides the topic of alerts.

    >>> AlertmanagerSettings(urls=("http://alertmanager:9093",)).resend_s
    60.0
    """

    urls: tuple[Url, ...] = Field(
        default=(),
        max_length=16,
        description="Alertmanagers, without /api/v2; all members of a cluster are told. None: alerts go to their topic only",
    )
    resend_s: float = Field(
        default=60.0,
        ge=5,
        le=3600,
        description="alerts that fire are told again this often; after four times as long without, Alertmanager resolves them",
    )
    timeout_s: float = Field(
        default=10.0, gt=0, le=60, description="an Alertmanager that takes longer is asked again later"
    )
    username: str | None = Field(default=None, max_length=256, description="user name, where a proxy asks for one")
    password: SecretStr | None = Field(default=None, description="password of the user name")
    token: SecretStr | None = Field(default=None, description="bearer token, where a proxy asks for one")
    ca_file: str | None = Field(
        default=None, description="certificates of the authority (PEM) for https; default: the system's"
    )
    external_url: Url | None = Field(
        default=None, description="how people reach the agent's page; alerts then carry a link to it"
    )

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> "AlertmanagerSettings":
        if self.token is not None and self.username is not None:
            raise ValueError("give a token or a user name, not both")
        if (self.username is None) != (self.password is None):
            raise ValueError("a user name and a password come together")
        return self
