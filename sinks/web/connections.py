"""Connections within limits: those that ask nothing make room for others, and probes get through when all are busy."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

PROBES: Final = ("/healthz", "/readyz", "/metrics")
ALL: Final = "http_connections_max"
ADDRESS: Final = "http_address_connections_max"
Reached = Callable[[str], None]


class Limits(msgspec.Struct, frozen=True):
    """How many connections there may be, also of one address, and how soon each has to ask for something.

    Beyond `connections_max`, where all are busy, `probes_max` more may ask for what probes ask for.
    """

    connections_max: int = 200
    address_connections_max: int = 100
    probes_max: int = 20
    head_timeout_s: float = 10.0


def unreported(_bound: str) -> None:
    """Report nothing."""


class Connections:
    """The open connections of a server, the oldest first; all calls come from its event loop.

    A connection that answers nothing at the moment is idle. Whoever comes when a limit is reached takes the place of the
    oldest idle one, of the same address where it is that limit.
    """

    def __init__(self, limits: Limits, reached: Reached = unreported) -> None:
        self.limits, self._reached = limits, reached
        self._open: dict[BoundedProtocol, str] = {}

    def admit(self, one: "BoundedProtocol", address: str) -> bool:
        """Take a connection in; return False where it has to be closed."""
        limits = self.limits
        same = [other for other, of in self._open.items() if of == address]
        if len(same) >= limits.address_connections_max and not self._make_room(same, ADDRESS):
            return False
        if len(self._open) >= limits.connections_max and not self._make_room(self._open, ALL):
            if len(self._open) >= limits.connections_max + limits.probes_max:
                return False
            one.serve_probes_only()
        self._open[one] = address
        return True

    def forget(self, one: "BoundedProtocol") -> None:
        """Take note that a connection is closed."""
        self._open.pop(one, None)

    def _make_room(self, among: Iterable["BoundedProtocol"], bound: str) -> bool:
        self._reached(bound)
        idle = next((one for one in among if one.is_idle()), None)
        if idle is None:
            return False
        self.forget(idle)
        idle.transport.close()
        return True


class BoundedProtocol(H11Protocol):
    """HTTP on one connection, which is closed unless the head of its next request is complete in time."""

    bounds: Connections
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
        """Begin, or close at once where there are too many."""
        super().connection_made(transport)
        if self.bounds.admit(self, self.client[0] if self.client else ""):
            self._watch_head()
        else:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.bounds.forget(self)
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; a head that comes byte by byte gets no more time for it."""
        super().data_received(data)
        if self.is_idle():
            self._watch_head()
        else:
            self._stop_watching()

    def is_idle(self) -> bool:
        """Return whether no request is being answered."""
        return bool(getattr(self.cycle, "response_complete", True))  # there is no cycle before the first request

    def serve_probes_only(self) -> None:
        """Answer from now on only what probes ask for."""
        self.app = _ProbesOnly(self.app)

    def _watch_head(self) -> None:
        if self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.bounds.limits.head_timeout_s, self._give_up)

    def _stop_watching(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self.is_idle():
            self.transport.close()


class _ProbesOnly:
    def __init__(self, app: Any) -> None:
        self._app: ASGIApp = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        full = PlainTextResponse("Too many connections.\n", 503, {"Connection": "close", "Retry-After": "10"})
        await full(scope, receive, send)


def bounded(connections: Connections) -> type[BoundedProtocol]:
    """Return the protocol whose connections count as these."""
    return type("BoundedProtocol", (BoundedProtocol,), {"bounds": connections})
