"""What was published of a running job, as its state keeps it, and what a settled run carries of it."""

from typing import Final

import msgspec

from processors.contracts.outputs import Model, PredictedAtStart, Reliability
from processors.facts import EndForecast, PublishedCurve
from processors.features import NAME as FEATURES
from processors.inputs import NAME as INPUTS
from processors.models.statistics import six_digits
from processors.run_time.quality import COVERAGE
from processors.similar_runs import MODEL_NAME as SIMILAR

CURVE: Final = "curve"
SOURCES: Final = {SIMILAR: "similar_runs", FEATURES: "features", INPUTS: "other_inputs"}  # by the name of a model


class FromInputs(msgspec.Struct, frozen=True, array_like=True):
    """The run time of a whole run from other inputs of its application: in seconds, with the band."""

    run_time_s: float
    low_s: float
    high_s: float


class Forecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was last published of a running job: what it was taken for, and its run time in seconds, if any.

    `from_inputs` is where it came from while the application had no curve with this input.
    """

    application_id: str | None
    n: float | None
    run_time_s: float | None
    low_s: float | None
    high_s: float | None
    from_inputs: FromInputs | None = None


class ToldAtStart(msgspec.Struct, frozen=True):
    """What was told of a run, and when: only what was told before it ended is a prediction."""

    time_ms: int
    told: PredictedAtStart


def told_by(end: EndForecast | None, model: Model | None, reliability: Reliability) -> PredictedAtStart | None:
    """Return the forecast of a run as it is kept until the run settles; None where nothing was known."""
    if end is None:
        return None
    source = SOURCES.get(model.name, CURVE) if model is not None else CURVE
    return _told(end.run_time_s, end.low_s, end.high_s, reliability.verdict, source)


def told_by_curve(curve: PublishedCurve | None, n: float | None, end_ms: int) -> PredictedAtStart | None:
    """Return what a curve that was published before a run ended told of its size; None for a later one, or beyond it."""
    point = curve.at(n) if curve is not None and n is not None and curve.time_ms <= end_ms else None
    if curve is None or point is None:
        return None
    return _told(point.run_time_s, point.low_s, point.high_s, curve.verdict, CURVE)


def _told(run_time_s: float, low_s: float, high_s: float, verdict: str, source: str) -> PredictedAtStart:
    run_time_s, low_s, high_s = (six_digits(value) for value in (run_time_s, low_s, high_s))
    return PredictedAtStart(
        run_time_s=run_time_s, low_s=low_s, high_s=high_s, coverage=COVERAGE, verdict=verdict, source=source
    )
