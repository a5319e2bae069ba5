"""The tables of prediction quality: each one is a function from the measured data to lines of text.

A table of another area joins by one line in TABLES: a function, or a program of its own by `program`.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from processors.models.combination.combine import SHIPPED
from tests.quality import (
    drift,
    growth,
    host_alerts,
    host_forecasts,
    inputs,
    profiles,
    score,
    slow_sizes,
    stragglers,
    streams,
    under_load,
)
from tests.quality.curves import Measured, load
from tests.quality.folds import Folds, OutOfTimeError
from tests.quality.synthetic import errors

HEADER = "horizon  points | error median balanced   mean | coverage balanced  width | reliable: share median  rest"
# noise -> mean error in % of a combination of Bayes-Downey, five terms and Barnes: inside, at 2 and 4 times the largest size
KNOWN_TRUTH = {0.0: (0.5, 5.1, 12.8), 0.01: (0.8, 4.8, 12.4), 0.03: (1.8, 7.1, 15.5), 0.05: (2.8, 10.9, 23.0)}
MARGIN = 1.15


@dataclass
class Sources:
    """What tables are made from: curves in CSV files, logs of jobs; answers that several tables show are kept."""

    data: Path
    cache: Path
    by_set: bool = False
    seconds: float = 0.0

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
    def inside(self) -> list[score.Answer]:
        """Answers inside the range, by coefficients that never saw the set."""
        return score.inside(self.curves, self.folds.without, alone=True)

    @cached_property
    def left_out(self) -> list[score.Answer]:
        """Answers beyond the range by coefficients that never saw the set, in a centre of the set's own."""
        return score.beyond(self.curves, self.folds.without, alone=True)


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
    yield from _scored(sources, sources.inside)


def shipped(sources: Sources) -> Iterator[str]:
    yield from _scored(sources, score.beyond(sources.curves, lambda _: SHIPPED, alone=False))


def left_out(sources: Sources) -> Iterator[str]:
    yield from _scored(sources, sources.left_out)


def joint(sources: Sources) -> Iterator[str]:
    yield from _scored(sources, score.beyond(sources.curves, sources.folds.without, alone=False))


def verdicts(sources: Sources) -> Iterator[str]:
    """Yield whether reliable points have at most half the median error of the others."""
    yield "horizon  reliable % | median error %: reliable   rest | ratio, at most 0.5"
    for name, line in score.table([*sources.inside, *sources.left_out]).items():
        ratio = line.reliable_median / line.rest_median
        yield f"{name:8} {line.reliable_share:10.0f} | {line.reliable_median:24.1f} {line.rest_median:6.1f} | {ratio:.2f}"


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


TABLES = {
    "inside": Table("interpolation: each data set left out, a centre of its own", inside, 600.0),
    "left_out": Table("extrapolation: each data set left out, a centre of its own", left_out, 600.0),
    "together": Table("extrapolation: each data set left out, all in one centre", joint, 600.0),
    "shipped": Table("extrapolation: the coefficients as shipped", shipped, 120.0),
    "verdicts": Table("what is called reliable against the rest", verdicts, 600.0),
    "growth": Table("bands as the centre gets to know applications", growth.lines, 300.0),
    "inputs": Table("inputs that were never run, or hardly, from the others of their application", inputs.lines, 300.0),
    "streams": Table("anomalies on labelled streams, strictly online", streams.lines, 120.0),
    "profiles": Table("power and run time from counters, other metrics and attributes", profiles.lines, 300.0),
    "synthetic": Table("curves whose truth is known", synthetic, 60.0),
    "job_logs": Table(
        "run time of jobs by name and user", program("tests.quality.job_logs", lambda sources: sources.logs), 300.0
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
    "host_alerts": Table("alerts about hosts on measured load: how rare, and for which faults", alerts_of_hosts, 600.0),
    "host_forecasts": Table("windows of measured load as forecasts, against single values", machines, 300.0),
}


def _scored(sources: Sources, answers: Sequence[score.Answer]) -> Iterator[str]:
    yield HEADER
    for name, line in score.table(answers).items():
        yield _row(name, line)
    for data_set in sorted({answer.data_set for answer in answers}) if sources.by_set else ():
        for name, line in score.table(answer for answer in answers if answer.data_set == data_set).items():
            yield f"{_row(name, line)}  {data_set}"


def _row(name: str, line: score.Line) -> str:
    return (
        f"{name:8} {line.points:6} | {line.median:12.1f} {line.balanced:8.1f} {line.mean:6.1f} | "
        f"{line.coverage:8.1f} {line.coverage_balanced:8.1f} {line.width:6.2f} | "
        f"{line.reliable_share:15.0f} {line.reliable_median:6.1f} {line.rest_median:5.1f}"
    )
