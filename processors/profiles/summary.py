"""From what a run got to its profile."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from agent.contracts.profiles import Profile
from agent.contracts.telemetry import COMPONENTS, JOB
from processors.models.digits import to_digits
from processors.profiles.quantities import COUNTER, COVERED, ENERGY, ESTIMATED, LEFT_OUT, NIC, POWER, REASONS, SHARED
from processors.windows.settings import MINUTE_MS

DIGITS: Final = 9
NOTHING: Final = (0.0, 0.0)
Totals = Mapping[str, tuple[float, float]]
"""Amount and seconds by quantity."""


class Stayed(NamedTuple):
    """A run on so many hosts, from start to end, and how long it computed; `started` tells that its start was known.

    >>> Stayed(2, 0, 60_000, 60.0, started=True).hosts
    2
    """

    hosts: int
    start_ms: int
    end_ms: int
    run_time_s: float
    started: bool


def profile(run: Stayed, whole: Totals, short: Totals, names_max: int) -> Profile:
    """Return a run's profile from the sums of whole minutes; where there is none, from minutes that were in part its own.

    >>> sums = {"covered": (4.0, 240.0), "power/system": (96_000.0, 240.0), "counter/cycles": (2.4e11, 240.0)}
    >>> found = profile(Stayed(2, 0, 120_000, 120.0, started=True), sums, {}, names_max=64)
    >>> found.coverage, found.power_w, found.energy_j, found.counters
    (1.0, {'system': 400.0}, {'system': 96000.0}, {'cycles': 1000000000.0})
    """
    is_short = not _whole_minutes(run)
    sums = short if is_short else whole
    minutes, seconds = round(_of(sums, COVERED)[0]), _of(sums, COVERED)[1]
    expected = run.hosts * (_minutes_touched(run) if is_short else _whole_minutes(run))
    power = {each: found for each in COMPONENTS if (found := _power(sums, each)).seconds > 0}
    power_w = {each: _significant(found.energy_j / found.seconds) for each, found in power.items()}
    return Profile(
        hosts=run.hosts,
        minutes=minutes,
        expected=expected,
        shared=min(round(whole.get(SHARED, NOTHING)[0]), max(expected - minutes, 0)),
        short=is_short and minutes > 0,
        retrospective=not run.started,
        counters=_rates(sums, COUNTER, names_max),
        nic=_rates(sums, NIC, names_max),
        power_w=power_w,
        energy_j={each: _significant(watts * run.hosts * run.run_time_s) for each, watts in power_w.items()},
        measured={each: _share(found.measured_s, seconds) for each, found in power.items()},
        estimated={each: _share(found.estimated_s, seconds) for each, found in power.items() if found.estimated_s},
        left_out={each: round(count) for each in REASONS if (count := _of(sums, LEFT_OUT + each)[0])},
    )


def _whole_minutes(run: Stayed) -> int:
    return max(run.end_ms // MINUTE_MS + -run.start_ms // MINUTE_MS, 0)


def _minutes_touched(run: Stayed) -> int:
    return -(-run.end_ms // MINUTE_MS) - run.start_ms // MINUTE_MS


def _of(sums: Totals, name: str) -> tuple[float, float]:
    """Return the sum of a quantity: what is told of the job alone, unless its hosts tell of far more time."""
    own, all_of_host = sums.get(JOB + name, NOTHING), sums.get(name, NOTHING)
    return own if 2 * own[1] >= all_of_host[1] else all_of_host


class _Power(NamedTuple):
    energy_j: float
    measured_s: float
    estimated_s: float

    @property
    def seconds(self) -> float:
        return self.measured_s + self.estimated_s


def _power(sums: Totals, component: str) -> _Power:
    """Return the energy of a component, from energy counters where no power is told, with what was estimated."""
    told = _of(sums, POWER + component)
    measured_j, measured_s = told if told[1] > 0 else _of(sums, ENERGY + component)
    estimated_j, estimated_s = sums.get(ESTIMATED + component, NOTHING)
    return _Power(measured_j + estimated_j, measured_s, estimated_s)


def _share(seconds: float, of_seconds: float) -> float:
    return _significant(min(seconds / of_seconds, 1.0)) if of_seconds > 0 else 1.0


def _rates(sums: Totals, begin: str, names_max: int) -> dict[str, float]:
    """Return rates per second and host, of the quantities that were told longest; by their names."""
    names = {name.removeprefix(JOB).removeprefix(begin) for name in sums if name.removeprefix(JOB).startswith(begin)}
    found = {name: _of(sums, begin + name) for name in names}
    first = sorted(found, key=lambda name: (-found[name][1], name))[:names_max]
    return {name: _significant(found[name][0] / found[name][1]) for name in sorted(first) if found[name][1] > 0}


def _significant(value: float) -> float:
    """Return a value with as many digits as do not depend on the order in which minutes came."""
    return to_digits(value, DIGITS)
