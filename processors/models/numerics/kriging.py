"""A smooth function of many columns, fitted to all retained runs: local Kriging.

The covariance is a Matern function (C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, 4.17) with a
separate correlation length, called reach, for each column (5.1). The reaches maximise the likelihood of a sample of runs. The
search uses Rprop (M. Blum, M. Riedmiller, "Optimization of Gaussian process hyperparameters using Rprop", ESANN 2013). A
prediction uses only the NEAR nearest runs (R. Gramacy, D. Apley, "Local Gaussian process approximation for large computer
experiments", 2015). The cost of a prediction therefore does not grow with the runs, and adding runs inverts no matrix.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from processors.models.numerics.arrays import Floats, Ints, RowPredictions
from processors.models.numerics.scipy_functions import inverse_and_ln_determinant

NEAR: Final = 64  # nearest runs used for a prediction
SAMPLE: Final = 256  # runs from which the reaches are chosen; inverting their matrix takes some milliseconds
STEPS: Final = 40  # steps of the search; more steps change no prediction by 1 %
STEPS_ON: Final = 8  # steps of a search that starts from an earlier result
GROUPS_MAX: Final = 48  # largest number of reaches in a search
_USUAL: Final = math.log(3.0)  # prior mean of ln of a reach; a reach is in standard deviations of its column
_UNSURE: Final = 4.0  # prior variance of ln of a reach
_LOWEST, _HIGHEST = math.log(0.05), math.log(150.0)  # limits of ln of a reach
_PART: Final = (-4.0, 4.0)  # limits of ln of the smooth part, as a share of the variance of the target
_NOISE: Final = (-9.0, 2.0)  # limits of ln of the noise, as a share of the variance of the target
_FIRST_STEP: Final = 0.2
_STEP_MIN, _STEP_MAX = 1e-3, 1.0
_FASTER, _SLOWER = 1.2, 0.5
_CLOSE: Final = 1e-12

Search = dict[str, Any]
"""The state of a search as plain data.

`at` is the current position, with a number for each reach, then smooth part and noise, all in ln. `step` and `slope` are the
step lengths and the signs of the gradient, `best` the position with the least loss, `least`, and `done` the number of steps.
"""


class Reaches(NamedTuple):
    """The parameters of a kriging model.

    `reach` (groups,) is the correlation length of each group of columns, in units of the standard deviation of a column. `part`
    and `noise` are the variances of the smooth part and of the noise, as shares of the variance of the target.
    """

    reach: Floats
    part: float
    noise: float

    @classmethod
    def of(cls, search: Mapping[str, Any]) -> "Reaches":
        values = np.exp(np.array(search["best"], np.float64))
        return cls(values[:-2], float(values[-2]), float(values[-1]))


class KrigingPoints(NamedTuple):
    """Distinct rows (k, p), their mean targets (k,), and their weights (k,)."""

    values: Floats
    target: Floats
    weight: Floats

    @classmethod
    def of(cls, values: Floats, target: Floats, weight: Floats) -> "KrigingPoints":
        """Return the points of rows (m, p) with their targets (m,) and weights (m,); equal rows are merged."""
        rows, place = np.unique(values, axis=0, return_inverse=True)
        heavy = np.bincount(place.ravel(), weight).astype(np.float64)
        return cls(rows, np.bincount(place.ravel(), weight * target) / heavy, heavy)


@dataclass(frozen=True, slots=True, eq=False)
class Kriging:
    """A fitted process: `rows` (k, p) in units of their correlation lengths, targets and variances in the unit of the target.

    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> points = KrigingPoints.of(x, np.sin(x[:, 0]), np.ones(40))
    >>> found = kriging(points, [0], Reaches.of(list(searching(points, [0]))[-1]))
    >>> found.predict(np.array([[1.0]])).value.round(2).tolist()
    [0.84]
    """

    mean: Floats
    unit: Floats
    rows: Floats
    target: Floats
    noise: Floats
    part: float
    single: float

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p), each from the NEAR nearest points, with standard deviations that grow with the distance."""
        scaled = (values - self.mean) / self.unit
        predictions = np.array([self._one(row) for row in scaled]).reshape(len(values), 2)
        return RowPredictions(predictions[:, 0], np.sqrt(predictions[:, 1]))

    def _one(self, row: Floats) -> tuple[float, float]:
        between = ((self.rows - row) ** 2).sum(axis=1)
        near = np.argpartition(between, NEAR - 1)[:NEAR] if len(between) > NEAR else np.arange(len(between))
        rows = self.rows[near]
        among = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
        covariance = self.part * matern(among)
        covariance[np.diag_indices(len(near))] += self.noise[near]
        to_near = self.part * matern(between[near])
        weight = np.linalg.solve(covariance, to_near)
        variance = max(self.part - float(weight @ to_near), 0.0) + self.single
        return float(weight @ self.target[near]), variance


def matern(squared: Floats) -> Floats:
    """Return the Matern correlation with smoothness 3/2 for squared distances in units of the correlation lengths.

    >>> matern(np.array([0.0, 1.0])).round(3).tolist()
    [1.0, 0.483]
    """
    distance = np.sqrt(3.0 * np.maximum(squared, _CLOSE))
    return np.asarray((1.0 + distance) * np.exp(-distance))


def searching(
    points: KrigingPoints, group: Sequence[int] | Ints, search: Search | None = None
) -> Generator[Search, None, Search]:
    """Search for the parameters with the least loss. Yield the state after each step, and return the last state.

    The search continues from the state `search`, which is ignored if it is for another number of groups. `group` (p,) is the index
    of the correlation length of each column. Raise ValueError for more than GROUPS_MAX groups.

    >>> points = KrigingPoints.of(np.arange(9.0)[:, None], np.arange(9.0) ** 2, np.ones(9))
    >>> len(list(searching(points, [0]))), next(searching(points, [0], {"done": STEPS - 1, **begun(1)}))["done"]
    (40, 40)
    """
    groups = int(max(group)) + 1
    if groups > GROUPS_MAX:
        raise ValueError(f"The search supports at most {GROUPS_MAX} correlation lengths, not {groups}.")
    state = search if search is not None and len(search["at"]) == groups + 2 else {**begun(groups), "done": 0}
    if state["done"] >= STEPS:
        return state
    likelihood = _Likelihood(_sample(points), np.asarray(group), groups)
    while state["done"] < STEPS:
        state = _step(state, likelihood)
        yield state
    return state


def begun(groups: int) -> Search:
    """Return the state of a search for `groups` correlation lengths before its first step, without the key `done`."""
    at = [_USUAL] * groups + [0.0, math.log(0.05)]
    return {"at": at, "step": [_FIRST_STEP] * len(at), "slope": [0.0] * len(at), "best": at, "least": None}


def onward(search: Search) -> Search:
    """Return the start state of a search after the runs have changed: from the best position of `search`, with STEPS_ON steps left.

    >>> onward({**begun(1), "done": STEPS})["done"] == STEPS - STEPS_ON
    True
    """
    count = len(search["best"])
    fresh = {"step": [_FIRST_STEP / 2] * count, "slope": [0.0] * count, "least": None, "done": STEPS - STEPS_ON}
    return {**search, "at": search["best"], **fresh}


def kriging(points: KrigingPoints, group: Sequence[int] | Ints, chosen: Reaches) -> Kriging:
    """Return the process of points with the parameters `chosen`; `group` (p,) is the index of the correlation length of each column.

    >>> points = KrigingPoints.of(np.array([[0.0], [1.0]]), np.array([1.0, 3.0]), np.ones(2))
    >>> found = kriging(points, [0], Reaches(np.array([1.0]), 1.0, 1e-9))
    >>> found.predict(np.array([[1.0], [99.0]])).value.round(3).tolist()
    [3.0, 0.0]
    """
    mean, unit = _scale(points.values)
    spread = float(points.target.std()) or 1.0
    unit = unit * chosen.reach[np.asarray(group)]
    noise = spread**2 * chosen.noise
    rows = (points.values - mean) / unit
    return Kriging(mean, unit, rows, points.target, noise / points.weight, spread**2 * chosen.part, noise)


def _scale(values: Floats) -> tuple[Floats, Floats]:
    deviation = values.std(axis=0)
    return values.mean(axis=0), np.where(deviation > 0, deviation, 1.0)


def _sample(points: KrigingPoints) -> KrigingPoints:
    """Return the points, or a random selection of SAMPLE points if there are more; the seed is fixed."""
    if len(points.target) <= SAMPLE:
        return points
    at = np.sort(np.random.default_rng(1).permutation(len(points.target))[:SAMPLE])
    return KrigingPoints(points.values[at], points.target[at], points.weight[at])


class _Likelihood:
    """The loss that the search minimises: minus ln of likelihood times prior of the parameters, for the given points."""

    def __init__(self, points: KrigingPoints, group: Ints, groups: int) -> None:
        mean, unit = _scale(points.values)
        rows = (points.values - mean) / unit
        count = len(rows)
        self._between = np.zeros((groups, count * count))  # squared distances, by group
        for column, of in zip(rows.T, group.tolist(), strict=True):
            self._between[of] += ((column[:, None] - column) ** 2).ravel()
        self._target = points.target / (float(points.target.std()) or 1.0)
        self._thinner = 1.0 / points.weight

    def __call__(self, at: Floats) -> tuple[float, Floats]:
        """Return the loss, which is -ln of likelihood times prior, and its gradient (groups + 2,)."""
        count, reach = len(self._target), np.exp(-2.0 * at[:-2])
        part, noise = np.exp(at[-2:])
        distance = np.sqrt(3.0 * np.maximum(reach @ self._between, _CLOSE)).reshape(count, count)
        fading = np.exp(-distance)
        smooth = part * (1.0 + distance) * fading
        own = noise * self._thinner
        inverse, ln_det = inverse_and_ln_determinant(smooth + np.diag(own))
        answer = inverse @ self._target
        rest = inverse - np.outer(answer, answer)
        further = at[:-2] - _USUAL
        loss = (float(self._target @ answer) + ln_det + float(further @ further) / _UNSURE) / 2.0
        by_reach = 1.5 * (self._between @ (part * fading * rest).ravel()) * reach
        by_rest = np.array([float((rest * smooth).sum()), float(np.diag(rest) @ own)]) / 2.0
        return loss, np.concatenate([by_reach + further / _UNSURE, by_rest])


def _step(search: Search, likelihood: _Likelihood) -> Search:
    """Return the state after a step of Rprop: each number moves against the sign of its slope; steps grow while the sign is unchanged."""
    at, step, before = (np.array(search[name], np.float64) for name in ("at", "step", "slope"))
    loss, slope = likelihood(at)
    better = search["least"] is None or loss < search["least"]
    turn = np.sign(slope * before)
    step = np.where(turn > 0, step * _FASTER, np.where(turn < 0, step * _SLOWER, step)).clip(_STEP_MIN, _STEP_MAX)
    slope = np.where(turn < 0, 0.0, slope)
    low = np.array([_LOWEST] * (len(at) - 2) + [_PART[0], _NOISE[0]])
    high = np.array([_HIGHEST] * (len(at) - 2) + [_PART[1], _NOISE[1]])
    return {
        "at": np.clip(at - np.sign(slope) * step, low, high).tolist(),
        "step": step.tolist(),
        "slope": np.sign(slope).tolist(),
        "best": at.tolist() if better else search["best"],
        "least": float(loss) if better else search["least"],
        "done": search["done"] + 1,
    }
