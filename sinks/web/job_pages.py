"""Pages of jobs: their lists, one job, two runs side by side, and the jobs of a user or a project."""

from typing import Protocol
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from processors.contracts.events import STATES
from processors.contracts.service import Service
from sinks.web.access import reader
from sinks.web.filters import JobFilter
from sinks.web.queries import raw_path
from sinks.web.views import jobs
from sinks.web.views.job_lists import job_list


class Render(Protocol):
    """Makes a page of a template, and the page that reports that there is none."""

    def page(self, request: Request, template: str, status: int = 200, **values: object) -> Response:
        """Return the page that a template makes of values."""

    def missing(self, request: Request, detail: str, name: str = "", status: int = 404) -> Response:
        """Return the page that reports what is not there."""


class JobPages:
    """The pages of jobs over a service, which shows a reader their own jobs alone."""

    def __init__(self, service: Service, render: Render) -> None:
        self._service, self._render = service, render

    def jobs(self, request: Request) -> Response:
        """Show running or ended jobs, filtered and sorted; by default running ones, those first that may hit their limit."""
        return self._render.page(
            request,
            "jobs.html",
            list=job_list(self._service, reader(request), JobFilter.of(request.query_params), request.query_params),
            states=STATES,
            everybody=reader(request).operator,
        )

    def job(self, request: Request) -> Response:
        """Show one job to those who may see it."""
        system, _, job_id = (unquote(part) for part in raw_path(request, "/jobs/").partition("/"))
        if not jobs.may_see(reader(request), jobs.owners(self._service, system, job_id)):
            return self._render.page(request, "refused.html", 403, detail="This is the job of another user.")
        view = jobs.job_view(self._service, system, job_id)
        if view is None:  # why is nobody's business
            why = "no longer" if reader(request).operator else "it is not yours"
            return self._render.missing(
                request, f"Nothing is known of the job {job_id[:80]!r} on {system[:80]!r}, or {why}."
            )
        return self._render.page(request, "job.html", view=view)
