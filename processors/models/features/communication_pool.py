"""Costs of communication that the applications of a system share, each at its own scale.

A byte over a busy link takes as long whoever sent it. So the costs of units (`processors.models.features.communication_costs`) are
learned from the runs of all applications together (the models over several benchmarks of N. Jain et al., SC 2013, section
6), and of an application itself nothing is learned but two numbers: how many times it does what its features tell, and what
it takes besides. An application that ran a few times at a few processes then has its mappings at many put in order by what
others have shown.

`shared` (fits the costs of one set of features) -> `SharedCosts.scaled` (what it says of one application).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import least_squares_not_negative
from processors.models.numerics.statistics import six_digits

Groups = npt.NDArray[np.int64]

ROUNDS: Final = 6  # costs and scales by turns
RUNS_OF_ONE: Final = 4  # least runs of an application that teaches others
APPLICATIONS_MIN: Final = 2
BESIDES: Final = 0.01  # weight of the guess that nothing is taken besides, as parts of a run
DEVIATION_MIN: Final = 0.01
DEVIATION_GUESS: Final = 0.2  # of ln of a run time, counted as one run
TINY: Final = 1e-12


class ScaledCosts(NamedTuple):
    """What shared costs say of one application: `scale` times their sum, and `besides` in seconds; deviation of ln of it.

    >>> ScaledCosts(2.0, 1.0, 0.1).ln(np.array([3.0])).round(3).tolist()
    [1.946]
    """

    scale: float
    besides: float
    deviation: float

    def ln(self, total: Floats) -> Floats:
        """Return ln of the run times of sums of shared costs (m,)."""
        return np.asarray(np.log(np.maximum(self.scale * total + self.besides, TINY)))


@dataclass(frozen=True, slots=True)
class SharedCosts:
    """The cost of a unit of each feature, and the mean |ln ratio| of applications that were left out.

    >>> SharedCosts(("max_bytes",), (2.0,), 0.01).total([{"max_bytes": 3.0}]).tolist()
    [6.0]
    """

    names: tuple[str, ...]
    cost: tuple[float, ...]
    error: float

    def total(self, rows: Sequence[Mapping[str, float]]) -> Floats:
        """Return the sum of costs of runs (m,); KeyError where one does not tell a feature."""
        return np.asarray(columns(self.names, rows) @ np.array(self.cost))

    def scaled(self, rows: Sequence[Mapping[str, float]], time_s: Floats) -> ScaledCosts:
        """Return what is known of an application from its runs: comparable features, and run times (m,), one at least."""
        return scaled(self.total(rows), time_s)


def columns(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> Floats:
    """Return the features of runs as columns (m, p); KeyError where a run does not tell one.

    >>> columns(("a", "b"), [{"b": 2.0, "a": 1.0, "c": 3.0}]).tolist()
    [[1.0, 2.0]]
    """
    return np.array([[row[name] for name in names] for row in rows], np.float64).reshape(len(rows), len(names))


def scaled(total: Floats, time_s: Floats) -> ScaledCosts:
    """Return scale and rest of one application's run times (m,) over sums of costs (m,): relative squares are least.

    A few runs alone do not say what is taken besides: that it is nothing counts as a hundredth of a run.

    >>> found = scaled(np.array([1.0, 2.0, 3.0, 4.0]), np.array([7.0, 9.0, 11.0, 13.0]))
    >>> round(found.scale, 1), round(found.besides, 1)
    (2.0, 5.0)
    """
    mean = float(time_s.mean())
    terms = np.stack([total / time_s, mean / time_s], axis=1)
    guess = np.array([[0.0, np.sqrt(BESIDES)]])
    found = least_squares_not_negative(np.concatenate([terms, guess]), np.append(np.ones(len(time_s)), 0.0))
    scale, besides = float(found[0]), float(found[1]) * mean
    if scale <= 0 and besides <= 0:
        besides = mean
    off = np.log(time_s) - ScaledCosts(scale, besides, 0.0).ln(total)
    free = max(len(time_s) - 1, 0)
    deviation = float(np.sqrt((off @ off + DEVIATION_GUESS**2) / (free + 1)))
    return ScaledCosts(scale, besides, max(deviation, DEVIATION_MIN))


def shared(names: tuple[str, ...], rows: Sequence[Mapping[str, float]], time_s: Floats, group: Groups) -> SharedCosts:
    """Return the costs of features that applications share, from runs with their comparable features and run times (k,).

    `group` (k,) numbers their applications, which weigh alike. Raises ValueError unless APPLICATIONS_MIN of them have
    RUNS_OF_ONE runs each.

    >>> rows = [{"max_bytes": float(i % 5 + 1)} for i in range(20)]
    >>> group = np.arange(20) // 10
    >>> found = shared(("max_bytes",), rows, np.array([row["max_bytes"] for row in rows]) * (1 + 9 * group), group)
    >>> found.error < 1e-3
    True
    """
    values = columns(names, rows)
    many = [number for number in np.unique(group).tolist() if int((group == number).sum()) >= RUNS_OF_ONE]
    if len(many) < APPLICATIONS_MIN:
        raise ValueError(f"Shared costs need {APPLICATIONS_MIN} applications with {RUNS_OF_ONE} runs each.")
    known = np.isin(group, many)
    values, time_s, group = values[known], time_s[known], group[known]
    off = [_off(values, time_s, group, number) for number in many]
    error = float(np.mean([np.abs(each).mean() for each in off]))
    return SharedCosts(
        names, tuple(six_digits(each) for each in _costs(values, time_s, group).tolist()), six_digits(error)
    )


def _off(values: Floats, time_s: Floats, group: Groups, number: int) -> Floats:
    """Return ln of observed over predicted of half the runs of an application, scaled by the other half, costs by the others."""
    own = np.flatnonzero(group == number)
    total = values @ _costs(values[group != number], time_s[group != number], group[group != number])
    first, second = own[::2], own[1::2]
    return np.log(time_s[second]) - scaled(total[first], time_s[first]).ln(total[second])


def _costs(values: Floats, time_s: Floats, group: Groups) -> Floats:
    """Return the costs (p,) for which relative squares are least, each application at the scale that suits it best."""
    unit = np.where(values.max(axis=0) > 0, values.mean(axis=0), 1.0)
    terms, each = values / unit, [group == number for number in np.unique(group).tolist()]
    weight = np.sqrt(sum(own / own.sum() for own in each))
    cost = np.full(terms.shape[1], 1.0 / terms.shape[1])
    for _ in range(ROUNDS):
        scale, besides = np.zeros(len(time_s)), np.zeros(len(time_s))
        for own in each:
            found = scaled(terms[own] @ cost, time_s[own])
            scale[own], besides[own] = found.scale, found.besides
        rows = terms * (weight * scale / time_s)[:, None]
        fitted = least_squares_not_negative(rows, weight * (1.0 - besides / time_s))
        if not fitted.any():
            break
        cost = fitted / fitted.sum()
    return np.asarray(cost / unit)
