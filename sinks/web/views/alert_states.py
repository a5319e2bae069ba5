"""The states of alerts. Pages, terminal and API all use this module to decide which alerts need attention.

An open alert was sent and wakes people. Silenced, withheld and pending alerts are listed separately and never count as open.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Self

import msgspec

from processors.contracts.outputs import Alert
from processors.contracts.service import Service, Silence
from sinks.web.formatting import counted, moment

State = Literal["firing", "silenced", "withheld", "pending", "resolved"]
STATES: Final[tuple[State, ...]] = ("firing", "silenced", "withheld", "pending", "resolved")
OPEN: Final = "open"
CHOICES: Final = (OPEN, *STATES)
QUIETED: Final[tuple[State, ...]] = ("silenced", "withheld")
SEVERITIES: Final = ("critical", "warning", "info")
ASIDE: Final[tuple[State, ...]] = (*QUIETED, "pending")  # the condition holds, but nobody is notified


class AlertLabel(msgspec.Struct, frozen=True):
    """An operator's judgement of an alert: whether it was `real`, a time when it was open, and a comment."""

    fingerprint: str
    time: str
    real: bool
    comment: str = ""


class Alerts(msgspec.Struct, frozen=True):
    """Alerts, and the silences of alerts in Alertmanagers, by the fingerprint of the alert."""

    entries: Sequence[Alert]
    silences: Mapping[str, Silence] = {}

    @classmethod
    def of(cls, service: Service) -> Self:
        return cls(service.alerts(), service.silences())

    @property
    def open(self) -> list[Alert]:
        """The alerts that need attention, most severe first."""
        return sorted(self.among("firing"), key=lambda alert: SEVERITIES.index(alert.severity))

    def among(self, *states: State) -> list[Alert]:
        return [alert for alert in self.entries if self.state(alert) in states]

    def about(self, keep: Callable[[Alert], bool]) -> Self:
        return type(self)([alert for alert in self.entries if keep(alert)], self.silences)

    def state(self, alert: Alert) -> State:
        """Return the status of an alert, or `withheld` instead of pending, or `silenced` instead of firing."""
        if alert.status == "pending" and alert.withheld_by:
            return "withheld"
        return "silenced" if alert.status == "firing" and alert.fingerprint in self.silences else alert.status

    def silence(self, alert: Alert) -> Silence | None:
        return self.silences[alert.fingerprint] if self.state(alert) == "silenced" else None

    def why(self, alert: Alert) -> str:
        """Return the reason why nobody is notified of an alert; empty if somebody is notified, or if the alert has ended."""
        if self.state(alert) == "withheld":
            return f"Withheld: {alert.withheld_by}."
        silence = self.silence(alert)
        return "" if silence is None else silenced_text(silence)

    def in_order(self) -> list[Alert]:
        return sorted(
            self.entries, key=lambda alert: (STATES.index(self.state(alert)), SEVERITIES.index(alert.severity))
        )

    def passing(self, filters: Mapping[str, str]) -> Self:
        """Return the alerts that match the filters by status (`open`: sent and not silenced), kind, severity and name."""
        active = {name: value for name, value in filters.items() if value}
        return self.about(lambda alert: all(self._passes(alert, name, value) for name, value in active.items()))

    def standing(self) -> str:
        alerts, by_state = self.open, Counter(map(self.state, self.entries))
        if alerts:
            by_severity = Counter(alert.severity for alert in alerts)
            text = ", ".join(f"{by_severity[name]} {name}" for name in SEVERITIES if by_severity[name])
            first = f"{counted(len(alerts), 'alert')} {_is(len(alerts))} open: {text}."
        else:
            first = _quiet(self.among("resolved"))
        others = [f"{count} {_is(count)} {state}" for state in ASIDE if (count := by_state[state])]
        return f"{first} {', '.join(others)}." if others else first

    def _passes(self, alert: Alert, name: str, value: str) -> bool:
        if name == "status":
            return self.state(alert) == ("firing" if value == OPEN else value)
        if name == "name":
            return alert.labels.get("alertname") == value
        field: str = getattr(alert, name)
        return field == value


def silenced_text(silence: Silence) -> str:
    """Return who silenced an alert, until when and why. Readers who are not operators see only the end time."""
    by = f" by {silence.by}" if silence.by else ""
    comment = f": {silence.comment.rstrip('. ')}" if silence.comment.strip() else ""
    return f"Silenced{by} until {moment(silence.until)} UTC{comment}."


def _quiet(resolved: Sequence[Alert]) -> str:
    ended = [alert for alert in resolved if alert.ends]
    if not ended:
        return "No alert is open, and none ended recently."
    last = max(ended, key=lambda alert: alert.ends or "")
    return f"No alert has been open since {moment(last.ends)} UTC, when {last.name} ended."


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
