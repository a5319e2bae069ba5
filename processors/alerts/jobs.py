"""Alerts about running jobs: a job hangs, is slow, or will probably be ended by its time limit."""

import math
from typing import Final, NamedTuple

from processors.alerts import rules
from processors.alerts.lifecycle import Condition
from processors.contracts.alerts import HangingJob, JobNearLimit
from processors.contracts.events import JobStarted
from processors.contracts.names import duration
from processors.contracts.outputs import AlertEvidence
from processors.contracts.service import hits
from processors.facts import Band

LEAD_SHARE: Final = 0.5  # largest part of the limit that may be left, so that a job of ten minutes is not warned at its start
END_MISSING_S: Final = -600.0  # a job so far beyond its limit has ended, although nobody reported it


class WatchedJob(NamedTuple):
    """A running job: labels of its alerts, size, elapsed time in s, prediction of its whole run, and chance to reach its limit."""

    started: JobStarted
    labels: dict[str, str]
    n: float
    elapsed_s: float
    band: Band
    reliable: bool
    exceeds_limit: float | None

    @property
    def left_s(self) -> float:
        """The seconds until the time limit, negative beyond it."""
        limit_s = self.started.evidence.time_limit_s
        return math.inf if limit_s is None else limit_s - self.elapsed_s

    @property
    def evidence(self) -> AlertEvidence:
        low_s, high_s, run_ids = self.band.low_s, self.band.high_s, (self.started.run_id,)
        return AlertEvidence(self.elapsed_s, self.band.run_time_s, low_s, high_s, self.n, run_ids)

    def is_overdue(self, settings: HangingJob) -> bool:
        is_late = self.elapsed_s >= self.band.high_s + settings.overdue_min_s
        return settings.enabled and is_late and self.left_s >= END_MISSING_S


def overdue(job: WatchedJob, settings: HangingJob, now_ms: int, *, is_active: bool | None) -> Condition | None:
    """Return the condition of an overdue job; `is_active` tells whether its hosts are busy, None without telemetry.

    A job with busy hosts is slow. A job with idle hosts hangs as soon as it is overdue, even if the prediction is not
    reliable. In all other cases the elapsed time alone must be sure enough.
    """
    ratio = job.elapsed_s / job.band.high_s
    if is_active is not False and not (job.reliable and ratio >= settings.factor_min):
        return None
    alert, text = rules.SLOW_JOB if is_active else rules.HANGING_JOB, rules.IDLE_JOB if is_active is False else None
    return alert.condition(job.labels, settings, now_ms, {"ratio": ratio}, job.evidence, text=text)


def near_limit(job: WatchedJob, settings: JobNearLimit, now_ms: int) -> Condition | None:
    """Return the condition of a job that will probably be ended by its limit within `lead_s` or LEAD_SHARE of the limit."""
    lead_s = min(settings.lead_s, LEAD_SHARE * (job.elapsed_s + job.left_s))
    is_near = settings.enabled and 0 < job.left_s <= lead_s
    if not is_near or job.exceeds_limit is None or not hits(job.exceeds_limit, session=False):
        return None
    end = rules.clock(now_ms + round(job.left_s * 1000))
    values = {"limit": duration(job.elapsed_s + job.left_s), "end": end, "percent": job.exceeds_limit * 100}
    return rules.JOB_NEAR_LIMIT.condition(job.labels, settings, now_ms, values, job.evidence)
