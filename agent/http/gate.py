"""The door: who asks is found out before anything else, and who may not read gets one sentence."""

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.http import environment as html
from agent.http.access import PRESENT, STRANGER, Access, Reader
from agent.http.api import Problem, json

OPEN: Final = ("/healthz", "/readyz")  # for probes, which know nobody
OPEN_BELOW: Final = ("/static/", "/favicon.ico")  # the same for everybody
OPERATORS_ONLY: Final = ("/api/v1/letters",)  # they quote what producers sent, and a user could do nothing about it
NOT_HTML: Final = ("/api/", "/metrics", "/changes")
UNKNOWN: Final = "Say who you are: come through the centre's log-in, or send a bearer token."
WRONG: Final = "This token is not known."
NOT_YOURS: Final = "This is for operators."


class Gate:
    """Middleware that lets those in who may read, and says further inside who it is.

    >>> Gate(None, Access()).refusal("/api/v1/letters", Reader(user="u-1"))
    (403, 'This is for operators.')
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._page = html.environment("agent.http").get_template("door.html")

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

    def _refused(self, request: Request, status: int, sentence: str) -> Response:
        wrong = status == 401 and "authorization" in request.headers
        detail = WRONG if wrong else sentence
        if request.url.path.startswith(NOT_HTML):
            response = json(Problem(detail), status)
        else:
            response = HTMLResponse(self._page.render(status=status, detail=detail), status)
        if status == 401:
            error = ', error="invalid_token"' if wrong else ""
            response.headers["WWW-Authenticate"] = f'Bearer realm="scalewatch"{error}'
        return response
