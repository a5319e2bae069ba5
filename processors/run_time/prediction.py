"""The fit of an application at sizes: the combination of laws, with ADEPT's study for patterns, verdict and words.

The combination answers for ordinary curves. Where ADEPT finds phases or favoured sizes, or fewer than two sizes are
known, its study answers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from processors.contracts.outputs import Envelope, Fluctuation, Reliability, ScalabilityStudy, Source, UsefulSizes
from processors.facts import PublishedCurve, PublishedPoint
from processors.inputs import NAME, RUN_DEVIATION, Band, TransferPrediction
from processors.models.adept.study import Study
from processors.models.adept.verdict import Verdict
from processors.models.combination.combine import WIDTH_INSIDE_MAX, Combination
from processors.models.input_size import Knot
from processors.models.statistics import rounded
from processors.run_time.model import RunTime
from processors.run_time.quality import coverages

Floats = NDArray[np.float64]
HIGH_ERROR: Final = "high_error"
CANNOT_RELY: Final = frozenset({"insufficient", HIGH_ERROR})
REACH: Final = 2.0  # the verdict on an application is that on this many times its largest size
RELIABLE: Final = "reliable"
UNCERTAIN: Final = "uncertain"
REASON_TEXT: Final = {
    "far": "the size is far from those that were run",
    "members_disagree": "the scaling laws disagree",
    "forecasts_missed": "earlier forecasts of this application missed",
    "related_curves_missed": "forecasts of its other inputs missed",
    "few_sizes": "few sizes were run",
    "wide_gap": "the largest sizes that were run lie far apart",
    "poor_fit": "its run times do not lie on a smooth curve",
    "below_smallest": "no smaller size was run",
    "wide_band": "its run times vary",
}


class PredictedPoints(NamedTuple):
    """Predictions at m sizes, (m,): seconds, speed-up and efficiency against one, where each came from.

    `verdicts` are on each size, `whole` is that on the application.
    """

    run_time_s: Floats
    low_s: Floats
    high_s: Floats
    speedup: Floats
    efficiency: Floats
    extrapolation: Floats
    source: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    whole: Verdict


class RunTimePrediction(NamedTuple):
    """One application as it is known now. `combination` is None where the study alone answers.

    `others` are other inputs of the application, where this one was run too little to stand on its own. `scatter` is the
    half-width in ln T of what nine of ten runs take at sizes that were run often: however badly the laws of scaling pass
    through such a size, its band is no wider.
    """

    study: Study
    combination: Combination | None
    others: TransferPrediction | None = None
    scatter: Mapping[float, float] = MappingProxyType({})

    @property
    def model_name(self) -> str:
        """What predicts: the combination, or the name of the study."""
        return "combination" if self.combination is not None else self.study.model_name

    @property
    def weights(self) -> dict[str, float]:
        """What each law weighs beyond the largest size; Downey's model alone where the study answers."""
        own = self.combination.weights if self.combination is not None else {"downey": 1.0}
        if self.others is None:
            return own
        beyond = np.array([2.0 * float(self.study.n[-1])])
        share = float(self._with_others(self.others, self._alone([*beyond, 1.0]), beyond)[1][0])
        return {name: weight * (1.0 - share) for name, weight in own.items()} | {NAME: share}

    def predict(self, targets: Sequence[float]) -> PredictedPoints:
        """Return the predictions at the targets; ValueError unless they are positive and finite."""
        if self.others is None:
            return self._alone(targets)
        sizes = np.asarray([*targets, 1.0], dtype=np.float64)
        alone = self._alone(sizes.tolist())
        band = self._with_others(self.others, alone, sizes)[0]
        with np.errstate(over="ignore", under="ignore"):
            speedup = np.asarray(band.run_time_s[-1] / band.run_time_s[:-1])
        known = f"With so few runs, the prediction relies on {self.others.shown}."
        return PredictedPoints(
            band.run_time_s[:-1],
            band.low_s[:-1],
            band.high_s[:-1],
            speedup,
            speedup / sizes[:-1],
            alone.extrapolation[:-1],
            alone.source[:-1],
            tuple(replace(verdict, advice=(*verdict.advice, known)) for verdict in alone.verdicts[:-1]),
            alone.whole,
        )

    def _with_others(self, others: TransferPrediction, alone: PredictedPoints, sizes: Floats) -> tuple[Band, Floats]:
        """Return what the other inputs and the curve alone say together, and the share of the others."""
        count = sizes.size
        law = Band(alone.run_time_s[:count], alone.low_s[:count], alone.high_s[:count])
        run = zip(self.study.n.tolist(), np.log(self.study.run_time_s).tolist(), strict=True)
        return others.pooled(law, sizes, [Knot(n, ln_t, RUN_DEVIATION) for n, ln_t in run])

    def _alone(self, targets: Sequence[float]) -> PredictedPoints:
        judged = self._judged()
        if self.combination is None:
            return PredictedPoints(*self.study.predict(targets), tuple(self.study.verdict(n) for n in targets), judged)
        sizes = np.asarray(targets, dtype=np.float64)
        found = self.combination.predict([*targets, REACH * float(self.study.n[-1]), 1.0])
        run_time_s, *band = (times[:-2] for times in found[:3])
        low_s, high_s, narrow = self._no_wider_than_runs(sizes, run_time_s, *band)
        with np.errstate(over="ignore", under="ignore"):
            speedup = np.asarray(found.run_time_s[-1] / run_time_s)
        trusted = judged.verdict not in CANNOT_RELY
        verdicts = tuple(
            self._verdict(n, reliable=(within or near) and trusted, reasons=why)
            for n, within, near, why in zip(targets, found.reliable[:-2], narrow, found.reasons[:-2], strict=True)
        )
        if trusted and found.reliable[-2]:
            judged = Verdict(RELIABLE, (), self.study.pattern_advice, None)
        return PredictedPoints(
            run_time_s,
            low_s,
            high_s,
            speedup,
            speedup / sizes,
            sizes / self.study.n[-1],
            self.study.sources(sizes),
            verdicts,
            judged,
        )

    def _no_wider_than_runs(
        self, n: Floats, run_time_s: Floats, low_s: Floats, high_s: Floats
    ) -> tuple[Floats, Floats, list[bool]]:
        """Return the ends of the band at sizes (m,), and where runs of the size itself make it narrow enough to rely on."""
        scatter = np.array([self.scatter.get(size, math.inf) for size in n.tolist()])
        ln_t = np.log(run_time_s)
        ends_s = np.maximum(low_s, np.exp(ln_t - scatter)), np.minimum(high_s, np.exp(ln_t + scatter))
        return *ends_s, (scatter <= WIDTH_INSIDE_MAX).tolist()

    def verdict(self) -> Verdict:
        """Return the verdict on the application: that on twice its largest size, with what is unusual about it."""
        return self.study.verdict() if self.combination is None else self._alone(()).whole

    def _judged(self, n: float | None = None) -> Verdict:
        """Return the study's verdict, without a high error of Downey's law where another law explains the sizes.

        A curve that turns up again is no noise; that it slows down is what there is to say of it.
        """
        judged = self.study.verdict(n)
        explained = self.combination is not None and judged.verdict == HIGH_ERROR and self.combination.explains
        if not explained or len(judged.reasons) == 1:
            return judged
        return Verdict(judged.reasons[1], judged.reasons[1:], judged.advice[1:], judged.next_n)

    def _verdict(self, n: float, *, reliable: bool, reasons: tuple[str, ...]) -> Verdict:
        if reliable:
            return Verdict(RELIABLE, (), (), None)
        judged = self._judged(n)
        if judged.verdict != RELIABLE:
            return judged
        text = "; ".join(REASON_TEXT[reason] for reason in reasons)
        return Verdict(UNCERTAIN, reasons, (f"The prediction is uncertain: {text}.",) if text else (), judged.next_n)


CURVE_POINTS_MAX: Final = 48
MIDDLE_RATIO_MIN: Final = 1.5  # between sizes that lie further apart stands a size that was not run
LN_BAND_MAX: Final = math.log(1000.0)  # a band ends at a thousandth and at a thousand times the run time


def curve_sizes(sizes: Sequence[float], factor_max: float) -> list[float]:
    """Return the sizes of a published curve, rising.

    They are those observed, powers of two up to `factor_max` times the largest, and a whole size between any two that lie far
    apart where one was observed. Without the last, who reads the curve between two sizes that were run would take their narrow
    bands for that of a size that was not: at 48 nodes between 32 and 64 the band was .70 as wide as the fit's own.
    """
    low, high = sizes[0], sizes[-1] * factor_max
    powers = [2.0**i for i in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
    own = set(map(float, sizes))
    knots = sorted({*own, *powers})
    middles = {
        middle
        for left, right in pairwise(knots)
        if right >= MIDDLE_RATIO_MIN * left
        and (left in own or right in own)
        and left < (middle := float(round(math.sqrt(left * right)))) < right
    }
    wanted = sorted({*knots, *middles}) if len(knots) + len(middles) <= CURVE_POINTS_MAX else knots
    if len(wanted) <= CURVE_POINTS_MAX:
        return wanted
    picked = np.linspace(0, len(wanted) - 1, CURVE_POINTS_MAX).round().astype(int)
    return [wanted[i] for i in picked]


def fitted_curve(predicted: RunTimePrediction, model: RunTime, sizes: Sequence[float], now_ms: int) -> PublishedCurve:
    """Return the curve of an application at sizes: run times with the bands that anybody is given, and their verdicts.

    A confirmed size (one that was run often and is out of line for good) is as its own runs are, where the study answers.
    """
    at = [*sizes, 1.0]
    found = predicted.predict(at)
    run_time_s = found.run_time_s
    low_s, high_s = (_calibrated(run_time_s, end_s, model.band_calibration) for end_s in (found.low_s, found.high_s))
    observed = model.observed()
    confirmed = observed.confirmed if predicted.combination is None else {}
    shift = np.array([confirmed.get(n, time_s) / time_s for n, time_s in zip(at, run_time_s.tolist(), strict=True)])
    verdicts = [reliability(verdict) for verdict in found.verdicts]
    distinct = list(dict.fromkeys(verdicts))
    digits = rounded(*(np.array([run_time_s, low_s, high_s]) * shift).T.ravel().tolist())
    rows = zip(digits[0::3], digits[1::3], digits[2::3], strict=True)
    points = [
        PublishedPoint(float(n), *row, cast("Source", source), distinct.index(verdict))
        for n, row, source, verdict in zip(at, rows, found.source, verdicts, strict=True)
    ]
    known = model.sizes()
    run = {point.n for point in points[:-1] if point.source == "observed"}
    out_of_line = run.intersection(observed.excluded)
    useful, measured = predicted.study.useful, coverages(model.scores)
    return PublishedCurve(
        points=tuple(points[:-1]),
        n_min=known[0],
        n_max=known[-1],
        observations=model.observations,
        time_ms=now_ms,
        whole=reliability(found.whole),
        band_calibration=model.band_calibration,
        own=tuple(sorted(run - out_of_line)),
        excluded=tuple(sorted(out_of_line)),
        one=points[-1],
        verdicts=tuple(distinct),
        coverage=dict(zip(measured, rounded(*measured.values()), strict=True)),
        useful=UsefulSizes(max=useful.max, knee=useful.knee, at_half_efficiency=useful.at_half_efficiency),
        model=predicted.model_name,
        weights=predicted.weights,
        downey=predicted.study.parameters(),
        study=scalability_study(predicted.study),
    )


def scalability_study(study: Study) -> ScalabilityStudy:
    """Return what ADEPT's study measured, as messages carry it."""
    r, bounds = rounded(*study.fluctuation.tolist()), study.envelope
    high = bounds.parallelism_high
    t1_low_s, t1_high_s, low, share = rounded(
        bounds.t1_low_s, bounds.t1_high_s, bounds.parallelism_low, bounds.serial_share_high
    )
    return ScalabilityStudy(
        fluctuation=tuple(Fluctuation(*sizes, value) for sizes, value in zip(study.intervals, r, strict=True)),
        fluctuation_ratio_max=max(rounded(*(after / before for before, after in pairwise(r))), default=None),
        envelope=Envelope(
            t1_low_s=t1_low_s,
            t1_high_s=t1_high_s,
            parallelism_low=low,
            parallelism_high=rounded(high)[0] if math.isfinite(high) else None,
            serial_share_high=share,
        ),
    )


def reliability(verdict: Verdict) -> Reliability:
    """Return a verdict as messages carry it."""
    return Reliability(verdict.verdict, tuple(verdict.reasons), tuple(verdict.advice), verdict.next_n)


def _calibrated(run_time_s: Floats, end_s: Floats, factor: float) -> Floats:
    """Return an end of the bands, (m,), moved to `factor` times its distance from the run time, in ln T."""
    # to the power of a wide band's factor a number means nothing any more
    with np.errstate(over="ignore", under="ignore"):
        ln_ratio = factor * (np.log(end_s) - np.log(run_time_s))
        ends_s = run_time_s * np.exp(np.clip(ln_ratio, -LN_BAND_MAX, LN_BAND_MAX))
    return np.clip(ends_s, 1e-300, 1e300)
