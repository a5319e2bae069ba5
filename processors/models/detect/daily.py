"""Daily patterns: the usual value of each resource at each hour of the day, and the usual maximum of a score in a day.

The mean of each resource at each hour is learned, and interpolated between the middles of two hours. The distance of the
resources from these means, in past deviations, gives one figure per step.

The largest score of each day in the last two weeks (block maxima: Gumbel 1958) limits the next one, by median and median
absolute deviation of the logarithms (Hampel 1974). Days with a fault raise neither while they are fewer than half, and a host
whose score jumps every day must jump further. The deviation of few days is uncertain, so it is mixed with the usual one.
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
HOUR_KNOWN_H: Final = 0.75  # observed part of an hour before values are compared with it
HOUR_MEMORY_H: Final = 10.0  # memory of each hour, which is this number of days
STEP_MIN_H: Final = 1.0 / 60.0
OFF_MAX: Final = 1e30  # means are stored in single precision
FLOOR: Final = 1e-4  # least deviation, as a share of the largest one seen

DAYS: Final = 14
WEEK: Final = 7
WEEKLY_MARGIN: Final = 1.2  # times the largest of the same weekday
NORMAL: Final = 1.4826  # a normal distribution's deviation in median absolute deviations
USUAL_DEVIATION: Final = 0.15  # prior deviation of ln of a day's maximum
USUAL_DAYS: Final = 5.0  # weight of this prior in days


class HourProfile:
    """Distances of the resources of hosts from their means at this hour; its columns belong to the table of the rule.

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
        """Return the distance of each value (m, d) from the mean of its hour in deviations, 0 if unknown, and these means.

        Then learn the values, nan if missing. `hours` (m,) is the time since the step before.
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
        """Reset the hours of these hosts."""
        table["hour_weight"][rows], table["hour_count"][rows] = 0.0, 0

    @staticmethod
    def anew(table: ColumnTable, row: int, place: int) -> None:
        """Reset one resource of a host, because another one takes its place."""
        table["hour_base"][row, place] = table["hour_mean"][row, :, place] = np.nan
        table["hour_variance"][row, place] = 0.0

    @staticmethod
    def _usual(table: ColumnTable, rows: Rows, hour: Times, time_ms: Times) -> tuple[Floats, Booleans]:
        """Return the means of the resources at this time of the day, and which hosts have seen both adjacent hours."""
        share = time_ms % HOUR_MS / HOUR_MS - 0.5
        near = (hour + np.where(share > 0.0, 1, -1)) % HOURS
        weight, mean = table["hour_weight"], table["hour_mean"]
        known = np.minimum(weight[rows, hour], weight[rows, near]) >= HOUR_KNOWN_H
        part = np.abs(share)[:, None]
        return (1.0 - part) * mean[rows, hour] + part * mean[rows, near], known

    @staticmethod
    def _learn(table: ColumnTable, rows: Rows, off: Floats, hours: Floats, hour: Times) -> None:
        """Move the means of the hour towards these values: first the means of all days, then of about ten days."""
        weight, mean = table["hour_weight"][rows, hour], table["hour_mean"][rows, hour]
        passed = np.maximum(hours, STEP_MIN_H)
        rate = (passed / (weight + passed))[:, None]
        moved = np.where(np.isnan(mean), off, mean + rate * (off - mean))
        with np.errstate(over="ignore"):
            table["hour_mean"][rows, hour] = np.where(np.isfinite(off), moved, mean)
        table["hour_weight"][rows, hour] = np.minimum(weight + passed, HOUR_MEMORY_H)


def largest_usual(days: Floats) -> Floats:
    """Return the largest of days (m, DAYS), but the second largest of two full weeks, because one day may have a fault.

    0 stands for an unknown day.

    >>> largest_usual(np.array([[0.0] * 12 + [3.0, 2.0], [1.0] * 12 + [9.0, 2.0]]))
    array([3., 2.])
    """
    ordered = np.sort(days, axis=1)
    return np.where(ordered[:, 0] > 0.0, ordered[:, -2], ordered[:, -1])


def largest_expected(days: Floats, deviations: float) -> Floats:
    """Return the limit of a day's maximum: `deviations` deviations of ln above the median of days (m, DAYS).

    0 stands for an unknown day; the result is 0 if no day is known.

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
    """Return the maximum of the same weekday in days (m, DAYS) times WEEKLY_MARGIN, so that a weekly pattern is usual.

    Of two such days the smaller counts: a fault does not hide another one a week later.

    >>> same_weekday(np.array([[0.0] * 7 + [5.0] + [1.0] * 6, [2.0] + [1.0] * 6 + [5.0] + [1.0] * 6]))
    array([6. , 2.4])
    """
    newer, older = days[:, -WEEK], days[:, -2 * WEEK]
    return WEEKLY_MARGIN * np.where(older > 0.0, np.minimum(newer, older), newer)


def _median(values: Floats, count: NDArray[np.intp]) -> Floats:
    """Return the medians of the first `count` sorted numbers of rows (m, n), nan last; 0 if there are none."""
    ordered = np.sort(values, axis=1)  # nan comes last
    each, some = np.arange(count.size), np.maximum(count, 1)
    middle = 0.5 * (ordered[each, (some - 1) // 2] + ordered[each, some // 2])
    return np.where(count > 0, middle, 0.0)
