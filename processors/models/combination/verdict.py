"""Whether a forecast can be relied on, and which circumstances speak against it."""

from typing import Final

import numpy as np

from processors.models.combination.curve import Floats
from processors.models.combination.scale import Circumstances, Scale, features

WIDTH_MAX: Final = 0.2  # half-width of the band in ln t up to twice the largest size; more beyond
WIDTH_GROWTH: Final = 1.5  # power of the distance, of which at most DOUBLINGS_MAX count
DOUBLINGS_MAX: Final = 3.0
WIDTH_INSIDE_MAX: Final = 0.1
DISTANCE_MAX: Final = 4.0  # doublings
SIZES_MIN: Final = 3
REASON_SHARE: Final = 0.2  # of what speaks against a forecast, to be named

TOO_FEW, TOO_FAR, BELOW, WIDE = "few_sizes", "far", "below_smallest", "wide_band"
# the circumstances in the order of the coefficients, without the constant, and what is usual among reliable forecasts
CIRCUMSTANCES: Final = (
    TOO_FAR,
    "laws_disagree",
    "forecasts_missed",
    "siblings_missed",
    "few_sizes",
    "wide_gap",
    "poor_fit",
)
USUAL: Final = Circumstances(*(np.array([value]) for value in (1.0, 0.02, 0.3, 0.3, 8.0, 1.0, -4.5)))
_USUAL = features(USUAL)


def reliable(distance: Floats, half_width: Floats, sizes: int) -> list[bool]:
    """Tell for each target beyond the sizes whether it is reliable: distance in doublings, half-width in ln t, (m,).

    >>> reliable(np.array([1.0, 5.0]), np.array([0.1, 0.1]), 4)
    [True, False]
    """
    allowed = WIDTH_MAX * np.clip(distance, 1.0, DOUBLINGS_MAX) ** WIDTH_GROWTH
    narrow = (half_width <= allowed) & (distance <= DISTANCE_MAX)
    return [sizes >= SIZES_MIN and held for held in narrow.tolist()]


def reasons(scale: Scale, told: Circumstances) -> list[tuple[str, ...]]:
    """Return what makes each forecast unsure, the gravest first.

    >>> told = Circumstances(*(np.array([value]) for value in (6.0, 0.02, 0.3, 0.3, 8.0, 1.0, -4.5)))
    >>> from processors.models.combination.scale import SCALE
    >>> reasons(SCALE, told)
    [('far',)]
    """
    excess = np.maximum((features(told) - _USUAL) * np.array(scale), 0.0)[:, 1:]
    return [_named(row, distance) for row, distance in zip(excess.tolist(), told.distance.tolist(), strict=True)]


def _named(excess: list[float], distance: float) -> tuple[str, ...]:
    least = REASON_SHARE * sum(excess)
    ranked = sorted(zip(excess, CIRCUMSTANCES, strict=True), key=lambda pair: -pair[0])
    named = tuple(name for value, name in ranked if value > least)
    if distance > DISTANCE_MAX and TOO_FAR not in named:
        return (TOO_FAR, *named)
    return named or (WIDE,)
