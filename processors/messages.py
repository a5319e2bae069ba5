"""Predictions as messages: the curve of an application, ready to publish."""

import math
from collections.abc import Collection, Sequence
from typing import cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.contracts.horizons import horizon_of
from agent.contracts.moments import rfc3339
from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import (
    AnswerPoint,
    CurvePoint,
    Model,
    Prediction,
    Range,
    Reliability,
    Source,
    UsefulSizes,
)  # fmt: skip
from agent.contracts.settings import RunTimeSettings
from processors.curve import PublishedCurve, PublishedPoint
from processors.models.adept import Study, Verdict
from processors.models.digits import six_digits
from processors.other_inputs import OtherInputs
from processors.outlook import RELIABLE, Outlook, OutlookPoints
from processors.quality import COVERAGE, coverages
from processors.run_time import RunTime

Floats = NDArray[np.float64]
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


def judged_points(
    outlook: Outlook, sizes: Sequence[float], model: RunTime
) -> tuple[tuple[CurvePoint, Reliability], ...]:
    """Return the prediction at each size with its own verdict.

    >>> from processors.facts import RunFact
    >>> model = RunTime.build(RunTimeSettings())
    >>> for n in (1, 2, 4, 8):
    ...     model.learn(RunFact(f"r{n}", n=n, run_time_s=100 / n + 5, start_ms=0, end_ms=1, seen_ms=1))
    >>> outlook = Outlook(model.study(), None)
    >>> [(point.n, said.verdict) for point, said in judged_points(outlook, [4.0, 1024.0], model)]
    [(4.0, 'reliable'), (1024.0, 'linear')]
    """
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
    """Return the prediction of an input that was never run, at each size.

    >>> from processors.models.input_size.curves import Input, Knot
    >>> known = [Input("exa/", (x,), (Knot(8.0, x, 0.02),)) for x in (3.0, 4.0)]
    >>> others = OtherInputs(tuple(known), "exa/", (3.5,), (), ("a", "b"), 8.0)
    >>> [(round(point.run_time_s), point.source, point.extrapolation) for point in cold_start(others, [8.0])]
    [(33, 'cold_start', 1.0)]
    """
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
    """Return a verdict as messages carry it.

    >>> reliability(Verdict("reliable", (), (), None)).verdict
    'reliable'
    """
    return Reliability(verdict.verdict, tuple(verdict.reasons), tuple(verdict.advice), verdict.next_n)


def useful(study: Study) -> UsefulSizes:
    """Return the sizes worth asking for; None for what the curve does not show.

    >>> from processors.models.adept import study
    >>> useful(study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0])).knee
    16.0
    """
    sizes = study.useful
    return UsefulSizes(max=sizes.max, knee=sizes.knee, at_half_efficiency=sizes.at_half_efficiency)


def reliable_range(judged: Sequence[tuple[CurvePoint, Reliability]]) -> Range | None:
    """Return the smallest and the largest size for which the verdict is reliable; None where there is none.

    >>> reliable_range(())
    """
    trusted = [point.n for point, said in judged if said.verdict == RELIABLE]
    return Range(trusted[0], trusted[-1]) if trusted else None


def prediction(
    key: ApplicationKey, model: RunTime, outlook: Outlook, settings: RunTimeSettings, context: Context, *, source: Model
) -> Prediction:
    """Return the message of one application: its whole curve as known now, and where it comes from.

    >>> from processors.facts import RunFact
    >>> model = RunTime.build(RunTimeSettings())
    >>> for n in (1, 2, 4, 8):
    ...     model.learn(RunFact(f"r{n}", n=n, run_time_s=100 / n + 5, start_ms=0, end_ms=1, seen_ms=1))
    >>> outlook = Outlook(model.study(), None)
    >>> key = ApplicationKey("lammps", "archer2", "", "nodes")
    >>> said = prediction(key, model, outlook, RunTimeSettings(), Context("1.0", 60_000), source=Model("adept", ()))
    >>> said.id, said.sizes, said.curve[-1].n
    ('archer2/lammps//nodes@60000', (1.0, 2.0, 4.0, 8.0), 32.0)
    """
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

    >>> from processors.facts import RunFact
    >>> model = RunTime.build(RunTimeSettings())
    >>> for n in (1, 2, 4, 8):
    ...     model.learn(RunFact(f"r{n}", n=n, run_time_s=100 / n + 5, start_ms=0, end_ms=1, seen_ms=1))
    >>> outlook = Outlook(model.study(), None)
    >>> key = ApplicationKey("lammps", "archer2", "", "nodes")
    >>> said = prediction(key, model, outlook, RunTimeSettings(), Context("1.0", 60_000), source=Model("adept", ()))
    >>> published_curve(said, widening=1.0, now_ms=60_000).n_max
    8.0
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
