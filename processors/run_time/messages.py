"""Predictions as messages: the curve of an application, ready to publish."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, Literal, TypeVar

import msgspec

from processors.contracts.names import ApplicationKey, rfc3339
from processors.contracts.outputs import (
    AnswerPoint,
    CurvePoint,
    Member,
    Model,
    Prediction,
    Range,
    Reliability,
    Source,
    UsefulSizes,
)
from processors.contracts.settings import RunTimeSettings
from processors.facts import PublishedCurve, PublishedPoint
from processors.inputs import NAME
from processors.models import battery
from processors.models.battery import LARGER_ONLY, REFERENCE, SIZES_MIN, explained
from processors.models.combination.evidence import ENSEMBLE
from processors.models.numerics.statistics import BAND_DIGITS_MIN, DIGITS_INSIDE, rounded, rounded_band, to_digits
from processors.run_time.members import PUBLISHED, Fits, Members
from processors.run_time.model import RunTime
from processors.run_time.prediction import RunTimePrediction

Point = TypeVar("Point", bound=CurvePoint)

DOWNEY: Final = "downey"
REMEMBERED: Final = 1024  # cached curves; the laws of each take 5 kB
POINTS_REMEMBERED: Final = 8192
NO_MEMBERS: Final[tuple[tuple[float, ...], ...]] = ((),) * (len(ENSEMBLE) + len(REFERENCE))


def model_of(curve: PublishedCurve, members: Members | None, fits: Fits | None = None) -> Model:
    """Return the ensemble members of a curve with their weights, and the reference laws beside them.

    The parameters come from `fits`, by default the last published ones.
    """
    history = members or Members()
    fitted = fits or history.fits
    parameters = fitted.parameters if fitted else NO_MEMBERS
    laws = _laws(tuple(curve.weights.items()), tuple(curve.downey.items()), parameters)
    errors = history.errors
    members_with_errors = [
        Member(law.name, law.weight, law.parameters, law.role, law.sizes_min, law.answers, errors.get(law.name, ()))
        for law in laws
    ]
    return Model(curve.model, tuple(members_with_errors), errors[PUBLISHED], curve.study)


Numbers = tuple[tuple[str, float], ...]


@lru_cache(maxsize=REMEMBERED)
def _laws(member_weights: Numbers, downey: Numbers, parameters: tuple[tuple[float, ...], ...]) -> tuple[Member, ...]:
    """Return the laws of a curve with their weights: first the ensemble members, then the reference laws.

    Errors are not filled in, because they change with every run; the rest is cached, as it stays the same until the next fit.
    """
    parameters_by_law = dict(zip((*ENSEMBLE, *REFERENCE), parameters, strict=True))
    weights = _rounded(dict(member_weights))
    parts = [name for name in weights if name not in (*REFERENCE, NAME)]
    other_references = [name for name in REFERENCE if name != DOWNEY]
    laws = tuple(
        Member(
            name=name,
            weight=weights.get(name, 0.0),
            parameters=_rounded(dict(downey)) if name == DOWNEY else explained(name, parameters_by_law[name]),
            role="part" if name in weights else "reference",
            sizes_min=SIZES_MIN[name],
            answers=_answers(name, parameters_by_law[name]),
        )
        for name in (*parts, DOWNEY, *other_references)
    )
    return laws + ((Member(NAME, weights[NAME], {}),) if NAME in weights else ())


def _rounded(parameters: dict[str, float]) -> dict[str, float]:
    return dict(zip(parameters, rounded(*parameters.values()), strict=True))


def _answers(name: str, parameters: tuple[float, ...]) -> Literal["all sizes", "larger sizes", "nothing"]:
    if not parameters:
        return "nothing"
    return "larger sizes" if name in LARGER_ONLY else "all sizes"


NOTHING: Final[tuple[tuple[float, ...], ...]] = ((),) * len(ENSEMBLE)
GROWTH: Final = 2  # laws beside the combination are refitted after a new size, or after the number of runs has doubled


def fits(
    predicted: RunTimePrediction,
    runs: int,
    before: Fits | None = None,
    least_s: Mapping[float, float] | None = None,
) -> Fits:
    """Return the fitted laws of an application. `before` are the laws of the last publication, reused in part without new evidence.

    `runs` is the number of runs. `least_s` is the shortest run time in s of each size.
    """
    evidence = predicted.combination.evidence if predicted.combination is not None else None
    study = predicted.study
    n = evidence.curve.n if evidence is not None else tuple(study.n.tolist())
    run_time_s = evidence.curve.median_s if evidence is not None else tuple(study.run_time_s.tolist())
    members = battery.combined(evidence) if evidence is not None else NOTHING
    if before is not None and _no_news(before, n, runs):
        reference, knots, fitted_to = before.parameters[len(ENSEMBLE) :], before.knots, before.runs
    else:
        knots, fitted_to = rounded(*battery.knots(n)), runs
        least = tuple((least_s or {}).get(size, time_s) for size, time_s in zip(n, run_time_s, strict=True))
        reference = battery.reference(n, run_time_s, knots, study, least)
    return Fits(n[0], n[-1], run_time_s[-1], len(n), fitted_to, (*members, *reference), knots)


def _no_news(before: Fits, n: tuple[float, ...], runs: int) -> bool:
    return (before.sizes, before.n_min, before.n_max) == (len(n), n[0], n[-1]) and runs < GROWTH * before.runs


class Context(msgspec.Struct, frozen=True):
    """Fields common to all messages: the producer and the time."""

    agent_version: str
    now_ms: int

    @property
    def time(self) -> str:
        return rfc3339(self.now_ms)


def reliable_range(points: Iterable[CurvePoint], sizes: Sequence[float]) -> Range | None:
    """Return the longest range of sizes without an unreliable point; None if no observed size is reliable.

    The longest range is the one with most of the observed `sizes` (ascending). Only observed sizes and larger sizes are
    considered: a doubt about a size between two observed sizes says nothing about these.
    """
    counted = [point for point in points if point.n in sizes or point.n > sizes[-1]]
    stretches = [
        [point.n for point in stretch]
        for reliable, stretch in groupby(counted, key=lambda point: point.reliable)
        if reliable
    ]
    longest = max(stretches, key=lambda stretch: sum(n in sizes for n in stretch), default=[])
    return Range(longest[0], longest[-1]) if longest and longest[0] in sizes else None


def prediction(
    key: ApplicationKey,
    model: RunTime,
    curve: PublishedCurve,
    points: Sequence[AnswerPoint],
    settings: RunTimeSettings,
    *,
    context: Context,
    preferred_n: tuple[float, ...] | None,
    source: Model,
) -> Prediction:
    return Prediction(
        schema="scalewatch.prediction/1",
        id=f"{key.id}@{context.now_ms}",
        time=context.time,
        as_of=context.time,
        valid_until=rfc3339(context.now_ms + round(settings.prediction_valid_s * 1000)),
        agent_version=context.agent_version,
        application=key.application,
        system=key.system,
        input=key.input,
        unit=key.unit,
        observations=curve.observations,
        sizes=model.sizes(),
        model=source,
        curve=_curve_points(points, curve),
        useful_n=curve.useful or UsefulSizes(),
        reliable_n=reliable_range(points, model.sizes()),
        preferred_n=preferred_n,
        reliability=curve.whole,
        quality=model.quality,
    )


_POWER_BANDS: Final = (("power_w", "power_low_w", "power_high_w"), ("energy_j", "energy_low_j", "energy_high_j"))
_RATIO_DIGITS: Final = 4


def in_known_digits(point: Point) -> Point:
    """Return a point for a message: numbers with the significant digits that the band supports, ratios with four.

    Calculations use the unrounded point; only messages are rounded, including messages about running jobs.
    """
    return msgspec.structs.replace(point, **_known_digits(point))


def _known_digits(point: CurvePoint) -> dict[str, Any]:
    ratios = point.speedup, point.efficiency, point.extrapolation
    rounded_numbers = _numbers(point.run_time_s, point.low_s, point.high_s, ratios)
    numbers: dict[str, Any] = dict(zip(_NUMBERS, rounded_numbers, strict=True))
    if point.power_w is None and point.energy_j is None:  # most points have no measured power or energy
        return numbers
    for names in _POWER_BANDS:
        value, low, high = band = [getattr(point, name) for name in names]
        whole = value is not None and low is not None and high is not None
        numbers |= dict(zip(names, rounded_band(value, low, high) if whole else band, strict=True))
    return numbers


_NUMBERS: Final = ("run_time_s", "low_s", "high_s", "speedup", "efficiency", "extrapolation")


@lru_cache(maxsize=POINTS_REMEMBERED)  # the same sizes of a curve are requested again and again
def _numbers(
    run_time_s: float, low_s: float, high_s: float, ratios: tuple[float | None, ...]
) -> tuple[float | None, ...]:
    ratios_in_digits = [None if ratio is None else to_digits(ratio, _RATIO_DIGITS) for ratio in ratios]
    extrapolation = ratios[-1]
    least = DIGITS_INSIDE if extrapolation is not None and extrapolation <= 1.0 else BAND_DIGITS_MIN
    return (*rounded_band(run_time_s, low_s, high_s, least), *ratios_in_digits)


def _curve_points(points: Iterable[AnswerPoint], curve: PublishedCurve) -> tuple[CurvePoint, ...]:
    """Return the points of a published curve; a size that was run has the source `observed`, whichever model predicts it."""
    run = {each.n for each in curve.by_size or curve.points if each.source == "observed"}
    return tuple([_of_curve(point, "observed" if point.n in run else point.source) for point in points])


def _of_curve(point: AnswerPoint, source: Source) -> CurvePoint:
    return CurvePoint(
        n=point.n,
        coverage=point.coverage,
        coverage_measured=point.coverage_measured,
        coverage_runs=point.coverage_runs,
        source=source,
        reliability=point.reliability,
        **_known_digits(point),
    )


def published_points(points: Iterable[AnswerPoint]) -> tuple[PublishedPoint, ...]:
    """Return the points for scoring later runs against a curve that did not come from the fit."""
    return tuple(PublishedPoint(each.n, each.run_time_s, each.low_s, each.high_s, each.source) for each in points)


def of_similar_runs(curve: PublishedCurve, points: Iterable[AnswerPoint], whole: Reliability) -> PublishedCurve:
    """Return a curve whose `points` come from similar runs, for an application whose run times do not depend on the size.

    For such an application no size is better than another, and runs of one size do not predict another size. The fitted points
    stay available in `by_size`.
    """
    return msgspec.structs.replace(
        curve,
        points=published_points(points),
        by_size=curve.points,
        own=(),
        excluded=(),
        whole=whole,
        useful=UsefulSizes(),
    )


def with_similar_runs(curve: PublishedCurve, points: Sequence[AnswerPoint]) -> PublishedCurve:
    """Return a curve in which those `points` whose source is `similar_runs` replace the fitted points.

    `points` has one point for each point of the curve, in the same order. The fitted points stay available in `by_size`.
    """
    verdicts, replaced = list(curve.verdicts or (curve.whole,)), []
    for fitted_point, point in zip(curve.points, points, strict=True):
        if point.source == "similar_runs":
            if point.reliability not in verdicts:
                verdicts.append(point.reliability)
            index = verdicts.index(point.reliability)
            replaced.append(PublishedPoint(point.n, point.run_time_s, point.low_s, point.high_s, point.source, index))
        else:
            replaced.append(fitted_point)
    return msgspec.structs.replace(curve, points=tuple(replaced), by_size=curve.points, verdicts=tuple(verdicts))


def as_reference(source: Model, answering: Model) -> Model:
    """Return a model whose members are those of `answering`, which makes the prediction; the fitted members follow as references."""
    reference = (msgspec.structs.replace(member, weight=0.0, role="reference") for member in source.members)
    return Model(answering.name, (*answering.members, *reference), source.errors, source.study)
