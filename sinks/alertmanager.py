"""Alerts as Alertmanager wants them: sent at once when they change, and again and again while they fire.

Alertmanager keeps nothing that lasts: who raises an alert repeats it, or it is taken for resolved at its `endsAt`; and sends
for a while that one is resolved, so that one lost message does not leave it open (Prometheus' documentation of alerting
clients).
"""

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.outputs import Alert

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
            labels={**alert.labels, "severity": alert.severity, "kind": alert.kind},
            annotations=alert.annotations,
            starts_at=rfc3339(min(parse_rfc3339(alert.starts), until_ms)),
            ends_at=rfc3339(until_ms),
            generator_url=url,
        )


def bodies(alerts: Sequence[PostableAlert], alerts_max: int = 500) -> Iterable[bytes]:
    """Yield what is posted to ``/api/v2/alerts``: JSON arrays of at most `alerts_max`."""
    for first in range(0, len(alerts), alerts_max):
        yield msgspec.json.encode(alerts[first : first + alerts_max])
