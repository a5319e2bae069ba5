"""The values that an equation is evaluated with: numbers, numbers per host, stochastic values, and one per host."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from processors.models.histogram.arithmetic import AVAILABILITY_MIN, at_least
from processors.models.histogram.values import Histogram
from processors.models.numerics.arrays import Floats
from processors.models.structure.parse import HOSTS, EquationError, Place

AVAILABILITY = "_available"  # how names of shares that are left for a job end
HOSTS_MAX = 16_384  # with windows of their own; pool those of more
_START = Place(1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """A window that stands for every host of the job, each for itself: the pooled windows of a partition.

    >>> Alike(Histogram(np.array([0.5, 1.0]), np.ones(1))).window.intervals
    1
    """

    window: Histogram


Value = float | Floats | Histogram | Alike


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Values by kind: `numbers`; `fixed` numbers (hosts,); `shared` and `hosted` histograms, (m,) and (hosts, m) or (m,).

    A histogram that is hosted and has no axis of hosts is alike for all. `hosts` is how many there are.
    """

    numbers: dict[str, float]
    fixed: dict[str, Floats]
    shared: dict[str, Histogram]
    hosted: dict[str, Histogram]
    hosts: float


def sorted_out(variables: Mapping[str, Value], names: frozenset[str]) -> Inputs:
    """Return the values of the names by kind. EquationError where one is missing, or numbers of hosts differ.

    Availabilities are at least AVAILABILITY_MIN. What is certain is a number. With one host, what is the host's is shared.

    >>> sorted_out({"speed": 2.0, "cpu_available": Histogram(np.array([0.0, 1.0]), np.ones(1))},
    ...            frozenset({"speed", "cpu_available"})).shared["cpu_available"].edges[0].tolist()
    0.01
    """
    missing = sorted(names - variables.keys() - {HOSTS})
    if missing:
        raise EquationError(_START, f"{', '.join(missing)} has no value.")
    inputs = Inputs({}, {}, {}, {}, _hosts(variables, names))
    for name in sorted(names - {HOSTS}):
        _put(inputs, name, variables[name])
    inputs.numbers[HOSTS] = inputs.hosts
    return inputs


def _hosts(variables: Mapping[str, Value], names: frozenset[str]) -> float:
    own = {float(count) for name in names - {HOSTS} if (count := _axis(name, variables[name])) is not None}
    given = variables.get(HOSTS)
    if isinstance(given, Histogram | Alike) or (given is not None and np.shape(given)):
        raise EquationError(_START, "the number of hosts is one number.")
    counts = own if given is None else own | {float(given)}
    if len(counts) > 1:
        raise EquationError(_START, "the values are for different numbers of hosts.")
    if not counts and HOSTS in names:
        raise EquationError(_START, "the number of hosts has no value.")
    hosts = next(iter(counts), 1.0)
    if not 1 <= hosts < np.inf:
        raise EquationError(_START, "there has to be at least one host.")
    if own and hosts > HOSTS_MAX:
        raise EquationError(_START, f"at most {HOSTS_MAX} hosts can have windows of their own; pool them.")
    return hosts


def _axis(name: str, value: Value) -> int | None:
    """Return how many hosts a value is for, None where it has no axis of hosts."""
    window = value.window if isinstance(value, Alike) else value
    axes = window.hosts if isinstance(window, Histogram) else np.shape(window)
    if len(axes) > (0 if isinstance(value, Alike) else 1):
        raise EquationError(_START, f"{name} has more axes than hosts.")
    return axes[0] if axes else None


def _put(inputs: Inputs, name: str, value: Value) -> None:
    if isinstance(value, Histogram | Alike):
        _put_window(inputs, name, value)
        return
    numbers = np.asarray(value, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise EquationError(_START, f"{name} is no finite number.")
    if numbers.size == 1:
        inputs.numbers[name] = float(numbers.ravel()[0])
    else:
        inputs.fixed[name] = numbers


def _put_window(inputs: Inputs, name: str, value: Histogram | Alike) -> None:
    hosted = isinstance(value, Alike) or bool(value.hosts)
    window = value.window if isinstance(value, Alike) else value
    if name.endswith(AVAILABILITY):
        window = at_least(window, AVAILABILITY_MIN)
    if hosted and inputs.hosts == 1:
        window, hosted = (window.host(0) if window.hosts else window), False
    if not window.hosts and window.edges[0] == window.edges[-1]:
        inputs.numbers[name] = float(window.edges[0])
    else:
        (inputs.hosted if hosted else inputs.shared)[name] = window
