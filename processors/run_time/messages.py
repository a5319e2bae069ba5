"""Predictions as messages: the curve of an application, ready to publish."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from processors.contracts.names import ApplicationKey, horizon_of, rfc3339
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
from processors.inputs import NAME, OtherInputs
from processors.models import battery
from processors.models.adept.study import Study
from processors.models.adept.verdict import Verdict
from processors.models.battery import BESIDE, LARGER_ONLY, SIZES_MIN, combined, explained
from processors.models.combination.evidence import LAWS
from processors.models.statistics import rounded, six_digits
from processors.run_time.members import PUBLISHED, Fits, Members
from processors.run_time.model import RunTime
from processors.run_time.prediction import RELIABLE, Outlook, OutlookPoints
from processors.run_time.quality import COVERAGE, coverages

Floats = NDArray[np.float64]


# Where a prediction came from: its laws with weights, the classic laws beside it, and how right each has been.


DOWNEY: Final = "downey"
NO_LAWS: Final[tuple[tuple[float, ...], ...]] = ((),) * (len(LAWS) + len(BESIDE))


def model_of(outlook: Outlook, members: Members | None, fits: Fits | None = None) -> Model:
    """Return where the prediction came from; laws are told as in `fits`, by default as they were published last."""
    history = members or Members.build()
    known = fits or history.fits
    own = dict(zip((*LAWS, *BESIDE), known.parameters if known else NO_LAWS, strict=True))
    if fits is None and outlook.combination is not None:  # runs have come since, and the weights are those of now
        own |= dict(zip(LAWS, combined(outlook.combination.evidence), strict=True))
    weights = outlook.weights
    parts = [name for name in weights if name not in (DOWNEY, NAME)]
    others = [name for name in BESIDE if name != DOWNEY]
    errors, downey = history.errors(), outlook.study.parameters()
    told = tuple(
        Member(
            name=name,
            weight=rounded(weights.get(name, 0.0))[0],
            parameters=_rounded(downey) if name == DOWNEY else explained(name, own[name]),
            role="part" if name in weights else "beside",
            sizes_min=SIZES_MIN[name],
            answers=_answers(name, own[name]),
            errors=errors[name],
        )
        for name in (*parts, DOWNEY, *others)
    )
    leaned = (Member(NAME, rounded(weights[NAME])[0], {}),) if NAME in weights else ()
    return Model(outlook.model_name, told + leaned, errors[PUBLISHED])


def _rounded(parameters: dict[str, float]) -> dict[str, float]:
    return dict(zip(parameters, rounded(*parameters.values()), strict=True))


def _answers(name: str, own: tuple[float, ...]) -> Literal["all sizes", "larger sizes", "nothing"]:
    if not own:
        return "nothing"
    return "larger sizes" if name in LARGER_ONLY else "all sizes"


# The laws of a publication: those of the combination as it has them, the classic ones fitted when there is news for them.


NOTHING: Final[tuple[tuple[float, ...], ...]] = ((),) * len(LAWS)
GROWTH: Final = 2  # laws beside the combination are fitted anew with a new size, or twice the runs


def fits(outlook: Outlook, runs: int, before: Fits | None = None, least_s: Mapping[float, float] | None = None) -> Fits:
    """Return the laws of an application as it looks now; `before` are those of the last publication.

    `least_s` has the least run time at a size, where its repeats differ.
    """
    found = outlook.combination.evidence if outlook.combination is not None else None
    study = outlook.study
    n = found.curve.n if found is not None else tuple(study.n.tolist())
    run_time_s = found.curve.median_s if found is not None else tuple(study.run_time_s.tolist())
    laws = battery.combined(found) if found is not None else NOTHING
    if before is not None and _no_news(before, n, runs):
        beside, at, fitted_to = before.parameters[len(LAWS) :], before.knots, before.runs
    else:
        at, fitted_to = rounded(*battery.knots(n)), runs
        least = tuple((least_s or {}).get(size, time_s) for size, time_s in zip(n, run_time_s, strict=True))
        beside = battery.beside(n, run_time_s, at, study, least)
    weights = tuple(round(weight, 4) for weight in outlook.weights.values()) if found is not None else ()
    return Fits(n[0], n[-1], run_time_s[-1], len(n), fitted_to, (*laws, *beside), at, weights)


def _no_news(before: Fits, n: tuple[float, ...], runs: int) -> bool:
    return (before.sizes, before.n_min, before.n_max) == (len(n), n[0], n[-1]) and runs < GROWTH * before.runs


CURVE_POINTS_MAX = 32
LN_BAND_MAX = math.log(1000.0)  # a band ends at a thousandth and at a thousand times the prediction


class Context(msgspec.Struct, frozen=True):
    """What every message says of its maker and its moment."""

    agent_version: str
    now_ms: int

    @property
    def time(self) -> str:
        """The moment as RFC 3339."""
        return rfc3339(self.now_ms)


def curve_sizes(sizes: Sequence[float], factor_max: float) -> list[float]:
    """Return the sizes of a curve: those observed and powers of two up to `factor_max` times the largest."""
    low, high = sizes[0], sizes[-1] * factor_max
    powers = [2.0**i for i in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
    wanted = sorted({*map(float, sizes), *powers})
    if len(wanted) <= CURVE_POINTS_MAX:
        return wanted
    picked = np.linspace(0, len(wanted) - 1, CURVE_POINTS_MAX).round().astype(int)
    return [wanted[i] for i in picked]


def judged_points(
    outlook: Outlook, sizes: Sequence[float], model: RunTime
) -> tuple[tuple[CurvePoint, Reliability], ...]:
    """Return the prediction at each size with its own verdict."""
    return _judged(outlook, outlook.predict(sizes), sizes, model)


def _judged(
    outlook: Outlook, predicted: OutlookPoints, sizes: Sequence[float], model: RunTime
) -> tuple[tuple[CurvePoint, Reliability], ...]:
    times = predicted.run_time_s
    low_s, high_s = (_widened(times, end, model.widening) for end in (predicted.low_s, predicted.high_s))
    confirmed = model.observed().confirmed if outlook.combination is None else {}
    shift = np.array([confirmed.get(n, time_s) / time_s for n, time_s in zip(sizes, times.tolist(), strict=True)])
    ratios = (predicted.speedup / shift, predicted.efficiency / shift, predicted.extrapolation)
    columns = zip(*(column.tolist() for column in (times * shift, low_s * shift, high_s * shift, *ratios)), strict=True)
    known, measured = model.sizes(), coverages(model.scores)
    return tuple(
        (
            CurvePoint(
                n=float(n),
                run_time_s=six_digits(row[0]),
                low_s=six_digits(row[1]),
                high_s=six_digits(row[2]),
                coverage=COVERAGE,
                coverage_measured=measured.get(horizon_of(n, known[0], known[-1])),
                speedup=six_digits(row[3]),
                efficiency=six_digits(row[4]),
                extrapolation=six_digits(row[5]),
                source=cast("Source", source),
            ),
            reliability(verdict),
        )
        for n, row, source, verdict in zip(sizes, columns, predicted.source, predicted.verdicts, strict=True)
    )


def cold_start(others: OtherInputs, sizes: Sequence[float]) -> tuple[AnswerPoint, ...]:
    """Return the prediction of an input that was never run, at each size."""
    band = others.band([*sizes, 1.0])
    said = others.reliability()
    with np.errstate(over="ignore"):
        speedup = band.run_time_s[-1] / band.run_time_s[:-1]
    return tuple(
        AnswerPoint(
            n=float(n),
            run_time_s=six_digits(band.run_time_s[i]),
            low_s=six_digits(band.low_s[i]),
            high_s=six_digits(band.high_s[i]),
            coverage=COVERAGE,
            coverage_measured=None,
            speedup=six_digits(speedup[i]),
            efficiency=six_digits(speedup[i] / n),
            extrapolation=six_digits(n / others.n_max),
            source="cold_start",
            reliability=said,
        )
        for i, n in enumerate(sizes)
    )


def _widened(run_time_s: Floats, end_s: Floats, factor: float) -> Floats:
    # to the power of a wide band's widening a number means nothing any more
    with np.errstate(over="ignore", under="ignore"):
        ln_ratio = factor * (np.log(end_s) - np.log(run_time_s))
        ends_s = run_time_s * np.exp(np.clip(ln_ratio, -LN_BAND_MAX, LN_BAND_MAX))
    return np.clip(ends_s, 1e-300, 1e300)


def reliability(verdict: Verdict) -> Reliability:
    """Return a verdict as messages carry it."""
    return Reliability(verdict.verdict, tuple(verdict.reasons), tuple(verdict.advice), verdict.next_n)


def useful(study: Study) -> UsefulSizes:
    """Return the sizes worth asking for; None for what the curve does not show."""
    sizes = study.useful
    return UsefulSizes(max=sizes.max, knee=sizes.knee, at_half_efficiency=sizes.at_half_efficiency)


def reliable_range(judged: Sequence[tuple[CurvePoint, Reliability]]) -> Range | None:
    """Return the smallest and the largest size for which the verdict is reliable; None where there is none."""
    trusted = [point.n for point, said in judged if said.verdict == RELIABLE]
    return Range(trusted[0], trusted[-1]) if trusted else None


def prediction(
    key: ApplicationKey, model: RunTime, outlook: Outlook, settings: RunTimeSettings, context: Context, *, source: Model
) -> Prediction:
    """Return the message of one application: its whole curve as known now, and where it comes from."""
    observed = model.sizes()
    sizes = curve_sizes(observed, settings.curve_factor_max)
    predicted = outlook.predict(sizes)
    judged = _judged(outlook, predicted, sizes, model)
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
        observations=model.observations,
        sizes=observed,
        model=source,
        curve=tuple(point for point, _ in judged),
        useful_n=useful(outlook.study),
        reliable_n=reliable_range(judged),
        preferred_n=outlook.study.preferred_sizes or None,
        reliability=reliability(predicted.whole),
        quality=model.quality,
    )


def published_curve(
    said: Prediction, widening: float, now_ms: int, doubted: Collection[float] | None = None
) -> PublishedCurve:
    """Return what later runs are scored against.

    `doubted` are the sizes that were run and are passed by; None where no size is told from its own runs.
    """
    run = {point.n for point in said.curve if point.source == "observed"} if doubted is not None else set()
    out_of_line = run.intersection(doubted or ())
    return PublishedCurve(
        points=tuple(PublishedPoint(point.n, point.run_time_s, point.low_s, point.high_s) for point in said.curve),
        n_min=said.sizes[0],
        n_max=said.sizes[-1],
        observations=said.observations,
        time_ms=now_ms,
        verdict=said.reliability.verdict,
        reasons=said.reliability.reasons,
        widening=widening,
        own=tuple(sorted(run - out_of_line)),
        doubted=tuple(sorted(out_of_line)),
    )
