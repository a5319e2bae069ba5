"""The life of one alert: pending, firing, resolved, on event time, with `for` and keep-firing."""

from typing import ClassVar

import msgspec

from processors.contracts.outputs import AlertEvidence, AlertKind, AlertStatus, Severity


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule says at one moment: whether it holds, and the words and evidence if it does.

    `labels` identify the alert and never hold a changing value. It fires after it held for `for_ms`, and resolves
    `keep_firing_ms` after it last held; before it fires, at once. A lasting condition holds until the contrary is said; a
    momentary one (a single run was slow) only at its own time, and one with `expires_after_ms` ends when nothing more was said of
    it for so long. `forgotten` says that nobody knows of it any more: then nothing is waited for.
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
    summary: str = ""
    description: str = ""
    evidence: AlertEvidence = AlertEvidence()


class Transition(msgspec.Struct, frozen=True):
    """A change of status, with the condition that the alert rests on."""

    status: AlertStatus
    time_ms: int
    starts_ms: int
    condition: Condition


class AlertState(msgspec.Struct, omit_defaults=True):
    """Stored form; no condition means that the alert is not open."""

    condition: Condition | None = None
    status: AlertStatus = "pending"
    since_ms: int = 0
    reported_ms: int = 0
    holds: bool = False


class AlertLife:
    """One alert."""

    name: ClassVar[str] = "alert"
    version: ClassVar[int] = 1

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
                state.condition = msgspec.structs.replace(state.condition, keep_firing_ms=0)

    def renew(self, time_ms: int) -> None:
        """Count the time until it resolves from now on."""
        self._state.reported_ms = max(self._state.reported_ms, time_ms)

    def take(self, fact: Condition) -> list[Transition]:
        """Note a condition and return the changes of status that follow at once."""
        was_open = self.open
        self.learn(fact)
        condition = self._state.condition
        if condition is None:
            return []
        changes = self._fire(fact.time_ms) if fact.holds else []
        opened = not was_open and not changes
        return [Transition("pending", fact.time_ms, self._state.since_ms, condition)] if opened else changes

    def tick(self, now_ms: int) -> list[Transition]:
        """Return the changes of status that the passing of time brings."""
        state = self._state
        if not self.open:
            return []
        due_ms = self.due_ms()
        condition = state.condition
        if condition is None or due_ms is None or now_ms < due_ms:
            return []
        if state.holds and state.status == "pending":
            return self._fire(now_ms)
        change = Transition("resolved", now_ms, state.since_ms, condition)
        self._state = AlertState()
        return [change]

    def due_ms(self) -> int | None:
        """Return when it fires or resolves unless something happens."""
        state = self._state
        if state.condition is None:
            return None
        if state.holds:
            if state.status == "pending":
                return state.since_ms + state.condition.for_ms
            return state.reported_ms + state.condition.expires_after_ms if state.condition.expires_after_ms else None
        return state.reported_ms + (state.condition.keep_firing_ms if state.status == "firing" else 0)

    def snapshot(self) -> AlertState:
        """Return the stored form."""
        return msgspec.structs.replace(self._state)

    def _fire(self, now_ms: int) -> list[Transition]:
        state = self._state
        condition = state.condition
        if condition is None or state.status == "firing" or now_ms - state.since_ms < condition.for_ms:
            return []
        state.status = "firing"
        return [Transition("firing", now_ms, state.since_ms, condition)]


class HostAlertLife(AlertLife):
    """One alert about hosts, kept with what is known of them."""

    name: ClassVar[str] = "host_alert"
