"""The HTML pages: routes, templates, and the frame common to all pages."""

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from processors import __version__
from processors.advice import point_at
from processors.contracts.events import STATES
from processors.contracts.names import measured, resource_title
from processors.contracts.outputs import Prediction
from processors.contracts.service import Service, hits
from processors.contracts.settings import SESSION
from sinks.web import formatting, queries
from sinks.web.access import reader
from sinks.web.changes import Changes
from sinks.web.formatting import View, linked, sections
from sinks.web.queries import (
    JobFilter,
    PageLinks,
    Truth,
    application_link,
    find,
    id_of,
    known_ids,
    name_of,
    present_ms,
    raw_path,
)
from sinks.web.views import alerts as alert_view
from sinks.web.views import hosts, jobs, lines, overview
from sinks.web.views.agent import Faults, agent_view, parts_text, ranges, standing
from sinks.web.views.alert_states import CHOICES, SEVERITIES, Alerts
from sinks.web.views.application import (
    answer_view,
    both,
    history,
    load_view,
    power_view,
    run_rows,
    scaling_chart,
    uprights,
)
from sinks.web.views.centre import state_of_centre
from sinks.web.views.comparison import comparison, job_named
from sinks.web.views.hosts import explained_rows
from sinks.web.views.job_lists import Kind, job_list, owner_view
from sinks.web.views.why import bandwidth_left

REFRESH_S: Final = 15  # refresh interval in s for browsers without scripts
APPLICATIONS_SHOWN: Final = 60
CHOICES_SHOWN: Final = 50  # maximum application names that the form suggests; other names can be typed
ALERTS_FIRST: Final = 5  # alerts shown unfolded, few enough to keep the applications in view
ALERTS_SHOWN: Final = 30
ALERTS_LISTED: Final = 200
FILTERS: Final = ("status", "kind", "severity", "name")
JOBS_FIRST: Final = 8
TITLES: Final = {400: "Invalid request", 503: "Not available now"}  # titles of pages that cannot be shown
JOBS_SHOWN: Final = 50
HOSTS_SHOWN: Final = 8
Endpoint = Callable[[Request], Response]


def environment() -> Environment:
    templates = formatting.environment("sinks.web")
    templates.filters.update(change=overview.change, ranges=ranges, resource_title=resource_title, hits=hits)
    templates.filters.update(of_predicted=queries.of_predicted, is_outside=queries.is_outside)
    functions = (
        bandwidth_left, both, hosts.histogram_sketch, measured, overview.sketch, parts_text, queries.alert_link, queries.application_link,
        queries.host_page, queries.id_of, queries.job_link, queries.job_of, queries.key_of, queries.project_link, queries.user_link,
    )  # fmt: skip
    templates.globals.update(
        {function.__name__: function for function in functions}, session=SESSION, version=__version__
    )
    return templates


class Pages:
    """The HTML pages of a service; `faults` returns the troubles since the start, `truth` the true run time in a simulation.

    Readers who are not operators see only their own jobs.
    """

    def __init__(
        self, service: Service, truth: Truth | None = None, faults: Faults = tuple, links: PageLinks | None = None
    ) -> None:
        self._service, self._truth, self._faults, self._links = service, truth, faults, links or PageLinks()
        self._changes = Changes(service)
        self._templates = environment()
        self._templates.globals.update(
            portal=self._links.portal,
            application_page=partial(queries.application_page, service),
            alerts_with=self._open_alerts,
        )

    def routes(self) -> list[Route | Mount]:
        pages: dict[str, Endpoint] = {
            "/": self.overview,
            "/applications/{id:path}": self.application,
            "/hosts": self.hosts,
            "/hosts/{name:path}": self.host,
            "/jobs": self.jobs,
            "/jobs/compare": self.comparison,
            "/jobs/{name:path}": self.job,
            "/users/{name:path}": self.user,
            "/projects/{name:path}": self.project,
            "/alerts": self.alerts,
            "/alerts/{fingerprint:path}": self.alert,
            "/agent": self.agent,
            "/runbook": self.runbook,
        }
        return [
            *(Route(path, self._following(endpoint), methods=["GET"]) for path, endpoint in pages.items()),
            Route("/changes", self._changes.show, methods=["GET"]),
            Route("/favicon.ico", favicon, methods=["GET"]),
            Mount("/static", Static(packages=[("sinks.web", "static")])),
        ]

    def overview(self, request: Request) -> Response:
        """Show all applications (applications that need attention first), alerts, sources, hosts and running jobs."""
        search, chosen = _text(request, "search"), _text(request, "application")
        alerts, predictions = Alerts.of(self._service), self._service.predictions()
        matching = overview.named_like(predictions, search)
        running = sorted(
            reader(request).own(self._service.running()), key=lambda job: -(job.probability_exceeds_limit or 0.0)
        )
        first_hosts = self._service.hosts(HOSTS_SHOWN)
        pairs = [(view, alerts.about(partial(hosts.is_of_host, view))) for view in first_hosts]
        entry = queries.named(predictions, chosen) if chosen else None
        return self.page(
            request,
            "overview.html",
            search=search,
            rows=overview.rows(matching, alerts.open, self._truth, APPLICATIONS_SHOWN),
            rows_total=len(matching),
            alerts_first=ALERTS_FIRST,
            jobs=running[:JOBS_SHOWN],
            jobs_first=JOBS_FIRST,
            centre=state_of_centre(self._service, running),
            jobs_hanging=len(queries.hanging(alerts.open)),
            hosts=[hosts.host_card(*pair) for pair in pairs if hosts.is_wrong(*pair)],
            choices=queries.names(predictions, CHOICES_SHOWN),
            chosen=queries.name_of(entry) if entry else chosen,
            requested=self._answer(request, entry) if entry else None,
            unit=entry.unit if entry else "",
            not_found=queries.not_named(predictions, chosen) if chosen and entry is None else "",
            **self._alert_rows(alerts),
        )

    def application(self, request: Request) -> Response:
        path = request.path_params["id"]
        entry = find(self._service, path, raw_path(request, "/applications/"))
        if entry is None:
            return self.missing(request, f"There is no model of {path[:80]!r}.", path)
        alerts = Alerts.of(self._service).about(partial(overview.is_about, entry))
        members, load = overview.ranked(entry.model), entry.under_load
        under_load_point = point_at(entry, load.n) if load is not None else None
        runs = self._service.runs(id_of(entry))
        shown, anomalies = run_rows(runs, reader(request)), overview.anomalies(alerts.open)
        return self.page(
            request,
            "application.html",
            row=overview.rows([entry], alerts.open, self._truth)[0],
            points=overview.point_rows(entry, self._truth),
            requested=self._answer(request, entry),
            history=history(entry.application, runs, alerts.entries),
            load=load_view(entry.application, load, under_load_point.run_time_s if under_load_point else None),
            power=power_view(entry),
            explained=entry.profiles,
            members=members,
            horizons=overview.horizons(members),
            study=overview.measured_by_study(entry.model),
            jobs=overview.jobs_of(entry, self._service.running())[:JOBS_SHOWN],
            runs=shown,
            anomalies=anomalies,
            uprights=uprights(entry.useful_n),
            scaling=scaling_chart(entry, anomalies, shown),
            **self._alert_rows(alerts),
        )

    def _answer(self, request: Request, entry: Prediction) -> View:
        return answer_view(self._service, entry, request.query_params, self._service.runs(id_of(entry)))

    def _alert_rows(self, alerts: Alerts) -> dict[str, Any]:
        """Return the alerts for a page in three groups: open; silenced, withheld and pending; and resolved."""
        now_ms, is_open = present_ms(self._service), alerts.open
        return {
            "open_alerts": alert_view.alert_rows(alerts, is_open[:ALERTS_SHOWN], now_ms),
            "open_total": len(is_open),
            "aside": alert_view.aside(alerts, ALERTS_SHOWN, now_ms),
            "resolved_alerts": alert_view.alert_rows(alerts, alerts.among("resolved")[:ALERTS_SHOWN], now_ms),
        }

    def jobs(self, request: Request) -> Response:
        """Show running or ended jobs; by default running jobs, with jobs likely to hit their limit first."""
        asking, query = reader(request), request.query_params
        view = job_list(self._service, asking, JobFilter.of(query), query)
        return self.page(request, "jobs.html", list=view, states=STATES, everybody=asking.operator)

    def job(self, request: Request) -> Response:
        system, job_id = (unquote(part) for part in raw_path(request, "/jobs/").partition("/")[::2])
        if not jobs.may_see(reader(request), jobs.owners(self._service, system, job_id)):
            return self._refused(request, "This job belongs to another user.")
        view = jobs.job_view(self._service, system, job_id)
        if view is None:  # other users must not learn whether the job exists
            why = "no longer known" if reader(request).operator else "not yours"
            return self.missing(request, f"The job {job_id[:80]!r} on {system[:80]!r} is unknown or {why}.")
        return self.page(request, "job.html", view=view, job_hosts=lines.of_job(self._service, system, job_id))

    def comparison(self, request: Request) -> Response:
        """Show the newest runs of two jobs side by side; refuse a reader who may not see both jobs."""
        pair = [job_named(queries.text(request.query_params, name), name) for name in ("a", "b")]
        asking, ended = reader(request), []
        if not all(jobs.may_see(asking, jobs.owners(self._service, *job)) for job in pair):
            return self._refused(request, "One of these jobs belongs to another user.")
        for system, job_id in pair:
            newest = next(iter(self._service.runs_of_job(system, job_id)), None)
            if newest is None:
                why = "is no longer known" if asking.operator else "is not yours"
                detail = f"No run of the job {job_id[:80]!r} on {system[:80]!r} has ended yet, or the job {why}."
                return self.missing(request, detail)
            ended.append(newest)
        return self.page(request, "comparison.html", view=comparison(self._service, *ended))

    def user(self, request: Request) -> Response:
        """Show the jobs of a user to that user and to operators."""
        name = unquote(raw_path(request, "/users/"))
        if not reader(request).sees(name):
            return self._refused(request, "These jobs belong to another user.")
        return self._owner(request, "user", name)

    def project(self, request: Request) -> Response:
        """Show all jobs of a project to operators; other readers see their own."""
        return self._owner(request, "account", unquote(raw_path(request, "/projects/")))

    def _owner(self, request: Request, kind: Kind, name: str) -> Response:
        view = owner_view(self._service, reader(request), kind, name)
        return self.page(request, "owner.html", view=view, everybody=reader(request).operator)

    def _open_alerts(self, **labels: str) -> list[View]:
        """Return the rows of the open alerts with these labels."""
        alerts = Alerts.of(self._service).about(lambda alert: labels.items() <= alert.labels.items())
        return alert_view.alert_rows(alerts, alerts.open[:ALERTS_SHOWN], present_ms(self._service))

    def _refused(self, request: Request, detail: str) -> Response:
        return self.page(request, "refused.html", 403, detail=detail)

    def hosts(self, request: Request) -> Response:
        search = _text(request, "search")
        part = hosts.host_part(self._service, search, queries.page(request.query_params))
        return self.page(request, "hosts.html", search=search, part=part)

    def host(self, request: Request) -> Response:
        view = hosts.find_host(self._service, raw_path(request, "/hosts/"))
        if view is None:
            return self.missing(request, f"The host {request.path_params['name'][:80]!r} is unknown.")
        alerts = Alerts.of(self._service).about(partial(hosts.is_of_host, view))
        explained = explained_rows(self._service, view.system, view.host)
        state = hosts.state_text(view, alerts, explained["count"])
        wrong = state if hosts.is_wrong(view, alerts) else ""
        chosen = {name: _text(request, name) for name in ("range", "resource")}
        first, folded = lines.shown_first(view, chosen["resource"])
        by_name = {entry.resource: entry for entry in view.resources}
        return self.page(
            request,
            "host.html",
            host=view,
            resources=[hosts.resource_row(view, by_name[name]) for name in first],
            others=[hosts.resource_row(view, by_name[name]) for name in folded],
            lines=lines.lines_view(self._service, view, alerts.entries, first, chosen["range"]),
            chosen=chosen,
            peers=lines.peers(self._service, view),
            wrong=wrong,
            notes=hosts.attention_notes(view, alerts, wrong=not wrong),
            quieted="" if wrong else state,
            suspected=hosts.suspected_text(view, alerts),
            explained=explained,
            alerts=alert_view.alert_rows(alerts, alerts.in_order()[:ALERTS_SHOWN], present_ms(self._service)),
        )

    def alerts(self, request: Request) -> Response:
        chosen = {name: _text(request, name) for name in FILTERS}
        alerts = Alerts.of(self._service)
        passing = alerts.passing(chosen).in_order()
        return self.page(
            request,
            "alerts.html",
            chosen=chosen,
            choices={
                "status": CHOICES,
                "kind": alert_view.KINDS,
                "severity": SEVERITIES,
                "name": alert_view.names(alerts.entries),
            },
            rows=alert_view.alert_rows(alerts, passing[:ALERTS_LISTED], present_ms(self._service)),
            rows_total=len(passing),
            standing=alerts.standing(),
        )

    def alert(self, request: Request) -> Response:
        fingerprint, alerts = request.path_params["fingerprint"], Alerts.of(self._service)
        alert = alert_view.find(alerts, fingerprint)
        if alert is None:
            return self.missing(request, f"The alert {fingerprint[:80]!r} is unknown or no longer known.")
        view = alert_view.alert_view(self._service, alerts, alert, reader(request), present_ms(self._service))
        return self.page(request, "alert.html", view=view)

    def agent(self, request: Request) -> Response:
        """Show roles, sources and troubles of the agent; show dead letters only to operators."""
        operator = reader(request).operator
        view = agent_view(self._service, self._faults(), present_ms(self._service), operator=operator)
        return self.page(
            request,
            "agent.html",
            view=view,
            standing=standing(view["roles"], view["sources"], view["faults"]),
            operator=operator,
        )

    def runbook(self, request: Request) -> Response:
        return self.page(request, "runbook.html", sections=sections())

    def missing(self, request: Request, detail: str, name: str = "", status: int = 404) -> Response:
        """Show that a page does not exist and where to go; for an unknown application, list known applications."""
        ids = known_ids(self._service.predictions(), like=name) if name else ()
        entries = [(id_, self._service.prediction(id_)) for id_ in ids]
        links = [linked(name_of(entry), application_link(id_)) for id_, entry in entries if entry is not None]
        title = TITLES.get(status, "Page not found")
        return self.page(request, "missing.html", status, title=title, detail=detail, known=links)

    def _following(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint that puts the versions of the data into its page; read before the data, they reveal any later change."""

        def show(request: Request) -> Response:
            request.state.versions = self._changes.versions_for_page()
            return endpoint(request)

        return show

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        health = self._service.health()
        query = [(name, value) for name, value in request.query_params.multi_items() if name != "refresh"]
        is_off = request.query_params.get("refresh") == "off"
        turned = urlencode(query if is_off else [*query, ("refresh", "off")])
        text = self._templates.get_template(template).render(
            refresh_s=0 if is_off else REFRESH_S,
            versions=getattr(request.state, "versions", {}),
            path=request.url.path,
            turned=f"{_path(request)}?{turned}".removesuffix("?"),
            health=health,
            faults=self._faults(),
            ready=bool(health) and all(role.ready for role in health),
            truth=self._truth,
            dashboard=self._links.dashboard(template, values),
            **values,
        )
        return HTMLResponse(text, status)


def _text(request: Request, name: str) -> str:
    return queries.text(request.query_params, name) or ""


def favicon(_request: Request) -> Response:
    """Return the icon that browsers request on their own, even for JSON and metrics."""
    picture = files("sinks.web").joinpath("static", "favicon.svg").read_bytes()
    return Response(picture, media_type="image/svg+xml")


class Static(StaticFiles):
    """Static files that a browser may cache but must revalidate each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def _path(request: Request) -> str:
    """Return the path of a request as a link within this site. A browser would read //other.example/ as another site."""
    return "/" + quote(request.scope["path"].lstrip("/"))
