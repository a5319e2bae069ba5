"""Power from counters, asked of the product: runs with profiles into a whole shard, what it publishes of later runs out.

Each suite is one application, each run of it a job with what its hosts counted, as `scalewatch rebuild` reports it. Runs that are
learned settle first, in two halves, and their fits are made; then all that are asked settle at once, each before it is learned, and the messages
about them (topic `runs`, `by_counters`) hold what their counters let expect. Nothing is told of which runs are repeats.

leon3 and bc5: a tenth of the benchmarks left out at a time. leon3, trained on a family of benchmarks, asked on the others, both
ways: the families were chosen by name before anything was measured on them, and no constant was chosen by these rows.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agent.app import compose
from agent.app.embedded import Feed
from agent.app.files import ReportedEvent
from agent.app.replay import SETTLE_MS
from agent.config.tree import Config
from processors.contracts.events import (
    Evidence,
    HostMinute,
    JobCompleted,
    JobEvent,
    JobProfile,
    JournalRecord,
    Origin,
    Tick,
)
from processors.contracts.hosts import Profile
from processors.contracts.names import run_id
from processors.contracts.outputs import ExpectedFromCounters, Run
from tests.quality import profiles
from tests.quality.node_power import Scored

CYCLES: Final = 80e6  # a second, on the boards of leon3
BEGIN_MS: Final = 1_767_225_600_000
RUN_MS: Final = 60_000
FITTING_MS: Final = 1_800_000  # so long fits are waited for
FOLDS: Final = 10
FAMILIES: Final = {
    "sglib": ("sglib",),
    "containers": ("sglib", "ctl", "bubblesort", "stanford", "prime", "levenshtein"),
    "numeric": ("matmult", "minver", "nbody", "ludcmp", "qurt", "whetstone", "newlib", "fir", "edn", "fasta"),
    "codecs": ("nettle", "aha", "picojpeg", "miniz", "huff", "ndes", "slre", "frac", "dtoa", "dhry"),
}


class Counted(NamedTuple):
    """Runs of a suite: rates per second by name (k, p), watts (k,) of a component, and the benchmark that each is of (k,)."""

    names: tuple[str, ...]
    rates: npt.NDArray[np.float64]
    power_w: npt.NDArray[np.float64]
    component: str
    benchmark: npt.NDArray[np.str_]


class Suite:
    """A centre with one application, its runs in a journal; what was published of runs that settled."""

    def __init__(self, runs: Counted) -> None:
        config = Config()
        self._runs = runs
        self._shard = compose.make_shard(config)
        self._feed = Feed(self)
        self._now_ms = BEGIN_MS
        self.published: dict[str, tuple[ExpectedFromCounters, ...]] = {}

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        self._fold(JournalRecord(event=event, origin=origin))

    def tick(self, time_ms: int) -> None:
        self._fold(JournalRecord(event=Tick(system="", time_ms=time_ms)))

    def settle(self, at: Sequence[int]) -> list[ExpectedFromCounters | None]:
        """Let runs end together, and settle; return what was expected of each, None where nothing was."""
        end_ms = self._now_ms + RUN_MS
        ids = []
        for i in at:
            job = f"{i}"
            ids.append(run_id("lab", job, end_ms - RUN_MS))
            event = JobCompleted(
                system="lab",
                job_id=job,
                run_id=ids[-1],
                start_ms=end_ms - RUN_MS,
                end_ms=end_ms,
                run_time_s=RUN_MS / 1000,
                state="COMPLETED",
                evidence=Evidence(application="suite", sizes={"nodes": 1.0}),
            )
            self._feed.take(ReportedEvent(end_ms, event, ""))
            self._feed.take(ReportedEvent(end_ms, JobProfile("lab", job, event.run_id, self._profile(i)), ""))
        self._feed.finish(SETTLE_MS + FITTING_MS)
        self._now_ms = end_ms + SETTLE_MS + FITTING_MS
        if faults := {name: count for (kind, name), count in self._shard.tallied().items() if kind == "fault"}:
            raise RuntimeError(f"The product failed: {faults}.")
        target = f"{self._runs.component}_power_w"
        return [next((each for each in self.published[name] if each.target == target), None) for name in ids]

    def _profile(self, i: int) -> Profile:
        counters = dict(zip(self._runs.names, self._runs.rates[i].tolist(), strict=True))
        power = {self._runs.component: float(self._runs.power_w[i])}
        measured = dict.fromkeys(power, 1.0)
        return Profile(hosts=1, minutes=1, expected=1, counters=counters, power_w=power, measured=measured)

    def _fold(self, record: JournalRecord) -> None:
        for message in self._shard.fold(record):
            if isinstance(message, Run):
                self.published[message.run_id] = message.by_counters


def lines(folder: Path) -> Iterator[str]:
    """Yield the rows of the sets that are there."""
    yield f"{'set':58} {'':6} | mean error % median  in band % of 90"
    if (folder / "leon3").is_dir():
        runs = leon3(folder / "leon3")
        yield line("leon3, a tenth of the benchmarks out", tenths(runs))
        for name, beginnings in FAMILIES.items():
            inside = np.array([benchmark.startswith(beginnings) for benchmark in runs.benchmark])
            yield line(f"leon3, all but {name}, then {name}", unseen(runs, ~inside))
            yield line(f"leon3, {name}, then the others", unseen(runs, inside))
    if (folder / "bc5").is_dir():
        yield line("bc5, a tenth of the programs out", tenths(bc5(folder / "bc5")))


def tenths(runs: Counted) -> Scored:
    """Return the errors of each tenth of the benchmarks, by a centre that has learned the others."""
    tenth = np.unique(runs.benchmark, return_inverse=True)[1] % FOLDS
    return Scored(
        *np.average([unseen(runs, tenth != fold) for fold in range(FOLDS)], axis=0, weights=np.bincount(tenth))
    )


def unseen(runs: Counted, learned: npt.NDArray[np.bool_]) -> Scored:
    """Return the errors about the other runs, in %, of a centre that has learned these; every answer has to be explained."""
    suite = Suite(runs)
    earlier = np.flatnonzero(learned)
    for half in range(2):  # the second is predicted as well, so that there is a record
        suite.settle(earlier[half::2].tolist())
    found = suite.settle(np.flatnonzero(~learned).tolist())
    off, inside = [], []
    for each in found:
        if each is None or not each.added:
            raise RuntimeError("A run was answered by nothing, or its answer is not explained.")
        off.append(abs(each.expected / each.observed - 1.0))
        inside.append(each.low <= each.observed <= each.high)
    return Scored(100 * float(np.mean(off)), 100 * float(np.median(off)), 100 * float(np.mean(inside)))


def leon3(folder: Path) -> Counted:
    """Return what boards counted per second, and watts."""
    with (folder / "LEON3_BEEBS_coarsegrain.data").open() as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row]
    numbers = np.array([[float(each) for each in row[5:]] for row in rows[1:]])
    rates = np.column_stack([np.full(len(numbers), CYCLES), CYCLES * numbers[:, 4:] / numbers[:, 3:4]])
    return Counted(("cycles", *rows[0][9:]), rates, numbers[:, 0], "system", np.array([row[1] for row in rows[1:]]))


def bc5(folder: Path) -> Counted:
    """Return what a server counted per second, and watts of the package that was used."""
    table = profiles.bc5(folder)
    return Counted(table.names, table.values, table.target, "cpu", table.group.astype(str))


def line(name: str, found: Scored) -> str:
    return f"{name:58} {'':6} | {found.mean:12.2f} {found.median:6.2f} {found.coverage:18.1f}"
