"""Power and energy on what is reported run times: points of curves, and the sizes that take the least energy.

energy = power x run time. Both have bands in which nine of ten runs lie. The two errors are taken to be independent: what
a run draws is off because hosts differ, how long it takes because the curve is off. Then variances of the logarithms add
up, so a half-width in ln is the root of the two squared, on either side. Where the errors go together it is because a run
that waits draws less and takes longer: they partly cancel, and the band is rather too wide.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from statistics import median
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

from processors.contracts.hosts import Profile
from processors.contracts.names import HORIZONS, Horizon, horizon_of
from processors.contracts.outputs import CurvePoint, PowerQuality, UsefulSizes
from processors.contracts.telemetry import COMPONENTS
from processors.models.counters.model import CYCLES, per_cycle
from processors.models.energy import PowerLaw, power_law
from processors.models.numerics.conformal import AggregatedRadius
from processors.models.numerics.statistics import six_digits
from processors.models.power import efficient
from processors.models.training.runs import LearnedRun
from processors.models.training.table import PredictedBand


class TargetScore(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One scored run: its relative error, and whether the band held it."""

    error: float
    inside: bool

    @classmethod
    def of(cls, observed: float, band: PredictedBand) -> "TargetScore":
        """Return the score of a run against what was told, |expected / observed - 1|."""
        return cls(round(min(abs(band.value / observed - 1.0), math.e**8), 6), band.holds(observed))


def median_error(scores: Sequence[TargetScore]) -> float | None:
    """Return the median relative error, None without scores."""
    return median(score.error for score in scores) if scores else None


def coverage(scores: Sequence[TargetScore]) -> float | None:
    """Return the share of runs that their bands held, None without scores."""
    return sum(score.inside for score in scores) / len(scores) if scores else None


# From a run's profile to what models take: rates of counters by name, and what came of the run.
# A name tells what a value is: `counter:X` is X per cycle, `rate:X` is X per second and host where no cycles were counted
# (and the cycles themselves), `nic:X` is X of the network interfaces per second and host, `ln_n` is ln of the size. So values
# of one kind are comparable, whichever producer told them.

RUN_TIME: Final = "run_time_s"
POWER: Final = "power_w"  # of all hosts together
POWER_TARGETS: Final = {f"{component}_power_w": component for component in COMPONENTS}  # mean of a host
TARGETS: Final = (RUN_TIME, *POWER_TARGETS)
COUNTERS_MAX: Final = 64
NICS_MAX: Final = 24
COUNTER: Final = "counter:"
RATE: Final = "rate:"
NIC: Final = "nic:"
LN_N: Final = "ln_n"
COLUMNS: Final = dict.fromkeys(TARGETS, (COUNTER, RATE, NIC, LN_N))  # that explain a target
ESTIMATED_WEIGHT: Final = 0.1  # of power that was estimated, against that which was measured


def values_of(n: float, profile: Profile) -> dict[str, float]:
    """Return what models explain a run by; of too many counters the first in the order of their names."""
    counted = {name: profile.counters[name] for name in sorted(profile.counters)[:COUNTERS_MAX]}
    rates = per_cycle(counted)
    seconds = {name: rate for name, rate in counted.items() if (name in CYCLES if rates else rate >= 0)}
    found = {COUNTER + name: rate for name, rate in rates.items()}
    found |= {RATE + name: rate for name, rate in seconds.items()}
    found |= {NIC + name: profile.nic[name] for name in sorted(profile.nic)[:NICS_MAX]}
    return found | {LN_N: math.log(n)}


def reported_counters(reported: Mapping[str, float]) -> dict[str, float]:
    """Return the values of counters that a request reports of a run to come.

    With cycles among them they are rates per second and host, as those of a profile; without, what a model takes each by: per
    cycle, or per second where no cycles are counted.
    """
    rates, kinds = per_cycle(reported), (COUNTER, RATE, NIC)
    if not rates:
        return {kind + name: value for name, value in reported.items() for kind in kinds}
    found = {COUNTER + name: rate for name, rate in rates.items()}
    return found | {kind + name: value for name, value in reported.items() for kind in (RATE, NIC)}


def targets_of(run_time_s: float, profile: Profile) -> dict[str, float]:
    """Return what came of a run: its time in s, the power of a host by component and that of all hosts together, in W.

    What cannot be a power is left out.
    """
    power_w = {component: value for component, value in profile.power_w.items() if 0.0 < value < math.inf}
    found = {RUN_TIME: run_time_s}
    found |= {target: power_w[component] for target, component in POWER_TARGETS.items() if component in power_w}
    if "system" in power_w:
        found[POWER] = power_w["system"] * profile.hosts
    return found


def target_weights(profile: Profile) -> dict[str, float]:
    """Return how much targets count against a run as a whole, where that is less than 1: power may be estimated."""
    found = {}
    for target, component in (*POWER_TARGETS.items(), (POWER, "system")):
        share = min(max(profile.estimated.get(component, 0.0), 0.0), 1.0)
        if share > 0.0 and component in profile.power_w:
            found[target] = round(1.0 - (1.0 - ESTIMATED_WEIGHT) * share, 6)
    return found


RUNS_MIN: Final = 2
SCORES_MAX: Final = 64
REACH_MAX: Final = 50.0  # of ln power
LAW_RUNS_MAX: Final = 256  # the newest that a law of power over sizes is made of: each run makes it anew
SAME: Final = 1e-5  # of ln n, which is kept to seven digits


class PowerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored form: radii by horizon, scores of what was told, and how runs with power were measured, the newest last."""

    radii: dict[str, dict[str, Any]] = {}
    scores: list[TargetScore] = []
    measured: list[tuple[float, float]] = []


class PowerBySize:
    """Tells the power of all hosts of a run together from its size."""

    def __init__(self, record: PowerRecord) -> None:
        self._radii: dict[Horizon, AggregatedRadius] = {
            horizon: AggregatedRadius.build(record.radii[horizon]) if horizon in record.radii else AggregatedRadius()
            for horizon in HORIZONS
        }
        self._scores = list(record.scores)
        self._measured = list(record.measured)
        self._law: PowerLaw | None = None
        self._reported: dict[float, PredictedBand] = {}

    def changed(self) -> None:
        """Note that runs are others than when a law was last made of them."""
        self._law = None
        self._reported.clear()

    def bands(self, runs: Iterable[LearnedRun], sizes: Sequence[float]) -> list[PredictedBand | None]:
        """Return what runs of each size draw in W, with the band of nine of ten; None before RUNS_MIN runs with power."""
        law = self._fitted(runs)
        if law is None:
            return [None] * len(sizes)
        missing = [n for n in sizes if n not in self._reported]
        if missing:
            found = law.at(missing)
            for n, power_w, deviation in zip(missing, found.power_w.tolist(), found.deviation.tolist(), strict=True):
                self._reported[n] = self._band(law, n, power_w, deviation)
        return [self._reported[n] for n in sizes]

    def learn(self, runs: Iterable[LearnedRun], n: float, power_w: float, profile: Profile) -> None:
        """Take in what a run drew, before it is among the runs."""
        measured, estimated = profile.measured.get("system", 0.0), profile.estimated.get("system", 0.0)
        self._measured = [*self._measured, (round(measured, 4), round(estimated, 4))][-SCORES_MAX:]
        law = self._fitted(runs)
        if law is None or estimated > measured:
            return
        found = law.at([n])
        reported = self._band(law, n, float(found.power_w[0]), float(found.deviation[0]))
        self._scores = [*self._scores, TargetScore.of(power_w, reported)][-SCORES_MAX:]
        off = abs(float(np.log(power_w / found.power_w[0]))) / float(found.deviation[0])
        self._radii[_horizon(law, n)].learn(off)

    def quality(self) -> PowerQuality | None:
        """Return how good what was told has been; None where no run had power."""
        if not self._measured:
            return None
        measured, estimated = (sum(column) / len(column) for column in zip(*self._measured, strict=True))
        return PowerQuality(
            scored=len(self._scores),
            median_error=median_error(self._scores),
            coverage_90=coverage(self._scores),
            measured=measured,
            estimated=estimated,
        )

    def snapshot(self) -> PowerRecord:
        """Return the stored form."""
        radii: dict[str, dict[str, Any]] = {
            horizon: radius.snapshot() for horizon, radius in self._radii.items() if radius.scores
        }
        return PowerRecord(radii, list(self._scores), list(self._measured))

    def _fitted(self, runs: Iterable[LearnedRun]) -> PowerLaw | None:
        if self._law is None:
            known = [run for run in runs if POWER in run.targets and LN_N in run.values]
            if len(known) > LAW_RUNS_MAX:
                known = nlargest(LAW_RUNS_MAX, known, key=lambda run: (run.time_ms, run.place))
            known.sort(key=lambda run: run.id)
            if len(known) >= RUNS_MIN:
                n = np.exp(np.array([run.values[LN_N] for run in known]))
                power_w, weight = (np.array([of(run) for run in known]) for of in (_power_w, _weight))
                self._law = power_law(n, power_w, weight)
        return self._law

    def _band(self, law: PowerLaw, n: float, power_w: float, deviation: float) -> PredictedBand:
        radius = self._radii[_horizon(law, n)].radius(self._radii["inside"].scores)
        reach = min(radius * deviation, REACH_MAX)
        return PredictedBand(power_w, power_w * float(np.exp(-reach)), power_w * float(np.exp(reach)))


def _power_w(run: LearnedRun) -> float:
    return run.targets[POWER]


def _weight(run: LearnedRun) -> float:
    return run.weight * run.weights.get(POWER, 1.0)


def _horizon(law: PowerLaw, n: float) -> Horizon:
    n_min, n_max = np.exp([law.ln_n[0] - SAME, law.ln_n[-1] + SAME]).tolist()
    return horizon_of(n, n_min, n_max)


INSIDE: Final = frozenset({"observed", "interpolated"})
BAND_MAX: Final = 4.0  # energy whose band is wider than this factor is no ground for advice
CHANGE_MIN: Final = 0.05  # of ln power, by which it has to differ from what was published
LN_MAX: Final = 600.0  # what is told stays a finite number
Point = TypeVar("Point", bound=CurvePoint)


class PowerBand(Protocol):
    """The power of all hosts of a run together, in W, and between what nine of ten runs will lie."""

    @property
    def power_w(self) -> float:
        """What is expected."""

    @property
    def low_w(self) -> float:
        """The lower end."""

    @property
    def high_w(self) -> float:
        """The upper end."""


class Energy(NamedTuple):
    """The energy of a whole run in J, with its band."""

    energy_j: float
    low_j: float
    high_j: float


def energy(point: CurvePoint, power: PowerBand) -> Energy:
    """Return the energy of a run that takes as long as a point of a curve tells, at this power."""
    ln_j = math.log(point.run_time_s) + math.log(power.power_w)
    below = math.hypot(_ln(point.run_time_s, point.low_s), _ln(power.power_w, power.low_w))
    above = math.hypot(_ln(point.run_time_s, point.high_s), _ln(power.power_w, power.high_w))
    return Energy(*(math.exp(min(max(end, -LN_MAX), LN_MAX)) for end in (ln_j, ln_j - below, ln_j + above)))


def powered(point: Point, power: PowerBand | None) -> Point:
    """Return a point with power and energy, or as it is where power is not known."""
    if power is None:
        return point
    found = energy(point, power)
    return msgspec.structs.replace(
        point,
        power_w=six_digits(power.power_w),
        power_low_w=six_digits(power.low_w),
        power_high_w=six_digits(power.high_w),
        energy_j=six_digits(found.energy_j),
        energy_low_j=six_digits(found.low_j),
        energy_high_j=six_digits(found.high_j),
    )


def relied_on(points: Iterable[Point]) -> list[Point]:
    """Return the reliable points whose energy has a band no wider than BAND_MAX."""
    found = []
    for point in points:
        low_j, high_j = point.energy_low_j, point.energy_high_j
        narrow = low_j is not None and high_j is not None and high_j <= BAND_MAX * low_j
        if narrow and point.reliable:
            found.append(point)
    return found


def with_least_energy(useful: UsefulSizes, points: Sequence[CurvePoint]) -> UsefulSizes:
    """Return sizes worth asking for with those of least energy, and of least energy times delay, of these points.

    Fewer than two points have nothing to choose from.
    """
    known = [(point.n, point.run_time_s, point.power_w) for point in points if point.power_w is not None]
    if len(known) < 2:
        return useful
    found = efficient(*(np.array(column, dtype=np.float64) for column in zip(*known, strict=True)))
    return msgspec.structs.replace(
        useful, least_energy=found.least_energy_n, least_energy_delay=found.least_energy_delay_n
    )


def changed(published: Sequence[float | None], now: Sequence[PowerBand | None]) -> bool:
    """Return whether power at the sizes of a curve is other than what was published, by CHANGE_MIN in ln or in being known."""
    before = published or [None] * len(now)
    return len(before) != len(now) or any(_differs(then, power) for then, power in zip(before, now, strict=True))


def published_powers(points: Sequence[CurvePoint]) -> tuple[float | None, ...]:
    """Return the powers that a curve tells, to compare with later; empty where it tells none."""
    found = tuple(point.power_w for point in points)
    return found if any(power_w is not None for power_w in found) else ()


def _differs(then: float | None, power: PowerBand | None) -> bool:
    if then is None or power is None:
        return (then is None) != (power is None)
    return abs(_ln(then, power.power_w)) > CHANGE_MIN


def _ln(middle: float, end: float) -> float:
    return math.log(end) - math.log(middle)


SYSTEM: Final = "system"  # the component that is a whole host; parts of one are not its energy


class RunEnergy(NamedTuple):
    """The energy of a run on all its hosts in J, its band, and which shares of its node-seconds were measured and estimated.

    The rest of the shares is unknown. The band is the energy itself where a meter reported it.
    """

    energy_j: float | None = None
    low_j: float | None = None
    high_j: float | None = None
    measured: float = 0.0
    estimated: float = 0.0

    @property
    def unknown(self) -> float:
        """The share of node-seconds of which neither a meter nor a model tells anything."""
        return max(1.0 - self.measured - self.estimated, 0.0)


UNKNOWN: Final = RunEnergy()


def energy_of_run(
    profile: Profile | None,
    scheduler_j: float | None,
    *,
    exclusive: bool | None = None,
    run_time_s: float = 0.0,
    predicted: CurvePoint | None = None,
) -> RunEnergy:
    """Return the energy of a run from the first source that knows it.

    The meters of its hosts go first: they know which minutes the run shared, of whose energy it has what is split by a rule, which counts as estimated. Then
    the meter of the scheduler, which counts
    the whole node for each job on it: so not of a run that is known to share. Last `predicted`, the power that the model of its
    application gives to its size, for as long as it ran (`run_time_s`).
    """
    metered = _metered(profile) if profile is not None else None
    if metered is not None:
        return metered
    shares_hosts = exclusive is False or (profile is not None and profile.shared > 0)
    if scheduler_j is not None and not shares_hosts:
        return RunEnergy(scheduler_j, scheduler_j, scheduler_j, measured=1.0)
    if predicted is None or predicted.power_w is None:
        return UNKNOWN
    ends = (predicted.power_w, predicted.power_low_w, predicted.power_high_w)
    middle_j, low_j, high_j = (None if watts is None else watts * run_time_s for watts in ends)
    return RunEnergy(middle_j, low_j, high_j, estimated=1.0)


def _metered(profile: Profile) -> RunEnergy | None:
    """Return what the meters of its hosts tell of a run: of its own minutes, and of those that it shared; None where they tell of neither."""
    own_j = profile.energy_j.get(SYSTEM)
    if own_j is None and not profile.split_j:
        return None
    of = float(profile.expected) or 1.0
    measured, estimated = (each.get(SYSTEM, 0.0) * profile.coverage for each in (profile.measured, profile.estimated))
    estimated = min(estimated + profile.split / of, 1.0 - measured)
    energy_j = (own_j or 0.0) * (1.0 - profile.shared / of) + profile.split_j
    return RunEnergy(energy_j, energy_j, energy_j, measured, estimated)
