"""Power and energy by job size: points of curves, the sizes with the least energy, and the energy of single runs.

Energy is power times run time, each with a 90 % band. The errors of both are assumed to be independent: power deviates because
hosts differ, run time because the curve is inexact. The variances of the logarithms then add up, and on either side the
half-width of the band in ln is the root of the sum of squares. In reality a run that waits draws less power and takes
longer. The errors then partly cancel, and the band is too wide rather than too narrow.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from statistics import median
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from processors.contracts.hosts import Profile
from processors.contracts.names import HORIZONS, Horizon, horizon_of
from processors.contracts.outputs import CurvePoint, PowerQuality, UsefulSizes
from processors.contracts.telemetry import COMPONENTS
from processors.models.counters.model import CYCLES, per_cycle
from processors.models.numerics.conformal import ConformalRadius, PredictedBand
from processors.models.numerics.statistics import rounded
from processors.models.power import PowerLaw, power_law
from processors.models.training.runs import LearnedRun


class TargetScore(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The score of one prediction: the relative error, and whether the band contained the observed value."""

    error: float
    inside: bool

    @classmethod
    def of(cls, observed: float, band: PredictedBand) -> "TargetScore":
        """Score an observed value against a band; the error is |expected / observed - 1|."""
        return cls(round(min(abs(band.value / observed - 1.0), math.e**8), 6), band.holds(observed))


def median_error(scores: Sequence[TargetScore]) -> float | None:
    return median(score.error for score in scores) if scores else None


def coverage(scores: Sequence[TargetScore]) -> float | None:
    return sum(score.inside for score in scores) / len(scores) if scores else None


# Inputs and targets of the models, from a profile. `counter:X` is X per cycle, `rate:X` is X per second and host (only for
# cycles, or for all counters if no cycles were counted), `nic:X` is X of the network interfaces per second and host, `ln_n`
# is ln of the size. In these units the values of all producers are comparable.

RUN_TIME: Final = "run_time_s"
POWER: Final = "power_w"  # total power of all hosts
POWER_TARGETS: Final = {f"{component}_power_w": component for component in COMPONENTS}  # mean per host, by component
TARGETS: Final = (RUN_TIME, *POWER_TARGETS)
COUNTERS_MAX: Final = 64
NICS_MAX: Final = 24
COUNTER: Final = "counter:"
RATE: Final = "rate:"
NIC: Final = "nic:"
LN_N: Final = "ln_n"
ESTIMATED_WEIGHT: Final = 0.1  # weight of estimated power relative to measured power


def values_of(n: float, profile: Profile) -> dict[str, float]:
    """Return the inputs of a run by name. Of too many counters, the first by name are used."""
    counted = {name: profile.counters[name] for name in sorted(profile.counters)[:COUNTERS_MAX]}
    rates = per_cycle(counted)
    seconds = {name: rate for name, rate in counted.items() if (name in CYCLES if rates else rate >= 0)}
    inputs = {COUNTER + name: rate for name, rate in rates.items()}
    inputs |= {RATE + name: rate for name, rate in seconds.items()}
    inputs |= {NIC + name: profile.nic[name] for name in sorted(profile.nic)[:NICS_MAX]}
    return inputs | {LN_N: math.log(n)}


def reported_counters(reported: Mapping[str, float]) -> dict[str, float]:
    """Return the model inputs for the counters in a request.

    If `reported` includes cycles, all values are rates per second and host, as in a profile. Otherwise the unit of a value is
    unknown; it is returned both as a rate per cycle and as a rate per second, and a model takes the one that it was fitted to.
    """
    rates, kinds = per_cycle(reported), (COUNTER, RATE, NIC)
    if not rates:
        return {kind + name: value for name, value in reported.items() for kind in kinds}
    inputs = {COUNTER + name: rate for name, rate in rates.items()}
    return inputs | {kind + name: value for name, value in reported.items() for kind in (RATE, NIC)}


def targets_of(run_time_s: float, profile: Profile) -> dict[str, float]:
    """Return the targets of a run: run time in s, mean power per host in W by component, and total power of all hosts in W.

    Power that is not positive and finite is left out.
    """
    power_w = {component: value for component, value in profile.power_w.items() if 0.0 < value < math.inf}
    targets = {RUN_TIME: run_time_s}
    targets |= {target: power_w[component] for target, component in POWER_TARGETS.items() if component in power_w}
    if "system" in power_w:
        targets[POWER] = power_w["system"] * profile.hosts
    return targets


def target_weights(profile: Profile) -> dict[str, float]:
    """Return the weights, below 1, of the targets whose power is partly estimated."""
    weights = {}
    for target, component in (*POWER_TARGETS.items(), (POWER, "system")):
        share = min(max(profile.estimated.get(component, 0.0), 0.0), 1.0)
        if share > 0.0 and component in profile.power_w:
            weights[target] = round(1.0 - (1.0 - ESTIMATED_WEIGHT) * share, 6)
    return weights


RUNS_MIN: Final = 2
SCORES_MAX: Final = 64
LAW_RUNS_MAX: Final = 256  # newest runs used to fit power over size, because each run needs a new fit
SAME: Final = 1e-5  # largest difference of ln n within one size, because ln n is stored with seven digits


class PowerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored form of `PowerBySize`.

    `radii` are the conformal radii by horizon, and `scores` the scores of predicted power. An entry of `measured` has the shares
    of a run's covered time with measured and with estimated power. The newest entries come last.
    """

    radii: dict[str, dict[str, Any]] = {}
    scores: list[TargetScore] = []
    measured: list[tuple[float, float]] = []


class PowerBySize:
    """Predicts the total power of all hosts of a run from the size of the run."""

    def __init__(self, record: PowerRecord) -> None:
        self._radii = {horizon: ConformalRadius.build(record.radii.get(horizon, {})) for horizon in HORIZONS}
        self._scores = list(record.scores)
        self._measured = list(record.measured)
        self._law: PowerLaw | None = None

    def changed(self) -> None:
        """Discard the fitted law, because the runs have changed."""
        self._law = None

    def bands(self, runs: Iterable[LearnedRun], sizes: Sequence[float]) -> list[PredictedBand | None]:
        """Return the power in W at each size with a 90 % band; None before RUNS_MIN runs have power."""
        law = self._fitted(runs)
        if law is None:
            return [None] * len(sizes)
        expected = law.at(sizes)
        return list(map(partial(self._band, law), sizes, expected.value.tolist(), expected.deviation.tolist()))

    def learn(self, runs: Iterable[LearnedRun], n: float, power_w: float, profile: Profile) -> None:
        """Score the power predicted from earlier runs against the power of a run; call this before the run is added to `runs`.

        The run is not scored if more of its power is estimated than measured.
        """
        measured, estimated = profile.measured.get("system", 0.0), profile.estimated.get("system", 0.0)
        self._measured = [*self._measured, (round(measured, 4), round(estimated, 4))][-SCORES_MAX:]
        law = self._fitted(runs)
        if law is None or estimated > measured:
            return
        expected = law.at([n])
        expected_w, deviation = float(expected.value[0]), float(expected.deviation[0])
        self._scores = [*self._scores, TargetScore.of(power_w, self._band(law, n, expected_w, deviation))][-SCORES_MAX:]
        self._radii[_horizon(law, n)].learn(abs(math.log(power_w / expected_w)) / deviation)

    def quality(self) -> PowerQuality | None:
        """Return the accuracy of published power; None if no run had a power."""
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
        radii = {str(horizon): radius.snapshot() for horizon, radius in self._radii.items() if radius.scores}
        return PowerRecord(radii, list(self._scores), list(self._measured))

    def _fitted(self, runs: Iterable[LearnedRun]) -> PowerLaw | None:
        if self._law is None:
            with_power = [run for run in runs if POWER in run.targets and LN_N in run.values]
            if len(with_power) > LAW_RUNS_MAX:
                with_power = nlargest(LAW_RUNS_MAX, with_power, key=lambda run: (run.time_ms, run.place))
            with_power.sort(key=lambda run: run.id)
            if len(with_power) >= RUNS_MIN:
                n = np.exp(np.array([run.values[LN_N] for run in with_power]))
                power_w = np.array([run.targets[POWER] for run in with_power])
                weight = np.array([run.weight * run.weights.get(POWER, 1.0) for run in with_power])
                self._law = power_law(n, power_w, weight)
        return self._law

    def _band(self, law: PowerLaw, n: float, power_w: float, deviation: float) -> PredictedBand:
        return self._radii[_horizon(law, n)].band(power_w, deviation, self._radii["inside"].scores)


def _horizon(law: PowerLaw, n: float) -> Horizon:
    n_min, n_max = np.exp([law.ln_n[0] - SAME, law.ln_n[-1] + SAME]).tolist()
    return horizon_of(n, n_min, n_max)


INSIDE: Final = frozenset({"observed", "interpolated"})
BAND_MAX: Final = 4.0  # widest energy band, high over low, on which advice is given
CHANGE_MIN: Final = 0.05  # smallest change of ln power that is published
LN_MAX: Final = 600.0  # largest ln of an energy, so that published energies stay finite
POWER_FIELDS: Final = ("power_w", "power_low_w", "power_high_w", "energy_j", "energy_low_j", "energy_high_j")
Point = TypeVar("Point", bound=CurvePoint)


def energy(point: CurvePoint, power_w: PredictedBand) -> PredictedBand:
    """Return the energy in J, with band, of a run with the run time of `point` and the power `power_w`."""
    ln_j = math.log(point.run_time_s) + math.log(power_w.value)
    below = math.hypot(_ln(point.run_time_s, point.low_s), _ln(power_w.value, power_w.low))
    above = math.hypot(_ln(point.run_time_s, point.high_s), _ln(power_w.value, power_w.high))
    return PredictedBand(*(math.exp(min(max(end, -LN_MAX), LN_MAX)) for end in (ln_j, ln_j - below, ln_j + above)))


def powered(point: Point, power_w: PredictedBand | None) -> Point:
    """Return the point with power and energy; unchanged if the power is unknown."""
    if power_w is None:
        return point
    energy_j = energy(point, power_w)
    figures = rounded(power_w.value, power_w.low, power_w.high, energy_j.value, energy_j.low, energy_j.high)
    return msgspec.structs.replace(point, **dict(zip(POWER_FIELDS, figures, strict=True)))


def relied_on(points: Iterable[Point]) -> list[Point]:
    """Return the reliable points with an energy band narrow enough for advice: its ends differ at most by a factor of BAND_MAX."""
    return [
        point
        for point in points
        if point.energy_low_j is not None
        and point.energy_high_j is not None
        and point.energy_high_j <= BAND_MAX * point.energy_low_j
        and point.reliable
    ]


def with_least_energy(useful: UsefulSizes, points: Sequence[CurvePoint]) -> UsefulSizes:
    """Return `useful` with the sizes of least energy and of least energy-delay product; unchanged for fewer than two points.

    The energy-delay product does not reward slow runs (R. Gonzalez, M. Horowitz, "Energy dissipation in general purpose
    microprocessors", 1996). Of equally good sizes the smallest is returned.
    """
    figures = sorted((point.n, point.run_time_s, point.power_w) for point in points if point.power_w is not None)
    if len(figures) < 2:
        return useful
    least_energy = min(figures, key=lambda figure: figure[1] * figure[2])[0]
    least_delay = min(figures, key=lambda figure: figure[1] * figure[2] * figure[1])[0]
    return msgspec.structs.replace(useful, least_energy=least_energy, least_energy_delay=least_delay)


def changed(published: Sequence[float | None], now: Sequence[PredictedBand | None]) -> bool:
    """Return whether the power at a size of a curve became known or unknown, or differs from the published power by CHANGE_MIN in ln."""
    before = published or [None] * len(now)
    if [then is None for then in before] != [power_w is None for power_w in now]:
        return True
    known = [(then, power_w.value) for then, power_w in zip(before, now, strict=True) if then and power_w]
    return any(abs(_ln(then, power_w)) > CHANGE_MIN for then, power_w in known)


def published_powers(points: Sequence[CurvePoint]) -> tuple[float | None, ...]:
    """Return the power at each point of a curve; empty if no point has a power."""
    powers = tuple(point.power_w for point in points)
    return powers if any(power_w is not None for power_w in powers) else ()


def _ln(middle: float, end: float) -> float:
    return math.log(end) - math.log(middle)


SYSTEM: Final = "system"  # the power component of the whole host


class RunEnergy(NamedTuple):
    """The energy of a run in J, summed over its hosts, with the ends of its band; metered energy has a band of width 0.

    `measured` and `estimated` are the shares of its node-seconds with measured and with estimated energy; the rest is unknown.
    """

    energy_j: float | None = None
    low_j: float | None = None
    high_j: float | None = None
    measured: float = 0.0
    estimated: float = 0.0

    @property
    def unknown(self) -> float:
        """The share of node-seconds without a meter or a model."""
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
    """Return the energy of a run from the first available of three sources.

    1. The meters of the hosts of the run. The energy of minutes in which the run shared a host is split by a rule and counts as
    estimated. 2. The meter of the scheduler, unless the run shared hosts, because this meter counts the whole node for each job.
    3. The model of the application: the power in the point `predicted`, times `run_time_s`.
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
    """Return the energy from the meters of the hosts, over exclusive and shared minutes; None if the meters reported neither."""
    exclusive_j = profile.energy_j.get(SYSTEM)
    if exclusive_j is None and not profile.split_j:
        return None
    minutes = float(profile.expected) or 1.0
    measured, estimated = (each.get(SYSTEM, 0.0) * profile.coverage for each in (profile.measured, profile.estimated))
    estimated = min(estimated + profile.split / minutes, 1.0 - measured)
    energy_j = (exclusive_j or 0.0) * (1.0 - profile.shared / minutes) + profile.split_j
    return RunEnergy(energy_j, energy_j, energy_j, measured, estimated)
