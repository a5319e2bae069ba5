"""Settings of profiles: from telemetry of hosts to what is learned of counters, power and communication of runs."""

from pydantic import Field

from agent.contracts.settings_base import LONGEST_S, Settings


class ProfileSettings(Settings):
    """How profiles of runs are made, and what is learned from them.

    >>> ProfileSettings().coverage_min
    0.8
    """

    coverage_min: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="share of a run's host-minutes that must be its own for it to be learned from",
    )
    attribution_horizon_s: float = Field(
        default=3600.0,
        ge=0,
        le=LONGEST_S,
        description="how long minutes of hosts are kept that no job is known to have run on: where only ends of jobs are told, "
        "runs up to this length get a profile",
    )
    resources_max: int = Field(
        default=200_000,
        ge=0,
        le=5_000_000,
        description="counters and powers of hosts that are followed for profiles; more are counted and left out",
    )
    names_max: int = Field(
        default=64, ge=1, le=256, description="counters of one run that are kept, and of its network as many"
    )
    runs_max: int = Field(
        default=256, ge=16, le=1024, description="runs of an application that its models are fitted to"
    )
    host_power_max_w: float = Field(
        default=20_000.0, gt=0, le=1e7, description="what a host can draw at most; a reading above is not believed"
    )
    energy_range_j: float = Field(
        default=262_143.328850,
        gt=0,
        le=1e18,
        description="where energy counters of processors start at 0 again; the default is that of RAPL",
    )
    memory_energy_range_j: float = Field(
        default=65_532.610987, gt=0, le=1e18, description="the same of energy counters of memory"
    )
