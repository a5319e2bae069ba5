"""Alerts as Alertmanager wants them: sent at once when they change, and again and again while they fire.

Alertmanager keeps nothing that lasts: who raises an alert repeats it, or it is taken for resolved at its `endsAt`; and sends
for a while that one is resolved, so that one lost message does not leave it open (Prometheus' documentation of alerting
clients).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.outputs import Alert
from processors.contracts.service import Silence

RESOLVED_KEEP_MS: Final = 15 * 60_000  # how long it is repeated that an alert is resolved
LAPSES: Final = 4  # so many repeats may be lost before Alertmanager takes an alert for resolved


class PostableAlert(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An alert in the form of Alertmanager's API, version 2."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str
    generator_url: str | None = msgspec.field(name="generatorURL", default=None)


class Repeats:
    """What is due to one Alertmanager and when; one that could not be reached is sent all of it later."""

    def __init__(self, resend_ms: int, external_url: str | None = None) -> None:
        self._resend_ms = resend_ms
        self._url = external_url
        self._sent: dict[str, tuple[str, int]] = {}  # id of the message, and when it was sent last
        self._resolved_ms: dict[str, int] = {}  # since when a resolved one is known here

    def due(self, alerts: Sequence[Alert], now_ms: int) -> list[PostableAlert]:
        """Return what is due at a time by the wall clock, of all alerts that are open or were resolved recently."""
        newest: dict[str, Alert] = {}
        for alert in alerts:  # what is open comes first, so an older end of an alert that fires again says nothing
            newest.setdefault(alert.fingerprint, alert)
        wanted = {key: alert for key, alert in newest.items() if self._is_wanted(alert, now_ms)}
        self._sent = {key: shown for key, shown in self._sent.items() if key in wanted}
        self._resolved_ms = {key: since for key, since in self._resolved_ms.items() if key in wanted}
        found = [alert for alert in wanted.values() if self._is_due(alert, now_ms)]
        self._sent |= {alert.fingerprint: (alert.id, now_ms) for alert in found}
        return [self._postable(alert, now_ms) for alert in found]

    def forget(self) -> None:
        """Take note that what was due last may not have arrived: all of it is due again."""
        self._sent = {}

    def _is_wanted(self, alert: Alert, now_ms: int) -> bool:
        if alert.status != "resolved":
            self._resolved_ms.pop(alert.fingerprint, None)
            return alert.status == "firing"
        known = self._sent.get(alert.fingerprint)
        since_ms = self._resolved_ms.get(alert.fingerprint)
        if since_ms is None:  # one that was sent as firing counts from now, one of before this process from its own end
            since_ms = now_ms if known else parse_rfc3339(alert.ends or alert.time)
            self._resolved_ms[alert.fingerprint] = since_ms
        return now_ms - since_ms < RESOLVED_KEEP_MS

    def _is_due(self, alert: Alert, now_ms: int) -> bool:
        shown = self._sent.get(alert.fingerprint)
        return shown is None or shown[0] != alert.id or now_ms - shown[1] >= self._resend_ms

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
    """Return the labels under which an Alertmanager knows an alert."""
    return {**alert.labels, "severity": alert.severity, "kind": alert.kind}


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    silenced_by: tuple[str, ...] = ()


class _KnownAlert(msgspec.Struct, frozen=True):
    """What is read of an alert in the answer of an Alertmanager."""

    labels: dict[str, str]
    status: _Status


class _KnownSilence(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of a silence in the answer of an Alertmanager."""

    id: str
    ends_at: str
    created_by: str = ""
    comment: str = ""


OURS: Final = {"active": "false", "inhibited": "false", "silenced": "true", "filter": 'kind=~"anomaly|reliability"'}
"""The question for the alerts of agents that are silenced, as parameters of ``/api/v2/alerts``."""
SILENCE_TEXT_MAX: Final = 300  # characters of a name or a comment
_ALERTS: Final = msgspec.json.Decoder(list[_KnownAlert])
_SILENCES: Final = msgspec.json.Decoder(list[_KnownSilence])
Labels = frozenset[tuple[str, str]]


def known_silences(alerts: bytes, silences: bytes) -> dict[Labels, Silence]:
    """Return the silences of alerts by their labels, from the answers of ``/api/v2/alerts`` and ``/api/v2/silences``.

    The Alertmanager itself says which silence matches: its patterns are not ours. Of several the one counts that ends
    last. Raises msgspec.MsgspecError, or InvalidInputError, where an answer is none.
    """
    by_id = {one.id: one for one in _SILENCES.decode(silences)}
    found: dict[Labels, Silence] = {}
    for alert in _ALERTS.decode(alerts):
        matching = [by_id[id_] for id_ in alert.status.silenced_by if id_ in by_id]
        if matching:
            last = max(matching, key=lambda one: parse_rfc3339(one.ends_at))
            by, comment = last.created_by[:SILENCE_TEXT_MAX], last.comment[:SILENCE_TEXT_MAX]
            found[frozenset(alert.labels.items())] = Silence(by, rfc3339(parse_rfc3339(last.ends_at)), comment)
    return found


def silences_of(alerts: Iterable[Alert], known: Mapping[Labels, Silence], now_ms: int) -> dict[str, Silence]:
    """Return the silences of open alerts by fingerprint, those that have not ended."""
    labels = {alert.fingerprint: posted_labels(alert) for alert in alerts if alert.is_open}
    found = {
        key: known.get(frozenset((name, value) for name, value in of.items() if value)) for key, of in labels.items()
    }
    return {key: one for key, one in found.items() if one is not None and parse_rfc3339(one.until) > now_ms}


def bodies(alerts: Sequence[PostableAlert], alerts_max: int = 500) -> Iterable[bytes]:
    """Yield what is posted to ``/api/v2/alerts``: JSON arrays of at most `alerts_max`."""
    for first in range(0, len(alerts), alerts_max):
        yield msgspec.json.encode(alerts[first : first + alerts_max])
