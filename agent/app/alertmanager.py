"""Tells Alertmanagers of alerts: a thread beside the learner that repeats what fires."""

import ssl
import threading
from typing import Final

import httpx

from agent.app import logs
from agent.app.logs import Outage
from agent.clock import Clock
from agent.config.tree import AlertmanagerSettings
from processors.contracts.service import Measures, Service
from sinks.alertmanager import Repeats, bodies

LOOK_S: Final = 1.0
AGAIN_MAX_S: Final = 60.0
PATH: Final = "/api/v2/alerts"


class Alertmanager:
    """One Alertmanager: what it still has to be told, and when to try again after it could not be reached."""

    def __init__(self, url: str, settings: AlertmanagerSettings, client: httpx.Client) -> None:
        self.url = url.rstrip("/")
        self._client = client
        self._repeats = Repeats(round(settings.resend_s * 1000), settings.external_url)
        self._failures = 0
        self._not_before_s = 0.0

    def report(self, service: Service, now_ms: int, monotonic_s: float) -> int | None:
        """Return what is due; return how many alerts that were, None while it is not asked. httpx.HTTPError where it failed."""
        if monotonic_s < self._not_before_s:
            return None
        due = self._repeats.due(service.alerts(), now_ms)
        try:
            for body in bodies(due):
                response = self._client.post(
                    self.url + PATH, content=body, headers={"content-type": "application/json"}
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
    """Tells every Alertmanager; `look` does what is due now and never raises for one that is away.

    A learner without a shard tells nothing: what it knows of alerts is old, and whoever has the shard tells.
    """

    def __init__(self, settings: AlertmanagerSettings, service: Service, measures: Measures, clock: Clock) -> None:
        self._service, self._measures, self._clock = service, measures, clock
        self._client = client_of(settings)
        log = logs.logger("alertmanager")
        self._members = [Alertmanager(url, settings, self._client) for url in settings.urls]
        self._outages = [Outage(f"Alertmanager {number}", log, clock) for number in range(len(settings.urls))]

    def look(self) -> None:
        """Return what is due."""
        if not all(health.working for health in self._service.health()):
            return
        for number, member in enumerate(self._members):
            try:
                reported = member.report(self._service, self._clock.now_ms(), self._clock.monotonic_s())
            except httpx.HTTPError as error:
                self._measures.add("scalewatch_alertmanager_posts_total", outcome="failed")
                self._outages[number].failed(reason_of(error))
                continue
            if reported is not None:
                self._outages[number].over()
            if reported:
                self._measures.add("scalewatch_alertmanager_posts_total", outcome="sent")
                self._measures.add("scalewatch_alertmanager_alerts_total", float(reported))

    def run(self, stop: threading.Event) -> None:
        """Look every second until `stop` is set."""
        while not self._clock.sleep(LOOK_S, stop):
            self.look()
        self.close()

    def close(self) -> None:
        """Free the connections."""
        self._client.close()


def start(
    settings: AlertmanagerSettings, service: Service, measures: Measures, clock: Clock, stop: threading.Event
) -> threading.Thread | None:
    """Start the thread that tells Alertmanagers until `stop` is set; none where none is configured."""
    if not settings.urls:
        return None
    sink = AlertmanagerSink(settings, service, measures, clock)
    thread = threading.Thread(target=sink.run, args=(stop,), name="alertmanager", daemon=True)
    thread.start()
    return thread


def client_of(settings: AlertmanagerSettings) -> httpx.Client:
    """Return a client that logs in as configured."""
    headers = {} if settings.token is None else {"authorization": f"Bearer {settings.token.get_secret_value()}"}
    login = None
    if settings.username is not None and settings.password is not None:
        login = httpx.BasicAuth(settings.username, settings.password.get_secret_value())
    verify = True if settings.ca_file is None else ssl.create_default_context(cafile=settings.ca_file)
    return httpx.Client(timeout=settings.timeout_s, headers=headers, auth=login, verify=verify, trust_env=False)


def reason_of(error: Exception) -> str:
    """Return what happened without the address, which may hold a log-in."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answered {error.response.status_code}"
    return type(error).__name__
