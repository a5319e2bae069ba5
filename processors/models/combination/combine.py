"""The run time of an application at any size, with band, weights of the laws and verdict.

What one application needs from the outside is plain data: summaries of its other curves, its offsets and scores, and
the pool of scores of the centre. `learn` makes offsets and scores from the forecasts of all its curves.
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
    Ints,
    LawEvidence,
    LawGate,
    Laws,
    Related,
    RelatedCurve,
    RelatedLosses,
    ScaledCurve,
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
from processors.models.downey.bayes import posterior
from processors.models.numerics.arrays import Floats

SHARE: Final = 0.15
SIZES_FULL, SIZES_NONE = 5, 7
DISTANCE_FULL, DISTANCE_NONE = 2.0, 3.0  # doublings
DISTANCE_NEAR = 0.5  # below, it fades: a forecast starts at what was observed
LOST_FULL = 0.05  # of ln efficiency between the smallest and the largest size


def shares(data: ScaledCurve, doubt: float, distance: Floats) -> Floats:
    """Return the share of the average in the forecast at each distance (m,) in doublings.

    `doubt` is how little the related curves say: 1 without any.

    >>> from processors.models.combination.evidence import Curve, scaled
    >>> data = scaled(Curve("a", "s", (4.0, 8.0, 16.0), (25.0, 13.0, 7.0)))
    >>> shares(data, 1.0, np.array([0.25, 1.0, 2.5, 4.0])).tolist()
    [0.075, 0.15, 0.075, 0.0]
    """
    near = np.clip((DISTANCE_NONE - distance) / (DISTANCE_NONE - DISTANCE_FULL), 0.0, 1.0)
    return np.asarray(share_most(data, doubt) * near * np.minimum(distance / DISTANCE_NEAR, 1.0))


def share_most(data: ScaledCurve, doubt: float) -> float:
    """Return the most that the average has of any forecast.

    >>> from processors.models.combination.evidence import Curve, scaled
    >>> share_most(scaled(Curve("a", "s", (4.0, 8.0, 16.0), (25.0, 13.0, 7.0))), 1.0)
    0.15
    """
    few = min(max((SIZES_NONE - data.n.size) / (SIZES_NONE - SIZES_FULL), 0.0), 1.0)
    lost = -float(data.y[0] + data.x[0] * LN2)
    return SHARE * few * min(max(lost / LOST_FULL, 0.0), 1.0) * doubt


def ln_run_times(data: ScaledCurve, n: Floats) -> Floats:
    """Return ln of the relative run time by the average of Downey's curves at relative sizes (m,).

    Sizes are counted in the smallest one, so that their unit does not matter.

    >>> from processors.models.combination.evidence import Curve, scaled
    >>> data = scaled(Curve("a", "s", (4.0, 8.0, 16.0), (25.0, 12.5, 6.25)))
    >>> bool(-0.7 < ln_run_times(data, np.array([2.0]))[0] < -0.5)
    True
    """
    belief = posterior(data.n / data.n[0], data.t)
    return belief.mean_ln_run_times(n / data.n[0])


# Everything that was fitted to measured curves: what other data would change. It stands here and beside the formulas that
# use it (GATE, SCALE, INSIDE_SCALE). The program of `make quality` refits all of it, also with each data set left out in turn.
# A sixth of the weight in the fit is on curves that were made up, which saturate, turn up and stay flat far more often than
# those that people publish: fitted to the latter alone forecasts were too fast on all other data. A third of the weight and
# none were tried as well: a third costs more on measured curves than it gains, and none says again that speed-up goes on.

# scores of forecasts: 20 quantiles at .025, .075, .. for targets up to 2, up to 4 and beyond 4 times the largest size; first
# of those by the laws, which miss on the upper side far out, then of those that related curves carry
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
    """Gate, scale of errors, and quantiles of scores by distance; scale and quantiles inside the range.

    >>> len(SHIPPED.atoms)
    6
    """

    gate: LawGate
    scale: ErrorScale
    atoms: tuple[tuple[float, ...], ...]
    inside_scale: InsideScale
    inside_atoms: tuple[float, ...]


SHIPPED: Final = Coefficients(GATE, SCALE, ATOMS, INSIDE_SCALE, INSIDE_ATOMS)

# half-width of the band in ln t per doubling below the smallest size: of measured sizes left out there it held 92 % up to
# one doubling and 89 % up to two
BELOW_WIDTH = 0.15
FIT_ERROR_MAX = 0.10  # relative, of the law of universal scalability over all sizes: as much as a Downey fit may miss
FORECAST_LOSS_MAX = 2.0  # mean loss of forecasts of the next size: about a tenth per doubling
DISTINCT = 1e-12  # relative; targets nearer to the largest size are at it
_ALL_SIZES = np.array([np.iinfo(np.int64).max])


class CombinedForecast(NamedTuple):
    """Predictions at m targets: run time and 90 % band of a single run in seconds, (m,); what makes each unsure.

    `distance` is log2 of target over largest size, at most 0 inside the range.
    """

    run_time_s: Floats
    low_s: Floats
    high_s: Floats
    distance: Floats
    reasons: tuple[tuple[str, ...], ...]
    known_further: Floats


@dataclass(frozen=True, eq=False)
class LearnedRecord:
    """What an application has learned from all forecasts of its curves: offsets of the laws, and scores by system.

    >>> LearnedRecord(NO_OFFSETS, ()).scores
    ()
    """

    offsets: tuple[float, ...]
    scores: tuple[SystemScores, ...]
    shape_losses: ShapeLosses = NO_LOSSES

    @cached_property
    def share(self) -> Counts:
        """What the application adds to the pool of the centre."""
        return share(self.scores)


NOTHING_LEARNED: Final = LearnedRecord(NO_OFFSETS, ())


@dataclass(frozen=True, eq=False)
class Combination:
    """What is known of one curve of at least two sizes.

    `related` are the summaries of the other curves of the application (its own among them does no harm), `learned` what
    all its curves have taught, `pool` the scores of all applications of the centre.

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> curve = Curve("a", "archer2", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0))
    >>> found = Combination(evidence(curve))
    >>> found.predict([16.0]).run_time_s.tolist()
    [78.5]
    """

    evidence: LawEvidence
    related: Related = NO_RELATED
    learned: LearnedRecord = NOTHING_LEARNED
    pool: Counts = field(default_factory=lambda: NO_SCORES)
    coefficients: Coefficients = SHIPPED
    predicted: dict[float, "_Point"] = field(
        default_factory=dict, init=False, repr=False
    )  # by size: nothing here ever changes

    @property
    def weights(self) -> dict[str, float]:
        """What each law weighs beyond the largest size; the weights add up to 1."""
        return dict(zip(ENSEMBLE, self.shares.tolist(), strict=True))

    @property
    def explains(self) -> bool:
        """Whether one smooth law passes near all sizes, and the forecasts of each next size were right on the whole.

        >>> from processors.models.combination.evidence import Curve, evidence
        >>> turned = Curve("a", "s", (4, 8, 16, 32, 64, 128), (2258.0, 1192.8, 657.0, 402.4, 315.5, 362.7))
        >>> rough = Curve("a", "s", (1, 2, 4, 8, 16), (100.0, 80.0, 20.0, 35.0, 9.0))
        >>> Combination(evidence(turned)).explains, Combination(evidence(rough)).explains
        (True, False)
        """
        missed = float(self.shares @ self.evidence.own[-1])
        return float(self.evidence.residual[-1]) <= math.log(FIT_ERROR_MAX) and missed <= FORECAST_LOSS_MAX

    def predict(self, targets: Sequence[float] | Floats) -> CombinedForecast:
        """Return the predictions at sizes of any order; ValueError unless they are positive and finite."""
        sizes = np.atleast_1d(np.asarray(targets, dtype=np.float64)).tolist()
        foretell([(self, sizes)])
        found = list(zip(*(self.predicted[n] for n in sizes), strict=True))
        run_time_s, low_s, high_s, distance, known = (np.array(found[column]) for column in (0, 1, 2, 3, 5))
        return CombinedForecast(run_time_s, low_s, high_s, distance, found[4], known)

    @property
    def alone(self) -> bool:
        """Whether no other curve of the application is known."""
        return self.related.alone(self.evidence.curve.key)

    @cached_property
    def related_losses(self) -> RelatedLosses:
        """The mean losses of the laws on the other curves of the application."""
        curve = self.evidence.curve
        return related_losses(self.related, curve.key, curve.system, _ALL_SIZES)

    @cached_property
    def known_scores(self) -> KnownScores:
        """The scores of the application and those of the centre, for the system of the curve."""
        return known(self.evidence.curve.system, self.learned.scores, self.pool, self.learned.share)

    @cached_property
    def shares(self) -> Floats:
        """What each law weighs beyond the largest size, (laws,)."""
        last = np.array([self.evidence.k - 2])
        return weights(
            logits(self.coefficients.gate, self.evidence, last, self.related_losses)[0] + self.learned.offsets
        )


class _Targets(NamedTuple):
    """Relative sizes n (m,) of c curves, and which curve each is of (m,); those of a curve stand together, in its `places` (c + 1)."""

    n: Floats
    curve: Ints
    places: list[int]

    @classmethod
    def of(cls, n: Floats, curve: Ints, curves: int) -> "_Targets":
        return cls(n, curve, np.searchsorted(curve, np.arange(curves + 1)).tolist())

    def each(self) -> Iterator[tuple[int, slice]]:
        """Yield the curves that have any, and where these stand."""
        for curve, (first, last) in enumerate(pairwise(self.places)):
            if last > first:
                yield curve, slice(first, last)


class _Answers(NamedTuple):
    """Relative ln of run time, ends of the bands relative to it, what is known further out, (m,); what makes targets unsure."""

    ln_run_time: Floats
    lower: Floats
    upper: Floats
    known_further: Floats
    reasons: list[tuple[str, ...]]


_Point = tuple[float, float, float, float, tuple[str, ...], float]  # the prediction of one size, as in `Forecast`
Request = tuple[Combination, Sequence[float]]


def foretell(requested: Sequence[Request]) -> None:
    """Let curves predict their sizes all at once, so that `predict` has the answers: to the last bit as it would give them alone.

    A tick fits many applications, and arrays of a dozen numbers cost as much as those of a thousand. Raises ValueError unless
    all sizes are positive and finite.

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> one, other = (Combination(evidence(Curve(key, "s", (1.0, 2.0), (10.0, 6.0)))) for key in "ab")
    >>> foretell([(one, [4.0]), (other, [1.0, 4.0])])
    >>> sorted(one.predicted), sorted(other.predicted)
    ([4.0], [1.0, 4.0])
    """
    by_coefficients: dict[int, list[Request]] = {}
    for one, sizes in requested:
        missing = [n for n in dict.fromkeys(sizes) if n not in one.predicted]
        if missing:
            by_coefficients.setdefault(id(one.coefficients), []).append((one, missing))
    for alike in by_coefficients.values():
        _foretell(alike)


def _foretell(requested: Sequence[Request]) -> None:
    curves = [one for one, _ in requested]
    n, curve = (
        np.array([n for _, sizes in requested for n in sizes]),
        np.repeat(np.arange(len(requested)), [len(sizes) for _, sizes in requested]),
    )
    if not ((n > 0).all() and np.isfinite(n).all()):
        raise ValueError("Sizes must be positive and finite.")
    last_n = np.array([one.evidence.curve.n[-1] for one in curves])[curve]
    last = np.array([math.log(one.evidence.curve.median_s[-1]) for one in curves])[curve]
    ratio, laws = relative(n, last_n), Laws.of([one.evidence for one in curves])
    ln_t, lower, upper, known = np.zeros((4, n.size))
    why: list[tuple[str, ...]] = [(WIDE,)] * n.size
    for chosen, rule in ((n <= last_n, _inside), (n > last_n, _beyond)):
        if chosen.any():
            answers = rule(curves, laws, _Targets.of(ratio[chosen], curve[chosen], len(curves)))
            ln_t[chosen], lower[chosen], upper[chosen], known[chosen] = answers[:4]
            for place, reasons in zip(np.flatnonzero(chosen).tolist(), answers.reasons, strict=True):
                why[place] = reasons
    ends_s = (_seconds(last + ln_t + end).tolist() for end in (0.0, lower, upper))
    found = zip(*ends_s, np.log2(ratio).tolist(), why, known.tolist(), strict=True)
    for one, sizes in requested:
        observed = dict(zip(one.evidence.curve.n, one.evidence.curve.median_s, strict=True))
        for size, (time_s, *rest) in zip(sizes, found, strict=False):
            one.predicted[size] = (
                observed.get(size, time_s),
                *rest,
            )  # observed sizes as they were observed, to the bit


def _beyond(curves: Sequence[Combination], laws: Laws, at: _Targets) -> _Answers:
    """Return the forecasts beyond the largest size of each curve."""
    coefficients = curves[0].coefficients
    n = np.maximum(at.n, 1.0 + DISTINCT)
    distance, ln_ahead = np.log2(n), np.log2(n) * LN2
    shares, here = (
        np.array(of)[at.curve] for of in zip(*((one.shares, one.evidence.here) for one in curves), strict=True)
    )
    elasticity = anchored(laws.ln_run_times(n, at.curve), here, laws.y[at.curve, None], ln_ahead[:, None])
    alone = (
        _tempered(curves, at._replace(n=n), (shares * elasticity).sum(axis=1) * ln_ahead, distance)
        + PESSIMISM * ln_ahead
    )
    known, share = _known_further(curves, at._replace(n=n), distance)
    ln_t = blended(alone, known, share)
    apart = mixed_spread(spread(distance, shares, elasticity), alone, known, share)
    given = features(_circumstances(curves, at.curve, distance, apart, share))
    found = _ends(curves, at, distance, share)
    scale = scales_of(coefficients.scale, given, distance)
    # until the centre has scores as far out, bands reach as high as if nothing were gained beyond the largest size
    at_once = (1.0 - share) * (1.0 - found.learned) * -ln_t
    lower, upper = found.lower * scale, np.maximum(found.upper * scale, at_once)
    return _Answers(ln_t, lower, upper, share, reasons_of(coefficients.scale, given, distance))


def _tempered(curves: Sequence[Combination], at: _Targets, ln_t: Floats, distance: Floats) -> Floats:
    """Return forecasts with the share that short lone curves leave to the average of Downey's curves."""
    for place, rows in at.each():
        one = curves[place]
        share = shares(one.evidence.data, float(one.related_losses.doubt[0]), distance[rows])
        if share.any():
            ln_t[rows] += share * (ln_run_times(one.evidence.data, at.n[rows]) - ln_t[rows])
    return ln_t


def _known_further(curves: Sequence[Combination], at: _Targets, distance: Floats) -> tuple[Shapes, Floats]:
    """Return what related curves say, and their share in the forecasts, (m,)."""
    found = np.zeros((4, at.n.size))
    for place, rows in at.each():
        one = curves[place]
        if not one.alone:
            known = shapes(one.evidence.data, one.evidence.curve, one.related, at.n[rows])
            found[:3, rows] = known
            found[3, rows] = trusted(known, one.learned.shape_losses, distance[rows])
    return Shapes(*found[:3]), found[3]


def _ends(curves: Sequence[Combination], at: _Targets, distance: Floats, share: Floats) -> Ends:
    """Return the scores at the ends of the bands, (m,), of forecasts that related curves carry by a share."""
    atoms = curves[0].coefficients.atoms
    near, shipped = beyond(distance, atoms[:3])
    requested = [_scores(curves[place], near[rows], shipped[rows]) for place, rows in at.each()]
    alone = Ends(*(np.concatenate(column) for column in zip(*ends(requested), strict=True)))
    if not share.any():
        return alone
    near, shipped = beyond(distance, atoms[3:], known_further=True)
    for place, rows in at.each():
        if share[rows].any():
            carried = ends([_scores(curves[place], near[rows], shipped[rows])])[0]
            for column, of in zip(alone, carried, strict=True):
                column[rows] += share[rows] * (of - column[rows])
    return alone


def _scores(one: Combination, near: Floats, shipped: Floats) -> ScoresRequest:
    return ScoresRequest(near, shipped, one.known_scores)


def _inside(curves: Sequence[Combination], laws: Laws, at: _Targets) -> _Answers:
    """Return the predictions up to the largest size of each curve."""
    coefficients, found = curves[0].coefficients, [one.evidence for one in curves]
    x, smallest = np.log2(at.n), np.array([each.data.x[0] for each in found])
    below = BELOW_WIDTH * np.maximum(smallest[at.curve] - x, 0.0)
    scale = inside.scales(coefficients.inside_scale, inside.features_of([each.left_out for each in found], at.curve, x))
    of_curves = [place for place, _ in at.each()]
    requested = [ends_inside(coefficients.inside_atoms, curves[place].known_scores) for place in of_curves]
    low, high = np.zeros((2, len(curves)))
    low[of_curves], high[of_curves] = np.array([(each.lower[0], each.upper[0]) for each in ends(requested)]).T
    ln_t = np.maximum(laws.usl(at.n, at.curve), LN_MIN)
    for place, rows in at.each():
        one = curves[place]
        ln_t[rows] += inside.deviations(one.evidence, x[rows])
        if not one.alone:
            ln_t[rows] -= inside.common_errors(one.evidence, one.related, at.n[rows])
    why: list[tuple[str, ...]] = [(BELOW,) if far else (WIDE,) for far in below.tolist()]
    return _Answers(ln_t, low[at.curve] * scale - below, high[at.curve] * scale + below, np.zeros_like(x), why)


def _circumstances(
    curves: Sequence[Combination], curve: Ints, distance: Floats, apart: Floats, known_further: Floats
) -> Circumstances:
    found = [one.evidence for one in curves]
    shares, own, related = (
        np.array(rows)
        for rows in zip(
            *((one.shares, one.evidence.own[-1], one.related_losses.losses[0]) for one in curves), strict=True
        )
    )
    rows = [
        (shares * own).sum(axis=1),
        (shares * related).sum(axis=1),
        np.array([each.k for each in found], dtype=np.float64),
        np.array([each.data.x[-1] - each.data.x[-2] for each in found]),
        np.array([each.residual[-1] for each in found]),
    ]
    missed, missed_related, sizes, gap, residual = (row[curve] for row in rows)
    return Circumstances(distance, apart, missed, missed_related, sizes, gap, residual, known_further)


def summary(found: LawEvidence) -> RelatedCurve:
    """Return what a curve reports to its related curves.

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> len(summary(evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0)))).losses)
    1
    """
    curve = found.curve
    return RelatedCurve(
        curve.key,
        curve.system,
        tuple(map(tuple, found.losses.tolist())),
        inside.left_out_errors(found),
        tuple(np.log(curve.n).tolist()),
        tuple(np.log(curve.median_s).tolist()),
        curve.unit,
    )


def learn(curves: Sequence[ForecastRows], coefficients: Coefficients = SHIPPED) -> LearnedRecord:
    """Return what an application learns from the forecasts of all its curves, in whatever order they are given.

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> from processors.models.combination.replay import rows
    >>> curve = Curve("a", "s", (1.0, 2.0, 4.0, 8.0), (8.0, 4.0, 2.0, 1.0))
    >>> learn([rows(GATE, evidence(curve), NO_RELATED)]).scores[0].system
    's'
    """
    replayed = replay(curves)
    shape_losses = total_losses(curves, replayed)
    by_system: dict[str, list[ForecastScores]] = {}
    for made, shares in zip(curves, replayed.shares, strict=True):
        seen = by_system.setdefault(made.system, [])
        seen += [
            *scores(coefficients.scale, made, shares, shape_losses),
            inside_scores(coefficients.inside_scale, made),
        ]
    given = (SystemScores(system, tally(by_system[system])) for system in sorted(by_system))
    return LearnedRecord(replayed.offsets, tuple(given), shape_losses)


def _seconds(ln_t: Floats) -> Floats:
    return np.exp(np.clip(ln_t, -690.0, 700.0))
