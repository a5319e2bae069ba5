"""Scales of pictures: where a value lies, and which values get a tick."""

import math
from typing import Final

import msgspec

from agent.contracts.moments import rfc3339

Spot = tuple[float, float]
_TICKS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_TICKS_MAX: Final = 7
_DATES: Final = 5
_TIDY_MS: Final = tuple(
    minutes * 60_000 for minutes in (5, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080, 20_160, 43_200, 86_400, 129_600, 259_200, 525_600)
)  # fmt: skip


class Scale(msgspec.Struct, frozen=True):
    """A scale from `low` at pixel `start` to `high` at pixel `stop`.

    >>> Scale(0.0, 1.0, 100.0, 0.0).place(0.25), Scale(1.0, 100.0, 0.0, 200.0, logarithmic=True).place(10.0)
    (75.0, 100.0)
    """

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.start + (at - low) / (high - low) * (self.stop - self.start)


def percent_ticks(low: float, high: float) -> list[float]:
    """Return shares that people count in, inside a range; evenly fewer where they are many.

    >>> percent_ticks(0.09, 1.2)
    [0.1, 0.2, 0.5, 1.0]
    """
    if high > _TICKS[-1] * 10 or low < _TICKS[0] / 10:
        first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
        tens = [10.0**exponent for exponent in range(first, last + 1)]
        return tens[:: max(1, math.ceil(len(tens) / _TICKS_MAX))]
    found = [tick for tick in _TICKS if low <= tick <= high]
    return found[:: max(1, math.ceil(len(found) / _TICKS_MAX))]


def percent(tick: float) -> str:
    """Return the label of a tick: per cent, a multiple from 10 on.

    >>> percent(0.005), percent(0.5), percent(2.0), percent(100.0)
    ('0.5 %', '50 %', '200 %', '100x')
    """
    return f"{tick:g}x" if tick >= 10 else f"{100 * tick:g} %"


def dated(low_ms: float, high_ms: float, *, clock: bool) -> list[tuple[float, str]]:
    """Return some times inside a range with their dates, or times of the day.

    >>> [label for _, label in dated(0, 4 * 86_400_000, clock=False)]
    ['1970-01-01', '1970-01-02', '1970-01-03', '1970-01-04', '1970-01-05']
    """
    step = next((tidy for tidy in _TIDY_MS if (high_ms - low_ms) / tidy <= _DATES), _TIDY_MS[-1])
    step *= math.ceil((high_ms - low_ms) / (step * (_DATES + 1)))
    ticks = range(math.ceil(low_ms / step) * step, math.floor(high_ms) + 1, step)
    cut = slice(11, 16) if clock else slice(10)
    return [(float(tick), rfc3339(tick)[cut]) for tick in ticks]
