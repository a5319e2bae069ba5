"""The configuration as one frozen tree: every key, its default and its meaning. Unknown keys are refused.

The settings of the processors are in `agent.contracts.settings`; this nests them. `agent.config.load` reads a file
into this tree, and finds what no single key can show to be wrong.
"""

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr

from agent.contracts.settings import LONGEST_S, AlertSettings, IdentifySettings, JobSettings, RunTimeSettings, Settings
from agent.contracts.under_load import UnderLoadSettings

SystemName = Annotated[str, Field(pattern=r"^[!-~]{1,64}$")]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
SourceTopic = Annotated[str, Field(pattern=r"^(\^.{1,248}|[A-Za-z0-9._-]{1,249})$")]
GroupName = Annotated[str, Field(pattern=r"^[!-~]{1,249}$")]


class System(Settings):
    """One system (cluster) that the agent looks after.

    >>> System(aliases=("exa-login",)).partition
    0
    """

    partition: int = Field(default=0, ge=0, description="partition of the journal that holds the system's events")
    aliases: tuple[SystemName, ...] = Field(default=(), description="other names that producers use for the system")


class Security(Settings):
    """How to reach a broker that asks who is there.

    >>> Security(protocol="tls", password="secret").password
    SecretStr('**********')
    """

    protocol: Literal["plaintext", "tls", "sasl_plaintext", "sasl_tls"] = Field(
        default="plaintext", description="encryption and log-in; sasl_plaintext sends the password unencrypted"
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="how sasl_plaintext and sasl_tls log in"
    )
    username: str | None = Field(default=None, max_length=256, description="user name for sasl_plaintext and sasl_tls")
    password: SecretStr | None = Field(default=None, description="password for sasl_plaintext and sasl_tls")
    ca_file: str | None = Field(
        default=None, description="certificates to trust (PEM); none: those of the operating system"
    )
    cert_file: str | None = Field(default=None, description="certificate of this client (PEM), where the broker asks")
    key_file: str | None = Field(default=None, description="private key of this client (PEM)")


class KafkaSettings(Settings):
    """The brokers.

    >>> KafkaSettings().bootstrap
    '127.0.0.1:9092'
    """

    bootstrap: str = Field(
        default="127.0.0.1:9092",
        pattern=r"^[^\s,]+:\d{1,5}(\s*,\s*[^\s,]+:\d{1,5})*$",
        description="host:port of one or more brokers, separated by commas",
    )
    client_id: str = Field(
        default="scalewatch", pattern=r"^[A-Za-z0-9._-]{1,128}$", description="name in the brokers' logs and quotas"
    )
    security: Security = Security()
    compression: Literal["none", "gzip", "lz4", "zstd"] = Field(
        default="none", description="how what is written is compressed; lz4 and zstd need their Python packages"
    )
    session_timeout_s: float = Field(
        default=10.0, ge=1, le=1800, description="a process that is silent for so long loses its work to another one"
    )


class Keep(Settings):
    """Fields of jobs that are dropped when a message is decoded, unless asked for here.

    >>> Keep().script
    False
    """

    script: bool = Field(default=False, description="keep the batch script, so that rules can look into it")
    comment: bool = Field(default=False, description="keep the job's comment")
    paths: bool = Field(default=False, description="keep the job's working folder")


class Source(Settings):
    """Topics to read, all in one format.

    >>> Source(topics=("slurm.jobs", "^exa-job.*")).format
    'auto'
    """

    topics: tuple[SourceTopic, ...] = Field(
        min_length=1, description="names of topics; a text that starts with ^ is a regular expression over all names"
    )
    format: Literal["auto", "native", "slurm"] = Field(
        default="auto", description="format of the messages; auto looks at each message"
    )
    system: SystemName | None = Field(
        default=None, description="the system of messages that name none; such messages are dead letters without it"
    )
    keep: Keep = Keep()


def _named(name: str) -> Any:
    def default(validated: dict[str, Any]) -> str:
        return f"{validated.get('prefix', 'scalewatch')}.{name}"

    return Field(default_factory=default, description=f"default: the prefix, a full stop and {name}")


class TopicNames(Settings):
    """The agent's own topics.

    >>> TopicNames(prefix="hpc").job_predictions
    'hpc.job-predictions'
    """

    prefix: TopicName = Field(default="scalewatch", description="start of the names below where they are not given")
    journal: TopicName = _named("journal")
    predictions: TopicName = _named("predictions")
    job_predictions: TopicName = _named("job-predictions")
    answers: TopicName = _named("answers")
    alerts: TopicName = _named("alerts")
    runs: TopicName = _named("runs")
    state: TopicName = _named("state")
    deadletters: TopicName = _named("deadletters")
    journal_partitions: int = Field(
        default=1, ge=1, le=1000, description="shards: one learner each; every system belongs to one"
    )
    replication: int = Field(default=1, ge=1, le=100, description="copies of each topic that the agent creates")
    journal_retention_s: float = Field(
        default=7 * 86_400.0,
        ge=3600,
        le=LONGEST_S,
        description="a learner that stood longer than this has to be rebuilt",
    )
    answers_retention_s: float = Field(
        default=7 * 86_400.0, ge=60, le=LONGEST_S, description="how long answers can be read"
    )
    deadletters_retention_s: float = Field(
        default=30 * 86_400.0, ge=60, le=LONGEST_S, description="how long dead letters can be listed and sent again"
    )


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


class LearnerSettings(Settings):
    """The role that folds the journal into models, predictions and alerts.

    >>> LearnerSettings().checkpoint_interval_s
    10.0
    """

    group: GroupName = Field(default="scalewatch-learner", description="consumer group of all learners")
    checkpoint_interval_s: float = Field(default=10.0, gt=0, le=3600, description="time between two checkpoints")
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
        description="address to listen on; 0.0.0.0 serves every network the machine is in, without a log-in",
    )
    port: int = Field(default=8080, ge=0, le=65_535, description="port to listen on; 0 takes any free one")


class MetricsSettings(Settings):
    """Bounds of what Prometheus is shown.

    >>> MetricsSettings().applications_max
    500
    """

    applications_max: int = Field(
        default=500, ge=0, le=100_000, description="applications with series of their own, the latest changed first"
    )
    sizes_max: int = Field(default=16, ge=1, le=256, description="sizes of an application with series of their own")


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


class Config(Settings):
    """The whole configuration.

    >>> Config().topics.deadletters
    'scalewatch.deadletters'
    >>> Config(systems={"exa": System(aliases=("exa-login",))}).identification.systems_by_alias
    {'exa-login': 'exa'}
    """

    systems: dict[SystemName, System] = Field(
        default_factory=dict, description="the systems by name; none: every system is accepted, all in partition 0"
    )
    other_systems: Literal["reject", "accept"] | None = Field(
        default=None,
        description="what to do with events of other systems: dead letters, or partition 0; "
        "not given: accept without systems, reject with them",
    )
    kafka: KafkaSettings = KafkaSettings()
    sources: tuple[Source, ...] = Field(default=(), description="what to read")
    topics: TopicNames = TopicNames()
    identify: IdentifySettings = IdentifySettings()
    jobs: JobSettings = JobSettings()
    run_time: RunTimeSettings = RunTimeSettings()
    under_load: UnderLoadSettings = UnderLoadSettings()
    alerts: AlertSettings = AlertSettings()
    collector: CollectorSettings = CollectorSettings()
    learner: LearnerSettings = LearnerSettings()
    http: HttpSettings = HttpSettings()
    metrics: MetricsSettings = MetricsSettings()
    privacy: PrivacySettings = PrivacySettings()
    log: LogSettings = LogSettings()

    @cached_property
    def identification(self) -> IdentifySettings:
        """The settings of identification with the aliases of all systems in them."""
        aliases = {alias: name for name, system in self.systems.items() for alias in system.aliases}
        return self.identify.model_copy(update={"systems_by_alias": {**self.identify.systems_by_alias, **aliases}})

    @property
    def accepts_other_systems(self) -> bool:
        """Whether events of a system that is not listed are taken."""
        return self.other_systems == "accept" if self.other_systems else not self.systems

    @cached_property
    def partitions_by_system(self) -> dict[str, int]:
        """The journal's partition of each listed system and of each of its aliases."""
        names = {name: name for name in self.systems} | self.identification.systems_by_alias
        return {alias: self.systems[name].partition for alias, name in names.items() if name in self.systems}

    def journal_partition(self, system: str) -> int | None:
        """Return the journal's partition for a system or one of its aliases; None where it is not accepted.

        >>> Config().journal_partition("anything")
        0
        >>> Config(systems={"exa": System(partition=0)}).journal_partition("other") is None
        True
        """
        return self.partitions_by_system.get(system, 0 if self.accepts_other_systems else None)
