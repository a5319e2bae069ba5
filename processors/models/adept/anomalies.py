"""Sizes whose run time is out of line with the rest of the curve (ADEPT's individual anomalous points)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from processors.models.downey.fit import QuickFitter

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


# Fluctuation of a run-time curve: the metric R of ADEPT and a rule that holds for any spacing of the sizes.
#
# Both look at three neighbouring sizes and ask whether the middle one is out of line.


TOLERANCE = 0.10  # of ADEPT; it must exceed the noise, so three times the noise replaces it where that is more
NOISE_FACTOR = 3.0
R_LIMIT = 1e300  # R of times that differ by more than floats can tell


def tolerance(noise: float) -> float:
    """Return the relative deviation that counts as a fluctuation, from the standard deviation of ln t.

    >>> tolerance(0.03), tolerance(0.05)
    (0.1, 0.15000000000000002)
    """
    return max(TOLERANCE, NOISE_FACTOR * noise)


def fluctuation(n: Floats, run_time_s: Floats) -> Floats:
    """Return R of each interval between neighbouring sizes, shape (k-1,); R is a pure number.

    `n` (sorted, distinct) and `run_time_s` have shape (k,). Perfect speed-up gives 2 - n_i / n_(i+1).
    A slow point makes the R before it small and the R after it large.
    Source: the metric of ADEPT (Deshmeh, Machina, Sodan 2010). Its distance term is exact for geometric spacing only.

    >>> fluctuation(np.array([1.0, 2.0, 4.0, 8.0]), np.array([100.0, 52.0, 40.0, 15.0])).round(6).tolist()
    [1.442308, 0.975, 2.0]
    """
    ratio = n[:-1] / n[1:]
    with np.errstate(over="ignore", under="ignore"):
        r = (run_time_s[:-1] / run_time_s[1:]) * ratio * (2.0 - ratio)
    return np.clip(r, 1.0 / R_LIMIT, R_LIMIT)


def rise_of_r(n: Floats, run_time_s: Floats) -> Floats:
    """Return ln(R_(i+1) / R_i) of each three neighbouring sizes, shape (k-2,).

    Above ln(1 + tolerance) the three points are candidates. Sound for geometric spacing only.

    >>> rise_of_r(np.array([1.0, 2.0, 4.0]), np.array([4.0, 2.0, 1.0])).tolist()
    [0.0]
    """
    return np.diff(np.log(fluctuation(n, run_time_s)))


def excess_over_chord(n: Floats, run_time_s: Floats) -> Floats:
    """Return by how much ln t of each middle size lies above the chord of its neighbours in log-log, shape (k-2,).

    ln T is convex in ln n for every Downey curve, so a noise-free one gives no positive value whatever the spacing.

    >>> excess_over_chord(np.array([4.0, 5.0, 10.0]), np.array([25.0, 20.0, 10.0])).round(12).tolist()
    [-0.0]
    """
    x, y = np.log(n), np.log(run_time_s)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    return np.asarray(y[1:-1] - y[:-2] - share * (y[2:] - y[:-2]))


def violation(excess: Floats, tolerance: float) -> Floats:
    """Return how far each excess is above ln(1 + tolerance), zero where it is not.

    >>> violation(np.array([0.0, 0.5]), 0.1).round(4).tolist()
    [0.0, 0.4047]
    """
    return np.asarray(np.maximum(excess - np.log1p(tolerance), 0.0))


SIZES_MIN = 4  # of ADEPT
IMPROVEMENT = 0.5  # a suspect is cleared unless the violations fall at least to this share without it
FAST_COST = 1.5  # slow points are likelier than fast ones: contention


@dataclass(frozen=True, slots=True)
class AnomalousSize:
    """One size out of line: observed and expected run time, and their relative deviation.

    >>> AnomalousSize(8.0, 15.0, 10.0, 0.5, "slow").direction
    'slow'
    """

    n: float
    observed_s: float
    expected_s: float
    deviation: float
    direction: Literal["slow", "fast"]


@dataclass(frozen=True, slots=True)
class Anomalies:
    """What the search found: the sizes, which of the points are left (mask), and the violations that remain.

    >>> Anomalies((), np.array([True]), 0.0).violations
    0.0
    """

    sizes: tuple[AnomalousSize, ...]
    kept: Booleans
    violations: float


def find_anomalies(n: Floats, run_time_s: Floats, tolerance: float, fitter: QuickFitter | None = None) -> Anomalies:
    """Return the points that break the convexity of ln T in ln n, at most a quarter of them, each confirmed by a fit.

    `n` (sorted, distinct) and `run_time_s` have shape (k,); `tolerance` is the relative deviation that counts.
    A suspect must lie in a violating triple, halve the violations when left out, and miss the Downey curve of the others.
    The first and the last size cannot be judged alone: a slow last one is saturation. `fitter` is one of the same data.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    >>> [(found.n, round(found.deviation, 2)) for found in find_anomalies(n, np.array([64.0, 32.0, 16.0, 12.0, 4.0]), 0.1).sizes]
    [(8.0, 0.5)]
    """
    kept = np.ones(n.size, bool)
    if violations(n, run_time_s, tolerance) == 0.0:
        return Anomalies((), kept, 0.0)
    fits = fitter or QuickFitter(n, run_time_s)
    found: list[AnomalousSize] = []
    for _ in range(max(1, n.size // 4)):
        worst = _worst(n, run_time_s, kept, tolerance, fits)
        if worst is None:
            break
        index, size = worst
        kept[index] = False
        found.append(size)
    return Anomalies(tuple(found), kept, violations(n[kept], run_time_s[kept], tolerance))


def violations(n: Floats, run_time_s: Floats, tolerance: float) -> float:
    """Return the sum of what all triples exceed the tolerance by, in ln t; zero for fewer than three sizes.

    >>> violations(np.array([1.0, 2.0, 4.0]), np.array([4.0, 2.0, 1.0]), 0.1)
    0.0
    """
    if n.size < 3:
        return 0.0
    return float(violation(excess_over_chord(n, run_time_s), tolerance).sum())


def _worst(
    n: Floats, run_time_s: Floats, kept: Booleans, tolerance: float, fitter: QuickFitter
) -> tuple[int, AnomalousSize] | None:
    """Return index and description of the cheapest suspect that is confirmed, or None."""
    suspects, left = _suspects(n, run_time_s, kept, tolerance)
    if not suspects:
        return None
    fits = fitter.fit(np.stack([kept & (np.arange(n.size) != suspect) for suspect in suspects]))
    expected_s = np.diagonal(fits.predict(n[suspects]))
    deviation = run_time_s[suspects] / expected_s - 1.0
    cost = (fits.rms + 0.01 + left) * np.where(deviation > 0.0, 1.0, FAST_COST)
    cost = np.where(np.abs(deviation) > tolerance, cost, np.inf)
    best = int(cost.argmin())
    if not np.isfinite(cost[best]):
        return None
    index, off = suspects[best], float(deviation[best])
    direction: Literal["slow", "fast"] = "slow" if off > 0.0 else "fast"
    return index, AnomalousSize(float(n[index]), float(run_time_s[index]), float(expected_s[best]), off, direction)


def _suspects(n: Floats, run_time_s: Floats, kept: Booleans, tolerance: float) -> tuple[list[int], list[float]]:
    """Return the points whose removal ends at least half of the violations, and the violations left without each."""
    points = np.flatnonzero(kept)
    if points.size < SIZES_MIN:
        return [], []
    over = violation(excess_over_chord(n[points], run_time_s[points]), tolerance)
    triples = np.flatnonzero(over)
    candidates = points[np.unique(np.concatenate([triples, triples + 1, triples + 2]))].tolist()
    left = [
        violations(n[others], run_time_s[others], tolerance) for others in (points[points != one] for one in candidates)
    ]
    cleared = [place for place, rest in enumerate(left) if rest <= IMPROVEMENT * over.sum()]
    return [candidates[place] for place in cleared], [left[place] for place in cleared]
