"""How well jobs are predicted at their start by the agent's whole fold, on logs in the Standard Workload Format.

    python -m tests.quality.job_starts LOG.swf.gz ...

A shard of the agent is reported every start and every end in their order, and what it publishes at a start is compared
with what happened. The rivals are those of `job_logs`, at the same moments: the mean of the user's last two ended jobs
(at most what was requested; the request for a first job), and the request. The .9 quantile is read from the published
band as that of a log-normal law; the rivals' one number is taken for every quantile.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from agent.identify import Identifier
from processors.contracts.alerts import AlertSettings
from processors.contracts.events import JobCompleted, JobStarted, JournalRecord, Tick
from processors.contracts.outputs import JobPrediction
from processors.contracts.settings import IdentifySettings, JobSettings, RunTimeSettings
from processors.models.numerics.statistics import Z95
from processors.pipeline.shard import Shard
from processors.pipeline.state import FoldSettings
from tests.quality.job_logs import LastTwo, as_ended, jobs, pinball

COLUMNS = ("jobs", "MAE s", "pinball .5", "pinball .9", "held")
NEVER_S = 1e8


class Scored(NamedTuple):
    """One job: what it took, what was said at its start and by whom, what the rivals say; nan for what nobody said."""

    run_time_s: float
    median_s: float
    upper_s: float
    low_s: float
    high_s: float
    last_two_s: float
    requested_s: float
    source: str


def shard(fallback: Sequence[str] = ()) -> Shard:
    """Return a shard with the settings of the agent; jobs that run are not told anew, for their start alone counts."""
    identify = IdentifySettings.model_validate({"fallback": tuple(fallback)} if fallback else {})
    settings = FoldSettings(JobSettings(revise_s=NEVER_S), RunTimeSettings(), AlertSettings(), "quality")
    return Shard(settings, Identifier(identify).identify)


def scored_jobs(events: Sequence[JobCompleted], fold: Shard) -> list[Scored]:
    """Return what the fold and the rivals said of each job, in the order of their starts."""
    last_two = LastTwo()
    found: list[Scored] = []
    for time_ms, starts, i in sorted(_moments(events)):
        event = events[i]
        fold.fold(JournalRecord(Tick(system="", time_ms=time_ms)))
        ended = as_ended(event)
        if not starts:
            fold.fold(JournalRecord(event))
            last_two.learn(ended)
            continue
        started = JobStarted(event.system, event.job_id, event.run_id, event.start_ms, event.evidence)
        sent = fold.fold(JournalRecord(started))
        prediction = next(message for message in sent if isinstance(message, JobPrediction))
        found.append(
            Scored(
                event.run_time_s, *_numbers(prediction), last_two.expected_s(ended.job),
                ended.job.time_limit_s or np.nan, prediction.model.name if prediction.model else "nobody",
            )
        )  # fmt: skip
    return found


def _moments(events: Sequence[JobCompleted]) -> Iterator[tuple[int, bool, int]]:
    for i, event in enumerate(events):
        yield event.end_ms, False, i
        yield event.start_ms, True, i


def _numbers(prediction: JobPrediction) -> tuple[float, float, float, float]:
    if prediction.run_time_s is None or prediction.low_s is None or prediction.high_s is None:
        return np.nan, np.nan, np.nan, np.nan
    return (
        prediction.run_time_s,
        prediction.run_time_s * (prediction.high_s / prediction.run_time_s) ** (NormalDist().inv_cdf(0.9) / Z95),
        prediction.low_s,
        prediction.high_s,
    )


def table(path: Path, fallback: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a table of one log: the jobs that were told, by who told, against the rivals on the same jobs.

    The last lines give the share of jobs by who told.
    """
    _, events = jobs(path)
    found = scored_jobs(events, shard(fallback))
    known = [job for job in found if job.source != "nobody" and not np.isnan(job.last_two_s)]
    sources = sorted({job.source for job in known})
    yield f"| {path.name} | " + " | ".join(COLUMNS) + " |"
    yield "|" + "---|" * (len(COLUMNS) + 1)
    for name, part in [("all told", known), *((s, [job for job in known if job.source == s]) for s in sources)]:
        yield from _rows(name, part)
    counts = Counter(job.source for job in found)
    yield ""
    yield "told by: " + ", ".join(f"{name} {count / len(found):.3f}" for name, count in sorted(counts.items()))


def _rows(name: str, part: Sequence[Scored]) -> Iterator[str]:
    column = {field: np.array([getattr(job, field) for job in part]) for field in Scored._fields[:-1]}
    observed = column["run_time_s"]
    covered = float(((column["low_s"] <= observed) & (observed <= column["high_s"])).mean())
    comparison = [
        ("median_s", "upper_s", f"{name}", f"{covered:.3f}"),
        ("last_two_s", "last_two_s", "- user's last two", ""),
    ]
    if not np.isnan(column["requested_s"]).any():
        comparison.append(("requested_s", "requested_s", "- requested", ""))
    for point, upper, label, coverage in comparison:
        error_s = np.abs(column[point] - observed).mean()
        half, ninth = pinball(observed, column[point], 0.5), pinball(observed, column[upper], 0.9)
        yield f"| {label} | {observed.size} | {error_s:.0f} | {half:.0f} | {ninth:.0f} | {coverage} |"


def main(paths: Sequence[str]) -> None:
    """Print a table for each log."""
    for path in paths:
        sys.stdout.write("\n".join(table(Path(path))) + "\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
