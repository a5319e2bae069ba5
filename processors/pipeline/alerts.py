"""Conditions become alerts: one life per fingerprint, changes of status become messages."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Protocol

from processors.alerts import applications, profiles
from processors.alerts.lifecycle import AlertLife, Condition, Transition
from processors.contracts.names import ApplicationKey, rfc3339
from processors.contracts.outputs import Alert
from processors.pipeline.state import OF_APPLICATION, FoldSettings, ShardState
from processors.run_time.messages import Context
from processors.store import Store, hexdigest

DUE_PER_TICK_MAX: Final = 1000


class AlertState(Protocol):
    """What alerts need of a state: a store of their own, and where what they say goes."""

    settings: FoldSettings
    now_ms: int
    outbox: list[Any]
    tally: Counter[tuple[str, str]]
    alerts: Store[AlertLife]

    @property
    def context(self) -> Context:
        """What messages say of their maker and moment."""


class OpenAlerts:
    """All alerts of one state; at most `open_max` are open at once, more are counted."""

    def __init__(self, state: AlertState) -> None:
        self._alerts = state

    def take(self, conditions: Iterable[Condition]) -> None:
        """Note conditions and send what changes."""
        for condition in conditions:
            self.opens(condition)

    def opens(self, condition: Condition) -> bool:
        """Note a condition, send what changes, and tell whether its alert is open then."""
        key, state = fingerprint(condition), self._alerts
        known = key in state.alerts
        if not condition.holds and not known:
            return False
        if not known and len(state.alerts) >= state.settings.alerts.open_max:
            state.tally["bound", "open_alerts_max"] += 1
            return False
        life = state.alerts.open(key)
        if life.score(condition):
            self._send(key, life, life.take(condition))
        return life.open

    def ends(self, condition: Condition) -> bool:
        """Let an alert end with the words of a condition, at the next tick; False where none is open."""
        return self.is_open(condition) and self.opens(condition)

    def renew(self, condition: Condition) -> None:
        """Let an alert that is open stay so for as long as if what it says had been said now; changes nothing of it."""
        key, alerts = fingerprint(condition), self._alerts.alerts
        if key in alerts:
            life = alerts.open(key)
            life.renew(condition.time_ms)
            alerts.changed(key, life, self._alerts.now_ms)

    def is_open(self, condition: Condition) -> bool:
        """Whether the alert of a condition is open."""
        return fingerprint(condition) in self._alerts.alerts

    def tick(self) -> None:
        """Let the alerts whose time has come fire or resolve."""
        for key in self._alerts.alerts.due(self._alerts.now_ms, DUE_PER_TICK_MAX):
            life = self._alerts.alerts.open(key)
            self._send(key, life, life.tick(self._alerts.now_ms))

    def _send(self, key: str, life: AlertLife, transitions: Iterable[Transition]) -> None:
        state = self._alerts
        runbook = state.settings.alerts.runbook_url
        state.outbox.extend(message(key, change, runbook, state.context) for change in transitions)
        if life.open:
            state.alerts.changed(key, life, state.now_ms)
        else:
            state.alerts.remove(key)


def fingerprint(condition: Condition) -> str:
    """Return what identifies the alert of a condition: its name and labels."""
    return hexdigest(condition.name, *(f"{name}={value}" for name, value in sorted(condition.labels.items())))


def message(key: str, change: Transition, runbook_url: str, context: Context) -> Alert:
    """Return the message of a change of status."""
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


class Warnings(OpenAlerts):
    """All alerts of one shard about applications."""

    def __init__(self, state: ShardState) -> None:
        super().__init__(state)
        self._state = state

    def fire_and_resolve(self, _work: object) -> None:
        """Let the alerts whose time has come fire or resolve."""
        self.tick()

    def forget_application(self, application_id: str) -> None:
        """Forget the model of an application, with everything that it said: messages and alerts."""
        model = self._state.models.get(application_id)
        flagged = model.flagged if model else ()
        verdicts = self._state.settings.alerts.unreliable.verdicts
        key = ApplicationKey.parse(application_id)
        self.take(applications.forgotten(key, flagged, verdicts, self._state.now_ms))
        self.take(profiles.forgotten(key, self._state.now_ms))
        for name in (applications.REGRESSION, applications.IMPROVEMENT):
            labels = applications.application_labels(key)
            self.ends(applications.ended(name, labels, applications.FORGOTTEN, self._state.now_ms))
        self._state.remove_application(application_id)

    def forget_failures(self, key: str) -> None:
        """Let the alert of a failure rate end that is forgotten."""
        if key.startswith(OF_APPLICATION):
            labels = applications.application_labels(ApplicationKey.parse(key.removeprefix(OF_APPLICATION)))
            self.take([applications.over(applications.APPLICATION_FAILS, labels, self._state.now_ms)])
