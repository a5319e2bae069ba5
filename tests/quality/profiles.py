"""Classes of models beside one another on counters, features and attributes: a comparison, not what the product answers.

What the product answers about leon3 and bc5 is in `counted`, about nodes in `node_power`, about stampede2 in `attributes`.

leon3: boards, one benchmark left out at a time. bc5: packages of a server, one application left out at a time. stampede2:
configurations of two programs, with the file of tests that belongs to it. clustercockpit and kepler-rapl: nodes by the
minute (`node_power_classes`).

What the choices saw. Inside of each fold, by leaving groups out of what that fold may see: the scale, reach and noise of
the smooth model, and how much each model counts in the blend; on stampede2 whether the law comes before
the trees ("chosen in the file", on a third of 4,096 rows), and the rows of a leaf. With these sets in view while the models
were made: the clusters and the tails of leon3 and bc5 (runs beyond what was learned), on which the ranges, the ridges and the
powers of the blend were chosen; between which reaches and noises that choice is (the row "of a wider choice" has twice as many of them, and what
is lost there is what the bounds gained by being seen), that medians answer on stampede2, that a node has a level.
"""

import csv
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest import mock

import numpy as np
import numpy.typing as npt

from processors.models.counters import gaussian_process
from processors.models.counters.model import KINDS
from processors.models.counters.selection import fitting_linear, parts, ridge
from processors.models.features import features
from processors.models.numerics.arrays import RowPredictions
from processors.models.numerics.trees import Growth, growing
from processors.models.training.table import RowModel, RunTable, TrackRecord, finished
from processors.models.training.trainer import ModelKind
from tests.kit.forests import mean
from tests.kit.rapl import RAPL_RANGE_J
from tests.quality.node_power import Scored
from tests.quality.node_power_classes import job, one_server, preceding, scored, without_sensors

if TYPE_CHECKING:
    from tests.quality.tables import Sources

Floats = npt.NDArray[np.float64]
Fit = Callable[[RunTable], RowModel]

BC5: Final = ("l2miss", "r1b2", "instructions", "cycles", "stall_cycles", "intra_coh", "inter_coh")
BC5_SHORT_S: Final = 15.0  # a run that is over before is mostly its start
BC5_LEAST_W: Final = 20.0  # a package draws more than this; what says less has wrapped more than once
STAMPEDE: Final = {
    "kripke": ("kripke_kt0_nnodes1", (2, 3, 4, 5, 6, 10, 11, 15, 16), 25),
    "bcast": ("bcast_kt1_st1", (1, 2, 3), 4),
}
FIRST: Final = 60  # runs before bands are scored
WIDER_REACH: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
WIDER_NOISE: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
INSIDE_ROWS: Final = 4096  # of a file to learn from, by which is chosen


def lines(sources: "Sources") -> Iterator[str]:
    """Yield the table of the sets that are there."""
    folder = sources.data / "telemetry"
    yield "classes alone, for comparison; nothing of this asks the product"
    yield f"{'set':58} {'rows':>6} | mean error % median  in band % of 90"
    for name, load in (("leon3", leon3), ("bc5", bc5)):
        if (folder / name).is_dir():
            table = load(folder / name)
            for model, fit in COUNTERS.items():
                yield _line(f"{name}, one group out, {model}", len(table), left_out(table, fit))
            # its bounds are constants, as no site is to turn them
            with mock.patch.multiple(gaussian_process, REACH=WIDER_REACH, NOISE=WIDER_NOISE):
                wider = left_out(table, COUNTERS["blend"])
            yield _line(f"{name}, one group out, blend, of a wider choice", len(table), wider)
    for name in STAMPEDE if (folder / "stampede2").is_dir() else ():
        seen, requested = (stampede2(folder / "stampede2", name, suffix) for suffix in ("", "_test"))
        for model, fit in ATTRIBUTES.items():
            off = np.abs(np.log(fit(seen).predict(requested.values).value / requested.target))
            yield _line(f"{name}, |ln ratio| x 100, {model}", len(requested), scored(off))
    archived = folder / "clustercockpit" / "1608923076" / "data.json.gz"
    if archived.is_file():
        reported = job(archived)
        for name, found in preceding(reported):
            yield _line(f"job, a node by {name}", int(reported.good.sum()), found)
        for name, found in without_sensors(reported):
            yield _line(f"job, half without sensor, {name}", int(reported.good.sum() // 2), found)
    server = folder / "kepler-rapl" / "acpi_KubeletOnly_abs_data.csv"
    if server.is_file():
        for name, found in one_server(server):
            yield _line(f"kepler, {name}", 0, found)


def leon3(folder: Path) -> RunTable:
    """Return counters per cycle and watts; repeats of a benchmark are a group."""
    with (folder / "LEON3_BEEBS_coarsegrain.data").open() as file:
        rows = list(csv.reader(file, delimiter="\t"))
    names, data = tuple(rows[0][9:]), [row for row in rows[1:] if row]
    numbers = np.array([[float(each) for each in row[5:]] for row in data])
    group = np.unique([row[1] for row in data], return_inverse=True)[1]
    return RunTable(names, numbers[:, 4:] / numbers[:, 3:4], numbers[:, 0], np.ones(len(data)), group)


def bc5(folder: Path) -> RunTable:
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
    return RunTable(BC5, counts / time_s[:, None], power, np.ones(len(data)), group).rows(good)


def stampede2(folder: Path, name: str, suffix: str) -> RunTable:
    """Return configurations and run times of a program, of the file to learn from or of that of tests."""
    file, columns, target = STAMPEDE[name]
    with gzip.open(folder / f"{file}{suffix}.csv.gz", "rt") as opened:
        rows = list(csv.reader(opened))
    # the header has no name for the index that leads each row
    names = tuple(rows[0][column - 1] for column in columns)
    data = np.array([[float(row[column]) for column in (*columns, target)] for row in rows[1:]])
    return RunTable(names, data[:, :-1], data[:, -1], np.ones(len(data)), np.arange(len(data)))


def left_out(table: RunTable, fit: Fit) -> Scored:
    """Return the errors of each group, by a model that saw the others; bands are conformal, group after group."""
    off, covered, tracked = np.zeros(len(table)), [], TrackRecord()
    for group in np.unique(table.group):
        out = table.group == group
        reported = fit(table.rows(~out)).predict(table.values[out])
        for actual, value, deviation in zip(table.target[out], reported.value, reported.deviation, strict=True):
            if tracked.scored >= FIRST:
                covered.append(tracked.band(value, deviation).holds(actual))
            tracked.learn(value, deviation, actual)
        off[out] = np.abs(reported.value / table.target[out] - 1)
    return Scored(
        100 * off.mean(), 100 * float(np.median(off)), 100 * float(np.mean(covered)) if covered else float("nan")
    )


def _kind(kind: ModelKind) -> Fit:
    return lambda table: finished(kind.fitting(table, None))


@dataclass(frozen=True)
class _Plain(RowModel):
    """Plain regression on all counters, and a mean: what there is to beat."""

    table: RunTable
    columns: int

    def predict(self, values: Floats) -> RowPredictions:
        known = self.table.values[:, : self.columns]
        found = ridge(known, self.table.target, self.table.weight, 1e-12).predict(values[:, : self.columns])
        return RowPredictions(np.maximum(found, self.table.target.min() / 2), np.full(len(values), 0.02))


@dataclass(frozen=True)
class _Trees(RowModel):
    """Extremely randomised trees alone."""

    table: RunTable
    trees: int

    def predict(self, values: Floats) -> RowPredictions:
        grown = growing(self.table.values, np.log(self.table.target), np.ones(len(self.table)), Growth(self.trees))
        return RowPredictions(np.exp(mean(finished(grown), values)), np.full(len(values), 0.02))


def _chosen_inside(table: RunTable) -> RowModel:
    """Return the model of attributes that did better on a third of some of these rows, fitted to all of them."""
    some = table.rows(np.arange(len(table)) % max(len(table) // INSIDE_ROWS, 1) == 0)
    out = np.arange(len(some)) % 3 == 0
    fits = (ATTRIBUTES["law and trees"], ATTRIBUTES["trees"])

    def off(fit: Fit) -> float:
        found = fit(some.rows(~out)).predict(some.values[out]).value
        return float(np.abs(np.log(found / some.target[out])).mean())

    return min(fits, key=off)(table)


COUNTERS: Final[dict[str, Fit]] = {
    **{name: _kind(kind) for name, kind in KINDS.items()},
    "linear": lambda table: finished(fitting_linear(table, parts(table))),
    "smooth": lambda table: finished(gaussian_process.fitting(table)),
    "mean": lambda table: _Plain(table, 0),
    "all counters, linear": lambda table: _Plain(table, len(table.names)),
    "trees": lambda table: _Trees(table, 10),
}
ATTRIBUTES: Final[dict[str, Fit]] = {
    "chosen in the file": _chosen_inside,
    "law and trees": lambda table: finished(features.fitting(table, rows_at_once=1 << 17)),
    "the same of 2,048 runs": lambda table: finished(features.fitting(table.rows(np.arange(len(table)) % 16 == 0))),
    "trees": lambda table: _Trees(table, 10),
}


def _line(name: str, rows: int, found: Scored) -> str:
    return f"{name:58} {rows:6} | {found.mean:12.2f} {found.median:6.2f} {found.coverage:18.1f}"
