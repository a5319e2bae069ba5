"""Measured quality: how published predictions compared with the runs that followed."""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

import msgspec

from agent.contracts.outputs import Quality
from processors.facts import Horizon, Scored

HORIZONS: Final[tuple[Horizon, ...]] = ("inside", "up_to_2x", "up_to_4x", "beyond_4x")


class Score(msgspec.Struct, frozen=True, array_like=True):
    """One scored run: index of its horizon, ln(observed / predicted), and whether the band held it."""

    horizon: int
    ln_ratio: float
    inside: bool


def score_of(scored: Scored) -> Score:
    """Return what is kept of a scored run."""
    return Score(HORIZONS.index(scored.horizon), round(scored.ln_ratio, 6), scored.inside)


def quality(scores: Sequence[Score]) -> Quality:
    """Return median relative error, coverage and bias (mean ln ratio) of the scores.

    >>> quality([Score(0, 0.1, True), Score(0, -0.1, False)]).coverage_90
    0.5
    """
    if not scores:
        return Quality()
    errors = [abs(math.expm1(-score.ln_ratio)) for score in scores]
    return Quality(
        scored=len(scores),
        median_error=median(errors),
        coverage_90=fmean(score.inside for score in scores),
        bias=fmean(score.ln_ratio for score in scores),
    )


def coverage(scores: Sequence[Score], horizon: Horizon) -> float | None:
    """Return the share of runs inside their bands at one horizon, None before any was scored.

    >>> coverage([Score(0, 0.1, True)], "inside"), coverage([], "inside")
    (1.0, None)
    """
    index = HORIZONS.index(horizon)
    held = [score.inside for score in scores if score.horizon == index]
    return fmean(held) if held else None
