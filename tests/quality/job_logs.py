"""How well run times of jobs are predicted on logs in the Standard Workload Format, against what people use today.

    python tests/quality/job_logs.py LOG.swf.gz ...

Strictly online: a job is predicted at its submission (its start where the log knows no waiting) from jobs that had
ended by then, and learned when it ends. The same moments hold for the baseline, the mean of the user's last two jobs,
at most what was requested (the request itself for a user's first job), and for the request. The pinball losses of these
take the one number they give as that quantile.
"""

import gzip
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from agent.decode.message import DecodeOptions
from agent.decode.swf import read_header, swf_lines
from processors.contracts.events import Decoded, JobCompleted
from processors.similar_runs import (
    ComingJob,
    EndedJob,
    ExpectedRunTime,
    GroupKind,
    SimilarRuns,
    expected,
    group_keys,
)

Floats = npt.NDArray[np.float64]
Seconds = TypeVar("Seconds", float, Floats)
FAR_FUTURE_MS = 4_000_000_000_000
COLUMNS = ("n", "MAE s", "pinball .5", "pinball .9", "min/max", "held", "below", "above", "ln width")


class Scored(NamedTuple, Generic[Seconds]):
    """One job, or columns of many: what it took and what was said before, in seconds; nan for what nobody said."""

    run_time_s: Seconds
    median_s: Seconds
    high_90_s: Seconds
    mean_s: Seconds
    band_low_s: Seconds
    band_high_s: Seconds
    last_two_s: Seconds
    requested_s: Seconds


class Centre:
    """All histories of one centre, in memory."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._similar_runs: dict[str, SimilarRuns] = defaultdict(SimilarRuns)

    def expected(self, job: ComingJob) -> ExpectedRunTime:
        return expected(job, self._of(job))

    def learn(self, ended: EndedJob, reported: ExpectedRunTime) -> None:
        similar_runs = self._of(ended.job)
        similar_runs["centre"].note(ended.run_time_s, reported)
        for history in similar_runs.values():
            history.learn(ended)

    def _of(self, job: ComingJob) -> dict[GroupKind, SimilarRuns]:
        return {kind: self._similar_runs[key] for kind, key in group_keys(self._system, job).items()}


class LastTwo:
    """The mean of the user's last two ended jobs."""

    def __init__(self) -> None:
        self._last: dict[str | None, deque[float]] = defaultdict(lambda: deque(maxlen=2))

    def expected_s(self, job: ComingJob) -> float:
        requested_s = job.time_limit_s or np.nan
        last = self._last.get(job.user)
        return float(np.fmin(np.mean(last), requested_s)) if last else requested_s

    def learn(self, ended: EndedJob) -> None:
        self._last[ended.job.user].append(ended.run_time_s)


def jobs(path: Path) -> tuple[str, list[JobCompleted]]:
    """Return the name of the system and all jobs that ran."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = text.decode("utf-8", "replace").splitlines()
    options = DecodeOptions(earliest_ms=0)
    header = read_header((line for line in lines if line.startswith(";")), options)
    decode_one, decoded = swf_lines(header, options), Decoded()
    for line in lines:
        if line.strip():
            decode_one(line.encode(), FAR_FUTURE_MS, decoded)
    return header.system, [event for event in decoded.events if isinstance(event, JobCompleted)]


def as_ended(event: JobCompleted) -> EndedJob:
    reported = event.evidence
    job = ComingJob(
        max(reported.sizes.values(), default=1.0), reported.application, reported.user, reported.time_limit_s
    )
    return EndedJob(event.run_id, job, event.run_time_s)


def moments(events: Sequence[JobCompleted]) -> Iterator[tuple[bool, int]]:
    """Yield (is submission, index of the job) in order of time; at one time ends come before submissions."""
    ends = [(event.end_ms, False, i) for i, event in enumerate(events)]
    submissions = [(event.evidence.submit_ms or event.start_ms, True, i) for i, event in enumerate(events)]
    for _, submitted, i in sorted(ends + submissions):
        yield submitted, i


def scores(system: str, events: Sequence[JobCompleted]) -> tuple[list[Scored[float]], float]:
    """Return the scores in order of submission and the seconds of CPU that predicting and learning took in all."""
    centre, last_two = Centre(system), LastTwo()
    ended = [as_ended(event) for event in events]
    reported: dict[int, ExpectedRunTime] = {}
    scored: list[Scored[float]] = []
    spent_s = 0.0
    for submitted, i in moments(events):
        began_s = process_time()
        if submitted:
            reported[i] = centre.expected(ended[i].job)
        else:
            centre.learn(ended[i], reported.pop(i))
        spent_s += process_time() - began_s
        if submitted:
            scored.append(_score(ended[i], reported[i], last_two))
        else:
            last_two.learn(ended[i])
    return scored, spent_s


def _score(ended: EndedJob, reported: ExpectedRunTime, last_two: LastTwo) -> Scored[float]:
    mean_s = float(np.mean(reported.law.quantiles(np.arange(0.05, 1.0, 0.1).tolist())))
    return Scored(
        ended.run_time_s, reported.run_time_s, reported.upper_s, mean_s, reported.low_s, reported.high_s,
        last_two.expected_s(ended.job), ended.job.time_limit_s or np.nan,
    )  # fmt: skip


def pinball(observed: Floats, quantile: Floats, level: float) -> float:
    """Return the mean pinball loss."""
    error = observed - quantile
    return float(np.maximum(level * error, (level - 1) * error).mean())


def row(name: str, observed: Floats, point: Floats, high: Floats, band: tuple[Floats, Floats] | None = None) -> str:
    cells = [
        f"{observed.size}", f"{np.abs(point - observed).mean():.0f}", f"{pinball(observed, point, 0.5):.0f}",
        f"{pinball(observed, high, 0.9):.0f}",
        f"{(np.minimum(point, observed) / np.maximum(point, observed)).mean():.3f}",
    ]  # fmt: skip
    if band is not None:
        below, above = (observed < band[0] * (1 - 1e-9)).mean(), (observed > band[1] * (1 + 1e-9)).mean()
        cells += [f"{1 - below - above:.3f}", f"{below:.3f}", f"{above:.3f}", f"{np.log(band[1] / band[0]).mean():.2f}"]
    return f"| {name} | " + " | ".join([*cells, *[""] * (len(COLUMNS) - len(cells))]) + " |"


def report(name: str, scored: Sequence[Scored[float]]) -> Iterator[str]:
    """Yield the lines of a table over the jobs for which the baseline has an answer."""
    table: Scored[Floats] = Scored(*np.array(scored).T)
    requested = ~np.isnan(table.last_two_s)
    yield row(
        f"{name}, all jobs", table.run_time_s, table.median_s, table.high_90_s, (table.band_low_s, table.band_high_s)
    )
    table = Scored(*(column[requested] for column in table))
    yield row(name, table.run_time_s, table.median_s, table.high_90_s, (table.band_low_s, table.band_high_s))
    yield row("the same by the mean of ten quantiles", table.run_time_s, table.mean_s, table.high_90_s)
    yield row("mean of the user's last two", table.run_time_s, table.last_two_s, table.last_two_s)
    if not np.isnan(table.requested_s).any():
        yield row("requested", table.run_time_s, table.requested_s, table.requested_s)


def main(paths: Sequence[str]) -> None:
    """Print a table for each log: the whole and its halves by submission."""
    for path in paths:
        system, events = jobs(Path(path))
        scored, spent_s = scores(system, events)
        middle = len(scored) // 2
        lines = [f"| {Path(path).name} | " + " | ".join(COLUMNS) + " |", "|" + "---|" * (len(COLUMNS) + 1)]
        for name, part in (("whole", scored), ("first half", scored[:middle]), ("second half", scored[middle:])):
            lines += report(name, part)
        sys.stdout.write("\n".join(lines) + f"\n\n{spent_s / len(scored) * 1e6:.0f} us of CPU a job\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
