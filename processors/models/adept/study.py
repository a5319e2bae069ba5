"""ADEPT's study of one application: patterns, run times with bands, useful sizes and verdicts from a handful of sizes.

Source: Deshmeh, Machina and Sodan, "ADEPT scalability predictor in support of adaptive resource allocation" (IPDPS 2010). The
order of the steps follows this source. The prediction is a Bayes average of Downey curves anchored at the observations: on real
applications the error is about that of ADEPT's fit for each target, at a fraction of the cost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from processors.models.adept.patterns import SPECIAL_SIZES_MIN as SPECIAL_MIN
from processors.models.adept.patterns import (
    AnomalousSize,
    Patterns,
    find_hidden_special,
    find_patterns,
    fluctuation,
    tolerance,
)
from processors.models.adept.verdict import (
    NOISE_FLOOR,
    REACH,
    SIZES_MIN,
    STEP_FLOOR,
    FitEvidence,
    ObservedCurve,
    Verdict,
    anomaly_message,
    gather_many,
    judged,
    jump_message,
    next_size,
    slowdown_message,
    special_message,
)
from processors.models.downey.bayes import AnchoredCurve, Posterior, anchored_curve, parallel_curve
from processors.models.downey.curve import observations, seconds
from processors.models.downey.two_step import DEVIATION, ParameterBounds, envelope
from processors.models.numerics.arrays import Floats, Indices

SIZE_MAX = 1e30  # limit of sizes and of ratios of times: nothing measured comes near
DEVIATION_MAX = 0.5
USEFUL_REACH = 4.0  # multiple of the largest size
USEFUL_STEPS = 49
OBSERVED, INTERPOLATED, EXTRAPOLATED = "observed", "interpolated", "extrapolated"

EFFICIENCY_MIN = 0.5
NO_GAIN = 0.01  # a run time this close to the shortest one is no reason to allocate more


class MeaningfulSizes(NamedTuple):
    """Recommended sizes to request; a field is None if it lies beyond the end of the curve.

    `knee` maximises speed-up times efficiency. `at_half_efficiency` is the last size with an efficiency of at least 0.5. `max` is
    the smaller of `at_half_efficiency` and the size beyond which the run time no longer falls. Sizes of at least 1 are whole
    numbers.
    """

    knee: float | None
    at_half_efficiency: float | None
    max: float | None


def last_efficient_size(n: Floats, speedup: Floats, efficiency_min: float = EFFICIENCY_MIN) -> float | None:
    """Return the last size with an efficiency of at least `efficiency_min`, interpolated; None if the curve ends before this size.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    >>> last_efficient_size(n, np.minimum(n, 4.0))
    8.0
    """
    ln_n, excess = np.log(n), np.log(speedup / n) - np.log(efficiency_min)
    positive = np.flatnonzero(excess >= 0.0)
    last = int(positive[-1]) if positive.size else 0
    if not positive.size or last == ln_n.size - 1:
        return None
    share = excess[last] / (excess[last] - excess[last + 1])
    return float(round(np.exp(ln_n[last] + share * (ln_n[last + 1] - ln_n[last])), 6))


def meaningful_sizes(n: Floats, speedup: Floats, allowed: Floats, speedup_allowed: Floats) -> MeaningfulSizes:
    """Return the recommended sizes of a curve; `n` (ascending) and `speedup` have shape (m,).

    The knee is one of the `allowed` sizes (a,), ascending, with the speed-up `speedup_allowed` (a,), or `max` if all of them are
    larger. The other recommended sizes do not depend on `allowed`. Source of the knee: Eager, Zahorjan, Lazowska, "Speedup versus
    efficiency in parallel systems" (1989).

    >>> n = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    >>> meaningful_sizes(n, np.minimum(n, 4.0), n, np.minimum(n, 4.0))
    MeaningfulSizes(knee=4.0, at_half_efficiency=8.0, max=4.0)
    """
    half = _whole(last_efficient_size(n, speedup), np.floor)
    flat = _whole(_flat_from(n, speedup), np.ceil)
    largest = min((size for size in (half, flat) if size is not None), default=None)
    worth = speedup_allowed**2 / allowed if allowed.size else allowed
    best = int(worth.argmax()) if worth.size else 0
    knee = float(allowed[best]) if best < worth.size - 1 else None
    if knee is not None and largest is not None and knee > largest:  # a size beyond the useful ones is no knee
        useful = allowed <= largest
        knee = float(allowed[useful][worth[useful].argmax()]) if useful.any() else largest
    return MeaningfulSizes(knee, half, largest)


def _whole(n: float | None, rounding: np.ufunc) -> float | None:
    """Return the size rounded to a whole number, because nobody can allocate a part of a node; a size below 1 is not rounded."""
    return n if n is None or n < 1.0 else float(rounding(round(n, 4)))


def _flat_from(n: Floats, speedup: Floats) -> float | None:
    """Return the first size whose run time is within NO_GAIN of the shortest; None if this size is one of the last two."""
    first = int(np.flatnonzero(speedup >= speedup.max() * (1.0 - NO_GAIN))[0])
    return None if first >= n.size - 2 else float(round(n[first], 6))


class StudyPrediction(NamedTuple):
    """Predictions at m targets, arrays of shape (m,); times in seconds.

    `low_s` and `high_s` are the ends of the band that contains 90 % of single runs. `extrapolation` is the target divided by the
    largest observed size. `source` is "observed", "interpolated" or "extrapolated".
    """

    run_time_s: Floats
    low_s: Floats
    high_s: Floats
    speedup: Floats
    efficiency: Floats
    extrapolation: Floats
    source: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Study:
    """A study of the sizes of one application, built by `study`. Values that a prediction does not need are computed lazily.

    `n` and `run_time_s` (k,) are the observed sizes and times, sorted. `sizes` are the distinct sizes, where 1 replaces a size
    below 1. The curves count times in units of `scale_s` seconds.
    There is one curve per phase, or the curve of the favoured sizes first. `gathered` is evidence that `gather_evidence`
    computed together with that of other studies.

    >>> slow_at_8 = study([1, 2, 4, 8, 16, 32], [100.0, 50.25, 25.38, 19.41, 6.72, 3.61])
    >>> [(size.n, size.direction) for size in slow_at_8.anomalies]
    [(8.0, 'slow')]
    """

    n: Floats
    run_time_s: Floats
    sizes: Floats
    _times: Floats
    weight: Floats
    scale_s: float
    noise: float
    allowed_sizes: tuple[float, ...]
    patterns: Patterns
    curves: tuple[AnchoredCurve, ...]
    gathered: list[FitEvidence] = field(default_factory=list)

    @property
    def posterior(self) -> Posterior:
        """The posterior of the curve that covers the largest sizes, or of the curve of the special sizes; its times are in units of `scale_s`."""
        return self.curves[self._main].posterior

    @property
    def _main(self) -> int:
        """The index of the curve that covers the largest sizes, or of the curve of the special sizes."""
        return -1 if self.patterns.special is None else 0

    @cached_property
    def anomalies(self) -> tuple[AnomalousSize, ...]:
        """The sizes that deviate from the curve of the other sizes, with times in seconds."""
        return tuple(
            replace(found, observed_s=self._second(found.observed_s), expected_s=self._second(found.expected_s))
            for found in self.patterns.anomalies
        )

    @cached_property
    def fluctuation(self) -> Floats:
        """ADEPT's fluctuation R of each interval between neighbouring sizes, shape (k-1,)."""
        return fluctuation(self.sizes, self._times)

    @cached_property
    def envelope(self) -> ParameterBounds:
        """Bounds on the parameters of all Downey curves that deviate little from each regular size; times in seconds."""
        retained = self.patterns.retained
        deviation = min(DEVIATION * max(1.0, self.noise / NOISE_FLOOR), DEVIATION_MAX)
        bounds = envelope(self.sizes[retained], self._times[retained], deviation)
        t1_low_s, t1_high_s = seconds([bounds.t1_low_s, bounds.t1_high_s], self.scale_s).tolist()
        return replace(bounds, t1_low_s=t1_low_s, t1_high_s=t1_high_s)

    def predict(self, targets: ArrayLike) -> StudyPrediction:
        """Return the predictions at the sizes `targets` (m,); raise ValueError unless all are positive and finite.

        >>> study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]).predict([12, 64]).run_time_s.round().tolist()
        [98.0, 63.0]
        """
        sizes = np.atleast_1d(np.asarray(targets, dtype=np.float64))
        by_curve = [curve.predict(sizes) for curve in self.curves]
        ln_times = np.array([self._answers(sizes, list(field)) for field in zip(*by_curve, strict=True)])
        run_time_s, low_s, high_s = seconds(_exp(ln_times), self.scale_s)
        speedup = _exp(self._ln_t1 - self._answers(sizes, [predicted.middle for predicted in by_curve]))
        with np.errstate(over="ignore", under="ignore"):
            efficiency, extrapolation = speedup / sizes, sizes / self.n[-1]
        return StudyPrediction(run_time_s, low_s, high_s, speedup, efficiency, extrapolation, self.sources(sizes))

    def run_times(self, targets: Floats) -> Floats:
        """Return the run times in seconds at the sizes `targets` (m,), without bands, at a fraction of the cost of `predict`."""
        return seconds(_exp(self._ln_run_time(targets)), self.scale_s)

    def _answers(self, targets: Floats, by_curve: list[Floats]) -> Floats:
        """Return one value per target, (m,), each taken from the curve that covers this target; `by_curve` has the values (m,) of each curve."""
        if len(by_curve) == 1:
            return by_curve[0]
        return np.stack(by_curve)[self._curve_of(targets), np.arange(targets.size)]

    def _ln_run_time(self, targets: Floats) -> Floats:
        return self._answers(targets, [curve.ln_run_time(targets) for curve in self.curves])

    @cached_property
    def _ln_t1(self) -> float:
        return float(self._ln_run_time(np.ones(1))[0])

    @cached_property
    def useful(self) -> MeaningfulSizes:
        """The recommended sizes; none exceeds four times the largest observed size."""
        reach = USEFUL_REACH * float(self.sizes[-1])
        observed = self.sizes.tolist()
        grid = np.array(sorted({*_useful_grid(max(reach, 2.0)), *observed}))
        allowed = {size for size in self.allowed_sizes if 0.0 < size <= reach}
        if not self.allowed_sizes:
            allowed = {*(2.0**power for power in range(math.floor(math.log2(reach)) + 1)), *observed}
        candidates = np.array(sorted(allowed), dtype=np.float64)
        sizes = np.array(sorted({1.0, *grid.tolist(), *allowed}))  # most candidates lie on the grid
        ln_times = self._ln_run_time(sizes)
        ln_one, on_grid, on_candidates = (ln_times[sizes.searchsorted(part)] for part in (1.0, grid, candidates))
        return meaningful_sizes(grid, _exp(ln_one - on_grid), candidates, _exp(ln_one - on_candidates))

    @cached_property
    def preferred_sizes(self) -> tuple[float, ...]:
        """The sizes of the favoured class, observed and further ones up to twice the largest size; empty without a favoured class."""
        if self.patterns.special is None:
            return ()
        return self.patterns.special.sizes_up_to(REACH * float(self.sizes[-1]), self.allowed_sizes)

    @property
    def model_name(self) -> str:
        """The name of the predicting model: adept, or bayes_downey for fewer than SIZES_MIN sizes."""
        return "adept" if self.sizes.size >= SIZES_MIN else "bayes_downey"

    def parameters(self) -> dict[str, float]:
        """Return Downey's parameters averaged over the posterior: geometric means of A and of T(1) in seconds, arithmetic mean of sigma.

        >>> parameters = study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]).parameters()
        >>> {name: round(value, 1) for name, value in parameters.items()}
        {'A': 15.9, 'sigma': 0.5, 't1_s': 994.9}
        """
        belief = self.posterior
        parallelism, t1 = _exp(np.array([belief.cells.ln_parallelism @ belief.mass, belief.ln_t1_s @ belief.mass]))
        return {"A": float(parallelism), "sigma": float(belief.cells.sigma @ belief.mass), "t1_s": self._second(t1)}

    def _curve_of(self, targets: Floats) -> Indices:
        if self.patterns.special is not None and len(self.curves) > 1:
            return np.where(self.patterns.special.is_member(targets), 0, 1)
        return (
            self.patterns.phases.index(targets) if self.patterns.phases is not None else np.zeros(targets.size, np.intp)
        )

    def sources(self, targets: Floats) -> tuple[str, ...]:
        """Return "observed", "interpolated" or "extrapolated" for each target (m,)."""
        sizes = self.n.tolist()
        observed, smallest, largest = set(sizes), sizes[0], sizes[-1]
        return tuple(
            OBSERVED if n in observed else INTERPOLATED if smallest <= n <= largest else EXTRAPOLATED
            for n in targets.tolist()
        )

    @cached_property
    def verdict(self) -> Verdict:
        """ADEPT's verdict on twice the largest size, with sentences for people and the size whose run would be most informative.

        >>> study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]).verdict.verdict
        'reliable'
        """
        evidence = (self.gathered or gather_many(self.points))[self._main]
        next_n = next_size(self.sizes, self.preferred_sizes or self.allowed_sizes, self.curves[self._main].sd_ln)
        return judged(evidence, next_n, self.pattern_advice)

    @property
    def points(self) -> list[ObservedCurve]:
        """The observations of each curve to be judged; with special sizes, only the observations of these sizes."""
        judged = self.curves if self.patterns.special is None else self.curves[:1]
        return [ObservedCurve(*self._observed(curve), self.noise) for curve in judged]

    def _observed(self, curve: AnchoredCurve) -> tuple[Floats, Floats]:
        if curve.n.size == self.sizes.size and self.patterns.retained.all():
            return self.sizes, self._times
        inside = np.isin(self.sizes, curve.n) & self.patterns.retained
        return self.sizes[inside], self._times[inside]

    @cached_property
    def slower_beyond(self) -> float | None:
        """The fastest regular size if the largest regular size takes longer by more than STEP_FLOOR (more with noise), else None."""
        retained = self.patterns.retained
        n, run_time_s = self.sizes[retained], self._times[retained]
        best, step = int(run_time_s.argmin()), STEP_FLOOR * max(1.0, self.noise / NOISE_FLOOR)
        return float(n[best]) if run_time_s[-1] / run_time_s[best] > 1.0 + step else None

    @cached_property
    def pattern_advice(self) -> tuple[str, ...]:
        """Advice about unusual sizes, as sentences for people; it does not depend on the verdict."""
        messages = [anomaly_message(anomaly.n, anomaly.deviation) for anomaly in self.patterns.anomalies]
        if self.slower_beyond is not None:
            largest_n = float(self.sizes[self.patterns.retained][-1])
            messages.insert(0, slowdown_message(largest_n, self.slower_beyond))
        if self.patterns.special is not None:
            messages.append(special_message(self.patterns.special.name, self.patterns.special.slowdown))
        phases = self.patterns.phases.phases if self.patterns.phases is not None else ()
        messages += [jump_message(before.last_n, after.first_n, after.jump) for before, after in pairwise(phases)]
        return tuple(messages)

    def _second(self, scaled: float) -> float:
        return float(seconds(scaled, self.scale_s))


@lru_cache(maxsize=64)
def _useful_grid(reach: float) -> tuple[float, ...]:
    return tuple(np.geomspace(1.0, reach, USEFUL_STEPS).tolist())


def _exp(ln: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(ln, -700.0, 700.0)))


HINDSIGHT = 0.8  # share of the error explained by a pattern that stays in the band: the next size may break the pattern


def study(
    n: ArrayLike,
    median_s: ArrayLike,
    weight: ArrayLike | None = None,
    noise: float = NOISE_FLOOR,
    *,
    cores_per_node: int | None = None,
    allowed_sizes: Sequence[float] | None = None,
    unthinned: tuple[Sequence[float] | Floats, Sequence[float] | Floats] | None = None,
) -> Study:
    """Return the study of k >= 1 sizes; `n`, the median run times `median_s` and `weight` have shape (k,), in any order.

    `noise` is the standard deviation of ln t between runs. With `cores_per_node`, whole nodes are a class of special sizes.
    Advice names only `allowed_sizes`, by default powers of two. If neighbouring sizes were merged, `unthinned` holds sizes and
    medians before the merge: special sizes show only there, and the study then uses `unthinned` in place of `n`. Raises
    ValueError unless sizes and times are positive and finite and the noise is finite and not negative.

    >>> study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]).predict([64]).run_time_s.round().tolist()
    [63.0]
    """
    if not 0.0 <= noise < math.inf:
        raise ValueError("The noise must be finite and not negative.")
    data = _Given.of(n, median_s, weight)
    if unthinned is not None and len(unthinned[0]) >= SPECIAL_MIN:
        unmerged = _Given.of(*unthinned, None)
        special = find_hidden_special(unmerged.sizes, unmerged.times, tolerance(noise), cores_per_node)
        if special is not None:
            return _studied(unmerged, noise, allowed_sizes, Patterns(special.is_member(unmerged.sizes), special))
    patterns = find_patterns(data.sizes, data.times, tolerance(noise), cores_per_node)
    return _studied(data, noise, allowed_sizes, patterns)


class _Given(NamedTuple):
    """The checked input of a study.

    `n` and `run_time_s` are the observed sizes and times in seconds, sorted by size. `sizes`, `times` (in units of `scale_s`) and
    `weights` are the values that the models use, one entry per distinct size.
    """

    n: Floats
    run_time_s: Floats
    sizes: Floats
    times: Floats
    weights: Floats
    scale_s: float

    @classmethod
    def of(cls, n: ArrayLike, run_time_s: ArrayLike, weight: ArrayLike | None) -> "_Given":
        checked = observations(n, run_time_s, weight)
        sizes, times = np.asarray(n, dtype=np.float64), np.asarray(run_time_s, dtype=np.float64)
        distinct = _distinct(checked.n, checked.run_time_s, checked.weight, checked.scale_s)
        if not (sizes[1:] > sizes[:-1]).all():
            order = np.lexsort((times, sizes))
            sizes, times = sizes[order], times[order]
        return cls(sizes, times, *distinct, checked.scale_s)


def _studied(data: _Given, noise: float, allowed_sizes: Sequence[float] | None, patterns: Patterns) -> Study:
    curves = _curves(data.sizes, data.times, data.weights, noise, patterns)
    return Study(*data, noise, tuple(allowed_sizes or ()), patterns, curves)


def gather_evidence(studies: Sequence[Study]) -> None:
    """Compute the evidence of all studies that have none yet, in one batch, and store it in each study."""
    waiting = [study for study in studies if not study.gathered]
    points = [study.points for study in waiting]
    evidence = iter(gather_many(list(chain(*points))))
    for study, observed in zip(waiting, points, strict=True):
        study.gathered.extend(islice(evidence, len(observed)))


def _distinct(n: Floats, run_time_s: Floats, weight: Floats, scale_s: float) -> tuple[Floats, Floats, Floats]:
    """Return the distinct sizes, their times in units of `scale_s`, and their weights.

    Times of equal sizes are combined by the weighted mean of ln t, and their weights are added.
    """
    with np.errstate(over="ignore"):
        sizes, times = np.minimum(n, SIZE_MAX), np.minimum(run_time_s / scale_s, SIZE_MAX)
    used = weight > 0.0
    weights = weight
    if not used.all():
        sizes, times, weights = sizes[used], times[used], weight[used]
    if (sizes[1:] > sizes[:-1]).all():
        return sizes, times, weights
    first = np.flatnonzero(np.diff(sizes, prepend=-1.0) > 0.0)
    total = np.add.reduceat(weights, first)
    return sizes[first], np.exp(np.add.reduceat(weights * np.log(times), first) / total), total


def _curves(
    n: Floats, run_time_s: Floats, weight: Floats, noise: float, patterns: Patterns
) -> tuple[AnchoredCurve, ...]:
    """Return the fitted curves: one per phase, or one for the special sizes and a parallel one for the others, or a single curve."""
    unexplained = HINDSIGHT * patterns.error
    if patterns.phases is not None:
        phase = patterns.phases.index(n)
        inside = (phase == number for number in range(len(patterns.phases.phases)))
        parts = ((n[part], run_time_s[part], weight[part]) for part in inside)
        return tuple(anchored_curve(*part, noise, unexplained=unexplained) for part in parts)
    retained = patterns.fitted
    curve = anchored_curve(n[retained], run_time_s[retained], weight[retained], noise, unexplained=unexplained)
    if patterns.special is None:
        return (curve,)
    slowdown = patterns.special.slowdown
    return curve, parallel_curve(
        curve, n[~retained], run_time_s[~retained], weight[~retained], noise=noise, slowdown=slowdown
    )
