"""The configuration as one frozen tree of sections, with the default and the description of each key.

The tree contains the settings of processors (`processors.contracts`) and the settings of brokers, sources and roles.
`agent.config.load` reads a file into this tree and reports contradictions between keys.
"""

import hashlib
import re
from functools import cached_property
from string import Formatter
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from pydantic import Field, SecretStr, field_validator

from agent.config.references import ReferenceSettings
from agent.config.roles import (
    CaFile,
    CertFile,
    CollectorSettings,
    EnergySettings,
    HttpLogin,
    HttpSettings,
    KeyFile,
    LearnerSettings,
    LogSettings,
    MetricsSettings,
    PrivacySettings,
    SchemaRegistrySettings,
    Url,
)
from processors.contracts.alerts import AlertSettings
from processors.contracts.hosts import HostSettings
from processors.contracts.load import UnderLoadSettings
from processors.contracts.service import SILENT_S
from processors.contracts.settings import (
    LONGEST_S,
    FeatureSettings,
    IdentifySettings,
    JobSettings,
    ProfileSettings,
    RunTimeSettings,
    Settings,
)
from processors.contracts.telemetry import Keep, Telemetry

SYSTEM_NAME: Final = re.compile("[!-~]{1,64}")
SystemName = Annotated[str, Field(pattern=f"^{SYSTEM_NAME.pattern}$")]
SourceFormat = Literal[
    "auto",
    "native",
    "slurm",
    "telegraf",
    "line-protocol",
    "ldms",
    "collectd",
    "nws",
    "cray",
    "sonar",
    "prometheus",
    "otlp",
    "examon",
    "xalt",
    "sacct-json",
    "pbs",
]
KEEP_BY_FIELD: Final = {"script": "script", "comment": "comment", "work_dir": "paths"}
"""The key of `keep` that retains a job field, by job field."""
SourceTopic = Annotated[str, Field(pattern=r"^(\^.{1,248}|[A-Za-z0-9._-]{1,249})$")]


class System(Settings):
    """A system (cluster) of the centre."""

    partition: int = Field(default=0, ge=0, description="journal partition for the events of this system")
    aliases: tuple[SystemName, ...] = Field(default=(), description="other names of the system in events")


class Source(Settings):
    """Source topics with one format."""

    topics: tuple[SourceTopic, ...] = Field(
        min_length=1,
        description="topic names; an entry that starts with ^ is a regular expression over all topic names",
    )
    format: SourceFormat = Field(
        default="auto", description="format of the messages; auto recognises it from each message"
    )
    encoding: Literal["plain", "avro"] = Field(
        default="plain",
        description="encoding of the messages; avro is Confluent's wire format with schemas from schema_registry, and format then "
        "describes the decoded record",
    )
    system: SystemName | None = Field(
        default=None, description="system of messages that name none; without it such messages become dead letters"
    )
    silent_s: float = Field(
        default=SILENT_S,
        gt=0,
        le=LONGEST_S,
        description="seconds without a message after which a topic counts as silent, on the pages and for the alert ScalewatchSourceSilent",
    )
    keep: Keep = Keep()
    telemetry: Telemetry = Telemetry()


TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class Security(Settings):
    """Encryption and log-in for the brokers."""

    protocol: Literal["plaintext", "tls", "sasl_plaintext", "sasl_tls"] = Field(
        default="plaintext",
        description="encryption (tls) and log-in (sasl); sasl_plaintext sends user name and data unencrypted",
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="SASL mechanism for sasl_plaintext and sasl_tls"
    )
    username: str | None = Field(default=None, max_length=256, description="user name for sasl_plaintext and sasl_tls")
    password: SecretStr | None = Field(default=None, description="password for sasl_plaintext and sasl_tls")
    ca_file: CaFile = None
    cert_file: CertFile = None
    key_file: KeyFile = None


class KafkaSettings(Settings):
    """Connection to the Kafka brokers."""

    bootstrap: str = Field(
        default="127.0.0.1:9092",
        pattern=r"^[^\s,]+:\d{1,5}(\s*,\s*[^\s,]+:\d{1,5})*$",
        description="one or more brokers as host:port, separated by commas",
    )
    client: Literal["auto", "kafka-python", "confluent"] = Field(
        default="auto",
        description="client library; confluent is faster and needs `pip install scalewatch[fast]`; auto uses it if it is installed",
    )
    security: Security = Security()
    compression: Literal["none", "gzip", "lz4", "zstd"] = Field(
        default="none", description="compression of written records; lz4 and zstd need their Python packages"
    )
    session_timeout_s: float = Field(
        default=10.0,
        ge=1,
        le=1800,
        description="seconds without a heartbeat after which the brokers give a process's partitions to another one",
    )


def _named(name: str) -> Any:
    def default(validated: dict[str, Any]) -> str:
        return f"{validated.get('prefix', 'scalewatch')}.{name}"

    return Field(default_factory=default, description=f"topic name; default: PREFIX.{name}")


class _TopicOfPrefix(str):
    """The name of an output topic without its prefix; a descriptor in TopicNames that returns the name with the prefix."""

    __slots__ = ()

    def __get__(self, names: "TopicNames", _owner: type) -> str:
        return f"{names.prefix}.{self}"


class TopicNames(Settings):
    """Names and settings of the agent's own topics."""

    prefix: TopicName = Field(
        default="scalewatch",
        description="prefix of the default topic names, consumer groups and client name; two agents on one Kafka cluster need different "
        "prefixes",
    )
    journal: TopicName = _named("journal")
    state: TopicName = _named("state")
    predictions: ClassVar = _TopicOfPrefix("predictions")
    job_predictions: ClassVar = _TopicOfPrefix("job-predictions")
    answers: ClassVar = _TopicOfPrefix("answers")
    alerts: ClassVar = _TopicOfPrefix("alerts")
    runs: ClassVar = _TopicOfPrefix("runs")
    hosts: ClassVar = _TopicOfPrefix("hosts")
    deadletters: ClassVar = _TopicOfPrefix("deadletters")
    journal_partitions: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="number of journal partitions (shards), each with its own learner; each system belongs to one",
    )
    replication: int = Field(default=1, ge=1, le=100, description="replication factor of topics that the agent creates")
    journal_retention_s: float = Field(
        default=7 * 86_400.0,
        ge=3600,
        le=LONGEST_S,
        description="retention of the journal in seconds; a learner that was down for longer needs a rebuild",
    )
    answers_retention_s: float = Field(
        default=7 * 86_400.0, ge=60, le=LONGEST_S, description="retention of answers in seconds"
    )
    deadletters_retention_s: float = Field(
        default=30 * 86_400.0, ge=60, le=LONGEST_S, description="retention of dead letters in seconds"
    )


class AlertmanagerSettings(HttpLogin):
    """Alertmanagers that receive the alerts, in addition to the topic of alerts."""

    urls: tuple[Url, ...] = Field(
        default=(),
        max_length=16,
        description="addresses of the Alertmanagers, without /api/v2; list all members of a cluster. Empty: alerts go to their topic only",
    )
    resend_s: ClassVar[float] = 60.0
    """Interval for sending firing alerts again; Alertmanager resolves an alert that was not repeated for four intervals."""
    timeout_s: ClassVar[float] = 10.0
    """Timeout of a request; failed requests are retried later."""
    external_url: Url | None = Field(
        default=None, description="public address of the agent's pages; alerts then link to them"
    )


class PagesSettings(Settings):
    """Links from the pages to other tools of the centre."""

    grafana_url: Url | None = Field(
        default=None,
        description="address of Grafana with the dashboards of deploy/grafana; the pages then link to their dashboards",
    )
    job_portal: Url | None = Field(
        default=None,
        description="address of a job in your job portal with the placeholder {job_id} and optionally {system}, such as "
        "https://portal/jobs/{job_id}; the pages of jobs then link to it",
    )

    @field_validator("job_portal")
    @classmethod
    def _names_the_job(cls, template: str | None) -> str | None:
        try:
            parts = list(Formatter().parse(template or "{job_id}"))
        except ValueError:
            raise ValueError("has an unmatched brace") from None
        names = {name for _, name, _, _ in parts if name is not None}
        if "job_id" not in names or names - {"job_id", "system"} or any(form or turned for _, _, form, turned in parts):
            raise ValueError("must contain {job_id}, may contain {system}, and no other placeholder")
        return template


class Config(Settings):
    """The configuration file."""

    systems: dict[SystemName, System] = Field(
        default_factory=dict, description="systems by name; empty: every system is accepted, in journal partition 0"
    )
    other_systems: Literal["reject", "accept"] | None = Field(
        default=None,
        description="whether events of unlisted systems become dead letters (reject) or go to journal partition 0 (accept); default: "
        "reject if systems are listed",
    )
    kafka: KafkaSettings = KafkaSettings()
    sources: tuple[Source, ...] = Field(default=(), description="source topics with their formats")
    schema_registry: SchemaRegistrySettings = SchemaRegistrySettings()
    reference: ReferenceSettings = ReferenceSettings()
    topics: TopicNames = TopicNames()
    identify: IdentifySettings = IdentifySettings()
    jobs: JobSettings = JobSettings()
    run_time: RunTimeSettings = RunTimeSettings()
    hosts: HostSettings = HostSettings()
    under_load: UnderLoadSettings = UnderLoadSettings()
    profiles: ProfileSettings = ProfileSettings()
    features: FeatureSettings = FeatureSettings()
    alerts: AlertSettings = AlertSettings()
    collector: CollectorSettings = CollectorSettings()
    learner: LearnerSettings = LearnerSettings()
    http: HttpSettings = HttpSettings()
    pages: PagesSettings = PagesSettings()
    metrics: MetricsSettings = MetricsSettings()
    alertmanager: AlertmanagerSettings = AlertmanagerSettings()
    energy: EnergySettings = EnergySettings()
    privacy: PrivacySettings = PrivacySettings()
    log: LogSettings = LogSettings()

    @cached_property
    def systems_by_alias(self) -> dict[str, str]:
        return {alias: name for name, system in self.systems.items() for alias in system.aliases}

    @cached_property
    def retained(self) -> Keep:
        """Job fields to retain in jobs from files and in requests: each field that at least one source retains.

        If no sources are configured, the fields that rules match on are retained.
        """
        if self.sources:
            return Keep(
                **{key: any(getattr(source.keep, key) for source in self.sources) for key in KEEP_BY_FIELD.values()}
            )
        matched = {field for rule in self.identify.rules for field in rule.match}
        return Keep(**{key: field in matched for field, key in KEEP_BY_FIELD.items()})

    @property
    def dropped_fields(self) -> dict[str, str]:
        """Maps each dropped job field to the configuration key that would retain the field."""
        return {field: key for field, key in KEEP_BY_FIELD.items() if not getattr(self.retained, key)}

    @property
    def collector_group(self) -> str:
        return f"{self.topics.prefix}-collector"

    @property
    def learner_group(self) -> str:
        return f"{self.topics.prefix}-learner"

    @cached_property
    def partitions_by_system(self) -> dict[str, int]:
        """Journal partition by system name and by alias."""
        return {
            name: system.partition for own_name, system in self.systems.items() for name in (own_name, *system.aliases)
        }

    def journal_partition(self, system: str) -> int | None:
        """Return the journal partition of a system or alias; None if the agent does not accept the system."""
        accepts_others = self.other_systems == "accept" if self.other_systems else not self.systems
        return self.partitions_by_system.get(system, 0 if accepts_others else None)


# sections on which the learner's state depends; checkpoints carry a hash of these sections
SECTIONS: Final = ("systems", "identify", "jobs", "run_time", "alerts")
TOPICS: Final = ("journal", "journal_partitions")


def config_hash(config: Config) -> str:
    """Return a hash of 16 hexadecimal digits over the settings on which the learner's state depends.

    Secrets, addresses, names of other topics and timings of the roles do not change the hash.
    """
    plain = config.model_dump(mode="json", include={**dict.fromkeys(SECTIONS, True), "topics": set(TOPICS)})
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:16]
