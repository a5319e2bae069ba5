"""Communication costs that the applications of a system share, each application at its own scale.

A byte over a busy link takes as long whoever sent it. So the costs of units (`processors.models.features.communication_costs`)
are learned from the runs of all applications together (the models over several benchmarks of N. Jain et al., SC 2013,
section 6). An application itself adds two numbers: the scale of its features, and the rest of its run time. So the mappings
of an application that ran a few times on a few processes can be ordered for many processes.
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

ROUNDS: Final = 6  # of fitting costs and scales in turn
RUNS_OF_ONE: Final = 4  # runs of an application before it counts for others
APPLICATIONS_MIN: Final = 2
BESIDES: Final = 0.01  # weight of the prior that the rest is 0, in runs
DEVIATION_MIN: Final = 0.01
DEVIATION_GUESS: Final = 0.2  # prior deviation of a ln run time, with the weight of one run
TINY: Final = 1e-12


class ScaledCosts(NamedTuple):
    """The shared costs applied to one application: `scale` times their sum plus `besides` in s; deviation of ln of it."""

    scale: float
    besides: float
    deviation: float

    def ln(self, total: Floats) -> Floats:
        """Return ln of the run times for sums of shared costs (m,)."""
        return np.asarray(np.log(np.maximum(self.scale * total + self.besides, TINY)))


@dataclass(frozen=True, slots=True)
class SharedCosts:
    """The cost of a unit of each feature, and the mean |ln ratio| of left-out applications."""

    names: tuple[str, ...]
    cost: tuple[float, ...]
    error: float

    def total(self, rows: Sequence[Mapping[str, float]]) -> Floats:
        """Return the sums of costs of runs (m,); KeyError if a run lacks a feature."""
        return np.asarray(columns(self.names, rows) @ np.array(self.cost))

    def scaled(self, rows: Sequence[Mapping[str, float]], time_s: Floats) -> ScaledCosts:
        """Return scale and rest of an application from the features and run times (m,) of its runs, at least one."""
        return scaled(self.total(rows), time_s)


def columns(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> Floats:
    """Return the features of runs as columns (m, p); KeyError if a run lacks one."""
    return np.array([[row[name] for name in names] for row in rows], np.float64).reshape(len(rows), len(names))


def scaled(total: Floats, time_s: Floats) -> ScaledCosts:
    """Fit scale and rest of one application's run times (m,) to sums of costs (m,) by least relative squares.

    A few runs do not determine the rest: a rest of 0 counts as a hundredth of a run.

    >>> solution = scaled(np.array([1.0, 2.0, 3.0, 4.0]), np.array([7.0, 9.0, 11.0, 13.0]))
    >>> round(solution.scale, 1), round(solution.besides, 1)
    (2.0, 5.0)
    """
    mean = float(time_s.mean())
    terms = np.stack([total / time_s, mean / time_s], axis=1)
    guess = np.array([[0.0, np.sqrt(BESIDES)]])
    solution = least_squares_not_negative(np.concatenate([terms, guess]), np.append(np.ones(len(time_s)), 0.0))
    scale, besides = float(solution[0]), float(solution[1]) * mean
    if scale <= 0 and besides <= 0:
        besides = mean
    ln_ratios = np.log(time_s) - ScaledCosts(scale, besides, 0.0).ln(total)
    free = max(len(time_s) - 1, 0)
    deviation = float(np.sqrt((ln_ratios @ ln_ratios + DEVIATION_GUESS**2) / (free + 1)))
    return ScaledCosts(scale, besides, max(deviation, DEVIATION_MIN))


def shared(names: tuple[str, ...], rows: Sequence[Mapping[str, float]], time_s: Floats, group: Groups) -> SharedCosts:
    """Return the shared costs of features, from runs with their comparable features and run times (k,).

    `group` (k,) numbers the applications, which have equal weight. Raises ValueError unless APPLICATIONS_MIN of them have
    RUNS_OF_ONE runs each.

    >>> rows = [{"max_bytes": float(i % 5 + 1)} for i in range(20)]
    >>> group = np.arange(20) // 10
    >>> found = shared(("max_bytes",), rows, np.array([row["max_bytes"] for row in rows]) * (1 + 9 * group), group)
    >>> found.error < 1e-3
    True
    """
    values = columns(names, rows)
    applications = [number for number in np.unique(group).tolist() if int((group == number).sum()) >= RUNS_OF_ONE]
    if len(applications) < APPLICATIONS_MIN:
        raise ValueError(f"Shared costs need {APPLICATIONS_MIN} applications with {RUNS_OF_ONE} runs each.")
    used = np.isin(group, applications)
    values, time_s, group = values[used], time_s[used], group[used]
    errors_by_application = [_off(values, time_s, group, number) for number in applications]
    error = float(np.mean([np.abs(ln_ratios).mean() for ln_ratios in errors_by_application]))
    return SharedCosts(
        names, tuple(six_digits(cost) for cost in _costs(values, time_s, group).tolist()), six_digits(error)
    )


def _off(values: Floats, time_s: Floats, group: Groups, number: int) -> Floats:
    """Return ln of actual over predicted for half the runs of an application.

    Its scale comes from the other half of its runs, the costs from the other applications.
    """
    positions = np.flatnonzero(group == number)
    total = values @ _costs(values[group != number], time_s[group != number], group[group != number])
    first, second = positions[::2], positions[1::2]
    return np.log(time_s[second]) - scaled(total[first], time_s[first]).ln(total[second])


def _costs(values: Floats, time_s: Floats, group: Groups) -> Floats:
    """Return the costs (p,) with the least relative squares, with each application at its own best scale."""
    unit = np.where(values.max(axis=0) > 0, values.mean(axis=0), 1.0)
    terms, members_by_application = values / unit, [group == number for number in np.unique(group).tolist()]
    weight = np.sqrt(sum(members / members.sum() for members in members_by_application))
    cost = np.full(terms.shape[1], 1.0 / terms.shape[1])
    for _ in range(ROUNDS):
        scale, besides = np.zeros(len(time_s)), np.zeros(len(time_s))
        for members in members_by_application:
            fit = scaled(terms[members] @ cost, time_s[members])
            scale[members], besides[members] = fit.scale, fit.besides
        rows = terms * (weight * scale / time_s)[:, None]
        fitted = least_squares_not_negative(rows, weight * (1.0 - besides / time_s))
        if not fitted.any():
            break
        cost = fitted / fitted.sum()
    return np.asarray(cost / unit)
