"""The life of one alert: pending, firing, resolved, on event time, with `for` and keep-firing."""

from typing import ClassVar

import msgspec

from processors.contracts.outputs import AlertEnd, AlertEvidence, AlertKind, AlertStatus, Severity


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule says at one moment: whether it holds, and the words and evidence if it does.

    `labels` identify the alert and never hold a changing value. It fires after it held for `for_ms`, and resolves
    `keep_firing_ms` after it last held; before it fires, at once. A lasting condition holds until the contrary is said; a
    momentary one (a single run was slow) only at its own time, and one with `expires_after_ms` ends when nothing more was said of
    it for so long. `forgotten` says that nobody knows of it any more: then nothing is waited for. Between the moments at which an
    alert fires lie `not_again_ms` at least: what would still keep it firing by then fires then. With `withheld_by`, a reason, it
    has its life as any other and is not sent. `ended_by` says what ends it, where its cause does not by itself.
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
    """A change of status, with the condition that the alert rests on; `ended_by` is what ended one that had fired."""

    status: AlertStatus
    time_ms: int
    starts_ms: int
    condition: Condition
    ended_by: AlertEnd | None = None


class AlertState(msgspec.Struct, omit_defaults=True):
    """Stored form; no condition means that the alert is not open. `quiet_until_ms` is when it may fire again."""

    condition: Condition | None = None
    status: AlertStatus = "pending"
    since_ms: int = 0
    reported_ms: int = 0
    holds: bool = False
    quiet_until_ms: int = 0


class AlertLife:
    """One alert."""

    name: ClassVar[str] = "alert"
    version: ClassVar[int] = 2

    def __init__(self, state: AlertState) -> None:
        self._state = state

    @classmethod
    def build(cls, state: AlertState | None = None) -> "AlertLife":
        """Return the alert of a stored state, or one that is not open."""
        return cls(msgspec.structs.replace(state) if state else AlertState())

    @property
    def open(self) -> bool:
        """Return whether the alert is pending or firing."""
        return self._state.condition is not None

    @property
    def over(self) -> bool:
        """Return whether nothing of it has to be known any more: it is not open, and may fire again at once."""
        return not self.open and not self._state.quiet_until_ms

    def score(self, fact: Condition) -> bool:
        """Return whether the condition would change anything."""
        return fact.holds or (self.open and (self._state.holds or fact.forgotten))

    def learn(self, fact: Condition) -> None:
        """Note a condition; `take` also tells what follows from it."""
        state = self._state
        if fact.holds:
            if not self.open:
                state.since_ms, state.status = fact.time_ms, "pending"
            state.condition, state.reported_ms, state.holds = fact, fact.time_ms, not fact.momentary
        elif state.condition is not None:
            state.holds, state.reported_ms = False, fact.time_ms if state.holds else state.reported_ms
            if fact.forgotten:
                state.quiet_until_ms = 0
                state.condition = msgspec.structs.replace(state.condition, keep_firing_ms=0, ended_by="forgotten")
            elif fact.ended_by != "itself":
                state.condition = msgspec.structs.replace(state.condition, ended_by=fact.ended_by)

    def renew(self, time_ms: int) -> None:
        """Count the time until it resolves from now on."""
        self._state.reported_ms = max(self._state.reported_ms, time_ms)

    def take(self, fact: Condition) -> list[Transition]:
        """Note a condition and return the changes of status that follow at once."""
        was_open, before = self.open, self._state.condition
        self.learn(fact)
        condition = self._state.condition
        if condition is None:
            return []
        turned = before is not None and bool(before.withheld_by) != bool(condition.withheld_by)
        if turned and self._state.status == "firing":
            return [Transition("firing", fact.time_ms, self._state.since_ms, condition)]
        changes = self._fire(fact.time_ms) if fact.holds else []
        opened = not was_open and not changes and not fact.momentary
        return [Transition("pending", fact.time_ms, self._state.since_ms, condition)] if opened else changes

    def tick(self, now_ms: int) -> list[Transition]:
        """Return the changes of status that the passing of time brings."""
        state, condition, due_ms = self._state, self._state.condition, self.due_ms()
        if due_ms is None or now_ms < due_ms:
            return []
        if condition is None:
            self._state = AlertState()
            return []
        if state.status == "pending" and self._remains(due_ms):
            return self._fire(now_ms)
        reported = state.status == "firing" or not condition.momentary
        ended_by = self._ended_by(condition) if state.status == "firing" else None
        self._state = AlertState(quiet_until_ms=state.quiet_until_ms if state.quiet_until_ms > now_ms else 0)
        return [Transition("resolved", now_ms, state.since_ms, condition, ended_by)] if reported else []

    def due_ms(self) -> int | None:
        """Return when it fires, resolves or may fire again unless something happens."""
        state, condition = self._state, self._state.condition
        if condition is None:
            return state.quiet_until_ms or None
        fires_ms = max(state.since_ms + condition.for_ms, state.quiet_until_ms)
        if state.holds:
            if state.status == "pending":
                return fires_ms
            return state.reported_ms + condition.expires_after_ms if condition.expires_after_ms else None
        ends_ms = state.reported_ms + condition.keep_firing_ms
        if state.status == "firing":
            return ends_ms
        return min(fires_ms, ends_ms) if condition.momentary else state.reported_ms

    def snapshot(self) -> AlertState:
        """Return the stored form."""
        return msgspec.structs.replace(self._state)

    def _ended_by(self, condition: Condition) -> AlertEnd:
        """Return what ends it: where it was said to hold until the end, nobody knows any more whether it does."""
        expired = self._state.holds and condition.expires_after_ms > 0
        return "forgotten" if expired else condition.ended_by

    def _remains(self, until_ms: int) -> bool:
        """Return whether what is pending is so still: it holds, or was said a short while ago."""
        state, condition = self._state, self._state.condition
        if state.holds or condition is None:
            return state.holds
        return condition.momentary and until_ms < state.reported_ms + condition.keep_firing_ms

    def _fire(self, now_ms: int) -> list[Transition]:
        state = self._state
        condition = state.condition
        waits = condition is None or now_ms < max(state.since_ms + condition.for_ms, state.quiet_until_ms)
        if condition is None or state.status == "firing" or waits:
            return []
        state.status = "firing"
        state.quiet_until_ms = now_ms + condition.not_again_ms if condition.not_again_ms else 0
        return [Transition("firing", now_ms, state.since_ms, condition)]


class HostAlertLife(AlertLife):
    """One alert about hosts, kept with what is known of them."""

    name: ClassVar[str] = "host_alert"
