"""Settings of the brokers, and the names of the agent's own topics."""

from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr

from agent.contracts.settings import LONGEST_S, Settings

TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


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
