"""The HTTP server in a thread of its own, with a clean stop."""

import socket
from threading import Thread
from types import TracebackType
from typing import Final, Self

import uvicorn
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.service import Service
from sinks.prometheus.registry import CONTENT_TYPE, Metrics
from sinks.web import formatting
from sinks.web.access import PRESENT, STRANGER, Access, Reader, VisibilityFilter
from sinks.web.api import Api, Problem, json
from sinks.web.changes import STOPPING
from sinks.web.connections import Connections, Limits, Reached, bounded, unreported
from sinks.web.pages import Pages
from sinks.web.queries import BadParameterError, Links, Truth
from sinks.web.views.agent import faults

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
    """Middleware that adds the headers; by default nothing is stored by anyone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_ALWAYS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


OPEN: Final = ("/healthz", "/readyz")  # for probes, which know nobody
OPEN_BELOW: Final = ("/static/", "/favicon.ico")  # the same for everybody
OPERATORS_ONLY: Final = ("/api/v1/deadletters",)  # they quote what producers sent, and a user could do nothing about it
NOT_HTML: Final = ("/api/", "/metrics", "/changes")
UNKNOWN: Final = "Authentication required: sign in through your centre, or send a bearer token."
WRONG: Final = "Unknown token."
NOT_YOURS: Final = "Operators only."


class Gate:
    """Middleware that lets those in who may read, and passes on who it is."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._page = formatting.environment("sinks.web").get_template("door.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":  # there is no other kind but start and stop
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        found = self._access.reader_of(scope)
        refused = None if self._is_open(path) else self.refusal(path, found)
        if refused is not None:
            await self._refused(Request(scope), *refused)(scope, receive, send)
            return
        present = STRANGER if found is None else found
        token = PRESENT.set(present)
        try:
            await self._app({**scope, "scalewatch.reader": present}, receive, send)
        finally:
            PRESENT.reset(token)

    def refusal(self, path: str, found: Reader | None) -> tuple[int, str] | None:
        """Return status and sentence where this reader (None: nobody knows who) may not read this path."""
        if found is None:
            return 401, UNKNOWN
        if not found.operator and any(path == only or path.startswith(f"{only}/") for only in OPERATORS_ONLY):
            return 403, NOT_YOURS
        return None

    def _is_open(self, path: str) -> bool:
        metrics = self._access.metrics_open and path == "/metrics"
        return metrics or path in OPEN or path.startswith(OPEN_BELOW)

    def _refused(self, request: Request, status: int, text: str) -> Response:
        wrong = status == 401 and "authorization" in request.headers
        detail = WRONG if wrong else text
        if request.url.path.startswith(NOT_HTML):
            response = json(Problem(detail), status)
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
    links: Links | None = None,
) -> Starlette:
    """Return the application: health, metrics, JSON and pages over a service.

    `truth` (application id, size -> seconds) adds the truth to the pages where it is known, `access` limits who reads what,
    `links` lead to what the centre has besides.
    """
    shown: Service = (
        service if access is None else VisibilityFilter(service)
    )  # so no page can show what its reader may not see
    pages = Pages(shown, truth, lambda: faults(metrics, shown.collectors()), links)

    scrapes = CapacityLimiter(METRICS_AT_ONCE)

    async def exposition(_request: Request) -> Response:
        text = await to_thread.run_sync(metrics.exposition, limiter=scrapes)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    def refused(request: Request, error: Exception) -> Response:
        if _wants_json(request):
            return json(Problem(str(error)), 400)
        return pages.missing(request, str(error), status=400)

    def unavailable(request: Request, error: Exception) -> Response:
        if _wants_json(request):
            return json(Problem(str(error)), 503)
        return pages.missing(request, str(error), status=503)

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = "There is no such page." if status == 404 else "Only GET is served here."
        if _wants_json(request) or status != 404:
            headers = error.headers if isinstance(error, HTTPException) else None
            response = json(Problem(detail), status)
            response.headers.update(headers or {})
            return response
        return pages.missing(request, detail)

    return Starlette(
        routes=[
            *Api(shown).routes(),
            Route("/metrics", exposition, methods=["GET"]),
            *pages.routes(),
        ],
        middleware=[Middleware(SecurityHeaders), *([] if access is None else [Middleware(Gate, access=access)])],
        exception_handlers={BadParameterError: refused, UnavailableError: unavailable, 404: missing, 405: missing},
    )


def _wants_json(request: Request) -> bool:
    return request.url.path.startswith("/api/")


STOP_S: Final = 5.0
METRICS_AT_ONCE: Final = 2  # scrapes, in threads of their own: those of the pages may all be busy
KEEP_ALIVE_S: Final = 20


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound; port 0 takes a free one. Raises ConfigError where that cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"The HTTP host {host!r} is no address of this machine: {error.strerror}.") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart must not wait for old connections
        made.bind(address)
    except OSError as error:
        made.close()
        raise ConfigError(
            f"The HTTP address {host}:{port} cannot be used ({error.strerror}); choose another one: http.port in the configuration, --port in the demo."
        ) from error
    return made


class Server:
    """Serves an application on a host and port until it is stopped.

    The address is bound when the object is made, so a port that is taken is an error at the start; `port` is the real
    one. Use it as a context manager, or call `start` and `stop`. `reached` is told of each limit of connections that is.
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
                proxy_headers=False,  # who connects is the proxy: its address is what is trusted, not what it says
                http=bounded(connections),
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(STOP_S) - 2,
            )
        )
        self._thread = Thread(target=self._serve, name="http", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Begin to serve; connections are accepted from now on, for they wait in the socket's queue."""
        self._socket.listen()
        self._thread.start()

    def stop(self) -> None:
        """Finish open responses and free the port, within a few seconds; harmless when called twice."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self._socket.close()

    async def _notified_of_the_stop(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let endless responses ask whether the server stops: else it would wait for them."""
        scope[STOPPING] = lambda: self._server.should_exit
        await self._app(scope, receive, send)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
