"""The HTTP server in its own thread: bounded connections, access control, routes, and a clean stop."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import uvicorn
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.service import Service
from sinks.prometheus.registry import CONTENT_TYPE, Metrics
from sinks.web import formatting
from sinks.web.access import PRESENT, STRANGER, Access, Reader, VisibilityFilter
from sinks.web.api import Api, ApiProblem, json
from sinks.web.changes import STOPPING
from sinks.web.pages import Pages
from sinks.web.queries import BadParameterError, PageLinks, Truth
from sinks.web.views.agent import faults

PROBES: Final = ("/healthz", "/readyz", "/metrics")
ALL: Final = "http_connections_max"
ADDRESS: Final = "http_address_connections_max"
Reached = Callable[[str], None]


class Limits(msgspec.Struct, frozen=True):
    """Limits of connections: in total, per address, and seconds until the header of a request is complete.

    While `connections_max` connections are busy, `probes_max` more are accepted, but only for requests of the probe paths.
    """

    connections_max: int = 200
    address_connections_max: int = 100
    probes_max: int = 20
    head_timeout_s: float = 10.0


def unreported(_bound: str) -> None: ...


class Connections:
    """The open connections of a server, oldest first; all calls come from its event loop.

    A connection is idle while it responds to no request. When a limit is reached, the oldest idle connection is closed for a
    new one; at the limit per address, the oldest idle connection of that address.
    """

    def __init__(self, limits: Limits, reached: Reached = unreported) -> None:
        self.limits, self._reached = limits, reached
        self._open: dict[BoundedProtocol, str] = {}

    def admit(self, connection: "BoundedProtocol", address: str) -> bool:
        """Add a connection; return False if the caller must close it."""
        limits = self.limits
        same = [other for other, other_address in self._open.items() if other_address == address]
        if len(same) >= limits.address_connections_max and not self._make_room(same, ADDRESS):
            return False
        if len(self._open) >= limits.connections_max and not self._make_room(self._open, ALL):
            if len(self._open) >= limits.connections_max + limits.probes_max:
                return False
            connection.serve_probes_only()
        self._open[connection] = address
        return True

    def forget(self, connection: "BoundedProtocol") -> None:
        self._open.pop(connection, None)

    def _make_room(self, among: Iterable["BoundedProtocol"], bound: str) -> bool:
        self._reached(bound)
        idle = next((connection for connection in among if connection.is_idle()), None)
        if idle is None:
            return False
        self.forget(idle)
        idle.transport.close()
        return True


class BoundedProtocol(H11Protocol):
    """HTTP on one connection, which is closed unless the header of its next request is complete in time."""

    bounds: Connections
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
        super().connection_made(transport)
        if self.bounds.admit(self, self.client[0] if self.client else ""):
            self._watch_head()
        else:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.forget(self)
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read bytes; a header that arrives byte by byte gets no extra time."""
        super().data_received(data)
        if self.is_idle():
            self._watch_head()
        else:
            self._stop_watching()

    def is_idle(self) -> bool:
        return bool(getattr(self.cycle, "response_complete", True))  # before the first request there is no cycle

    def serve_probes_only(self) -> None:
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
    return type("BoundedProtocol", (BoundedProtocol,), {"bounds": connections})


CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_ALWAYS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders:
    """Middleware that adds security headers, and by default forbids storing the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_ALWAYS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


OPEN: Final = ("/healthz", "/readyz")  # paths for probes, which send no authentication
OPEN_BELOW: Final = ("/static/", "/favicon.ico")  # paths with the same content for everybody
# dead letters quote messages of producers, and users cannot repair them
OPERATORS_ONLY: Final = ("/api/v1/deadletters",)
NOT_HTML: Final = ("/api/", "/metrics", "/changes")
UNKNOWN: Final = "Authentication required: sign in through your centre, or send a bearer token."
WRONG: Final = "Unknown token."
NOT_YOURS: Final = "Operators only."


class Gate:
    """Middleware that refuses requests without access, and sets PRESENT to the reader while a request is processed."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._page = formatting.environment("sinks.web").get_template("door.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the only other types are start-up and shutdown
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        who = self._access.reader_of(scope)
        refused = None if self._is_open(path) else self.refusal(path, who)
        if refused is not None:
            await self._refused(Request(scope), *refused)(scope, receive, send)
            return
        present = STRANGER if who is None else who
        token = PRESENT.set(present)
        try:
            await self._app({**scope, "scalewatch.reader": present}, receive, send)
        finally:
            PRESENT.reset(token)

    def refusal(self, path: str, who: Reader | None) -> tuple[int, str] | None:
        """Return status and sentence if a reader (None if unknown) may not read a path; None if the reader may."""
        if who is None:
            return 401, UNKNOWN
        if not who.operator and any(path == only or path.startswith(f"{only}/") for only in OPERATORS_ONLY):
            return 403, NOT_YOURS
        return None

    def _is_open(self, path: str) -> bool:
        metrics = self._access.metrics_open and path == "/metrics"
        return metrics or path in OPEN or path.startswith(OPEN_BELOW)

    def _refused(self, request: Request, status: int, text: str) -> Response:
        wrong = status == 401 and "authorization" in request.headers
        detail = WRONG if wrong else text
        if request.url.path.startswith(NOT_HTML):
            response = json(ApiProblem(detail), status)
        else:
            response = HTMLResponse(self._page.render(status=status, detail=detail), status)
        if status == 401:
            error = ', error="invalid_token"' if wrong else ""
            response.headers["WWW-Authenticate"] = f'Bearer realm="scalewatch"{error}'
        return response


def create_app(
    service: Service,
    metrics: Metrics,
    truth: Truth | None = None,
    access: Access | None = None,
    links: PageLinks | None = None,
) -> Starlette:
    """Return the web application of a service: health, metrics, JSON and pages.

    `truth` (application id, size -> seconds) adds the simulated truth to the pages, `access` limits who reads what, `links` lead
    to other tools of the centre.
    """
    # so that no page can show data that its reader may not see
    shown: Service = service if access is None else VisibilityFilter(service)
    pages = Pages(shown, truth, lambda: faults(metrics, shown.collectors()), links)

    scrapes = CapacityLimiter(METRICS_AT_ONCE)

    async def exposition(_request: Request) -> Response:
        text = await to_thread.run_sync(metrics.exposition, limiter=scrapes)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    def problem(request: Request, detail: str, status: int) -> Response:
        if request.url.path.startswith("/api/"):
            return json(ApiProblem(detail), status)
        return pages.missing(request, detail, status=status)

    def not_allowed(_request: Request, error: Exception) -> Response:
        response = json(ApiProblem("Only GET is allowed here."), 405)
        response.headers.update(getattr(error, "headers", None) or {})  # headers such as Allow
        return response

    return Starlette(
        routes=[
            *Api(shown).routes(),
            Route("/metrics", exposition, methods=["GET"]),
            *pages.routes(),
        ],
        middleware=[Middleware(SecurityHeaders), *([] if access is None else [Middleware(Gate, access=access)])],
        exception_handlers={
            BadParameterError: lambda request, error: problem(request, str(error), 400),
            UnavailableError: lambda request, error: problem(request, str(error), 503),
            404: lambda request, _error: problem(request, "This page does not exist.", 404),
            405: not_allowed,
        },
    )


STOP_S: Final = 5.0
METRICS_AT_ONCE: Final = 2  # scrapes have their own threads, because all threads of the pages may be busy
KEEP_ALIVE_S: Final = 20


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a bound socket; port 0 selects a free port. Raise ConfigError if the address cannot be used."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"The HTTP host {host!r} is not an address of this machine: {error.strerror}.") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart must not wait for old connections
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"The HTTP address {host}:{port} cannot be used ({error.strerror}). Choose another port: http.port in the configuration, --port in the demo."
        ) from error
    return bound


class Server:
    """Serves a web application on a host and port until it is stopped.

    The constructor binds the address, so a port in use is an error at the start; `port` is the actual port. Use the server as a
    context manager, or call `start` and `stop`. `reached` is called with the name of each connection limit that was reached.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, *, limits: Limits | None = None, reached: Reached = unreported
    ) -> None:
        self._app = app
        connections = Connections(limits or Limits(), reached)
        self._socket = bound_socket(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._notified_of_the_stop,
                interface="asgi3",
                access_log=False,
                log_config=None,
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,  # the proxy's own address is trusted, but not addresses in its headers
                http=bounded(connections),
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(STOP_S) - 2,
            )
        )
        self._thread = Thread(target=lambda: self._server.run(sockets=[self._socket]), name="http", daemon=True)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        self._socket.listen()
        self._thread.start()

    def stop(self) -> None:
        """Stop the server: let open responses finish for at most STOP_S seconds, then free the port. A second call does nothing."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self._socket.close()

    async def _notified_of_the_stop(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let endless responses notice that the server stops; otherwise the server would wait for them."""
        scope[STOPPING] = lambda: self._server.should_exit
        await self._app(scope, receive, send)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
