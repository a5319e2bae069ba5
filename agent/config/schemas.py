"""Settings of the schemas of messages in Avro: a registry, or files."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Final

from pydantic import Field, SecretStr, field_validator, model_validator

from agent.config.yaml import KeyPath
from agent.decode.avro.schema import plain_schema
from processors.contracts.errors import InvalidInputError
from processors.contracts.settings import Settings

NUMBER_MAX: Final = 2**32 - 1
CONFIGURED_MAX: Final = 1_000
REFERENCES: Final = ("${env:", "{file:")

RegistryUrl = Annotated[str, Field(pattern=r"^https?://[^\s/]{1,255}(/\S{0,255})?$")]


class SchemaText(Settings):
    """A schema that no registry has to be asked for."""

    id: int = Field(ge=0, le=NUMBER_MAX, description="number of the schema, which stands before each message")
    text: str = Field(min_length=1, description="the schema as JSON; {file: PATH} takes it from a file of up to 64 KiB")


class SchemaRegistrySettings(Settings):
    """Where the schemas are of sources with the encoding avro: those of a registry by its REST interface, those given here first."""

    url: RegistryUrl | None = Field(
        default=None,
        description="the registry, such as https://registry:8081; while it cannot be reached, messages whose schema is not known wait in their "
        "topics. None: only the schemas below are known, and other messages are dead letters",
    )
    timeout_s: float = Field(default=5.0, gt=0, le=60, description="a registry that takes longer is asked again later")
    username: str | None = Field(default=None, max_length=256, description="user name, where the registry asks for one")
    password: SecretStr | None = Field(default=None, description="password of the user name")
    token: SecretStr | None = Field(default=None, description="bearer token, where the registry asks for one")
    ca_file: str | None = Field(
        default=None, description="certificates of the authority (PEM) for https; default: the system's"
    )
    cert_file: str | None = Field(default=None, description="certificate of this client (PEM), where the registry asks")
    key_file: str | None = Field(default=None, description="private key of this client (PEM)")
    schemas: tuple[SchemaText, ...] = Field(
        default=(), max_length=CONFIGURED_MAX, description="schemas that are known without a registry"
    )

    @field_validator("url")
    @classmethod
    def _without_a_log_in(cls, url: str | None) -> str | None:
        if "@" in (url or ""):
            raise ValueError("has a log-in in it, which could be read by everybody: give username and password")
        return url

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> "SchemaRegistrySettings":
        if self.token is not None and self.username is not None:
            raise ValueError("give a token or a user name, not both")
        if (self.username is None) != (self.password is None):
            raise ValueError("a user name and a password come together")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file come together")
        return self

    @cached_property
    def texts(self) -> dict[int, bytes]:
        """The schemas that are given here by their numbers."""
        return {schema.id: schema.text.encode("utf-8", "replace") for schema in self.schemas}


def schema_faults(settings: SchemaRegistrySettings) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path of a key below the section and what is wrong with it."""
    if settings.url is None and any((settings.username, settings.token, settings.ca_file, settings.cert_file)):
        yield ("url",), "is missing; without it nobody is logged in to."
    elif (settings.url or "").startswith("http:") and (settings.ca_file or settings.cert_file):
        yield ("ca_file" if settings.ca_file else "cert_file",), "has no use with http; use https."
    numbers: set[int] = set()
    for index, schema in enumerate(settings.schemas):
        path = ("schemas", index)
        if schema.id in numbers:
            yield (*path, "id"), f"{schema.id} is the number of more than one schema."
        numbers.add(schema.id)
        if schema.text.startswith(REFERENCES):
            continue  # it was not looked up
        try:
            plain_schema(schema.text.encode("utf-8", "replace"))
        except InvalidInputError as error:
            yield (*path, "text"), str(error)
