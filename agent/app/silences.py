"""Asks Alertmanagers which alerts are silenced: a thread beside the page, which shows these apart."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from agent.app import logs
from agent.app.alertmanager import client_of, reason_of
from agent.app.logs import Outage
from agent.clock import Clock
from agent.config.tree import AlertmanagerSettings
from processors.contracts.errors import InvalidInputError
from processors.contracts.names import rfc3339
from processors.contracts.service import Forwarding, Health, Measures, Service, Silence
from sinks.alertmanager import OURS, Labels, known_silences, silences_of

LOOK_S: Final = 15.0
BYTES_MAX: Final = 4_000_000  # of one answer
ALERTS: Final = "/api/v2/alerts"
SILENCES: Final = "/api/v2/silences"


class AnswerTooLongError(httpx.HTTPError):
    """An answer is longer than BYTES_MAX: it is of something else, or of too many things."""


class _Failed(msgspec.Struct, frozen=True):
    """Since when an Alertmanager does not tell its silences, and why not."""

    since_ms: int
    reason: str

    def text(self, url: str) -> str:
        since = rfc3339(self.since_ms)[:16].replace("T", " ")
        where = urlsplit(url).netloc.rpartition("@")[2]
        return (
            f"The silences of the Alertmanager {where} could not be read since {since} UTC: {self.reason.rstrip('.')}"
        )


class SilencedService(Forwarding):
    """A service with the silences of the Alertmanagers.

    An alert is silenced where each Alertmanager that answers says so: one that does not would notify people. What an
    Alertmanager said last holds while it is away, until the silence ends.
    """

    def __init__(self, settings: AlertmanagerSettings, service: Service, measures: Measures, clock: Clock) -> None:
        super().__init__(service)
        self._clock, self._measures = clock, measures
        self._client = client_of(settings)
        self._urls = [url.rstrip("/") for url in settings.urls]
        log = logs.logger("alertmanager")
        self._outages = [Outage(f"silences of Alertmanager {number}", log, clock) for number in range(len(self._urls))]
        self._known: dict[str, Mapping[Labels, Silence]] = {}
        self._failed: dict[str, _Failed] = {}

    def silences(self) -> Mapping[str, Silence]:
        """Return the silences of open alerts, by fingerprint."""
        known = self._known
        return silences_of(self._service.alerts(), _agreed(list(known.values())), self._clock.now_ms()) if known else {}

    def health(self) -> Sequence[Health]:
        """Return the health of every role, the first one's with what keeps this from knowing silences."""
        roles = list(self._service.health())
        unanswered = tuple(one.text(url) for url, one in self._failed.items())
        if roles and unanswered:
            roles[0] = msgspec.structs.replace(roles[0], unanswered=unanswered)
        return roles

    def look(self) -> None:
        """Ask every Alertmanager once; never raises for one that is away."""
        known, failed = dict(self._known), dict(self._failed)
        for url, outage in zip(self._urls, self._outages, strict=True):
            try:
                known[url] = known_silences(self._answer(url + ALERTS, OURS), self._answer(url + SILENCES))
            except (httpx.HTTPError, msgspec.MsgspecError, InvalidInputError, UnicodeDecodeError) as error:
                self._measures.add("scalewatch_alertmanager_looks_total", outcome="failed")
                outage.failed(reason_of(error))
                since_ms = failed[url].since_ms if url in failed else self._clock.now_ms()
                failed[url] = _Failed(since_ms, reason_of(error))
                continue
            failed.pop(url, None)
            self._measures.add("scalewatch_alertmanager_looks_total", outcome="answered")
            outage.over()
        self._known, self._failed = known, failed
        self._measures.set("scalewatch_alertmanager_unanswered", len(failed))

    def run(self, stop: threading.Event) -> None:
        """Ask now, and again and again until `stop` is set."""
        with closing(self._client):
            self.look()
            while not self._clock.sleep(LOOK_S, stop):
                self.look()

    def close(self) -> None:
        """Free the connections."""
        self._client.close()

    def _answer(self, url: str, parameters: Mapping[str, str] | None = None) -> bytes:
        with self._client.stream("GET", url, params=parameters) as response:
            response.raise_for_status()
            found = bytearray()
            for part in response.iter_bytes():
                found += part
                if len(found) > BYTES_MAX:
                    raise AnswerTooLongError(f"it answered more than {BYTES_MAX} bytes")
        return bytes(found)


def with_silences(
    settings: AlertmanagerSettings, service: Service, measures: Measures, clock: Clock, stop: threading.Event
) -> Service:
    """Return the service with the silences of the Alertmanagers, asked until `stop` is set; as it is where none is configured."""
    if not settings.urls:
        return service
    silenced = SilencedService(settings, service, measures, clock)
    threading.Thread(target=silenced.run, args=(stop,), name="silences", daemon=True).start()
    return silenced


def _agreed(answers: Sequence[Mapping[Labels, Silence]]) -> dict[Labels, Silence]:
    """Return what all Alertmanagers have silenced, with the silence of it that ends first."""
    common = set.intersection(*(set(known) for known in answers))
    return {labels: min((known[labels] for known in answers), key=lambda one: one.until) for labels in common}
