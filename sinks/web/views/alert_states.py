"""Which alerts ask for somebody: one place decides it for the pages, the terminal and the API.

Open is what was sent and wakes people. What is silenced, withheld or pending is told apart, and counts nowhere as open.
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
ASIDE: Final[tuple[State, ...]] = (*QUIETED, "pending")  # true, and nobody is notified


class Alerts(msgspec.Struct, frozen=True):
    """Alerts, and of those that Alertmanagers have silenced how."""

    known: Sequence[Alert]
    silences: Mapping[str, Silence] = {}

    @classmethod
    def of(cls, service: Service) -> Self:
        """Return the alerts that a service shows."""
        return cls(service.alerts(), service.silences())

    @property
    def open(self) -> list[Alert]:
        """The alerts that ask for somebody, the worst first, else in the order given."""
        found = self.among("firing")
        return sorted(found, key=lambda alert: SEVERITIES.index(alert.severity))

    def among(self, *states: State) -> list[Alert]:
        """Return the alerts in one of these states, in the order given."""
        return [alert for alert in self.known if self.state(alert) in states]

    def about(self, keep: Callable[[Alert], bool]) -> Self:
        """Return the alerts that are kept."""
        return type(self)([alert for alert in self.known if keep(alert)], self.silences)

    def state(self, alert: Alert) -> State:
        """Return the state of an alert: a reason withholds one that pends, a silence says something only of one that is open."""
        if alert.status == "pending" and alert.withheld_by:
            return "withheld"
        return "silenced" if alert.is_open and alert.fingerprint in self.silences else alert.status

    def silence(self, alert: Alert) -> Silence | None:
        """Return the silence of an alert that is open but for it; None where there is none."""
        return self.silences[alert.fingerprint] if self.state(alert) == "silenced" else None

    def why(self, alert: Alert) -> str:
        """Return why nobody is notified of an alert, in a sentence; "" where somebody is, or it is over."""
        if self.state(alert) == "withheld":
            return f"Withheld: {alert.withheld_by}."
        silence = self.silence(alert)
        return "" if silence is None else silenced_text(silence)

    def in_order(self) -> list[Alert]:
        """Return the alerts by state, in the order of STATES, and of each the worst first, then as given."""
        return sorted(self.known, key=lambda each: (STATES.index(self.state(each)), SEVERITIES.index(each.severity)))

    def passing(self, filters: Mapping[str, str]) -> Self:
        """Return those that pass: state (`open`: sent and not silenced), kind, severity and name; empty filters let all pass."""
        wanted = {name: value for name, value in filters.items() if value}
        return self.about(lambda alert: all(self._passes(alert, name, value) for name, value in wanted.items()))

    def standing(self) -> str:
        """Return how many alerts are open, by severity, and what else there is, in words."""
        found, by_state = self.open, Counter(map(self.state, self.known))
        if found:
            by_severity = Counter(alert.severity for alert in found)
            text = ", ".join(f"{by_severity[name]} {name}" for name in SEVERITIES if by_severity[name])
            first = f"{counted(len(found), 'alert')} {_is(len(found))} open: {text}."
        else:
            first = _quiet(self.among("resolved"))
        others = [f"{count} {_is(count)} {state}" for state in ASIDE if (count := by_state[state])]
        return f"{first} {', '.join(others)}." if others else first

    def _passes(self, alert: Alert, name: str, value: str) -> bool:
        if name == "status":
            return self.state(alert) == ("firing" if value == OPEN else value)
        if name == "name":
            return alert.labels.get("alertname") == value
        shown: str = getattr(alert, name)
        return shown == value


def silenced_text(silence: Silence) -> str:
    """Return who silenced an alert, until when and why; readers who are no operators see until when alone."""
    by = f" by {silence.by}" if silence.by else ""
    comment = f": {silence.comment.rstrip('. ')}" if silence.comment.strip() else ""
    return f"Silenced{by} until {moment(silence.until)} UTC{comment}."


def _quiet(over: Sequence[Alert]) -> str:
    """Return since when nothing is open, in one sentence."""
    ended = [alert for alert in over if alert.ends]
    if not ended:
        return "No alert is open, and none ended recently."
    last = max(ended, key=lambda alert: alert.ends or "")
    name = last.labels.get("alertname", last.kind)
    return f"No open alerts since {moment(last.ends)} UTC, when the last one ended ({name})."


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
