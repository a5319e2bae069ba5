"""The application behind the HTTP port: reads only."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent.contracts.errors import UnavailableError
from agent.contracts.service import Service
from agent.http import pages
from agent.http.access import Access
from agent.http.api import Api, Problem, json
from agent.http.gate import Gate
from agent.http.headers import SecurityHeaders
from agent.http.lookup import Truth
from agent.http.pages.rendering import Rendering
from agent.http.parameters import BadParameterError
from agent.http.recent_api import RecentApi
from agent.http.seen import Seen
from agent.http.troubles import troubles
from agent.metrics.registry import CONTENT_TYPE, Metrics


def create_app(
    service: Service, metrics: Metrics, truth: Truth | None = None, access: Access | None = None
) -> Starlette:
    """Return the application: health, metrics, JSON and pages over a service.

    `truth` (application id, size -> seconds) adds the truth to the pages where it is known, `access` limits who reads what.

    >>> app = create_app(None, Metrics(formats=(), reasons=(), processors=()))
    >>> {"/", "/api/v1/alerts", "/jobs/{name:path}", "/metrics"} <= {route.path for route in app.routes}
    True
    """
    shown: Service = service if access is None else Seen(service)  # so no page can show what its reader may not see
    rendering = Rendering(shown, truth, lambda: troubles(metrics))

    def exposition(_request: Request) -> Response:
        return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    def refused(request: Request, error: Exception) -> Response:
        if _wants_json(request):
            return json(Problem(str(error)), 400)
        return rendering.missing(request, str(error), status=400)

    def unavailable(request: Request, error: Exception) -> Response:
        if _wants_json(request):
            return json(Problem(str(error)), 503)
        return rendering.missing(request, str(error), status=503)

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = "There is no such page." if status == 404 else "Only GET is served here."
        if _wants_json(request) or status != 404:
            headers = error.headers if isinstance(error, HTTPException) else None
            response = json(Problem(detail), status)
            response.headers.update(headers or {})
            return response
        return rendering.missing(request, detail)

    return Starlette(
        routes=[
            *Api(shown).routes(),
            *RecentApi(shown).routes(),
            Route("/metrics", exposition, methods=["GET"]),
            *pages.routes(rendering, metrics.above_zero),
        ],
        middleware=[Middleware(SecurityHeaders), *([] if access is None else [Middleware(Gate, access=access)])],
        exception_handlers={BadParameterError: refused, UnavailableError: unavailable, 404: missing, 405: missing},
    )


def _wants_json(request: Request) -> bool:
    return request.url.path.startswith("/api/")
