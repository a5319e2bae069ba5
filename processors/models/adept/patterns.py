"""Patterns that a run-time curve may show, in ADEPT's order: special sizes, then anomalous points, then phases.

Source of the order and of the constants marked "ADEPT": Deshmeh, Machina, Sodan, "ADEPT scalability predictor in support
of adaptive resource allocation" (IPDPS 2010).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import Literal

import numpy as np

from processors.models.downey.fit import QuickFitter, fit_downey
from processors.models.laws import AmdahlFits, least_squares_amdahl
from processors.models.numerics.arrays import Bools, Floats, Indices

# Two tests whether the middle one of three neighbouring sizes is out of line: ADEPT's metric R, and the height above the
# chord, which works for any spacing of the sizes.

TOLERANCE = 0.10  # ADEPT; a tolerance must exceed the noise, so it is at least NOISE_FACTOR times the noise
NOISE_FACTOR = 3.0
R_LIMIT = 1e300  # keeps R finite for times that differ by more than the range of floats


def tolerance(noise: float) -> float:
    """Return the least relative deviation of a run time that counts as anomalous; `noise` is the standard deviation of ln t.

    >>> tolerance(0.03), tolerance(0.05)
    (0.1, 0.15000000000000002)
    """
    return max(TOLERANCE, NOISE_FACTOR * noise)


def fluctuation(n: Floats, run_time_s: Floats) -> Floats:
    """Return ADEPT's metric R for each interval between neighbouring sizes, without a unit, shape (k-1,).

    `n` (sorted, distinct) and `run_time_s` have shape (k,). R is the speed-up over the interval times r (2 - r) with
    r = n_i / n_(i+1), so perfect speed-up gives 2 - r. A slow size lowers R of the interval before it and raises R of the
    interval after it. The factor 2 - r is exact for geometric spacing only.

    >>> fluctuation(np.array([1.0, 2.0, 4.0, 8.0]), np.array([100.0, 52.0, 40.0, 15.0])).round(6).tolist()
    [1.442308, 0.975, 2.0]
    """
    ratio = n[:-1] / n[1:]
    with np.errstate(over="ignore", under="ignore"):
        r = (run_time_s[:-1] / run_time_s[1:]) * ratio * (2.0 - ratio)
    return np.clip(r, 1.0 / R_LIMIT, R_LIMIT)


def excess_over_chord(n: Floats, run_time_s: Floats) -> Floats:
    """Return the height of ln t of each inner size above the chord of its two neighbours in log-log, shape (k-2,).

    ln T is convex in ln n for every Downey curve. Data without noise therefore give no positive value, whatever the spacing.

    >>> excess_over_chord(np.array([4.0, 5.0, 10.0]), np.array([25.0, 20.0, 10.0])).round(12).tolist()
    [-0.0]
    """
    x, y = np.log(n), np.log(run_time_s)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    return np.asarray(y[1:-1] - y[:-2] - share * (y[2:] - y[:-2]))


def violation(excess: Floats, tolerance: float) -> Floats:
    """Return the violation of convexity for each excess above a chord, in ln t: the part above ln(1 + tolerance), at least 0."""
    return np.asarray(np.maximum(excess - np.log1p(tolerance), 0.0))


SIZES_MIN = 4  # ADEPT
IMPROVEMENT = 0.5  # a point is anomalous only if the violations fall to this share without it
FAST_COST = 1.5  # cost of a fast point; slow ones are likelier, because of contention


@dataclass(frozen=True, slots=True)
class AnomalousSize:
    """A size that deviates from the curve of the other sizes: observed and expected run time in seconds, and the relative deviation."""

    n: float
    observed_s: float
    expected_s: float
    deviation: float
    direction: Literal["slow", "fast"]


@dataclass(frozen=True, slots=True)
class Anomalies:
    """The anomalous sizes, a mask (k,) of the regular sizes, and the sum of the violations that the regular sizes still have."""

    sizes: tuple[AnomalousSize, ...]
    retained: Bools
    violations: float


def find_anomalies(n: Floats, run_time_s: Floats, tolerance: float, fitter: QuickFitter | None = None) -> Anomalies:
    """Return the sizes whose run times contradict the convexity of ln T in ln n, at most a quarter of all sizes (at least one).

    `n` (sorted, distinct) and `run_time_s` have shape (k,). A relative deviation above `tolerance` counts. `fitter` must have
    been built from the same data. A size is anomalous if (1) it is one of three neighbouring sizes of which the middle one lies
    too high above the chord of the other two, (2) the sum of such violations falls by at least half without the size, and
    (3) the size deviates from the Downey curve fitted to the other sizes. The first and the last size are never the middle one:
    a slow last size may be saturation.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    >>> [(size.n, round(size.deviation, 2)) for size in find_anomalies(n, np.array([64.0, 32.0, 16.0, 12.0, 4.0]), 0.1).sizes]
    [(8.0, 0.5)]
    """
    retained = np.ones(n.size, bool)
    if violations(n, run_time_s, tolerance) == 0.0:
        return Anomalies((), retained, 0.0)
    fits = fitter or QuickFitter(n, run_time_s)
    anomalous: list[AnomalousSize] = []
    for _ in range(max(1, n.size // 4)):
        worst = _worst(n, run_time_s, retained, tolerance, fits)
        if worst is None:
            break
        index, size = worst
        retained[index] = False
        anomalous.append(size)
    return Anomalies(tuple(anomalous), retained, violations(n[retained], run_time_s[retained], tolerance))


def violations(n: Floats, run_time_s: Floats, tolerance: float) -> float:
    """Return the sum, in ln t, of the violations of all triples of neighbouring sizes; 0 for fewer than three sizes."""
    if n.size < 3:
        return 0.0
    return float(violation(excess_over_chord(n, run_time_s), tolerance).sum())


def _worst(
    n: Floats, run_time_s: Floats, retained: Bools, tolerance: float, fitter: QuickFitter
) -> tuple[int, AnomalousSize] | None:
    """Return the index and the description of the best candidate for an anomalous size; None if no candidate deviates from its fit.

    The best candidate leaves the smallest sum of fit error and violations when it is removed; FAST_COST multiplies the sum of a
    fast size, because slow sizes are more common.
    """
    candidates, left = _candidates(n, run_time_s, retained, tolerance)
    if not candidates:
        return None
    fits = fitter.fit(np.stack([retained & (np.arange(n.size) != candidate) for candidate in candidates]))
    expected_s = np.diagonal(fits.predict(n[candidates]))
    deviation = run_time_s[candidates] / expected_s - 1.0
    cost = (np.sqrt(fits.objective) + 0.01 + left) * np.where(deviation > 0.0, 1.0, FAST_COST)
    cost = np.where(np.abs(deviation) > tolerance, cost, np.inf)
    best = int(cost.argmin())
    if not np.isfinite(cost[best]):
        return None
    index, off = candidates[best], float(deviation[best])
    direction: Literal["slow", "fast"] = "slow" if off > 0.0 else "fast"
    return index, AnomalousSize(float(n[index]), float(run_time_s[index]), float(expected_s[best]), off, direction)


def _candidates(n: Floats, run_time_s: Floats, retained: Bools, tolerance: float) -> tuple[list[int], list[float]]:
    """Return the indices of the sizes whose removal lowers the violations by at least half, and the violations left by each removal."""
    points = np.flatnonzero(retained)
    if points.size < SIZES_MIN:
        return [], []
    over = violation(excess_over_chord(n[points], run_time_s[points]), tolerance)
    triples = np.flatnonzero(over)
    candidates = points[np.unique(np.concatenate([triples, triples + 1, triples + 2]))].tolist()
    without = [
        violations(n[rest], run_time_s[rest], tolerance)
        for rest in (points[points != candidate] for candidate in candidates)
    ]
    clearing = [index for index, violations_left in enumerate(without) if violations_left <= IMPROVEMENT * over.sum()]
    return [candidates[index] for index in clearing], [without[index] for index in clearing]


# Stepwise scalability: a curve falls into phases, each with its own law, and the run time jumps between them.
# ADEPT fits each phase on its own, from five sizes on.


PHASED_SIZES_MIN = 5  # ADEPT
PHASE_MIN = 2
NOISE_FLOOR = 0.02  # relative error below which a better fit is no evidence


@dataclass(frozen=True, slots=True)
class Phase:
    """Neighbouring sizes that follow one law; `jump` is the relative step of run time from the previous phase (0 for the first phase).

    The law is Amdahl's law, T = parallel_s / n + serial_s. It must not be extrapolated, because the two or three sizes of a
    phase do not show where the speed-up ends.
    """

    first_n: float
    last_n: float
    jump: float
    parallel_s: float
    serial_s: float


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases by ascending size, and the root mean square `rms` of the relative errors of their Amdahl fits."""

    phases: tuple[Phase, ...]
    rms: float

    def index(self, n: Floats) -> Indices:
        """Return the index of the phase of each size, shape of `n`.

        A size between two phases belongs to the phase whose end is closer in log n; on a tie to the phase of larger sizes.

        >>> two = Phases((Phase(1.0, 2.0, 0.0, 8.0, 0.0), Phase(4.0, 8.0, 0.5, 16.0, 0.0)), 0.0)
        >>> two.index(np.array([1.0, 2.5, 3.0, 99.0])).tolist()
        [0, 0, 1, 1]
        """
        middles = [(before.last_n * after.first_n) ** 0.5 for before, after in pairwise(self.phases)]
        return np.searchsorted(np.array(middles), n, side="right")


def find_phases(n: Floats, run_time_s: Floats, tolerance: float, *, rms_of_one: float) -> Phases | None:
    """Return two or three phases if they explain the run times better than one Downey curve, else None.

    `n` (sorted, distinct) and `run_time_s` have shape (k,). Each jump between phases must reach the relative size `tolerance`.
    `rms_of_one` is the relative error of one Downey curve fitted to all sizes. The phases are accepted if their Bayesian
    information criterion (Schwarz 1978) is lower than that of the one curve by more than 2 ln k.

    >>> n, t = np.arange(2.0, 17.0, 2.0), 100.0 / np.arange(2.0, 17.0, 2.0)
    >>> phases = find_phases(n, np.where(n >= 10, 1.4, 1.0) * t, 0.1, rms_of_one=0.12).phases
    >>> [(phase.first_n, phase.last_n, round(phase.jump, 2)) for phase in phases]
    [(2.0, 8.0, 0.0), (10.0, 16.0, 0.4)]
    """
    k = n.size
    if k < PHASED_SIZES_MIN or rms_of_one <= tolerance / 3.0:
        return None
    segments = _Segments(n, run_time_s)
    one = _criterion(np.array([k * rms_of_one**2]), 3, k)[0]
    candidates = [_best_cut(segments, cuts, tolerance) for cuts in _cuts(k)]
    criterion, starts = min(candidates, key=lambda candidate: candidate[0])
    if not criterion < one - 2.0 * np.log(k):
        return None
    return segments.phases(starts)


def _cuts(k: int) -> list[Indices]:
    """Return all ways to divide k sizes into two and into three phases, as start indices of the later phases: (m, 1) and (m, 2)."""
    two = np.arange(PHASE_MIN, k - PHASE_MIN + 1)[:, None]
    i, j = np.triu_indices(max(k - 3 * PHASE_MIN + 1, 0))
    return [two, np.column_stack([i + PHASE_MIN, j + 2 * PHASE_MIN])]


def _criterion(squares: Floats, parameters: int, k: int) -> Floats:
    return np.asarray(k * np.log(squares / k + NOISE_FLOOR**2) + parameters * np.log(k))


class _Segments:
    """Amdahl fits of every range of neighbouring sizes, and the jump from each fit to the size that follows."""

    def __init__(self, n: Floats, run_time_s: Floats) -> None:
        k = n.size
        self.n = n
        first, last = np.triu_indices(k, 1)
        index = np.arange(k)
        inside = (index >= first[:, None]) & (index <= last[:, None])
        fits: AmdahlFits = least_squares_amdahl(n, run_time_s, inside.astype(float))
        following = np.minimum(last + 1, k - 1)
        self.number = np.zeros((k, k), np.intp)
        self.number[first, last] = np.arange(first.size)
        self.fits = fits
        self.jump = run_time_s[following] / fits.predict(n[following]) - 1.0

    def of(self, starts: Indices) -> Indices:
        """Return the number of the segment of each phase, (m, p), given the start indices of the phases after the first, (m, p-1)."""
        rows = starts.shape[0]
        firsts = np.column_stack([np.zeros(rows, np.intp), starts])
        last = np.column_stack([starts - 1, np.full(rows, self.n.size - 1)])
        return np.asarray(self.number[firsts, last])

    def phases(self, starts: Indices) -> Phases:
        numbers = self.of(starts[None, :])[0]
        first_n, last_n = self.n[[0, *starts]], self.n[[*(starts - 1), -1]]
        jump = [0.0, *self.jump[numbers[:-1]]]
        laws = self.fits.parallel_s[numbers], self.fits.serial_s[numbers]
        phases = [Phase(*map(float, phase)) for phase in zip(first_n, last_n, jump, *laws, strict=True)]
        return Phases(tuple(phases), float(np.sqrt(self.fits.squares[numbers].sum() / self.n.size)))


def _best_cut(segments: _Segments, starts: Indices, tolerance: float) -> tuple[float, Indices]:
    """Return the lowest information criterion among the divisions `starts` (m, p-1), and the division that has it.

    Only divisions whose every jump reaches `tolerance` qualify; the criterion is inf if no division qualifies.
    """
    if not starts.size:
        return np.inf, starts
    numbers = segments.of(starts)
    phases = numbers.shape[1]
    jumps = np.abs(segments.jump[numbers[:, :-1]]).min(axis=1)
    criterion = _criterion(segments.fits.squares[numbers].sum(axis=1), 3 * phases - 1, segments.n.size)
    criterion = np.where(jumps >= tolerance, criterion, np.inf)
    best = int(np.argmin(criterion))
    return float(criterion[best]), starts[best]


# Special sizes: a class of sizes (powers of two, squares, whole nodes) that an application favours.
# ADEPT searches for special sizes from nine sizes on, and leaves the other sizes out of the fit.

SPECIAL_SIZES_MIN = 9  # ADEPT
GROUP_MIN = 3  # least members of a class, and least non-members among them
SLOW_SHARE = 0.8  # share of the non-members that must be slow
FIT_FLOOR = 0.02  # a fit of the members this good needs no comparison with the fit of all
LISTED_MAX = 64
CANDIDATES_MAX = 4096.0
LEAD = 1.2  # a later class must score this much better than an earlier one


@dataclass(frozen=True, slots=True)
class SpecialSizes:
    """A class of sizes on which the application runs faster: name, observed members, slow-down of all other sizes.

    `slowdown` 0.3 means that other sizes take 30 % longer than the curve of the members. `multiple` is m for the class "multiple
    of m", and 1 for powers of two and squares.
    """

    name: str
    members: tuple[float, ...]
    slowdown: float
    multiple: int

    def is_member(self, n: Floats) -> Bools:
        """Return a mask of the sizes `n` that belong to the class, same shape as `n`.

        >>> SpecialSizes("multiple of 8", (8.0,), 0.3, 8).is_member(np.array([16.0, 20.0])).tolist()
        [True, False]
        """
        return members(self.name, n, self.multiple)

    def sizes_up_to(self, largest_n: float, allowed: tuple[float, ...] = ()) -> tuple[float, ...]:
        """Return the sizes of the class that users may request: the observed members, and further members up to `largest_n`.

        If `allowed` is not empty, further members must be among `allowed`. Without `allowed`, only the observed members are returned
        if there are more than LISTED_MAX members or `largest_n` exceeds CANDIDATES_MAX.

        >>> SpecialSizes("pow2", (1.0, 2.0, 4.0), 0.3, 1).sizes_up_to(16.0)
        (1.0, 2.0, 4.0, 8.0, 16.0)
        """
        if allowed:
            candidates = np.array(sorted(set(allowed)), float)
        else:
            candidates = np.arange(1.0, min(largest_n, CANDIDATES_MAX) + 1.0)
        more = candidates[self.is_member(candidates) & (candidates <= largest_n) & (candidates >= self.members[0])]
        if not allowed and (more.size > LISTED_MAX or largest_n > CANDIDATES_MAX):
            return self.members
        return tuple(np.union1d(more, self.members).tolist())


def _is_power_of_two(n: Floats) -> Bools:
    mantissa, _ = np.frexp(n)
    return np.asarray((mantissa == 0.5) & (n >= 1.0))


def _is_square(n: Floats) -> Bools:
    return np.array([float(size).is_integer() and isqrt(int(size)) ** 2 == int(size) for size in n], bool)


SHAPES: dict[str, Callable[[Floats], Bools]] = {"pow2": _is_power_of_two, "square": _is_square}
MULTIPLES = (8, 4, 2)


def classes(cores_per_node: int | None = None) -> tuple[tuple[str, int], ...]:
    """Return (name, multiple) of every class that the search tests; a later class must score LEAD times better than an earlier one.

    >>> classes(48)[0], classes()[-1]
    (('multiple of 48', 48), ('multiple of 2', 2))
    """
    of_node = (cores_per_node,) if cores_per_node is not None and cores_per_node > 1 else ()
    multiples = of_node + tuple(multiple for multiple in MULTIPLES if multiple not in of_node)
    names = tuple((f"multiple of {multiple}", multiple) for multiple in multiples)
    return names[: len(of_node)] + tuple((name, 1) for name in SHAPES) + names[len(of_node) :]


def members(name: str, n: Floats, multiple: int = 1) -> Bools:
    """Return a mask of the sizes `n` that belong to the class `name`; a fractional size belongs to no class."""
    return SHAPES[name](n) if name in SHAPES else np.fmod(n, multiple) == 0.0


def find_special_sizes(
    n: Floats, run_time_s: Floats, tolerance: float, fitter: QuickFitter, *, cores_per_node: int | None = None
) -> SpecialSizes | None:
    """Return the class of sizes that best explains why the other sizes are slow, or None.

    `n` (sorted, distinct) and `run_time_s` have shape (k,); `fitter` must have been built from the same data; `tolerance` is
    the relative deviation that counts.

    >>> n = np.arange(1.0, 17.0)
    >>> t = np.where(np.fmod(n, 4) == 0, 1.0, 1.3) * 100.0 / n
    >>> special = find_special_sizes(n, t, 0.1, QuickFitter(n, t))
    >>> special.name, round(special.slowdown, 2)
    ('multiple of 4', 0.3)
    """
    if n.size < SPECIAL_SIZES_MIN:
        return None
    split = {(name, multiple): members(name, n, multiple) for name, multiple in classes(cores_per_node)}
    split = {kind: inside for kind, inside in split.items() if _others_in_range(n, inside).sum() >= GROUP_MIN}
    if not split:
        return None
    fits = fitter.fit(np.stack([np.ones(n.size, bool), *split.values()]))
    errors = np.sqrt(fits.objective)
    error_max = max(0.5 * float(errors[0]), FIT_FLOOR)
    slowness = run_time_s / fits.predict(n) - 1.0
    best, best_score = None, 0.0
    for row, (kind, inside) in enumerate(split.items(), 1):
        rms, others = float(errors[row]), slowness[row, _others_in_range(n, inside)]
        typical = float(np.median(others))
        share = float(np.mean(others > tolerance))
        score = share**2 * typical / (rms + 0.01)  # fast non-members speak for a wider class
        enough = rms < error_max and share >= SLOW_SHARE and typical > max(tolerance, 3.0 * rms)
        if enough and score > best_score * (LEAD if best else 1.0):
            best, best_score = kind, score
    return None if best is None else _described(n, run_time_s, best, split[best])


def _others_in_range(n: Floats, inside: Bools) -> Bools:
    """Return a mask (k,) of the non-members between the smallest member and twice the largest member.

    The mask is all False if fewer than GROUP_MIN sizes are members.
    """
    if inside.sum() < GROUP_MIN:
        return np.zeros(n.size, bool)
    return np.asarray(~inside & (n > n[inside][0]) & (n < 2.0 * n[inside][-1]))


def _described(n: Floats, run_time_s: Floats, kind: tuple[str, int], inside: Bools) -> SpecialSizes:
    """Return the class `kind` (name, multiple) with its slow-down: the median over the non-members, relative to a Downey fit of the members."""
    among = _others_in_range(n, inside)
    slowdown = np.median(run_time_s[among] / fit_downey(n[inside], run_time_s[inside]).predict(n[among]) - 1.0)
    return SpecialSizes(kind[0], tuple(n[inside].tolist()), float(slowdown), kind[1])


CONTRADICTING = 4  # sizes that can contradict a Downey curve
# the search for special sizes and phases starts if one size stands this share of the tolerance above its chord, and the
# error of one curve exceeds this share of it; the search among all sizes needs more and clearer steps
STEP_SHARE = 0.4
ERROR_SHARE = 0.25
CLEAR_STEP = 0.8
CLEAR_STEPS = 2


@dataclass(frozen=True, slots=True)
class Patterns:
    """The pattern of a curve; at most one of `special`, `anomalies` and `phases` is set.

    `retained` (k,) is True for the regular sizes. `error` is the relative error of one Downey curve fitted to all sizes, 0 if the
    curve has no pattern.
    """

    retained: Bools
    special: SpecialSizes | None = None
    anomalies: tuple[AnomalousSize, ...] = ()
    phases: Phases | None = None
    error: float = 0.0

    @property
    def fitted(self) -> Bools:
        """A mask (k,) of the sizes that the predicted curve is fitted to.

        Anomalous sizes are left out only if at least CONTRADICTING regular sizes remain. A Downey curve passes through any three
        sizes, so among four sizes it is unknown which size is wrong; leaving one out made extrapolations much worse.

        >>> Patterns(np.array([True, True, False, True])).fitted.tolist()
        [True, True, True, True]
        """
        enough = self.special is not None or self.retained.sum() >= CONTRADICTING
        return self.retained if enough else np.ones_like(self.retained)


def find_patterns(n: Floats, run_time_s: Floats, tolerance: float, cores_per_node: int | None = None) -> Patterns:
    """Return the pattern of a curve; `n` (sorted, distinct) and `run_time_s` have shape (k,).

    `tolerance` is the relative deviation that counts. With `cores_per_node`, its multiples are a class of special sizes. Phases
    are accepted only if removing the anomalous sizes leaves violations or an error of more than about twice that of the phases.

    >>> find_patterns(np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([64.0, 32.0, 16.0, 12.0, 4.0]), 0.1).anomalies[0].n
    8.0
    """
    everything = np.ones(n.size, bool)
    if not _suspicious(n, run_time_s, tolerance):
        return _of_points(n, run_time_s, tolerance)
    fitter = QuickFitter(n, run_time_s)
    error = _error(fitter, everything)
    if error <= ERROR_SHARE * tolerance:
        return _of_points(n, run_time_s, tolerance)
    special = find_special_sizes(n, run_time_s, tolerance, fitter, cores_per_node=cores_per_node)
    if special is not None:
        return Patterns(special.is_member(n), special, error=error)
    anomalies = find_anomalies(n, run_time_s, tolerance, fitter)
    phases = find_phases(n, run_time_s, tolerance, rms_of_one=error)
    if phases is not None and (
        anomalies.violations > 0.0 or _error(fitter, anomalies.retained) > 2.0 * phases.rms + 0.01
    ):
        return Patterns(everything, phases=phases, error=error)
    return Patterns(anomalies.retained, anomalies=anomalies.sizes, error=error if anomalies.sizes else 0.0)


def _of_points(n: Floats, run_time_s: Floats, tolerance: float) -> Patterns:
    """Return the pattern of a curve after a search for anomalous sizes only."""
    anomalies = find_anomalies(n, run_time_s, tolerance)
    error = _error(QuickFitter(n, run_time_s), np.ones(n.size, bool)) if anomalies.sizes else 0.0
    return Patterns(anomalies.retained, anomalies=anomalies.sizes, error=error)


def _error(fitter: QuickFitter, subset: Bools) -> float:
    """Return the relative error of one Downey curve fitted to a subset of the sizes."""
    return float(np.sqrt(fitter.fit(subset[None, :]).objective[0]))


def find_hidden_special(
    n: Floats, run_time_s: Floats, tolerance: float, cores_per_node: int | None = None
) -> SpecialSizes | None:
    """Return the class of special sizes that is visible only before neighbouring sizes are merged, or None.

    A merged size mixes fast and slow sizes, so `n` and `run_time_s` (k,) are all sizes before the merge; other arguments as for
    `find_patterns`.
    """
    if n.size < SPECIAL_SIZES_MIN or np.sum(excess_over_chord(n, run_time_s) > CLEAR_STEP * tolerance) < CLEAR_STEPS:
        return None
    return find_special_sizes(n, run_time_s, tolerance, QuickFitter(n, run_time_s), cores_per_node=cores_per_node)


def _suspicious(n: Floats, run_time_s: Floats, tolerance: float) -> bool:
    """Return whether a search for special sizes and phases, which is costly, could find any.

    A relative step of `tolerance` lifts one size above the chord of its neighbours by about half of the step. It also leaves an
    error in a fit of Amdahl's law, which is cheaper to fit than a Downey curve.
    """
    if n.size < min(SPECIAL_SIZES_MIN, SIZES_MIN) or excess_over_chord(n, run_time_s).max() <= STEP_SHARE * tolerance:
        return False
    error = float(np.sqrt(least_squares_amdahl(n, run_time_s, np.ones((1, n.size))).squares[0] / n.size))
    return error > ERROR_SHARE * tolerance
