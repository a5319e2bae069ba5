"""One application: its curve, every size, how good it has been, alerts and running jobs."""

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from agent import ranking
from agent.contracts.outputs import Alert, Prediction
from agent.http import view
from agent.http.access import reader
from agent.http.asked import asked, both
from agent.http.loads import load_view
from agent.http.lookup import application_id, find
from agent.http.pages.rendering import Rendering, raw_path
from agent.http.power import explained_views, power_view
from agent.http.scaling import scaling_plot, uprights
from agent.http.settled import RunRow, history, run_rows

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
        alerts = view.alerts_of(found, self._service.alerts())
        is_open = view.worst_first(alerts)
        laws = ranking.ranked(found.model)
        load = found.under_load
        runs = self._service.runs(application_id(found))
        answer = asked(self._service, found, request.query_params, runs)
        return self._rendering.page(
            request,
            "application.html",
            row=view.rows([found], alerts, self._rendering.truth)[0],
            points=view.point_rows(found, self._rendering.truth),
            asked=answer,
            asked_rows=both(answer, found.unit),
            history=history(found.application, runs),
            load=load_view(found.application, load, view.run_time_at(found, load.n) if load else None),
            power=power_view(found),
            explained=explained_views(found.profiles),
            laws=laws,
            horizons=ranking.horizons(laws),
            open_alerts=is_open[:ALERTS_SHOWN],
            resolved_alerts=[alert for alert in alerts if alert.status == "resolved"][:ALERTS_SHOWN],
            jobs=view.jobs_of(found, self._service.jobs())[:JOBS_SHOWN],
            **self._chart(found, is_open, run_rows(runs, reader(request))),
        )

    def _chart(self, found: Prediction, is_open: Sequence[Alert], runs: Sequence[RunRow]) -> dict[str, Any]:
        return {
            "plot": scaling_plot(found, is_open, self._rendering.truth, runs),
            "runs": runs,
            "uprights": uprights(found.useful_n),
            "anomalies": view.anomalies(is_open),
        }
