"""Horizons: how far a size lies outside of those that were known when something was said of it."""

from typing import Final, Literal, get_args

Horizon = Literal["inside", "up_to_2x", "up_to_4x", "beyond_4x"]
HORIZONS: Final[tuple[Horizon, ...]] = get_args(Horizon)


def horizon_of(n: float, n_min: float, n_max: float) -> Horizon:
    """Return how far a size lies outside of the sizes from `n_min` to `n_max`.

    >>> [horizon_of(n, 4.0, 16.0) for n in (8.0, 32.0, 1.0, 128.0)]
    ['inside', 'up_to_2x', 'up_to_4x', 'beyond_4x']
    """
    factor = max(n / n_max, n_min / n)
    if factor <= 1.0:
        return "inside"
    if factor <= 2.0:
        return "up_to_2x"
    return "up_to_4x" if factor <= 4.0 else "beyond_4x"
