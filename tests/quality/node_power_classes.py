"""Power of nodes, minute by minute, from what else they tell; and of nodes that have no sensor.

clustercockpit: one job of 32 nodes for a day. Each minute is asked before it is told, after the first hour. The models know
no node: they learn from all of them together, and are fitted again each hour. Beside the metrics of the minute they are
given, in a second row, the means of each metric of the node so far, which tell one node from another where these differ.
With its level each node has a factor of its own, which follows how far off the model was on it: this row alone knows what
the node drew before. The rows above tell what that alone says. Nodes of one kind differ by 3.5 % at the same load. That means so far are given,
and that there are levels, was decided with this job in view; which model answers, in each row, by errors of left-out minutes.

Half of the nodes without a sensor: the model of events learns on the others, and tells what these draw.

kepler-rapl: platform power of a server and the CPU time of its services, every 3 s, in the unit in which it was published.
There is a sensor for a minute and then none for a minute; at all times the power is shared among two halves of the events.
Scores begin when the model's window is full: before that it goes through the origin, as in its source, and what a server
draws without load is most of what it draws. The last row has the time before as well.
"""

import csv
import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from processors.contracts.settings import ProfileSettings
from processors.models.counters.model import POWER_KINDS
from processors.models.numerics.arrays import RowPredictions
from processors.models.power import WINDOW, PowerModel
from processors.models.training.runs import LearnedRun
from processors.models.training.table import TrackRecord
from processors.models.training.trainer import ModelKind, Trainer
from tests.quality.node_power import Scored

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

METRICS: Final = ("cpu_load", "clock", "ipc", "mem_bw", "flops_any", "mem_used")
EVENTS: Final = ("cpu_load", "ipc", "mem_bw", "flops_any")
FIRST_MINUTES: Final = 60
FITTED_AT: Final = frozenset({5, 10, 20, 40})  # and each hour
BLOCK: Final = 20  # samples with a sensor, and as many without


class Job(NamedTuple):
    """Believable watts of nodes (nodes, minutes) and their other metrics (nodes, minutes, metrics), nan for none."""

    names: tuple[str, ...]
    power: Floats
    values: Floats

    @property
    def good(self) -> npt.NDArray[np.bool_]:
        """Where everything was told, (nodes, minutes)."""
        return np.asarray(np.isfinite(self.power) & np.isfinite(self.values).all(axis=-1))

    def with_means(self) -> "Job":
        """Return the same with the mean of each metric of the node up to the minute."""
        known = np.isfinite(self.values)
        total = np.where(known, self.values, 0.0).cumsum(axis=1)
        means = total / np.maximum(known.cumsum(axis=1), 1)
        names = (*self.names, *(f"{name} so far" for name in self.names))
        return Job(names, self.power, np.concatenate([self.values, means], axis=-1))


def job(path: Path) -> Job:
    """Return the nodes of an archived job."""
    with gzip.open(path, "rt") as opened:
        reported: dict[str, dict[str, dict[str, list[dict[str, list[float | None]]]]]] = json.load(opened)

    def matrix(name: str) -> Floats:
        series = reported[name]["node"]["series"]
        length = max(len(each["data"]) for each in series)
        rows = [[np.nan if value is None else value for value in each["data"]] for each in series]
        return np.array([row + [np.nan] * (length - len(row)) for row in rows], dtype=np.float64)

    names = tuple(name for name in METRICS if name in reported)
    watts = matrix("rapl_power")
    watts = np.where((watts > 0.0) & np.isfinite(watts), watts, np.nan)
    return Job(names, watts, np.stack([matrix(name) for name in names], axis=-1))


class LoadPredictor(Protocol):
    """Tells the power of nodes in a minute before it learns what it was."""

    def ask(self, minute: int, at: Integers) -> Floats | None:
        """Return watts of these nodes; None before anything is known."""

    def learn(self, minute: int, at: Integers) -> None:
        """Take in what these nodes drew."""


class Past:
    """What a node drew before: the last time, or on average."""

    def __init__(self, reported: Job, *, average: bool) -> None:
        self._power, self._average = reported.power, average
        self._sum, self._count = np.zeros(len(reported.power)), np.zeros(len(reported.power))

    def ask(self, _minute: int, at: Integers) -> Floats | None:
        return np.asarray(self._sum[at] / self._count[at]) if self._count.all() else None

    def learn(self, minute: int, at: Integers) -> None:
        if not self._average:
            self._sum[at], self._count[at] = 0.0, 0.0
        self._sum[at] += self._power[at, minute]
        self._count[at] += 1.0


class Learned:
    """Models of a job's metrics, which know no node; fitted again each hour."""

    def __init__(self, reported: Job, kinds: Mapping[str, ModelKind]) -> None:
        self.published = reported
        self.trainer = Trainer({"power_w": kinds}, ProfileSettings().runs_max)

    def ask(self, minute: int, at: Integers) -> Floats | None:
        found = self.predicted(minute, at)
        return None if found is None else found.value

    def predicted(self, minute: int, at: Integers) -> RowPredictions | None:
        learner = self.trainer.learners["power_w"]
        if learner.trusted is None or learner.table is None:
            return None
        values, place = self.published.values[at, minute], {name: i for i, name in enumerate(self.published.names)}
        nothing = np.full(len(values), np.nan)
        columns = [values[:, place[name]] if name in place else nothing for name in learner.table.names]
        return learner.models[learner.trusted].predict(learner.table.filled(np.stack(columns, axis=1)))

    def learn(self, minute: int, at: Integers) -> None:
        for node in at.tolist():
            row = dict(zip(self.published.names, self.published.values[node, minute].tolist(), strict=True))
            watts = float(self.published.power[node, minute]) / self.factor(node)
            self.trainer.reservoir.add(LearnedRun(f"{node}-{minute}", 60_000 * minute, row, {"power_w": watts}))
        if minute in FITTED_AT or minute % 60 == 59:
            while self.trainer.tick():
                pass

    def factor(self, _node: int) -> float:
        """Return by what a node is known to draw more than others."""
        return 1.0


class Levelled(Learned):
    """The same with a level for each node, and bands; models learn what a node of the usual level would have drawn."""

    def __init__(self, reported: Job, kinds: Mapping[str, ModelKind]) -> None:
        super().__init__(reported, kinds)
        self._levels = [TrackRecord() for _ in reported.power]
        self._requested: dict[int, tuple[float, float]] = {}
        self.covered: list[bool] = []

    def ask(self, minute: int, at: Integers) -> Floats | None:
        found = self.predicted(minute, at)
        if found is None:
            return None
        reported = zip(found.value.tolist(), found.deviation.tolist(), strict=True)
        self._requested = dict(zip(at.tolist(), reported, strict=True))
        bands = [self._levels[node].band(*self._requested[node]) for node in at.tolist()]
        if minute >= FIRST_MINUTES:
            actual = self.published.power[at, minute].tolist()
            self.covered += [band.holds(each) for band, each in zip(bands, actual, strict=True)]
        return np.array([band.value for band in bands])

    def learn(self, minute: int, at: Integers) -> None:
        for node, (value, deviation) in self._requested.items():
            self._levels[node].learn(value, deviation, float(self.published.power[node, minute]))
        self._requested = {}
        super().learn(minute, at)

    def factor(self, node: int) -> float:
        return math.exp(self._levels[node].level)


def preceding(reported: Job) -> Iterator[tuple[str, Scored]]:
    """Yield how power of each node was told, each minute asked first and then learned."""
    yield "its last minute alone", errors(reported, Past(reported, average=False))
    yield "its mean so far alone", errors(reported, Past(reported, average=True))
    yield "its other metrics", errors(reported, Learned(reported, POWER_KINDS))
    more = reported.with_means()
    yield "these and their means so far", errors(more, Learned(more, POWER_KINDS))
    levelled = Levelled(reported, POWER_KINDS)
    found = errors(reported, levelled)
    yield "its other metrics and its level", found._replace(coverage=100 * float(np.mean(levelled.covered)))


def errors(reported: Job, predictor: LoadPredictor) -> Scored:
    """Return how far off a teller was after the first hour."""
    off: list[Floats] = []
    good = reported.good
    for minute in range(reported.power.shape[1]):
        at = np.flatnonzero(good[:, minute])
        found = predictor.ask(minute, at)
        if found is not None and minute >= FIRST_MINUTES:
            off.append(found / reported.power[at, minute] - 1.0)
        predictor.learn(minute, at)
    return scored(np.abs(np.concatenate(off)))


def without_sensors(reported: Job) -> Iterator[tuple[str, Scored]]:
    """Yield how power of every other node was told, while the rest had sensors, after the first hour."""
    columns = [reported.names.index(name) for name in EVENTS if name in reported.names]
    model = PowerModel(tuple(reported.names[j] for j in columns))
    off: list[float] = []
    alike: list[float] = []
    actual: list[float] = []
    good = reported.good
    for minute in range(reported.power.shape[1]):
        at = np.flatnonzero(good[:, minute])
        events = reported.values[:, minute][:, columns]
        for node in at[at % 2 == 1].tolist() if minute >= FIRST_MINUTES else ():
            found = model.estimates(events[[node]])
            if found is not None:
                actual.append(float(reported.power[node, minute]))
                off.append(float(found[0]))
                alike.append(float(reported.power[at[at % 2 == 0], minute].mean()))
        for node in at[at % 2 == 0].tolist():
            model.learn(events[node].tolist(), float(reported.power[node, minute]))
    yield from _each(actual, {"model of events": off, "mean of those with a sensor": alike})


def one_server(path: Path) -> Iterator[tuple[str, Scored]]:
    """Yield how power of a server was told in the minutes without a sensor."""
    with path.open() as file:
        rows = [(float(row["kubelet_cpu_usage"]), float(row["platform_power"])) for row in csv.DictReader(file)]
    model = PowerModel(("cpu",))
    reported: dict[str, list[float]] = {"model of events": [], "last reading": [], "mean reading": []}
    actual: list[float] = []
    seen: list[float] = []
    for number, (cpu, power) in enumerate(rows):
        if number // BLOCK % 2 == 0:
            model.learn((cpu,), power)
            seen.append(power)
        elif (found := model.estimates(np.array([[cpu]]))) is not None:
            actual.append(power)
            for name, value in zip(reported, (float(found[0]), seen[-1], float(np.mean(seen))), strict=True):
                reported[name].append(value)
    full = WINDOW - BLOCK  # so many estimates before the window of readings was full
    yield from _each(actual[full:], {name: values[full:] for name, values in reported.items()})
    yield from _each(actual, {"model of events, from its first readings on": reported["model of events"]})


def _each(actual: Sequence[float], reported: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, Scored]]:
    truth = np.array(actual)
    for name, values in reported.items():
        off = np.array(values) - truth
        yield f"{name}, {np.abs(off).mean():.1f} off", scored(np.abs(off / truth))


def scored(off: npt.NDArray[np.float64]) -> Scored:
    """Return the errors in %."""
    return Scored(100 * float(np.mean(off)), 100 * float(np.median(off)))
