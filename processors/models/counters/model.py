"""What is expected of a run from its counters: a linear model and one that bends, each believed as far as it was right.

Both are fitted to the same runs. How wrong each was about groups of runs that were left out, and about whole clusters of them,
says how much each counts, near what was learned and far from it (`processors.models.counters.distance`). So the one that bends
answers among the runs that it saw, where it is the better one, and beyond them the line.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from processors.models.counters import gaussian_process, linear
from processors.models.counters.distance import Distance, parts, thinned
from processors.models.counters.effects import Added, Explanation, added, explained
from processors.models.counters.forest import FOREST, FOREST_KIND
from processors.models.counters.gaussian_process import Smooth
from processors.models.counters.linear import Line
from processors.models.counters.selection import SELECTION_RUNS_MIN
from processors.models.training.table import Floats, Model, Predicted, Table, finished, silent
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


BLEND: Final = "blend"
POWER: Final = 2.0  # of one over its error, by which a model counts


@dataclass(frozen=True, slots=True, eq=False)
class Blend:
    """Both models of a table, and what each was wrong by, near and far; without `smooth` where there are no columns.

    >>> x = np.arange(1.0, 31.0)[:, None]
    >>> found = blend(Table(("a",), 10 * np.sqrt(x), x[:, 0], np.ones(30), np.arange(30)))
    >>> found.predict(np.array([[30.0]])).value.round(1).tolist(), found.weights(np.array([[30.0]]))[0].round(2).tolist()
    ([9.0], [0.01, 0.99])
    """

    linear: Line
    smooth: Smooth | None
    distance: Distance | None

    @property
    def error(self) -> float:
        """The mean error about groups that were left out, at most: those of the models, as they count near."""
        weight = self._weights(np.zeros(1))[0]
        return float(weight @ [each.errors.near for each in self._models])

    def weights(self, values: Floats) -> Floats:
        """Return how much each model counts in the answer to rows (m, p): (m, models), shares of 1."""
        return self._weights(self._far(values))

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        far = self._far(values)
        weight = self._weights(far)
        answers = [each.predict(values) for each in self._models]
        value = np.stack([each.value for each in answers], axis=1)
        # what errors were when runs were left out, and more where a model knows it
        left_out = [each.errors.deviation(far) for each in self._models]
        deviation = np.stack(
            [np.maximum(off, each.deviation) for off, each in zip(left_out, answers, strict=True)], axis=1
        )
        return Predicted((weight * value).sum(axis=1), (weight * deviation).sum(axis=1))

    @property
    def _models(self) -> tuple[Line | Smooth, ...]:
        return (self.linear,) if self.smooth is None else (self.linear, self.smooth)

    def _far(self, values: Floats) -> Floats:
        return np.zeros(len(values)) if self.distance is None else self.distance.far(values)

    def _weights(self, far: Floats) -> Floats:
        weight = np.stack([each.errors.at(far) ** -POWER for each in self._models], axis=1)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def blend(table: Table) -> Blend:
    """Return both models of a table, all at once.

    Raises ValueError for less than SELECTION_RUNS_MIN runs.

    >>> blend(Table((), np.zeros((1, 0)), np.ones(1), np.ones(1), np.arange(1)))
    Traceback (most recent call last):
    ValueError: A model of counters needs 6 runs.
    """
    return finished(fitting(table))


def fitting(table: Table, found: Found | None = None) -> Generator[Found, None, Blend]:
    """Yield what was found after each part of the work, which takes milliseconds, and return both models of a table.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> table = Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8))
    >>> [sorted(found) for found in fitting(table)][4:6], len(list(fitting(table)))
    ([['linear'], ['linear', 'smooth']], 12)
    """
    if len(table) < SELECTION_RUNS_MIN:
        raise ValueError(f"A model of counters needs {SELECTION_RUNS_MIN} runs.")
    table = _some(table)
    left_out = parts(table)
    so_far: Found = found or {}
    if "smooth" not in so_far:
        for line in linear.fitting(table, left_out, so_far.get("linear")):
            so_far = {"linear": line}
            yield so_far
    if table.names:
        for smooth in gaussian_process.fitting(table, so_far.get("smooth"), left_out.far):
            so_far = {**so_far, "smooth": smooth}
            yield so_far
    whole = model(table, so_far)
    if "error" not in so_far:
        yield {**so_far, "error": whole.error}
    return whole


def _some(table: Table) -> Table:
    """Return as many runs of a table as matrices are made of, spread evenly; what is worked out of them is shared as that of all."""
    at = thinned(len(table))
    return table if len(at) == len(table) else replace(table.rows(at), shared=table.shared)


def model(table: Table, found: Found) -> Blend:
    """Return both models of a table again, from what their fit found in the end.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> table = Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8))
    >>> *_, found = fitting(table)
    >>> model(table, found).error == blend(table).error
    True
    """
    table = _some(table)
    line = linear.model(table, found["linear"])
    if not table.names:
        return Blend(line, None, None)
    return Blend(line, gaussian_process.model(table, found["smooth"]), Distance.of(table, parts(table)))


def explanation(learner: Learner) -> list[Explanation]:
    """Return what each counter adds to what a learner expects, the one that moves it most first; [] before its first fit.

    >>> explanation(Learner("power_w", KINDS))
    []
    """
    found = learner.models.get(learner.trusted or "")
    return [] if found is None or learner.table is None else explained(found, learner.table)


def adds(learner: Learner, values: Mapping[str, float]) -> list[Added]:
    """Return what counters add to what a learner expects of these values, that which adds most first; [] before its first fit.

    >>> adds(Learner("power_w", KINDS), {"ipc": 1.0})
    []
    """
    found = learner.models.get(learner.trusted or "")
    return (
        [] if found is None or learner.table is None else added(found, learner.table, learner.table.row(dict(values)))
    )


class _Both:
    """Both models as a kind that can be taken up again."""

    def __call__(self, table: Table) -> Generator[None, None, Model]:
        found = yield from silent(fitting(table))
        return found

    def fitting(self, table: Table, found: Found | None) -> Generator[Found, None, Model]:
        return fitting(table, found)

    def model(self, table: Table, found: Found) -> Model:
        return model(table, found)


KINDS: Final[Mapping[str, Kind]] = {BLEND: _Both()}
POWER_KINDS: Final[Mapping[str, Kind]] = {**KINDS, FOREST: FOREST_KIND}
"""Those of power: of many runs, on many hosts, trees see more."""
