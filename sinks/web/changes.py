"""Server-sent events about changes of the service, which make open pages reload."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final
from zlib import crc32

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from processors.contracts.errors import UnavailableError
from processors.contracts.hosts import HostView
from processors.contracts.outputs import Prediction
from processors.contracts.service import RunningJob, Service
from sinks.web.access import PRESENT, Reader

STREAMS_MAX: Final = 50
LOOKS_MAX: Final = 200  # maximum readers whose last versions are cached
LOOK_S: Final = 1.0  # time in s between two checks of the service, which all streams of a reader share
LOOK_SHARE: Final = 0.1  # maximum share of the time spent on checks of the service
STOP_CHECK_S: Final = 0.25
HEARTBEAT_S: Final = 15.0
RETRY_MS: Final = 3000
# key in a request's scope for the function that returns whether the server stops
STOPPING: Final = "scalewatch.stopping"

Versions = Mapping[str, str]
Pause = Callable[[float], Awaitable[None]]


Large = dict[str, tuple[Sequence[Prediction | RunningJob], str]]
"""The lists of the last call by name, each with its version; an unchanged list keeps its version."""


def versions(service: Service, large: Large | None = None) -> Versions:
    """Return a version for each part of the service; a version changes whenever its part changes.

    `large` is the state of the last call for the same reader; this function updates it.
    """
    retained: Large = {} if large is None else large
    lists: dict[str, Sequence[Prediction | RunningJob]] = {
        "predictions": service.predictions(),
        "jobs": service.running(),
    }
    for name, entries in lists.items():
        if name not in retained or retained[name][0] is not entries:
            retained[name] = entries, _text((entry.id, entry.time) for entry in entries)
    shown: dict[str, Iterable[object]] = {
        "alerts": (
            *((entry.fingerprint, entry.status, entry.time) for entry in service.alerts()),
            *sorted(service.silences().items(), key=lambda entry: entry[0]),
        ),
        "hosts": (_of_host(entry) for entry in service.hosts(1)),
        "sources": ((entry.topic, entry.events, entry.newest_ms, entry.messages == 0) for entry in service.sources()),
        "dead_letters": (
            (entry.time_ms, entry.topic, entry.partition, entry.offset) for entry in service.dead_letters()
        ),
        "collectors": ((report.member, report.reasons, report.restarts) for report in service.collectors()),
        "health": ((role.role, role.ready, role.reasons, role.partitions, role.restarts) for role in service.health()),
    }
    texts = {name: _text(values) for name, values in shown.items()}
    return {name: version for name, (_, version) in retained.items()} | texts


def _text(values: Iterable[object]) -> str:
    return f"{crc32(repr(list(values)).encode()):08x}"


def _of_host(entry: HostView) -> tuple[object, ...]:
    """Return the values of a host that change with every tick. Those of the first host serve as the version of all hosts."""
    return entry.system, entry.host, entry.as_of, tuple(resource.window.until_ms for resource in entry.resources)


class Changes:
    """Reports changes to pages, at most once a second. Beyond `streams_max` open streams the response is 503, and pages poll."""

    def __init__(self, service: Service, *, streams_max: int = STREAMS_MAX, pause: Pause = anyio.sleep) -> None:
        self._service = service
        self._streams_max = streams_max
        self._pause = pause
        self._looks: dict[Reader, _Look] = {}
        self.open = 0

    def versions(self) -> Versions:
        """Return the current versions for the current reader; the previous versions while the models are unavailable."""
        look = self._look_of(PRESENT.get())
        with suppress(UnavailableError):
            look.versions = versions(self._service, look.large)
        return look.versions

    def versions_for_page(self) -> Versions:
        """Return the versions to embed in a page.

        If a stream is open, these are the last checked versions, because the data of the page may be older than the
        newest versions.
        """
        shown = self._look_of(PRESENT.get()).versions
        return shown if self.open and shown else self.versions()

    async def show(self, request: Request) -> Response:
        """Respond with a stream of events. Each event has all versions as JSON."""
        if self.open >= self._streams_max:
            detail = f"{self._streams_max} pages are open already; this page polls every few seconds instead.\n"
            return PlainTextResponse(detail, 503, {"Retry-After": "60"})
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # a proxy must not buffer events
        if request.method == "HEAD":
            return Response(headers=headers, media_type="text/event-stream")
        stopping: Callable[[], bool] = request.scope.get(STOPPING, bool)
        return _Stream(self, self.events(stopping), headers)

    async def events(self, stopping: Callable[[], bool]) -> AsyncIterator[str]:
        """Yield an event at the start and after each change, and a comment while there is no change."""
        yield f"retry: {RETRY_MS}\n\n"
        shown: Versions | None = None
        quiet_s = 0.0
        while not stopping():
            current = await self._look()
            if current != shown:
                yield f"data: {msgspec.json.encode(current).decode()}\n\n"
                shown, quiet_s = current, 0.0
            elif quiet_s >= HEARTBEAT_S:
                yield ": nothing new\n\n"
                quiet_s = 0.0
            waited_s = 0.0
            while waited_s < LOOK_S and not stopping():
                await self._pause(STOP_CHECK_S)
                waited_s += STOP_CHECK_S
            quiet_s += waited_s

    async def _look(self) -> Versions:
        began_s = anyio.current_time()
        look = self._look_of(PRESENT.get())
        if began_s - look.at_s >= look.wait_s:
            look.at_s = began_s  # set before the check, so that other streams of this reader do not check meanwhile
            await anyio.to_thread.run_sync(self.versions)
            took_s = (anyio.current_time() - began_s) * min(len(self._looks), max(1, self.open))
            look.wait_s = max(0.9 * LOOK_S, took_s / LOOK_SHARE)
        return look.versions

    def _look_of(self, reader: Reader) -> "_Look":
        """Return the last check for a reader. Readers see different data, and must not learn of each other's data."""
        look = self._looks.pop(reader, None) or _Look()
        self._looks[reader] = look  # moved to the end, as the most recent
        while len(self._looks) > LOOKS_MAX:
            self._looks.pop(next(iter(self._looks)), None)
        return look


class _Look(msgspec.Struct):
    """The last versions for a reader, the time of the check, and the wait before the next check."""

    versions: Versions = {}
    large: Large = {}
    at_s: float = float("-inf")
    wait_s: float = LOOK_S


class _Stream(StreamingResponse):
    """A streaming response that counts in `Changes.open` until it ends, by an error or otherwise."""

    def __init__(self, changes: Changes, events: AsyncIterator[str], headers: Mapping[str, str]) -> None:
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._changes = changes
        changes.open += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._changes.open -= 1
