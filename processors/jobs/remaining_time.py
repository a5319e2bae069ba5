"""The prediction of a running job as its state keeps it, and what a settled run carries of it."""

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from processors.contracts.events import JobStarted
from processors.contracts.names import LATEST_MS, rfc3339
from processors.contracts.outputs import Model, PredictedAtStart, Reliability, RunTimeQuantile
from processors.facts import QUANTILES, REMEMBERED, Band, PublishedCurve, Remaining
from processors.features.times import NAME as FEATURES
from processors.inputs import NAME as INPUTS
from processors.models.numerics.statistics import all_to_digits, band_digits, rounded_band, six_digits
from processors.run_time.quality import COVERAGE
from processors.similar_runs import MODEL_NAME as SIMILAR_RUNS

CURVE: Final = "curve"
OTHER_INPUTS: Final = "other_inputs"
UNDER_LOAD: Final = "under_load"


class FromInputs(msgspec.Struct, frozen=True, array_like=True):
    """What other inputs of the application gave for a whole run, how far beyond their sizes, and how far to trust it."""

    band: Band
    extrapolation: float
    reliability: Reliability


class Forecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was last published of a running job: what it was taken for, and its run time, if any.

    `from_inputs` is where it came from while the application had no curve with this input, `source` where the band is from:
    one of the sources of a job prediction. `fails` is the chance, at its start, that it does not complete. `session` is True
    for an interactive session.
    """

    application_id: str | None
    n: float | None
    band: Band | None = None
    from_inputs: FromInputs | None = None
    source: str | None = None
    fails: float | None = None
    session: bool = False


class StartPrediction(msgspec.Struct, frozen=True):
    """What was predicted of a run, and when: only what was published before it ended is a prediction."""

    time_ms: int
    predicted: PredictedAtStart


def predicted_at_start(band: Band, source: str, reliability: Reliability) -> PredictedAtStart:
    """Return the prediction of a run as it is kept until the run settles."""
    return _retained(band, reliability.verdict, source)


def source_of(model: Model | None) -> str:
    """Return where a prediction of a running job came from, by its model: one of the sources of `PredictedAtStart`."""
    name = model.name if model is not None else CURVE
    return OTHER_INPUTS if name == INPUTS else name if name in (SIMILAR_RUNS, FEATURES) else CURVE


def predicted_by_curve(curve: PublishedCurve | None, n: float | None, end_ms: int) -> PredictedAtStart | None:
    """Return what a curve that was published before a run ended gave for its size; None for a later one, or beyond it."""
    point = curve.at(n) if curve is not None and n is not None and curve.time_ms <= end_ms else None
    if curve is None or point is None:
        return None
    return _retained(point.band, curve.judged(point).verdict, SIMILAR_RUNS if point.source == SIMILAR_RUNS else CURVE)


@lru_cache(maxsize=REMEMBERED)
def _retained(band: Band, verdict: str, source: str) -> PredictedAtStart:
    run_time_s, low_s, high_s = rounded_band(band.run_time_s, band.low_s, band.high_s)
    return PredictedAtStart(
        run_time_s=run_time_s, low_s=low_s, high_s=high_s, coverage=COVERAGE, verdict=verdict, source=source
    )


class ReportedEnd(NamedTuple):
    """When a running job ends, as it is reported: in the digits that the band supports, and no end before now.

    `ends` are those of `quantiles`; the low one, the middle and the high one are those of the band.
    """

    run_time_s: float
    low_s: float
    high_s: float
    ends: tuple[str | None, ...]
    quantiles: tuple[RunTimeQuantile, ...]
    exceeds_limit: float | None

    @property
    def before_limit(self) -> float | None:
        """The probability to end before the limit."""
        return None if self.exceeds_limit is None else six_digits(1.0 - self.exceeds_limit)


def reported_end(started: JobStarted, end: Remaining, now_ms: int) -> ReportedEnd:
    """Return when a job ends as it is reported. What would run for longer than its limit is stopped there."""
    times_s = _in_known_digits(end)
    limit_s = started.evidence.time_limit_s
    stopped_ms = None if limit_s is None else started.start_ms + limit_s * 1000
    step_ms = 1000 if times_s[-1] - times_s[0] >= 1.0 else 1  # nobody knows the thousandth of a second
    ends = tuple(_end(started.start_ms, time_s, now_ms, stopped_ms, step_ms) for time_s in times_s)
    quantiles = tuple(map(RunTimeQuantile, QUANTILES, times_s, ends))
    return ReportedEnd(times_s[2], times_s[0], times_s[-1], ends, quantiles, end.exceeds_limit)


@lru_cache(maxsize=REMEMBERED)  # jobs of one application and size that have just started are told the same
def _in_known_digits(end: Remaining) -> tuple[float, ...]:
    """Return the run times at QUANTILES in as many digits as the band supports."""
    digits = band_digits(end.band.run_time_s, end.band.low_s, end.band.high_s)
    return all_to_digits(end.quantiles_s, digits)


def _end(start_ms: int, run_time_s: float, now_ms: int, stopped_ms: float | None, step_ms: int) -> str | None:
    """Return when a job ends; None where no calendar goes so far."""
    end_ms = start_ms + run_time_s * 1000
    if stopped_ms is not None and stopped_ms >= now_ms:  # else its limit does not hold it
        end_ms = min(end_ms, stopped_ms)
    return rfc3339(max(int(end_ms // step_ms) * step_ms, now_ms)) if end_ms <= LATEST_MS else None
