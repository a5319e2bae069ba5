"""Measured quality: how published predictions compared with the runs that followed."""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

import msgspec

from processors.contracts.names import HORIZONS, Horizon
from processors.contracts.outputs import HorizonQuality, Quality
from processors.facts import Scored

COVERAGE: Final = 0.9
SCORES_MIN: Final = 10
BAND_CALIBRATION_MIN: Final = 0.5
BAND_CALIBRATION_MAX: Final = 20.0


class Score(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One scored run: index of its horizon, ln(observed / predicted), and whether the band held it.

    `distance` is |ln_ratio| in half-widths of the model's own band, before that was widened.
    """

    horizon: int
    ln_ratio: float
    inside: bool
    distance: float


def score_of(scored: Scored, band_calibration: float = 1.0) -> Score:
    """Return what is kept of a scored run; `widening` is that of the band it was scored against."""
    distance = abs(scored.ln_ratio) / scored.half_width * band_calibration
    return Score(HORIZONS.index(scored.horizon), round(scored.ln_ratio, 6), scored.inside, round(distance, 4))


def band_calibration(scores: Sequence[Score]) -> float:
    """Return the factor by which the model's own band has to be widened so that it would have held 90 % of the runs.

    The conformal quantile: of m distances the ceil(.9 (m + 1))-th smallest. 1 before SCORES_MIN runs were scored.
    """
    rank = math.ceil(COVERAGE * (len(scores) + 1))
    if len(scores) < SCORES_MIN or rank > len(scores):
        return 1.0
    distance = sorted(score.distance for score in scores)[rank - 1]
    return min(max(distance, BAND_CALIBRATION_MIN), BAND_CALIBRATION_MAX)


def quality(scores: Sequence[Score]) -> Quality:
    """Return median relative error, coverage and bias (mean ln ratio) of the scores, the first two also by horizon."""
    if not scores:
        return Quality()
    errors = [abs(math.expm1(-score.ln_ratio)) for score in scores]
    by_horizon: dict[int, list[float]] = {}
    for score, error in zip(scores, errors, strict=True):
        by_horizon.setdefault(score.horizon, []).append(error)
    covered = coverages(scores)
    return Quality(
        scored=len(scores),
        median_error=median(errors),
        coverage_90=sum(score.inside for score in scores) / len(scores),
        bias=fmean([score.ln_ratio for score in scores]),
        horizons=tuple(
            HorizonQuality(HORIZONS[i], len(part), median(part), covered[HORIZONS[i]])
            for i, part in sorted(by_horizon.items())
        ),
    )


def coverages(scores: Sequence[Score]) -> dict[Horizon, float]:
    """Return the share of runs inside their bands by horizon, only where runs were scored."""
    covered = [[0, 0] for _ in HORIZONS]
    for score in scores:
        counts = covered[score.horizon]
        counts[0] += score.inside
        counts[1] += 1
    return {name: inside / scored for name, (inside, scored) in zip(HORIZONS, covered, strict=True) if scored}
