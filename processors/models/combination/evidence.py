"""Fits of all laws to all prefixes of a curve, their forecasts of each next size, and the weight of each law.

Row r of an array with k - 1 rows belongs to the prefix of the r + 2 smallest sizes. Laws come in the order of ENSEMBLE. The
gate weighs each law by the record of the law on this curve, by the record on other curves of the application, and by a prior.

`flat` (no further gain) and `rising` (the last slope if times rose already, else flat) belong to the laws because all other
laws miss to one side: if a curve saturates right after clean sizes, they predict far too short run times.

The last part holds the related curves: the other curves of the application, as arrays that all forecasts share. With 25
curves, reading their numbers one curve after the other took most of the time of a refit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from processors.models.laws import KINDS, fit_local, fit_universal, fit_universal_each, last_slopes
from processors.models.numerics.arrays import Floats, Indices

RATIO_MAX: Final = 1e30  # of sizes and of times: nothing measured comes near, and the eighth power stays finite
REPEATS_MAX: Final = 4


class Curve(NamedTuple):
    """The observations of a curve: ascending, distinct sizes `n`, and for each size the median run time in seconds and single runs.

    `key` orders the curves of one application; `system` is the system of the runs. `repeats` has the single runs of each size; if
    it is empty, forecasts are compared with the medians. `bends` are the sizes, ascending, at which a memory domain, a socket or a
    node is full. The sizes in `apart` deviate from the curve of the other sizes; their deviation does not affect neighbouring sizes.

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
    apart: tuple[float, ...] = ()


class ScaledCurve(NamedTuple):
    """A curve relative to its last size: n/n_k, t/t_k, log2 of n/n_k and ln of t/t_k; arrays of shape (k,)."""

    n: Floats
    t: Floats
    x: Floats
    y: Floats


def scaled(curves: Sequence[Curve]) -> ScaledCurve:
    """Return curves of k sizes each, relative to the last size of each curve, arrays of shape (curves, k).

    Raise ValueError unless sizes are ascending, and sizes and times are positive and finite.

    >>> scaled([Curve("a", "archer2", (2.0, 1.0), (10.0, 5.0))])
    Traceback (most recent call last):
    ValueError: Sizes must be positive, finite and rising.
    """
    n, t = (np.array(of, dtype=np.float64) for of in zip(*((curve.n, curve.median_s) for curve in curves), strict=True))
    if not ((n[:, 0] > 0).all() and (n[:, -1] < np.inf).all() and (n[:, 1:] > n[:, :-1]).all()):
        raise ValueError("Sizes must be positive, finite and rising.")
    if not (t.min() > 0 and t.max() < np.inf):
        raise ValueError("Run times must be positive and finite.")
    least = 2.0 ** np.arange(n.shape[1]) / RATIO_MAX  # sizes beyond RATIO_MAX stay distinct
    relative_n = np.minimum(np.maximum(relative(n, n[:, -1:]), least), 1.0)
    relative_t, x = relative(t, t[:, -1:]), np.log2(relative_n)
    if not (x[:, 1:] > x[:, :-1]).all():
        raise ValueError("Sizes must differ in more than their last digits.")
    return ScaledCurve(relative_n, relative_t, x, np.log(relative_t))


def relative(values: Floats, unit: float | Floats) -> Floats:
    """Return values divided by a unit, clipped to RATIO_MAX."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.clip(values / unit, 1.0 / RATIO_MAX, RATIO_MAX))


def judged_runs(curve: Curve, index: int) -> tuple[float, ...]:
    """Return the single runs at a size with which forecasts are compared: at most four, evenly spread over the sorted runs.

    >>> judged_runs(Curve("a", "s", (1.0,), (5.0,), ((9.0, 1.0, 5.0, 6.0, 4.0, 5.5, 4.5, 7.0),)), 0)
    (4.0, 5.0, 6.0, 9.0)
    """
    runs = sorted(curve.repeats[index]) if curve.repeats else []
    if not runs:
        return (curve.median_s[index],)
    if len(runs) <= REPEATS_MAX:
        return tuple(runs)
    return tuple(runs[(2 * i + 1) * len(runs) // (2 * REPEATS_MAX)] for i in range(REPEATS_MAX))


ENSEMBLE: Final = ("usl", "ideal", "last_two", *(kind.name for kind in KINDS), "flat", "rising")
LN2: Final = float(np.log(2.0))
# per unit of ln n: the excess of the median run over the laws, because curves saturate beyond their observed sizes
PESSIMISM: Final = 0.02
LN_MIN: Final = -690.0  # ln of 1e-300
LOSS_BASE, LOSS_PER_DOUBLING, LOSS_MAX = 0.01, 0.05, 4.0
FORGETTING = 0.7  # discount of losses per size
ANCHORED = 0.3  # share of a forecast that follows the slope of the law
SLOPE_RANGE, CHORD_RANGE = (-1.5, 1.2), (-2.0, 2.0)
CURVATURE_RANGE = (-0.5, 0.7)
RESIDUAL_BASE = 0.003
_EXPONENTS = np.array([kind.exponent for kind in KINDS])


class PrefixMembers(NamedTuple):
    """All laws, fitted to each prefix of at least two sizes; sizes and times are relative to the last size of the curve.

    `universal` (..., k-1, 3) and `two_terms` (..., kinds, k-1, 2) are coefficients, `slope` (..., k-1) is the slope of ln t over
    ln n. `x` and `y` (..., k-1) are log2 n and ln t of the last size of each prefix.
    """

    universal: Floats
    two_terms: Floats
    slope: Floats
    x: Floats
    y: Floats

    def ln_run_times(self, n: Floats) -> Floats:
        """Return ln of the run time of every law at relative sizes (..., m), shape (..., k - 1, laws, m)."""
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
    """All laws of c curves, each fitted to the whole curve: coefficients `universal` (c, 3) and `two_terms` (kinds, c, 2), slopes (c,).

    `y` (c,) is the relative ln t of the last size.
    """

    universal: Floats
    two_terms: Floats
    slope: Floats
    y: Floats

    @classmethod
    def of(cls, evidence_: "Sequence[LawEvidence]") -> "Laws":
        members = [each.members for each in evidence_]
        return cls(
            np.array([each.universal[-1] for each in members]),
            np.array([each.two_terms[:, -1] for each in members]).swapaxes(0, 1),
            np.array([each.slope[-1] for each in members]),
            np.array([each.y[-1] for each in members]),
        )

    def usl(self, n: Floats, curve: Indices) -> Floats:
        """Return ln of the relative run time by the universal scalability law; `n` (m,) are relative sizes, `curve` (m,) their curves."""
        a, b, c = self.universal[curve].T
        return np.asarray(np.log(np.maximum(a / n + b + c * n, 1e-300)))

    def ln_run_times(self, n: Floats, curve: Indices) -> Floats:
        """Return ln of the relative run time by every law, (m, laws); `n` (m,) are relative sizes, `curve` (m,) their curves.

        A row does not depend on the other rows, to the last bit.
        """
        first, second = np.moveaxis(self.two_terms[:, curve], -1, 0)
        powers = np.log(np.maximum(first / n + second * n ** _EXPONENTS[:, None], 1e-300))
        y, slope, distance = self.y[curve], self.slope[curve], np.log2(n) * LN2
        rising = y + np.maximum(slope, 0.0) * distance
        laws = [self.usl(n, curve), y - distance, y + slope * distance, *powers, y, rising]
        return np.asarray(np.maximum(np.stack(laws, axis=-1), LN_MIN))


class LeftOutErrors(NamedTuple):
    """Errors of cross-validation: each inner size is predicted from all other sizes; arrays of shape (k - 2,).

    `x` is log2 of the relative size, `error` the predicted minus the observed ln t.
    """

    x: Floats
    error: Floats


@dataclass(frozen=True, eq=False)
class LawEvidence:
    """The laws of a curve, and the record of the forecasts that they made of each next size.

    `ln_fits` (k-1, laws, k) is ln t of each law at the observed sizes. `losses` (k-2, laws) are the losses of the forecasts of the
    third, fourth, ... size. `own` and `last` (k-1, laws) are the discounted mean of the losses known at each prefix and the newest
    of them. `curvature` (k-1,) is the change of slope over the last three sizes, `residual` (k-1,) ln of the error of the law `usl`.
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
        """The number of sizes."""
        return self.data.n.size

    @cached_property
    def here(self) -> Floats:
        """The relative ln t at the largest size by each law, fitted to all sizes, (laws,)."""
        return self.ln_fits[-1, :, -1]


def anchored(there: Floats, here: Floats, observed: float | Floats, distance: Floats) -> Floats:
    """Return the elasticity of a forecast that starts at the last observation, a weighted mean of two slopes in ln t over ln n.

    The first slope is that of the law between the last size (`here`, ln t by the law) and the target (`there`); the second leads
    from the `observed` ln t at the last size to `there`. `distance` is ln(target / last size).

    >>> anchored(np.array([-1.0]), np.array([0.0]), 0.0, np.array([1.0])).tolist()
    [-1.0]
    """
    along = np.minimum(np.maximum((there - here) / distance, SLOPE_RANGE[0]), SLOPE_RANGE[1])
    chord = np.minimum(np.maximum((there - observed) / distance, CHORD_RANGE[0]), CHORD_RANGE[1])
    return np.asarray(ANCHORED * along + (1.0 - ANCHORED) * chord)


def prefix_members(data: ScaledCurve) -> PrefixMembers:
    """Return all laws, fitted to each prefix of at least two sizes."""
    fits = fit_universal(data.n, data.t), fit_local(data.n, data.t), last_slopes(data.x, data.y)
    return PrefixMembers(*fits, data.x[..., 1:], data.y[..., 1:])


def left_out(data: ScaledCurve) -> LeftOutErrors:
    """Return the errors of predicting each inner size from all other sizes.

    >>> inner = left_out(scaled([Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))]))
    >>> inner.x.tolist(), np.abs(inner.error).round(9).tolist()
    ([[-1.0]], [[0.0]])
    """
    k, x = data.n.shape[-1], data.x
    if k < 3:
        return LeftOutErrors(*np.zeros((2, *data.n.shape[:-1], 0)))
    retained = _all_but_one(k)
    sets = (-1, k - 1)
    terms = fit_universal_each(data.n[..., retained].reshape(sets), data.t[..., retained].reshape(sets))
    basis = np.stack([1.0 / data.n, np.ones_like(data.n), data.n], axis=-2)
    members = np.log(np.maximum(terms.reshape(*data.n.shape[:-1], k - 2, 3) @ basis, 1e-300))
    deviation = data.y[..., None, :] - members
    left, here, right = (np.diagonal(deviation, offset, -2, -1)[..., : k - 2] for offset in range(3))
    before, after = x[..., 1:-1] - x[..., :-2], x[..., 2:] - x[..., 1:-1]
    error = left + before / (before + after) * (right - left) - here
    return LeftOutErrors(x[..., 1:-1], error)


@lru_cache(maxsize=64)
def _all_but_one(k: int) -> Indices:
    """Return, for each inner size, the indices of all other sizes, (k - 2, k - 1)."""
    return np.array([[j for j in range(k) if j != i] for i in range(1, k - 1)])


def evidence(curve: Curve) -> LawEvidence:
    """Return the evidence of a curve; ValueError if the curve has fewer than two sizes or is not valid.

    >>> evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0))).losses[0].round(3).tolist()
    [0.214, 2.03, 1.042, 0.214, 0.484, 1.424, 0.214, 4.0, 4.0]
    """
    return evidence_of([curve])[0]


def evidence_of(curves: Sequence[Curve]) -> list[LawEvidence]:
    """Return the evidence of each curve, equal to the bit to that of a single call of `evidence`; ValueError if a curve is not valid."""
    by_sizes: dict[int, list[int]] = {}
    for index, curve in enumerate(curves):
        if len(curve.n) < 2:
            raise ValueError("A forecast needs two sizes.")
        if len(curve.n) != len(curve.median_s) or len(curve.repeats) not in {0, len(curve.n)}:
            raise ValueError("A curve has one run time per size, and repeats of all sizes or of none.")
        by_sizes.setdefault(len(curve.n), []).append(index)
    by_place: dict[int, LawEvidence] = {}
    for indices in by_sizes.values():
        by_place.update(zip(indices, _evidence([curves[index] for index in indices]), strict=True))
    return [by_place[index] for index in range(len(curves))]


def _evidence(curves: Sequence[Curve]) -> Iterator[LawEvidence]:
    """Yield the evidence of curves that have the same number of sizes."""
    data = scaled(curves)
    members = prefix_members(data)
    ln_fits = members.ln_run_times(data.n)
    losses = _losses(data, ln_fits)
    own, last = _records(losses, data.n.shape[-1] - 1)
    curvature, residual, left_out_errors = _curvatures(data), _residuals(data, ln_fits), left_out(data)
    for index, curve in enumerate(curves):
        ln_fit, loss, own_loss, last_loss, bend, misfit = (
            array[index].copy() for array in (ln_fits, losses, own, last, curvature, residual)
        )
        fitted, scale = _alone(index, members), _alone(index, data)
        inner = _alone(index, left_out_errors)
        yield LawEvidence(curve, scale, fitted, ln_fit, loss, own_loss, last_loss, bend, misfit, inner)


Arrays = TypeVar("Arrays", ScaledCurve, PrefixMembers, LeftOutErrors)


def _alone(index: int, arrays: Arrays) -> Arrays:
    """Return copies of the arrays of curve `index`, because views would keep the arrays of all curves in memory."""
    return type(arrays)(*(array[index].copy() for array in arrays))


def _losses(data: ScaledCurve, ln_fits: Floats) -> Floats:
    rows = np.arange(data.n.shape[-1] - 2)
    rise = data.y[..., 1:-1] - data.y[..., 2:]
    forecast = ln_fits[..., rows, :, rows + 2] - ln_fits[..., rows, :, rows + 1]
    forecast = np.moveaxis(forecast, 0, -2) + rise[..., None]
    return lost(forecast, np.diff(data.x)[..., 1:])


def lost(error: Floats, distance: Floats) -> Floats:
    """Return the losses of forecasts from their errors in ln t, (..., m, forecasts), and their distances in doublings, (..., m).

    A loss is the absolute error divided by the tolerance at that distance, limited to LOSS_MAX.

    >>> lost(np.array([[0.03, -9.0]]), np.ones(1)).round(3).tolist()
    [[0.5, 4.0]]
    """
    tolerance = LOSS_BASE + LOSS_PER_DOUBLING * distance
    return np.asarray(np.minimum(np.abs(error) / tolerance[..., None], LOSS_MAX))


def _records(losses: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the discounted mean of the losses known at each prefix, and the newest of these losses.

    The mean includes one more forecast without loss, which shrinks it towards 0.
    """
    age = np.arange(count)[:, None] - np.arange(1, count)
    weight = np.where(age >= 0, FORGETTING ** np.maximum(age, 0), 0.0)
    own = (weight @ losses) / (1.0 + weight.sum(axis=1, keepdims=True))
    return own, np.concatenate([np.zeros((*losses.shape[:-2], 1, len(ENSEMBLE))), losses], axis=-2)


def _curvatures(data: ScaledCurve) -> Floats:
    """Return the change of slope over the last three sizes of each prefix, per doubling; 0 for the first prefix."""
    curvatures = np.zeros((*data.n.shape[:-1], data.n.shape[-1] - 1))
    if curvatures.shape[-1] > 1:
        slope = np.diff(data.y) / (np.diff(data.x) * LN2)
        bend = np.diff(slope) / ((data.x[..., 2:] - data.x[..., :-2]) / 2.0)
        curvatures[..., 1:] = np.clip(bend, *CURVATURE_RANGE)
    return curvatures


def _residuals(data: ScaledCurve, ln_fits: Floats) -> Floats:
    inside: NDArray[np.bool_] = np.tri(data.n.shape[-1], dtype=bool)[1:]
    off = (data.y[..., None, :] - ln_fits[..., 0, :]) ** 2
    squares = np.where(inside, off, 0.0).sum(axis=-1) / inside.sum(axis=1)
    return np.asarray(np.log(np.sqrt(squares) + RESIDUAL_BASE))


NO_OFFSETS: Final = (0.0,) * len(ENSEMBLE)
CURVATURE_UNIT = 3.0


class LawGate(NamedTuple):
    """Coefficients of the gate, which gives each law a logit: a prior and a factor of the curvature per law, and the costs of losses.

    `own`, `last` and `related` are subtracted per unit of each loss. `alone` is added to the prior, in full without other curves of
    the application, and less the more there are.
    """

    prior: tuple[float, ...]
    curvature: tuple[float, ...]
    own: float
    last: float
    related: float
    alone: tuple[float, ...] = NO_OFFSETS


# fitted to the forecasts of each next size from smaller ones: CASTEP, OpenSBLI, VASP, MAESTRO, WAVETRISK, CarpetX, Spark jobs and course codes
GATE: Final = LawGate(
    prior=(0.0311, 1.6172, -0.5901, -0.5482, 0.0972, -0.1767, -0.2133, -0.1055, -0.1116),
    curvature=(-0.2376, 0.3082, -0.1664, 0.0259, 0.1519, 0.1997, 0.082, -0.2067, -0.157),
    own=0.7089,
    last=0.344,
    related=2.0223,
    alone=(0.4211, -0.3224, -0.3006, -0.1001, 0.7387, 0.114, 0.1696, -0.3843, -0.336),
)


class RelatedCurve(NamedTuple):
    """The summary of a curve for forecasts of the application's other curves: system, losses of its own forecasts, and observations.

    `losses` has one row for each forecast of a next size, starting with the third size; a row has one loss per law.
    `ln_n` and `ln_t` are all sizes and median run times in s; they are compared only between curves with the same `unit` of size.
    """

    key: str
    system: str
    losses: tuple[tuple[float, ...], ...]
    ln_n: tuple[float, ...] = ()
    ln_t: tuple[float, ...] = ()
    unit: str = ""


class RelatedLosses(NamedTuple):
    """Mean losses (m, laws) of the laws on related curves, and the `doubt` (m,) about these means.

    The doubt is 1 without related curves and approaches 0 for many.
    """

    losses: Floats
    doubt: Floats


def logits(gate: LawGate, evidence_: LawEvidence, row: Indices, related: RelatedLosses) -> Floats:
    """Return the logit of each law at the prefixes `row` (m,), shape (m, laws), before the offsets of the application are added."""
    bend = CURVATURE_UNIT * evidence_.curvature[row, None] * np.array(gate.curvature)
    record = gate.own * evidence_.own[row] + gate.last * evidence_.last[row] + gate.related * related.losses
    return np.asarray(np.array(gate.prior) + bend - record + related.doubt[:, None] * np.array(gate.alone))


def weights(logit: Floats) -> Floats:
    """Return the weights of the laws: the softmax of their logits over the last axis."""
    mass = np.exp(logit - logit.max(axis=-1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))


RELATED_SHRINKAGE: Final = 2.0
OTHER_SYSTEM: Final = 0.5  # weight of a curve on another system


class RelatedPoints(NamedTuple):
    """Sizes and times of j curves: ln n and ln t, (j, most), padded at the end, and the number of sizes of each curve, (j,)."""

    ln_n: Floats
    ln_t: Floats
    sizes: Indices


@dataclass(frozen=True, eq=False)
class Related:
    """The summaries of all curves of an application, with their numbers as arrays over these j curves.

    >>> Related((RelatedCurve("a", "archer2", ()), RelatedCurve("b", "archer2", ()))).trust("a", "hawk").tolist()
    [0.0, 0.5]
    """

    curves: tuple[RelatedCurve, ...]

    def trust(self, key: str, system: str, unit: str | None = None) -> Floats:
        """Return the weights (j,) of the curves in forecasts of the curve `key`.

        A weight is 0 for this curve itself and for curves that count sizes in another unit than `unit`, 1 for a curve on the
        same `system`, and OTHER_SYSTEM elsewhere.
        """
        weights = (
            0.0
            if curve.key == key or unit not in {None, curve.unit}
            else 1.0
            if curve.system == system
            else OTHER_SYSTEM
            for curve in self.curves
        )
        return np.fromiter(weights, dtype=np.float64, count=len(self.curves))

    def alone(self, key: str) -> bool:
        """Return whether the application has no curve besides `key`."""
        return all(curve.key == key for curve in self.curves)

    @cached_property
    def losses(self) -> tuple[Floats, Indices]:
        """The mean of the two newest losses after each forecast of a curve, (j, most, laws), and the number of forecasts, (j,)."""
        count = np.array([len(curve.losses) for curve in self.curves], dtype=np.intp)
        means = np.zeros((len(self.curves), max(1, *count) if count.size else 1, len(ENSEMBLE)))
        for place, curve in enumerate(self.curves):
            means[place, : count[place]] = np.array(curve.losses).reshape(-1, len(ENSEMBLE))
        means[:, 1:] = (means[:, 1:] + means[:, :-1]) / 2.0
        return means, count

    @cached_property
    def points(self) -> RelatedPoints:
        """The sizes and run times of all curves, as padded arrays."""
        count = np.array([len(curve.ln_n) for curve in self.curves], dtype=np.intp)
        ln_n, ln_t = np.zeros((2, len(self.curves), max(count, default=0)))
        for place, curve in enumerate(self.curves):
            ln_n[place, : count[place]], ln_t[place, : count[place]] = curve.ln_n, curve.ln_t
        ln_n[np.arange(ln_n.shape[1]) >= count[:, None]] = np.inf
        return RelatedPoints(ln_n, ln_t, count)


NO_RELATED: Final = Related(())


def related_losses(related: Related, key: str, system: str, sizes: Sequence[int] | Indices) -> RelatedLosses:
    """Return the mean losses of each law on the other curves of the application, including two more curves without loss.

    Each curve contributes the mean of its last two losses. `sizes` (m,) limits how many sizes of a related curve count, because a
    forecast in hindsight must not use more sizes than the forecast had.

    >>> two_curves = Related((RelatedCurve("b", "s", ((3.0,) * 9,)),))
    >>> related_losses(two_curves, "a", "s", [2, 3]).losses[:, 0].tolist()
    [0.0, 1.0]
    """
    if related.alone(key):
        return RelatedLosses(np.zeros((len(sizes), len(ENSEMBLE))), np.ones(len(sizes)))
    distinct, place = np.unique(sizes, return_inverse=True)
    losses, count = related.losses
    rows = np.minimum(distinct - 2, count[:, None])
    weight = np.where(rows > 0, related.trust(key, system)[:, None], 0.0)
    newest = losses[np.arange(count.size)[:, None], np.maximum(rows, 1) - 1]
    total = RELATED_SHRINKAGE + weight.sum(axis=0)
    mean = (weight[:, :, None] * newest).sum(axis=0) / total[:, None]
    return RelatedLosses(mean[place], (RELATED_SHRINKAGE / total)[place])
