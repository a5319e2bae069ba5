"""Advice on the size and the time limit of a job, read from a run-time curve; pages and reports turn it into sentences."""

import math
from collections.abc import Sequence
from typing import Final

from processors.contracts.outputs import RELIABLE, CurvePoint, PredictedAtStart, Prediction
from processors.contracts.service import RecentRun
from processors.power.by_size import INSIDE
from processors.similar_runs import MODEL_NAME as SIMILAR_RUNS

NEAR: Final = 0.1  # a run time with a smaller relative error counts as predicted, even outside its band
ALIKE: Final = 0.02  # relative difference below which two run times are equal
MARGIN: Final = 1.1  # recommended time limit as a multiple of the upper end of the band
# (limit, step) in min: a time limit up to `limit` is rounded up to a multiple of `step`
_LIMIT_STEPS_MIN: Final = ((10, 1), (120, 5), (480, 15), (1440, 30))


def point_at(entry: Prediction | None, n: float | None) -> CurvePoint | None:
    """Return the point of the curve `entry` at size `n`; None if there is no curve or the curve lacks this size."""
    return None if entry is None else next((point for point in entry.curve if point.n == n), None)


def reliable_point(entry: Prediction | None, n: float | None) -> CurvePoint | None:
    """Return the point of the curve `entry` at size `n`; None if the curve lacks this size or is not reliable at this size."""
    point = point_at(entry, n)
    return point if point is not None and point.reliable else None


def current_prediction(entry: Prediction | None, run: RecentRun) -> PredictedAtStart | None:
    """Return the prediction for a repetition of `run`: the current curve's, or else the prediction made at the start of `run`."""
    point = point_at(entry, run.n)
    if point is None:
        return run.predicted
    return PredictedAtStart(
        run_time_s=point.run_time_s,
        low_s=point.low_s,
        high_s=point.high_s,
        coverage=point.coverage,
        verdict=point.reliability.verdict,
        source="curve",
    )


def is_dependable(predicted: PredictedAtStart) -> bool:
    """Return whether a prediction is reliable and rests on a model of the application, not on similar runs."""
    return predicted.verdict == RELIABLE and predicted.source != SIMILAR_RUNS


def is_near(run_time_s: float, predicted: PredictedAtStart) -> bool:
    """Return whether a run time is within 10 % of its prediction."""
    return predicted.run_time_s > 0 and abs(run_time_s / predicted.run_time_s - 1) < NEAR


def enough_limit(high_s: float) -> float:
    """Return the time limit to request, in seconds: the upper end of the band plus a tenth, rounded up."""
    return next_limit(high_s * MARGIN)


def next_limit(seconds: float) -> float:
    """Round a time limit in seconds up to a round value: to full minutes up to 1 h, to larger steps above."""
    minutes = seconds / 60
    step = next((step for most, step in _LIMIT_STEPS_MIN if minutes <= most), 60)
    return max(-(-minutes // step) * step, 1.0) * 60.0


def run_time_at(points: Sequence[CurvePoint], n: float) -> float | None:
    """Return the run time in seconds at a size, interpolated on logarithmic axes between the sizes that were run.

    Return None if `n` lies outside the range of these sizes.
    """
    run = sorted((point.n, point.run_time_s) for point in points if point.source in INSIDE and point.run_time_s > 0)
    for (low, low_s), (high, high_s) in zip(run, run[1:] or run, strict=False):
        if low == n:
            return low_s
        if low <= n <= high:
            part = 0.0 if high == low else math.log(n / low) / math.log(high / low)
            return math.exp(math.log(low_s) * (1 - part) + math.log(high_s) * part)
    return None


def gains(entry: Prediction, fewer: float, n: float) -> bool:
    """Return whether the curve is clearly faster at size `n` than at the smaller size `fewer`; False if it lacks either size.

    The largest useful size depends on efficiency, too: a size that wastes half of each node may still be the fastest.
    """
    curve = {point.n: point.run_time_s for point in entry.curve}
    fewer_s, run_time_s = (curve.get(size) or run_time_at(entry.curve, size) for size in (fewer, n))
    return fewer_s is not None and run_time_s is not None and run_time_s * (1.0 + ALIKE) < fewer_s
