"""Runs, dead letters and recent sources, for tests: every argument has a plausible value that a test may replace."""

from typing import Any

from processors.contracts.names import parse_rfc3339, run_id
from processors.contracts.outputs import PredictedAtStart
from processors.contracts.service import DeadLetterView, RecentRun, SourceStatus

NOON_MS = parse_rfc3339("2026-11-20T12:00:00Z")


def predicted(run_time_s: float = 1700.0, **changes: Any) -> PredictedAtStart:
    values: dict[str, Any] = {
        "low_s": run_time_s * 0.9,
        "high_s": run_time_s * 1.2,
        "coverage": 0.9,
        "verdict": "reliable",
        "source": "curve",
    }
    return PredictedAtStart(run_time_s=run_time_s, **(values | changes))


def recent_run(job_id: str = "812", run_time_s: float = 1860.0, **changes: Any) -> RecentRun:
    """A run of the application that `tests.kit.messages.prediction` reports."""
    start_ms = changes.get("start_ms", NOON_MS)
    values: dict[str, Any] = {
        "run_id": run_id("archer2", job_id, start_ms),
        "system": "archer2",
        "job_id": job_id,
        "application_id": "archer2/lammps/rhodo/nodes",
        "n": 64.0,
        "start_ms": start_ms,
        "end_ms": start_ms + round(run_time_s * 1000),
        "run_time_s": run_time_s,
        "state": "COMPLETED",
        "user": "u-1",
        "time_limit_s": 14_400.0,
        "predicted": predicted(),
    }
    return RecentRun(**(values | changes))


def dead_letter_view(**changes: Any) -> DeadLetterView:
    values: dict[str, Any] = {
        "time_ms": NOON_MS,
        "reason": "not-json",
        "detail": "The message is no JSON.",
        "topic": "slurm.jobs",
        "partition": 3,
        "offset": 4711,
    }
    return DeadLetterView(**(values | changes))


def source(topic: str = "slurm.jobs", **changes: Any) -> SourceStatus:
    return SourceStatus(topic=topic, **({"events": 1200, "newest_ms": NOON_MS} | changes))
