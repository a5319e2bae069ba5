"""All resources of a host together: a measurement is strange when it does not go with the others and with the one before.

Each resource is scaled by its own mean and deviation. The covariance of the scaled values of this step and of the one before
is kept with forgetting; a little is added to its diagonal (ridge regression: Hoerl, Kennard 1970), and the energy of
the values under its inverse (Mahalanobis 1936) is that of the residuals of each resource given all others. Hosts of many
resources are judged without the step before: what that adds to them is little, and its cost grows with the square.

A host is judged by its own past, by three questions. The root of the energy per value is compared with its usual level, the
95 % quantile of the past (by stochastic approximation: Robbins, Monro 1951), and with the largest of each of the last two
weeks' days, of which the second counts once there are as many: a fault of a day does not become what is usual. How far the
resources are from where they are at this hour of other days is compared with what the largest of a day usually is. And
each resource is compared with the 98 % quantile of its own distance from its mean: many that are far beyond it at once are
strange, however well they go together. The score is the smoothed energy, times how far the resources are from their means and
from their hours, where that is more than usual. All that is learned is forgotten by the hour, not by the step, and slowly: what follows a fault
of hours learns the fault.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.detect.daily import (
    DAY_MS,
    DAYS,
    FLOOR,
    HOUR_MS,
    NORMAL,
    WEEK,
    HourProfile,
    largest_expected,
    largest_usual,
    same_weekday,
)
from processors.models.detect.record import Column, ColumnTable
from processors.models.numerics.arrays import Floats

PEERS_MIN: Final = 4  # hosts in a group before one can be an outlier
PEER_FLOOR: Final = 0.01  # least deviation as a share of the median


class GroupDeviations(NamedTuple):
    """Values (m,) relative to their group: robust deviations from the median, that median, and the size of the group."""

    deviations: NDArray[np.float64]
    usual: NDArray[np.float64]
    peers: NDArray[np.intp]


def compared_with_peers(value: NDArray[np.float64], group: NDArray[np.int64]) -> GroupDeviations:
    """Return the distance of each value (m,) from the median of its group (m,).

    The deviation is that of the median absolute deviation (Hampel 1974), at least PEER_FLOOR of the median. It is 0 for values
    that are not finite, and in groups of fewer than PEERS_MIN finite values; values that are not finite have no median.

    >>> compared_with_peers(np.array([1.0, 1.1, 0.9, 1.0, 4.0, 7.0]), np.array([0, 0, 0, 0, 0, 1])).deviations.round(1).tolist()
    [0.0, 0.7, -0.7, 0.0, 20.2, 0.0]
    """
    found = GroupDeviations(np.zeros(value.size), np.full(value.size, np.nan), np.zeros(value.size, np.intp))
    use = np.flatnonzero(np.isfinite(value))
    if use.size == 0:
        return found
    _, of, count = np.unique(group[use], return_inverse=True, return_counts=True)
    finite = value[use]
    median = _medians(finite, of, count)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        off = finite - median[of]
        deviation = np.maximum(NORMAL * _medians(np.abs(off), of, count), PEER_FLOOR * np.abs(median))[of]
        robust_z = np.where(deviation > 0.0, off / deviation, np.where(off == 0.0, 0.0, np.copysign(np.inf, off)))
    found.deviations[use] = np.where((count[of] >= PEERS_MIN) & ~np.isnan(robust_z), robust_z, 0.0)
    found.usual[use], found.peers[use] = median[of], count[of]
    return found


def _medians(value: NDArray[np.float64], of: NDArray[np.intp], count: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the median of each group; `of` numbers the groups from 0, `count` is the number of values in each."""
    ordered = value[np.lexsort((value, of))]
    first = np.cumsum(count) - count
    lower, upper = ordered[first + (count - 1) // 2], ordered[first + count // 2]
    return np.asarray(0.5 * lower + 0.5 * upper, np.float64)


Rows = NDArray[np.intp]
Booleans = NDArray[np.bool_]
Times = NDArray[np.int64]

RESOURCES_MAX: Final = 56  # memory of a host grows with the square of its resources
LAGGED_MAX: Final = 20  # hosts with more resources ignore the step before
LEVEL: Final = 0.95
FAR: Final = 0.98
LEVEL_MIN: Final = float(np.log(0.1))  # a constant resource may move again
FIRST: Final = 10  # first steps, whose deviations are random
EARLY: Final = 60  # steps before anything is judged
FAR_MIN: Final = 4  # resources
FAR_OF_FEW: Final = 6  # of LAGGED_MAX at most: those of few often follow one load
FAR_SHARE_OF_FEW: Final = 2.0 / 3.0  # where that is less
HOSTS_PER_BATCH: Final = 128  # hosts at a time


@dataclass(frozen=True, slots=True)
class CombinedSettings:
    """How quickly all is forgotten (in hours), the ridge, the smoothing (in hours), and when it fires.

    Scaled values are cut at `cut`. After `learn_h` it fires where a share of the resources, four at least, are `far_ratio`
    times further from their means than they usually get. Once `days_min` days are known, it fires where the energy is
    `past_ratio` times that of its past, in a host of 16 resources, and `past_deviations` above the median of the days' largest;
    where there are fewer resources it has to be larger: it is the mean of fewer values. Once each day of the week is known, it
    fires where the distance from the hour of the day is `hourly_deviations` above the median of the days' largest.

    On whole months of four labelled servers the best F1 of the score is 0.65 with a memory of a month and 0.62 with two
    weeks, with values cut at 5; cut at 10 it is 0.69. Chosen on half of the servers: of 16 faults of hosts with 38 resources
    four that are twice as far find 9 with one false alert in 14 days, five find 5 with none, and three 9 with three. Of 13
    faults of hosts with 19 resources the energy finds 4 in 88 days and their hours 6, both without a false alert; with 3
    deviations, and those of an hour without interpolation, 2 to 4 are false. In 159 quiet days of machines the energy raises
    one, their hours none with 4 deviations and 2 with 3.

    >>> CombinedSettings().past_factor(16), [CombinedSettings().far_min(resources) for resources in (4, 6, 20, 38, 50)]
    (1.25, [4, 4, 6, 4, 5])
    """

    memory_h: float = 720.0
    level_h: float = 24.0
    ridge: float = 0.001
    smoothing_h: float = 1.0
    past_smoothing_h: float = 0.05
    hourly_smoothing_h: float = 0.5
    cut: float = 10.0
    past_ratio: float = 1.25
    past_deviations: float = 2.0
    hourly_deviations: float = 4.0
    far_ratio: float = 2.0
    far_share: float = 0.1
    warm_up_h: float = 1.0
    learn_h: float = 72.0
    days_min: int = WEEK

    def past_factor(self, resources: int) -> float:
        """Return the multiple of its past energy at which a host fires."""
        return 1.0 + (self.past_ratio - 1.0) * 4.0 / float(np.sqrt(resources))

    def far_min(self, resources: int) -> int:
        """Return the number of far resources at which a host with `resources` resources fires."""
        of_few = min(FAR_OF_FEW, int(np.ceil(FAR_SHARE_OF_FEW * resources))) if resources <= LAGGED_MAX else 0
        return max(FAR_MIN, of_few, int(np.ceil(self.far_share * resources)))


@dataclass(frozen=True, slots=True)
class CombinedStep:
    """What a step found of each host (m,) and each of its resources (m, d).

    `score` in [0, 1), whether it `fired`, how many times its usual level the energy is (`ratio`), and how many times that
    of its past (`past`); both are 0 while they are not known. Which resources are `far` from their means. The value that
    the others let expect, and how far off that a value is (`residual`, in deviations; 0 where there is none).

    >>> CombinedStep.empty(3, 2).expected.shape
    (3, 2)
    """

    score: Floats
    fired: Booleans
    by_hour: Booleans
    ratio: Floats
    past: Floats
    far: Booleans
    expected: Floats
    residual: Floats

    @classmethod
    def empty(cls, hosts: int, resources: int) -> "CombinedStep":
        one, each = (hosts,), (hosts, resources)
        figures = np.zeros(one), np.zeros(one, bool), np.zeros(one, bool), np.zeros(one), np.zeros(one)
        return cls(*figures, np.zeros(each, bool), np.zeros(each), np.zeros(each))

    def put(self, part: slice, found: "CombinedStep") -> None:
        for name in self.__dataclass_fields__:
            getattr(self, name)[part] = getattr(found, name)


class CombinedRule:
    """The combined score of many hosts, one row each, with places for `resources` resources.

    >>> rule = CombinedRule(2, CombinedSettings(learn_h=0.0, warm_up_h=0.0, days_min=1))
    >>> for i in range(3 * 1440):
    ...     load = np.sin(i)
    ...     step = rule.step(np.array([0]), np.array([[load, 5.0 - 2.0 * load + 0.05 * np.cos(7 * i)]]), i * 60_000)
    >>> bool(step.fired[0]), bool(rule.step(np.array([0]), np.array([[0.9, 6.0]]), 3 * 86_400_000).fired[0])
    (False, True)
    """

    def __init__(self, resources: int, settings: CombinedSettings | None = None) -> None:
        """ValueError unless there are 1 to RESOURCES_MAX resources."""
        if not 0 < resources <= RESOURCES_MAX:
            message = f"{resources} resources: 1 to {RESOURCES_MAX} can be scored together"
            raise ValueError(message)
        self.resources = resources
        self._settings = settings or CombinedSettings()
        self._lagged = resources <= LAGGED_MAX
        self._past_factor = self._settings.past_factor(resources)
        self.far_min = self._settings.far_min(resources)
        size = 2 * resources if self._lagged else resources
        each, both = Column((resources,), "float64", 0.0), Column((size * (size + 1) // 2,), "float32", 0.0)
        one, time = Column((), "float64", 0.0), Column((), "int64", 0)
        scales = {"seen": Column((resources,), "int32", 0), "mean": each, "variance": each, "reach": each}
        levels = {"far": Column((resources,), "float32", LEVEL_MIN), "level": Column((), "float64", LEVEL_MIN)}
        smooth = {"energy": one, "spread": one, "recent": one, "hourly": one}
        largest, bound = Column((2,), "float32", 0.0), Column((), "float32", 0.0)
        past = {"day": time, "today": largest, "days": Column((2, DAYS), "float32", 0.0), "usual": bound}
        bounds = {"energy_bound": bound, "hourly_bound": bound}
        self._hours = HourProfile(resources, self._settings.cut, self._settings.memory_h)
        before = {"before": Column((resources if self._lagged else 0,), "float64", np.nan)}
        times = {"count": Column((), "int32", 0), "first_ms": time, "last_ms": time}
        columns = scales | levels | smooth | past | bounds | before | times | self._hours.columns
        self._table = ColumnTable(columns | {"covariance": both})
        self._upper = np.triu_indices(size)  # the covariance is symmetric, so only this half is stored
        self._whole = np.zeros((size, size), np.intp)
        self._whole[self._upper] = np.arange(self._upper[0].size)
        self._whole = np.maximum(self._whole, self._whole.T)

    @property
    def host_bytes(self) -> int:
        return self._table.row_bytes

    @property
    def size(self) -> int:
        return self._table.size

    def grow(self, rows: int) -> None:
        self._table.grow(rows)

    def clear(self, rows: Rows) -> None:
        self._table.clear(rows)

    def anew(self, row: int, place: int) -> None:
        """Reset one resource of a host, because another one takes its place, and relearn how its resources fit together."""
        for name, start in (("seen", 0), ("mean", 0.0), ("variance", 0.0), ("reach", 0.0), ("far", LEVEL_MIN)):
            self._table[name][row, place] = start
        if self._lagged:
            self._table["before"][row, place] = np.nan
        self._hours.anew(self._table, row, place)
        self._table["count"][row] = 0

    def stored_each(self, rows: Rows) -> NDArray[np.uint8]:
        """Return the state of each of these hosts, (m, bytes); `restore` takes one row of it."""
        return self._table.stored_each(rows)

    def restore(self, first: int, last: int, state: bytes) -> None:
        """Restore hosts; ValueError for other columns or another number of hosts."""
        self._table.restore(first, last, state)

    def step(self, rows: Rows, values: Floats, time_ms: int | Times) -> CombinedStep:
        """Score one measurement (m, d) of each of these hosts (m,), then learn it; nan if a resource has no value.

        `time_ms` is (m,) or one time for all. Each row occurs once; missing rows are added.
        """
        found = CombinedStep.empty(rows.size, self.resources)
        if rows.size == 0:
            return found
        self._table.grow(int(rows.max()) + 1)
        times_ms = np.broadcast_to(np.asarray(time_ms, np.int64), rows.shape)
        for first in range(0, rows.size, HOSTS_PER_BATCH):
            part = slice(first, first + HOSTS_PER_BATCH)
            found.put(part, self._step(rows[part], values[part], times_ms[part]))
        return found

    def _step(self, rows: Rows, values: Floats, time_ms: Times) -> CombinedStep:
        """Score and learn as many hosts as fit in the processor's own memory."""
        hours = self._elapsed(rows, time_ms)
        scaled, mean, deviation = self._scale(rows, values, hours)
        by_hour, of_hour = self._hours.step(
            self._table, rows, np.where(np.isfinite(scaled), values, np.nan), hours, time_ms
        )
        pair = np.concatenate([scaled, self._table["before"][rows]], axis=1)
        there = np.isfinite(pair)
        pair = np.where(there, pair, 0.0)
        covariance = self._table["covariance"][rows][:, self._whole]
        inverse_pair, alone = self._regress(covariance, pair, there)
        energy = np.maximum(np.einsum("mi,mi->m", pair, inverse_pair), 0.0)
        # missing values are learned as the others predict them, so that the covariance stays valid
        pair = np.where(there, pair, np.einsum("mij,mj->mi", covariance, inverse_pair))
        expected = mean + deviation * np.where(there, pair - inverse_pair / alone, pair)[:, : self.resources]
        residual = np.where(there, inverse_pair / np.sqrt(alone), 0.0)[:, : self.resources]
        far = self._far(rows, scaled, hours)
        root = np.sqrt(energy / np.maximum(there.sum(axis=1), 1))
        spreads = _root_mean_square(scaled), _root_mean_square(np.where(np.isfinite(scaled), by_hour, np.nan))
        score, ratio, past, beyond = self._judge(rows, root, spreads, hours, time_ms)
        learned = time_ms - self._table["first_ms"][rows] >= self._settings.learn_h * HOUR_MS
        fired = learned & (beyond[:, 0] | (far.sum(axis=1) >= self.far_min))
        hourly = learned & beyond[:, 1] & ~fired
        self._learn(rows, pair, scaled, hours)
        expected = np.where(hourly[:, None], of_hour, expected)
        residual = np.where(hourly[:, None], by_hour, residual)
        return CombinedStep(score, fired | hourly, hourly, ratio, past, far & learned[:, None], expected, residual)

    def _elapsed(self, rows: Rows, time_ms: Times) -> Floats:
        """Return the hours since the step before, at most one because a value after a gap stands for no more; store the time."""
        table = self._table
        new = table["count"][rows] == 0
        hours = np.clip((time_ms - table["last_ms"][rows]) / HOUR_MS, 0.0, 1.0)
        table["last_ms"][rows] = time_ms
        fresh = rows[new]
        table["first_ms"][fresh], table["day"][fresh] = time_ms[new], time_ms[new]
        for name in ("today", "days", "usual", "energy_bound", "hourly_bound"):
            table[name][fresh] = 0.0
        self._hours.clear(table, fresh)
        return np.where(new, 0.0, hours)

    def _scale(self, rows: Rows, values: Floats, hours: Floats) -> tuple[Floats, Floats, Floats]:
        """Return scaled values (nan if missing), and the means and deviations used to scale them; learn the values."""
        table, settings = self._table, self._settings
        seen, mean, variance, reach = (table[name][rows] for name in ("seen", "mean", "variance", "reach"))
        there = np.isfinite(values) & (np.abs(values) < 1e150)  # the square of more is infinite
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

    def _regress(self, covariance: NDArray[np.float32], pair: Floats, there: Booleans) -> tuple[Floats, Floats]:
        """Return the inverse covariance of the present values times the values, and its diagonal, each shaped as `pair`."""
        ridged = covariance.astype(float) * (there[:, :, None] & there[:, None, :])
        places = np.arange(pair.shape[1])
        ridged[:, places, places] += np.where(there, self._settings.ridge, 1.0)
        inverse = np.linalg.inv(ridged)
        return np.einsum("mij,mj->mi", inverse, pair), inverse[:, places, places]

    def _far(self, rows: Rows, scaled: Floats, hours: Floats) -> Booleans:
        """Return which resources are unusually far from their means, and learn the usual distance."""
        table = self._table
        seen, level = table["seen"][rows], table["far"][rows].astype(float)
        with np.errstate(divide="ignore"):
            log = np.log(np.abs(scaled))
        far: Booleans = (seen > EARLY) & (log > level + np.log(self._settings.far_ratio))
        moved = _quantile(log, level, FAR, hours[:, None] / self._settings.level_h, seen)
        table["far"][rows] = np.where(np.isnan(log), level, moved)
        return far

    def _judge(
        self, rows: Rows, root: Floats, spreads: tuple[Floats, Floats], hours: Floats, time_ms: Times
    ) -> tuple[Floats, Floats, Floats, Booleans]:
        """Return the score, the ratios of the energy to its usual level and to its past, and which of the two figures exceed their bounds.

        Learn the figures.
        """
        table, settings = self._table, self._settings
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
        past, beyond = self._past(rows, np.stack([recent, hourly], axis=1) * ready[:, None], time_ms)
        table["count"][rows] = count + 1
        return np.where(ready, joint / (1.0 + joint), 0.0), ratio, past, beyond

    def _smooth(self, rows: Rows, name: str, value: Floats, steps: Floats) -> Floats:
        """Return an exponentially smoothed value; the value itself during the first steps."""
        before = self._table[name][rows]
        smooth = before - np.expm1(-steps) * (value - before)
        self._table[name][rows] = smooth = np.where(self._table["count"][rows] < EARLY, value, smooth)
        return smooth

    def _past(self, rows: Rows, figures: Floats, time_ms: Times) -> tuple[Floats, Booleans]:
        """Return the ratio of the energy to the largest of earlier days, 0 before the second day, and which figures exceed their bounds.

        `figures` (m, 2) are the energy and the distance of the resources from their hour; the largest of today is stored.
        """
        table = self._table
        over = time_ms - table["day"][rows] >= DAY_MS
        if over.any():
            self._end_day(rows[over], time_ms[over])
        table["today"][rows] = np.maximum(table["today"][rows], figures)
        usual = table["usual"][rows]
        bounds = np.stack([table["energy_bound"][rows], table["hourly_bound"][rows]], axis=1)
        past = np.where(usual > 0.0, figures[:, 0] / np.where(usual > 0.0, usual, 1.0), 0.0)
        return past, (bounds > 0.0) & (figures > bounds)

    def _end_day(self, rows: Rows, time_ms: Times) -> None:
        """Store the maxima of the day that ended, and the bounds for the next day; 0 if too few days are known.

        The energy needs `days_min` days, the hours need each day of the week.
        """
        table, settings = self._table, self._settings
        table["days"][rows] = np.concatenate([table["days"][rows, :, 1:], table["today"][rows, :, None]], axis=2)
        table["today"][rows] = 0.0
        table["day"][rows] = time_ms - (time_ms - table["day"][rows]) % DAY_MS
        energy, hourly = table["days"][rows].astype(float).transpose(1, 0, 2)
        usual, expected = largest_usual(energy), largest_expected(energy, settings.past_deviations)
        known = (energy > 0.0).sum(axis=1) >= settings.days_min
        table["usual"][rows] = usual
        table["energy_bound"][rows] = np.where(known, np.maximum(usual * self._past_factor, expected), 0.0)
        bound = np.maximum(largest_expected(hourly, settings.hourly_deviations), same_weekday(hourly))
        table["hourly_bound"][rows] = np.where((hourly > 0.0).sum(axis=1) >= WEEK, bound, 0.0)

    def _learn(self, rows: Rows, pair: Floats, scaled: Floats, hours: Floats) -> None:
        """Move the covariance, which starts as that of independent resources, towards these values."""
        table = self._table
        count = table["count"][rows]  # this step counts already
        rate = np.maximum(hours / self._settings.memory_h, 1.0 / (count + 9.0))[:, None]
        row, column = self._upper
        covariance = np.where(count[:, None] == 1, row == column, table["covariance"][rows])
        table["covariance"][rows] = covariance + rate * (
            pair.take(row, axis=1) * pair.take(column, axis=1) - covariance
        )
        if self._lagged:
            table["before"][rows] = scaled


def _root_mean_square(values: Floats) -> Floats:
    """Return the root mean square of the finite values in rows (m, d)."""
    finite = np.isfinite(values)
    squares = np.where(finite, values, 0.0) ** 2
    return np.asarray(np.sqrt(squares.sum(axis=1) / np.maximum(finite.sum(axis=1), 1)))


def _quantile(log: Floats, level: Floats, share: float, rate: Floats, count: NDArray[np.int32]) -> Floats:
    """Return the level, moved towards the quantile `share`; at first it is the maximum."""
    move = np.maximum(rate, 6.0 / (count + 2.0))
    begun = np.where(count < FIRST, level, np.maximum(level, log))
    return np.maximum(np.where(count < EARLY, begun, level + move * ((log > level) - (1.0 - share))), LEVEL_MIN)
