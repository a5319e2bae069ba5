"""Logarithmic axes: where a value lies, and which values get a tick."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, log
from typing import Final

_NICE_SECONDS: Final = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
    3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 432_000, 864_000,
)  # fmt: skip
_MARGIN: Final = 0.04  # of the axis, on both ends
_NARROWEST: Final = log(1.5)


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn from pixel `start` to pixel `stop`.

    >>> Axis(1.0, 100.0, 0.0, 200.0).place(10.0)
    100.0
    """

    low: float
    high: float
    start: float
    stop: float

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return self.start + share * (self.stop - self.start)


def axis(values: Iterable[float], start: float, stop: float) -> Axis | None:
    """Return an axis that holds all positive finite values with a little air, None where there are none.

    >>> round(axis([8.0], 0.0, 100.0).place(8.0))
    50
    >>> axis([float("nan"), 0.0], 0.0, 100.0) is None
    True
    """
    logs = [log(value) for value in values if drawable(value)]
    if not logs:
        return None
    low, high = min(logs), max(logs)
    air = max((high - low) * _MARGIN, (_NARROWEST - (high - low)) / 2)
    return Axis(exp(low - air), exp(high + air), start, stop)


def drawable(value: float) -> bool:
    """Return whether a value has a place on a logarithmic axis.

    >>> drawable(1.0), drawable(0.0), drawable(float("inf"))
    (True, False, False)
    """
    return 1e-150 < value < 1e150  # beyond, the ends of an axis would leave the range of floats


def powers(low: float, high: float, base: int, count_max: int) -> list[float]:
    """Return powers of a base in a range, evenly left out until there are at most `count_max`.

    >>> powers(1.0, 300.0, 2, 5)
    [1.0, 4.0, 16.0, 64.0, 256.0]
    """
    first, last = ceil(log(low, base) - 1e-9), floor(log(high, base) + 1e-9)
    step = max(1, ceil((last - first + 1) / count_max))
    return [float(base) ** exponent for exponent in range(first, last + 1, step)]


def duration_ticks(low: float, high: float, count_max: int) -> list[float]:
    """Return durations people count in, inside a range of seconds; powers of ten where that range is very wide.

    >>> duration_ticks(45.0, 4000.0, 4)
    [60.0, 300.0, 1200.0, 3600.0]
    """
    nice = [float(seconds) for seconds in _NICE_SECONDS if low <= seconds <= high]
    if len(nice) < 2 or low < 0.5 or high > 2e6:
        return powers(low, high, 10, count_max)
    return _thinned(nice, count_max)


def _thinned(ticks: Sequence[float], count_max: int) -> list[float]:
    return list(ticks[:: max(1, ceil(len(ticks) / count_max))])
