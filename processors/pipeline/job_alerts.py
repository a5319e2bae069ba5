"""The alerts about the running jobs of one shard."""

from functools import partial
from typing import Final

from processors.alerts import rules
from processors.alerts.jobs import WatchedJob, conditions
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
        started, forecast, now_ms, holding = job.running, job.forecast, self._state.now_ms, dict[str, Condition]()
        if started is None or forecast is None:
            return
        evidence, elapsed_s = started.evidence, max(now_ms - started.start_ms, 0) / 1000
        application = ApplicationKey.parse(forecast.application_id).application if forecast.application_id else ""
        whose = {"user": evidence.user or "", "application": application}
        labels = job.alert_labels or {"system": started.system, "job": started.job_id, **whose}
        if predicted is not None and end is not None and not forecast.session:
            band, reliable = better_band(job.start_load) or predicted.band, predicted.reliability.verdict == RELIABLE
            watched = WatchedJob(started, labels, predicted.n, elapsed_s, band, reliable, end.exceeds_limit)
            is_active = partial(self._state.activity.active, started.system, evidence.hosts, now_ms)
            held = conditions(watched, self._state.settings.alerts, now_ms, is_active)
            holding = {condition.name: condition for condition in held}
        if holding or job.alert_labels:
            job.alert_labels = {}
            for alert in OF_JOBS:
                condition = holding.get(alert.name) or alert.over(labels, now_ms)
                if (yield from self._warnings.opens(condition, About(evidence, elapsed_s))):
                    job.alert_labels = labels

    def end(self, key: str, job: Job, by: AlertEnd = "itself") -> Emits[None]:
        """Remove the prediction of a job that does not run any more, and end its alerts."""
        yield Tombstone("job_predictions", key)
        labels, job.alert_labels = job.alert_labels, {}
        if labels:
            yield from self._warnings.take(*(alert.over(labels, self._state.now_ms, by=by) for alert in OF_JOBS))
