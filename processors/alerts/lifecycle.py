"""The life cycle of one alert: pending, firing, resolved. All times are event times."""

from typing import ClassVar

import msgspec

from processors.contracts.outputs import AlertEnd, AlertEvidence, AlertKind, AlertStatus, Severity
from processors.store import PlainProcessor


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rule at one moment: whether the condition of an alert holds, with texts and evidence if so.

    `labels` identify the alert, so they contain no changing value. The alert fires after the condition has held for `for_ms`. A
    firing alert resolves `keep_firing_ms` after the condition last held; a pending alert ends at once. A lasting condition
    holds until a rule reports the opposite; a `momentary` condition (a single run was slow) holds only at its own `time_ms`; a
    condition with `expires_after_ms` ends if no rule reports it for this time. `forgotten` ends the alert at once, because the
    data behind it is gone. An alert fires at most once in `not_again_ms`; if the condition still holds then, the alert fires
    again. An alert with a reason in `withheld_by` has the same life cycle but is not sent. `ended_by` is the reason for the end
    if the cause did not end by itself.
    """

    name: str
    labels: dict[str, str]
    holds: bool
    time_ms: int
    momentary: bool = False
    forgotten: bool = False
    kind: AlertKind = "anomaly"
    severity: Severity = "warning"
    for_ms: int = 0
    keep_firing_ms: int = 0
    expires_after_ms: int = 0
    not_again_ms: int = 0
    withheld_by: str = ""
    ended_by: AlertEnd = "itself"
    summary: str = ""
    description: str = ""
    evidence: AlertEvidence = AlertEvidence()


class Transition(msgspec.Struct, frozen=True):
    """A change of an alert's status, with its condition; `ended_by` is the reason for the end of an alert that had fired."""

    status: AlertStatus
    time_ms: int
    starts_ms: int
    condition: Condition
    ended_by: AlertEnd | None = None


class AlertLife(PlainProcessor, omit_defaults=True):
    """One alert; without a condition the alert is not open. `quiet_until_ms` is the time from which it may fire again."""

    name: ClassVar[str] = "alert"
    version: ClassVar[int] = 2

    condition: Condition | None = None
    status: AlertStatus = "pending"
    since_ms: int = 0
    reported_ms: int = 0
    holds: bool = False
    quiet_until_ms: int = 0

    @property
    def open(self) -> bool:
        """Whether the alert is pending or firing."""
        return self.condition is not None

    @property
    def over(self) -> bool:
        """Whether the alert can be deleted: it is not open and may fire again at once."""
        return not self.open and not self.quiet_until_ms

    def score(self, fact: Condition) -> bool:
        """Return whether the condition `fact` would change the alert."""
        return fact.holds or (self.open and (self.holds or fact.forgotten))

    def learn(self, fact: Condition) -> None:
        """Store the condition `fact`; `take` does the same and also returns the resulting changes of status."""
        if fact.holds:
            if not self.open:
                self.since_ms, self.status = fact.time_ms, "pending"
            self.condition, self.reported_ms, self.holds = fact, fact.time_ms, not fact.momentary
        elif self.condition is not None:
            self.reported_ms = fact.time_ms if self.holds else self.reported_ms
            self.holds = False
            if fact.forgotten:
                self.quiet_until_ms = 0
                self.condition = msgspec.structs.replace(self.condition, keep_firing_ms=0, ended_by="forgotten")
            elif fact.ended_by != "itself":
                self.condition = msgspec.structs.replace(self.condition, ended_by=fact.ended_by)

    def renew(self, time_ms: int) -> None:
        """Record that the condition still held at `time_ms`, which postpones the end of the alert."""
        self.reported_ms = max(self.reported_ms, time_ms)

    def take(self, fact: Condition) -> list[Transition]:
        """Store the condition `fact` and return the changes of status that this condition causes at once."""
        before = self.condition
        self.learn(fact)
        condition = self.condition
        if condition is None:
            return []
        turned = before is not None and bool(before.withheld_by) != bool(condition.withheld_by)
        if turned and self.status == "firing":
            return [Transition("firing", fact.time_ms, self.since_ms, condition)]
        changes = self._fire(fact.time_ms) if fact.holds else []
        opened = before is None and not changes and not fact.momentary
        return [Transition("pending", fact.time_ms, self.since_ms, condition)] if opened else changes

    def tick(self, now_ms: int) -> list[Transition]:
        """Return the changes of status that are due at `now_ms`."""
        condition, due_ms = self.condition, self.due_ms()
        if due_ms is None or now_ms < due_ms:
            return []
        if condition is not None and self.status == "pending":
            recent = condition.momentary and due_ms < self.reported_ms + condition.keep_firing_ms
            if self.holds or recent:
                return self._fire(now_ms)
        fired = self.status == "firing"
        expired = self.holds and condition is not None and condition.expires_after_ms > 0
        since_ms = self.since_ms
        self.condition, self.status, self.holds, self.since_ms, self.reported_ms = None, "pending", False, 0, 0
        if self.quiet_until_ms <= now_ms:
            self.quiet_until_ms = 0
        if condition is None or (condition.momentary and not fired):
            return []
        ended_by: AlertEnd | None = None
        if fired:
            # the end of an expired condition was never reported
            ended_by = "forgotten" if expired else condition.ended_by
        return [Transition("resolved", now_ms, since_ms, condition, ended_by)]

    def due_ms(self) -> int | None:
        """Return the time (ms) at which the alert fires, resolves or may fire again if no condition arrives before; None if never."""
        condition = self.condition
        if condition is None:
            return self.quiet_until_ms or None
        fires_ms = max(self.since_ms + condition.for_ms, self.quiet_until_ms)
        if self.holds:
            if self.status == "pending":
                return fires_ms
            return self.reported_ms + condition.expires_after_ms if condition.expires_after_ms else None
        ends_ms = self.reported_ms + condition.keep_firing_ms
        if self.status == "firing":
            return ends_ms
        return min(fires_ms, ends_ms) if condition.momentary else self.reported_ms

    def _fire(self, now_ms: int) -> list[Transition]:
        condition = self.condition
        waits = condition is None or now_ms < max(self.since_ms + condition.for_ms, self.quiet_until_ms)
        if condition is None or self.status == "firing" or waits:
            return []
        self.status = "firing"
        self.quiet_until_ms = now_ms + condition.not_again_ms if condition.not_again_ms else 0
        return [Transition("firing", now_ms, self.since_ms, condition)]


class HostAlertLife(AlertLife):
    """One alert about a host, kept with the state of hosts."""

    name: ClassVar[str] = "host_alert"
