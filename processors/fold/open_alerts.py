"""Conditions become alerts: one life per fingerprint, changes of status become messages."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Protocol

from agent.contracts.moments import rfc3339
from agent.contracts.outputs import Alert
from processors.alerts import AlertLife, Condition, Transition
from processors.digest import hexdigest
from processors.fold.desk import FoldSettings
from processors.messages import Context
from processors.shelf import Shelf

DUE_PER_TICK_MAX: Final = 1000


class AlertDesk(Protocol):
    """What alerts need of a desk: a shelf of their own, and where what they say goes."""

    settings: FoldSettings
    now_ms: int
    outbox: list[Any]
    tally: Counter[tuple[str, str]]
    alerts: Shelf[AlertLife]

    @property
    def context(self) -> Context:
        """What messages say of their maker and moment."""


class OpenAlerts:
    """All alerts of one desk; at most `open_max` are open at once, more are counted.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> desk = make_shard(Config()).desk
    >>> OpenAlerts(desk).take([Condition(name="X", labels={}, holds=True, time_ms=0)])
    >>> [alert.status for alert in desk.outbox]
    ['firing']
    """

    def __init__(self, desk: AlertDesk) -> None:
        self._alerts = desk

    def take(self, conditions: Iterable[Condition]) -> None:
        """Note conditions and send what changes."""
        for condition in conditions:
            self.opens(condition)

    def opens(self, condition: Condition) -> bool:
        """Note a condition, send what changes, and tell whether its alert is open then."""
        key, desk = fingerprint(condition), self._alerts
        known = key in desk.alerts
        if not condition.holds and not known:
            return False
        if not known and len(desk.alerts) >= desk.settings.alerts.open_max:
            desk.tally["bound", "open_alerts_max"] += 1
            return False
        life = desk.alerts.open(key)
        if life.score(condition):
            self._send(key, life, life.take(condition))
        return life.open

    def ends(self, condition: Condition) -> bool:
        """Let an alert end with the words of a condition, at the next tick; False where none is open."""
        return self.is_open(condition) and self.opens(condition)

    def is_open(self, condition: Condition) -> bool:
        """Whether the alert of a condition is open."""
        return fingerprint(condition) in self._alerts.alerts

    def tick(self) -> None:
        """Let the alerts whose time has come fire or resolve."""
        for key in self._alerts.alerts.due(self._alerts.now_ms, DUE_PER_TICK_MAX):
            life = self._alerts.alerts.open(key)
            self._send(key, life, life.tick(self._alerts.now_ms))

    def _send(self, key: str, life: AlertLife, transitions: Iterable[Transition]) -> None:
        desk = self._alerts
        runbook = desk.settings.alerts.runbook_url
        desk.outbox.extend(message(key, change, runbook, desk.context) for change in transitions)
        if life.open:
            desk.alerts.changed(key, life, desk.now_ms)
        else:
            desk.alerts.remove(key)


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
