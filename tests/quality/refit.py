"""Fit gate, scale and shipped scores of the combination to the prequential forecasts of measured curves.

The gate minimises the soft absolute error of ln T, with a ridge; half of the weight is on forecasts that know nothing of
other curves of the application, so that lone curves are served well too.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from processors.models.combination.combine import SHIPPED, Coefficients, summary
from processors.models.combination.evidence import (
    CURVATURE_UNIT,
    ENSEMBLE,
    LawEvidence,
    LawGate,
    Related,
    related_losses,
)
from processors.models.combination.replay import (
    JUMP,
    JUMP_DOUBLINGS_MAX,
    SOFT_SQUARE,
    ErrorScale,
    ForecastRows,
    features,
    hindsights,
    replay,
    total_losses,
)
from tests.kit.combination import combine, prequential
from tests.quality.curves import Measured, applications, as_curve
from tests.quality.likelihood import atoms, balanced, fit_scale, joined, per_run
from tests.quality.made_curves import FOLD
from tests.quality.refit_inside import fit_inside

Floats = NDArray[np.float64]

RIDGE = 1e-3
BALANCE = 0.5  # power of a group's forecasts that its weight is divided by
MADE_SHARE = 1.0 / 6.0  # of the weight, on curves that were made up
ALONE_SHARE = 0.5  # of the weight, on forecasts without related curves
HORIZONS = ((0.0, 1.001), (1.001, 2.001), (2.001, np.inf))
LAW_COUNT = len(ENSEMBLE)
START = np.concatenate([np.zeros(2 * LAW_COUNT), [0.5, 0.4, 1.5], np.zeros(LAW_COUNT)])


@dataclass(frozen=True)
class Training:
    """All forecasts of some curves: one row each, what the gate sees and what came of it."""

    elasticity: Floats
    observed: Floats
    distance: Floats
    curvature: Floats
    own: Floats
    last: Floats
    related: Floats
    doubt: Floats
    weight: Floats

    def alone(self) -> "Training":
        """Return the same forecasts, without anything known of related curves."""
        nothing = {"related": np.zeros_like(self.related), "doubt": np.ones_like(self.doubt)}
        return Training(**{**vars(self), **nothing})


def refit(curves: Sequence[Measured]) -> Coefficients:
    """Return coefficients fitted to all forecasts of these curves."""
    by_application = applications(curves)
    training, rows = [], []
    for found in by_application.values():
        reported = [combine(as_curve(curve, curve.sizes)) for curve in found]
        related_curves = [summary(each.evidence) for each in reported]
        made = [prequential(combine(each.evidence.curve, related_curves)) for each in reported]
        rows.append(made)
        for curve, each, row in zip(found, reported, made, strict=True):
            record = related_losses(Related(tuple(related_curves)), row.key, row.system, np.array(row.target))
            training.append((curve.group, _seen(each.evidence, row, record.losses, record.doubt)))
    gate = _fit_gate(_joined(training))
    return _fit_bands(by_application, gate)


def _seen(found: LawEvidence, row: ForecastRows, related: Floats, doubt: Floats) -> Training:
    return Training(
        elasticity=row.elasticity,
        observed=row.observed,
        distance=row.distance,
        curvature=found.curvature[row.row],
        own=row.own,
        last=found.last[row.row],
        related=related,
        doubt=doubt,
        weight=row.weight,
    )


def _joined(parts: list[tuple[str, Training]]) -> Training:
    of_group: dict[str, float] = defaultdict(float)
    for group, part in parts:
        of_group[group] += float(part.weight.sum())
    columns = {name: np.concatenate([getattr(part, name) for _, part in parts]) for name in Training.__annotations__}
    weights = [part.weight / of_group[group] ** BALANCE for group, part in parts]
    columns["weight"] = np.concatenate(with_made([group for group, _ in parts], weights))
    return Training(**columns)


def with_made(groups: Sequence[str], weights: Sequence[Floats]) -> list[Floats]:
    """Return the weights of forecasts with those of curves that were made up scaled to their share of the whole."""
    made = [group.startswith(FOLD) for group in groups]
    total = {
        kind: sum(float(w.sum()) for w, own in zip(weights, made, strict=True) if own is kind) for kind in (True, False)
    }
    factor = MADE_SHARE / (1.0 - MADE_SHARE) * total[False] / total[True] if total[True] else 1.0
    return [weight * factor if own else weight for weight, own in zip(weights, made, strict=True)]


def _fit_gate(seen: Training) -> LawGate:
    halves = ((seen, 1.0 - ALONE_SHARE), (seen.alone(), ALONE_SHARE))
    total = seen.weight.sum()

    def loss(x: Floats) -> tuple[float, Floats]:
        value, gradient = RIDGE * float(x @ x), 2.0 * RIDGE * x
        for part, share in halves:
            of_part, along = _gate_loss(part, x)
            value, gradient = value + share * of_part / total, gradient + share * along / total
        return value, gradient

    found = minimize(loss, START, jac=True, method="L-BFGS-B", options={"maxiter": 150}).x
    prior, curvature, costs, alone = np.split(found.round(4), [LAW_COUNT, 2 * LAW_COUNT, 2 * LAW_COUNT + 3])
    own, last, related = costs.tolist()
    return LawGate(tuple(prior.tolist()), tuple(curvature.tolist()), own, last, related, tuple(alone.tolist()))


def _gate_loss(seen: Training, x: Floats) -> tuple[float, Floats]:
    prior, curvature, (own, last, related), alone = np.split(x, [LAW_COUNT, 2 * LAW_COUNT, 2 * LAW_COUNT + 3])
    bend, doubt = CURVATURE_UNIT * seen.curvature[:, None], seen.doubt[:, None]
    logit = prior + bend * curvature - own * seen.own - last * seen.last - related * seen.related + doubt * alone
    mass = np.exp(logit - logit.max(axis=1, keepdims=True))
    shares = mass / mass.sum(axis=1, keepdims=True)
    forecast = (shares * seen.elasticity).sum(axis=1)
    error = (forecast - seen.observed) * seen.distance
    soft = np.sqrt(error**2 + SOFT_SQUARE)
    pull = (seen.weight * seen.distance * error / soft)[:, None] * shares * (seen.elasticity - forecast[:, None])
    costs = [-(pull * losses).sum() for losses in (seen.own, seen.last, seen.related)]
    gradient = [pull.sum(axis=0), (bend * pull).sum(axis=0), costs, (doubt * pull).sum(axis=0)]
    return float((seen.weight * soft).sum()), np.concatenate(gradient)


def _fit_bands(by_application: dict[str, list[Measured]], gate: LawGate) -> Coefficients:
    """Return the gate with the scale and the scores of its own forecasts, offsets learned on the way."""
    reported, errors, weights, carried = [], [], [], []
    for found in by_application.values():
        first = [combine(as_curve(curve, curve.sizes)) for curve in found]
        related_curves = [summary(each.evidence) for each in first]
        made = [
            prequential(combine(each.evidence.curve, related_curves, coefficients=SHIPPED._replace(gate=gate)))
            for each in first
        ]
        replayed = replay(made)
        cost = total_losses(made, replayed)
        for curve, row, shares in zip(found, made, replayed.shares, strict=True):
            for i, each in enumerate(hindsights(row, shares, cost)):
                carried.append(np.full(each.ln_t.size, i == 1))
                reported.append((curve.group, each.given))
                errors.append(row.ln_ratio - each.ln_t[:, None])
                weights.append(each.weight)
    seen = np.concatenate([features(each) for _, each in reported])
    distance = np.concatenate([each.distance for _, each in reported])
    groups = [group for group, _ in reported]
    weight = per_run(with_made(groups, balanced(groups, weights)), errors)
    error = joined(errors)
    scale = ErrorScale(*fit_scale(seen, error, weight, SHIPPED.scale))
    measured = {name: found for name, found in by_application.items() if found[0].fold != FOLD}
    inside_scale, inside_atoms = fit_inside(measured)
    ln_s = np.clip(seen @ np.array(scale), -5.0, 1.0)
    score = error / (np.exp(ln_s) + JUMP * np.minimum(distance, JUMP_DOUBLINGS_MAX))[:, None]
    shipped = _atoms(distance, score, weight, np.concatenate(carried))
    return Coefficients(gate, scale, shipped, inside_scale, inside_atoms)


def _atoms(
    distance: Floats, score: Floats, weight: Floats, carried: NDArray[np.bool_]
) -> tuple[tuple[float, ...], ...]:
    """Return the shipped scores by distance: of forecasts by the laws, then of those that related curves carry."""
    near = [(carried == by) & (distance > low) & (distance <= high) for by in (False, True) for low, high in HORIZONS]
    return tuple(atoms(score[chosen], weight[chosen]) for chosen in near)
