"""What is known of a curve that is given as sizes and times, as the product puts it together from its state."""

from collections.abc import Sequence

from processors.models.combination.combine import NOTHING_LEARNED, SHIPPED, Coefficients, Combination, LearnedRecord
from processors.models.combination.evidence import Curve, Related, RelatedCurve, evidence
from processors.models.combination.replay import ForecastRows, rows
from processors.models.combination.scores import NO_SCORES, Counts


def combine(
    curve: Curve,
    related_curves: Sequence[RelatedCurve] = (),
    learned: LearnedRecord = NOTHING_LEARNED,
    pool: Counts = NO_SCORES,
    coefficients: Coefficients = SHIPPED,
) -> Combination:
    """Return what is known of one curve of at least two sizes; ValueError where it is not valid."""
    return Combination(evidence(curve), Related(tuple(related_curves)), learned, pool, coefficients)


def prequential(reported: Combination) -> ForecastRows:
    """Return the forecasts that a curve allows in hindsight."""
    return rows(reported.coefficients.gate, reported.evidence, reported.related)
