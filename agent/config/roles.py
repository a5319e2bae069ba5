"""Settings of the roles: collector and learner, the port that readers use, and what is shown, written and logged."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from agent.config.access import AccessSettings
from agent.contracts.settings import Settings

GroupName = Annotated[str, Field(pattern=r"^[!-~]{1,249}$")]


class CollectorSettings(Settings):
    """The role that reads the sources and writes the journal.

    >>> CollectorSettings().tick_s
    1.0
    """

    group: GroupName = Field(default="scalewatch-collector", description="consumer group of all collectors")
    poll_records_max: int = Field(default=2000, ge=1, le=100_000, description="records of one batch")
    tick_s: float = Field(default=1.0, gt=0, le=60, description="how often the time is written into the journal")
    max_message_bytes: int = Field(
        default=4 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="longer messages are dead letters"
    )
    flush_timeout_s: float = Field(
        default=30.0, gt=0, le=600, description="a write that takes longer is unknown: the role starts again"
    )
    commit_s: float = Field(
        default=1.0, ge=0, le=60, description="time between two commits; after a crash so much is written again"
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


class LearnerSettings(Settings):
    """The role that folds the journal into models, predictions and alerts.

    >>> LearnerSettings().checkpoint_interval_s
    10.0
    """

    group: GroupName = Field(default="scalewatch-learner", description="consumer group of all learners")
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
    deadline_s: float = Field(
        default=8.0, gt=0, le=600, description="a commit that takes longer is given up and the role starts again"
    )


class HttpSettings(Settings):
    """The page, the metrics and the API; reads only.

    >>> HttpSettings().port
    8080
    """

    host: str = Field(
        default="127.0.0.1",
        pattern=r"^\S{1,255}$",
        description="address to listen on; 0.0.0.0 serves every network the machine is in, unencrypted",
    )
    port: int = Field(default=8080, ge=0, le=65_535, description="port to listen on; 0 takes any free one")
    access: AccessSettings = AccessSettings()


class MetricsSettings(Settings):
    """Bounds of what Prometheus is shown.

    >>> MetricsSettings().applications_max
    500
    """

    applications_max: int = Field(
        default=500, ge=0, le=100_000, description="applications with series of their own, the latest changed first"
    )
    sizes_max: int = Field(default=16, ge=1, le=256, description="sizes of an application with series of their own")
    # none by default: a node exporter shows what hosts measure, and ten thousand hosts have a million series here
    hosts_max: int = Field(
        default=0,
        ge=0,
        le=20_000,
        description="hosts whose five-minute windows have series of their own, up to 177 each; those with anomalies first",
    )


class PrivacySettings(Settings):
    """What is written of people.

    >>> PrivacySettings().users
    'hash'
    """

    users: Literal["hash", "drop", "plain"] = Field(
        default="hash",
        description="how user names are written, and seen by rules: as a keyed hash, not at all, or as they are",
    )
    salt: SecretStr = Field(
        default=SecretStr(""), description="key of the hash; without one a hash can be traced by trying all names"
    )


class LogSettings(Settings):
    """The agent's own log, on standard error.

    >>> LogSettings().level
    'info'
    """

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="the least level shown")
    format: Literal["text", "json"] = Field(default="text", description="for people, or one JSON object per line")
