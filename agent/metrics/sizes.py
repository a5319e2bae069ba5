"""Sizes as labels, and how many of a curve are shown."""

from collections.abc import Sequence

from agent.contracts.outputs import CurvePoint


def size_text(n: float) -> str:
    """Return a size as a label: whole numbers without a point or exponent, so that a series keeps its name.

    >>> size_text(2_000_000.0), size_text(0.5)
    ('2000000', '0.5')
    """
    return str(int(n)) if n == int(n) else str(n)


def spread(curve: Sequence[CurvePoint], sizes_max: int) -> Sequence[CurvePoint]:
    """Return at most `sizes_max` points, both ends included and the others evenly between.

    >>> spread([1, 2, 3, 4, 5], 3)
    [1, 3, 5]
    """
    if len(curve) <= sizes_max:
        return curve
    last = len(curve) - 1
    return [curve[round(index * last / max(sizes_max - 1, 1))] for index in range(sizes_max)]
