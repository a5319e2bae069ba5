"""A function of many columns that bends smoothly, from as many runs as are retained: Kriging of what is near.

C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006: a Matern covariance (4.17) with a reach of its own
for each column (5.1), chosen by the likelihood of some runs. M. Blum, M. Riedmiller, "Optimization of Gaussian process
hyperparameters using Rprop", ESANN 2013: how it is found, a step at a time. R. Gramacy, D. Apley, "Local Gaussian process
approximation for large computer experiments", 2015: an answer takes the NEAR runs that matter most, so that it costs the
same of any number of runs, and nothing is inverted when runs are taken in.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import inverse_and_ln_determinant

Integers = npt.NDArray[np.int64]

NEAR: Final = 64  # runs that an answer is made of
SAMPLE: Final = 256  # runs by which reaches are chosen: a matrix of so many is inverted in some milliseconds
STEPS: Final = 40  # of the search: more change no answer by a hundredth
STEPS_ON: Final = 8  # of one that goes on from what was found of other runs of the same kind
GROUPS_MAX: Final = 48  # reaches that are looked for
_USUAL: Final = math.log(3.0)  # deviations of its column that a reach is, as far as nothing is known of it,
_UNSURE: Final = 4.0  # and the variance of its ln
_LOWEST, _HIGHEST = math.log(0.05), math.log(150.0)  # a reach lies between,
_PART: Final = (-4.0, 4.0)  # ln of the part of the target's variance that is smooth,
_NOISE: Final = (-9.0, 2.0)  # and of that which is not
_FIRST_STEP: Final = 0.2
_STEP_MIN, _STEP_MAX = 1e-3, 1.0
_FASTER, _SLOWER = 1.2, 0.5
_CLOSE: Final = 1e-12

Search = dict[str, Any]
"""Where a search is, as plain data: `at`, `step`, `slope` (a number for each reach, then part and noise), `best`, `least`, `done`."""


class Reaches(NamedTuple):
    """The reach of each group of columns in deviations (groups,), the smooth part and the noise in variances of the target.

    >>> Reaches.of({"best": [0.0, 0.0, math.log(0.25)]}).noise
    0.25
    """

    reach: Floats
    part: float
    noise: float

    @classmethod
    def of(cls, search: Mapping[str, Any]) -> "Reaches":
        """Return what a search found best so far."""
        found = np.exp(np.array(search["best"], np.float64))
        return cls(found[:-2], float(found[-2]), float(found[-1]))


class KrigingPoints(NamedTuple):
    """Rows (k, p) that differ, their targets (k,), and by how many runs each is known (k,).

    >>> KrigingPoints.of(np.array([[1.0], [2.0], [1.0]]), np.array([3.0, 9.0, 5.0]), np.ones(3)).target.tolist()
    [4.0, 9.0]
    """

    values: Floats
    target: Floats
    weight: Floats

    @classmethod
    def of(cls, values: Floats, target: Floats, weight: Floats) -> "KrigingPoints":
        """Return the points of rows (m, p): runs that are alike are one, with their mean."""
        rows, place = np.unique(values, axis=0, return_inverse=True)
        place = place.reshape(-1)
        heavy = np.bincount(place, weight, len(rows)).astype(np.float64)
        return cls(rows, np.bincount(place, weight * target, len(rows)) / heavy, heavy)


@dataclass(frozen=True, slots=True, eq=False)
class Kriging:
    """The process of some points: their rows in units of the reaches, targets and noise in those of the target.

    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> points = KrigingPoints.of(x, np.sin(x[:, 0]), np.ones(40))
    >>> found = kriging(points, [0], Reaches.of(list(searching(points, [0]))[-1]))
    >>> found.predict(np.array([[1.0]])).target.round(2).tolist()
    [0.84]
    """

    mean: Floats
    unit: Floats
    rows: Floats
    target: Floats
    noise: Floats
    part: float
    single: float

    def predict(self, values: Floats) -> "KrigingAnswers":
        """Return the target of rows (m, p), and the deviation of a run from it: larger where no run is near."""
        requested = (values - self.mean) / self.unit
        found = np.array([self._one(row) for row in requested]).reshape(len(values), 2)
        return KrigingAnswers(found[:, 0], np.sqrt(found[:, 1]))

    def _one(self, row: Floats) -> tuple[float, float]:
        between = ((self.rows - row) ** 2).sum(axis=1)
        near = np.argpartition(between, NEAR - 1)[:NEAR] if len(between) > NEAR else np.arange(len(between))
        rows = self.rows[near]
        among = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
        covariance = self.part * matern(among)
        covariance[np.diag_indices(len(near))] += self.noise[near]
        own = self.part * matern(between[near])
        weight = np.linalg.solve(covariance, own)
        variance = max(self.part - float(weight @ own), 0.0) + self.single
        return float(weight @ self.target[near]), variance


class KrigingAnswers(NamedTuple):
    """What is answered of rows: the target (m,), and its standard deviation (m,).

    >>> KrigingAnswers(np.array([2.0]), np.array([0.1])).target.tolist()
    [2.0]
    """

    target: Floats
    deviation: Floats


def matern(squared: Floats) -> Floats:
    """Return the covariance of points by the square of their distance in reaches: smooth, and yet able to bend.

    >>> matern(np.array([0.0, 1.0])).round(3).tolist()
    [1.0, 0.483]
    """
    distance = np.sqrt(3.0 * np.maximum(squared, _CLOSE))
    return np.asarray((1.0 + distance) * np.exp(-distance))


def searching(
    points: KrigingPoints, group: Sequence[int] | Integers, search: Search | None = None
) -> Generator[Search, None, Search]:
    """Yield after each step of the search for reaches, from `search` on, and return it; `group` (p,) says whose reach a column has.

    A search of other columns is begun anew. Raises ValueError for more than GROUPS_MAX reaches.

    >>> points = KrigingPoints.of(np.arange(9.0)[:, None], np.arange(9.0) ** 2, np.ones(9))
    >>> len(list(searching(points, [0]))), next(searching(points, [0], {"done": STEPS - 1, **begun(1)}))["done"]
    (40, 40)
    """
    groups = int(max(group)) + 1
    if groups > GROUPS_MAX:
        raise ValueError(f"Reaches of more than {GROUPS_MAX} attributes are not looked for.")
    found = search if search is not None and len(search["at"]) == groups + 2 else {**begun(groups), "done": 0}
    if found["done"] >= STEPS:
        return found
    likelihood = _Likelihood(_sample(points), np.asarray(group), groups)
    while found["done"] < STEPS:
        found = _step(found, likelihood)
        yield found
    return found


def begun(groups: int) -> Search:
    """Return a search before its first step, all but `done`.

    >>> begun(1)["slope"]
    [0.0, 0.0, 0.0]
    """
    at = [_USUAL] * groups + [0.0, math.log(0.05)]
    return {"at": at, "step": [_FIRST_STEP] * len(at), "slope": [0.0] * len(at), "best": at, "least": None}


def onward(search: Search) -> Search:
    """Return a search that goes on, for runs that are other ones, from what was found of those before.

    >>> onward({**begun(1), "done": STEPS})["done"] == STEPS - STEPS_ON
    True
    """
    count = len(search["best"])
    fresh = {"step": [_FIRST_STEP / 2] * count, "slope": [0.0] * count, "least": None, "done": STEPS - STEPS_ON}
    return {**search, "at": search["best"], **fresh}


def kriging(points: KrigingPoints, group: Sequence[int] | Integers, chosen: Reaches) -> Kriging:
    """Return the process of points with these reaches; `group` (p,) says whose reach a column has.

    >>> points = KrigingPoints.of(np.array([[0.0], [1.0]]), np.array([1.0, 3.0]), np.ones(2))
    >>> found = kriging(points, [0], Reaches(np.array([1.0]), 1.0, 1e-9))
    >>> found.predict(np.array([[1.0], [99.0]])).target.round(3).tolist()
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
    """Return some of the points, drawn evenly by a seed."""
    if len(points.target) <= SAMPLE:
        return points
    at = np.sort(np.random.default_rng(1).permutation(len(points.target))[:SAMPLE])
    return KrigingPoints(points.values[at], points.target[at], points.weight[at])


class _Likelihood:
    """By how much reaches, part and noise are unlikely, of some points: -ln of it, with its slope in their ln."""

    def __init__(self, points: KrigingPoints, group: Integers, groups: int) -> None:
        mean, unit = _scale(points.values)
        rows = (points.values - mean) / unit
        count = len(rows)
        self._between = np.zeros((groups, count * count))  # squared, by group
        for column, of in zip(rows.T, group.tolist(), strict=True):
            self._between[of] += ((column[:, None] - column) ** 2).ravel()
        self._target = points.target / (float(points.target.std()) or 1.0)
        self._thinner = 1.0 / points.weight

    def __call__(self, at: Floats) -> tuple[float, Floats]:
        """Return -ln likelihood and prior, and the slope (groups + 2,)."""
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
    """Return a search after one more step of Rprop: along the sign of each slope, further where it stays."""
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
