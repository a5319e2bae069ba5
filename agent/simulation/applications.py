"""The dozen applications of the simulated centre, each with one thing worth noticing."""

from dataclasses import dataclass, field
from typing import Final, Literal

from agent.contracts.names import ApplicationKey
from agent.simulation.activity import ORDINARY, Activity
from agent.simulation.truth import (
    AmdahlLog,
    Downey,
    FavoursPowersOfTwo,
    HaloExchange,
    Kazmina,
    Law,
    SlowAt,
    SteppedAbove,
    UniversalScalability,
)


@dataclass(frozen=True, slots=True)
class Application:
    """One application: its law, the sizes it is run at, and what happens to its runs.

    `interval_s` is the mean time between submissions, `regression` the factor on all run times from half-way on,
    `failure_rate` the share of failing runs before and after half-way. `activity` is what it does on
    a host. `requeue_every`, `short_limit_every`, `disturbed_every` (one of so many runs has a neighbour that slows it down) and
    `array_tasks` of 0 mean never. `named_by` says which field of the job tells the name.

    >>> Application("qcd", AmdahlLog(10.0, 640.0, 2.0), (8, 16)).key("exa").id
    'exa/qcd//nodes'
    """

    name: str
    law: Law
    sizes: tuple[int, ...]
    note: str = ""
    input: str = ""
    interval_s: float = 800.0
    regression: float = 1.0
    failure_rate: tuple[float, float] = (0.01, 0.01)
    activity: Activity = ORDINARY
    requeue_every: int = 0
    short_limit_every: int = 0
    disturbed_every: int = 0
    array_tasks: int = 0
    named_by: Literal["application", "executable"] = "application"
    attributes: dict[str, str | int] = field(default_factory=dict)

    def key(self, system: str) -> ApplicationKey:
        """Return the key under which the agent will know it."""
        return ApplicationKey(self.name, system, self.input, "nodes")

    def run_time_s(self, n: float, *, second_half: bool) -> float:
        """Return the true run time at a size, without noise, in seconds."""
        return self.law.run_time_s(n) * (self.regression if second_half else 1.0)


DOZEN: Final = (
    Application(
        "lattice-qcd", Downey(24_000.0, 90.0, 0.4), (8, 16, 32, 64, 128), "scales well, then saturates",
        activity=Activity(1.9, 4.0, 0.9, 0.02),
    ),
    Application(
        "ocean-model", AmdahlLog(60.0, 12_000.0, 15.0), (4, 8, 16, 32, 64), "jobs are requeued after a failed node",
        requeue_every=15, named_by="executable",
        activity=Activity(0.9, 6.0, 0.8, 0.03),
    ),
    Application(
        "molecules", Kazmina(1.5, 9_000.0, 300.0), (2, 4, 8, 16, 32, 64), "an input of its own", input="membrane",
        activity=Activity(2.4, 0.4, 0.1, 0.03),
    ),
    Application(
        "turbulence", UniversalScalability(16_000.0, 0.01, 2e-4), (4, 8, 16, 32, 64, 128),
        "slower again at the largest size",
        activity=Activity(1.3, 5.0, 0.7, 0.04),
    ),
    Application(
        "weather-ensemble", HaloExchange(6_000.0, 3_000.0, 8.0), (4, 8, 16, 32), "comes as array jobs", input="europe",
        interval_s=3_000.0, array_tasks=5, attributes={"members": 5},
        activity=Activity(1.1, 4.0, 0.6, 0.03),
    ),
    Application(
        "crash-test", Downey(12_000.0, 14.0, 0.8), (2, 4, 8, 16, 32), "30 % slower from half-way on", regression=1.3,
        activity=Activity(1.6, 1.5, 0.3, 0.05),
    ),
    Application(
        "climate-coupler", SlowAt(AmdahlLog(40.0, 10_000.0, 5.0), 16.0, 1.5), (2, 4, 8, 16, 32, 64),
        "50 % too slow at 16 nodes",
        activity=Activity(1.0, 3.0, 0.5, 0.04),
    ),
    Application(
        "genome-assembly", SteppedAbove(Downey(14_000.0, 150.0, 0.5), 16.0, 1.4), (2, 4, 8, 16, 24, 32, 48, 64),
        "40 % slower above 16 nodes", interval_s=700.0,
        activity=Activity(0.7, 8.0, 0.2, 0.02),
    ),
    Application(
        "spectral-solver", FavoursPowersOfTwo(Downey(15_000.0, 200.0, 0.3), 1.25),
        (4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64), "25 % slower at sizes that are no power of two", interval_s=550.0,
        activity=Activity(1.5, 3.0, 0.8, 0.04),
    ),
    Application(
        "reactor-core", HaloExchange(9_000.0, 800.0, 5.0), (8, 16), "seen at two sizes only",
        activity=Activity(1.2, 2.0, 0.4, 0.03),
    ),
    Application(
        "galaxy-merger", Kazmina(2.0, 8_000.0, 500.0), (4, 8, 16, 32, 64), "fails more often from half-way on",
        failure_rate=(0.03, 0.4), interval_s=600.0, named_by="executable",
        activity=Activity(1.7, 2.5, 0.3, 0.03),
    ),
    Application(
        "battery-design", Downey(6_000.0, 12.0, 0.3), (1, 2, 4, 8, 16, 32), "now and then a time limit too short",
        short_limit_every=12, interval_s=700.0,
        activity=Activity(2.0, 1.0, 0.2, 0.05),
    ),
)  # fmt: skip
