"""What is known of one input of an application: its sizes, and its run time at a few sizes in nodes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LONE_SLOPE: Final = -0.75  # d ln t / d ln n where an input was run at one size: between no gain and a perfect one
STEEPEST_BELOW, STEEPEST_BEYOND, FLATTEST_BEYOND = -1.1, -1.0, 0.5
DEVIATION_AWAY: Final = 0.25  # of ln t, for each unit of ln n away from what was run


class Knot(NamedTuple):
    """A point of a curve: size n, ln of the run time in s, and the standard deviation of that.

    >>> Knot(8.0, 4.6, 0.02).n
    8.0
    """

    n: float
    ln_run_time: float
    deviation: float


class Input(NamedTuple):
    """One input: ln of its sizes (a,), its knots by rising n, and its place.

    Inputs of one place differ in their sizes alone; another place is another system, say, or another kind of problem.

    >>> Input("exa", (10.4,), (Knot(8.0, 4.6, 0.02),)).place
    'exa'
    """

    place: str
    ln_sizes: tuple[float, ...]
    knots: tuple[Knot, ...]


class Values(NamedTuple):
    """Curves of k inputs at m sizes, each field (k, m): ln run time, its deviation, and how far n is from a lone run.

    `away` is ln(n/n_run) where an input was run at one size only, else 0: the regression learns the slope from it.
    """

    ln_run_time: Floats
    deviation: Floats
    away: Floats


def values(inputs: Sequence[Input], n: Floats) -> Values:
    """Return what the curves of the inputs say at sizes (m,): smooth lines of ln t over ln n through the knots.

    Beyond them a straight line goes on, within bounds, and is trusted the less the farther it goes.

    >>> one = Input("exa", (1.0,), (Knot(1.0, 2.0, 0.1), Knot(4.0, 1.0, 0.1)))
    >>> values([one], np.array([2.0])).ln_run_time.round(3).tolist()
    [[1.5]]
    """
    read = [_read(each.knots, np.log(n)) for each in inputs]
    return Values(*(np.array(column) for column in zip(*read, strict=True)))


def _read(knots: tuple[Knot, ...], ln_n: Floats) -> tuple[Floats, Floats, Floats]:
    sizes, ln_t, deviation = (np.array(column, dtype=np.float64) for column in zip(*knots, strict=True))
    at = np.log(sizes)
    below, beyond = np.minimum(ln_n - at[0], 0.0), np.maximum(ln_n - at[-1], 0.0)
    first, last = LONE_SLOPE, LONE_SLOPE
    if at.size > 1:
        slopes = np.diff(ln_t) / np.diff(at)
        first = min(max(float(slopes[0]), STEEPEST_BELOW), 0.0)
        last = min(max(float(slopes[-1]), STEEPEST_BEYOND), FLATTEST_BEYOND)
    away = below + beyond
    found = _between(ln_n, at, ln_t) + first * below + last * beyond
    trusted = np.hypot(np.interp(ln_n, at, deviation), DEVIATION_AWAY * np.abs(away))
    return found, trusted, away if at.size == 1 else np.zeros_like(away)


def _between(ln_n: Floats, at: Floats, ln_t: Floats) -> Floats:
    """Return cubic Hermite pieces through the knots, whose slopes are those of the parabolas through three neighbours."""
    if at.size < 3:
        return np.interp(ln_n, at, ln_t)
    slopes = np.gradient(ln_t, at)
    i = np.clip(np.searchsorted(at, ln_n, side="right") - 1, 0, at.size - 2)
    step = at[i + 1] - at[i]
    u = np.clip((ln_n - at[i]) / step, 0.0, 1.0)
    rise = ln_t[i + 1] - ln_t[i]
    bend = (1.0 - u) * (slopes[i] * step - rise) - u * (slopes[i + 1] * step - rise)
    return np.asarray(ln_t[i] + u * rise + u * (1.0 - u) * bend)
