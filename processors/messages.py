"""Predictions as messages: the curve of an application, ready to publish."""

import math
from collections.abc import Sequence
from typing import cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.contracts.moments import rfc3339
from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import (
    CurvePoint,
    Member,
    Model,
    Prediction,
    Range,
    Reliability,
    Source,
    UsefulSizes,
)  # fmt: skip
from processors.curve import PublishedCurve, PublishedPoint
from processors.models.adept import Study
from processors.quality import COVERAGE, Score, coverage
from processors.run_time import RunTime

Floats = NDArray[np.float64]
CURVE_POINTS_MAX = 32


class Context(msgspec.Struct, frozen=True):
    """What every message says of its maker and its moment."""

    agent_version: str
    now_ms: int

    @property
    def time(self) -> str:
        """The moment as RFC 3339."""
        return rfc3339(self.now_ms)


def curve_sizes(sizes: Sequence[float], factor_max: float) -> list[float]:
    """Return the sizes of a curve: those observed and powers of two up to `factor_max` times the largest.

    >>> curve_sizes([3, 8], 4)
    [3.0, 4.0, 8.0, 16.0, 32.0]
    """
    low, high = sizes[0], sizes[-1] * factor_max
    powers = [2.0**i for i in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
    wanted = sorted({*map(float, sizes), *powers})
    if len(wanted) <= CURVE_POINTS_MAX:
        return wanted
    picked = np.linspace(0, len(wanted) - 1, CURVE_POINTS_MAX).round().astype(int)
    return [wanted[i] for i in picked]


def points(study: Study, sizes: Sequence[float], scores: Sequence[Score], model: RunTime) -> tuple[CurvePoint, ...]:
    """Return the prediction at each size, with the coverage that was measured at its horizon."""
    predicted = study.predict(sizes)
    low_s, high_s = (_widened(predicted.run_time_s, end, model.widening) for end in (predicted.low_s, predicted.high_s))
    confirmed = model.confirmed()
    shift = np.array([confirmed.get(n, time_s) / time_s for n, time_s in zip(sizes, predicted.run_time_s, strict=True)])
    published = model.published
    return tuple(
        CurvePoint(
            n=float(n),
            run_time_s=_rounded(predicted.run_time_s[i] * shift[i]),
            low_s=_rounded(low_s[i] * shift[i]),
            high_s=_rounded(high_s[i] * shift[i]),
            coverage=COVERAGE,
            coverage_measured=coverage(scores, published.horizon(n)) if published else None,
            speedup=_rounded(predicted.speedup[i] / shift[i]),
            efficiency=_rounded(predicted.efficiency[i] / shift[i]),
            extrapolation=_rounded(predicted.extrapolation[i]),
            source=cast("Source", predicted.source[i]),
        )
        for i, n in enumerate(sizes)
    )


def _widened(run_time_s: Floats, end_s: Floats, factor: float) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(run_time_s * (end_s / run_time_s) ** factor, 1e-300, 1e300)


def reliability(study: Study, target: float | None = None) -> Reliability:
    """Return the verdict in words and reasons."""
    verdict = study.verdict(target)
    return Reliability(verdict.verdict, tuple(verdict.reasons), tuple(verdict.advice), verdict.next_n)


def model_of(study: Study) -> Model:
    """Return where the prediction came from: its name and the means of Downey's parameters."""
    parameters = {name: _rounded(value) for name, value in study.parameters().items()}
    return Model(study.model_name, (Member("downey", 1.0, parameters),))


def useful(study: Study) -> UsefulSizes:
    """Return the sizes worth asking for; None for what the curve does not show."""
    sizes = study.useful
    return UsefulSizes(max=sizes.max, knee=sizes.knee, at_half_efficiency=sizes.at_half_efficiency)


def reliable_range(curve: Sequence[CurvePoint], study: Study) -> Range | None:
    """Return the smallest and the largest size for which the verdict is reliable; None where there is none."""
    sizes = [point.n for point in curve]  # rising
    smallest = _first_reliable(sizes, study)
    largest = _first_reliable(sizes[::-1], study)
    return None if smallest is None or largest is None else Range(smallest, largest)


def _first_reliable(sizes: Sequence[float], study: Study) -> float | None:
    return next((n for n in sizes if study.verdict(n).verdict == "reliable"), None)


def prediction(key: ApplicationKey, model: RunTime, factor_max: float, valid_ms: int, context: Context) -> Prediction:
    """Return the message of one application: its whole curve as known now."""
    study = model.study()
    curve = points(study, curve_sizes(model.sizes(), factor_max), model.scores, model)
    return Prediction(
        schema="scalewatch.prediction/1",
        id=f"{key.id}@{context.now_ms}",
        time=context.time,
        as_of=context.time,
        valid_until=rfc3339(context.now_ms + valid_ms),
        agent_version=context.agent_version,
        application=key.application,
        system=key.system,
        input=key.input,
        unit=key.unit,
        observations=model.observations,
        sizes=model.sizes(),
        model=model_of(study),
        curve=curve,
        useful_n=useful(study),
        reliable_n=reliable_range(curve, study),
        preferred_n=study.preferred_sizes or None,
        reliability=reliability(study),
        quality=model.quality,
    )


def published_curve(said: Prediction, widening: float, now_ms: int) -> PublishedCurve:
    """Return what later runs are scored against."""
    return PublishedCurve(
        points=tuple(PublishedPoint(point.n, point.run_time_s, point.low_s, point.high_s) for point in said.curve),
        n_min=said.sizes[0],
        n_max=said.sizes[-1],
        observations=said.observations,
        time_ms=now_ms,
        verdict=said.reliability.verdict,
        reasons=said.reliability.reasons,
        widening=widening,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
