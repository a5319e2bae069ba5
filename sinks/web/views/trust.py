"""How far to trust the predictions of an application, in two short texts: among the sizes that were run, and beyond them."""

import math
from statistics import median
from typing import Final

import msgspec

from processors.contracts.outputs import Prediction
from sinks.web.formatting import INSIDE, share, size

SCORED_MIN: Final = 10  # fewer scored runs tell less of the error than the bands do
MEDIAN_OF_BAND: Final = 0.41  # of the half-width of a band for nine of ten runs, under a normal law: the median error
GOOD: Final = 0.05
FAIR: Final = 0.15


class Trust(msgspec.Struct, frozen=True):
    """What is said of predictions inside and beyond the sizes that were run; whether each is good news."""

    inside: str
    beyond: str
    inside_good: bool
    beyond_good: bool


def trust_of(entry: Prediction) -> Trust:
    """Return how far to trust the predictions of an application."""
    error = inside_error(entry)
    known = error is not None
    word = "unknown" if error is None else "good" if error <= GOOD else "fair" if error <= FAIR else "rough"
    return Trust(
        f"{word}, {share(error)}" if known else word,
        _beyond(entry),
        inside_good=word == "good",
        beyond_good=entry.useful_n.slower_beyond is None and entry.reliability.verdict == "reliable",
    )


def inside_error(entry: Prediction) -> float | None:
    """Return the relative error of predictions at sizes among those that were run: measured, or by the width of their bands."""
    scored = next((part for part in entry.quality.horizons if part.horizon == "inside"), None)
    if scored is not None and scored.scored >= SCORED_MIN:
        return scored.median_error
    widths = [
        math.log(point.high_s / point.low_s) / 2.0
        for point in entry.curve
        if point.source in INSIDE and 0 < point.low_s <= point.high_s
    ]
    return math.expm1(MEDIAN_OF_BAND * median(widths)) if widths else None


def _beyond(entry: Prediction) -> str:
    if entry.useful_n.slower_beyond is not None:
        return f"gets slower beyond {size(entry.useful_n.slower_beyond)}"
    reach = entry.reliable_n
    if entry.reliability.verdict == "reliable" and reach is not None:
        return f"good up to {size(reach.max)}"
    return "unknown"
