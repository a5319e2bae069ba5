"""Alerts about applications and their runs, and what ends them when it is forgotten."""

from agent.contracts.names import ApplicationKey
from processors import alert_rules, profile_rules, run_rules
from processors.fold.desk import OF_APPLICATION, Desk
from processors.fold.open_alerts import OpenAlerts


class Warnings(OpenAlerts):
    """All alerts of one shard about applications.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from processors.alerts import Condition
    >>> desk = make_shard(Config()).desk
    >>> Warnings(desk).take([Condition(name="X", labels={}, holds=True, time_ms=0)])
    >>> [alert.status for alert in desk.outbox]
    ['firing']
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._desk = desk

    def forget_application(self, application_id: str) -> None:
        """Forget the model of an application, with everything that it said: messages and alerts."""
        model = self._desk.models.get(application_id)
        flagged = model.flagged if model else ()
        verdicts = self._desk.settings.alerts.unreliable.verdicts
        key = ApplicationKey.parse(application_id)
        self.take(alert_rules.forgotten(key, flagged, verdicts, self._desk.now_ms))
        self.take(profile_rules.forgotten(key, self._desk.now_ms))
        for name in (alert_rules.REGRESSION, alert_rules.IMPROVEMENT):
            labels = alert_rules.application_labels(key)
            self.ends(run_rules.ended(name, labels, run_rules.FORGOTTEN, self._desk.now_ms))
        self._desk.remove_model(application_id)

    def forget_failures(self, key: str) -> None:
        """Let the alert of a failure rate end that is forgotten."""
        if key.startswith(OF_APPLICATION):
            labels = alert_rules.application_labels(ApplicationKey.parse(key.removeprefix(OF_APPLICATION)))
            self.take([alert_rules.over(alert_rules.APPLICATION_FAILS, labels, self._desk.now_ms)])
