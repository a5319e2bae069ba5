"""Conditions become alerts: one life per fingerprint, changes of status become messages."""

from collections.abc import Iterable

from agent.contracts.moments import rfc3339
from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import Alert
from processors import alert_rules, run_rules
from processors.alerts import AlertLife, Condition, Transition
from processors.digest import hexdigest
from processors.fold.desk import OF_APPLICATION, Desk
from processors.messages import Context

DUE_PER_TICK_MAX = 1000


class Warnings:
    """All alerts of one shard; at most `open_max` are open at once, more are counted.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> desk = make_shard(Config()).desk
    >>> Warnings(desk).take([Condition(name="X", labels={}, holds=True, time_ms=0)])
    >>> [alert.status for alert in desk.outbox]
    ['firing']
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def take(self, conditions: Iterable[Condition]) -> None:
        """Note conditions and send what changes."""
        for condition in conditions:
            self.opens(condition)

    def opens(self, condition: Condition) -> bool:
        """Note a condition, send what changes, and tell whether its alert is open then."""
        key = fingerprint(condition)
        known = key in self._desk.alerts
        if not condition.holds and not known:
            return False
        if not known and len(self._desk.alerts) >= self._desk.settings.alerts.open_max:
            self._desk.tally["bound", "open_alerts_max"] += 1
            return False
        life = self._desk.alerts.open(key)
        if life.score(condition):
            self._send(key, life, life.take(condition))
        return life.open

    def ends(self, condition: Condition) -> bool:
        """Let an alert end with the words of a condition, at the next tick; False where none is open."""
        return fingerprint(condition) in self._desk.alerts and self.opens(condition)

    def tick(self) -> None:
        """Let the alerts whose time has come fire or resolve."""
        for key in self._desk.alerts.due(self._desk.now_ms, DUE_PER_TICK_MAX):
            life = self._desk.alerts.open(key)
            self._send(key, life, life.tick(self._desk.now_ms))

    def forget_application(self, application_id: str) -> None:
        """Forget the model of an application, with everything that it said: messages and alerts."""
        model = self._desk.models.get(application_id)
        flagged = model.flagged if model else ()
        verdicts = self._desk.settings.alerts.unreliable.verdicts
        key = ApplicationKey.parse(application_id)
        self.take(alert_rules.forgotten(key, flagged, verdicts, self._desk.now_ms))
        for name in (alert_rules.REGRESSION, alert_rules.IMPROVEMENT):
            labels = alert_rules.application_labels(key)
            self.ends(run_rules.ended(name, labels, run_rules.FORGOTTEN, self._desk.now_ms))
        self._desk.remove_model(application_id)

    def forget_failures(self, key: str) -> None:
        """Let the alert of a failure rate end that is forgotten."""
        if key.startswith(OF_APPLICATION):
            labels = alert_rules.application_labels(ApplicationKey.parse(key.removeprefix(OF_APPLICATION)))
            self.take([alert_rules.over(alert_rules.APPLICATION_FAILS, labels, self._desk.now_ms)])

    def _send(self, key: str, life: AlertLife, transitions: Iterable[Transition]) -> None:
        runbook = self._desk.settings.alerts.runbook_url
        self._desk.outbox.extend(message(key, change, runbook, self._desk.context) for change in transitions)
        if life.open:
            self._desk.alerts.changed(key, life, self._desk.now_ms)
        else:
            self._desk.alerts.remove(key)


def fingerprint(condition: Condition) -> str:
    """Return what identifies the alert of a condition: its name and labels.

    >>> fingerprint(Condition(name="X", labels={"a": "1"}, holds=True, time_ms=0)) == fingerprint(
    ...     Condition(name="X", labels={"a": "1"}, holds=False, time_ms=9)
    ... )
    True
    """
    return hexdigest(condition.name, *(f"{name}={value}" for name, value in sorted(condition.labels.items())))


def message(key: str, change: Transition, runbook_url: str, context: Context) -> Alert:
    """Return the message of a change of status.

    >>> condition = Condition(name="SlowSize", labels={"n": "8"}, holds=True, time_ms=0)
    >>> said = message("f", Transition("firing", 60_000, 0, condition), "RUNBOOK.md", Context("1.0", 60_000))
    >>> said.labels["alertname"], said.starts, said.annotations["runbook"]
    ('SlowSize', '1970-01-01T00:00:00Z', 'RUNBOOK.md#slowsize')
    """
    condition = change.condition
    return Alert(
        schema="scalewatch.alert/1",
        id=f"{key}:{change.status}@{change.time_ms}",
        time=context.time,
        as_of=context.time,
        agent_version=context.agent_version,
        fingerprint=key,
        status=change.status,
        kind=condition.kind,
        severity=condition.severity,
        labels={"alertname": condition.name, "severity": condition.severity, **condition.labels},
        annotations={
            "summary": condition.summary,
            "description": condition.description,
            "runbook": f"{runbook_url}#{condition.name.lower()}",
        },
        starts=rfc3339(change.starts_ms),
        ends=rfc3339(change.time_ms) if change.status == "resolved" else None,
        evidence=condition.evidence,
    )
