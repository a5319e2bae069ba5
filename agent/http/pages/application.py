"""One application: its curve, every size, how good it has been, alerts and running jobs."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from agent import ranking
from agent.http import view
from agent.http.loads import load_view
from agent.http.lookup import find
from agent.http.pages.rendering import Rendering, raw_path
from agent.http.power import explained_views, power_view
from agent.http.scaling import scaling_plot

ALERTS_SHOWN: Final = 30
JOBS_SHOWN: Final = 50


class ApplicationPage:
    """The page of an application.

    >>> ApplicationPage(Rendering(None)).show.__name__
    'show'
    """

    def __init__(self, rendering: Rendering) -> None:
        self._rendering, self._service = rendering, rendering.service

    def show(self, request: Request) -> Response:
        """Show the application that the path names."""
        path = request.path_params["id"]
        found = find(self._service, path, raw_path(request, "/applications/"))
        if found is None:
            return self._rendering.missing(request, f"There is no model of {path[:80]!r}.", path)
        truth = self._rendering.truth
        alerts = view.alerts_of(found, self._service.alerts())
        is_open = [alert for alert in alerts if alert.status != "resolved"]
        laws = ranking.ranked(found.model)
        load = found.under_load
        return self._rendering.page(
            request,
            "application.html",
            row=view.rows([found], alerts, truth)[0],
            plot=scaling_plot(found, is_open, truth),
            points=view.point_rows(found, truth),
            load=load_view(found.application, load, view.run_time_at(found, load.n) if load else None),
            power=power_view(found),
            explained=explained_views(found.profiles),
            laws=laws,
            horizons=ranking.horizons(laws),
            alerts=alerts[:ALERTS_SHOWN],
            jobs=view.jobs_of(found, self._service.jobs())[:JOBS_SHOWN],
        )
