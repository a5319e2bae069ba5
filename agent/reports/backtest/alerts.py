"""The alerts of a replay as an operator would have received them: one line per firing, and the withheld alerts by reason."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import Alert, Emission

NAMED_BY: Final = ("host", "rack", "partition", "application", "n", "input", "verdict", "direction", "system")
NEAR_MS: Final = 3_600_000  # a label counts for an alert that fired this long before or after it was open then
EPISODES_MAX: Final = 1_000_000


class Episode(msgspec.Struct):
    """One alert from firing to resolution; `until_ms` is None while the alert is open."""

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
        """The values of the alert's labels, the most informative first."""
        if "host" in self.labels or "application" in self.labels:
            wanted = [name for name in NAMED_BY if name != "system"]
        else:
            wanted = list(NAMED_BY)
        return " ".join(self.labels[name] for name in wanted if self.labels.get(name))


class Label(msgspec.Struct, frozen=True):
    """An operator's judgement of an alert: whether it was `real`, when it was open, and why."""

    fingerprint: str
    time: str
    real: bool
    comment: str = ""


class Precision(msgspec.Struct, frozen=True):
    """The number of judged alerts with one name, and how many of them were real."""

    alertname: str
    judged: int
    real: int

    @property
    def share(self) -> float:
        """Return the share of judged alerts that were real."""
        return self.real / self.judged


class AlertHistory:
    """Gathers alerts from the messages of a fold; writable like a sink."""

    def __init__(self) -> None:
        self._open: dict[str, Episode] = {}
        self.episodes: list[Episode] = []
        self.left_out = 0

    def write(self, emissions: Iterable[Emission]) -> None:
        """Collect the alerts among the messages; ignore messages of other topics."""
        for emission in emissions:
            if emission.kind != "alerts":
                continue
            if emission.value is None:
                self.withdrawn(emission.key)
            else:
                self.take(msgspec.json.decode(emission.value, type=Alert))

    def raised(self) -> list[Episode]:
        """Return the alerts that were sent, in order of time."""
        return [each for each in self.episodes if not each.withheld_by]

    def withheld(self) -> dict[str, list[Episode]]:
        """Return the alerts that were not sent, by the reason."""
        found: dict[str, list[Episode]] = defaultdict(list)
        for each in self.episodes:
            if each.withheld_by:
                found[each.withheld_by].append(each)
        return dict(sorted(found.items()))

    def withdrawn(self, fingerprint: str) -> None:
        """Record that a withheld alert has ended."""
        self._open.pop(fingerprint, None)

    def take(self, alert: Alert) -> None:
        """Record a state change of an alert."""
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


def labels_of(text: bytes) -> list[Label]:
    """Return the labels of a JSON Lines file, one object per line.

    Raise ConfigError with the line number if a line is not a label.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            label = msgspec.json.decode(line, type=Label)
            parse_rfc3339(label.time)
        except (msgspec.MsgspecError, InvalidInputError) as error:
            raise ConfigError(
                f"Line {number} of the labels is none: {error}. A label is "
                '{"fingerprint": "...", "time": "2026-11-23T10:00:00Z", "real": false, "comment": "..."}.'
            ) from error
        found.append(label)
    return found


def precision_rows(found: Iterable[Precision]) -> list[tuple[str, str, str, str]]:
    """Return the table rows of the precisions: name, judged alerts, real alerts, and the share of real ones."""
    return [(one.alertname, str(one.judged), str(one.real), f"{100 * one.share:.0f} %") for one in found]


def precision(episodes: Sequence[Episode], labels: Sequence[Label]) -> list[Precision]:
    """Return the precision of alerts by name; each alert is judged once, by the label nearest to its start."""
    by_alert: Mapping[str, list[Label]] = defaultdict(list)
    for label in labels:
        by_alert[label.fingerprint].append(label)
    judged, real = Counter[str](), Counter[str]()
    for each in episodes:
        near = [label for label in by_alert.get(each.fingerprint, ()) if _while_open(each, parse_rfc3339(label.time))]
        if near:
            label = min(near, key=lambda one: abs(parse_rfc3339(one.time) - each.from_ms))
            judged[each.alertname] += 1
            real[each.alertname] += label.real
    return [Precision(name, count, real[name]) for name, count in sorted(judged.items())]


def _while_open(each: Episode, time_ms: int) -> bool:
    return each.from_ms - NEAR_MS <= time_ms and (each.until_ms is None or time_ms <= each.until_ms + NEAR_MS)
