"""The link to Alertmanagers: one thread repeats firing alerts to the Alertmanagers, another thread reads their silences."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from agent.app import logs
from agent.app.logs import Outage
from agent.clock import Clock
from agent.collector.registry import http_client
from agent.config.tree import AlertmanagerSettings
from processors.contracts.errors import InvalidInputError
from processors.contracts.names import rfc3339
from processors.contracts.service import Forwarding, Health, Measures, Service, Silence
from sinks.alertmanager import OURS, Labels, Repeats, bodies, known_silences, silences_of

LOOK_S: Final = 1.0
AGAIN_MAX_S: Final = 60.0
SILENCES_LOOK_S: Final = 15.0
BYTES_MAX: Final = 4_000_000  # size limit of one response
ALERTS: Final = "/api/v2/alerts"
SILENCES: Final = "/api/v2/silences"


class Alertmanager:
    """Sends alerts to one Alertmanager, and waits longer after each failure in a row."""

    def __init__(self, url: str, settings: AlertmanagerSettings, client: httpx.Client, outage: Outage) -> None:
        self.url = url.rstrip("/")
        self._client, self.outage = client, outage
        self._repeats = Repeats(round(settings.resend_s * 1000), settings.external_url)
        self._failures = 0
        self._not_before_s = 0.0

    def report(self, service: Service, now_ms: int, monotonic_s: float) -> int | None:
        """Send the due alerts and return their number; None if the next attempt is not due yet. Raise httpx.HTTPError on failure."""
        if monotonic_s < self._not_before_s:
            return None
        due = self._repeats.due(service.alerts(), now_ms)
        try:
            for body in bodies(due):
                response = self._client.post(
                    self.url + ALERTS, content=body, headers={"content-type": "application/json"}
                )
                response.raise_for_status()
        except httpx.HTTPError:
            self._repeats.forget()
            self._failures += 1
            self._not_before_s = monotonic_s + min(2.0 ** min(self._failures, 10), AGAIN_MAX_S)
            raise
        self._failures = 0
        return len(due)


class AlertmanagerSink:
    """Sends alerts to every Alertmanager.

    A learner without a shard sends nothing: its alerts are outdated, and the learner that owns the shard sends the current ones.
    """

    def __init__(self, settings: AlertmanagerSettings, service: Service, measures: Measures, clock: Clock) -> None:
        self._service, self._measures, self._clock = service, measures, clock
        self._client = http_client("alertmanager", settings, settings.timeout_s)
        log = logs.logger("alertmanager")
        self._members = [
            Alertmanager(url, settings, self._client, Outage(f"Alertmanager {number}", log, clock))
            for number, url in enumerate(settings.urls)
        ]

    def look(self) -> None:
        if not all(health.working for health in self._service.health()):
            return
        for member in self._members:
            try:
                reported = member.report(self._service, self._clock.now_ms(), self._clock.monotonic_s())
            except httpx.HTTPError as error:
                self._measures.add("scalewatch_alertmanager_posts_total", outcome="failed")
                member.outage.failed(reason_of(error))
                continue
            if reported is not None:
                member.outage.over()
            if reported:
                self._measures.add("scalewatch_alertmanager_posts_total", outcome="sent")

    def close(self) -> None:
        self._client.close()


def reason_of(error: Exception) -> str:
    """Return the reason of a failure without the URL, because the URL may contain a password."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answered {error.response.status_code}"
    return type(error).__name__


class AnswerTooLongError(httpx.HTTPError):
    """A response is longer than BYTES_MAX: Alertmanager lists too many alerts, or the URL belongs to another service."""


class SilencedService(Forwarding):
    """Forwards all reads to another service, and adds the silences that the Alertmanagers report.

    An alert is silenced only if every Alertmanager that has ever answered silences it, because the others would notify people.
    While an Alertmanager is unreachable, the silences read from it before stay valid until they end.
    """

    def __init__(self, settings: AlertmanagerSettings, service: Service, measures: Measures, clock: Clock) -> None:
        super().__init__(service)
        self._clock, self._measures = clock, measures
        self._client = http_client("alertmanager", settings, settings.timeout_s)
        self._urls = [url.rstrip("/") for url in settings.urls]
        log = logs.logger("alertmanager")
        self._outages = [Outage(f"silences of Alertmanager {number}", log, clock) for number in range(len(self._urls))]
        self._known: dict[str, Mapping[Labels, Silence]] = {}
        self._failed: dict[str, tuple[int, str]] = {}  # time and reason of the first failure

    def silences(self) -> Mapping[str, Silence]:
        known = self._known
        return silences_of(self._service.alerts(), _agreed(list(known.values())), self._clock.now_ms()) if known else {}

    def health(self) -> Sequence[Health]:
        """Return the health of every role. The first role also names the Alertmanagers whose silences could not be read."""
        roles = list(self._service.health())
        unanswered = tuple(_unanswered(url, *failure) for url, failure in self._failed.items())
        if roles and unanswered:
            roles[0] = msgspec.structs.replace(roles[0], unanswered=unanswered)
        return roles

    def look(self) -> None:
        """Read the silences of every Alertmanager once; an unreachable Alertmanager raises no error."""
        known, failed = dict(self._known), dict(self._failed)
        for url, outage in zip(self._urls, self._outages, strict=True):
            try:
                known[url] = known_silences(self._answer(url + ALERTS, OURS), self._answer(url + SILENCES))
            except (httpx.HTTPError, msgspec.MsgspecError, InvalidInputError, UnicodeDecodeError) as error:
                outage.failed(reason_of(error))
                since_ms = failed[url][0] if url in failed else self._clock.now_ms()
                failed[url] = since_ms, reason_of(error)
                continue
            failed.pop(url, None)
            outage.over()
        self._known, self._failed = known, failed
        self._measures.set("scalewatch_alertmanager_unanswered", len(failed))

    def close(self) -> None:
        self._client.close()

    def _answer(self, url: str, parameters: Mapping[str, str] | None = None) -> bytes:
        with self._client.stream("GET", url, params=parameters) as response:
            response.raise_for_status()
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                if len(body) > BYTES_MAX:
                    raise AnswerTooLongError(f"it answered more than {BYTES_MAX} bytes")
        return bytes(body)


def _unanswered(url: str, since_ms: int, reason: str) -> str:
    since = rfc3339(since_ms)[:16].replace("T", " ")
    address = urlsplit(url).netloc.rpartition("@")[2]
    return f"The silences of the Alertmanager {address} could not be read since {since} UTC: {reason.rstrip('.')}"


def _agreed(answers: Sequence[Mapping[Labels, Silence]]) -> dict[Labels, Silence]:
    """Return the silences that are present in every answer, each with its earliest end."""
    common = set.intersection(*(set(known) for known in answers))
    return {labels: min((known[labels] for known in answers), key=attrgetter("until")) for labels in common}
