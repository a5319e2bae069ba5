"""Sizes whose run time is out of line with the rest of the curve (ADEPT's individual anomalous points)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from processors.models.downey_fit import fit_downey
from processors.models.fluctuation import excess_over_chord, violation

Floats = NDArray[np.float64]

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
    kept: NDArray[np.bool_]
    violations: float


def find_anomalies(n: Floats, run_time_s: Floats, tolerance: float) -> Anomalies:
    """Return the points that break the convexity of ln T in ln n, at most a quarter of them, each confirmed by a fit.

    `n` (sorted, distinct) and `run_time_s` have shape (k,); `tolerance` is the relative deviation that counts.
    A suspect must lie in a violating triple, halve the violations when left out, and miss the Downey curve of the others.
    The first and the last size cannot be judged alone: a slow last one is saturation.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    >>> [(found.n, round(found.deviation, 2)) for found in find_anomalies(n, np.array([64.0, 32.0, 16.0, 12.0, 4.0]), 0.1).sizes]
    [(8.0, 0.5)]
    """
    kept = np.ones(n.size, bool)
    found: list[AnomalousSize] = []
    for _ in range(max(1, n.size // 4)):
        worst = _worst(n, run_time_s, kept, tolerance)
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
    n: Floats, run_time_s: Floats, kept: NDArray[np.bool_], tolerance: float
) -> tuple[int, AnomalousSize] | None:
    """Return index and description of the cheapest suspect that is confirmed, or None."""
    points = np.flatnonzero(kept)
    if points.size < SIZES_MIN:
        return None
    over = violation(excess_over_chord(n[points], run_time_s[points]), tolerance)
    total = float(over.sum())
    if total == 0.0:
        return None
    triples = np.flatnonzero(over)
    suspects = points[np.unique(np.concatenate([triples, triples + 1, triples + 2]))]
    best: tuple[float, int, AnomalousSize] | None = None
    for suspect in suspects.tolist():
        others = points[points != suspect]
        left = violations(n[others], run_time_s[others], tolerance)
        if left > IMPROVEMENT * total:
            continue
        cost, size = _against_the_others(n, run_time_s, suspect, others, left)
        if abs(size.deviation) > tolerance and (best is None or cost < best[0]):
            best = (cost, suspect, size)
    return None if best is None else best[1:]


def _against_the_others(
    n: Floats, run_time_s: Floats, suspect: int, others: NDArray[np.intp], left: float
) -> tuple[float, AnomalousSize]:
    """Return what blaming the suspect costs, and how far it is from the Downey curve of the others."""
    fit = fit_downey(n[others], run_time_s[others])
    expected_s = float(fit.predict(n[suspect : suspect + 1])[0])
    observed_s = float(run_time_s[suspect])
    deviation = observed_s / expected_s - 1.0
    cost = (fit.rms + 0.01 + left) * (1.0 if deviation > 0 else FAST_COST)
    return cost, AnomalousSize(
        float(n[suspect]), observed_s, expected_s, deviation, "slow" if deviation > 0 else "fast"
    )
