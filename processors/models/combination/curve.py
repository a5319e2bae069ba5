"""What one application did on one system with one input: run times by size."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RATIO_MAX: Final = 1e30  # of sizes and of times: nothing measured comes near, and its eighth power stays finite
REPEATS_MAX: Final = 4


class Curve(NamedTuple):
    """Sizes (rising, distinct), the median run time of each in seconds, and up to four single runs of each.

    `key` orders curves of one application among each other, `system` is where it ran. Sizes without single runs are
    judged by their median.

    >>> Curve("a", "archer2", (1.0, 2.0), (10.0, 6.0)).n
    (1.0, 2.0)
    """

    key: str
    system: str
    n: tuple[float, ...]
    median_s: tuple[float, ...]
    repeats: tuple[tuple[float, ...], ...] = ()


class Scaled(NamedTuple):
    """A curve relative to its last size: n/n_k, t/t_k, log2 n and ln t of these; arrays of shape (k,).

    >>> scaled(Curve("a", "archer2", (1.0, 2.0), (10.0, 5.0))).x.tolist()
    [-1.0, 0.0]
    """

    n: Floats
    t: Floats
    x: Floats
    y: Floats


def scaled(curve: Curve) -> Scaled:
    """Return the curve relative to its last size.

    Raises ValueError unless sizes rise, sizes and times are positive and finite, and there are as many of each.

    >>> scaled(Curve("a", "archer2", (2.0, 1.0), (10.0, 5.0)))
    Traceback (most recent call last):
    ValueError: Sizes must be positive, finite and rising.
    """
    n, t = np.array(curve.n, dtype=np.float64), np.array(curve.median_s, dtype=np.float64)
    if n.size == 0 or n.shape != t.shape or len(curve.repeats) not in {0, n.size}:
        raise ValueError("A curve has one run time per size, and repeats of all sizes or of none.")
    if not (n[0] > 0 and n[-1] < np.inf and (n[1:] > n[:-1]).all()):
        raise ValueError("Sizes must be positive, finite and rising.")
    if not (t.min() > 0 and t.max() < np.inf):
        raise ValueError("Run times must be positive and finite.")
    least = 2.0 ** np.arange(n.size) / RATIO_MAX  # sizes out of reach stay apart
    relative_n = np.minimum(np.maximum(relative(n, float(n[-1])), least), 1.0)
    relative_t, x = relative(t, float(t[-1])), np.log2(relative_n)
    if not (x[1:] > x[:-1]).all():
        raise ValueError("Sizes must differ in more than their last digits.")
    return Scaled(relative_n, relative_t, x, np.log(relative_t))


def relative(values: Floats, unit: float) -> Floats:
    """Return values in a unit, within RATIO_MAX of it.

    >>> relative(np.array([1.0, 1e300]), 1e-10).tolist()
    [10000000000.0, 1e+30]
    """
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.clip(values / unit, 1.0 / RATIO_MAX, RATIO_MAX))


def judged_runs(curve: Curve, index: int) -> tuple[float, ...]:
    """Return the single runs of a size that forecasts are judged by: at most four, spread evenly over the sorted ones.

    >>> judged_runs(Curve("a", "s", (1.0,), (5.0,), ((9.0, 1.0, 5.0, 6.0, 4.0, 5.5, 4.5, 7.0),)), 0)
    (4.0, 5.0, 6.0, 9.0)
    """
    runs = sorted(curve.repeats[index]) if curve.repeats else []
    if not runs:
        return (curve.median_s[index],)
    if len(runs) <= REPEATS_MAX:
        return tuple(runs)
    return tuple(runs[(2 * i + 1) * len(runs) // (2 * REPEATS_MAX)] for i in range(REPEATS_MAX))
