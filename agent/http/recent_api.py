"""The JSON interface to what happened of late: settled runs, one job, dead letters, sources."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent.contracts.outputs import JobPrediction
from agent.contracts.recent import RecentRun
from agent.contracts.service import Service
from agent.http import parameters
from agent.http.access import reader
from agent.http.api import Problem, Rows, json

JOBS: Final = "/api/v1/jobs/"
Row = TypeVar("Row")


class JobOfLate(msgspec.Struct, frozen=True):
    """A job: what is predicted of it while it runs, and its settled runs, the newest first."""

    system: str
    job_id: str
    running: JobPrediction | None
    runs: Sequence[RecentRun]


class RecentApi:
    """The resources of what happened of late; rows that the reader may not see are left out, a job is refused.

    >>> [route.path for route in RecentApi(None).routes()][0]
    '/api/v1/runs'
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return the routes, all of them for GET only."""
        resources: dict[str, Callable[[Request], Response]] = {
            "/api/v1/runs": self.runs,
            JOBS + "{name:path}": self.job,
            "/api/v1/letters": self.letters,
            "/api/v1/sources": self.sources,
        }
        return [Route(path, endpoint, methods=["GET"]) for path, endpoint in resources.items()]

    def runs(self, request: Request) -> Response:
        """List the newest settled runs of an application, by its id, each with what was predicted of it."""
        application_id = parameters.text(request.query_params, "application")
        if not application_id:
            raise parameters.BadParameterError("application is missing.")
        sees = reader(request).sees
        return _rows(request, [run for run in self._service.runs(application_id) if sees(run.user)])

    def job(self, request: Request) -> Response:
        """Return one job, by system and id: as it is predicted while it runs, and its runs that settled."""
        system, job_id = _named(request)
        running = next((job for job in self._service.jobs() if (job.system, job.job_id) == (system, job_id)), None)
        runs = self._service.runs_of_job(system, job_id)
        if running is None and not runs:
            return json(Problem(f"Nothing is known of the job {job_id[:80]!r} on {system[:80]!r}, or no longer."), 404)
        users = {run.user for run in runs} | ({running.user} if running is not None else set())
        if not all(map(reader(request).sees, users)):
            return json(Problem("This is the job of another user."), 403)
        return json(JobOfLate(system, job_id, running, runs))

    def letters(self, request: Request) -> Response:
        """List the newest dead letters of the whole agent, without the bytes of their messages; for operators."""
        if not reader(request).operator:
            return json(Problem("Dead letters quote what producers sent: they are for operators."), 403)
        return _rows(request, self._service.letters())

    def sources(self, request: Request) -> Response:
        """List the raw topics whose events were folded since the start, the one that spoke last first."""
        return _rows(request, self._service.sources())


def _rows(request: Request, found: Sequence[Row]) -> Response:
    offset, limit = parameters.rows(request.query_params)
    return json(Rows(len(found), offset, found[offset : offset + limit]))


def _named(request: Request) -> tuple[str, str]:
    raw: bytes = request.scope.get("raw_path") or b""
    system, _, job_id = raw.decode("latin-1").partition("?")[0].removeprefix(JOBS).partition("/")
    return unquote(system), unquote(job_id)
