"""Settings of collector and learner, schema registry, HTTP server and its access rules, metrics, privacy and logging."""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from ipaddress import ip_network
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from agent.config.yaml import KeyPath
from agent.decode.avro import plain_schema
from processors.contracts.errors import InvalidInputError
from processors.contracts.settings import Settings

NUMBER_MAX: Final = 2**32 - 1
CONFIGURED_MAX: Final = 1_000
REFERENCES: Final = ("${env:", "{file:")
TOKEN_CHARACTERS_MIN: Final = 16
Url = Annotated[str, Field(pattern=r"^https?://[^\s/]{1,255}(/\S{0,255})?$")]
CaFile = Annotated[
    str | None, Field(description="file with trusted CA certificates (PEM); default: those of the operating system")
]
CertFile = Annotated[
    str | None, Field(description="file with the client certificate (PEM), if the server requires one")
]
KeyFile = Annotated[str | None, Field(description="file with the private key of the client certificate (PEM)")]
UserName = Annotated[str, Field(pattern=r"^\S{1,256}$")]


class TokenSettings(Settings):
    """A bearer token of a person, an operator, or a program such as Prometheus."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]{1,64}$")] = Field(
        description="name of the token in messages and logs"
    )
    token: SecretStr = Field(description="the token itself, at least 16 characters")
    user: UserName | None = Field(
        default=None, description="scheduler user whose jobs the token shows in detail; default: no user"
    )
    operator: bool = Field(
        default=False,
        description="whether the token shows all users' jobs, dead letters and the reasons why a role is not ready",
    )


class AccessSettings(Settings):
    """Access rules of the HTTP server; without tokens and user_header, everybody who reaches the port can read everything."""

    tokens: tuple[TokenSettings, ...] = Field(default=(), max_length=1000, description="accepted bearer tokens")
    user_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = Field(
        default=None,
        description="header in which an authenticating reverse proxy passes the user name, such as X-Forwarded-User",
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=("127.0.0.0/8", "::1"),
        max_length=100,
        description="addresses and networks of trusted proxies; user_header is ignored from all others",
    )
    operators: tuple[UserName, ...] = Field(
        default=(),
        max_length=1000,
        description="users who see all users' jobs, dead letters and the reasons why a role is not ready",
    )
    metrics: Literal["token", "open"] = Field(
        default="token", description="who can read /metrics: token for authenticated readers only, open for everybody"
    )

    @property
    def limits(self) -> bool:
        """Whether readers must authenticate."""
        return bool(self.tokens) or self.user_header is not None


def access_faults(settings: AccessSettings) -> Iterator[tuple[KeyPath, str]]:
    for index, text in enumerate(settings.trusted_proxies):
        try:
            ip_network(text, strict=False)
        except ValueError:
            message = f"{text[:64]!r} is not an address or network, such as 10.1.2.3 or 10.1.0.0/16."
            yield ("trusted_proxies", index), message
    if settings.user_header is not None and not settings.trusted_proxies:
        yield ("trusted_proxies",), "is empty, so user_header would be ignored from every address."
    if settings.operators and not settings.limits:
        yield ("operators",), "has no effect without tokens or user_header, because everybody can read everything."
    if (settings.user_header or "").lower() in ("authorization", "cookie", "host"):
        yield ("user_header",), f"cannot be {settings.user_header}, because that header holds no user name."
    yield from _token_faults(settings)


def _token_faults(settings: AccessSettings) -> Iterator[tuple[KeyPath, str]]:
    names = Counter(token.name for token in settings.tokens)
    secrets = Counter(token.token for token in settings.tokens)
    for index, token in enumerate(settings.tokens):
        path, secret = ("tokens", index), token.token.get_secret_value()
        if names[token.name] > 1:
            yield (*path, "name"), f"{token.name!r} is used by more than one token."
        if secret.startswith(REFERENCES) or not secret:
            continue  # skip an unresolved reference, or an error that was already reported
        if len(secret) < TOKEN_CHARACTERS_MIN:
            yield (*path, "token"), f"has fewer than {TOKEN_CHARACTERS_MIN} characters and could be guessed."
        elif not (secret.isascii() and secret.isprintable() and " " not in secret):
            message = "must be printable ASCII without spaces, because a header cannot carry other characters."
            yield (*path, "token"), message
        if secrets[token.token] > 1:
            yield (*path, "token"), "is used by more than one entry."


class CollectorSettings(Settings):
    """The collector role, which reads the sources and writes the journal."""

    tick_s: float = Field(default=0.2, gt=0, le=60, description="seconds between two time marks (ticks) in the journal")
    max_message_bytes: int = Field(
        default=4 * 1024 * 1024,
        ge=1024,
        le=64 * 1024 * 1024,
        description="maximum length of a message in bytes; longer messages become dead letters",
    )
    deadletter_bytes_per_s_max: int = Field(
        default=50_000,
        ge=0,
        le=100_000_000,
        description="maximum bytes of dead letters per second of each collector and of each journal partition, averaged over twenty minutes; "
        "further ones are only counted",
    )
    series_max: int = Field(
        default=200_000,
        ge=0,
        le=2_000_000,
        description="maximum number of host resources per source partition; further ones are counted and ignored",
    )
    late_max_s: float = Field(
        default=120.0,
        ge=0,
        le=600,
        description="maximum delay of a sample in seconds against newer samples of its partition; later samples are counted and ignored",
    )
    hold_back_max_s: float = Field(
        default=900.0,
        ge=0,
        le=86_400,
        description="maximum seconds that event time waits for late producers and for partitions that lag behind; 0: event time is the "
        "clock of the collectors",
    )


class LearnerSettings(Settings):
    """The learner role, which turns the journal into models, predictions and alerts."""

    checkpoint_interval_s: float = Field(default=10.0, gt=0, le=3600, description="seconds between two checkpoints")
    host_checkpoint_interval_s: float = Field(
        default=600.0,
        gt=0,
        le=86_400,
        description="seconds between two checkpoints of the large host state; after a restart, later records are read again",
    )
    deadline_s: float = Field(
        default=8.0, gt=0, le=600, description="maximum duration of a commit in seconds; after that the role restarts"
    )


class HttpSettings(Settings):
    """HTTP server with the pages, the metrics and the API; read-only."""

    host: str = Field(
        default="127.0.0.1",
        pattern=r"^\S{1,255}$",
        description="address to listen on; 0.0.0.0 serves all networks of the machine, unencrypted",
    )
    port: int = Field(default=8080, ge=0, le=65_535, description="port to listen on; 0: any free port")
    access: AccessSettings = AccessSettings()


class MetricsSettings(Settings):
    """Limits of the Prometheus metrics."""

    applications_max: int = Field(
        default=500,
        ge=0,
        le=100_000,
        description="maximum number of applications with their own series, most recently changed first",
    )
    sizes_max: ClassVar[int] = 16
    """Maximum number of sizes per application that get their own time series."""
    # 0 by default, because a node exporter already reports host metrics, and ten thousand hosts add a million time series
    hosts_max: int = Field(
        default=0,
        ge=0,
        le=20_000,
        description="maximum number of hosts with their own series, up to 225 each, anomalous hosts first",
    )


class EnergySettings(Settings):
    """Carbon intensity for `scalewatch report --energy`; use `reference.carbon` for values that change over time."""

    carbon_g_per_kwh: float | None = Field(
        default=None, ge=0, le=10_000, description="constant carbon intensity of electricity in g CO2e per kWh"
    )
    carbon_hold_s: float = Field(
        default=3600.0,
        gt=0,
        le=31 * 86_400,
        description="maximum seconds for which a value of `reference.carbon` holds without a later one; after that carbon is unknown",
    )


class PrivacySettings(Settings):
    """Protection of personal data."""

    users: Literal["hash", "drop", "plain"] = Field(
        default="hash",
        description="how user names are written and seen by rules: hash (keyed hash), drop (not at all) or plain",
    )
    salt: SecretStr = Field(
        default=SecretStr(""), description="key of the hash; without it, a hash can be reversed by trying all names"
    )


class LogSettings(Settings):
    """Log of the agent on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="minimum level of log lines"
    )
    format: Literal["text", "json"] = Field(
        default="text", description="text for people, or json with one object per line"
    )


class HttpLogin(Settings):
    """The log-in to a server over HTTP, and the certificates that the agent trusts there."""

    username: str | None = Field(default=None, max_length=256, description="user name for basic authentication")
    password: SecretStr | None = Field(default=None, description="password for basic authentication")
    token: SecretStr | None = Field(default=None, description="bearer token, instead of user name and password")
    ca_file: CaFile = None

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> Self:
        if self.token is not None and self.username is not None:
            raise ValueError("set token or username, not both")
        if (self.username is None) != (self.password is None):
            raise ValueError("set username and password together")
        return self


class SchemaText(Settings):
    """An Avro schema in the configuration."""

    id: int = Field(ge=0, le=NUMBER_MAX, description="schema id, as in the header of each message")
    text: str = Field(min_length=1, description="schema as JSON; {file: PATH} reads it from a file of up to 64 KiB")


class SchemaRegistrySettings(HttpLogin):
    """Avro schemas for sources with `encoding: avro`; schemas given here take precedence over the registry."""

    url: Url | None = Field(
        default=None,
        description="address of the schema registry, such as https://registry:8081; while it is unreachable, messages with unknown schemas "
        "wait in their topics. Default: no registry, and messages with unknown schemas become dead letters",
    )
    timeout_s: ClassVar[float] = 5.0
    """Timeout of a request; failed requests are retried later."""
    cert_file: CertFile = None
    key_file: KeyFile = None
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
    def _whole_certificate(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("set cert_file and key_file together")
        return self

    @cached_property
    def texts(self) -> dict[int, bytes]:
        """Configured schemas by schema id."""
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
            continue  # skip an unresolved reference
        try:
            plain_schema(schema.text.encode("utf-8", "replace"))
        except InvalidInputError as error:
            yield (*path, "text"), str(error)
