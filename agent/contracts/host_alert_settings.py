"""When alerts about hosts fire: anomalies of one host, of a whole rack, and hosts unlike their peers."""

import re

from pydantic import Field, field_validator

from agent.contracts.settings_base import LONGEST_S, Settings


def _pattern(pattern: str, groups: int = 0) -> str:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if compiled.groups < groups:
        raise ValueError(f"{pattern!r} has no group in parentheses that names the rack")
    return pattern


class HostAnomaly(Settings):
    """Several resources of a host that are as never before, or that contradict each other for long.

    >>> HostAnomaly().resources_min
    4
    """

    enabled: bool = Field(default=True, description="whether this alert exists")
    resources_min: int = Field(
        default=4,
        ge=2,
        description="resources of a host that have to be as never before, close in time; all, of a host that has fewer",
    )
    window_s: float = Field(default=600.0, gt=0, le=86_400, description="what comes within this is close in time")
    combined_ratio: float = Field(
        default=2.0,
        gt=1,
        description="times its usual level by which all resources of a host together have to contradict each other",
    )
    combined_minutes: int = Field(
        default=10,
        ge=1,
        le=100_000,
        description="measured minutes in a row in which they have to contradict each other",
    )
    gather_s: float = Field(
        default=60.0, ge=0, le=3600, description="an alert waits for this long whether the whole rack is concerned"
    )
    learn_s: float = Field(
        default=86_400.0, ge=0, le=LONGEST_S, description="a host that is new raises no alert for this long"
    )
    warm_up_s: float = Field(
        default=1800.0, ge=0, le=LONGEST_S, description="a host that is back in service raises none for this long"
    )
    keep_firing_s: float = Field(
        default=3600.0, ge=0, le=LONGEST_S, description="it resolves when nothing new came for this long"
    )


class RackAnomaly(Settings):
    """Many hosts of a rack with an anomaly at once: one alert that takes the place of theirs.

    >>> RackAnomaly().share_min
    0.5
    """

    enabled: bool = Field(default=True, description="whether this alert exists")
    pattern: str = Field(
        default=r"^(x\d+)c\d+",
        description="regular expression on host names; its first group names the rack, by default the cabinet of a Cray "
        "xname; hosts that it does not match are gathered by partition, else by system",
    )
    hosts_min: int = Field(default=4, ge=2, description="hosts with an anomaly that are needed at least")
    share_min: float = Field(
        default=0.5, gt=0, le=1, description="share of the rack's hosts with an anomaly that is needed at least"
    )
    keep_firing_s: float = Field(
        default=3600.0, ge=0, le=LONGEST_S, description="it resolves when nothing new came for this long"
    )

    @field_validator("pattern")
    @classmethod
    def _has_a_group(cls, pattern: str) -> str:
        return _pattern(pattern, groups=1)


class Straggler(Settings):
    """A host unlike the other hosts of its job, or an idle one unlike the other idle hosts of its partition.

    >>> Straggler().for_s
    300.0
    """

    enabled: bool = Field(default=True, description="whether this alert exists")
    resources: str = Field(
        default=r"^(cpu_available|cpu_current|load1|clock|gpu)|power",
        description="regular expression on the names of resources that are alike on hosts that do the same",
    )
    deviations: float = Field(
        default=6.0, gt=0, description="robust standard deviations from the median of the peers that are needed"
    )
    difference: float = Field(
        default=0.15, ge=0, description="share of that median by which the host has to differ as well"
    )
    share_max: float = Field(
        default=0.1, gt=0, lt=1, description="where more than this share of the peers is unlike, nobody is"
    )
    start_s: float = Field(
        default=300.0, ge=0, le=LONGEST_S, description="hosts are not compared before their job ran for this long"
    )
    for_s: float = Field(default=300.0, ge=0, le=LONGEST_S, description="it has to be so for this long")
    keep_firing_s: float = Field(
        default=600.0, ge=0, le=LONGEST_S, description="it resolves when it was not so for this long"
    )

    @field_validator("resources")
    @classmethod
    def _is_a_pattern(cls, pattern: str) -> str:
        return _pattern(pattern)
