"""Alerts of a replay: one episode per time that an alert fired, withheld alerts with reasons, and alert labels of operators."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.names import grouped, parse_rfc3339
from processors.contracts.outputs import Alert, Emission
from sinks.web.formatting import when
from sinks.web.views.alert_states import AlertLabel

NAMED_BY: Final = ("host", "rack", "partition", "application", "n", "input", "verdict", "direction", "system")
NEAR_MS: Final = 3_600_000  # a label applies to an alert that was open within an hour of the label's time
EPISODES_MAX: Final = 1_000_000
EXAMPLES: Final = 3


class Episode(msgspec.Struct):
    """One alert from the time it fired until it resolved; `until_ms` is None while it is open."""

    alertname: str
    fingerprint: str
    labels: dict[str, str]
    from_ms: int
    summary: str
    runs: tuple[str, ...] = ()
    until_ms: int | None = None
    withheld_by: str = ""

    @property
    def subject(self) -> str:
        """The label values that name the host, rack or application of the alert, in the order of NAMED_BY."""
        if "host" in self.labels or "application" in self.labels:
            names = [name for name in NAMED_BY if name != "system"]
        else:
            names = list(NAMED_BY)
        return " ".join(self.labels[name] for name in names if self.labels.get(name))


class Precision(msgspec.Struct, frozen=True):
    """The number of alerts named `alertname` that have a label, and how many of them were real."""

    alertname: str
    judged: int
    real: int

    @property
    def share(self) -> float:
        return self.real / self.judged


class AlertCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of times an alert fired, number of its subjects, and number of alerts still firing at the end."""

    name: str
    fired: int
    per_1000_runs: float
    subjects: int
    open: int
    examples: tuple[str, ...]


class AlertHistory:
    """A sink that collects alerts from the messages of a replay."""

    def __init__(self) -> None:
        self._open: dict[str, Episode] = {}
        self.episodes: list[Episode] = []
        self.left_out = 0

    def write(self, emissions: Iterable[Emission]) -> None:
        """Read the alert messages; messages of other topics are ignored."""
        for emission in emissions:
            if emission.kind != "alerts":
                continue
            if emission.value is None:
                self.withdrawn(emission.key)
            else:
                self.take(msgspec.json.decode(emission.value, type=Alert))

    def raised(self) -> list[Episode]:
        """Return the alerts that were sent, in order of time."""
        return [episode for episode in self.episodes if not episode.withheld_by]

    def withheld(self) -> dict[str, list[Episode]]:
        """Return the alerts that were not sent, by the reason for withholding them."""
        withheld = [episode for episode in self.episodes if episode.withheld_by]
        return dict(sorted(grouped(withheld, lambda episode: episode.withheld_by).items()))

    def withdrawn(self, fingerprint: str) -> None:
        """Record that a withheld alert has ended."""
        self._open.pop(fingerprint, None)

    def take(self, alert: Alert) -> None:
        time_ms = parse_rfc3339(alert.time)
        if alert.status == "resolved":
            ended = self._open.pop(alert.fingerprint, None)
            if ended is not None:
                ended.until_ms = time_ms
        elif alert.status == "firing" or alert.withheld_by:
            self._begin(alert, time_ms)

    def _begin(self, alert: Alert, time_ms: int) -> None:
        former = self._open.get(alert.fingerprint)
        if former is not None and former.withheld_by == alert.withheld_by:
            return
        if len(self.episodes) >= EPISODES_MAX:
            self.left_out += 1
            return
        labels = {name: value for name, value in alert.labels.items() if name not in {"alertname", "severity"}}
        began = Episode(
            alert.labels.get("alertname", ""), alert.fingerprint, labels, time_ms, alert.annotations.get("summary", ""),
            alert.evidence.runs, withheld_by=alert.withheld_by,
        )  # fmt: skip
        self._open[alert.fingerprint] = began
        self.episodes.append(began)


def labels_of(text: bytes) -> list[AlertLabel]:
    """Return the labels in a text with one JSON object per line; raise ConfigError with the line number if a line is invalid."""
    labels = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            label = msgspec.json.decode(line, type=AlertLabel)
            parse_rfc3339(label.time)
        except (msgspec.MsgspecError, InvalidInputError) as error:
            raise ConfigError(
                f"Line {number} of the label file is invalid: {error}. A label looks like "
                '{"fingerprint": "...", "time": "2026-11-23T10:00:00Z", "real": false, "comment": "..."}.'
            ) from error
        labels.append(label)
    return labels


def alert_counts(episodes: Iterable[Episode], runs: int) -> tuple[AlertCount, ...]:
    """Return the counts of alerts by name, with the rate per 1,000 of all `runs`; the examples are the newest alerts."""
    return tuple(
        AlertCount(
            name=name,
            fired=len(fired),
            per_1000_runs=1000.0 * len(fired) / runs if runs else 0.0,
            subjects=len({episode.fingerprint for episode in fired}),
            open=sum(episode.until_ms is None for episode in fired),
            examples=tuple(f"{when(episode.from_ms)}  {episode.summary}" for episode in fired[-EXAMPLES:]),
        )
        for name, fired in sorted(grouped(episodes, lambda episode: episode.alertname).items())
    )


def precision_rows(precisions: Iterable[Precision]) -> list[tuple[str, str, str, str]]:
    """Return table rows: alert name, number of judged alerts, number of real alerts, and share of real alerts."""
    return [(row.alertname, str(row.judged), str(row.real), f"{100 * row.share:.0f} %") for row in precisions]


def precision(episodes: Sequence[Episode], labels: Sequence[AlertLabel]) -> list[Precision]:
    """Return how many judged alerts were real, by name; each alert counts once, with the label nearest to its start."""
    by_alert = grouped(labels, lambda label: label.fingerprint)
    judged, real = Counter[str](), Counter[str]()
    for episode in episodes:
        labels_of_alert = by_alert.get(episode.fingerprint, ())
        near = [label for label in labels_of_alert if _while_open(episode, parse_rfc3339(label.time))]
        if near:
            label = min(near, key=lambda label: abs(parse_rfc3339(label.time) - episode.from_ms))
            judged[episode.alertname] += 1
            real[episode.alertname] += label.real
    return [Precision(name, count, real[name]) for name, count in sorted(judged.items())]


def _while_open(episode: Episode, time_ms: int) -> bool:
    is_before_end = episode.until_ms is None or time_ms <= episode.until_ms + NEAR_MS
    return episode.from_ms - NEAR_MS <= time_ms and is_before_end
