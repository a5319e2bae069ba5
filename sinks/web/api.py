"""The JSON interface: one resource for each part of the service."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from processors.contracts.events import Evidence
from processors.contracts.hosts import HostLines, HostView
from processors.contracts.nodes import spread
from processors.contracts.outputs import Answer, Prediction
from processors.contracts.service import Service
from processors.contracts.settings import EVIDENCE_FIELDS
from sinks.table import rows, table_lines
from sinks.web import queries
from sinks.web.access import reader
from sinks.web.queries import JobFilter, find, id_of, known_ids, link, matching, raw_path
from sinks.web.views.alert_states import Alerts
from sinks.web.views.centre import state_of_centre
from sinks.web.views.hosts import find_host, matching_hosts

STORIES_MAX: Final = 100
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
Row = TypeVar("Row")
_KEY: Final = ("application", "system", "input", "unit")
_LISTED: Final = (
    *_KEY, "observations", "sizes", "reliability", "useful_n", "reliable_n", "preferred_n", "quality", "power", "as_of",
    "valid_until",
)  # fmt: skip


class ApiProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reason why a request has no answer, in one sentence, and known names that the reader may have meant."""

    error: str
    known: Sequence[str] = ()


def json(content: Any, status: int = 200) -> Response:
    return Response(_ENCODER.encode(content), status, media_type="application/json")


class Api:
    """The JSON resources of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        resources = {
            "/healthz": self.alive,
            "/readyz": self.ready,
            "/api/v1/applications": self.applications,
            "/api/v1/applications/{id:path}": self.application,
            "/api/v1/predictions": self.predictions,
            "/api/v1/curves": self.curves,
            "/api/v1/stories": self.stories,
            "/api/v1/jobs": self.jobs,
            "/api/v1/jobs/{name:path}": self.job,
            "/api/v1/runs": self.runs,
            "/api/v1/deadletters": self.dead_letters,
            "/api/v1/sources": self.sources,
            "/api/v1/centre": self.centre,
            "/api/v1/alerts": self.alerts,
            "/api/v1/hosts": self.hosts,
            "/api/v1/hosts/{name:path}/lines": self.host_lines,
            "/api/v1/hosts/{name:path}": self.host,
        }
        return [Route(path, endpoint, methods=["GET"]) for path, endpoint in resources.items()]

    async def alive(self, _request: Request) -> Response:
        """Report that the process responds. This needs no thread, because the pages may keep all threads busy."""
        return json({"status": "alive"})

    async def ready(self, _request: Request) -> Response:
        """Report whether every role is ready, without using a thread; the status is 503 with reasons if a role is not ready."""
        roles = self._service.health()
        reasons = [f"{role.role}: {reason}" for role in roles for reason in role.reasons if not role.ready]
        ready = bool(roles) and all(role.ready for role in roles)
        if not roles:
            reasons = ["No role has started yet."]
        return json({"ready": ready, "reasons": reasons, "roles": roles}, 200 if ready else 503)

    def applications(self, request: Request) -> Response:
        """List the applications, filtered by application, system, input and unit."""
        return self._rows(request, matching(self._service.predictions(), _key(request)), _summary)

    def application(self, request: Request) -> Response:
        """Return the whole prediction of one application; `members=false` leaves out the members of its model."""
        path, members = request.path_params["id"], queries.members(request.query_params)
        entry = find(self._service, path, raw_path(request, "/api/v1/applications/"))
        if entry is None:
            return self._unknown(path[: queries.TEXT_MAX])
        return json(entry if members else msgspec.structs.replace(entry, model=entry.model.slim))

    def jobs(self, request: Request) -> Response:
        """List running jobs with their predicted ends, with the filters of the page of jobs."""
        running, alerts = reader(request).own(self._service.running()), self._service.alerts()
        jobs = JobFilter.of(request.query_params).jobs(running, alerts)
        return self._rows(request, jobs, lambda job: self._service.job(job.system, job.job_id) or job)

    def alerts(self, request: Request) -> Response:
        """List alerts, resolved ones last, filtered by status (`open`: sent and not silenced), kind and severity."""
        filters = {name: queries.text(request.query_params, name) or "" for name in ("status", "kind", "severity")}
        alerts = Alerts.of(self._service)
        return self._rows(
            request,
            alerts.passing(filters).entries,
            lambda alert: msgspec.structs.asdict(alert) | {"silence": alerts.silence(alert)},
        )

    def hosts(self, request: Request) -> Response:
        """List hosts with their measurements, abnormal hosts first, filtered by system and host.

        `total` counts the matching hosts among the hosts that were read; `more` is true if not all hosts were read.
        """
        system, host = (queries.text(request.query_params, name) for name in ("system", "host"))
        hosts, more = matching_hosts(self._service, system, host)
        return self._rows(request, hosts, more=more)

    def host(self, request: Request) -> Response:
        """Return the measurements of one host."""
        return _of_host(request, find_host(self._service, raw_path(request, "/api/v1/hosts/")))

    def host_lines(self, request: Request) -> Response:
        """Return the measurements of one host over time: five-minute bands of the last day, and minutes of the last hour."""
        system, slash, host = map(unquote, raw_path(request, "/api/v1/hosts/").removesuffix("/lines").partition("/"))
        if not slash:  # a host may have the name "lines"
            return self.host(request)
        return _of_host(request, self._service.reading(system).host_lines(host))

    def predictions(self, request: Request) -> Response:
        """Predict run times of one application at the requested sizes, by default at the sizes of its curve.

        With `hosts` or `partition` the prediction includes their load; the default size is then the number of `hosts`.
        `attribute.NAME` is an attribute of the job; `feature.NAME` is a communication feature of a placement, or a counter rate
        per cycle. `members=false` omits the members of the model.
        """
        query = request.query_params
        members = queries.members(query)
        criteria = _key(request)
        name = _needed(request, "application")
        sizes = queries.sizes(query)
        place = Evidence(
            hosts=queries.hosts(query),
            partition=queries.text(query, "partition") or None,
            attributes=queries.attributes(query),
        )
        features = queries.features(query)
        candidates = matching(self._service.predictions(), criteria) or self._never_run(criteria)
        if len(candidates) > 1:
            detail = f"{name[:80]!r} has {len(candidates)} models: add system, input or unit."
            return json(ApiProblem(detail, known_ids(candidates)), 400)
        if not candidates:
            return self._unknown(name, criteria)
        requested = queries.question(candidates[0], sizes or _sizes(candidates[0], place), place, features)
        answer = self._service.answer(requested)
        if answer.model is not None and not members:
            answer = msgspec.structs.replace(answer, model=answer.model.slim)
        return json(answer) if answer.known else self._unknown(name, criteria)

    def curves(self, request: Request) -> Response:
        """Return the curve for a future job as JSON lines, each a row of the table that `subscribe` writes.

        The query describes the job as a scheduler knows it, by `job_name`, `user`, `partition`, `script` and so on, and by
        `system`. Many schedulers never report an `executable`, so it is used only if a rule uses it, or if the rest identifies
        no known application.
        """
        system = _needed(request, "system")
        described = queries.description(request.query_params)
        if not described:
            raise queries.BadParameterError(
                f"Describe the job by at least one parameter: {', '.join(EVIDENCE_FIELDS[:-1])} or {EVIDENCE_FIELDS[-1]}."
            )
        answers = self._identified(system, msgspec.convert(described, Evidence))
        for answer in answers:
            entry = self._service.prediction(id_of(answer))
            if entry is not None:
                return Response(table_lines(rows(id_of(entry), entry)), media_type="application/x-ndjson")
        return json(ApiProblem(answers[0].detail or f"{id_of(answers[0])} has no prediction."), 404)

    def stories(self, request: Request) -> Response:
        """Return the histories of the models of an application, filtered by application, system, input and unit."""
        criteria, name = _key(request), _needed(request, "application")
        entries = matching(self._service.predictions(), criteria)[:STORIES_MAX]
        stories = [self._service.reading(entry.system).story(id_of(entry)) for entry in entries]
        retained = [story for story in stories if story is not None]
        return json(retained) if retained else self._unknown(name, criteria)

    def _identified(self, system: str, evidence: Evidence) -> Sequence[Answer]:
        """Return the possible identifications of a job, most likely first."""
        full = self._service.answer(queries.identification(system, evidence))
        if evidence.executable is None or full.identified_by.startswith("rule"):
            return [full]
        reported = msgspec.structs.replace(evidence, executable=None)
        return [self._service.answer(queries.identification(system, reported)), full]

    def runs(self, request: Request) -> Response:
        """List the newest settled runs with their predictions, with the filters of the page of jobs.

        `application` is a name or a whole id. It must be the application of a prediction, a run or a running job.
        """
        chosen, who = JobFilter.of(request.query_params), reader(request)
        ended = who.own(self._service.runs(chosen.application) or self._service.recent_runs())
        running = who.own(self._service.running()) if chosen.application else ()
        if not chosen.is_known(self._service.predictions(), running, ended):
            return self._unknown(chosen.application)
        return self._rows(request, chosen.runs(ended))

    def job(self, request: Request) -> Response:
        """Return one job by system and id: its prediction while it runs, and its settled runs."""
        system, job_id = (unquote(part) for part in raw_path(request, "/api/v1/jobs/").partition("/")[::2])
        running = self._service.job(system, job_id)
        runs = self._service.runs_of_job(system, job_id)
        if running is None and not runs:
            return json(ApiProblem(f"The job {job_id[:80]!r} on {system[:80]!r} is unknown or no longer known."), 404)
        users = {run.user for run in runs} | ({running.user} if running is not None else set())
        if not all(map(reader(request).sees, users)):
            return json(ApiProblem("This job belongs to another user."), 403)
        return json({"system": system, "job_id": job_id, "running": running, "runs": runs})

    def dead_letters(self, request: Request) -> Response:
        """List the newest dead letters of the whole agent, without the bytes of their messages; for operators only."""
        if not reader(request).operator:
            return json(ApiProblem("Dead letters are for operators only, because they quote messages."), 403)
        return self._rows(request, self._service.dead_letters())

    def sources(self, request: Request) -> Response:
        """List the source topics by the time of their newest event, latest first; topics without a message come last."""
        return self._rows(request, self._service.sources())

    def centre(self, request: Request) -> Response:
        """Return the state of the centre in sentences: what needs operators, how fresh the data are, and the numbers behind them."""
        return json(state_of_centre(self._service, reader(request).own(self._service.running())))

    def _never_run(self, criteria: dict[str, str | None]) -> list[Prediction]:
        """Return the curves of other inputs, one for each system and unit, renamed to the requested input, which was never run."""
        if criteria["input"] is None:
            return []
        same_application = matching(self._service.predictions(), criteria | {"input": None})
        by_place = {(entry.system, entry.unit): entry for entry in same_application}
        return [msgspec.structs.replace(entry, input=criteria["input"]) for entry in by_place.values()]

    def _unknown(self, name: str, criteria: Mapping[str, str | None] | None = None) -> Response:
        fields = [(field, value) for field, value in (criteria or {}).items() if field != "application"]
        listed = ", ".join(f"{field} {value[:80]!r}" for field, value in fields if value is not None)
        detail = f"There is no model of {name[:80]!r}{listed and f' with {listed}'}."
        return json(ApiProblem(detail, known_ids(self._service.predictions(), like=name)), 404)

    def _rows(
        self, request: Request, entries: Sequence[Row], shown: Callable[[Row], Any] = lambda row: row, **more: bool
    ) -> Response:
        """Return one page of a list as a response; `total` counts all entries."""
        offset, limit = queries.rows(request.query_params)
        rows = [shown(row) for row in entries[offset : offset + limit]]
        return json({"total": len(entries), "offset": offset, "rows": rows, **more})


def _key(request: Request) -> dict[str, str | None]:
    return {name: queries.text(request.query_params, name) for name in _KEY}


def _needed(request: Request, name: str) -> str:
    """Return a required parameter. Raise BadParameterError if it is missing."""
    value = queries.text(request.query_params, name)
    if not value:
        raise queries.BadParameterError(f"{name} is missing.")
    return value


def _of_host(request: Request, shown: HostView | HostLines | None) -> Response:
    if shown is None:
        return json(ApiProblem(f"The host {request.path_params['name'][:80]!r} is unknown."), 404)
    return json(shown)


def _summary(entry: Prediction) -> dict[str, Any]:
    """Return an application for a list, without its curve and model."""
    id_ = id_of(entry)
    listed = {name: getattr(entry, name) for name in _LISTED}
    return {"id": id_, "url": f"/api/v1/applications/{link(id_)}", **listed}


def _sizes(entry: Prediction, place: Evidence) -> tuple[float, ...]:
    """Return the default sizes of a request: the number of hosts in `place` if sizes are nodes, else the sizes of the curve."""
    hosts = spread(place.hosts, limit=1)[0] if entry.unit == "nodes" else 0
    return (float(hosts),) if hosts else tuple(point.n for point in entry.curve)
