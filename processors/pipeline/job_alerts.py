"""The alerts about the running jobs of one shard."""

from typing import Final

from processors.alerts import rules
from processors.alerts.jobs import WatchedJob, near_limit, overdue
from processors.alerts.lifecycle import Condition
from processors.alerts.policy import About
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import RELIABLE, AlertEnd, Tombstone
from processors.facts import Remaining
from processors.jobs.lifecycle import Job
from processors.load.runs import better_band
from processors.pipeline.alerts import Warnings
from processors.pipeline.predictor import Predicted
from processors.pipeline.state import Emits, ShardState

OF_JOBS: Final = tuple(alert for alert in rules.ALERTS.values() if alert.subject == "job")


class JobAlerts:
    """Raises and ends the alerts about running jobs; `Job.alert_labels` remembers which jobs have open alerts."""

    def __init__(self, state: ShardState, warnings: Warnings) -> None:
        self._state, self._warnings = state, warnings

    def watch(self, job: Job, predicted: Predicted | None, end: Remaining | None) -> Emits[None]:
        """Raise or end the alerts about a running job, given the predictions of its whole run and of its end."""
        started, forecast = job.running, job.forecast
        if started is None or forecast is None:
            return
        elapsed_s, conditions = max(self._state.now_ms - started.start_ms, 0) / 1000, list[Condition | None]()
        application = ApplicationKey.parse(forecast.application_id).application if forecast.application_id else ""
        whose = {"user": started.evidence.user or "", "application": application}
        labels = job.alert_labels or {"system": started.system, "job": started.job_id, **whose}
        if predicted is not None and end is not None and not forecast.session:
            band, reliable = better_band(job.start_load) or predicted.band, predicted.reliability.verdict == RELIABLE
            watched = WatchedJob(started, labels, predicted.n, elapsed_s, band, reliable, end.exceeds_limit)
            conditions = self._conditions(watched)
        holding = {condition.name: condition for condition in conditions if condition is not None}
        if not holding and not job.alert_labels:
            return
        is_open, about = False, About(started.evidence, elapsed_s)
        for alert in OF_JOBS:
            condition = holding.get(alert.name) or alert.over(labels, self._state.now_ms)
            is_open |= yield from self._warnings.opens(condition, about)
        job.alert_labels = labels if is_open else {}

    def _conditions(self, job: WatchedJob) -> list[Condition | None]:
        settings, now_ms, started = self._state.settings.alerts, self._state.now_ms, job.started
        conditions = [near_limit(job, settings.job_near_limit, now_ms)]
        if job.is_overdue(settings.hanging_job):
            is_active = self._state.activity.active(started.system, started.evidence.hosts, now_ms)
            conditions.append(overdue(job, settings.hanging_job, now_ms, is_active=is_active))
        return conditions

    def end(self, key: str, job: Job, by: AlertEnd = "itself") -> Emits[None]:
        """Remove the prediction of a job that does not run any more, and end its alerts."""
        yield Tombstone("job_predictions", key)
        labels, job.alert_labels = job.alert_labels, {}
        if labels:
            yield from self._warnings.take(*(alert.over(labels, self._state.now_ms, by=by) for alert in OF_JOBS))
