"""What one curve says of the laws: all of them fitted to all of its prefixes, how they forecast the next size, what each weighs.

Row r of an array with k - 1 rows belongs to the prefix of the r + 2 smallest sizes. Laws come in the order of ENSEMBLE.
The gate weighs each by its record on this curve, on other curves of the application, and a prior.

`flat` (nothing is gained any more) and `rising` (the last slope where times rose already, flat otherwise) stand among the
laws because all others miss to one side: of curves that saturate right after clean sizes they foretell far too little.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from processors.models.laws import prefixes
from processors.models.numerics.arrays import Floats

Ints = NDArray[np.intp]

RATIO_MAX: Final = 1e30  # of sizes and of times: nothing measured comes near, and its eighth power stays finite
REPEATS_MAX: Final = 4


class Curve(NamedTuple):
    """Sizes (rising, distinct), the median run time of each in seconds, and up to four single runs of each.

    `key` orders curves of one application among each other, `system` is where it ran. Sizes without single runs are
    judged by their median. `bends` are the sizes, rising, at which a memory domain, a socket or a node is full.

    >>> Curve("a", "archer2", (1.0, 2.0), (10.0, 6.0)).n
    (1.0, 2.0)
    """

    key: str
    system: str
    n: tuple[float, ...]
    median_s: tuple[float, ...]
    repeats: tuple[tuple[float, ...], ...] = ()
    unit: str = ""
    bends: tuple[float, ...] = ()


class ScaledCurve(NamedTuple):
    """A curve relative to its last size: n/n_k, t/t_k, log2 n and ln t of these; arrays of shape (k,).

    >>> scaled(Curve("a", "archer2", (1.0, 2.0), (10.0, 5.0))).x.tolist()
    [-1.0, 0.0]
    """

    n: Floats
    t: Floats
    x: Floats
    y: Floats


def scaled(curve: Curve) -> ScaledCurve:
    """Return the curve relative to its last size.

    Raises ValueError unless sizes rise, sizes and times are positive and finite, and there are as many of each.

    >>> scaled(Curve("a", "archer2", (2.0, 1.0), (10.0, 5.0)))
    Traceback (most recent call last):
    ValueError: Sizes must be positive, finite and rising.
    """
    if not curve.n or len(curve.n) != len(curve.median_s) or len(curve.repeats) not in {0, len(curve.n)}:
        raise ValueError("A curve has one run time per size, and repeats of all sizes or of none.")
    return ScaledCurve(*(rows[0] for rows in _scaled([curve])))


def _scaled(curves: Sequence[Curve]) -> ScaledCurve:
    """Return curves of k sizes relative to their last size, arrays of shape (curves, k)."""
    n, t = (np.array(of, dtype=np.float64) for of in zip(*((curve.n, curve.median_s) for curve in curves), strict=True))
    if not ((n[:, 0] > 0).all() and (n[:, -1] < np.inf).all() and (n[:, 1:] > n[:, :-1]).all()):
        raise ValueError("Sizes must be positive, finite and rising.")
    if not (t.min() > 0 and t.max() < np.inf):
        raise ValueError("Run times must be positive and finite.")
    least = 2.0 ** np.arange(n.shape[1]) / RATIO_MAX  # sizes out of reach stay apart
    relative_n = np.minimum(np.maximum(relative(n, n[:, -1:]), least), 1.0)
    relative_t, x = relative(t, t[:, -1:]), np.log2(relative_n)
    if not (x[:, 1:] > x[:, :-1]).all():
        raise ValueError("Sizes must differ in more than their last digits.")
    return ScaledCurve(relative_n, relative_t, x, np.log(relative_t))


def relative(values: Floats, unit: float | Floats) -> Floats:
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


ENSEMBLE: Final = ("usl", "ideal", "last_two", *(kind.name for kind in prefixes.KINDS), "flat", "rising")
LN2: Final = float(np.log(2.0))
# per unit of ln n: what the median run takes longer than the laws say, for curves saturate later than their sizes show
PESSIMISM: Final = 0.02
LN_MIN: Final = -690.0  # of 1e-300
LOSS_BASE, LOSS_PER_DOUBLING, LOSS_MAX = 0.01, 0.05, 4.0
FORGETTING = 0.7  # of losses, per size
ANCHORED = 0.3  # share of a forecast that starts at the last observed time, not at the law's own
SLOPE_RANGE, CHORD_RANGE = (-1.5, 1.2), (-2.0, 2.0)
CURVATURE_RANGE = (-0.5, 0.7)
RESIDUAL_BASE = 0.003
_EXPONENTS = np.array([kind.exponent for kind in prefixes.KINDS])


class PrefixMembers(NamedTuple):
    """All laws on all prefixes of a curve, relative to its last size: coefficients of the terms, slopes of power laws.

    `universal` (..., k-1, 3), `two_terms` (..., kinds, k-1, 2), `slope` (..., k-1), `x` and `y` (..., k-1) the last size of each
    prefix.
    """

    universal: Floats
    two_terms: Floats
    slope: Floats
    x: Floats
    y: Floats

    def ln_run_times(self, n: Floats) -> Floats:
        """Return ln of every law's run time at relative sizes (..., m), shape (..., k - 1, laws, m).

        >>> data = scaled(Curve("a", "s", (1.0, 2.0), (10.0, 5.0)))
        >>> np.exp(prefix_members(data).ln_run_times(np.array([4.0]))).ravel().round(6).tolist()
        [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 1.0, 1.0]
        """
        x, inverse = np.log2(n), 1.0 / n
        universal = self.universal @ np.stack([inverse, np.ones_like(n), n], axis=-2)
        growth = (n[..., None, :] ** _EXPONENTS[:, None])[..., None, :]
        powers = self.two_terms[..., :1] * inverse[..., None, None, :] + self.two_terms[..., 1:] * growth
        distance = (x[..., None, :] - self.x[..., None]) * LN2
        usl, *local = np.log(np.maximum([universal, *np.moveaxis(powers, -3, 0)], 1e-300))
        y, slope = self.y[..., None], self.slope[..., None]
        flat = np.broadcast_to(y, distance.shape)
        rising = flat + np.maximum(slope, 0.0) * distance
        result = np.stack([usl, y - distance, y + slope * distance, *local, flat, rising], axis=-2)
        return np.asarray(np.maximum(result, LN_MIN))


class Laws(NamedTuple):
    """The laws of the whole of each of c curves: `universal` (c, 3), `two_terms` (kinds, c, 2), `slope` (c,), ln t of the last size (c,).

    >>> Laws.of([evidence(Curve("a", "s", (1.0, 2.0), (10.0, 5.0)))]).slope.round(6).tolist()
    [-1.0]
    """

    universal: Floats
    two_terms: Floats
    slope: Floats
    y: Floats

    @classmethod
    def of(cls, found: "Sequence[LawEvidence]") -> "Laws":
        """Return the laws of some curves."""
        members = [each.members for each in found]
        return cls(
            np.array([each.universal[-1] for each in members]),
            np.array([each.two_terms[:, -1] for each in members]).swapaxes(0, 1),
            np.array([each.slope[-1] for each in members]),
            np.array([each.y[-1] for each in members]),
        )

    def usl(self, n: Floats, curve: Ints) -> Floats:
        """Return ln of the run time by universal scalability at relative sizes n (m,) of the curves `curve` (m,), shape (m,)."""
        a, b, c = self.universal[curve].T
        return np.asarray(np.log(np.maximum(a / n + b + c * n, 1e-300)))

    def ln_run_times(self, n: Floats, curve: Ints) -> Floats:
        """Return ln of every law's run time at relative sizes n (m,) of the curves `curve` (m,), shape (m, laws).

        A row is what it would be alone, to the last bit.
        """
        first, second = np.moveaxis(self.two_terms[:, curve], -1, 0)
        powers = np.log(np.maximum(first / n + second * n ** _EXPONENTS[:, None], 1e-300))
        y, slope, distance = self.y[curve], self.slope[curve], np.log2(n) * LN2
        rising = y + np.maximum(slope, 0.0) * distance
        laws = [self.usl(n, curve), y - distance, y + slope * distance, *powers, y, rising]
        return np.asarray(np.maximum(np.stack(laws, axis=-1), LN_MIN))


class LeftOutErrors(NamedTuple):
    """Each inner size left out once: log2 n, forecast minus observed ln t, and `bow`; arrays of shape (k - 2,).

    The bow is the product of the distances to both neighbours: what a smooth curve deviates from a chord grows with it.
    """

    x: Floats
    error: Floats
    bow: Floats


@dataclass(frozen=True, eq=False)
class LawEvidence:
    """The laws of a curve and their record.

    `ln_fits` (k-1, laws, k) are the laws at the observed sizes, `losses` (k-2, laws) those of the forecast of each next
    size, `own` and `last` (k-1, laws) the discounted mean of the losses before a prefix and the newest one, `curvature`
    and `residual` (k-1,) the bend of the last three sizes and ln of the misfit of the first law. `left_out` tells of each
    inner size left out once.
    """

    curve: Curve
    data: ScaledCurve
    members: PrefixMembers
    ln_fits: Floats
    losses: Floats
    own: Floats
    last: Floats
    curvature: Floats
    residual: Floats
    left_out: LeftOutErrors

    @property
    def k(self) -> int:
        """How many sizes there are."""
        return self.data.n.size

    @cached_property
    def here(self) -> Floats:
        """All laws on all sizes at the largest one, (laws,)."""
        return self.ln_fits[-1, :, -1]

    def elasticities(self, row: int, n: Floats) -> Floats:
        """Return the mean elasticity of each law from the last size of a prefix to larger relative sizes, (m, laws).

        >>> found = evidence(Curve("a", "s", (1.0, 2.0), (10.0, 5.0)))
        >>> found.elasticities(0, np.array([2.0])).round(6).tolist()
        [[-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 0.0, 0.0]]
        """
        ahead = (np.log2(n) - self.data.x[row + 1]) * LN2
        there = self.members.ln_run_times(n)[row].T
        return anchored(there, self.ln_fits[row, :, row + 1], float(self.data.y[row + 1]), ahead[:, None])


def anchored(there: Floats, here: Floats, observed: float | Floats, distance: Floats) -> Floats:
    """Return elasticities over a distance in ln n: partly along the law, partly from the observation to the law.

    >>> anchored(np.array([-1.0]), np.array([0.0]), 0.0, np.array([1.0])).tolist()
    [-1.0]
    """
    along = np.minimum(np.maximum((there - here) / distance, SLOPE_RANGE[0]), SLOPE_RANGE[1])
    chord = np.minimum(np.maximum((there - observed) / distance, CHORD_RANGE[0]), CHORD_RANGE[1])
    return np.asarray(ANCHORED * along + (1.0 - ANCHORED) * chord)


def prefix_members(data: ScaledCurve) -> PrefixMembers:
    """Return all laws on all prefixes of at least two sizes.

    >>> prefix_members(scaled(Curve("a", "s", (1.0, 2.0), (10.0, 5.0)))).slope.round(6).tolist()
    [-1.0]
    """
    return PrefixMembers(
        prefixes.fit_universal(data.n, data.t),
        prefixes.fit_local(data.n, data.t),
        prefixes.last_slopes(data.x, data.y),
        data.x[..., 1:],
        data.y[..., 1:],
    )


def left_out(data: ScaledCurve) -> LeftOutErrors:
    """Return what leaving out each inner size says.

    >>> found = left_out(scaled(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))))
    >>> found.x.tolist(), np.abs(found.error).round(9).tolist(), found.bow.tolist()
    ([-1.0], [0.0], [1.0])
    """
    k, x = data.n.shape[-1], data.x
    if k < 3:
        return LeftOutErrors(*np.zeros((3, *data.n.shape[:-1], 0)))
    retained = _all_but_one(k)
    sets = (-1, k - 1)
    terms = prefixes.fit_universal_each(data.n[..., retained].reshape(sets), data.t[..., retained].reshape(sets))
    basis = np.stack([1.0 / data.n, np.ones_like(data.n), data.n], axis=-2)
    members = np.log(np.maximum(terms.reshape(*data.n.shape[:-1], k - 2, 3) @ basis, 1e-300))
    deviation = data.y[..., None, :] - members
    left, here, right = (np.diagonal(deviation, offset, -2, -1)[..., : k - 2] for offset in range(3))
    before, after = x[..., 1:-1] - x[..., :-2], x[..., 2:] - x[..., 1:-1]
    error = left + before / (before + after) * (right - left) - here
    return LeftOutErrors(x[..., 1:-1], error, before * after)


@lru_cache(maxsize=64)
def _all_but_one(k: int) -> Ints:
    """Return the places of all sizes but one, of each inner size, (k - 2, k - 1)."""
    return np.array([[j for j in range(k) if j != i] for i in range(1, k - 1)])


def evidence(curve: Curve) -> LawEvidence:
    """Return what a curve of at least two sizes says of the laws; ValueError where it has fewer or is not valid.

    >>> found = evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0)))
    >>> found.losses[0].round(3).tolist()
    [0.214, 2.03, 1.042, 0.214, 0.484, 1.424, 0.214, 4.0, 4.0]
    """
    return evidence_of([curve])[0]


def evidence_of(curves: Sequence[Curve]) -> list[LawEvidence]:
    """Return what curves say of the laws, each as if it were alone, to the last bit; ValueError where any is not valid.

    >>> found = evidence_of([Curve("a", "s", (1.0, 2.0), (10.0, 5.0)), Curve("b", "s", (1.0, 2.0, 4.0), (10.0, 5.0, 4.0))])
    >>> [each.k for each in found]
    [2, 3]
    """
    by_sizes: dict[int, list[int]] = {}
    for place, curve in enumerate(curves):
        if len(curve.n) < 2:
            raise ValueError("A forecast needs two sizes.")
        if len(curve.n) != len(curve.median_s) or len(curve.repeats) not in {0, len(curve.n)}:
            raise ValueError("A curve has one run time per size, and repeats of all sizes or of none.")
        by_sizes.setdefault(len(curve.n), []).append(place)
    found: dict[int, LawEvidence] = {}
    for places in by_sizes.values():
        found.update(zip(places, _evidence([curves[place] for place in places]), strict=True))
    return [found[place] for place in range(len(curves))]


def _evidence(curves: Sequence[Curve]) -> Iterator[LawEvidence]:
    """Yield the evidence of curves with as many sizes each."""
    data = _scaled(curves)
    members = prefix_members(data)
    ln_fits = members.ln_run_times(data.n)
    losses = _losses(data, ln_fits)
    own, last = _records(losses, data.n.shape[-1] - 1)
    curvature, residual, left = _curvatures(data), _residuals(data, ln_fits), left_out(data)
    for place, curve in enumerate(curves):
        ln_fit, loss, own_loss, last_loss, bend, misfit = (
            of[place].copy() for of in (ln_fits, losses, own, last, curvature, residual)
        )
        fitted, scale = _alone(place, members), _alone(place, data)
        inner = _alone(place, left)
        yield LawEvidence(curve, scale, fitted, ln_fit, loss, own_loss, last_loss, bend, misfit, inner)


Arrays = TypeVar("Arrays", ScaledCurve, PrefixMembers, LeftOutErrors)


def _alone(place: int, of: Arrays) -> Arrays:
    """Return the arrays of one of many curves; they are copies, for a curve must not keep the others in memory."""
    return type(of)(*(each[place].copy() for each in of))


def _losses(data: ScaledCurve, ln_fits: Floats) -> Floats:
    rows = np.arange(data.n.shape[-1] - 2)
    rise = data.y[..., 1:-1] - data.y[..., 2:]
    forecast = ln_fits[..., rows, :, rows + 2] - ln_fits[..., rows, :, rows + 1]
    forecast = np.moveaxis(forecast, 0, -2) + rise[..., None]
    return lost(forecast, np.diff(data.x)[..., 1:])


def lost(error: Floats, distance: Floats) -> Floats:
    """Return the losses of forecasts (..., m, any) from their errors in ln t and their distances (..., m) in doublings.

    One unit is what may be missed so far out; a forecast that is far off costs no more than four.

    >>> lost(np.array([[0.03, -9.0]]), np.ones(1)).round(3).tolist()
    [[0.5, 4.0]]
    """
    tolerance = LOSS_BASE + LOSS_PER_DOUBLING * distance
    return np.asarray(np.minimum(np.abs(error) / tolerance[..., None], LOSS_MAX))


def _records(losses: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the discounted mean of the losses before each prefix, shrunk towards 0 by one unit, and the newest."""
    age = np.arange(count)[:, None] - np.arange(1, count)
    weight = np.where(age >= 0, FORGETTING ** np.maximum(age, 0), 0.0)
    own = (weight @ losses) / (1.0 + weight.sum(axis=1, keepdims=True))
    return own, np.concatenate([np.zeros((*losses.shape[:-2], 1, len(ENSEMBLE))), losses], axis=-2)


def _curvatures(data: ScaledCurve) -> Floats:
    """Return the change of slope over the last three sizes of each prefix, per doubling; 0 for the first."""
    found = np.zeros((*data.n.shape[:-1], data.n.shape[-1] - 1))
    if found.shape[-1] > 1:
        slope = np.diff(data.y) / (np.diff(data.x) * LN2)
        bend = np.diff(slope) / ((data.x[..., 2:] - data.x[..., :-2]) / 2.0)
        found[..., 1:] = np.clip(bend, *CURVATURE_RANGE)
    return found


def _residuals(data: ScaledCurve, ln_fits: Floats) -> Floats:
    inside: NDArray[np.bool_] = np.tri(data.n.shape[-1], dtype=bool)[1:]
    off = (data.y[..., None, :] - ln_fits[..., 0, :]) ** 2
    squares = np.where(inside, off, 0.0).sum(axis=-1) / inside.sum(axis=1)
    return np.asarray(np.log(np.sqrt(squares) + RESIDUAL_BASE))


NO_OFFSETS: Final = (0.0,) * len(ENSEMBLE)
CURVATURE_UNIT = 3.0


class LawGate(NamedTuple):
    """Coefficients: prior and weight of curvature per law, what a unit of each kind of loss costs, prior without related curves.

    `alone` is added to the prior where an application has no other curve, and less the more it has.

    >>> len(GATE.prior) == len(ENSEMBLE)
    True
    """

    prior: tuple[float, ...]
    curvature: tuple[float, ...]
    own: float
    last: float
    related: float
    alone: tuple[float, ...] = NO_OFFSETS


# fitted to the prequential forecasts of CASTEP, OpenSBLI, VASP, MAESTRO, WAVETRISK, CarpetX, Spark jobs and course codes
GATE: Final = LawGate(
    prior=(0.0311, 1.6172, -0.5901, -0.5482, 0.0972, -0.1767, -0.2133, -0.1055, -0.1116),
    curvature=(-0.2376, 0.3082, -0.1664, 0.0259, 0.1519, 0.1997, 0.082, -0.2067, -0.157),
    own=0.7089,
    last=0.344,
    related=2.0223,
    alone=(0.4211, -0.3224, -0.3006, -0.1001, 0.7387, 0.114, 0.1696, -0.3843, -0.336),
)


class RelatedCurve(NamedTuple):
    """What a curve reports to the other curves of its application: where it ran, and the losses of its forecasts.

    `losses` has one row per forecast of a next size, the third size first, each with one number per law. `inside` has
    log2 n, error and bow of each inner size that was left out, `ln_n` and `ln_t` have all sizes and median run times:
    curves whose sizes are counted in the same unit read them.

    >>> RelatedCurve("a", "archer2", ()).losses
    ()
    """

    key: str
    system: str
    losses: tuple[tuple[float, ...], ...]
    inside: tuple[tuple[float, float, float], ...] = ()
    ln_n: tuple[float, ...] = ()
    ln_t: tuple[float, ...] = ()
    unit: str = ""


class RelatedLosses(NamedTuple):
    """Mean losses of the laws on the related curves (m, laws), and how little that says (m,): 1 without any, falling to 0.

    >>> RelatedLosses(np.zeros((1, 9)), np.ones(1)).doubt.tolist()
    [1.0]
    """

    losses: Floats
    doubt: Floats


def logits(gate: LawGate, found: LawEvidence, row: Ints, given: RelatedLosses) -> Floats:
    """Return the logit of each law without offsets for prefixes in the rows `row` (m,) of the evidence, shape (m, laws).

    >>> from processors.models.combination.evidence import evidence
    >>> from processors.models.combination.evidence import Curve
    >>> found, nothing = evidence(Curve("a", "s", (1.0, 2.0), (4.0, 2.0))), RelatedLosses(np.zeros((1, 9)), np.zeros(1))
    >>> logits(GATE, found, np.array([0]), nothing)[0].tolist() == list(GATE.prior)
    True
    """
    bend = CURVATURE_UNIT * found.curvature[row, None] * np.array(gate.curvature)
    record = gate.own * found.own[row] + gate.last * found.last[row] + gate.related * given.losses
    return np.asarray(np.array(gate.prior) + bend - record + given.doubt[:, None] * np.array(gate.alone))


def weights(logit: Floats) -> Floats:
    """Return the shares of the laws, softmax over the last axis.

    >>> weights(np.zeros(2)).tolist()
    [0.5, 0.5]
    """
    mass = np.exp(logit - logit.max(axis=-1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))


RELATED_SHRINKAGE: Final = 2.0
OTHER_SYSTEM: Final = 0.5  # what a curve on another system weighs


class RelatedPoints(NamedTuple):
    """Sizes and times of j curves: ln n and ln t, (j, most), and how many each has, (j,); what is beyond is padding."""

    ln_n: Floats
    ln_t: Floats
    sizes: Ints


@dataclass(frozen=True, eq=False)
class Related:
    """The records of all curves of an application, j of them, in the order they are given.

    >>> Related((RelatedCurve("a", "archer2", ()),)).trust("b", "archer2").tolist()
    [1.0]
    """

    curves: tuple[RelatedCurve, ...]

    def trust(self, key: str, system: str) -> Floats:
        """Return what each curve weighs for one of them, (j,): nothing for itself, less elsewhere.

        >>> curves = Related((RelatedCurve("a", "archer2", ()), RelatedCurve("b", "archer2", ())))
        >>> curves.trust("a", "hawk").tolist()
        [0.0, 0.5]
        """
        weights = (0.0 if one.key == key else 1.0 if one.system == system else OTHER_SYSTEM for one in self.curves)
        return np.fromiter(weights, dtype=np.float64, count=len(self.curves))

    def alone(self, key: str) -> bool:
        """Return whether there is no curve but this one."""
        return all(one.key == key for one in self.curves)

    def trust_in_unit(self, key: str, system: str, unit: str) -> Floats:
        """Return the same, and nothing for curves whose sizes are counted in another unit.

        >>> Related((RelatedCurve("a", "archer2", (), unit="nodes"),)).trust_in_unit("b", "archer2", "cores").tolist()
        [0.0]
        """
        same = np.fromiter((one.unit == unit for one in self.curves), dtype=np.float64, count=len(self.curves))
        return self.trust(key, system) * same

    @cached_property
    def losses(self) -> tuple[Floats, Ints]:
        """The mean of the last two losses after each forecast, (j, most, laws), and how many each has, (j,)."""
        count = np.array([len(one.losses) for one in self.curves], dtype=np.intp)
        found = np.zeros((len(self.curves), max(1, *count) if count.size else 1, len(ENSEMBLE)))
        for place, one in enumerate(self.curves):
            found[place, : count[place]] = np.array(one.losses).reshape(-1, len(ENSEMBLE))
        found[:, 1:] = (found[:, 1:] + found[:, :-1]) / 2.0
        return found, count

    @cached_property
    def inside(self) -> tuple[Ints, Floats]:
        """Every inner size that was left out: whose it is, (m,), and its log2 n, error and bow, (m, 3)."""
        owner = np.repeat(np.arange(len(self.curves)), [len(one.inside) for one in self.curves])
        return owner, np.array([row for one in self.curves for row in one.inside]).reshape(-1, 3)

    @cached_property
    def points(self) -> RelatedPoints:
        """Sizes and times of all curves."""
        count = np.array([len(one.ln_n) for one in self.curves], dtype=np.intp)
        ln_n, ln_t = np.zeros((2, len(self.curves), max(count, default=0)))
        for place, one in enumerate(self.curves):
            ln_n[place, : count[place]], ln_t[place, : count[place]] = one.ln_n, one.ln_t
        ln_n[np.arange(ln_n.shape[1]) >= count[:, None]] = np.inf
        return RelatedPoints(ln_n, ln_t, count)


NO_RELATED: Final = Related(())


def related_losses(related: Related, key: str, system: str, sizes: Sequence[int] | Ints) -> RelatedLosses:
    """Return the mean losses on the other curves of the application, shrunk towards 0 by two curves.

    Each of them reports the mean of its last two losses. `sizes` (m,) is how many sizes of a related curve may be looked
    at, so that a forecast in hindsight knows no more than one made then.

    >>> others = Related((RelatedCurve("b", "s", ((3.0,) * 9,)),))
    >>> related_losses(others, "a", "s", [2, 3]).losses[:, 0].tolist()
    [0.0, 1.0]
    """
    if related.alone(key):
        return RelatedLosses(np.zeros((len(sizes), len(ENSEMBLE))), np.ones(len(sizes)))
    distinct, place = np.unique(sizes, return_inverse=True)
    found, count = related.losses
    known = np.minimum(distinct - 2, count[:, None])
    weight = np.where(known > 0, related.trust(key, system)[:, None], 0.0)
    newest = found[np.arange(count.size)[:, None], np.maximum(known, 1) - 1]
    total = RELATED_SHRINKAGE + weight.sum(axis=0)
    mean = (weight[:, :, None] * newest).sum(axis=0) / total[:, None]
    return RelatedLosses(mean[place], (RELATED_SHRINKAGE / total)[place])
