"""The run time of an application at any size, with band, weights of the laws and verdict.

Input from other curves is plain data: summaries of the other curves of the application, the offsets and scores of the
application, and the pool of scores of the centre. `learn` computes offsets and scores from the forecasts of all curves.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from processors.models.combination import inside
from processors.models.combination.evidence import (
    ENSEMBLE,
    GATE,
    LN2,
    LN_MIN,
    NO_OFFSETS,
    NO_RELATED,
    PESSIMISM,
    LawEvidence,
    LawGate,
    Laws,
    Related,
    RelatedCurve,
    RelatedLosses,
    anchored,
    logits,
    related_losses,
    relative,
    weights,
)
from processors.models.combination.inside import INSIDE_SCALE, InsideScale
from processors.models.combination.replay import (
    BELOW,
    SCALE,
    WIDE,
    Circumstances,
    ErrorScale,
    ForecastRows,
    features,
    inside_scores,
    reasons_of,
    replay,
    scales_of,
    scores,
    spread,
    total_losses,
)
from processors.models.combination.scores import (
    NO_SCORES,
    Counts,
    Ends,
    ForecastScores,
    KnownScores,
    SystemScores,
    beyond,
    ends,
    known,
    share,
    tally,
)
from processors.models.combination.scores import EndsRequest as ScoresRequest
from processors.models.combination.scores import inside as ends_inside
from processors.models.combination.shapes import (
    NO_LOSSES,
    ShapeLosses,
    Shapes,
    blended,
    mixed_spread,
    shapes,
    trusted,
)
from processors.models.numerics.arrays import Floats, Indices

# All coefficients that were fitted to measured curves stand here and beside their formulas (GATE, SCALE, INSIDE_SCALE). The
# program of `make quality` refits all of them, also with each data set left out in turn.
# Synthetic curves have a sixth of the weight in the fit. They saturate, turn up and stay flat far more often than published
# curves: coefficients fitted to published curves alone gave too short run times on all other data. A third of the weight
# cost more on measured curves than it gained; without synthetic curves forecasts again assumed that speed-up goes on.

# scores of forecasts: 20 quantiles at .025, .075, .. for targets up to 2, up to 4 and beyond 4 times the largest size; the
# first three rows are for forecasts by the laws, which miss on the upper side far out, the others for related curves
ATOMS: Final = (
    (-2.55, -1.425, -1.015, -0.818, -0.651, -0.498, -0.378, -0.285, -0.177, -0.075,
     0.021, 0.13, 0.28, 0.432, 0.595, 0.826, 1.112, 1.519, 2.19, 3.906),
    (-2.501, -1.358, -1.024, -0.756, -0.609, -0.48, -0.371, -0.277, -0.184, -0.097,
     0.016, 0.133, 0.251, 0.412, 0.609, 0.87, 1.208, 1.592, 2.146, 3.774),
    (-1.954, -1.329, -1.001, -0.785, -0.645, -0.52, -0.406, -0.305, -0.182, -0.103,
     -0.007, 0.114, 0.261, 0.463, 0.678, 0.958, 1.344, 1.845, 2.569, 4.027),
    (-2.409, -1.45, -1.062, -0.817, -0.62, -0.488, -0.372, -0.281, -0.176, -0.09,
     0.008, 0.134, 0.237, 0.356, 0.529, 0.741, 1.07, 1.512, 2.265, 3.949),
    (-1.952, -1.113, -0.816, -0.659, -0.495, -0.381, -0.253, -0.179, -0.108, -0.038,
     0.009, 0.092, 0.199, 0.297, 0.393, 0.61, 0.932, 1.351, 2.054, 4.021),
    (-1.683, -1.085, -0.846, -0.683, -0.543, -0.413, -0.293, -0.189, -0.105, 0.011,
     0.106, 0.229, 0.362, 0.48, 0.639, 0.829, 1.089, 1.544, 2.24, 4.604),
)  # fmt: skip

INSIDE_ATOMS: Final = (
    -3.428, -1.935, -1.408, -1.079, -0.91, -0.711, -0.512, -0.354, -0.205, -0.112,
    0.007, 0.117, 0.238, 0.399, 0.581, 0.768, 1.018, 1.412, 2.098, 4.068,
)  # fmt: skip


class Coefficients(NamedTuple):
    """All fitted coefficients: `gate`, `scale` and `atoms` for sizes beyond the observed range, the others for sizes inside the range.

    `atoms` and `inside_atoms` are quantiles of the scores of measured forecasts; `atoms` has one row per class of distance.
    """

    gate: LawGate
    scale: ErrorScale
    atoms: tuple[tuple[float, ...], ...]
    inside_scale: InsideScale
    inside_atoms: tuple[float, ...]


SHIPPED: Final = Coefficients(GATE, SCALE, ATOMS, INSIDE_SCALE, INSIDE_ATOMS)

# half-width of the band in ln t per doubling below the smallest size: it held 92 % of the measured sizes left out up to one
# doubling below, and 89 % up to two
BELOW_WIDTH = 0.15
# relative error of the law of universal scalability over all sizes; the same limit as for Downey fits
FIT_ERROR_MAX = 0.10
FORECAST_LOSS_MAX = 2.0  # mean loss of forecasts of the next size: an error of about a tenth per doubling
DISTINCT = 1e-12  # relative; targets closer to the largest size count as equal to it
_ALL_SIZES = np.array([np.iinfo(np.int64).max])


class CombinedForecast(NamedTuple):
    """Predictions at m sizes: run time and 90 % band of a single run in seconds, (m,), and reasons for doubt.

    `distance` (m,) is log2 of target / largest observed size. `known_further` (m,) is the share of each forecast, 0 to 1, that
    comes from other curves of the application with larger sizes.
    """

    run_time_s: Floats
    low_s: Floats
    high_s: Floats
    distance: Floats
    reasons: tuple[tuple[str, ...], ...]
    known_further: Floats


@dataclass(frozen=True, eq=False)
class LearnedRecord:
    """What an application has learned from the forecasts on all its curves.

    `offsets` are added to the logits of the laws, `scores` are the scores of the forecasts by system, and `shape_losses` the losses
    of forecasts by related curves.
    """

    offsets: tuple[float, ...]
    scores: tuple[SystemScores, ...]
    shape_losses: ShapeLosses = NO_LOSSES

    @cached_property
    def share(self) -> Counts:
        """The counts of scores that the application adds to the pool of its centre."""
        return share(self.scores)


NOTHING_LEARNED: Final = LearnedRecord(NO_OFFSETS, ())


@dataclass(frozen=True, eq=False)
class Combination:
    """The forecaster of one curve of at least two sizes.

    `related` has summaries of the curves of the same application, with or without this curve, and `learned` their record. `pool`
    has the scores of all applications of the centre. `predicted` caches predictions by size; entries stay valid, because the
    inputs never change.

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> curve = Curve("a", "archer2", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0))
    >>> Combination(evidence(curve)).predict([16.0]).run_time_s.tolist()
    [78.5]
    """

    evidence: LawEvidence
    related: Related = NO_RELATED
    learned: LearnedRecord = NOTHING_LEARNED
    pool: Counts = field(default_factory=lambda: NO_SCORES)
    coefficients: Coefficients = SHIPPED
    predicted: dict[float, "_Point"] = field(default_factory=dict, init=False, repr=False)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each law beyond the largest size; the weights add up to 1."""
        return dict(zip(ENSEMBLE, self.shares.tolist(), strict=True))

    @property
    def explains(self) -> bool:
        """Return whether the law `usl` passes near all sizes and the forecasts of each next size were accurate on average.

        >>> from processors.models.combination.evidence import Curve, evidence
        >>> turned = Curve("a", "s", (4, 8, 16, 32, 64, 128), (2258.0, 1192.8, 657.0, 402.4, 315.5, 362.7))
        >>> rough = Curve("a", "s", (1, 2, 4, 8, 16), (100.0, 80.0, 20.0, 35.0, 9.0))
        >>> Combination(evidence(turned)).explains, Combination(evidence(rough)).explains
        (True, False)
        """
        missed = float(self.shares @ self.evidence.own[-1])
        return float(self.evidence.residual[-1]) <= math.log(FIT_ERROR_MAX) and missed <= FORECAST_LOSS_MAX

    def predict(self, targets: Sequence[float] | Floats) -> CombinedForecast:
        """Return the predictions at the sizes `targets`, in any order; ValueError unless the sizes are positive and finite."""
        sizes = np.atleast_1d(np.asarray(targets, dtype=np.float64)).tolist()
        foretell([(self, sizes)])
        columns = list(zip(*(self.predicted[n] for n in sizes), strict=True))
        run_time_s, low_s, high_s, distance, known_further = (np.array(columns[column]) for column in (0, 1, 2, 3, 5))
        return CombinedForecast(run_time_s, low_s, high_s, distance, columns[4], known_further)

    @cached_property
    def related_losses(self) -> RelatedLosses:
        """The mean losses of forecasts on the application's other curves, by law."""
        curve = self.evidence.curve
        return related_losses(self.related, curve.key, curve.system, _ALL_SIZES)

    @cached_property
    def known_scores(self) -> KnownScores:
        """The scores of earlier forecasts by this and the other applications of the centre, weighted for the curve's system."""
        return known(self.evidence.curve.system, self.learned.scores, self.pool, self.learned.share)

    @cached_property
    def shares(self) -> Floats:
        """The weight of each law of ENSEMBLE beyond the largest size, shape (laws,), sum 1."""
        last = np.array([self.evidence.k - 2])
        return weights(
            logits(self.coefficients.gate, self.evidence, last, self.related_losses)[0] + self.learned.offsets
        )


class _Targets(NamedTuple):
    """Sizes to predict for c curves, relative to the largest size of their curve, and the index of this curve; both (m,).

    The targets of a curve are contiguous: those of curve i run from `places[i]` to `places[i + 1]`.
    """

    n: Floats
    curve: Indices
    places: list[int]

    def each(self) -> Iterator[tuple[int, slice]]:
        """Yield the index of each curve that has targets, and the slice of its targets."""
        for curve, (first, last) in enumerate(pairwise(self.places)):
            if last > first:
                yield curve, slice(first, last)


class _Answers(NamedTuple):
    """Predictions (m,): ln of the run time relative to that at the largest size, and the distances of the band ends from it in ln t.

    `known_further` is the share of related curves in each prediction; `reasons` are reasons for doubt.
    """

    ln_run_time: Floats
    lower: Floats
    upper: Floats
    known_further: Floats
    reasons: list[tuple[str, ...]]


# the prediction of one size, as in `CombinedForecast`
_Point = tuple[float, float, float, float, tuple[str, ...], float]
Request = tuple[Combination, Sequence[float]]


def foretell(requested: Sequence[Request]) -> None:
    """Predict the requested sizes of many curves at once and cache the results, which equal single predictions to the last bit.

    Batching saves time, because numpy takes as long for a dozen numbers as for a thousand. Raises ValueError unless all sizes are
    positive and finite.

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> first, second = (Combination(evidence(Curve(key, "s", (1.0, 2.0), (10.0, 6.0)))) for key in "ab")
    >>> foretell([(first, [4.0]), (second, [1.0, 4.0])])
    >>> sorted(first.predicted), sorted(second.predicted)
    ([4.0], [1.0, 4.0])
    """
    by_coefficients: dict[int, list[Request]] = {}
    for combination, sizes in requested:
        missing = [n for n in dict.fromkeys(sizes) if n not in combination.predicted]
        if missing:
            by_coefficients.setdefault(id(combination.coefficients), []).append((combination, missing))
    for batch in by_coefficients.values():
        _foretell(batch)


def _foretell(requested: Sequence[Request]) -> None:
    curves = [combination for combination, _ in requested]
    n = np.array([n for _, sizes in requested for n in sizes])
    curve = np.repeat(np.arange(len(requested)), [len(sizes) for _, sizes in requested])
    if not ((n > 0).all() and np.isfinite(n).all()):
        raise ValueError("Sizes must be positive and finite.")
    last_n = np.array([combination.evidence.curve.n[-1] for combination in curves])[curve]
    last = np.array([math.log(combination.evidence.curve.median_s[-1]) for combination in curves])[curve]
    ratio, laws = relative(n, last_n), Laws.of([combination.evidence for combination in curves])
    ln_t, lower, upper, further = np.zeros((4, n.size))
    doubts: list[tuple[str, ...]] = [(WIDE,)] * n.size
    for chosen, rule in ((n <= last_n, _inside), (n > last_n, _beyond)):
        if chosen.any():
            places = np.searchsorted(curve[chosen], np.arange(len(curves) + 1)).tolist()
            answers = rule(curves, laws, _Targets(ratio[chosen], curve[chosen], places))
            ln_t[chosen], lower[chosen], upper[chosen], further[chosen] = answers[:4]
            for place, reasons in zip(np.flatnonzero(chosen).tolist(), answers.reasons, strict=True):
                doubts[place] = reasons
    ends_s = (_seconds(last + ln_t + end).tolist() for end in (0.0, lower, upper))
    points = zip(*ends_s, np.log2(ratio).tolist(), doubts, further.tolist(), strict=True)
    for combination, sizes in requested:
        observed = dict(zip(combination.evidence.curve.n, combination.evidence.curve.median_s, strict=True))
        for size, (time_s, *rest) in zip(sizes, points, strict=False):
            # observed sizes keep their observed run times, to the bit
            combination.predicted[size] = (observed.get(size, time_s), *rest)


def _beyond(curves: Sequence[Combination], laws: Laws, targets: _Targets) -> _Answers:
    """Return the forecasts beyond the largest size of each curve."""
    coefficients = curves[0].coefficients
    n = np.maximum(targets.n, 1.0 + DISTINCT)
    distance, ln_ahead = np.log2(n), np.log2(n) * LN2
    shares, law_at_last = (
        np.array(columns)[targets.curve]
        for columns in zip(*((one.shares, one.evidence.here) for one in curves), strict=True)
    )
    elasticity = anchored(
        laws.ln_run_times(n, targets.curve), law_at_last, laws.y[targets.curve, None], ln_ahead[:, None]
    )
    alone = ((shares * elasticity).sum(axis=1) + PESSIMISM) * ln_ahead
    from_related, share = _by_related_curves(curves, targets._replace(n=n), distance, alone)
    ln_t = blended(alone, from_related, share)
    share = share * from_related.reached  # a forecast beyond the related curves spreads as the laws do
    apart = mixed_spread(spread(distance, shares, elasticity), alone, from_related, share)
    factors = features(_circumstances(curves, targets.curve, distance, apart, share))
    score_ends = _ends(curves, targets, distance, share)
    scale = scales_of(coefficients.scale, factors, distance)
    # until learned scores outweigh the shipped ones, the upper end assumes no gain beyond the largest size; the square, because with
    # the plain share bands beyond four times the largest size held 94 to 95 % of the runs in centres with hundreds of curves
    at_once = (1.0 - share) * score_ends.shipped**2 * -ln_t
    lower, upper = score_ends.lower * scale, np.maximum(score_ends.upper * scale, at_once)
    return _Answers(ln_t, lower, upper, share, reasons_of(coefficients.scale, factors, distance))


def _by_related_curves(
    curves: Sequence[Combination], targets: _Targets, distance: Floats, alone: Floats
) -> tuple[Shapes, Floats]:
    """Return the forecasts by related curves, and the share (m,) that they get in the forecasts; all 0 without related curves.

    `alone` (m,) are the forecasts by the laws, as ln of the factor from the largest size.
    """
    columns = np.zeros((5, targets.n.size))
    for place, rows in targets.each():
        combination = curves[place]
        evidence_, related = combination.evidence, combination.related
        if not related.alone(evidence_.curve.key):
            from_related = shapes(evidence_.data, evidence_.curve, related, targets.n[rows], alone[rows])
            columns[:4, rows] = from_related
            columns[4, rows] = trusted(from_related, combination.learned.shape_losses, distance[rows])
    return Shapes(*columns[:4]), columns[4]


def _ends(curves: Sequence[Combination], targets: _Targets, distance: Floats, share: Floats) -> Ends:
    """Return the scores at both ends of the bands, (m,).

    Each is a mean of the ends for forecasts by laws and by related curves, in which the latter have the weight `share` (m,).
    """
    atoms = curves[0].coefficients.atoms
    near, shipped = beyond(distance, atoms[:3])
    requested = [_scores(curves[place], near[rows], shipped[rows]) for place, rows in targets.each()]
    alone = Ends(*(np.concatenate(column) for column in zip(*ends(requested), strict=True)))
    if not share.any():
        return alone
    near, shipped = beyond(distance, atoms[3:], known_further=True)
    for place, rows in targets.each():
        if share[rows].any():
            carried = ends([_scores(curves[place], near[rows], shipped[rows])])[0]
            for column, values in zip(alone, carried, strict=True):
                column[rows] += share[rows] * (values - column[rows])
    return alone


def _scores(combination: Combination, near: Floats, shipped: Floats) -> ScoresRequest:
    return ScoresRequest(near, shipped, combination.known_scores)


def _inside(curves: Sequence[Combination], laws: Laws, targets: _Targets) -> _Answers:
    """Return the predictions at targets not above the largest size of their curve."""
    coefficients, evidence = curves[0].coefficients, [combination.evidence for combination in curves]
    x, smallest = np.log2(targets.n), np.array([curve_evidence.data.x[0] for curve_evidence in evidence])
    below = BELOW_WIDTH * np.maximum(smallest[targets.curve] - x, 0.0)
    scale = inside.scales(
        coefficients.inside_scale,
        inside.features_of([curve_evidence.left_out for curve_evidence in evidence], targets.curve, x),
    )
    of_curves = [place for place, _ in targets.each()]
    requested = [ends_inside(coefficients.inside_atoms, curves[place].known_scores) for place in of_curves]
    low, high = np.zeros((2, len(curves)))
    low[of_curves], high[of_curves] = np.array(
        [(curve_evidence.lower[0], curve_evidence.upper[0]) for curve_evidence in ends(requested)]
    ).T
    ln_t = np.maximum(laws.usl(targets.n, targets.curve), LN_MIN)
    for place, rows in targets.each():
        ln_t[rows] += inside.deviations(evidence[place], x[rows])
    doubts: list[tuple[str, ...]] = [(BELOW,) if far else (WIDE,) for far in below.tolist()]
    return _Answers(
        ln_t, low[targets.curve] * scale - below, high[targets.curve] * scale + below, np.zeros_like(x), doubts
    )


def _circumstances(
    curves: Sequence[Combination], curve: Indices, distance: Floats, apart: Floats, known_further: Floats
) -> Circumstances:
    evidence = [combination.evidence for combination in curves]
    by_curve = [(each.shares, each.evidence.own[-1], each.related_losses.losses[0]) for each in curves]
    shares, own, related = map(np.array, zip(*by_curve, strict=True))
    rows = [
        (shares * own).sum(axis=1),
        (shares * related).sum(axis=1),
        np.array([curve_evidence.k for curve_evidence in evidence], dtype=np.float64),
        np.array([curve_evidence.data.x[-1] - curve_evidence.data.x[-2] for curve_evidence in evidence]),
        np.array([curve_evidence.residual[-1] for curve_evidence in evidence]),
    ]
    missed, missed_related, sizes, gap, residual = (row[curve] for row in rows)
    return Circumstances(distance, apart, missed, missed_related, sizes, gap, residual, known_further)


def summary(evidence: LawEvidence) -> RelatedCurve:
    """Return the summary of a curve that forecasts of the application's other curves use."""
    curve = evidence.curve
    losses = tuple(map(tuple, evidence.losses.tolist()))
    ln_n, ln_t = (tuple(np.log(values).tolist()) for values in (curve.n, curve.median_s))
    return RelatedCurve(curve.key, curve.system, losses, ln_n, ln_t, curve.unit)


def learn(curves: Sequence[ForecastRows], coefficients: Coefficients = SHIPPED) -> LearnedRecord:
    """Return the record that an application learns from the forecasts of all its curves, in any order.

    >>> from processors.models.combination.evidence import GATE, NO_RELATED, Curve, evidence
    >>> from processors.models.combination.replay import rows
    >>> curve = Curve("a", "s", (1.0, 2.0, 4.0, 8.0), (8.0, 4.0, 2.0, 1.0))
    >>> learn([rows(GATE, evidence(curve), NO_RELATED)]).scores[0].system
    's'
    """
    replayed = replay(curves)
    shape_losses = total_losses(curves, replayed)
    by_system: dict[str, list[ForecastScores]] = {}
    for forecasts, shares in zip(curves, replayed.shares, strict=True):
        system_scores = by_system.setdefault(forecasts.system, [])
        system_scores += [
            *scores(coefficients.scale, forecasts, shares, shape_losses),
            inside_scores(coefficients.inside_scale, forecasts),
        ]
    by_system_sorted = (SystemScores(system, tally(by_system[system])) for system in sorted(by_system))
    return LearnedRecord(replayed.offsets, tuple(by_system_sorted), shape_losses)


def _seconds(ln_t: Floats) -> Floats:
    return np.exp(np.clip(ln_t, -690.0, 700.0))
