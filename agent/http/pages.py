"""The plain page: an overview, and one page for each application and each host. No script; it reloads itself."""

from typing import Any, Final

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from agent import __version__, ranking, words
from agent.contracts.service import Service
from agent.http import environment as html
from agent.http import hosts, parameters, view
from agent.http.loads import load_view
from agent.http.lookup import Truth, find, known_ids, link
from agent.http.power import explained_views, power_view
from agent.http.troubles import Troubles

APPLICATIONS_SHOWN: Final = 60
ALERTS_SHOWN: Final = 30
JOBS_SHOWN: Final = 50
HOSTS_SHOWN: Final = 60
STRANGE_SHOWN: Final = 8  # hosts on the overview
REFRESH_S: Final = 15


def environment() -> Environment:
    """Return the templates with what the pages add to them.

    >>> environment().from_string("{{ name }}").render(name="<b>")
    '&lt;b&gt;'
    """
    made = html.environment("agent.http")
    made.filters.update(duration=words.duration, size=words.size, change=view.change, span=words.span)
    made.filters.update(power=words.power, energy=words.energy)
    made.globals.update(band=view.band, link=link, host_link=hosts.host_link, version=__version__)
    return made


class Pages:
    """The HTML pages over a service; `troubles` tells what went wrong, `truth` the true run time where it is known.

    >>> [route.path for route in Pages(None).routes()]
    ['/', '/applications/{id:path}', '/hosts', '/hosts/{name:path}', '/static']
    """

    def __init__(self, service: Service, truth: Truth | None = None, troubles: Troubles = tuple) -> None:
        self._service = service
        self._troubles = troubles
        self._truth = truth
        self._templates = environment()

    def routes(self) -> list[Route | Mount]:
        """Return the routes, all of them for GET only."""
        return [
            Route("/", self.overview, methods=["GET"]),
            Route("/applications/{id:path}", self.application, methods=["GET"]),
            Route("/hosts", self.hosts, methods=["GET"]),
            Route("/hosts/{name:path}", self.host, methods=["GET"]),
            Mount("/static", StaticFiles(packages=[("agent.http", "static")])),
        ]

    def overview(self, request: Request) -> Response:
        """Show every application, those that need attention first, alerts and running jobs."""
        search = parameters.text(request.query_params, "search") or ""
        alerts = self._service.alerts()
        wanted = view.named_like(self._service.predictions(), search)
        jobs = self._service.jobs()
        return self._page(
            request,
            "overview.html",
            search=search,
            rows=view.rows(wanted, alerts, self._truth, APPLICATIONS_SHOWN),
            rows_total=len(wanted),
            open_alerts=view.worst_first(alerts)[:ALERTS_SHOWN],
            resolved_alerts=[alert for alert in alerts if alert.status == "resolved"][:ALERTS_SHOWN],
            jobs=jobs[:JOBS_SHOWN],
            jobs_total=len(jobs),
            hosts=hosts.host_rows(self._service.hosts(STRANGE_SHOWN), alerts),
        )

    def application(self, request: Request) -> Response:
        """Show one application: its curve, every size, how good it has been, alerts and running jobs."""
        path = request.path_params["id"]
        found = find(self._service, path, _raw(request, "/applications/"))
        if found is None:
            return self.missing(request, f"There is no model of {path[:80]!r}.", path)
        alerts = view.alerts_of(found, self._service.alerts())
        is_open = [alert for alert in alerts if alert.status != "resolved"]
        laws = ranking.ranked(found.model)
        load = found.under_load
        return self._page(
            request,
            "application.html",
            row=view.rows([found], alerts, self._truth)[0],
            picture=view.picture(found, is_open, self._truth, small=False),
            points=view.point_rows(found, self._truth),
            load=load_view(found.application, load, view.run_time_at(found, load.n) if load else None),
            power=power_view(found),
            explained=explained_views(found.profiles),
            laws=laws,
            horizons=ranking.horizons(laws),
            alerts=alerts[:ALERTS_SHOWN],
            jobs=view.jobs_of(found, self._service.jobs())[:JOBS_SHOWN],
        )

    def hosts(self, request: Request) -> Response:
        """Show hosts with their windows, those with anomalies first."""
        search = parameters.text(request.query_params, "search") or ""
        known, more = hosts.matching_hosts(self._service, None, None)
        wanted = hosts.hosts_like(known, search)
        return self._page(
            request,
            "hosts.html",
            search=search,
            hosts=hosts.host_rows(wanted[:HOSTS_SHOWN], self._service.alerts()),
            hosts_total=len(wanted),
            more=more,
        )

    def host(self, request: Request) -> Response:
        """Show one host: the histogram of each resource, forecasts, scores and alerts."""
        found = hosts.find_host(self._service, _raw(request, "/hosts/"))
        if found is None:
            return self.missing(request, f"There is no host {request.path_params['name'][:80]!r}.")
        alerts = hosts.alerts_of_host(found, self._service.alerts())
        row = hosts.host_rows([found], alerts, small=False)[0]
        return self._page(request, "host.html", row=row, alerts=alerts[:ALERTS_SHOWN])

    def missing(self, request: Request, detail: str, name: str = "", status: int = 404) -> Response:
        """Say that there is no such page, and what there is."""
        known = known_ids(self._service.predictions(), like=name)
        return self._page(request, "missing.html", status, detail=detail, known=known)

    def _page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        health = self._service.health()
        text = self._templates.get_template(template).render(
            refresh_s=0 if request.query_params.get("refresh") == "off" else REFRESH_S,
            path=request.url.path,
            health=health,
            troubles=self._troubles(),
            ready=bool(health) and all(role.ready for role in health),
            has_truth=self._truth is not None,
            **values,
        )
        return HTMLResponse(text, status)


def _raw(request: Request, prefix: str) -> str:
    raw: bytes = request.scope.get("raw_path") or b""
    return raw.decode("latin-1").partition("?")[0].removeprefix(prefix)
