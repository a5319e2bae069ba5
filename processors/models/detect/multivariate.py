"""Anomaly detection on all resources of a host together.

A measurement is anomalous if it fits neither the other resources nor the values of the step before. Each resource is scaled by
its own mean and standard deviation. The covariance of the scaled values of this step and the step before is estimated with
exponential forgetting, and a small constant is added to its diagonal (ridge regression: Hoerl, Kennard 1970). The squared
Mahalanobis distance of the values (Mahalanobis 1936) is called their energy. Hosts with many resources are scored without the step
before, which adds little for these hosts and costs the square of their number of resources.

A host is compared with its own past in three ways. First, the root of the energy per value is compared with its usual level, the
95 % quantile of the past (stochastic approximation: Robbins, Monro 1951), and with the daily maxima of the last two weeks (block
maxima: Gumbel 1958). Once two full weeks are known, the second largest maximum counts instead of the largest, so that the fault of
one day does not become usual. Second, the distance of the resources from their means at this hour of other days is compared with its
daily maxima in the same way. Third, each resource is compared with the 98 % quantile of its own distance from its mean; this shows
a fault before enough days are known. The score is the smoothed energy, multiplied by the distances from means and hours if these
distances are larger than usual. The detector forgets by time, not by step, and slowly, because a quick detector would learn a fault
of some hours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.detect.record import Column, ColumnTable
from processors.models.numerics.arrays import Bools, Floats, Indices, Ints

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
HOURS: Final = 24
HOUR_KNOWN_H: Final = 0.75  # observed hours of an hour of the day before values are compared with its mean
HOUR_MEMORY_H: Final = 10.0  # memory of the mean of each hour of the day in observed hours, that is, in days
STEP_MIN_H: Final = 1.0 / 60.0
OFF_MAX: Final = 1e30  # largest stored difference; means are stored in single precision
FLOOR: Final = 1e-4  # least standard deviation, as a share of the largest observed difference from the mean

DAYS: Final = 14
FIGURES: Final = 2  # figures of a day: energy of all resources, and their distance from the hour of the day
NORMAL: Final = 1.4826  # standard deviation of a normal distribution in median absolute deviations


class HourProfile:
    """The means of the resources of each host by hour of the day, and the distances of new values from them.

    The columns are part of the table of `CombinedRule`.

    >>> profile, host = HourProfile(1, cut=10.0, memory_h=720.0), np.array([0])
    >>> table = ColumnTable(profile.columns | {"reach": Column((1,), "float64", 0.0)})
    >>> table.grow(1)
    >>> for hour in range(99):
    ...     load = np.array([[20.0 if hour % 24 == 9 or hour == 98 else 5.0 + 0.1 * (hour % 7)]])
    ...     scaled, usual = profile.step(table, host, load, np.ones(1), np.array([hour * HOUR_MS + HOUR_MS // 2]))
    >>> scaled.round(1).tolist(), usual.round(1).tolist()
    ([[10.0]], [[5.3]])
    """

    def __init__(self, resources: int, cut: float, memory_h: float) -> None:
        self._cut, self._memory_h = cut, memory_h
        self.columns = {
            # means are stored as their difference from the first value
            "hour_base": Column((resources,), "float64", np.nan),
            "hour_mean": Column((HOURS, resources), "float32", np.nan),
            "hour_weight": Column((HOURS,), "float32", 0.0),
            "hour_variance": Column((resources,), "float64", 0.0),
            "hour_count": Column((), "int32", 0),
        }

    def step(
        self, table: ColumnTable, rows: Indices, values: Floats, hours: Floats, time_ms: Ints
    ) -> tuple[Floats, Floats]:
        """Return the distances (m, d) of `values` (m, d) from the means at this time of day, and these means; then learn the values.

        A missing value is nan. A distance is in standard deviations known before this step, 0 if the mean is unknown. `hours` (m,) is
        the time since the previous step of each host.
        """
        base = table["hour_base"][rows]
        base = np.where(np.isnan(base), values, base)
        table["hour_base"][rows] = base
        off = values - base
        off = np.where(np.abs(off) < OFF_MAX, off, np.nan)
        hour = time_ms // HOUR_MS % HOURS
        usual, known = self._usual(table, rows, hour, time_ms)
        there = known[:, None] & np.isfinite(off) & np.isfinite(usual)
        distance = np.where(there, off - usual, 0.0)
        deviation = np.sqrt(table["hour_variance"][rows]) + FLOOR * table["reach"][rows]
        with np.errstate(all="ignore"):
            scaled = np.where(deviation > 0.0, np.clip(distance / deviation, -self._cut, self._cut), 0.0)
        count = table["hour_count"][rows] + known
        table["hour_count"][rows] = count
        rate = np.where(there, np.maximum(hours / self._memory_h, 1.0 / (count + 1.0))[:, None], 0.0)
        variance = table["hour_variance"][rows]
        table["hour_variance"][rows] = (1.0 - rate) * (variance + rate * distance * distance)
        self._learn(table, rows, off, hours, hour)
        return scaled, base + usual

    @staticmethod
    def _usual(table: ColumnTable, rows: Indices, hour: Ints, time_ms: Ints) -> tuple[Floats, Bools]:
        """Return the means (m, d) at this time of day, and a mask (m,) of the hosts for which they are known.

        The mean is interpolated between the middles of two neighbouring hours; both must have been observed for HOUR_KNOWN_H.
        """
        share = time_ms % HOUR_MS / HOUR_MS - 0.5
        near = (hour + np.where(share > 0.0, 1, -1)) % HOURS
        weight, mean = table["hour_weight"], table["hour_mean"]
        known = np.minimum(weight[rows, hour], weight[rows, near]) >= HOUR_KNOWN_H
        part = np.abs(share)[:, None]
        return (1.0 - part) * mean[rows, hour] + part * mean[rows, near], known

    @staticmethod
    def _learn(table: ColumnTable, rows: Indices, off: Floats, hours: Floats, hour: Ints) -> None:
        """Update the means of this hour of the day: plain means for the first HOUR_MEMORY_H observed hours, then exponential means."""
        weight, mean = table["hour_weight"][rows, hour], table["hour_mean"][rows, hour]
        passed = np.maximum(hours, STEP_MIN_H)
        rate = (passed / (weight + passed))[:, None]
        moved = np.where(np.isnan(mean), off, mean + rate * (off - mean))
        with np.errstate(over="ignore"):
            table["hour_mean"][rows, hour] = np.where(np.isfinite(off), moved, mean)
        table["hour_weight"][rows, hour] = np.minimum(weight + passed, HOUR_MEMORY_H)


def largest_usual(days: Floats) -> Floats:
    """Return the largest of the daily maxima `days` (m, DAYS), or the second largest if no day is unknown (0).

    The second largest is used with full data, because a fault may have caused the largest.

    >>> largest_usual(np.array([[0.0] * 12 + [3.0, 2.0], [1.0] * 12 + [9.0, 2.0]]))
    array([3., 2.])
    """
    ordered = np.sort(days, axis=1)
    return np.where(ordered[:, 0] > 0.0, ordered[:, -2], ordered[:, -1])


PEERS_MIN: Final = 4  # hosts in a group before a host can be an outlier
PEER_FLOOR: Final = 0.01  # least standard deviation as a share of the median


class GroupDeviations(NamedTuple):
    """Values (m,) compared with their group: distance from the median of the group in robust standard deviations, median, and size."""

    deviations: NDArray[np.float64]
    usual: NDArray[np.float64]
    peers: NDArray[np.intp]


def compared_with_peers(value: NDArray[np.float64], group: NDArray[np.int64]) -> GroupDeviations:
    """Compare each value (m,) with the values of its `group` (m,): distance from the median in robust standard deviations.

    The standard deviation is estimated from the median absolute deviation (Hampel 1974) and is at least PEER_FLOOR of the median.
    The distance is 0 for a value that is not finite and in groups of fewer than PEERS_MIN finite values. A value that is not
    finite gets the median nan.

    >>> compared_with_peers(np.array([1.0, 1.1, 0.9, 1.0, 4.0, 7.0]), np.array([0, 0, 0, 0, 0, 1])).deviations.round(1).tolist()
    [0.0, 0.7, -0.7, 0.0, 20.2, 0.0]
    """
    compared = GroupDeviations(np.zeros(value.size), np.full(value.size, np.nan), np.zeros(value.size, np.intp))
    use = np.flatnonzero(np.isfinite(value))
    if use.size == 0:
        return compared
    _, of, count = np.unique(group[use], return_inverse=True, return_counts=True)
    median = _medians(value[use], of, count)
    with np.errstate(all="ignore"):
        off = value[use] - median[of]
        deviation = np.maximum(NORMAL * _medians(np.abs(off), of, count), PEER_FLOOR * np.abs(median))[of]
        robust_z = np.where(deviation > 0.0, off / deviation, np.where(off == 0.0, 0.0, np.copysign(np.inf, off)))
    compared.deviations[use] = np.where((count[of] >= PEERS_MIN) & ~np.isnan(robust_z), robust_z, 0.0)
    compared.usual[use], compared.peers[use] = median[of], count[of]
    return compared


def _medians(value: NDArray[np.float64], of: NDArray[np.intp], count: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the median of each group; `of` is the group of each value, from 0, and `count` the number of values of each group."""
    ordered = value[np.lexsort((value, of))]
    first = np.cumsum(count) - count
    lower, upper = ordered[first + (count - 1) // 2], ordered[first + count // 2]
    return np.asarray(0.5 * lower + 0.5 * upper, np.float64)


RESOURCES_MAX: Final = 56  # bounds the memory of a host, which grows with the square of its number of resources
LAGGED_MAX: Final = 20  # hosts with more resources ignore the step before
LEVEL: Final = 0.95  # quantile of the root of the energy that is its usual level
FAR: Final = 0.98  # quantile of the distance of a resource from its mean that is its usual distance
LEVEL_MIN: Final = float(np.log(0.1))  # least ln of a usual level, so that a resource may change after being constant
FIRST: Final = 10  # number of first steps, whose standard deviations are random
EARLY: Final = 60  # steps before a host is judged
FAR_MIN: Final = 4  # least number of far resources at which the detector fires
FAR_OF_FEW: Final = 6  # as FAR_MIN, for at most LAGGED_MAX resources: few resources often follow one load
FAR_SHARE_OF_FEW: Final = 2.0 / 3.0  # limits FAR_OF_FEW to this share of the resources
HOSTS_PER_BATCH: Final = 128  # hosts processed at a time


@dataclass(frozen=True, slots=True)
class CombinedSettings:
    """Memory and smoothing of the detector in hours, the ridge, and the thresholds.

    Scaled values are clipped to `cut`. A host is judged after `learn_h`: by its daily maxima once `days_min` days are known, before
    by the share `far_share` of the resources, at least four, that are `far_ratio` times farther from the means than usual.

    Over whole months of four labelled servers, the best F1 score is 0.65 with a memory of a month and 0.62 with two weeks, with
    values clipped to 5; with values clipped to 10, F1 is 0.69.

    >>> [CombinedSettings().far_min(resources) for resources in (4, 6, 20, 38, 50)]
    [4, 4, 6, 4, 5]
    """

    memory_h: float = 720.0
    level_h: float = 24.0
    ridge: float = 0.001
    smoothing_h: float = 1.0
    past_smoothing_h: float = 0.05
    hourly_smoothing_h: float = 0.5
    cut: float = 10.0
    far_ratio: float = 2.0
    far_share: float = 0.1
    warm_up_h: float = 1.0
    learn_h: float = 72.0
    days_min: int = 2

    def far_min(self, resources: int) -> int:
        """Return the least number of far resources at which the detector fires, for hosts with `resources` resources."""
        of_few = min(FAR_OF_FEW, int(np.ceil(FAR_SHARE_OF_FEW * resources))) if resources <= LAGGED_MAX else 0
        return max(FAR_MIN, of_few, int(np.ceil(self.far_share * resources)))


class CombinedStep(NamedTuple):
    """The verdict on one measurement of each host (m,) and of each of its resources (m, d).

    `score` lies in [0, 1). `learned` is True after `learn_h`. `log_ratio` (m, FIGURES) is ln of each figure divided by its largest
    usual value of a day, -inf before enough days are known; `ended` (k, FIGURES) are the maxima of `log_ratio` of the host-days
    that ended. `by_hour` is True if the distance from the hour of the day is the more unusual figure. `ratio` is the root of the
    energy divided by its usual level, 0 while unknown. `far` marks resources unusually far from their means, `many_far` the hosts
    with at least `far_min` of them. `expected` is the value expected from the other resources (from the hour if `by_hour`), and
    `residual` the distance of the measured value from it in standard deviations, 0 if missing.
    """

    score: Floats
    learned: Bools
    log_ratio: Floats
    ended: Floats
    by_hour: Bools
    ratio: Floats
    far: Bools
    many_far: Bools
    expected: Floats
    residual: Floats

    @property
    def has_past(self) -> Bools:
        """A mask of the hosts (m,) with enough known days for `log_ratio`."""
        return np.asarray(np.isfinite(self.log_ratio).any(axis=1))


class CombinedRule:
    """The detector for many hosts; each host is a row of `table` with one index for each of `resources` resources.

    >>> rule = CombinedRule(2, CombinedSettings(learn_h=0.0, warm_up_h=0.0, days_min=1))
    >>> for i in range(3 * 1440):
    ...     load = np.sin(i)
    ...     step = rule.step(np.array([0]), np.array([[load, 5.0 - 2.0 * load + 0.05 * np.cos(7 * i)]]), i * 60_000)
    >>> odd = rule.step(np.array([0]), np.array([[0.9, 6.0]]), 3 * 86_400_000)
    >>> bool(step.log_ratio[0, 0] < 0.1), bool(odd.log_ratio[0, 0] > 1.0)
    (True, True)
    """

    def __init__(
        self, resources: int, settings: CombinedSettings | None = None, further: Mapping[str, Column] | None = None
    ) -> None:
        """Start without hosts; `further` columns are stored in the same table. Raise ValueError unless 1 <= `resources` <= RESOURCES_MAX."""
        if not 0 < resources <= RESOURCES_MAX:
            raise ValueError(f"{resources} resources: 1 to {RESOURCES_MAX} can be scored together")
        self.resources = resources
        self._settings = settings or CombinedSettings()
        self._lagged = resources <= LAGGED_MAX
        self.far_min = self._settings.far_min(resources)
        size = 2 * resources if self._lagged else resources
        each, both = Column((resources,), "float64", 0.0), Column((size * (size + 1) // 2,), "float32", 0.0)
        one, time = Column((), "float64", 0.0), Column((), "int64", 0)
        scales = {"seen": Column((resources,), "int32", 0), "mean": each, "variance": each, "reach": each}
        levels = {"far": Column((resources,), "float32", LEVEL_MIN), "level": Column((), "float64", LEVEL_MIN)}
        smooth = {"energy": one, "spread": one, "recent": one, "hourly": one}
        largest = Column((FIGURES,), "float32", 0.0)
        past = {"day": time, "today": largest, "days": Column((FIGURES, DAYS), "float32", 0.0), "usual": largest}
        self._hours = HourProfile(resources, self._settings.cut, self._settings.memory_h)
        before = {"before": Column((resources if self._lagged else 0,), "float64", np.nan)}
        times = {"count": Column((), "int32", 0), "first_ms": time, "last_ms": time}
        columns = scales | levels | smooth | past | before | times | self._hours.columns
        self.table = ColumnTable(columns | {"covariance": both} | dict(further or {}))
        self._upper = np.triu_indices(size)  # the covariance is symmetric, so only this half is stored
        self._whole = np.zeros((size, size), np.intp)
        self._whole[self._upper] = np.arange(self._upper[0].size)
        self._whole = np.maximum(self._whole, self._whole.T)

    def anew(self, row: int, place: int) -> None:
        """Reset the resource at index `place` of a host, because the index now belongs to another resource. The covariance starts anew."""
        for name in ("seen", "mean", "variance", "reach", "hour_variance"):
            self.table[name][row, place] = 0
        self.table["far"][row, place] = LEVEL_MIN
        self.table["hour_base"][row, place] = self.table["hour_mean"][row, :, place] = np.nan
        if self._lagged:
            self.table["before"][row, place] = np.nan
        self.table["count"][row] = 0

    def step(self, rows: Indices, values: Floats, time_ms: int | Ints) -> CombinedStep:
        """Score one measurement (m, d) of each of the hosts `rows` (m,), then learn the measurement; nan for a missing value.

        `time_ms` is (m,) or a single time. Each row occurs once; missing rows are added.
        """
        self.table.grow(int(rows.max(initial=-1)) + 1)
        times_ms = np.broadcast_to(np.asarray(time_ms, np.int64), rows.shape)
        parts = [slice(first, first + HOSTS_PER_BATCH) for first in range(0, rows.size or 1, HOSTS_PER_BATCH)]
        steps = [self._step(rows[part], values[part], times_ms[part]) for part in parts]
        return CombinedStep(*map(np.concatenate, zip(*steps, strict=True)))

    def _step(self, rows: Indices, values: Floats, time_ms: Ints) -> CombinedStep:
        """Score and learn one batch of hosts; batches are small so that their arrays fit in the cache of the CPU."""
        hours = self._elapsed(rows, time_ms)
        scaled, mean, deviation = self._scale(rows, values, hours)
        by_hour, of_hour = self._hours.step(
            self.table, rows, np.where(np.isfinite(scaled), values, np.nan), hours, time_ms
        )
        pair = np.concatenate([scaled, self.table["before"][rows]], axis=1)
        there = np.isfinite(pair)
        pair = np.where(there, pair, 0.0)
        covariance = self.table["covariance"][rows][:, self._whole]
        inverse_pair, alone = self._regress(covariance, pair, there)
        energy = np.maximum(np.einsum("mi,mi->m", pair, inverse_pair), 0.0)
        # a missing value is replaced by its prediction from the others, so that the covariance stays valid
        pair = np.where(there, pair, np.einsum("mij,mj->mi", covariance, inverse_pair))
        expected = mean + deviation * np.where(there, pair - inverse_pair / alone, pair)[:, : self.resources]
        residual = np.where(there, inverse_pair / np.sqrt(alone), 0.0)[:, : self.resources]
        far = self._far(rows, scaled, hours)
        root = np.sqrt(energy / np.maximum(there.sum(axis=1), 1))
        spreads = _root_mean_square(scaled), _root_mean_square(np.where(np.isfinite(scaled), by_hour, np.nan))
        score, ratio, log_ratio, ended = self._judge(rows, root, spreads, hours, time_ms)
        learned = time_ms - self.table["first_ms"][rows] >= self._settings.learn_h * HOUR_MS
        hourly = log_ratio[:, 1] > log_ratio[:, 0]
        self._learn(rows, pair, scaled, hours)
        expected = np.where(hourly[:, None], of_hour, expected)
        residual = np.where(hourly[:, None], by_hour, residual)
        many_far = far.sum(axis=1) >= self.far_min
        return CombinedStep(
            score, learned, log_ratio, ended, hourly, ratio, far & learned[:, None], many_far, expected, residual
        )

    def _elapsed(self, rows: Indices, time_ms: Ints) -> Floats:
        """Return the hours since the previous step, at most one hour, and store the time."""
        table = self.table
        new = table["count"][rows] == 0
        hours = np.clip((time_ms - table["last_ms"][rows]) / HOUR_MS, 0.0, 1.0)
        table["last_ms"][rows] = time_ms
        fresh = rows[new]
        table["first_ms"][fresh], table["day"][fresh] = time_ms[new], time_ms[new]
        for name in ("today", "days", "usual", "hour_weight", "hour_count"):
            table[name][fresh] = 0
        return np.where(new, 0.0, hours)

    def _scale(self, rows: Indices, values: Floats, hours: Floats) -> tuple[Floats, Floats, Floats]:
        """Return `values` in standard deviations from their means (nan if missing), and the means and deviations used; learn the values."""
        table, settings = self.table, self._settings
        seen, mean, variance, reach = (table[name][rows] for name in ("seen", "mean", "variance", "reach"))
        there = np.isfinite(values) & (np.abs(values) < 1e150)  # the square of a larger value is infinite
        mean = np.where(seen > 0, mean, np.where(there, values, 0.0))
        off = np.where(there, values, mean) - mean
        deviation = np.sqrt(variance) + FLOOR * reach
        with np.errstate(all="ignore"):
            scaled = np.where(deviation > 0.0, np.clip(off / deviation, -settings.cut, settings.cut), np.sign(off))
        rate = np.where(there, np.maximum(hours[:, None] / settings.memory_h, 1.0 / (seen + 2.0)), 0.0)
        table["mean"][rows] = mean + rate * off
        table["variance"][rows] = (1.0 - rate) * (variance + rate * off * off)
        table["reach"][rows] = np.maximum(reach, np.abs(off))
        table["seen"][rows] = seen + there
        return np.where(there, scaled, np.nan), mean, deviation

    def _regress(self, covariance: NDArray[np.float32], pair: Floats, there: Bools) -> tuple[Floats, Floats]:
        """Return the inverse covariance times `pair`, (m, size), and the diagonal of this inverse; values not in `there` are left out."""
        ridged = covariance.astype(float) * (there[:, :, None] & there[:, None, :])
        places = np.arange(pair.shape[1])
        ridged[:, places, places] += np.where(there, self._settings.ridge, 1.0)
        inverse = np.linalg.inv(ridged)
        return np.einsum("mij,mj->mi", inverse, pair), inverse[:, places, places]

    def _far(self, rows: Indices, scaled: Floats, hours: Floats) -> Bools:
        """Return a mask (m, d) of the resources at `far_ratio` times their usual distance from the mean; then learn the usual distances."""
        table = self.table
        seen, level = table["seen"][rows], table["far"][rows].astype(float)
        with np.errstate(divide="ignore"):
            log = np.log(np.abs(scaled))
        far: Bools = (seen > EARLY) & (log > level + np.log(self._settings.far_ratio))
        moved = _quantile(log, level, FAR, hours[:, None] / self._settings.level_h, seen)
        table["far"][rows] = np.where(np.isnan(log), level, moved)
        return far

    def _judge(
        self, rows: Indices, root: Floats, spreads: tuple[Floats, Floats], hours: Floats, time_ms: Ints
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return score, ratio of `root` to its usual level, ln of the ratios to earlier days (m, FIGURES), and those of ended days.

        `root` (m,) is the root of the energy per value. `spreads` are the distances of the resources from their means and from those of
        the hour. The method learns all three values.
        """
        table, settings = self.table, self._settings
        count, level = table["count"][rows], table["level"][rows]
        level = np.where(count == 0, LEVEL_MIN, level)
        log = np.log(root + 1e-9)
        ready = (count >= EARLY) & (time_ms - table["first_ms"][rows] >= settings.warm_up_h * HOUR_MS)
        ratio = np.where(ready, np.exp(log - level), 0.0)
        table["level"][rows] = _quantile(log, level, LEVEL, hours / settings.level_h, count)
        spread, off = spreads
        energy = self._smooth(rows, "energy", root, hours / settings.smoothing_h)
        joint = energy * np.maximum(self._smooth(rows, "spread", spread, hours / settings.smoothing_h), 1.0)
        recent = self._smooth(rows, "recent", root, hours / settings.past_smoothing_h)
        hourly = self._smooth(rows, "hourly", off, hours / settings.hourly_smoothing_h)
        joint *= np.maximum(hourly, 1.0)
        hourly = np.where(time_ms - table["first_ms"][rows] >= DAY_MS, hourly, 0.0)
        log_ratio, ended = self._past(rows, np.stack([recent, hourly], axis=1) * ready[:, None], time_ms)
        table["count"][rows] = count + 1
        return np.where(ready, joint / (1.0 + joint), 0.0), ratio, log_ratio, ended

    def _smooth(self, rows: Indices, name: str, value: Floats, steps: Floats) -> Floats:
        """Return the column `name` after an exponential update with `value`; during the first EARLY steps, `value` itself."""
        before = self.table[name][rows]
        smooth = np.where(self.table["count"][rows] < EARLY, value, before - np.expm1(-steps) * (value - before))
        self.table[name][rows] = smooth
        return smooth

    def _past(self, rows: Indices, figures: Floats, time_ms: Ints) -> tuple[Floats, Floats]:
        """Return ln of `figures` (m, FIGURES) divided by their usual maxima, and the maxima of this for the days that ended.

        The figures are the energy and the distance of the resources from the means of the hour. Today's maxima are updated.
        """
        table = self.table
        over = time_ms - table["day"][rows] >= DAY_MS
        ended = self._end_day(rows[over], time_ms[over])
        table["today"][rows] = np.maximum(table["today"][rows], figures)
        return _log_ratio(figures, table["usual"][rows]), ended

    def _end_day(self, rows: Indices, time_ms: Ints) -> Floats:
        """Store the maxima of the day that has ended, set the usual maxima of the next day, and return the former relative to theirs.

        The usual maximum is 0 (none) before `days_min` days are known.
        """
        table = self.table
        ended = _log_ratio(table["today"][rows], table["usual"][rows])
        days = np.concatenate([table["days"][rows, :, 1:], table["today"][rows, :, None]], axis=2)
        table["days"][rows] = days
        table["today"][rows] = 0.0
        table["day"][rows] = time_ms - (time_ms - table["day"][rows]) % DAY_MS
        known = (days > 0.0).sum(axis=2) >= self._settings.days_min
        usual = largest_usual(days.reshape(-1, DAYS)).reshape(-1, FIGURES)
        table["usual"][rows] = np.where(known, usual, 0.0)
        return ended

    def _learn(self, rows: Indices, pair: Floats, scaled: Floats, hours: Floats) -> None:
        """Update the covariance with `pair`; it starts as the identity matrix. Store `scaled` as the step before."""
        table = self.table
        count = table["count"][rows]  # the count includes this step
        rate = np.maximum(hours / self._settings.memory_h, 1.0 / (count + 9.0))[:, None]
        row, column = self._upper
        covariance = np.where(count[:, None] == 1, row == column, table["covariance"][rows])
        table["covariance"][rows] = covariance + rate * (
            pair.take(row, axis=1) * pair.take(column, axis=1) - covariance
        )
        if self._lagged:
            table["before"][rows] = scaled


def _log_ratio(figures: Floats, usual: Floats) -> Floats:
    """Return ln of `figures` divided by `usual`; -inf if either is 0."""
    known = (figures > 0.0) & (usual > 0.0)
    return np.where(known, np.log(np.where(known, figures, 1.0) / np.where(known, usual, 1.0)), -np.inf)


def _root_mean_square(values: Floats) -> Floats:
    """Return the root mean square of the finite values in rows (m, d)."""
    finite = np.isfinite(values)
    squares = np.where(finite, values, 0.0) ** 2
    return np.asarray(np.sqrt(squares.sum(axis=1) / np.maximum(finite.sum(axis=1), 1)))


def _quantile(log: Floats, level: Floats, share: float, rate: Floats, count: NDArray[np.int32]) -> Floats:
    """Return the estimate `level` of the quantile `share` of `log` after one step of stochastic approximation with the step `rate`.

    During the first EARLY steps the estimate is the maximum so far, not counting the first FIRST steps.
    """
    move = np.maximum(rate, 6.0 / (count + 2.0))
    begun = np.where(count < FIRST, level, np.maximum(level, log))
    return np.maximum(np.where(count < EARLY, begun, level + move * ((log > level) - (1.0 - share))), LEVEL_MIN)
