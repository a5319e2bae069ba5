"""Power and run time from counters, features and attributes, each set as its kind of use would meet it.

leon3: boards, one benchmark left out at a time. bc5: packages of a server, one application left out at a time. stampede2:
configurations of two programs, with the file of tests that belongs to it. clustercockpit: one job of 32 nodes, minute by
minute, what the other metrics of a node let expect of its power before that is told.

What the choices saw: which scales, reaches and noises are tried was looked at on leon3 and bc5 while the models were
made, that the law comes before the trees and medians answer on stampede2, the level of a node on clustercockpit. Which
scale, reach and noise is taken is chosen anew in each fold, by leaving groups out of what that fold may see; the rows of
a leaf by leaving a third out of 12,000 rows of the files to learn from.
"""

import csv
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.counters.model import KINDS
from processors.models.counters.regression import ridge
from processors.models.features import forest
from processors.models.power.cumulative import RAPL_RANGE_J
from processors.models.power.readings import believable
from processors.models.training.learner import Kind
from processors.models.training.runs import Run
from processors.models.training.table import Answering, Predicted, Table, finished
from processors.models.training.tracking import Tracked
from processors.models.training.trainer import Trainer
from processors.models.trees.grow import Growth, grow

if TYPE_CHECKING:
    from tests.quality.tables import Sources

Floats = npt.NDArray[np.float64]
Fit = Callable[[Table], Answering]

BC5: Final = ("l2miss", "r1b2", "instructions", "cycles", "stall_cycles", "intra_coh", "inter_coh")
BC5_SHORT_S: Final = 15.0  # a run that is over before is mostly its start
BC5_LEAST_W: Final = 20.0  # a package draws more than this; what says less has wrapped more than once
STAMPEDE: Final = {
    "kripke": ("kripke_kt0_nnodes1", (2, 3, 4, 5, 6, 10, 11, 15, 16), 25),
    "bcast": ("bcast_kt1_st1", (1, 2, 3), 4),
}
METRICS: Final = ("cpu_load", "clock", "ipc", "mem_bw", "flops_any", "mem_used")
FIRST_MINUTES: Final = 60


class Scored(NamedTuple):
    """A mean error, the median one, and the share of values within the band, each in %; nan where there is no band."""

    mean: float
    median: float
    coverage: float


def lines(sources: "Sources") -> Iterator[str]:
    """Yield the table of the sets that are there."""
    folder = sources.data / "telemetry"
    yield f"{'set':34} {'rows':>6} | mean error % median  in band % of 90"
    for name, load in (("leon3", leon3), ("bc5", bc5)):
        if (folder / name).is_dir():
            table = load(folder / name)
            for model, fit in COUNTERS.items():
                yield _line(f"{name}, one group out, {model}", len(table), left_out(table, fit))
    for name in STAMPEDE if (folder / "stampede2").is_dir() else ():
        seen, asked = (stampede2(folder / "stampede2", name, suffix) for suffix in ("", "_test"))
        for model, fit in ATTRIBUTES.items():
            off = np.abs(np.log(fit(seen).predict(asked.values).value / asked.target))
            yield _line(f"{name}, |ln ratio| x 100, {model}", len(asked), _scored(off))
    job = folder / "clustercockpit" / "1608923076" / "data.json.gz"
    if job.is_file():
        for name, found in nodes(job):
            yield _line(f"job, power of a node, {name}", 0, found)


def leon3(folder: Path) -> Table:
    """Return counters per cycle and watts; repeats of a benchmark are a group."""
    with (folder / "LEON3_BEEBS_coarsegrain.data").open() as file:
        rows = list(csv.reader(file, delimiter="\t"))
    names, data = tuple(rows[0][9:]), [row for row in rows[1:] if row]
    numbers = np.array([[float(each) for each in row[5:]] for row in data])
    group = np.unique([row[1] for row in data], return_inverse=True)[1]
    return Table(names, numbers[:, 4:] / numbers[:, 3:4], numbers[:, 0], np.ones(len(data)), group)


def bc5(folder: Path) -> Table:
    """Return counters per second and watts of the package that was used; energy that wrapped once is whole again."""
    with (folder / "runs_solo16.csv").open() as file:
        data = list(csv.DictReader(file))
    counts = np.array([[float(row[f"sum_{name}"]) for name in BC5] for row in data])
    time_s, energy_j = (np.array([float(row[name]) for row in data]) for name in ("runtime_s", "pkg1_uJ"))
    power = energy_j * 1e-6 / time_s
    # the tools that took it lost a wrap of the counter: what fell below half of what idles has gone round once
    power = np.where((power < 2.5 * BC5_LEAST_W) & (power > BC5_LEAST_W), power + RAPL_RANGE_J / time_s, power)
    misses = [row["sum_l3miss"] or row["sum_LLC-load-misses"] for row in data]
    good = (counts > 0).all(axis=1) & (np.array([float(each) for each in misses]) > 0)
    good &= (time_s > BC5_SHORT_S) & (power > BC5_LEAST_W)
    group = np.unique([row["workload"] for row in data], return_inverse=True)[1]
    return Table(BC5, counts / time_s[:, None], power, np.ones(len(data)), group).rows(good)


def stampede2(folder: Path, name: str, suffix: str) -> Table:
    """Return configurations and run times of a program, of the file to learn from or of that of tests."""
    file, columns, target = STAMPEDE[name]
    with gzip.open(folder / f"{file}{suffix}.csv.gz", "rt") as opened:
        rows = list(csv.reader(opened))
    # the header has no name for the index that leads each row
    names = tuple(rows[0][column - 1] for column in columns)
    data = np.array([[float(row[column]) for column in (*columns, target)] for row in rows[1:]])
    return Table(names, data[:, :-1], data[:, -1], np.ones(len(data)), np.arange(len(data)))


def left_out(table: Table, fit: Fit) -> Scored:
    """Return the errors of each group, by a model that saw the others; bands are conformal, group after group."""
    off, held, tracked = np.zeros(len(table)), [], Tracked()
    for group in np.unique(table.group):
        out = table.group == group
        told = fit(table.rows(~out)).predict(table.values[out])
        for actual, value, deviation in zip(table.target[out], told.value, told.deviation, strict=True):
            if tracked.scored >= FIRST_MINUTES:
                held.append(tracked.band(value, deviation).holds(actual))
            tracked.learn(value, deviation, actual)
        off[out] = np.abs(told.value / table.target[out] - 1)
    return Scored(100 * off.mean(), 100 * float(np.median(off)), 100 * float(np.mean(held)) if held else float("nan"))


def nodes(job: Path) -> Iterator[tuple[str, Scored]]:
    """Yield how power of each node was told from its other metrics, after the first hour, with and without its own level."""
    with gzip.open(job, "rt") as opened:
        told = json.load(opened)
    names, power, values = job_columns(told)
    yield from preceding(names, power, values)


def job_columns(
    told: dict[str, dict[str, dict[str, list[dict[str, list[float | None]]]]]],
) -> tuple[tuple[str, ...], Floats, Floats]:
    """Return the names of metrics, believable watts (nodes, minutes) and the metrics (nodes, minutes, metrics)."""

    def matrix(name: str) -> Floats:
        series = told[name]["node"]["series"]
        length = max(len(each["data"]) for each in series)
        rows = [[np.nan if value is None else value for value in each["data"]] for each in series]
        return np.array([row + [np.nan] * (length - len(row)) for row in rows], dtype=np.float64)

    names = tuple(name for name in METRICS if name in told)
    return names, believable(matrix("rapl_power")).power_w, np.stack([matrix(name) for name in names], axis=-1)


def preceding(names: tuple[str, ...], power: Floats, values: Floats) -> Iterator[tuple[str, Scored]]:
    """Yield the same of columns: each minute is asked first, then learned."""
    trainer = Trainer({"power_w": KINDS})
    levels = [Tracked() for _ in power]
    own, common, held = [], [], []
    for minute in range(power.shape[1]):
        at = np.flatnonzero(np.isfinite(power[:, minute]) & np.isfinite(values[:, minute]).all(axis=1))
        told = trainer.learners["power_w"].predict_rows(names, values[at, minute])
        for i, node in enumerate(at.tolist()):
            actual, level = float(power[node, minute]), levels[node]
            if told is not None:
                value, deviation = float(told.value[i]), float(told.deviation[i])
                band = level.band(value, deviation)
                if minute >= FIRST_MINUTES:
                    own.append(abs(band.value / actual - 1))
                    common.append(abs(value / actual - 1))
                    held.append(band.holds(actual))
                level.learn(value, deviation, actual)
            # models learn what a node of the usual level would have drawn
            usual = actual / float(np.exp(level.level))
            row = dict(zip(names, values[node, minute].tolist(), strict=True))
            trainer.reservoir.add(Run(f"{node}-{minute}", 60_000 * minute, row, {"power_w": usual}))
        if minute in {5, 10, 20, 40} or minute % 60 == 59:
            while trainer.tick():
                pass
    yield "with its level", _scored(np.array(own))._replace(coverage=100 * float(np.mean(held)))
    yield "without", _scored(np.array(common))


def _kind(kind: Kind) -> Fit:
    return lambda table: finished(kind(table))


class _Plain(NamedTuple):
    """Plain regression on all counters, and a mean: what there is to beat."""

    table: Table
    columns: int

    def predict(self, values: Floats) -> Predicted:
        known = self.table.values[:, : self.columns]
        found = ridge(known, self.table.target, self.table.weight, 1e-12).predict(values[:, : self.columns])
        return Predicted(np.maximum(found, self.table.target.min() / 2), np.full(len(values), 0.02))


class _Trees(NamedTuple):
    """Extremely randomised trees alone."""

    table: Table
    trees: int

    def predict(self, values: Floats) -> Predicted:
        found = grow(self.table.values, np.log(self.table.target), growth=Growth(self.trees)).mean(values)
        return Predicted(np.exp(found), np.full(len(values), 0.02))


COUNTERS: Final[dict[str, Fit]] = {
    **{name: _kind(kind) for name, kind in KINDS.items()},
    "mean": lambda table: _Plain(table, 0),
    "all counters, linear": lambda table: _Plain(table, len(table.names)),
    "trees": lambda table: _Trees(table, 10),
}
ATTRIBUTES: Final[dict[str, Fit]] = {
    "law and trees": lambda table: finished(forest.fitting(table, rows_at_once=1 << 17)),
    "the same of 2,048 runs": lambda table: finished(forest.fitting(table.rows(np.arange(len(table)) % 16 == 0))),
    "trees": lambda table: _Trees(table, 10),
}


def _scored(off: Floats) -> Scored:
    return Scored(100 * float(off.mean()), 100 * float(np.median(off)), float("nan"))


def _line(name: str, rows: int, found: Scored) -> str:
    return f"{name:50} {rows:6} | {found.mean:12.2f} {found.median:6.2f} {found.coverage:18.1f}"
