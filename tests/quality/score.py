"""Ask a combination every question of a set of curves, and score the answers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from processors.models.adept.verdict import SIZES_MIN
from processors.models.combination.combine import (
    BELOW,
    DISTANCE_MAX,
    Coefficients,
    Combination,
    Forecast,
    learn,
    summary,
)
from processors.models.combination.replay import NO_SCORES, pooled, share
from processors.run_time.verdict import WIDTH_INSIDE_MAX, allowed
from tests.kit.combination import combine, prequential
from tests.quality.curves import Measured, Question, as_curve, horizon, median_s, questions
from tests.quality.likelihood import weighted_quantiles

HORIZONS = ("inside", "<=2x", "2-4x", ">4x")
ERROR_MAX = 10.0
RUNS_MAX = 50


@dataclass(frozen=True)
class Answer:
    """One answered question: relative error, share of runs inside the band, ln of high over low, verdict."""

    horizon: str
    data_set: str
    group: str
    error: float
    covered: float
    width: float
    reliable: bool


@dataclass(frozen=True)
class Line:
    """What a table says of one horizon; errors and coverages in %."""

    points: int
    median: float
    balanced: float
    mean: float
    coverage: float
    coverage_balanced: float
    width: float
    reliable_share: float
    reliable_median: float
    rest_median: float


def inside(curves: Sequence[Measured], coefficients_of: Callable[[str], Coefficients], *, alone: bool) -> list[Answer]:
    """Answer all questions inside the range; as `beyond`."""
    requested = [question for question in questions(curves) if question.world.startswith("inside")]
    return _requested(requested, coefficients_of, alone=alone)


def beyond(curves: Sequence[Measured], coefficients_of: Callable[[str], Coefficients], *, alone: bool) -> list[Answer]:
    """Answer all questions beyond the range; each fold by its own coefficients.

    A world is a centre in which all curves live. `alone` makes each fold a centre of its own.
    """
    return _requested(questions(curves, inside=False), coefficients_of, alone=alone)


def _requested(
    requested: Sequence[Question], coefficients_of: Callable[[str], Coefficients], *, alone: bool
) -> list[Answer]:
    worlds: dict[str, list[tuple[Question, Combination]]] = defaultdict(list)
    for question in requested:
        worlds[question.world].append((question, combine(as_curve(question.curve, question.known))))
    found = []
    for world in worlds.values():
        for fold in sorted({question.curve.fold for question, _ in world}):
            centre = [pair for pair in world if not alone or pair[0].curve.fold == fold]
            reported = _learned(centre, coefficients_of(fold))
            found += [
                each for question, model in reported if question.curve.fold == fold for each in answers(question, model)
            ]
    return found


def transferred(
    curves: Sequence[Measured], world: str, coefficients: Coefficients
) -> list[tuple[Question, Combination]]:
    """Return the questions of one world with their models, all in one centre."""
    requested = [question for question in questions(curves, inside=False) if question.world == world]
    return _learned([(each, combine(as_curve(each.curve, each.known))) for each in requested], coefficients)


def _learned(
    centre: Sequence[tuple[Question, Combination]], coefficients: Coefficients
) -> list[tuple[Question, Combination]]:
    """Return the models of a centre after every application has learned, and all of them together."""
    applications: dict[str, list[tuple[Question, Combination]]] = defaultdict(list)
    for question, model in centre:
        applications[question.curve.application].append((question, model))
    reported = []
    for members in applications.values():
        related_curves = tuple(summary(model.evidence) for _, model in members)
        models = [replace(model, related_curves=related_curves, coefficients=coefficients) for _, model in members]
        learned = learn([prequential(model) for model in models], coefficients)
        reported += [
            (question, replace(model, learned=learned)) for (question, _), model in zip(members, models, strict=True)
        ]
    by_application = {question.curve.application: model.learned for question, model in reported}
    pool = pooled(share(learned.scores) for learned in by_application.values()) if by_application else NO_SCORES
    return [(question, replace(model, pool=pool)) for question, model in reported]


def answers(question: Question, model: Combination) -> Iterator[Answer]:
    """Yield the scored answers of a model to a question."""
    prediction = model.predict([float(n) for n in question.requested])
    for i, n in enumerate(question.requested):
        runs = np.array(sorted(question.curve.runs[n])[:RUNS_MAX])
        truth = median_s(question.curve, n)
        yield Answer(
            horizon=horizon(question, n),
            data_set=question.curve.data_set,
            group=question.curve.group,
            error=min(abs(float(prediction.run_time_s[i]) / truth - 1.0), ERROR_MAX),
            covered=float(np.mean((prediction.low_s[i] <= runs) & (runs <= prediction.high_s[i]))),
            width=float(np.log(prediction.high_s[i] / prediction.low_s[i])),
            reliable=_narrow(prediction, i, model.evidence.k),
        )


def _narrow(prediction: Forecast, i: int, sizes: int) -> bool:
    """Return whether a band of the combination alone is narrow enough for what the product calls reliable."""
    half_width = float(np.log(prediction.high_s[i] / prediction.low_s[i])) / 2.0
    if prediction.distance[i] <= 0.0:
        return half_width <= WIDTH_INSIDE_MAX and BELOW not in prediction.reasons[i]
    near = prediction.distance[i] <= DISTANCE_MAX and sizes >= SIZES_MIN
    return bool(near and half_width <= allowed(float(prediction.distance[i])))


def line(answers: Sequence[Answer]) -> Line:
    """Return the scores of some answers; balanced means that all groups weigh alike."""
    sizes: dict[str, int] = defaultdict(int)
    for answer in answers:
        sizes[answer.group] += 1
    error, covered = (np.array([getattr(answer, name) for answer in answers]) for name in ("error", "covered"))
    weight = np.array([1.0 / sizes[answer.group] for answer in answers])
    trusted = np.array([answer.reliable for answer in answers])
    return Line(
        points=len(answers),
        median=_percent(np.median(error)),
        balanced=_percent(weighted_quantiles(error, weight, 0.5)),
        mean=_percent(error.mean()),
        coverage=_percent(covered.mean()),
        coverage_balanced=_percent(np.average(covered, weights=weight)),
        width=float(np.median([answer.width for answer in answers])),
        reliable_share=_percent(trusted.mean()),
        reliable_median=_percent(np.median(error[trusted])) if trusted.any() else float("nan"),
        rest_median=_percent(np.median(error[~trusted])) if not trusted.all() else float("nan"),
    )


def table(answers: Iterable[Answer]) -> dict[str, Line]:
    """Return the scores by horizon."""
    by_horizon: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_horizon[answer.horizon].append(answer)
    return {name: line(by_horizon[name]) for name in HORIZONS if by_horizon[name]}


def _percent(value: float | np.floating) -> float:
    return 100.0 * float(value)
