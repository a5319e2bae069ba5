"""Runs that settled of late, as the page of an application shows them: against their bands, and how right it was over time."""

from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Final

import msgspec

from agent.contracts.moments import rfc3339
from agent.contracts.recent import RecentRun
from agent.http.access import Reader
from agent.http.plots import Plot
from agent.http.series import Series, Spot, series_plot
from agent.words import duration, moment, share, size

RUNS_SHOWN: Final = 120
ROLLING: Final = 20  # runs, over which error and coverage are told
ROLLING_MIN: Final = 5
COMPLETED: Final = "COMPLETED"


class RunRow(msgspec.Struct, frozen=True):
    """A run in the table: `job` is "" where the reader may not know whose it is, `kind` how its dot looks, "" without one."""

    run: RecentRun
    job: str
    kind: str
    ended: str
    predicted: str
    verdict: str
    words: str


class History(msgspec.Struct, frozen=True):
    """How right predictions were: two charts, and a row for each run, oldest first."""

    error: Plot
    coverage: Plot
    rows: Sequence["Scored"]


class Scored(msgspec.Struct, frozen=True):
    """A run that had been predicted: its relative error, whether it fell inside, and both over the newest runs until then."""

    time_ms: int
    ended: str
    error: float
    inside: bool
    rolling_error: float | None
    rolling_inside: float | None


def run_rows(runs: Sequence[RecentRun], asks: Reader) -> list[RunRow]:
    """Return the newest runs as they are shown.

    >>> run = RecentRun(run_id="exa/1@0", system="exa", job_id="1", application_id=None, n=8.0, start_ms=0, end_ms=60_000,
    ...                 run_time_s=60.0, state="COMPLETED")
    >>> [(row.job, row.kind, row.words) for row in run_rows([run], Reader(operator=True))]
    [('1', 'run', 'job 1: 1 min at 8, not predicted')]
    """
    return [_row(run, known=asks.sees(run.user)) for run in runs[:RUNS_SHOWN]]


def _row(run: RecentRun, *, known: bool) -> RunRow:
    holds = run.told is None or run.told.holds(run.run_time_s)
    kind = "" if run.state != COMPLETED or run.n is None else "run" if holds else "outside"
    predicted = "-" if run.told is None else f"{duration(run.told.low_s)} to {duration(run.told.high_s)}"
    verdict = _verdict(run)
    words = f"{f'job {run.job_id}' if known else 'a run'}: {duration(run.run_time_s)}"
    words += f"{f' at {size(run.n)}' if run.n is not None else ''}, {verdict}"
    words += f" {predicted}" if run.told is not None and run.state == COMPLETED else ""
    return RunRow(run, run.job_id if known else "", kind, moment(rfc3339(run.end_ms)), predicted, verdict, words)


def _verdict(run: RecentRun) -> str:
    if run.state != COMPLETED:
        return run.state.lower().replace("_", " ")
    if run.told is None:
        return "not predicted"
    if run.told.holds(run.run_time_s):
        return "inside"
    return "longer than" if run.run_time_s > run.told.high_s else "shorter than"


def history(name: str, runs: Sequence[RecentRun]) -> History | None:
    """Return how right the predictions of runs were, None where no run had been predicted.

    >>> history("qcd", []) is None
    True
    """
    rows = scored(runs)
    if not rows:
        return None
    error = Series(
        label=f"Error of the predictions of {name}, run by run",
        spots=[Spot(row.time_ms, row.error, row.rolling_error) for row in rows],
        words=_shares,
        top=0.1,
    )
    coverage = Series(
        label=f"Share of the runs of {name} inside their band, over the newest {ROLLING}",
        spots=[Spot(row.time_ms, None, row.rolling_inside) for row in rows],
        words=_shares,
        top=1.0,
        aim=0.9,
    )
    return History(series_plot(error), series_plot(coverage), rows)


def _shares(value: float) -> str:
    return "0 %" if value == 0 else share(value)


def scored(runs: Sequence[RecentRun]) -> list[Scored]:
    """Return the runs that completed and had been predicted, oldest first, with what rolls over the newest of them.

    An error is exp(|ln(observed / predicted)|) - 1: of twice as long and half as long alike it is 100 %.

    >>> scored([])
    []
    """
    told = [run for run in runs if run.told and run.state == COMPLETED and min(run.run_time_s, run.told.run_time_s) > 0]
    found: list[Scored] = []
    logs: list[float] = []
    inside: list[bool] = []
    for run in sorted(told, key=lambda run: (run.end_ms, run.run_id)):
        if run.told is None:
            continue
        logs.append(abs(log(run.run_time_s / run.told.run_time_s)))
        inside.append(run.told.holds(run.run_time_s))
        enough = len(logs) >= ROLLING_MIN
        newest = inside[-ROLLING:]
        found.append(
            Scored(
                run.end_ms,
                moment(rfc3339(run.end_ms)),
                exp(min(logs[-1], 5.0)) - 1,
                inside[-1],
                exp(min(median(logs[-ROLLING:]), 5.0)) - 1 if enough else None,
                sum(newest) / len(newest) if enough else None,
            )
        )
    return found
