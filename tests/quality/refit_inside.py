"""Fit the scale of errors inside the range of curves, and the shipped scores, by leaving each inner size out."""

from collections.abc import Mapping, Sequence

import numpy as np

from processors.models.combination.combine import SHIPPED
from processors.models.combination.inside import InsideScale, hindsight_features, scales
from tests.kit.combination import combine, prequential
from tests.quality.curves import Measured, as_curve
from tests.quality.likelihood import atoms, balanced, fit_scale, joined, per_run


def fit_inside(by_application: Mapping[str, Sequence[Measured]]) -> tuple[InsideScale, tuple[float, ...]]:
    """Return the scale and the quantiles of the scores."""
    curves = [curve for found in by_application.values() for curve in found]
    reported = [prequential(combine(as_curve(curve, curve.sizes))) for curve in curves]
    errors = [each.inside_error for each in reported]
    groups = [curve.group for curve in curves]
    weight = per_run(balanced(groups, [np.ones(each.shape[0]) for each in errors]), errors)
    seen = np.concatenate([hindsight_features(each.inside) for each in reported])
    scale = InsideScale(*fit_scale(seen, joined(errors), weight, SHIPPED.inside_scale))
    return scale, atoms(joined(errors) / scales(scale, seen)[:, None], weight)
