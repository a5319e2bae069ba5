"""Settings of what is read: the systems, and the topics of producers."""

from typing import Annotated, Literal

from pydantic import Field

from processors.contracts.settings import Settings
from processors.contracts.telemetry import TAKEN

SystemName = Annotated[str, Field(pattern=r"^[!-~]{1,64}$")]
SourceFormat = Literal[
    "auto", "native", "slurm", "telegraf", "line-protocol", "ldms", "collectd", "nws", "cray", "sonar"
]
ResourceName = Annotated[str, Field(pattern=r"^[!-\"$-=?-~]{1,128}$")]  # a > stands before a peer, a # before a job
SourceTopic = Annotated[str, Field(pattern=r"^(\^.{1,248}|[A-Za-z0-9._-]{1,249})$")]


class System(Settings):
    """One system (cluster) that the agent looks after."""

    partition: int = Field(default=0, ge=0, description="partition of the journal that holds the system's events")
    aliases: tuple[SystemName, ...] = Field(default=(), description="other names that producers use for the system")


class Keep(Settings):
    """Fields of jobs that are dropped when a message is decoded, unless asked for here."""

    script: bool = Field(default=False, description="keep the batch script, so that rules can look into it")
    comment: bool = Field(default=False, description="keep the job's comment")
    paths: bool = Field(default=False, description="keep the job's working folder")


class MetricMapping(Settings):
    """How a metric of a producer becomes a resource of its host; goes before what the agent knows of the producer."""

    measurement: str = Field(
        min_length=1,
        max_length=256,
        description="name of the records: a plugin of Telegraf, plugin/type/type_instance of collectd, ldms for rows of LDMS",
    )
    field: str = Field(
        min_length=1,
        max_length=256,
        description="name of the value in these records; one that ends in * stands for all that begin so",
    )
    resource: ResourceName = Field(
        description="the resource it becomes; one that ends in _total is cumulative and passes as it is, one that ends in _w is "
        "a power in watts, whose energy is told by the minute"
    )
    unit: Literal["percent", "KiB", "MiB", "ms", "Mbit/s"] | None = Field(
        default=None, description="the producer's unit, where it is not that of the resource (shares, B, s, B/s)"
    )
    only: dict[str, str] = Field(default_factory=dict, description="tag -> value that the records must have")
    instance: str | None = Field(
        default=None, max_length=256, description="tag that says which of several it is, such as a mount point"
    )
    peer: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        pattern=r"^[^#]*$",
        description="what it is of: system, cpu, memory or gpu of power_w, the name of a counter of counter_total; * stands for the "
        "rest of the field's name",
    )
    part: str | None = Field(
        default=None,
        max_length=256,
        description="tag with the part of the host, such as a socket, which follows the peer after a colon",
    )


class Telemetry(Settings):
    """What is taken of the measurements of hosts; samples in the agent's own format are all taken."""

    resources: tuple[ResourceName, ...] = Field(
        default=tuple(sorted(TAKEN)),
        description="resources to take; others are counted and left out. Power is power_w, whatever it is of; counter_delta and counter_total are counters, "
        "counter_rate and counter_level what is told of them by the second, energy_total joules, nic_total counters of network interfaces",
    )
    counters: tuple[Annotated[str, Field(pattern=r"^[!-\"$-~]{1,128}$")], ...] = Field(
        default=("PAPI_*",),
        max_length=100,
        description="columns of LDMS's rows that are counters of processors; a name that ends in * stands for all that begin so",
    )
    counters_cumulative: bool = Field(
        default=False,
        description="counters of whole hosts in LDMS's rows grow since some start; else each row has what was counted since the one before",
    )
    metrics: tuple[MetricMapping, ...] = Field(
        default=(), max_length=1000, description="mappings of metrics that the agent does not know; always taken"
    )
    host_cpus: int = Field(
        default=1, ge=1, le=65_536, description="processors of a host, where a load average alone tells of them"
    )
    short_hosts: bool = Field(default=False, description="cut host names at the domain, as in host lists of jobs")
    time_unit: Literal["auto", "s", "ms", "us", "ns"] = Field(
        default="auto", description="unit of times in line protocol; auto tells it by their size"
    )


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
