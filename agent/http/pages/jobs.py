"""Jobs: those that run, and one of them for the person who ran it."""

from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from agent.http import job_view, parameters
from agent.http.access import reader
from agent.http.pages.rendering import Rendering, raw_path

JOBS_SHOWN: Final = 100
SYSTEMS_MAX: Final = 50  # looked through for a job that ended


class JobPages:
    """The list of running jobs, and the page of one job.

    >>> JobPages(Rendering(None)).show.__name__
    'show'
    """

    def __init__(self, rendering: Rendering) -> None:
        self._rendering, self._service = rendering, rendering.service

    def index(self, request: Request) -> Response:
        """Show running jobs, those that may hit their limit first; a search finds jobs that ended, too."""
        search = (parameters.text(request.query_params, "search") or "").strip()
        seen = job_view.visible(self._service.jobs(), reader(request))
        wanted = job_view.worst_first(job_view.jobs_like(seen, search) if search else seen)
        return self._rendering.page(
            request,
            "jobs.html",
            search=search,
            jobs=wanted[:JOBS_SHOWN],
            jobs_total=len(wanted),
            ended=self._ended(request, search) if search else [],
            everybody=reader(request).operator,
        )

    def _ended(self, request: Request, search: str) -> list[tuple[str, str]]:
        """Return name and link of the jobs that ended and have this id, `SYSTEM/ID` or the id alone."""
        system, _, job_id = search.rpartition("/")
        systems = [system] if system else self._systems()
        found = []
        for each in systems:
            runs = self._service.runs_of_job(each, job_id)
            if runs and job_view.may_see(reader(request), {run.user for run in runs}):
                found.append((f"{each}/{job_id}", job_view.job_link(each, job_id)))
        return found

    def _systems(self) -> list[str]:
        told = {entry.system for entry in self._service.predictions()} | {job.system for job in self._service.jobs()}
        return sorted(told)[:SYSTEMS_MAX]

    def show(self, request: Request) -> Response:
        """Show one job to those who may see it."""
        system, _, job_id = (unquote(part) for part in raw_path(request, "/jobs/").partition("/"))
        if not job_view.may_see(reader(request), job_view.owners(self._service, system, job_id)):
            return self._rendering.page(request, "refused.html", 403, detail="This is the job of another user.")
        view = job_view.job_view(self._service, system, job_id)
        if view is None:
            or_else = (
                "no longer" if reader(request).operator else "it is not yours"
            )  # which of them is nobody's business
            return self._rendering.missing(
                request, f"Nothing is known of the job {job_id[:80]!r} on {system[:80]!r}, or {or_else}."
            )
        return self._rendering.page(request, "job.html", view=view)
