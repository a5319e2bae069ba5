"""The tables of prediction quality: each one is a function from the measured data to lines of text.

A table of another area joins by one line in TABLES: a function, or a program of its own by `program`.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from processors.contracts.names import ApplicationKey
from processors.models.combination.combine import Coefficients
from processors.pipeline.state import CoefficientsOf, shipped
from tests.quality import (
    attributes,
    counted,
    counted_times,
    drift,
    growth,
    host_alerts,
    host_forecasts,
    inputs,
    mappings,
    network_load,
    node_power,
    profiles,
    score,
    slow_sizes,
    stragglers,
    streams,
    under_load,
)
from tests.quality.curves import Measured, load
from tests.quality.folds import Folds, OutOfTimeError
from tests.quality.product import answers
from tests.quality.synthetic import errors
from tests.quality.worlds import INNER, RELATED, World, worlds

HEADER = "horizon  points | error % median balanced   mean | coverage % balanced  width"
TRUST_HEADER = (
    "horizon  points unanswered | reliable %, error median  rest | of these off >10 % >30 % | runs above %  below | "
    "bands over x100"
)
# noise -> mean error in % of a combination of Bayes-Downey, five terms and Barnes: inside, at 2 and 4 times the largest size
KNOWN_TRUTH = {0.0: (0.5, 5.1, 12.8), 0.01: (0.8, 4.8, 12.4), 0.03: (1.8, 7.1, 15.5), 0.05: (2.8, 10.9, 23.0)}
MARGIN = 1.15


@dataclass(frozen=True)
class LeftOut:
    """The coefficients by which each application is predicted: those that were fitted without its data set."""

    found: Mapping[str, Coefficients]

    def __call__(self, key: ApplicationKey) -> Coefficients:
        return self.found[key.application]


@dataclass
class Sources:
    """What tables are made from: curves in CSV files, logs of jobs; answers that several tables show are retained.

    `worlds` are patterns of names of those that are asked. With `shipped` they are asked as the product is; else each
    application is predicted by coefficients that were fitted without its data set.
    """

    data: Path
    cache: Path
    by_set: bool = False
    seconds: float = 0.0
    shipped: bool = False
    worlds: Sequence[str] = ("*",)
    workers: int = 1
    _answers: dict[str, list[score.Answer]] = field(default_factory=dict)

    @property
    def curves_folder(self) -> Path:
        """The folder of curves: the one given, or `scaling` in it."""
        inner = self.data / "scaling"
        return inner if inner.is_dir() else self.data

    @property
    def logs(self) -> list[str]:
        """Logs in the Standard Workload Format, in `telemetry/swf` beside the curves."""
        return [str(path) for path in sorted((self.curves_folder.parent / "telemetry" / "swf").glob("*.swf*"))]

    @property
    def machines(self) -> Path:
        """The folder of measured load of machines, in `telemetry/bitbrains` beside the curves."""
        return self.curves_folder.parent / "telemetry" / "bitbrains"

    @cached_property
    def curves(self) -> list[Measured]:
        return load(self.curves_folder)

    @cached_property
    def folds(self) -> Folds:
        return Folds(self.curves, self.cache)

    @cached_property
    def centres(self) -> dict[str, World]:
        """The worlds that are asked, by name."""
        return worlds(self.curves, self.worlds)

    @cached_property
    def coefficients_of(self) -> CoefficientsOf:
        """By what an application is predicted; all is fitted before anything is asked, for a shard survives what fails."""
        if self.shipped:
            return shipped
        return LeftOut({curve.application: self.folds.without(curve.fold) for curve in self.curves})

    def answers(self, *stems: str) -> list[score.Answer]:
        """Return the answers of the worlds whose names begin so; each world is asked once."""
        chosen = [name for name in self.centres if name.startswith(stems)]
        missing = [name for name in chosen if name not in self._answers]
        if missing:
            ask = partial(_scored_answers, coefficients_of=self.coefficients_of)
            with ProcessPoolExecutor(self.workers, get_context("spawn")) as pool:
                for name, found in zip(missing, pool.map(ask, map(self.centres.get, missing)), strict=True):
                    self._answers[name] = found
                    if time.monotonic() > self.folds.deadline_s:
                        pool.shutdown(cancel_futures=True)
                        self.folds.check_time()
        return [answer for name in chosen for answer in self._answers[name]]


class Table(NamedTuple):
    """A table: what it tells, how it is made, and how long that may take."""

    about: str
    lines: Callable[[Sources], Iterator[str]]
    seconds: float


def program(module: str, arguments: Callable[[Sources], Sequence[str]]) -> Callable[[Sources], Iterator[str]]:
    """Return the lines that a module prints when it is run by itself."""

    def lines(sources: Sources) -> Iterator[str]:
        given = arguments(sources)
        if not given:
            yield "no data for it beside the curves"
            return
        command = [sys.executable, "-u", "-m", module, *given]
        try:
            found = subprocess.run(command, capture_output=True, text=True, timeout=sources.seconds, check=True)
        except subprocess.TimeoutExpired as error:
            yield from (error.stdout or b"").decode().splitlines()
            raise OutOfTimeError(module) from None
        yield from found.stdout.splitlines()

    return lines


def inside(sources: Sources) -> Iterator[str]:
    """Yield errors and bands at inner sizes that did not run."""
    yield from _scored(sources, sources.answers(INNER))


def beyond(sources: Sources) -> Iterator[str]:
    """Yield errors and bands beyond the largest size that ran."""
    yield from _scored(sources, sources.answers(*BEYOND))


def related(sources: Sources) -> Iterator[str]:
    """Yield errors and bands of curves of four sizes, other curves of the application known whole."""
    yield from _scored(sources, sources.answers(RELATED))


def trust(sources: Sources) -> Iterator[str]:
    """Yield how far verdicts and bands can be trusted, everywhere that was asked."""
    parts = {"": sources.answers(INNER, *BEYOND), "siblings": sources.answers(RELATED)}
    yield TRUST_HEADER
    for name, found in parts.items():
        yield from (f"{_trust_row(each)}  {name}".rstrip() for each in score.by_horizon(found).items())
    for data_set in _data_sets(sources, [each for found in parts.values() for each in found]):
        for name, found in parts.items():
            own = score.by_horizon(answer for answer in found if answer.data_set == data_set)
            yield from (f"{_trust_row(each)}  {data_set} {name}".rstrip() for each in own.items())


def synthetic(_: Sources) -> Iterator[str]:
    """Yield mean errors where the truth is known, and what they may be."""
    yield "noise | mean error % inside, at 2x, at 4x | at most"
    for noise, reference in KNOWN_TRUTH.items():
        most = " ".join(f"{MARGIN * value:5.1f}" for value in reference)
        yield f"{noise:5.2f} | " + " ".join(f"{value:5.1f}" for value in errors(noise)) + f"{'':16} | {most}"


def slowdowns(sources: Sources) -> Iterator[str]:
    """Yield what simulated slowdowns and improvements show, and the alerts on logs where there are any."""
    yield from drift.table()
    yield from drift.log_table([Path(path) for path in sources.logs])


def machines(sources: Sources) -> Iterator[str]:
    """Yield how windows of measured load did as forecasts, where there is any."""
    if sources.machines.is_dir():
        yield from host_forecasts.table(sources.machines)
    else:
        yield "no data for it beside the curves"


def alerts_of_hosts(sources: Sources) -> Iterator[str]:
    """Yield how rare alerts about hosts are on measured load, and which faults get one, where there is any."""
    if sources.machines.is_dir():
        yield from host_alerts.table(sources.machines.parent)
        yield from stragglers.table(sources.machines.parent / "clustercockpit")
    else:
        yield "no data for it beside the curves"


def counters(sources: Sources) -> Iterator[str]:
    """Yield how power from counters did through the whole fold."""
    yield from counted.lines(sources.data / "telemetry")


def nodes(sources: Sources) -> Iterator[str]:
    """Yield how power of nodes from their other metrics did through decoder, windows and fold."""
    yield from node_power.lines(sources.data / "telemetry")


BEYOND = "first", "minus"  # how the names of worlds begin that ask beyond the largest size
TABLES = {
    "inside": Table("sizes between those that ran", inside, 3600.0),
    "beyond": Table("sizes beyond the largest that ran", beyond, 900.0),
    "siblings": Table("the same, where other curves of the application are known further out", related, 1200.0),
    "trust": Table("what is called reliable, and on which side runs leave their bands", trust, 3600.0),
    "growth": Table("bands as the centre gets to know applications", growth.lines, 900.0),
    "inputs": Table("inputs that were never run, or hardly, from the others of their application", inputs.lines, 300.0),
    "streams": Table("anomalies on labelled streams, strictly online", streams.lines, 120.0),
    "counters": Table("power from counters, as the product publishes it of runs", counters, 900.0),
    "node_power": Table("power of nodes from their other metrics, as the product publishes it of runs", nodes, 900.0),
    "counted_times": Table("run times that follow counters at a given size", lambda _: counted_times.table(), 900.0),
    "profiles": Table(
        "classes of models of counters, other metrics and attributes, for comparison", profiles.lines, 300.0
    ),
    "attributes": Table("run times that attributes decide, by how many runs are retained", attributes.lines, 1800.0),
    "synthetic": Table("curves whose truth is known", synthetic, 120.0),
    "job_logs": Table(
        "run time of jobs by name and user", program("tests.quality.job_logs", lambda sources: sources.logs), 300.0
    ),
    "mappings": Table(
        "placements of an application at 64 and 512 processes, in order", lambda _: mappings.table(), 1800.0
    ),
    "slow_sizes": Table("one slow size through the whole fold", lambda _: slow_sizes.table(), 900.0),
    "drift": Table("slowdowns through the whole fold: delays, false alarms, alerts on logs of jobs", slowdowns, 900.0),
    "job_starts": Table(
        "jobs at their start through the whole fold, and who told them",
        program("tests.quality.job_starts", lambda sources: sources.logs),
        1200.0,
    ),
    "shifts": Table(
        "applications that become slower: delays, false alarms, errors; alerts on logs of jobs",
        program("tests.quality.drift", lambda sources: sources.logs),
        1800.0,
    ),
    "under_load": Table(
        "run times under load on a simulated centre, against the plain band", lambda _: under_load.table(), 600.0
    ),
    "network_load": Table(
        "run times under the load of the network on a simulated centre, with bandwidth and without",
        lambda _: network_load.table(),
        1200.0,
    ),
    "host_alerts": Table("alerts about hosts on measured load: how rare, and for which faults", alerts_of_hosts, 600.0),
    "centre_alerts": Table(
        "alerts of the simulated centre by what is really the matter",
        program("tests.quality.centre_alerts", lambda _: ("24", "1", "2", "3", "4")),
        3600.0,
    ),
    "host_forecasts": Table("windows of measured load as forecasts, against single values", machines, 300.0),
}


def _scored(sources: Sources, found: Sequence[score.Answer]) -> Iterator[str]:
    yield HEADER
    yield from map(_row, score.by_horizon(found).items())
    for data_set in _data_sets(sources, found):
        own = score.by_horizon(answer for answer in found if answer.data_set == data_set)
        yield from (f"{_row(each)}  {data_set}" for each in own.items())


def _scored_answers(world: World, coefficients_of: CoefficientsOf) -> list[score.Answer]:
    return [score.scored(*each) for each in answers(world, coefficients_of)]


def _data_sets(sources: Sources, found: Sequence[score.Answer]) -> list[str]:
    return sorted({answer.data_set for answer in found}) if sources.by_set else []


def _row(of: tuple[str, Sequence[score.Answer]]) -> str:
    name, line = of[0], score.accuracy(of[1])
    return (
        f"{name:8} {line.points:6} | {line.median:14.1f} {line.balanced:8.1f} {line.mean:6.1f} | "
        f"{line.coverage:10.1f} {line.coverage_balanced:8.1f} {line.width:6.2f}"
    )


def _trust_row(of: tuple[str, Sequence[score.Answer]]) -> str:
    name, line = of[0], score.trust(of[1])
    return (
        f"{name:8} {line.points:6} {line.unanswered:10} | "
        f"{line.reliable_share:10.0f} {line.reliable_median:13.1f} {line.rest_median:5.1f} | "
        f"{line.off_some:18.1f} {line.off_far:5.1f} | {line.above:12.1f} {line.below:6.1f} | {line.absurd:15}"
    )
