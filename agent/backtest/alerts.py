"""How often each alert fired."""

from collections import deque
from typing import Final

from agent.backtest.report import AlertCount
from agent.contracts.outputs import Alert

SUBJECTS_MAX: Final = 100_000  # of one alert; more are counted as fired, not as subjects of their own
EXAMPLES: Final = 3


class AlertCounts:
    """Counts alerts by name, as they begin to fire.

    >>> from agent.contracts.outputs import AlertEvidence
    >>> alert = Alert(schema="scalewatch.alert/1", id="a:firing@0", time="1970-01-01T00:00:00Z", as_of="", agent_version="",
    ...               fingerprint="a", status="firing", kind="anomaly", severity="warning", starts="", ends=None,
    ...               labels={"alertname": "SlowSize"}, annotations={"summary": "Slow."}, evidence=AlertEvidence())
    >>> counts = AlertCounts()
    >>> counts.take(alert)
    >>> [(found.name, found.fired, found.per_1000_runs, found.open) for found in counts.counts(runs=500)]
    [('SlowSize', 1, 2.0, 1)]
    """

    def __init__(self) -> None:
        self._fired: dict[str, int] = {}
        self._subjects: dict[str, set[str]] = {}
        self._firing: dict[str, set[str]] = {}
        self._examples: dict[str, deque[str]] = {}

    def take(self, alert: Alert) -> None:
        """Take in a change of an alert."""
        name = alert.labels.get("alertname", "")
        firing = self._firing.setdefault(name, set())
        if alert.status == "resolved":
            firing.discard(alert.fingerprint)
        if alert.status != "firing":
            return
        firing.add(alert.fingerprint)
        subjects = self._subjects.setdefault(name, set())
        if len(subjects) < SUBJECTS_MAX:
            subjects.add(alert.fingerprint)
        self._fired[name] = self._fired.get(name, 0) + 1
        self._examples.setdefault(name, deque(maxlen=EXAMPLES)).append(
            f"{alert.time[:16].replace('T', ' ')}  {alert.annotations.get('summary', '')}"
        )

    def counts(self, runs: int) -> tuple[AlertCount, ...]:
        """Return the counts by name, against a number of runs."""
        return tuple(
            AlertCount(
                name=name,
                fired=fired,
                per_1000_runs=1000.0 * fired / runs if runs else 0.0,
                subjects=len(self._subjects[name]),
                open=len(self._firing[name]),
                examples=tuple(self._examples[name]),
            )
            for name, fired in sorted(self._fired.items())
        )
