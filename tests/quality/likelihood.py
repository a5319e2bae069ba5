"""Scales of errors by maximum likelihood, and quantiles of scores, with weights.

The likelihood is that of Student's t with three degrees of freedom, which large errors cannot drag along. Groups (an
application on a system) weigh with the square root of their forecasts.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]

RIDGE = 1e-3
DEGREES = 3.0
ERROR_MIN = 1e-4
LEVELS = (np.arange(20) + 0.5) / 20


def balanced(groups: Sequence[str], weights: Sequence[Floats]) -> list[Floats]:
    """Return the weights of the forecasts of several curves, so that large groups do not count alone."""
    of_group: dict[str, float] = defaultdict(float)
    for group, weight in zip(groups, weights, strict=True):
        of_group[group] += float(weight.sum())
    return [weight / np.sqrt(of_group[group]) for group, weight in zip(groups, weights, strict=True)]


def per_run(weights: Sequence[Floats], errors: Sequence[Floats]) -> Floats:
    """Return the weight of each run of a forecast: they share that of the forecast."""
    share = [weight / (~np.isnan(error)).sum(axis=1) for weight, error in zip(weights, errors, strict=True)]
    joined = np.concatenate(share)
    return np.asarray(joined / joined.sum())


def joined(errors: Sequence[Floats]) -> Floats:
    """Return errors (forecasts, runs) of several curves as one table, nan where there are fewer runs."""
    width = max(each.shape[1] for each in errors)
    return np.concatenate(
        [np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=np.nan) for each in errors]
    )


def fit_scale(seen: Floats, error: Floats, weight: Floats, start: Sequence[float]) -> list[float]:
    """Return the coefficients of ln of the scale: features (m, coefficients), errors (m, runs), weights (m,)."""
    judged = ~np.isnan(error)
    each = weight[:, None] * judged
    safe = np.where(judged, np.abs(error), 1.0) + ERROR_MIN

    def loss(x: Floats) -> tuple[float, Floats]:
        ln_s = (seen @ x)[:, None]
        squares = (safe / np.exp(ln_s)) ** 2 / DEGREES
        value = (each * (ln_s + (DEGREES + 1.0) / 2.0 * np.log1p(squares))).sum()
        along = (each * (1.0 - (DEGREES + 1.0) * squares / (1.0 + squares))).sum(axis=1)
        return float(value + RIDGE * x @ x), seen.T @ along + 2.0 * RIDGE * x

    found: Floats = minimize(loss, np.array(start), jac=True, method="L-BFGS-B").x
    coefficients: list[float] = found.round(4).tolist()
    return coefficients


def atoms(score: Floats, weight: Floats) -> tuple[float, ...]:
    """Return 20 quantiles of scores (m, runs)."""
    judged = ~np.isnan(score)
    each = np.broadcast_to(weight[:, None], score.shape)[judged]
    return tuple(weighted_quantiles(score[judged], each, LEVELS).round(3).tolist())


def weighted_quantiles(values: Floats, weights: Floats, levels: Floats | float) -> Floats:
    """Return the first values at which the given shares of the weight are reached."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    place = np.searchsorted(reached, np.asarray(levels) * reached[-1])
    return np.asarray(values[order][np.minimum(place, values.size - 1)])
