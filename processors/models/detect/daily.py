"""What hours of the day and days are like: where the resources of a host usually are at this hour, and how high its scores get.

The mean of each resource at each hour of the day is kept, and between the middles of two hours it is interpolated. How far
the resources are from it, in deviations of the past, is one figure a step.

How high a score gets is known by the largest of each of the last two weeks' days (block maxima: Gumbel 1958). Their logarithms'
median and median absolute deviation (Hampel 1974) say how large the largest of a day may be: days with a fault, while they
are fewer than half, raise neither, and a host whose score jumps every day has to jump further. The deviation of few days is
little known: it is mixed with the one that hosts usually have.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from processors.models.detect.record import Column, ColumnTable
from processors.models.numerics.arrays import Floats

Booleans = NDArray[np.bool_]
Rows = NDArray[np.intp]
Times = NDArray[np.int64]

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
HOURS: Final = 24
HOUR_KNOWN_H: Final = 0.75  # of an hour that has to be seen for it to be compared with
HOUR_MEMORY_H: Final = 10.0  # of each hour: as many days
STEP_MIN_H: Final = 1.0 / 60.0
OFF_MAX: Final = 1e30  # means are kept in single precision
FLOOR: Final = 1e-4  # of the largest deviation seen: what moves by less counts as still

DAYS: Final = 14
WEEK: Final = 7
WEEKLY_MARGIN: Final = 1.2  # times the largest of the same weekday
NORMAL: Final = 1.4826  # a normal distribution's deviation in median absolute deviations
USUAL_DEVIATION: Final = 0.15  # of the logarithm of a day's largest
USUAL_DAYS: Final = 5.0  # that this counts for


class HourProfile:
    """How far the resources of hosts are from where they are at this hour of the day; its columns are in the rule's table.

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
            # means are kept as their difference from the first value
            "hour_base": Column((resources,), "float64", np.nan),
            "hour_mean": Column((HOURS, resources), "float32", np.nan),
            "hour_weight": Column((HOURS,), "float32", 0.0),
            "hour_variance": Column((resources,), "float64", 0.0),
            "hour_count": Column((), "int32", 0),
        }

    def step(
        self, table: ColumnTable, rows: Rows, values: Floats, hours: Floats, time_ms: Times
    ) -> tuple[Floats, Floats]:
        """Return how far each value (m, d) is from its hour, in deviations, 0 where that is not known, and the mean of the hour.

        Learns the values. `hours` (m,) since the step before; nan where a resource has no value.
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
    def clear(table: ColumnTable, rows: Rows) -> None:
        """Let these hosts learn their hours anew."""
        table["hour_weight"][rows], table["hour_count"][rows] = 0.0, 0

    @staticmethod
    def anew(table: ColumnTable, row: int, place: int) -> None:
        """Let a host have another resource in this place."""
        table["hour_base"][row, place] = table["hour_mean"][row, :, place] = np.nan
        table["hour_variance"][row, place] = 0.0

    @staticmethod
    def _usual(table: ColumnTable, rows: Rows, hour: Times, time_ms: Times) -> tuple[Floats, Booleans]:
        """Return the means of this time of the day, and of which hosts both of its hours were seen."""
        share = time_ms % HOUR_MS / HOUR_MS - 0.5
        near = (hour + np.where(share > 0.0, 1, -1)) % HOURS
        weight, mean = table["hour_weight"], table["hour_mean"]
        known = np.minimum(weight[rows, hour], weight[rows, near]) >= HOUR_KNOWN_H
        part = np.abs(share)[:, None]
        return (1.0 - part) * mean[rows, hour] + part * mean[rows, near], known

    @staticmethod
    def _learn(table: ColumnTable, rows: Rows, off: Floats, hours: Floats, hour: Times) -> None:
        """Move the means of the hour towards these values: at first they are the means of all, then those of ten days."""
        weight, mean = table["hour_weight"][rows, hour], table["hour_mean"][rows, hour]
        passed = np.maximum(hours, STEP_MIN_H)
        rate = (passed / (weight + passed))[:, None]
        moved = np.where(np.isnan(mean), off, mean + rate * (off - mean))
        with np.errstate(over="ignore"):
            table["hour_mean"][rows, hour] = np.where(np.isfinite(off), moved, mean)
        table["hour_weight"][rows, hour] = np.minimum(weight + passed, HOUR_MEMORY_H)


def largest_usual(days: Floats) -> Floats:
    """Return the largest of days (m, DAYS), of two whole weeks the second largest: a day with a fault is not what is usual.

    0 stands for a day that is not known.

    >>> largest_usual(np.array([[0.0] * 12 + [3.0, 2.0], [1.0] * 12 + [9.0, 2.0]]))
    array([3., 2.])
    """
    ordered = np.sort(days, axis=1)
    return np.where(ordered[:, 0] > 0.0, ordered[:, -2], ordered[:, -1])


def largest_expected(days: Floats, deviations: float) -> Floats:
    """Return how large the largest of a day may be, so many deviations of the logarithm above the median of days (m, DAYS).

    0 stands for a day that is not known, and is returned where none is.

    >>> days = np.array([[0.0] * 4 + [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 8.0, 1.0, 1.0]])
    >>> largest_expected(days, 4.0).round(2)
    array([1.35])
    """
    known = days > 0.0
    count = known.sum(axis=1)
    with np.errstate(divide="ignore"):
        log = np.where(known, np.log(days), np.nan)
    middle = _median(log, count)
    weight = count / (count + USUAL_DAYS)
    spread = NORMAL * _median(np.abs(log - middle[:, None]), count)
    deviation = (1.0 - weight) * USUAL_DEVIATION + weight * spread
    return np.where(count > 0, np.exp(middle + deviations * deviation), 0.0)


def same_weekday(days: Floats) -> Floats:
    """Return the largest of the same day of the week in days (m, DAYS), and a little more: what comes each week is usual.

    Of two such days the smaller: a day with a fault does not hide that of the next week.

    >>> same_weekday(np.array([[0.0] * 7 + [5.0] + [1.0] * 6, [2.0] + [1.0] * 6 + [5.0] + [1.0] * 6]))
    array([6. , 2.4])
    """
    newer, older = days[:, -WEEK], days[:, -2 * WEEK]
    return WEEKLY_MARGIN * np.where(older > 0.0, np.minimum(newer, older), newer)


def _median(values: Floats, count: NDArray[np.intp]) -> Floats:
    """Return the medians of rows (m, n) of which so many are no nan; 0 where none is."""
    ordered = np.sort(values, axis=1)  # nan comes last
    each, some = np.arange(count.size), np.maximum(count, 1)
    middle = 0.5 * (ordered[each, (some - 1) // 2] + ordered[each, some // 2])
    return np.where(count > 0, middle, 0.0)
