"""Settings of alerts about profiles of runs: power that counters do not explain, and runs that were disturbed."""

from typing import Literal

from pydantic import Field

from agent.contracts.settings_base import LONGEST_S, Settings

Level = Literal["info", "warning", "critical"]


class UnexplainedPower(Settings):
    """Measured power of a run that its counters do not explain.

    >>> UnexplainedPower().margin_share
    0.1
    """

    enabled: bool = Field(default=True, description="whether this alert exists")
    margin_share: float = Field(
        default=0.10, gt=0, description="share of the expected power by which the measured one has to be off at least"
    )
    band_factor: float = Field(
        default=2.0, ge=1, description="and by so many half-widths of the band that holds nine of ten runs"
    )
    scored_min: int = Field(
        default=20, ge=1, description="runs of the application whose power was predicted before it was learned"
    )
    severity: Level = Field(default="warning", description="how grave it is")
    quiet_s: float = Field(
        default=86_400.0,
        gt=0,
        le=LONGEST_S,
        description="it resolves with the next run that is explained, or when none was judged for this long",
    )


class DisturbedRun(Settings):
    """A run that took longer, and whose counters are not as in runs like it: something disturbed it.

    >>> DisturbedRun().slower_min
    1.05
    """

    enabled: bool = Field(
        default=True, description="whether this alert exists; such runs count less for the models in any case"
    )
    deviations_min: float = Field(
        default=8.0, gt=0, description="robust standard deviations by which a counter has to be off"
    )
    difference_min: float = Field(
        default=0.10, gt=0, description="share of its usual rate by which a counter has to be off as well"
    )
    counters_min: int = Field(default=1, ge=1, description="counters that have to be so")
    slower_min: float = Field(
        default=1.05, ge=1, description="and its run time over what its curve says: what took no longer disturbs nobody"
    )
    runs_min: int = Field(default=20, ge=8, description="runs of the application with profiles that have to be known")
    severity: Level = Field(default="info", description="how grave it is")
    keep_firing_s: float = Field(
        default=3600.0, ge=0, le=LONGEST_S, description="it resolves when nothing new came for this long"
    )
