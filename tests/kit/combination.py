"""What is known of a curve that is given as sizes and times, as the product puts it together from its state."""

from collections.abc import Sequence

from processors.models.combination.combine import NOTHING_LEARNED, SHIPPED, Coefficients, Combination, Learned
from processors.models.combination.evidence import Curve, SiblingSummary, evidence
from processors.models.combination.replay import NO_SCORES, Counts, Rows, rows


def combine(
    curve: Curve,
    siblings: Sequence[SiblingSummary] = (),
    learned: Learned = NOTHING_LEARNED,
    pool: Counts = NO_SCORES,
    coefficients: Coefficients = SHIPPED,
) -> Combination:
    """Return what is known of one curve of at least two sizes; ValueError where it is not valid."""
    return Combination(evidence(curve), tuple(siblings), learned, pool, coefficients)


def prequential(told: Combination) -> Rows:
    """Return the forecasts that a curve allows in hindsight."""
    return rows(told.coefficients.gate, told.evidence, told.siblings)
