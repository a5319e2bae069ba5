"""The pages of a running agent: one module each."""

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from agent.http.agent_view import Counts
from agent.http.pages.agent import AgentPages
from agent.http.pages.alerts import AlertPages
from agent.http.pages.application import ApplicationPage
from agent.http.pages.hosts import HostPages
from agent.http.pages.jobs import JobPages
from agent.http.pages.overview import OverviewPage
from agent.http.pages.rendering import Endpoint, Rendering


def routes(rendering: Rendering, counts: Counts = lambda _name: {}) -> list[Route | Mount]:
    """Return the routes of all pages, all of them for GET only; `counts` reads the counters of this process.

    >>> [route.path for route in routes(Rendering(None))][-3:]
    ['/changes', '/favicon.ico', '/static']
    """
    overview, application, hosts = OverviewPage(rendering), ApplicationPage(rendering), HostPages(rendering)
    jobs, alerts, agent = JobPages(rendering), AlertPages(rendering), AgentPages(rendering, counts)
    pages: dict[str, Endpoint] = {
        "/": overview.show,
        "/applications/{id:path}": application.show,
        "/hosts": hosts.list,
        "/hosts/{name:path}": hosts.show,
        "/jobs": jobs.index,
        "/jobs/{name:path}": jobs.show,
        "/alerts": alerts.index,
        "/alerts/{fingerprint:path}": alerts.show,
        "/agent": agent.show,
        "/runbook": agent.runbook,
    }
    return [
        *(Route(path, rendering.following(endpoint), methods=["GET"]) for path, endpoint in pages.items()),
        Route("/changes", rendering.changes.show, methods=["GET"]),
        Route("/favicon.ico", favicon, methods=["GET"]),
        Mount("/static", Static(packages=[("agent.http", "static")])),
    ]


def favicon(_request: Request) -> Response:
    """Return the picture that browsers ask for on their own, beside JSON and metrics too.

    >>> favicon(None).media_type
    'image/svg+xml'
    """
    picture = files("agent.http").joinpath("static", "favicon.svg").read_bytes()
    return Response(picture, media_type="image/svg+xml")


class Static(StaticFiles):
    """Files that a browser may keep, if it asks each time whether they are still the same.

    >>> Static(packages=[("agent.http", "static")]).html
    False
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, or 304 where the browser has it."""
        response = await super().get_response(path, scope)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response
