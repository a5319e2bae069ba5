"""Alerts about running jobs: a job hangs, is slow, or will probably be ended by its time limit."""

import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from processors.alerts import rules
from processors.alerts.lifecycle import Condition
from processors.contracts.alerts import AlertSettings
from processors.contracts.events import JobStarted
from processors.contracts.names import duration
from processors.contracts.outputs import AlertEvidence
from processors.facts import Band

# largest share of the limit that may be left, so that the user of a short job is not warned at its start
LEAD_SHARE: Final = 0.5
END_MISSING_S: Final = 600.0  # this long beyond its limit a job has ended, and the report of its end is missing


class WatchedJob(NamedTuple):
    """A running job: labels of its alerts, size, elapsed time in s, prediction of its whole run, and chance to reach its limit."""

    started: JobStarted
    labels: dict[str, str]
    n: float
    elapsed_s: float
    band: Band
    reliable: bool
    exceeds_limit: float | None


def conditions(
    job: WatchedJob, settings: AlertSettings, now_ms: int, is_active: Callable[[], bool | None]
) -> Iterator[Condition]:
    """Yield the conditions that hold for a job; `is_active` returns whether its hosts are busy, None without telemetry.

    A job with idle hosts hangs as soon as it is overdue, even if the prediction is not reliable. In all other cases the
    elapsed time alone must be sure enough.
    """
    near, hanging, band = settings.job_near_limit, settings.hanging_job, job.band
    evidence = AlertEvidence(job.elapsed_s, band.run_time_s, band.low_s, band.high_s, job.n, (job.started.run_id,))
    limit_s = job.started.evidence.time_limit_s or math.inf
    left_s, chance, ratio = limit_s - job.elapsed_s, job.exceeds_limit or 0.0, job.elapsed_s / band.high_s
    if near.enabled and 0.0 < left_s <= min(near.lead_s, LEAD_SHARE * limit_s) and chance >= near.chance_min:
        end = rules.clock(now_ms + round(left_s * 1000))
        figures = {"limit": duration(limit_s), "end": end, "percent": min(math.floor(chance * 100), 99)}
        yield rules.JOB_NEAR_LIMIT.condition(job.labels, near, now_ms, figures, evidence)
    if hanging.enabled and job.elapsed_s >= band.high_s + hanging.overdue_min_s and left_s >= -END_MISSING_S:
        active = is_active()
        alert, text = rules.SLOW_JOB if active else rules.HANGING_JOB, rules.IDLE_JOB if active is False else None
        if active is False or (job.reliable and ratio >= hanging.factor_min):
            yield alert.condition(job.labels, hanging, now_ms, {"ratio": ratio}, evidence, text=text)
