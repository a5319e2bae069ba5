"""Power and energy on what is told of run times: points of curves, and the sizes that take the least energy.

energy = power x run time. Both have bands in which nine of ten runs lie. The two errors are taken to be independent: what
a run draws is off because hosts differ, how long it takes because the curve is off. Then variances of the logarithms add
up, so a half-width in ln is the root of the two squared, on either side. Where the errors go together it is because a run
that waits draws less and takes longer: they partly cancel, and the band is rather too wide.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

from agent.contracts.outputs import CurvePoint, UsefulSizes
from processors.models.digits import six_digits
from processors.models.power.efficiency import efficient

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
    """The energy of a whole run in J, with its band.

    >>> Energy(2.0, 1.0, 4.0).high_j
    4.0
    """

    energy_j: float
    low_j: float
    high_j: float


def energy(point: CurvePoint, power: PowerBand) -> Energy:
    """Return the energy of a run that takes as long as a point of a curve tells, at this power.

    >>> from types import SimpleNamespace
    >>> point = SimpleNamespace(run_time_s=100.0, low_s=50.0, high_s=200.0)
    >>> [round(end) for end in energy(point, SimpleNamespace(power_w=10.0, low_w=5.0, high_w=20.0))]
    [1000, 375, 2665]
    """
    ln_j = math.log(point.run_time_s) + math.log(power.power_w)
    below = math.hypot(_ln(point.run_time_s, point.low_s), _ln(power.power_w, power.low_w))
    above = math.hypot(_ln(point.run_time_s, point.high_s), _ln(power.power_w, power.high_w))
    return Energy(*(math.exp(min(max(end, -LN_MAX), LN_MAX)) for end in (ln_j, ln_j - below, ln_j + above)))


def powered(point: Point, power: PowerBand | None) -> Point:
    """Return a point with power and energy, or as it is where power is not known.

    >>> from types import SimpleNamespace
    >>> point = CurvePoint(n=8.0, run_time_s=130.0, low_s=120.0, high_s=140.0, coverage=0.9, coverage_measured=None,
    ...                    speedup=7.5, efficiency=0.94, extrapolation=1.0, source="observed")
    >>> powered(point, SimpleNamespace(power_w=3200.0, low_w=3100.0, high_w=3300.0)).energy_j
    416000.0
    >>> powered(point, None) is point
    True
    """
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


def relied_on(points: Iterable[Point], reliable: Callable[[Point], bool]) -> list[Point]:
    """Return the points with an energy that can be relied on: sizes among those that were run, or told to be reliable.

    Extrapolated sizes of an uncertain curve are none; nor is one whose energy has a band wider than BAND_MAX.

    >>> relied_on((), lambda point: True)
    []
    """
    found = []
    for point in points:
        low_j, high_j = point.energy_low_j, point.energy_high_j
        narrow = low_j is not None and high_j is not None and high_j <= BAND_MAX * low_j
        if narrow and (point.source in INSIDE or reliable(point)):
            found.append(point)
    return found


def with_least_energy(useful: UsefulSizes, points: Sequence[CurvePoint]) -> UsefulSizes:
    """Return sizes worth asking for with those of least energy, and of least energy times delay, of these points.

    Fewer than two points have nothing to choose from.

    >>> with_least_energy(UsefulSizes(knee=8.0), ()).least_energy
    """
    known = [(point.n, point.run_time_s, point.power_w) for point in points if point.power_w is not None]
    if len(known) < 2:
        return useful
    found = efficient(*(np.array(column, dtype=np.float64) for column in zip(*known, strict=True)))
    return msgspec.structs.replace(
        useful, least_energy=found.least_energy_n, least_energy_delay=found.least_energy_delay_n
    )


def changed(published: Sequence[float | None], now: Sequence[PowerBand | None]) -> bool:
    """Tell whether power at the sizes of a curve is other than what was published, by CHANGE_MIN in ln or in being known.

    >>> from types import SimpleNamespace
    >>> power = SimpleNamespace(power_w=100.0)
    >>> changed([100.0], [power]), changed([90.0], [power]), changed([None], [power]), changed([], [None])
    (False, True, True, False)
    """
    before = published or [None] * len(now)
    return len(before) != len(now) or any(_differs(then, power) for then, power in zip(before, now, strict=True))


def told_powers(points: Sequence[CurvePoint]) -> tuple[float | None, ...]:
    """Return the powers that a curve tells, to compare with later; empty where it tells none.

    >>> told_powers(())
    ()
    """
    found = tuple(point.power_w for point in points)
    return found if any(power_w is not None for power_w in found) else ()


def _differs(then: float | None, power: PowerBand | None) -> bool:
    if then is None or power is None:
        return (then is None) != (power is None)
    return abs(_ln(then, power.power_w)) > CHANGE_MIN


def _ln(middle: float, end: float) -> float:
    return math.log(end) - math.log(middle)
