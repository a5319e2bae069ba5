"""The predictions of an application at given sizes, by the combination of laws or by ADEPT's study, and its published curve.

The combination predicts ordinary curves. ADEPT's study predicts if it finds phases or favoured sizes, or if there are fewer than two sizes.
"""

import math
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import Final, NamedTuple, cast

import numpy as np

from processors import facts
from processors.contracts.names import horizon_of
from processors.contracts.outputs import (
    RELIABLE,
    Envelope,
    Fluctuation,
    Reliability,
    ScalabilityStudy,
    Source,
    UsefulSizes,
)
from processors.facts import BAND_RATIO_MAX, PublishedCurve, PublishedPoint, uninformative
from processors.inputs import NAME, RUN_DEVIATION, TransferPrediction
from processors.models.adept.study import Study
from processors.models.adept.verdict import Verdict
from processors.models.combination.combine import Combination
from processors.models.input_size import Knot
from processors.models.numerics.arrays import Floats, Interval
from processors.models.numerics.statistics import rounded
from processors.run_time.calibration import Calibration, Counts
from processors.run_time.model import RunTime
from processors.run_time.quality import OWN, ROW_OF, ROWS
from processors.run_time.verdict import HIGH_ERROR, STEPS_NEAR, SizeGrounds, Verdicts, steps


class PredictedPoints(NamedTuple):
    """Predictions at m sizes, (m,): run time and band in s, speed-up and efficiency relative to size 1, and their sources.

    `extrapolation` is the size divided by the largest observed size. `reasons` are the doubts of the ensemble about each size.
    `known_further` is the share of each prediction, 0 to 1, that comes from related curves with runs at this size.
    """

    run_time_s: Floats
    low_s: Floats
    high_s: Floats
    speedup: Floats
    efficiency: Floats
    extrapolation: Floats
    source: tuple[str, ...]
    reasons: tuple[tuple[str, ...], ...]
    known_further: Floats


class RunTimePrediction(NamedTuple):
    """The present study and ensemble of one application. `combination` is None if the study predicts alone.

    `others` are other inputs of the application, used while this input has few runs. `scatter` is the half-width in ln T that
    contains nine of ten runs, for sizes with many runs; the band of such a size is not wider, even if the scaling laws fit it
    badly. `slowed_by` is the delay by other jobs that one run in twenty exceeds, in ln T above the median.
    """

    study: Study
    combination: Combination | None
    others: TransferPrediction | None = None
    scatter: Mapping[float, float] = MappingProxyType({})
    slowed_by: float = 0.0

    @property
    def model_name(self) -> str:
        """The name of the predicting model: the combination's, or the study's."""
        return "combination" if self.combination is not None else self.study.model_name

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each law at twice the largest size; Downey's model alone if the study answers."""
        own_weights = self.combination.weights if self.combination is not None else {"downey": 1.0}
        if self.others is None:
            return own_weights
        beyond = np.array([2.0 * float(self.study.n[-1])])
        share = float(self._with_others(self.others, self._alone([*beyond, 1.0]), beyond)[1][0])
        return {name: weight * (1.0 - share) for name, weight in own_weights.items()} | {NAME: share}

    def predict(self, targets: Sequence[float]) -> PredictedPoints:
        """Return the predictions at `targets`; ValueError unless these are positive and finite."""
        if self.others is None:
            return self._alone(targets)
        sizes = np.asarray([*targets, 1.0], dtype=np.float64)
        alone = self._alone(sizes.tolist())
        band = self._with_others(self.others, alone, sizes)[0]
        with np.errstate(over="ignore", under="ignore"):
            speedup = np.asarray(band.middle[-1] / band.middle[:-1])
        return PredictedPoints(
            band.middle[:-1],
            band.low[:-1],
            band.high[:-1],
            speedup,
            speedup / sizes[:-1],
            alone.extrapolation[:-1],
            alone.source[:-1],
            alone.reasons[:-1],
            alone.known_further[:-1],
        )

    @property
    def others_advice(self) -> tuple[str, ...]:
        return (f"With so few runs, the prediction relies on {self.others.shown}.",) if self.others is not None else ()

    def _with_others(
        self, others: TransferPrediction, alone: PredictedPoints, sizes: Floats
    ) -> tuple[Interval, Floats]:
        """Return the pooled prediction of the curve `alone` and of the other inputs, and the share of the other inputs."""
        count = sizes.size
        law = Interval(alone.run_time_s[:count], alone.low_s[:count], alone.high_s[:count])
        run = zip(self.study.n.tolist(), np.log(self.study.run_time_s).tolist(), strict=True)
        return others.pooled(law, sizes, [Knot(n, ln_t, RUN_DEVIATION) for n, ln_t in run])

    def _alone(self, targets: Sequence[float]) -> PredictedPoints:
        sizes = np.asarray(targets, dtype=np.float64)
        if self.combination is None:
            return PredictedPoints(*self.study.predict(targets), ((),) * sizes.size, np.zeros(sizes.size))
        forecast = self.combination.predict([*targets, 1.0])
        run_time_s, *band = (times[:-1] for times in forecast[:3])
        low_s, high_s = self._no_wider_than_runs(sizes, run_time_s, *band)
        with np.errstate(over="ignore", under="ignore"):
            speedup = np.asarray(forecast.run_time_s[-1] / run_time_s)
        return PredictedPoints(
            run_time_s,
            low_s,
            high_s,
            speedup,
            speedup / sizes,
            sizes / self.study.n[-1],
            self.study.sources(sizes),
            forecast.reasons[:-1],
            forecast.known_further[:-1],
        )

    def _no_wider_than_runs(
        self, n: Floats, run_time_s: Floats, low_s: Floats, high_s: Floats
    ) -> tuple[Floats, Floats]:
        """Return the ends of the bands at sizes (m,), no wider than the scatter of the runs of each size."""
        scatter = np.array([self.scatter.get(size, math.inf) for size in n.tolist()])
        ln_t = np.log(run_time_s)
        return np.maximum(low_s, np.exp(ln_t - scatter)), np.minimum(high_s, np.exp(ln_t + scatter))

    @property
    def judged(self) -> Verdict:
        """ADEPT's verdict on twice the largest size, without regard to the width of the band.

        A high error of Downey's law is ignored if other laws explain the sizes and the study has further doubts: the run times of
        a curve that rises again do not follow Downey's law, but they are not noise.
        """
        judged = self.study.verdict
        explained = self.combination is not None and judged.verdict == HIGH_ERROR and self.combination.explains
        if not explained or (len(judged.reasons) == 1 and self.study.slower_beyond is None):
            return judged
        return Verdict(
            judged.reasons[1] if judged.reasons[1:] else RELIABLE, judged.reasons[1:], judged.advice[1:], judged.next_n
        )


CURVE_POINTS_MAX: Final = 48
TWICE: Final = 2.0
NEXT_MULTIPLES: Final = (1.5, TWICE, 3.0)  # of the largest size: the sizes that users request next, if they are whole
MIDDLE_RATIO_MIN: Final = 1.5  # a gap between sizes with a larger ratio gets a size in between
LN_BAND_MAX: Final = math.log(BAND_RATIO_MAX)  # a wider band is uninformative


def curve_sizes(sizes: Sequence[float], factor_max: float, alone: Collection[float] = ()) -> list[float]:
    """Return the sizes of a published curve, ascending.

    They are the observed sizes, NEXT_MULTIPLES of the largest size, the powers of two up to `factor_max` times the largest size,
    and one size in each wide gap next to an observed size. Without that size, a reader would interpolate the narrow bands of two
    observed sizes: at 48 nodes between 32 and 64, the interpolated band was .70 times as wide as the fitted band. Each size in
    `alone`, which changed without the others, also gets its two neighbours: without them, the interpolated run time at 12 nodes
    contained half of a slow-down at 16.
    """
    low, high = sizes[0], sizes[-1] * factor_max
    powers = [2.0**i for i in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
    observed = set(map(float, sizes))
    beyond = {
        n
        for multiple in NEXT_MULTIPLES
        if multiple <= factor_max and ((n := multiple * sizes[-1]).is_integer() or multiple == TWICE)
    }
    next_to = {n + step for n in alone for step in (-1.0, 1.0) if n.is_integer() and sizes[0] < n + step < sizes[-1]}
    knots = sorted({*observed, *beyond, *powers, *next_to})
    middles = {
        middle
        for left, right in pairwise(knots)
        if right >= MIDDLE_RATIO_MIN * left
        and (left in observed or right in observed)
        and left < (middle := float(round(math.sqrt(left * right)))) < right
    }
    chosen = sorted({*knots, *middles}) if len(knots) + len(middles) <= CURVE_POINTS_MAX else knots
    if len(chosen) <= CURVE_POINTS_MAX:
        return chosen
    picked = np.linspace(0, len(chosen) - 1, CURVE_POINTS_MAX).round().astype(int)
    return [chosen[i] for i in picked]


def foretold_sizes(sizes: Sequence[float], n_max: float) -> list[float]:
    """Return the sizes at which run times are predicted for a curve: `sizes`, 1, and the nearest STEPS_NEAR steps beyond `n_max`.

    The verdicts beyond the largest size `n_max` need the steps.
    """
    return [*sizes, 1.0, *steps(n_max)[:STEPS_NEAR]]


def fitted_curve(
    predicted: RunTimePrediction, model: RunTime, sizes: Sequence[float], now_ms: int, centre: Counts | None = None
) -> PublishedCurve:
    """Return the curve of an application at `sizes`: run times with their final bands, and their verdicts.

    `centre` has the scores of the bands of all applications. The curve ends before the first size beyond the observed sizes whose
    band is too wide to be useful: without a number a scheduler falls back to its old rule, but it would use any number that it
    finds.
    """
    observed_sizes, calibration = model.sizes(), model.calibration(centre or {})
    final = _final(foretold_sizes(sizes, observed_sizes[-1]), predicted, model, calibration)
    evidence = predicted.combination.evidence if predicted.combination is not None else None
    verdicts = Verdicts(
        observed_sizes[0],
        observed_sizes[-1],
        predicted.judged,
        ()
        if predicted.study.patterns.phases is not None
        else _beyond(final, observed_sizes[-1], lambda step_sizes: _final(step_sizes, predicted, model, calibration)),
        predicted.study.pattern_advice,
        full=evidence.curve.bends if evidence is not None else (),
        slope=float(evidence.members.slope[-1]) if evidence is not None else 0.0,
        largest_useful_n=predicted.study.useful.max,
    )
    shown, advice = range(len(sizes) + 1), predicted.others_advice
    judged = [_with_advice(verdicts.of(final.place(i)), advice) for i in shown]
    distinct = {verdict: i for i, verdict in enumerate(dict.fromkeys(judged))}
    points = [final.point(i, distinct[verdict]) for i, verdict in zip(shown, judged, strict=True)]
    beyond = (pair for pair in zip(sizes, judged, strict=False) if pair[0] >= observed_sizes[-1])
    reliable = takewhile(lambda pair: pair[1].verdict == RELIABLE, beyond)
    run = {point.n for point in points[:-1] if point.source == "observed"}
    out_of_line = run.intersection(model.observed().excluded)
    useful = predicted.study.useful
    return PublishedCurve(
        points=_as_far_as_known(points[:-1], observed_sizes[-1]),
        n_min=observed_sizes[0],
        n_max=observed_sizes[-1],
        observations=model.runs_held,
        time_ms=now_ms,
        whole=reliability(verdicts.whole(max((n for n, _ in reliable), default=0.0))),
        own=tuple(sorted(run - out_of_line)),
        excluded=tuple(sorted(out_of_line)),
        apart=tuple(sorted(run.intersection(model.observed().apart))),
        one=points[-1],
        verdicts=tuple(map(reliability, distinct)),
        measured={name: found for row, name in enumerate(ROWS) if (found := calibration.measured(row)) is not None},
        useful=UsefulSizes(
            max=useful.max,
            knee=useful.knee,
            at_half_efficiency=useful.at_half_efficiency,
            slower_beyond=predicted.study.slower_beyond,
        ),
        model=predicted.model_name,
        weights=predicted.weights,
        downey=predicted.study.parameters(),
        study=scalability_study(predicted.study),
    )


def scalability_study(study: Study) -> ScalabilityStudy:
    r, sizes, bounds = rounded(*study.fluctuation.tolist()), study.sizes.tolist(), study.envelope
    high = bounds.parallelism_high
    t1_low_s, t1_high_s, low, share = rounded(
        bounds.t1_low_s, bounds.t1_high_s, bounds.parallelism_low, bounds.serial_share_high
    )
    return ScalabilityStudy(
        fluctuation=tuple(map(Fluctuation, sizes, sizes[1:], r)),
        fluctuation_ratio_max=max(rounded(*(after / before for before, after in pairwise(r))), default=None),
        envelope=Envelope(
            t1_low_s=t1_low_s,
            t1_high_s=t1_high_s,
            parallelism_low=low,
            parallelism_high=rounded(high)[0] if math.isfinite(high) else None,
            serial_share_high=share,
        ),
    )


def _beyond(near: "_Final", n_max: float, final: "Callable[[list[float]], _Final]") -> Iterator[SizeGrounds]:
    """Yield what decides the verdict at each step beyond the largest size, ascending.

    The nearest steps come from `near`; the bands of the others are computed by `final` only if they are requested.
    """
    yield from map(near.place, range(len(near.at) - STEPS_NEAR, len(near.at)))
    far = steps(n_max)[STEPS_NEAR:]
    yield from map(final(far).place, range(len(far)))


@dataclass(frozen=True, eq=False)
class _Final:
    """The final bands of a curve at the sizes `at`, and the values that decide their verdicts, as lists.

    Points and values for a verdict are created on demand.
    """

    at: Sequence[float]
    source: Sequence[str]
    rows: Sequence[int]
    bands: Sequence[facts.Band]
    own: Sequence[tuple[float, float]]  # half-widths before calibration, below and above
    half_width: Sequence[float]
    reasons: Sequence[tuple[str, ...]]
    known_further: Sequence[float]
    measured: Container[float]

    def point(self, i: int, verdict: int) -> PublishedPoint:
        band, source = self.bands[i], cast("Source", self.source[i])
        below, above = self.own[i]
        return PublishedPoint(
            self.at[i], band.run_time_s, band.low_s, band.high_s, source, verdict, round(below, 6), round(above, 6)
        )

    def place(self, i: int) -> SizeGrounds:
        row, nothing = self.rows[i], uninformative(self.bands[i])
        return SizeGrounds(
            self.at[i],
            self.half_width[i],
            nothing,
            self.reasons[i],
            self.known_further[i],
            row == OWN and self.at[i] in self.measured,
        )


def _final(sizes: list[float], predicted: RunTimePrediction, model: RunTime, calibration: Calibration) -> _Final:
    forecast, observed_sizes = predicted.predict(sizes), model.sizes()
    model_widths = np.abs(np.log(np.array([forecast.low_s, forecast.high_s])) - np.log(forecast.run_time_s))
    rows = [
        OWN if source == "observed" else ROW_OF[horizon_of(n, observed_sizes[0], observed_sizes[-1])]
        for n, source in zip(sizes, forecast.source, strict=True)
    ]
    times_s = _as_observed(sizes, forecast.run_time_s, model)
    calibrated = model_widths * np.array(list(map(calibration.sides, rows, sizes))).T
    calibrated[1] = np.maximum(calibrated[1], np.hypot(model_widths[1], predicted.slowed_by))
    widened = _bounded(calibrated, model_widths, _spread(sizes, rows, times_s, model))
    sides = np.minimum(widened, LN_BAND_MAX) * _DOWN_AND_UP
    low_s, high_s = np.clip(times_s * np.exp(sides), 1e-300, 1e300).tolist()
    return _Final(
        sizes,
        forecast.source,
        rows,
        [facts.Band(*rounded(*ends_s)) for ends_s in zip(times_s.tolist(), low_s, high_s, strict=True)],
        list(zip(*model_widths.tolist(), strict=True)),
        widened.max(axis=0).tolist(),
        forecast.reasons,
        forecast.known_further.tolist(),
        predicted.scatter,
    )


_DOWN_AND_UP: Final = np.array([[-1.0], [1.0]])


def _spread(sizes: Sequence[float], rows: Sequence[int], run_time_s: Floats, model: RunTime) -> Floats | None:
    """Return the distances in ln T from the prediction of each size down and up to its newest runs, (2, m); infinity with too few runs."""
    extremes = model.extremes()
    if not extremes:
        return None
    spread = np.full((2, len(sizes)), math.inf)
    for i, (n, row, time_s) in enumerate(zip(sizes, rows, run_time_s.tolist(), strict=True)):
        if row == OWN and n in extremes:
            least_s, greatest_s = extremes[n]
            spread[:, i] = max(math.log(time_s / least_s), 0.0), max(math.log(greatest_s / time_s), 0.0)
    return spread


def _bounded(calibrated: Floats, model_widths: Floats, spread: Floats | None) -> Floats:
    """Return the half-widths of bands in ln T, (2, m), limited to the spread of the newest runs of each size.

    The limit is needed after a size has changed: earlier misses widened its band, but do not belong to its present scatter.
    """
    return calibrated if spread is None else np.minimum(calibrated, np.maximum(model_widths, spread))


def _as_observed(sizes: Sequence[float], run_time_s: Floats, model: RunTime) -> Floats:
    """Return the predicted run times, replaced by observed run times at sizes that the curve does not follow."""
    observed_s = model.observed().apart
    return np.array([observed_s.get(n, time_s) for n, time_s in zip(sizes, run_time_s.tolist(), strict=True)])


def _as_far_as_known(points: Sequence[PublishedPoint], n_max: float) -> tuple[PublishedPoint, ...]:
    """Return the points before the first uninformative point beyond the observed sizes."""
    end = next((point.n for point in points if point.n > n_max and uninformative(point)), math.inf)
    return tuple(point for point in points if point.n < end)


def _with_advice(verdict: Verdict, advice: tuple[str, ...]) -> Verdict:
    return verdict._replace(advice=(*verdict.advice, *advice)) if advice else verdict


def reliability(verdict: Verdict) -> Reliability:
    return Reliability(verdict.verdict, tuple(verdict.reasons), tuple(verdict.advice), verdict.next_n)
