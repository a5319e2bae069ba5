"""The HTTP server in a thread of its own, with a clean stop."""

import socket
from threading import Thread
from types import TracebackType
from typing import Final, Self

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.contracts.errors import ConfigError
from agent.http.changes import STOPPING

STOP_S: Final = 5.0
CONNECTIONS_MAX: Final = 200
KEEP_ALIVE_S: Final = 20


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound; port 0 takes a free one. Raises ConfigError where that cannot be.

    >>> with bound_socket("127.0.0.1", 0) as taken:
    ...     taken.getsockname()[1] > 0
    True
    """
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
    one. Use it as a context manager, or call `start` and `stop`.

    >>> from starlette.applications import Starlette
    >>> with Server(Starlette(), "127.0.0.1", 0) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._app = app
        self._socket = bound_socket(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._told_of_the_stop,
                interface="asgi3",
                access_log=False,
                log_config=None,
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,  # who connects is the proxy: its address is what is trusted, not what it says
                limit_concurrency=CONNECTIONS_MAX,
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

    async def _told_of_the_stop(self, scope: Scope, receive: Receive, send: Send) -> None:
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
