"""How what was told of a target compared with the runs that followed."""

import math
from collections.abc import Sequence
from statistics import median

import msgspec

from processors.models.training.tracking import Band


class TargetScore(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One scored run: its relative error, and whether the band held it.

    >>> TargetScore.of(110.0, Band(100.0, 95.0, 105.0))
    TargetScore(error=0.090909, inside=False)
    """

    error: float
    inside: bool

    @classmethod
    def of(cls, observed: float, band: Band) -> "TargetScore":
        """Return the score of a run against what was told, |expected / observed - 1|."""
        return cls(round(min(abs(band.value / observed - 1.0), math.e**8), 6), band.holds(observed))


def median_error(scores: Sequence[TargetScore]) -> float | None:
    """Return the median relative error, None without scores.

    >>> median_error([TargetScore(0.1, True), TargetScore(0.3, False)])
    0.2
    """
    return median(score.error for score in scores) if scores else None


def coverage(scores: Sequence[TargetScore]) -> float | None:
    """Return the share of runs that their bands held, None without scores.

    >>> coverage([TargetScore(0.1, True), TargetScore(0.3, False)])
    0.5
    """
    return sum(score.inside for score in scores) / len(scores) if scores else None
