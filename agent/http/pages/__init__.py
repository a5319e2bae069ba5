"""The pages of a running agent: one module each."""

from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from agent.http.pages.application import ApplicationPage
from agent.http.pages.hosts import HostPages
from agent.http.pages.overview import OverviewPage
from agent.http.pages.rendering import Rendering


def routes(rendering: Rendering) -> list[Route | Mount]:
    """Return the routes of all pages, all of them for GET only.

    >>> [route.path for route in routes(Rendering(None))]
    ['/', '/applications/{id:path}', '/hosts', '/hosts/{name:path}', '/static']
    """
    overview, application, hosts = OverviewPage(rendering), ApplicationPage(rendering), HostPages(rendering)
    return [
        Route("/", overview.show, methods=["GET"]),
        Route("/applications/{id:path}", application.show, methods=["GET"]),
        Route("/hosts", hosts.list, methods=["GET"]),
        Route("/hosts/{name:path}", hosts.show, methods=["GET"]),
        Mount("/static", StaticFiles(packages=[("agent.http", "static")])),
    ]
