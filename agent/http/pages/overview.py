"""The overview: every application, those that need attention first, alerts and running jobs."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from agent.http import hosts, parameters, view
from agent.http.pages.rendering import Rendering

APPLICATIONS_SHOWN: Final = 60
ALERTS_SHOWN: Final = 30
JOBS_SHOWN: Final = 50
STRANGE_SHOWN: Final = 8  # hosts


class OverviewPage:
    """The first page.

    >>> OverviewPage(Rendering(None)).show.__name__
    'show'
    """

    def __init__(self, rendering: Rendering) -> None:
        self._rendering, self._service = rendering, rendering.service

    def show(self, request: Request) -> Response:
        """Show every application, those that need attention first, alerts and running jobs."""
        search = parameters.text(request.query_params, "search") or ""
        alerts = self._service.alerts()
        wanted = view.named_like(self._service.predictions(), search)
        jobs = self._service.jobs()
        return self._rendering.page(
            request,
            "overview.html",
            search=search,
            rows=view.rows(wanted, alerts, self._rendering.truth, APPLICATIONS_SHOWN),
            rows_total=len(wanted),
            open_alerts=view.worst_first(alerts)[:ALERTS_SHOWN],
            resolved_alerts=[alert for alert in alerts if alert.status == "resolved"][:ALERTS_SHOWN],
            jobs=jobs[:JOBS_SHOWN],
            jobs_total=len(jobs),
            hosts=hosts.host_rows(self._service.hosts(STRANGE_SHOWN), alerts),
        )
