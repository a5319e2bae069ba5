"""ADEPT's study of one application: patterns, envelope, curve, prediction and verdict from a handful of sizes.

Source: Deshmeh, Machina and Sodan, "ADEPT scalability predictor in support of adaptive resource allocation" (IPDPS 2010).
The order is theirs; the prediction is a Bayes average of Downey curves anchored at the observations (see `curve`), which
on real applications errs about as much as their fit per target (`Study.two_step`) at a fraction of its cost.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from processors.models import reliability
from processors.models.curve import AnchoredCurve, anchored_curve, parallel_curve
from processors.models.fluctuation import tolerance
from processors.models.observations import observations
from processors.models.patterns import Patterns, find_hidden_special, find_patterns
from processors.models.special_sizes import SIZES_MIN as SPECIAL_MIN
from processors.models.study import SIZE_MAX, Study, StudyPrediction
from processors.models.verdict import Verdict

__all__ = ["Study", "StudyPrediction", "Verdict", "study"]

Floats = NDArray[np.float64]

HINDSIGHT = 0.8  # of the error that a pattern explains stays in the band: the next size may break it


def study(
    n: ArrayLike,
    median_s: ArrayLike,
    weight: ArrayLike | None = None,
    noise: float = reliability.NOISE_FLOOR,
    *,
    cores_per_node: int | None = None,
    allowed_sizes: Sequence[float] | None = None,
    unthinned: tuple[Sequence[float] | Floats, Sequence[float] | Floats] | None = None,
) -> Study:
    """Return the study of `k` >= 1 sizes: `n`, their median run times in seconds, and how sure those are; shape (k,).

    `noise` is the standard deviation of ln t between runs; `cores_per_node` lets whole nodes be found as favoured sizes;
    `allowed_sizes` are those that advice may name, by default powers of two. Where neighbouring sizes were merged,
    `unthinned` are all sizes and medians: favoured sizes show only there, and are then used. Order does not matter.
    Raises ValueError unless sizes and times are positive and finite and the noise is not negative.

    >>> study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]).verdict(64).verdict
    'reliable'
    """
    if not 0.0 <= noise < math.inf:
        raise ValueError("The noise must be finite and not negative.")
    given = _Given.of(n, median_s, weight)
    if unthinned is not None and len(unthinned[0]) >= SPECIAL_MIN:
        everything = _Given.of(*unthinned, None)
        special = find_hidden_special(everything.sizes, everything.times, tolerance(noise), cores_per_node)
        if special is not None:
            return _studied(everything, noise, allowed_sizes, Patterns(special.is_member(everything.sizes), special))
    patterns = find_patterns(given.sizes, given.times, tolerance(noise), cores_per_node)
    return _studied(given, noise, allowed_sizes, patterns)


class _Given(NamedTuple):
    """Sizes and times as given, sorted, and as models take them: distinct sizes, times in units of the scale, weights."""

    n: Floats
    run_time_s: Floats
    sizes: Floats
    times: Floats
    weights: Floats
    scale_s: float

    @classmethod
    def of(cls, n: ArrayLike, run_time_s: ArrayLike, weight: ArrayLike | None) -> "_Given":
        seen = observations(n, run_time_s, weight)
        sizes, times = np.asarray(n, dtype=np.float64), np.asarray(run_time_s, dtype=np.float64)
        order = np.lexsort((times, sizes))
        distinct = _distinct(seen.n, seen.run_time_s, seen.weight, seen.scale_s)
        return cls(sizes[order], times[order], *distinct, seen.scale_s)


def _studied(given: _Given, noise: float, allowed_sizes: Sequence[float] | None, patterns: Patterns) -> Study:
    curves = _curves(given.sizes, given.times, given.weights, noise, patterns)
    allowed = tuple(allowed_sizes or ())
    return Study(
        given.n,
        given.run_time_s,
        given.weights,
        noise,
        allowed,
        given.scale_s,
        patterns,
        curves,
        given.sizes,
        given.times,
    )


def _distinct(n: Floats, run_time_s: Floats, weight: Floats, scale_s: float) -> tuple[Floats, Floats, Floats]:
    """Return sizes that differ, times in units of the scale and weights; equal sizes become their weighted mean of ln t."""
    with np.errstate(over="ignore"):
        sizes, times = np.minimum(n, SIZE_MAX), np.minimum(run_time_s / scale_s, SIZE_MAX)
    used = weight > 0.0
    sizes, times, weights = sizes[used], times[used], weight[used]
    first = np.flatnonzero(np.diff(sizes, prepend=-1.0) > 0.0)
    if first.size == sizes.size:
        return sizes, times, weights
    total = np.add.reduceat(weights, first)
    return sizes[first], np.exp(np.add.reduceat(weights * np.log(times), first) / total), total


def _curves(
    n: Floats, run_time_s: Floats, weight: Floats, noise: float, patterns: Patterns
) -> tuple[AnchoredCurve, ...]:
    """Return one curve; of special sizes a second one for the others; of a stepwise curve one per phase."""
    unexplained = HINDSIGHT * patterns.error
    if patterns.phases is not None:
        phase = patterns.phases.index(n)
        inside = (phase == number for number in range(len(patterns.phases.phases)))
        parts = ((n[part], run_time_s[part], weight[part]) for part in inside)
        return tuple(anchored_curve(*part, noise, unexplained=unexplained) for part in parts)
    kept = patterns.fitted
    curve = anchored_curve(n[kept], run_time_s[kept], weight[kept], noise, unexplained=unexplained)
    if patterns.special is None:
        return (curve,)
    slowdown = patterns.special.slowdown
    return curve, parallel_curve(curve, n[~kept], run_time_s[~kept], weight[~kept], noise=noise, slowdown=slowdown)
