"""Pages of jobs: their lists, one job, two runs side by side, and the jobs of a user or a project."""

from typing import Protocol
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from processors.contracts.events import STATES
from processors.contracts.service import Service
from sinks.web.access import reader
from sinks.web.filters import JobFilter
from sinks.web.queries import raw_path, text
from sinks.web.views import jobs
from sinks.web.views.comparison import comparison, job_named, newest_run
from sinks.web.views.job_lists import job_list
from sinks.web.views.owners import owner_view


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

    def comparison(self, request: Request) -> Response:
        """Show the newest runs of two jobs side by side to those who may see both."""
        named = [job_named(text(request.query_params, name), name) for name in ("a", "b")]
        may_see = reader(request)
        if not all(jobs.may_see(may_see, jobs.owners(self._service, *job)) for job in named):
            return self._render.page(request, "refused.html", 403, detail="One of these is the job of another user.")
        runs = [newest_run(self._service, job) for job in named]
        found = [run for run in runs if run is not None]
        if len(found) < len(runs):
            system, job_id = named[runs.index(None)]
            why = "or no longer" if may_see.operator else "or it is not yours"
            detail = f"No run that ended is known of the job {job_id[:80]!r} on {system[:80]!r}, {why}."
            return self._render.missing(request, detail)
        return self._render.page(request, "comparison.html", view=comparison(self._service, *found))

    def user(self, request: Request) -> Response:
        """Show the jobs of a user to that user, and to operators."""
        name, asks = unquote(raw_path(request, "/users/")), reader(request)
        if not asks.sees(name):
            return self._render.page(request, "refused.html", 403, detail="These are the jobs of another user.")
        view = owner_view(self._service, asks, "user", name)
        return self._render.page(request, "owner.html", view=view, everybody=asks.operator)

    def project(self, request: Request) -> Response:
        """Show the jobs of a project: to operators all of them, to others their own."""
        name, asks = unquote(raw_path(request, "/projects/")), reader(request)
        view = owner_view(self._service, asks, "account", name)
        return self._render.page(request, "owner.html", view=view, everybody=asks.operator)
