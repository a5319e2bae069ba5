"""Settings of what is read: the systems, and the topics of producers."""

from typing import Annotated, Literal

from pydantic import Field

from agent.contracts.settings import Settings

SystemName = Annotated[str, Field(pattern=r"^[!-~]{1,64}$")]
SourceTopic = Annotated[str, Field(pattern=r"^(\^.{1,248}|[A-Za-z0-9._-]{1,249})$")]


class System(Settings):
    """One system (cluster) that the agent looks after.

    >>> System(aliases=("exa-login",)).partition
    0
    """

    partition: int = Field(default=0, ge=0, description="partition of the journal that holds the system's events")
    aliases: tuple[SystemName, ...] = Field(default=(), description="other names that producers use for the system")


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
