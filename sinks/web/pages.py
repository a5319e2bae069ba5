"""The HTML pages: routes, templates, and the frame that all pages share."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote, urlencode

import msgspec
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from processors import __version__
from processors.advice import point_at
from processors.contracts.events import STATES
from processors.contracts.load import UnderLoad
from processors.contracts.names import host_link, resource_title
from processors.contracts.outputs import Alert, Prediction
from processors.contracts.running import RunningJob, hits
from processors.contracts.service import Service
from sinks.web import formatting, queries
from sinks.web.access import reader
from sinks.web.changes import Changes
from sinks.web.filters import JobFilter
from sinks.web.formatting import counter_effects, sections
from sinks.web.queries import Links, Truth, application_id, find, known_ids, link, name_of, present_ms, raw_path, text
from sinks.web.views import alerts as alert_view
from sinks.web.views import hosts, jobs, lines, overview
from sinks.web.views.agent import Faults, agent_view, standing
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
from sinks.web.views.comparison import comparison, job_named, newest_run
from sinks.web.views.hosts import explained_rows
from sinks.web.views.job_lists import job_list, owner_view
from sinks.web.views.jobs import job_link, link_of_key
from sinks.web.views.overview import SourceRow, source_rows, trust_of


class Render(Protocol):
    """Renders pages from templates, and the page for what does not exist."""

    def page(self, request: Request, template: str, status: int = 200, **values: object) -> Response: ...

    def missing(self, request: Request, detail: str, name: str = "", status: int = 404) -> Response: ...


class JobPages:
    """The pages of jobs; readers who are no operators see only their own jobs."""

    def __init__(self, service: Service, render: Render) -> None:
        self._service, self._render = service, render

    def jobs(self, request: Request) -> Response:
        """Show running or ended jobs, filtered and sorted; by default running jobs, the most likely to hit their limit first."""
        return self._render.page(
            request,
            "jobs.html",
            list=job_list(self._service, reader(request), JobFilter.of(request.query_params), request.query_params),
            states=STATES,
            everybody=reader(request).operator,
        )

    def job(self, request: Request) -> Response:
        """Show one job to readers who may see it."""
        system, _, job_id = (unquote(part) for part in raw_path(request, "/jobs/").partition("/"))
        if not jobs.may_see(reader(request), jobs.owners(self._service, system, job_id)):
            return self._render.page(request, "refused.html", 403, detail="This job belongs to another user.")
        view = jobs.job_view(self._service, system, job_id)
        if view is None:  # other users must not learn whether the job exists
            why = "no longer known" if reader(request).operator else "not yours"
            return self._render.missing(request, f"The job {job_id[:80]!r} on {system[:80]!r} is unknown or {why}.")
        return self._render.page(request, "job.html", view=view, job_hosts=lines.of_job(self._service, system, job_id))

    def comparison(self, request: Request) -> Response:
        """Show the newest runs of two jobs side by side to those who may see both."""
        pair = [job_named(text(request.query_params, name), name) for name in ("a", "b")]
        asking = reader(request)
        if not all(jobs.may_see(asking, jobs.owners(self._service, *job)) for job in pair):
            return self._render.page(request, "refused.html", 403, detail="One of these jobs belongs to another user.")
        runs = [newest_run(self._service, job) for job in pair]
        ended = [run for run in runs if run is not None]
        if len(ended) < len(runs):
            system, job_id = pair[runs.index(None)]
            why = "or it is no longer known" if asking.operator else "or it is not yours"
            detail = f"The job {job_id[:80]!r} on {system[:80]!r} has no ended run, {why}."
            return self._render.missing(request, detail)
        return self._render.page(request, "comparison.html", view=comparison(self._service, *ended))

    def user(self, request: Request) -> Response:
        """Show the jobs of a user to that user, and to operators."""
        name, asking = unquote(raw_path(request, "/users/")), reader(request)
        if not asking.sees(name):
            return self._render.page(request, "refused.html", 403, detail="These jobs belong to another user.")
        view = owner_view(self._service, asking, "user", name)
        return self._render.page(request, "owner.html", view=view, everybody=asking.operator)

    def project(self, request: Request) -> Response:
        """Show the jobs of a project: all to operators, to others their own."""
        name, asking = unquote(raw_path(request, "/projects/")), reader(request)
        view = owner_view(self._service, asking, "account", name)
        return self._render.page(request, "owner.html", view=view, everybody=asking.operator)


REFRESH_S: Final = 15  # for browsers without scripts
APPLICATIONS_SHOWN: Final = 60
CHOICES_SHOWN: Final = 50  # application names that the form suggests; any other can be typed
ALERTS_FIRST: Final = 5  # further alerts are folded, so that applications stay in sight
ALERTS_SHOWN: Final = 30
ALERTS_LISTED: Final = 200
FILTERS: Final = ("status", "kind", "severity", "name")
JOBS_FIRST: Final = 8
TITLES: Final = {400: "Invalid request", 503: "Not available now"}  # of pages that cannot be shown
JOBS_SHOWN: Final = 50
HOSTS_SHOWN: Final = 8
Endpoint = Callable[[Request], Response]


def environment() -> Environment:
    """Return the templates with the filters and functions of the pages."""
    templates = formatting.environment("sinks.web")
    templates.filters.update(around=formatting.around, change=overview.change, resource_title=resource_title, hits=hits)
    templates.globals.update(
        link=link,
        host_link=host_link,
        job_link=job_link,
        link_of_key=link_of_key,
        sketch=overview.sketch,
        version=__version__,
    )
    return templates


class Pages:
    """The pages over a service; `faults` returns the troubles since the start, `truth` the true run time in a simulation."""

    def __init__(
        self, service: Service, truth: Truth | None = None, faults: Faults = tuple, links: Links | None = None
    ) -> None:
        self._service, self._truth, self._faults, self._links = service, truth, faults, links or Links()
        self._changes = Changes(service)
        self._templates = environment()
        self._templates.globals.update(portal=self._links.portal)

    def routes(self) -> list[Route | Mount]:
        """Return the routes of all pages, for GET only."""
        job_pages = JobPages(self._service, self)
        pages: dict[str, Endpoint] = {
            "/": self.overview,
            "/applications/{id:path}": self.application,
            "/hosts": self.hosts,
            "/hosts/{name:path}": self.host,
            "/jobs": job_pages.jobs,
            "/jobs/compare": job_pages.comparison,
            "/jobs/{name:path}": job_pages.job,
            "/users/{name:path}": job_pages.user,
            "/projects/{name:path}": job_pages.project,
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
        """Show all applications, the ones that need attention first, and alerts, sources, hosts and running jobs."""
        search = queries.text(request.query_params, "search") or ""
        alerts, predictions, now_ms = Alerts.of(self._service), self._service.predictions(), present_ms(self._service)
        matching = overview.named_like(predictions, search)
        is_open = alerts.open
        running = jobs.visible(self._service.running(), reader(request))
        first_hosts = self._service.hosts(HOSTS_SHOWN)
        pairs = [(view, alerts.about(partial(hosts.is_of_host, view))) for view in first_hosts]
        anomalous = [hosts.host_card(*pair) for pair in pairs if hosts.is_wrong(*pair)]
        sources = source_rows(self._service.sources(), now_ms or 0)
        return self.page(
            request,
            "overview.html",
            search=search,
            rows=overview.rows(matching, is_open, self._truth, APPLICATIONS_SHOWN),
            rows_total=len(matching),
            tiles=tiles(predictions, is_open, running, sources, len(anomalous) if first_hosts else None),
            open_alerts=alert_view.alert_rows(alerts, is_open[:ALERTS_SHOWN], now_ms),
            open_total=len(is_open),
            alerts_first=ALERTS_FIRST,
            aside=alert_view.aside(alerts, ALERTS_SHOWN, now_ms),
            resolved_alerts=alert_view.alert_rows(alerts, alerts.among("resolved")[:ALERTS_SHOWN], now_ms),
            jobs=running[:JOBS_SHOWN],
            jobs_first=JOBS_FIRST,
            jobs_total=len(running),
            hosts=anomalous,
            hosts_known=bool(first_hosts),
            sources=sources,
            **self._requested(request, predictions),
        )

    def application(self, request: Request) -> Response:
        """Show one application: curve, sizes, prediction quality, alerts and running jobs."""
        path = request.path_params["id"]
        found = find(self._service, path, raw_path(request, "/applications/"))
        if found is None:
            return self.missing(request, f"There is no model of {path[:80]!r}.", path)
        alerts = Alerts.of(self._service).about(partial(overview.is_about, found))
        is_open, now_ms = alerts.open, present_ms(self._service)
        members = overview.ranked(found.model)
        load = found.under_load
        runs = self._service.runs(application_id(found))
        answer = answer_view(self._service, found, request.query_params, runs)
        shown, anomalies = run_rows(runs, reader(request)), overview.anomalies(is_open)
        return self.page(
            request,
            "application.html",
            row=overview.rows([found], is_open, self._truth)[0],
            points=overview.point_rows(found, self._truth),
            requested=answer,
            requested_rows=both(answer, found.unit),
            history=history(found.application, runs, alerts.entries),
            load=load_view(found.application, load, _run_time_s(found, load)),
            power=power_view(found),
            explained=counter_effects(found.profiles),
            members=members,
            horizons=overview.horizons(members),
            study=overview.measured_by_study(found.model),
            open_alerts=alert_view.alert_rows(alerts, is_open[:ALERTS_SHOWN], now_ms),
            open_total=len(is_open),
            aside=alert_view.aside(alerts, ALERTS_SHOWN, now_ms),
            resolved_alerts=alert_view.alert_rows(alerts, alerts.among("resolved")[:ALERTS_SHOWN], now_ms),
            jobs=overview.jobs_of(found, self._service.running())[:JOBS_SHOWN],
            runs=shown,
            anomalies=anomalies,
            uprights=uprights(found.useful_n),
            scaling=scaling_chart(found, anomalies, shown),
        )

    def hosts(self, request: Request) -> Response:
        """Show hosts with their metric windows, anomalous hosts first."""
        search = queries.text(request.query_params, "search") or ""
        part = hosts.host_part(self._service, search, queries.page(request.query_params))
        reference = {number: f"/hosts?{urlencode(_query(search, number))}" for number in (part.page - 1, part.page + 1)}
        return self.page(request, "hosts.html", search=search, part=part, reference=reference)

    def host(self, request: Request) -> Response:
        """Show one host: its anomaly, alerts, and each resource with histogram, forecast and score."""
        found = hosts.find_host(self._service, raw_path(request, "/hosts/"))
        if found is None:
            return self.missing(request, f"The host {request.path_params['name'][:80]!r} is unknown.")
        alerts = Alerts.of(self._service).about(partial(hosts.is_of_host, found))
        explained = explained_rows(self._service, found.system, found.host)
        wrong = hosts.is_wrong(found, alerts) and hosts.state_text(found, alerts, explained.count)
        chosen = {name: queries.text(request.query_params, name) or "" for name in ("range", "resource")}
        first, others = lines.shown_first(found, chosen["resource"])
        by_name = {entry.resource: entry for entry in found.resources}
        return self.page(
            request,
            "host.html",
            host=found,
            resources=[hosts.resource_row(found, by_name[name]) for name in first],
            others=[hosts.resource_row(found, by_name[name]) for name in others],
            lines=lines.lines_view(self._service, found, alerts.entries, first, chosen["range"]),
            reference=lines.References(chosen),
            peers=lines.peers(self._service, found),
            job=jobs.link_of_key(found.job) if found.job else "",
            wrong=wrong,
            notes=hosts.attention_notes(found, alerts, wrong=not wrong),
            quieted="" if wrong else hosts.state_text(found, alerts, explained.count),
            suspected=hosts.suspected_text(found, alerts),
            explained=explained,
            alerts=alert_view.alert_rows(alerts, alerts.in_order()[:ALERTS_SHOWN], present_ms(self._service)),
        )

    def alerts(self, request: Request) -> Response:
        """Show alerts filtered by state, kind, severity and name, open ones first."""
        chosen = {name: queries.text(request.query_params, name) or "" for name in FILTERS}
        alerts, now_ms = Alerts.of(self._service), present_ms(self._service)
        found = alerts.passing(chosen).in_order()
        return self.page(
            request,
            "alerts.html",
            chosen=chosen,
            choices={
                "status": CHOICES,
                "kind": alert_view.KINDS,
                "severity": SEVERITIES,
                "name": [name for name, _ in alert_view.names(alerts.entries)],
            },
            rows=alert_view.alert_rows(alerts, found[:ALERTS_LISTED], now_ms),
            rows_total=len(found),
            standing=alerts.standing(),
        )

    def alert(self, request: Request) -> Response:
        """Show one alert: evidence, affected jobs and users, other alerts at that time, and the runbook."""
        fingerprint, alerts = request.path_params["fingerprint"], Alerts.of(self._service)
        found = alert_view.find(alerts, fingerprint)
        if found is None:
            return self.missing(request, f"The alert {fingerprint[:80]!r} is unknown or no longer known.")
        view = alert_view.alert_view(self._service, alerts, found, reader(request), present_ms(self._service))
        return self.page(request, "alert.html", view=view)

    def agent(self, request: Request) -> Response:
        """Show roles, sources and troubles of the agent; dead letters only to operators."""
        operator = reader(request).operator
        view = agent_view(
            self._service.health(),
            self._service.sources(),
            self._service.dead_letters() if operator else (),
            self._faults(),
            present_ms(self._service),
            collectors=self._service.collectors(),
        )
        return self.page(request, "agent.html", view=view, standing=standing(view), operator=operator)

    def runbook(self, request: Request) -> Response:
        """Show the runbook that is packaged with the agent."""
        return self.page(request, "runbook.html", sections=sections())

    def missing(self, request: Request, detail: str, name: str = "", status: int = 404) -> Response:
        """Show that a page does not exist and where to go; for an application also which ones are known."""
        ids = known_ids(self._service.predictions(), like=name) if name else ()
        entries = [(id_, self._service.prediction(id_)) for id_ in ids]
        links = [(f"/applications/{link(id_)}", name_of(entry)) for id_, entry in entries if entry is not None]
        title = TITLES.get(status, "Page not found")
        return self.page(request, "missing.html", status, title=title, detail=detail, known=links)

    def _following(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint whose page knows its versions; they are read first, so that the page misses no later change."""

        def show(request: Request) -> Response:
            request.state.versions = self._changes.versions_for_page()
            return endpoint(request)

        return show

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page in the frame that all pages share."""
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

    def _requested(self, request: Request, predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return the values of the form: suggested applications, and the answer if one was chosen."""
        query = request.query_params
        chosen = queries.text(query, "application") or ""
        entry = queries.named(predictions, chosen) if chosen else None
        id_ = application_id(entry) if entry else ""
        answer = answer_view(self._service, entry, query, self._service.runs(id_)) if entry else None
        return {
            "choices": queries.names(predictions, CHOICES_SHOWN),
            "chosen": queries.name_of(entry) if entry else chosen,
            "requested": answer,
            "requested_rows": both(answer, entry.unit) if answer and entry else [],
            "unit": entry.unit if entry else "",
            "not_found": queries.not_named(predictions, chosen) if chosen and entry is None else "",
        }


def _run_time_s(entry: Prediction, load: UnderLoad | None) -> float | None:
    """Return the run time of the curve at the size of a prediction under load."""
    point = point_at(entry, load.n) if load is not None else None
    return None if point is None else point.run_time_s


def _query(search: str, page: int) -> dict[str, str]:
    return ({"search": search} if search else {}) | ({"page": str(page)} if page > 1 else {})


class Tile(msgspec.Struct, frozen=True):
    """A number at the top of the overview: label, link and style."""

    count: int
    label: str
    link: str
    kind: str = "plain"


def tiles(
    predictions: Sequence[Prediction],
    is_open: Sequence[Alert],
    jobs: Sequence[RunningJob],
    sources: Sequence[SourceRow],
    hosts_anomalous: int | None,
) -> list[Tile]:
    """Return the numbers at the top of the overview, without hosts if no host is known (`hosts_anomalous` is None)."""
    worst = min((SEVERITIES.index(alert.severity) for alert in is_open), default=len(SEVERITIES))
    late = sum(1 for job in jobs if hits(job.probability_exceeds_limit, session=job.session))
    silent = sum(1 for source in sources if source.is_silent)
    # a verdict is about sizes beyond, where few are good
    good = sum(1 for entry in predictions if trust_of(entry).inside_good)
    rows = [
        _tile(len(is_open), "open alert", "#alerts", (*SEVERITIES, "good")[worst]),
        _tile(len(predictions), "application", "#applications"),
        Tile(good, "predicted well", "#applications"),
    ]
    if hosts_anomalous is not None:
        rows.append(_tile(hosts_anomalous, "abnormal host", "#hosts", "warning" if hosts_anomalous else "plain"))
    rows.append(_tile(len(jobs), "running job", "#jobs"))
    if late:
        rows.append(Tile(late, "likely to hit the limit", "#jobs", "warning"))
    waiting = sum(1 for source in sources if source.waits)
    if waiting:
        rows.append(_tile(waiting, "empty source", "#sources", "warning"))
    if silent:
        rows.append(_tile(silent, "silent source", "#sources", "warning"))
    return rows


def _tile(count: int, thing: str, link: str, kind: str = "plain") -> Tile:
    return Tile(count, thing if count == 1 else f"{thing}s", link, kind)


def favicon(_request: Request) -> Response:
    """Return the icon that browsers request on their own, for JSON and metrics too."""
    picture = files("sinks.web").joinpath("static", "favicon.svg").read_bytes()
    return Response(picture, media_type="image/svg+xml")


class Static(StaticFiles):
    """Static files that a browser may cache, but must revalidate each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def _path(request: Request) -> str:
    """Return the path of a request as a link of this site; a browser would read //other.example/ as another site."""
    return "/" + quote(request.scope["path"].lstrip("/"))
