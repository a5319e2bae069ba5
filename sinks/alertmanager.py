"""Alerts for Alertmanager, which are sent when they change and repeated while they fire.

Alertmanager keeps no state. A client must repeat each open alert, or else Alertmanager resolves it at its `endsAt`. The
client also repeats for a while that an alert is resolved, so that one lost message does not leave the alert open (Prometheus'
documentation of alerting clients).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.outputs import Alert
from processors.contracts.service import Silence

RESOLVED_KEEP_MS: Final = 15 * 60_000  # how long a resolved alert is repeated, in ms
LAPSES: Final = 4  # number of repeats that may be lost before Alertmanager resolves an alert


class PostableAlert(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An alert in the form of Alertmanager's API, version 2."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str
    generator_url: str | None = msgspec.field(name="generatorURL", default=None)


class Repeats:
    """Decides when to send which alerts to one Alertmanager; after a failure it sends all alerts again."""

    def __init__(self, resend_ms: int, external_url: str | None = None) -> None:
        self._resend_ms = resend_ms
        self._url = external_url
        self._sent: dict[str, tuple[str, int]] = {}  # id of the last message, and time in ms when it was sent
        self._resolved_ms: dict[str, int] = {}  # time in ms when this process first saw the alert resolved

    def due(self, alerts: Sequence[Alert], now_ms: int) -> list[PostableAlert]:
        """Return the alerts to send at wall-clock time `now_ms`, among open and recently resolved alerts."""
        newest: dict[str, Alert] = {}
        for alert in alerts:  # open alerts come first, so that the earlier end of an alert that fires again is ignored
            newest.setdefault(alert.fingerprint, alert)
        current = {key: alert for key, alert in newest.items() if self._is_current(alert, now_ms)}
        self._sent = {key: sent for key, sent in self._sent.items() if key in current}
        self._resolved_ms = {key: since for key, since in self._resolved_ms.items() if key in current}
        due = [alert for alert in current.values() if self._is_due(alert, now_ms)]
        self._sent |= {alert.fingerprint: (alert.id, now_ms) for alert in due}
        return [self._postable(alert, now_ms) for alert in due]

    def forget(self) -> None:
        """Mark all alerts as unsent, because the last messages may not have arrived."""
        self._sent = {}

    def _is_current(self, alert: Alert, now_ms: int) -> bool:
        if alert.status != "resolved":
            self._resolved_ms.pop(alert.fingerprint, None)
            return alert.status == "firing"
        was_sent = alert.fingerprint in self._sent
        since_ms = self._resolved_ms.get(alert.fingerprint)
        # an alert sent by this process counts as resolved from now on, any other alert from its own end on
        if since_ms is None:
            since_ms = now_ms if was_sent else parse_rfc3339(alert.ends or alert.time)
            self._resolved_ms[alert.fingerprint] = since_ms
        return now_ms - since_ms < RESOLVED_KEEP_MS

    def _is_due(self, alert: Alert, now_ms: int) -> bool:
        sent = self._sent.get(alert.fingerprint)
        return sent is None or sent[0] != alert.id or now_ms - sent[1] >= self._resend_ms

    def _postable(self, alert: Alert, now_ms: int) -> PostableAlert:
        ends = alert.ends if alert.status == "resolved" else None
        until_ms = min(parse_rfc3339(ends), now_ms) if ends else now_ms + LAPSES * self._resend_ms
        url = None if self._url is None else f"{self._url.rstrip('/')}/alerts/{quote(alert.fingerprint)}"
        return PostableAlert(
            labels=posted_labels(alert),
            annotations=alert.annotations,
            starts_at=rfc3339(min(parse_rfc3339(alert.starts), until_ms)),
            ends_at=rfc3339(until_ms),
            generator_url=url,
        )


def posted_labels(alert: Alert) -> dict[str, str]:
    """Return the labels that identify an alert in Alertmanager."""
    return {**alert.labels, "severity": alert.severity, "kind": alert.kind}


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    silenced_by: tuple[str, ...] = ()


class _KnownAlert(msgspec.Struct, frozen=True):
    """The fields of an alert in Alertmanager's response that the agent reads."""

    labels: dict[str, str]
    status: _Status


class _KnownSilence(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a silence in Alertmanager's response that the agent reads."""

    id: str
    ends_at: str
    created_by: str = ""
    comment: str = ""


OURS: Final = {"active": "false", "inhibited": "false", "silenced": "true", "filter": 'kind=~"anomaly|reliability"'}
"""Query parameters of ``/api/v2/alerts`` for silenced alerts of agents."""
SILENCE_TEXT_MAX: Final = 300  # maximum characters of a name or a comment
_ALERTS: Final = msgspec.json.Decoder(list[_KnownAlert])
_SILENCES: Final = msgspec.json.Decoder(list[_KnownSilence])
Labels = frozenset[tuple[str, str]]


def known_silences(alerts: bytes, silences: bytes) -> dict[Labels, Silence]:
    """Return the silence of each silenced alert, by the alert's labels, from ``/api/v2/alerts`` and ``/api/v2/silences``.

    The silences that Alertmanager names for an alert are used, because its matching rules differ from the agent's patterns. Of
    several silences, the one that ends last is used. Raise msgspec.MsgspecError or InvalidInputError for a malformed response.
    """
    by_id = {silence.id: silence for silence in _SILENCES.decode(silences)}
    by_labels: dict[Labels, Silence] = {}
    for alert in _ALERTS.decode(alerts):
        matching = [by_id[id_] for id_ in alert.status.silenced_by if id_ in by_id]
        if matching:
            last = max(matching, key=lambda silence: parse_rfc3339(silence.ends_at))
            by, comment = last.created_by[:SILENCE_TEXT_MAX], last.comment[:SILENCE_TEXT_MAX]
            by_labels[frozenset(alert.labels.items())] = Silence(by, rfc3339(parse_rfc3339(last.ends_at)), comment)
    return by_labels


def silences_of(alerts: Iterable[Alert], known: Mapping[Labels, Silence], now_ms: int) -> dict[str, Silence]:
    """Return the silences of open alerts by fingerprint, without expired silences."""
    labels = {alert.fingerprint: posted_labels(alert) for alert in alerts if alert.status == "firing"}
    silences = {
        key: known.get(frozenset((name, value) for name, value in posted.items() if value))
        for key, posted in labels.items()
    }
    return {key: one for key, one in silences.items() if one is not None and parse_rfc3339(one.until) > now_ms}


def bodies(alerts: Sequence[PostableAlert], alerts_max: int = 500) -> Iterable[bytes]:
    """Yield request bodies for ``/api/v2/alerts``: JSON arrays of at most `alerts_max` alerts."""
    for first in range(0, len(alerts), alerts_max):
        yield msgspec.json.encode(alerts[first : first + alerts_max])
