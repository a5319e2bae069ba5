"""Scores of the product's answers about measured curves: errors, bands, and how far its verdicts can be trusted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from processors.contracts.outputs import AnswerPoint
from tests.quality.curves import median_s
from tests.quality.likelihood import weighted_quantiles
from tests.quality.worlds import Request

HORIZONS = ("inside", "<=2x", "2-4x", ">4x")
ERROR_MAX = 10.0  # also of what was not answered
RUNS_MAX = 50
OFF_SOME, OFF_FAR = 0.1, 0.3
ABSURD = log(100.0)  # ln of high over low


@dataclass(frozen=True)
class Band:
    """Shares of the runs inside a band, above and below it; ln of high over low."""

    inside: float
    above: float
    below: float
    width: float


@dataclass(frozen=True)
class Answer:
    """One request: relative error of the median run, verdict, band; no band where nothing is known."""

    horizon: str
    data_set: str
    group: str
    error: float = ERROR_MAX
    verdict: str = "none"
    band: Band | None = None


@dataclass(frozen=True)
class Accuracy:
    """Errors and coverages in %, the median width of bands in ln; balanced: all groups weigh alike."""

    points: int
    median: float
    balanced: float
    mean: float
    coverage: float
    coverage_balanced: float
    width: float


@dataclass(frozen=True)
class Trust:
    """How many points are called reliable and which of these are off, runs above and below their band in %, absurd bands."""

    points: int
    unanswered: int
    reliable_share: float
    reliable_median: float
    rest_median: float
    off_some: float
    off_far: float
    above: float
    below: float
    absurd: int


def error(point: AnswerPoint | None, run_time_s: float) -> float:
    """Return the relative error of an answer."""
    return ERROR_MAX if point is None else min(abs(point.run_time_s / run_time_s - 1.0), ERROR_MAX)


def scored(request: Request, point: AnswerPoint | None) -> Answer:
    """Return how one answer compares with the runs of its size."""
    curve = request.curve
    if point is None:
        return Answer(request.horizon, curve.data_set, curve.group)
    runs = np.array(sorted(curve.runs[request.n])[:RUNS_MAX])
    low, high = point.low_s, point.high_s
    band = Band(
        inside=float(np.mean((low <= runs) & (runs <= high))),
        above=float(np.mean(runs > high)),
        below=float(np.mean(runs < low)),
        width=log(high / low),
    )
    missed = error(point, median_s(curve, request.n))
    return Answer(request.horizon, curve.data_set, curve.group, missed, point.reliability.verdict, band)


def accuracy(answers: Sequence[Answer]) -> Accuracy:
    """Return the errors and the bands of some answers."""
    sizes = Counter(answer.group for answer in answers)
    error = np.array([answer.error for answer in answers])
    weight = np.array([1.0 / sizes[answer.group] for answer in answers])
    banded = [(answer.band, 1.0 / sizes[answer.group]) for answer in answers if answer.band is not None]
    inside = np.array([band.inside for band, _ in banded])
    return Accuracy(
        points=len(answers),
        median=_percent(np.median(error)),
        balanced=_percent(float(weighted_quantiles(error, weight, 0.5))),
        mean=_percent(error.mean()),
        coverage=_mean(inside),
        coverage_balanced=_percent(np.average(inside, weights=[each for _, each in banded])) if banded else np.nan,
        width=float(np.median([band.width for band, _ in banded])) if banded else np.nan,
    )


def trust(answers: Sequence[Answer]) -> Trust:
    """Return how far the verdicts and bands of some answers can be trusted."""
    reliable = np.array([answer.error for answer in answers if answer.verdict == "reliable"])
    rest = np.array([answer.error for answer in answers if answer.verdict != "reliable"])
    bands = [answer.band for answer in answers if answer.band is not None]
    return Trust(
        points=len(answers),
        unanswered=len(answers) - len(bands),
        reliable_share=100.0 * reliable.size / len(answers),
        reliable_median=_percent(np.median(reliable)) if reliable.size else np.nan,
        rest_median=_percent(np.median(rest)) if rest.size else np.nan,
        off_some=_mean(reliable > OFF_SOME),
        off_far=_mean(reliable > OFF_FAR),
        above=_mean([band.above for band in bands]),
        below=_mean([band.below for band in bands]),
        absurd=sum(band.width > ABSURD for band in bands),
    )


def by_horizon(answers: Iterable[Answer]) -> dict[str, list[Answer]]:
    """Return the answers by horizon, in the order of distance; horizons without any are left out."""
    found: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        found[answer.horizon].append(answer)
    return {name: found[name] for name in HORIZONS if name in found}


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return _percent(np.mean(values)) if len(values) else float("nan")


def _percent(value: float | np.floating) -> float:
    return 100.0 * float(value)
