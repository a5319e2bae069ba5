"""The configuration as one frozen tree: every key, its default and its meaning. Unknown keys are refused.

What it nests: the settings of the processors (`agent.contracts`), of the brokers, the sources and the roles (beside this
file). `agent.config.load` reads a file into this tree, and finds what no single key can show to be wrong.
"""

import hashlib
import re
from functools import cached_property
from string import Formatter
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import Field, SecretStr, field_validator, model_validator

from agent.config.references import ReferenceSettings
from agent.config.roles import (
    CollectorSettings,
    EnergySettings,
    HttpSettings,
    LearnerSettings,
    LogSettings,
    MetricsSettings,
    PrivacySettings,
)
from agent.config.schemas import SchemaRegistrySettings
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
"""The key of `keep` by the field of a job that is dropped without it."""
SourceTopic = Annotated[str, Field(pattern=r"^(\^.{1,248}|[A-Za-z0-9._-]{1,249})$")]


class System(Settings):
    """One system (cluster) that the agent looks after."""

    partition: int = Field(default=0, ge=0, description="partition of the journal that holds the system's events")
    aliases: tuple[SystemName, ...] = Field(default=(), description="other names that producers use for the system")


class Source(Settings):
    """Topics to read, all in one format."""

    topics: tuple[SourceTopic, ...] = Field(
        min_length=1, description="names of topics; a text that starts with ^ is a regular expression over all names"
    )
    format: SourceFormat = Field(default="auto", description="format of the messages; auto looks at each message")
    encoding: Literal["plain", "avro"] = Field(
        default="plain",
        description="avro: messages are records of Avro in Confluent's wire format, whose schemas schema_registry has; the format is that of "
        "the record as JSON",
    )
    system: SystemName | None = Field(
        default=None, description="the system of messages that name none; such messages are dead letters without it"
    )
    silent_s: float = Field(
        default=SILENT_S,
        gt=0,
        le=LONGEST_S,
        description="a topic without a message for so long is silent: on the pages, and for the alert ScalewatchSourceSilent",
    )
    keep: Keep = Keep()
    telemetry: Telemetry = Telemetry()


TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class Security(Settings):
    """How to reach a broker that asks who is there."""

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
    """The brokers."""

    bootstrap: str = Field(
        default="127.0.0.1:9092",
        pattern=r"^[^\s,]+:\d{1,5}(\s*,\s*[^\s,]+:\d{1,5})*$",
        description="host:port of one or more brokers, separated by commas",
    )
    client: Literal["auto", "kafka-python", "confluent"] = Field(
        default="auto",
        description="the client library: confluent is faster and comes with `pip install scalewatch[fast]`; auto takes it where "
        "it is installed",
    )
    client_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,128}$")] | None = Field(
        default=None, description="name in the brokers' logs and quotas; default: topics.prefix"
    )
    security: Security = Security()
    compression: Literal["none", "gzip", "lz4", "zstd"] = Field(
        default="none", description="how what is written is compressed; lz4 and zstd need their Python packages"
    )
    session_timeout_s: float = Field(
        default=10.0, ge=1, le=1800, description="a process that is silent for so long loses its work to another one"
    )


def _named(name: str) -> Any:
    def default(validated: dict[str, Any]) -> str:
        return f"{validated.get('prefix', 'scalewatch')}.{name}"

    return Field(default_factory=default, description=f"default: the prefix, a full stop and {name}")


class TopicNames(Settings):
    """The agent's own topics."""

    prefix: TopicName = Field(
        default="scalewatch",
        description="start of the names below, of the consumer groups and of the name towards the brokers, where they are "
        "not given: two agents on one cluster need two",
    )
    journal: TopicName = _named("journal")
    predictions: TopicName = _named("predictions")
    job_predictions: TopicName = _named("job-predictions")
    answers: TopicName = _named("answers")
    alerts: TopicName = _named("alerts")
    runs: TopicName = _named("runs")
    hosts: TopicName = _named("hosts")
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


Url = Annotated[str, Field(pattern=r"^https?://[^\s/]{1,255}(/\S{0,255})?$")]


class AlertmanagerSettings(Settings):
    """Alertmanagers that are reported alerts, besides the topic of alerts."""

    urls: tuple[Url, ...] = Field(
        default=(),
        max_length=16,
        description="Alertmanagers, without /api/v2; all members of a cluster receive alerts. None: alerts go to their topic only",
    )
    resend_s: float = Field(
        default=60.0,
        ge=5,
        le=3600,
        description="firing alerts are sent again this often; after four times as long without, Alertmanager resolves them",
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


class PagesSettings(Settings):
    """Links of the pages to what the centre has besides."""

    grafana_url: Url | None = Field(
        default=None,
        description="where people reach Grafana with the dashboards of deploy/grafana; each page then leads to the one about it",
    )
    job_portal: Url | None = Field(
        default=None,
        description="address of a job in a portal of yours, with {job_id} and, where it is needed, {system} in it, such as "
        "https://portal/jobs/{job_id}; pages of jobs then lead there",
    )

    @field_validator("job_portal")
    @classmethod
    def _names_the_job(cls, template: str | None) -> str | None:
        try:
            parts = list(Formatter().parse(template or "{job_id}"))
        except ValueError:
            raise ValueError("has a brace that does not close") from None
        names = {name for _, name, _, _ in parts if name is not None}
        if "job_id" not in names or names - {"job_id", "system"} or any(form or turned for _, _, form, turned in parts):
            raise ValueError("needs {job_id} in it, may have {system}, and nothing else in braces")
        return template


class Config(Settings):
    """The whole configuration."""

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
    def identification(self) -> IdentifySettings:
        """The settings of identification with the aliases of all systems in them."""
        aliases = {alias: name for name, system in self.systems.items() for alias in system.aliases}
        return self.identify.model_copy(update={"systems_by_alias": {**self.identify.systems_by_alias, **aliases}})

    @cached_property
    def retained(self) -> Keep:
        """What is kept of jobs from files, and of jobs that are asked about: what a source keeps.

        Without sources it is what rules look at.
        """
        if self.sources:
            return Keep(**{key: any(getattr(one.keep, key) for one in self.sources) for key in KEEP_BY_FIELD.values()})
        matched = {field for rule in self.identify.rules for field in rule.match}
        return Keep(**{key: field in matched for field, key in KEEP_BY_FIELD.items()})

    @property
    def dropped_fields(self) -> dict[str, str]:
        """The fields of jobs that are not kept, each with the key of `keep` that would keep it."""
        return {field: key for field, key in KEEP_BY_FIELD.items() if not getattr(self.retained, key)}

    @property
    def collector_group(self) -> str:
        """The consumer group of all collectors."""
        return self.collector.group or f"{self.topics.prefix}-collector"

    @property
    def learner_group(self) -> str:
        """The consumer group of all learners."""
        return self.learner.group or f"{self.topics.prefix}-learner"

    @property
    def client_id(self) -> str:
        """The name in the brokers' logs and quotas."""
        return self.kafka.client_id or self.topics.prefix

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
        """Return the journal's partition for a system or one of its aliases; None where it is not accepted."""
        return self.partitions_by_system.get(system, 0 if self.accepts_other_systems else None)


# The hash of what the learner's state depends on. Checkpoints carry it.
SECTIONS: Final = ("systems", "identify", "jobs", "run_time", "alerts")
TOPICS: Final = ("journal", "journal_partitions")


def config_hash(config: Config) -> str:
    """Return 16 hexadecimal digits that are equal where the learner's state means the same.

    Secrets, hosts, ports, names of other topics and whatever only concerns the roles' pace are no part of it.
    """
    plain = config.model_dump(mode="json", include={**dict.fromkeys(SECTIONS, True), "topics": set(TOPICS)})
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:16]
