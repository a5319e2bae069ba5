"""What makes a forecast unsure, in words: what is unusual among its circumstances."""

from functools import lru_cache
from typing import Final

import numpy as np

from processors.models.combination.replay import Circumstances, Scale, features
from processors.models.numerics.arrays import Floats

DISTANCE_MAX: Final = 4.0  # doublings
REASON_SHARE: Final = 0.2  # of what speaks against a forecast, to be named

TOO_FEW, TOO_FAR, BELOW, WIDE = "few_sizes", "far", "below_smallest", "wide_band"
# the circumstances in the order of the coefficients, without the constant, and what is usual among reliable forecasts
CIRCUMSTANCES: Final = (
    TOO_FAR,
    "members_disagree",
    "forecasts_missed",
    "related_curves_missed",
    "few_sizes",
    "wide_gap",
    "poor_fit",
    "known_further",
)
USUAL: Final = Circumstances(*(np.array([value]) for value in (1.0, 0.02, 0.3, 0.3, 8.0, 1.0, -4.5, 0.0)))
_USUAL = features(USUAL)


def reasons(scale: Scale, given: Circumstances) -> list[tuple[str, ...]]:
    """Return what makes each forecast unsure, the gravest first.

    >>> far = Circumstances(*(np.array([value]) for value in (6.0, 0.02, 0.3, 0.3, 8.0, 1.0, -4.5, 0.0)))
    >>> from processors.models.combination.replay import SCALE
    >>> reasons(SCALE, far)
    [('far',)]
    """
    return reasons_of(scale, features(given), given.distance)


def reasons_of(scale: Scale, found: Floats, distance: Floats) -> list[tuple[str, ...]]:
    """Return the same for circumstances as `features` gives them, (m, 9).

    >>> from processors.models.combination.replay import SCALE
    >>> reasons_of(SCALE, features(USUAL), USUAL.distance)
    [('wide_band',)]
    """
    excess = np.maximum((found - _USUAL) * np.array(scale), 0.0)[:, 1:]
    grave = excess > REASON_SHARE * np.cumsum(excess, axis=1)[:, -1:]
    order = np.argsort(-excess, axis=1, kind="stable").tolist()
    rows = zip(order, grave.sum(axis=1).tolist(), (distance > DISTANCE_MAX).tolist(), strict=True)
    return [_named(tuple(places[:count]), far) for places, count, far in rows]


@lru_cache(maxsize=1024)
def _named(places: tuple[int, ...], far: bool) -> tuple[str, ...]:  # noqa: FBT001
    named = tuple(CIRCUMSTANCES[place] for place in places)
    if far and TOO_FAR not in named:
        return (TOO_FAR, *named)
    return named or (WIDE,)
