"""Settings for Avro schemas from a registry or from the configuration."""

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
    """An Avro schema in the configuration."""

    id: int = Field(ge=0, le=NUMBER_MAX, description="schema id, as in the header of each message")
    text: str = Field(min_length=1, description="schema as JSON; {file: PATH} reads it from a file of up to 64 KiB")


class SchemaRegistrySettings(Settings):
    """Avro schemas for sources with `encoding: avro`; schemas given here take precedence over the registry."""

    url: RegistryUrl | None = Field(
        default=None,
        description="address of the schema registry, such as https://registry:8081; while it is unreachable, messages with unknown schemas "
        "wait in their topics. Default: no registry, and messages with unknown schemas become dead letters",
    )
    timeout_s: float = Field(
        default=5.0, gt=0, le=60, description="timeout of a request in seconds; it is retried later"
    )
    username: str | None = Field(default=None, max_length=256, description="user name for basic authentication")
    password: SecretStr | None = Field(default=None, description="password for basic authentication")
    token: SecretStr | None = Field(default=None, description="bearer token, instead of user name and password")
    ca_file: str | None = Field(
        default=None,
        description="file with trusted CA certificates (PEM) for https; default: those of the operating system",
    )
    cert_file: str | None = Field(
        default=None, description="file with the client certificate (PEM), if the registry requires one"
    )
    key_file: str | None = Field(default=None, description="file with the private key of the client certificate (PEM)")
    schemas: tuple[SchemaText, ...] = Field(
        default=(), max_length=CONFIGURED_MAX, description="schemas that need no registry"
    )

    @field_validator("url")
    @classmethod
    def _without_a_log_in(cls, url: str | None) -> str | None:
        if "@" in (url or ""):
            raise ValueError(
                "must not contain a log-in, which would be readable by everybody; set username and password"
            )
        return url

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> "SchemaRegistrySettings":
        if self.token is not None and self.username is not None:
            raise ValueError("set token or username, not both")
        if (self.username is None) != (self.password is None):
            raise ValueError("set username and password together")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("set cert_file and key_file together")
        return self

    @cached_property
    def texts(self) -> dict[int, bytes]:
        """Configured schemas by id."""
        return {schema.id: schema.text.encode("utf-8", "replace") for schema in self.schemas}


def schema_faults(settings: SchemaRegistrySettings) -> Iterator[tuple[KeyPath, str]]:
    if settings.url is None and any((settings.username, settings.token, settings.ca_file, settings.cert_file)):
        yield ("url",), "is missing, so the log-in has no effect."
    elif (settings.url or "").startswith("http:") and (settings.ca_file or settings.cert_file):
        yield ("ca_file" if settings.ca_file else "cert_file",), "has no effect with http; use https."
    numbers: set[int] = set()
    for index, schema in enumerate(settings.schemas):
        path = ("schemas", index)
        if schema.id in numbers:
            yield (*path, "id"), f"{schema.id} is the id of more than one schema."
        numbers.add(schema.id)
        if schema.text.startswith(REFERENCES):
            continue  # an unresolved reference
        try:
            plain_schema(schema.text.encode("utf-8", "replace"))
        except InvalidInputError as error:
            yield (*path, "text"), str(error)
