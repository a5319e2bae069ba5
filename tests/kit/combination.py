"""What is known of a curve that is given as sizes and times, as the product puts it together from its state."""

from collections.abc import Sequence

import numpy as np

from processors.models.combination.combine import NOTHING_LEARNED, SHIPPED, Coefficients, Combination, LearnedRecord
from processors.models.combination.evidence import Curve, LawEvidence, Related, RelatedCurve, anchored, evidence
from processors.models.combination.replay import ForecastRows, rows
from processors.models.combination.scores import (
    NO_SCORES,
    Counts,
    Ends,
    EndsRequest,
    SystemScores,
    beyond,
    ends,
    inside,
    known,
    share,
)
from processors.models.numerics.arrays import Floats


def combine(
    curve: Curve,
    related_curves: Sequence[RelatedCurve] = (),
    learned: LearnedRecord = NOTHING_LEARNED,
    pool: Counts = NO_SCORES,
    coefficients: Coefficients = SHIPPED,
) -> Combination:
    """Return what is known of one curve of at least two sizes; ValueError where it is not valid."""
    return Combination(evidence(curve), Related(tuple(related_curves)), learned, pool, coefficients)


def elasticities(known_laws: LawEvidence, n: Floats) -> Floats:
    """Return d ln T / d ln n of each law from the largest size to larger relative sizes `n` (m,), (m, laws)."""
    there = known_laws.members.ln_run_times(n)[-1].T
    return anchored(there, known_laws.here, float(known_laws.data.y[-1]), np.log(n)[:, None])


def prequential(reported: Combination) -> ForecastRows:
    """Return the forecasts that a curve allows in hindsight."""
    return rows(reported.coefficients.gate, reported.evidence, reported.related)


def quantiles(
    distance: Floats,
    atoms: Sequence[Sequence[float]],
    system: str,
    own: Sequence[SystemScores],
    pool: Counts = NO_SCORES,
    *,
    known_further: bool = False,
) -> Ends:
    """Return the scores between which 90 % of the runs lie at each distance (m,) in doublings."""
    near, shipped = beyond(distance, atoms, known_further=known_further)
    return ends([EndsRequest(near, shipped, known(system, own, pool, share(own)))])[0]


def quantiles_inside(
    atoms: Sequence[float], system: str, own: Sequence[SystemScores], pool: Counts = NO_SCORES
) -> tuple[float, float]:
    """Return the scores between which 90 % of the runs lie inside the range of a curve."""
    found = ends([inside(atoms, known(system, own, pool, share(own)))])[0]
    return float(found.lower[0]), float(found.upper[0])
