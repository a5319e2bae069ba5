"""Settings of the roles: collector and learner, the port that readers use, and what is shown, written and logged."""

from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr

from agent.config.yaml import KeyPath
from processors.contracts.settings import Settings

TOKEN_CHARACTERS_MIN: Final = 16
UserName = Annotated[str, Field(pattern=r"^\S{1,256}$")]


class TokenSettings(Settings):
    """Someone who shows a bearer token: a person, an operator, or a program such as Prometheus."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]{1,64}$")] = Field(description="what to call it here")
    token: SecretStr = Field(description="the token, at least 16 characters")
    user: UserName | None = Field(
        default=None, description="whose jobs it shows in detail: a user name of the scheduler; none: nobody's"
    )
    operator: bool = Field(
        default=False, description="whether it shows everybody's jobs, dead letters and why a role is not ready"
    )


class AccessSettings(Settings):
    """Who may read what over HTTP. Without tokens and without a header everybody who reaches the port reads everything."""

    tokens: tuple[TokenSettings, ...] = Field(
        default=(), max_length=1000, description="tokens that are taken (Authorization: Bearer)"
    )
    user_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = Field(
        default=None,
        description="header in which a reverse proxy with a log-in passes the user name, such as X-Forwarded-User",
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=("127.0.0.0/8", "::1"),
        max_length=100,
        description="addresses and networks of the proxies whose header is believed; from all others it is ignored",
    )
    operators: tuple[UserName, ...] = Field(
        default=(),
        max_length=1000,
        description="user names that see everybody's jobs, dead letters and why a role is not ready",
    )
    metrics: Literal["token", "open"] = Field(
        default="token", description="who reads /metrics: whoever may read the pages, or everybody"
    )

    @property
    def limits(self) -> bool:
        """Whether anybody is kept from anything."""
        return bool(self.tokens) or self.user_header is not None


def access_faults(settings: AccessSettings) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path of a key below the section and what is wrong with it."""
    for index, text in enumerate(settings.trusted_proxies):
        if not _network(text):
            yield (
                ("trusted_proxies", index),
                f"{text[:64]!r} is no address and no network, such as 10.1.2.3 or 10.1.0.0/16.",
            )
    if settings.user_header is not None and not settings.trusted_proxies:
        yield ("trusted_proxies",), "is empty: nobody's user_header would be believed."
    if settings.operators and not settings.limits:
        yield ("operators",), "has no use without tokens or a user_header: everybody reads everything."
    if (settings.user_header or "").lower() in ("authorization", "cookie", "host"):
        yield ("user_header",), f"cannot be {settings.user_header}, which holds no user name."
    yield from _token_faults(settings)


def _token_faults(settings: AccessSettings) -> Iterator[tuple[KeyPath, str]]:
    names = Counter(token.name for token in settings.tokens)
    secrets = Counter(token.token for token in settings.tokens)
    for index, token in enumerate(settings.tokens):
        path, secret = ("tokens", index), token.token.get_secret_value()
        if names[token.name] > 1:
            yield (*path, "name"), f"{token.name!r} is the name of more than one token."
        if secret.startswith(("${env:", "{file:")) or not secret:
            continue  # a reference that was not looked up, or one that was told already
        if len(secret) < TOKEN_CHARACTERS_MIN:
            yield (*path, "token"), f"is shorter than {TOKEN_CHARACTERS_MIN} characters: it could be guessed."
        elif not (secret.isascii() and secret.isprintable() and " " not in secret):
            yield (
                (*path, "token"),
                "has to be of printable ASCII characters without spaces: a header cannot carry others.",
            )
        if secrets[token.token] > 1:
            yield (*path, "token"), "is the token of more than one entry."


def _network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


GroupName = Annotated[str, Field(pattern=r"^[!-~]{1,249}$")]


class CollectorSettings(Settings):
    """The role that reads the sources and writes the journal."""

    group: GroupName | None = Field(
        default=None, description="consumer group of all collectors; default: topics.prefix, a dash and collector"
    )
    poll_records_max: int = Field(default=2000, ge=1, le=100_000, description="records of one batch")
    tick_s: float = Field(default=0.2, gt=0, le=60, description="how often the time is written into the journal")
    max_message_bytes: int = Field(
        default=4 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="longer messages are dead letters"
    )
    flush_timeout_s: float = Field(
        default=30.0, gt=0, le=600, description="a write that takes longer is unknown: the role starts again"
    )
    commit_s: float = Field(
        default=1.0, ge=0, le=60, description="time between two commits; after a crash so much is written again"
    )
    deadletter_bytes_per_s_max: int = Field(
        default=50_000,
        ge=0,
        le=100_000_000,
        description="dead letters that one collector writes, on average over twenty minutes; beyond that they are counted only",
    )
    series_max: int = Field(
        default=200_000,
        ge=0,
        le=2_000_000,
        description="resources of hosts that have windows, in each partition of a source; more are counted and left out",
    )
    late_max_s: float = Field(
        default=120.0,
        ge=0,
        le=600,
        description="samples that come later than others of their partition by more are counted and left out",
    )
    hold_back_max_s: float = Field(
        default=900.0,
        ge=0,
        le=86_400,
        description="time waits at most so long for samples whose producers write them late, and for a partition that is read "
        "again after time went on without it; 0: time is the clock of the collectors, whatever waits to be read",
    )


class LearnerSettings(Settings):
    """The role that folds the journal into models, predictions and alerts."""

    group: GroupName | None = Field(
        default=None, description="consumer group of all learners; default: topics.prefix, a dash and learner"
    )
    checkpoint_interval_s: float = Field(default=10.0, gt=0, le=3600, description="time between two checkpoints")
    host_checkpoint_interval_s: float = Field(
        default=600.0,
        gt=0,
        le=86_400,
        description="time between two checkpoints of what is learned of hosts, which is large; what came since is read "
        "again after a restart",
    )
    checkpoint_records_max: int = Field(
        default=20_000, ge=1, le=1_000_000, description="a checkpoint comes after this many records at the latest"
    )
    flush_timeout_s: float = Field(
        default=30.0, gt=0, le=600, description="a write that takes longer is unknown: the role starts again"
    )
    deadletter_bytes_per_s_max: int = Field(
        default=50_000,
        ge=0,
        le=100_000_000,
        description="dead letters that a learner writes of one journal partition, on average over twenty minutes of event "
        "time; beyond that they are counted only",
    )
    deadline_s: float = Field(
        default=8.0, gt=0, le=600, description="a commit that takes longer is given up and the role starts again"
    )


class HttpSettings(Settings):
    """The page, the metrics and the API; reads only."""

    host: str = Field(
        default="127.0.0.1",
        pattern=r"^\S{1,255}$",
        description="address to listen on; 0.0.0.0 serves every network the machine is in, unencrypted",
    )
    port: int = Field(default=8080, ge=0, le=65_535, description="port to listen on; 0 takes any free one")
    access: AccessSettings = AccessSettings()


class MetricsSettings(Settings):
    """Bounds of what Prometheus is shown."""

    applications_max: int = Field(
        default=500, ge=0, le=100_000, description="applications with series of their own, the latest changed first"
    )
    sizes_max: int = Field(default=16, ge=1, le=256, description="sizes of an application with series of their own")
    members: bool = Field(
        default=False,
        description="series of the laws of run time, their weights and errors, of the hundred applications with the most runs: "
        "up to 84 of each; two panels of the dashboards need them",
    )
    # none by default: a node exporter shows what hosts measure, and ten thousand hosts have a million series here
    hosts_max: int = Field(
        default=0,
        ge=0,
        le=20_000,
        description="hosts whose five-minute windows have series of their own, up to 225 each; those with anomalies first",
    )


class EnergySettings(Settings):
    """What `scalewatch report --energy` reckons carbon with; `reference.carbon` has intensities that change over time."""

    carbon_g_per_kwh: float | None = Field(
        default=None, ge=0, le=10_000, description="carbon of electricity in g CO2e per kWh, the same at all times"
    )
    carbon_hold_s: float = Field(
        default=3600.0,
        gt=0,
        le=31 * 86_400,
        description="how long an intensity of `reference.carbon` holds at most where no later one follows; after it carbon is unknown",
    )


class PrivacySettings(Settings):
    """What is written of people."""

    users: Literal["hash", "drop", "plain"] = Field(
        default="hash",
        description="how user names are written, and seen by rules: as a keyed hash, not at all, or as they are",
    )
    salt: SecretStr = Field(
        default=SecretStr(""), description="key of the hash; without one a hash can be traced by trying all names"
    )


class LogSettings(Settings):
    """The agent's own log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="the least level shown")
    format: Literal["text", "json"] = Field(default="text", description="for people, or one JSON object per line")
