"""How good what features say of run times has been."""

import math
from collections.abc import Sequence

import numpy as np

from agent.contracts.quality import FeatureModel
from processors.models.communication.scores import r_squared, rcc, rcc_symmetric
from processors.models.digits import six_digits
from processors.models.features.blend import Blend
from processors.models.features.columns import Chosen
from processors.models.training.learner import Learner

RANKED_MIN = 8


def feature_model(features: str, learner: Learner, blend: Blend, pairs: Sequence[tuple[float, float]]) -> FeatureModel:
    """Return what is told of one kind of features; `pairs` are what the believed model said, and what came, in seconds.

    >>> from processors.models.features.columns import ATTRIBUTE_KINDS
    >>> feature_model("attributes", Learner("attributes", ATTRIBUTE_KINDS), Blend(), [(1.0, 2.0)] * 8).model
    'none'
    """
    name = learner.believed or "none"
    model = learner.models.get(name)
    first, second, both = (six_digits(each) if blend.scored else None for each in blend.errors)
    order = _order(pairs)
    return FeatureModel(
        features=features,
        model=name,
        runs=len(learner.table) if learner.table is not None else 0,
        weight=six_digits(blend.share),
        scored=blend.scored,
        error=second,
        curve_error=first,
        combined_error=both,
        coverage_90=six_digits(blend.inside) if blend.scored else None,
        ranked=len(pairs),
        rcc=order[0],
        rcc_symmetric=order[1],
        r_squared=order[2],
        importances=_rounded(model.importances()) if isinstance(model, Chosen) else {},
    )


def _order(pairs: Sequence[tuple[float, float]]) -> tuple[float | None, float | None, float | None]:
    if len(pairs) < RANKED_MIN:
        return None, None, None
    predicted, actual = np.array(pairs).T
    rcc_, symmetric, explained = (_known(score(predicted, actual)) for score in (rcc, rcc_symmetric, r_squared))
    return rcc_, symmetric, explained


def _known(value: float) -> float | None:
    return six_digits(value) if math.isfinite(value) else None


def _rounded(shares: dict[str, float]) -> dict[str, float]:
    return {name: six_digits(share) for name, share in shares.items() if share > 0}
