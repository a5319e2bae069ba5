"""What is expected of a run from its counters: the linear model of a few, and the one of all that bends.

Both are fitted to the same runs; how each did with the runs since says which one answers
(`processors.models.training.trainer`). The linear one explains, whoever answers.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from processors.models.counters import gaussian_process
from processors.models.counters.selection import SELECTION_RUNS_MIN, Explanation, Selection, select
from processors.models.training.table import Floats, Model, Predicted, Table, finished
from processors.models.training.trainer import Found, Kind, Learner

CYCLES: Final = ("PAPI_TOT_CYC", "cycles", "cpu_cycles", "cpu-cycles", "CPU_CLK_UNHALTED_CORE")


def per_cycle(counters: Mapping[str, float], names: tuple[str, ...] = CYCLES) -> dict[str, float]:
    """Return each counter per cycle; empty where none of the names of cycles has a positive number.

    Counters are totals over the same time. What is negative is no count and left out, the cycles themselves too.

    >>> per_cycle({"PAPI_TOT_CYC": 1e9, "PAPI_TOT_INS": 1.5e9, "PAPI_L2_DCM": -1.0})
    {'PAPI_TOT_INS': 1.5}
    """
    cycles = next((name for name in names if counters.get(name, 0.0) > 0.0), None)
    if cycles is None:
        return {}
    counts = {name: value for name, value in counters.items() if name != cycles and value >= 0.0}
    rates = {name: value / counters[cycles] for name, value in counts.items()}
    return {name: rate for name, rate in rates.items() if rate < float("inf")}


# Which counters of a run are not as they are in runs like it, and how much such a run should count.
# A run that was disturbed by others shows it: more waiting, fewer instructions per cycle. Distances are in robust deviations
# (median and median absolute deviation: F. Hampel, "The influence curve and its role in robust estimation", 1974), so that
# disturbed runs among those compared do not hide the next one.

RUNS_MIN: Final = 8
FAR: Final = 5.0  # robust deviations: less is a run like others
FLOOR: Final = 0.01  # of the median: counters are not more exact than this
WEIGHT_MIN: Final = 0.05
_NORMAL: Final = 1.4826  # from the median absolute deviation to that of a normal distribution


class Unusual(NamedTuple):
    """A counter that is far from what it is in runs like this one: its rate, the usual one, and how far, with its sign.

    >>> Unusual("PAPI_RES_STL", 0.8, 0.4, 9.0).counter
    'PAPI_RES_STL'
    """

    counter: str
    rate: float
    usual: float
    deviations: float


def unusual(table: Table, values: Mapping[str, float], far: float = FAR) -> list[Unusual]:
    """Return the unusual counters of a run among runs that should be like it (of its size), the farthest first.

    [] where fewer than RUNS_MIN runs have a counter, or the run does not have it, or it is 0 in all of them: then nobody
    can say how far is far.

    >>> rng = np.random.default_rng(1)
    >>> like = Table(("ipc",), 1.5 + 0.05 * rng.normal(size=(20, 1)), np.ones(20), np.ones(20), np.arange(20))
    >>> [each.counter for each in unusual(like, {"ipc": 0.7})], unusual(like, {"ipc": 1.52})
    (['ipc'], [])
    """
    found = []
    for name, column in zip(table.names, table.values.T, strict=True):
        known = column[np.isfinite(column)]
        rate = values.get(name, float("nan"))
        if len(known) < RUNS_MIN or not np.isfinite(rate):
            continue
        usual = float(np.median(known))
        deviation = _deviation(known, usual)
        if deviation > 0.0 and abs(rate - usual) >= far * deviation:
            found.append(Unusual(name, float(rate), usual, (rate - usual) / deviation))
    return sorted(found, key=lambda each: (-abs(each.deviations), each.counter))


def _deviation(known: Floats, usual: float) -> float:
    """Return the robust deviation of a counter; where most runs have the same, how far the farthest of them is."""
    off = np.abs(known - usual)
    spread = _NORMAL * float(np.median(off)) or float(off.max())
    return max(spread, FLOOR * abs(usual))


def weight(found: Sequence[Unusual], far: float = FAR) -> float:
    """Return how much a run with these unusual counters counts: 1 without any, less the farther the farthest is.

    >>> weight([]), weight([Unusual("ipc", 0.7, 1.5, -10.0)])
    (1.0, 0.25)
    """
    if not found:
        return 1.0
    return max((far / max(abs(each.deviations) for each in found)) ** 2, WEIGHT_MIN)


LINEAR: Final = "linear"
SMOOTH: Final = "smooth"
FOLDS: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """The linear model of a few counters, and its error when runs were left out.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> found = few(Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8)))
    >>> found.predict(np.array([[3.5]])).value.round(2).tolist()
    [35.0]
    """

    selection: Selection
    error: float
    deviation: float

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p), with the deviation that left-out runs had."""
        found = self.selection.predict(values).value
        return Predicted(found, np.full(len(found), self.deviation))


def few(table: Table) -> Few:
    """Return the linear model of a table, all at once.

    Raises ValueError for less than RUNS_MIN runs.

    >>> few(Table((), np.zeros((1, 0)), np.ones(1), np.ones(1), np.arange(1)))
    Traceback (most recent call last):
    ValueError: A linear model of counters needs 6 runs.
    """
    return finished(fitting(table))


def fitting(table: Table, found: Found | None = None) -> Generator[Found, None, Few]:
    """Yield what was found after each part of the work, and return the linear model of a table.

    Its error is that of each fifth of the groups, left out of all of the steps of the selection.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> [found["folds"] for found in fitting(Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8)))]
    [1, 2, 3, 4, 5]
    """
    if len(table) < SELECTION_RUNS_MIN:
        raise ValueError(f"A linear model of counters needs {SELECTION_RUNS_MIN} runs.")
    so_far: Found = found or {"folds": 0, "error": 0.0, "square": 0.0}
    share = table.weight / table.weight.sum()
    for fold in range(so_far["folds"], FOLDS):
        out = table.group % FOLDS == fold
        # where all runs are one group, none can be left out
        rest = table if out.all() else table.rows(~out)
        left = select(rest).predict(rest.filled(table.values[out])).value if out.any() else np.zeros(0)
        off = np.log(table.target[out] / left)
        so_far = {
            "folds": fold + 1,
            "error": so_far["error"] + float(share[out] @ np.abs(np.expm1(-off))),
            "square": so_far["square"] + float(share[out] @ off**2),
        }
        yield so_far
    return model(table, so_far)


def model(table: Table, found: Found) -> Few:
    """Return the linear model of a table again, from what its fit found in the end.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> model(Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8)), {"error": 0.1, "square": 0.04}).deviation
    0.2
    """
    selection = select(table)
    return Few(selection, found["error"], max(math.sqrt(found["square"]), selection.deviation))


def explanation(learner: Learner) -> list[Explanation]:
    """Return the counters of a learner's linear model, the one that moves the target most first; [] before its first fit.

    >>> explanation(Learner("power_w", KINDS))
    []
    """
    model = learner.models.get(LINEAR)
    return model.selection.explanation() if isinstance(model, Few) else []


class _Linear:
    """The linear model as a kind that can be taken up again."""

    def __call__(self, table: Table) -> Generator[None, None, Model]:
        found = yield from _silent(fitting(table))
        return found

    def fitting(self, table: Table, found: Found | None) -> Generator[Found, None, Model]:
        return fitting(table, found)

    def model(self, table: Table, found: Found) -> Model:
        return model(table, found)


class _Smooth:
    """The smooth model as a kind that can be taken up again."""

    def __call__(self, table: Table) -> Generator[None, None, Model]:
        found = yield from _silent(gaussian_process.fitting(table))
        return found

    def fitting(self, table: Table, found: Found | None) -> Generator[Found, None, Model]:
        return gaussian_process.fitting(table, found)

    def model(self, table: Table, found: Found) -> Model:
        return gaussian_process.model(table, found)


def _silent(steps: Generator[Found, None, Model]) -> Generator[None, None, Model]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Model = end.value
            return found
        yield


KINDS: Final[Mapping[str, Kind]] = {LINEAR: _Linear(), SMOOTH: _Smooth()}
