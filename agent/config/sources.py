"""Settings of what is read: the systems, and the topics of producers."""

from typing import Annotated, Literal

from pydantic import Field

from processors.contracts.settings import Settings
from processors.contracts.telemetry import Keep, Telemetry

SystemName = Annotated[str, Field(pattern=r"^[!-~]{1,64}$")]
SourceFormat = Literal[
    "auto", "native", "slurm", "telegraf", "line-protocol", "ldms", "collectd", "nws", "cray", "sonar"
]
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
    system: SystemName | None = Field(
        default=None, description="the system of messages that name none; such messages are dead letters without it"
    )
    keep: Keep = Keep()
    telemetry: Telemetry = Telemetry()
