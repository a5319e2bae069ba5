"""Hosts: those with anomalies first, and one with the histogram of each resource, forecasts, scores and alerts."""

from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from agent.http import alert_view, host_list, hosts, job_view, parameters
from agent.http.pages.rendering import Rendering, raw_path
from agent.http.present import present_ms

ALERTS_SHOWN: Final = 30


class HostPages:
    """The list of hosts, and the page of one.

    >>> HostPages(Rendering(None)).show.__name__
    'show'
    """

    def __init__(self, rendering: Rendering) -> None:
        self._rendering, self._service = rendering, rendering.service

    def list(self, request: Request) -> Response:
        """Show hosts with their windows, those with anomalies first."""
        search = parameters.text(request.query_params, "search") or ""
        part = host_list.host_part(self._service, search, parameters.page(request.query_params))
        beside = {number: f"/hosts?{urlencode(_query(search, number))}" for number in (part.page - 1, part.page + 1)}
        return self._rendering.page(request, "hosts.html", search=search, part=part, beside=beside)

    def show(self, request: Request) -> Response:
        """Show one host: the histogram of each resource, forecasts, scores and alerts."""
        found = hosts.find_host(self._service, raw_path(request, "/hosts/"))
        if found is None:
            return self._rendering.missing(request, f"There is no host {request.path_params['name'][:80]!r}.")
        alerts = hosts.alerts_of_host(found, self._service.alerts())
        row = hosts.host_rows([found], alerts, small=False)[0]
        job = job_view.link_of_key(found.job) if found.job else ""
        return self._rendering.page(
            request,
            "host.html",
            row=row,
            job=job,
            notes=host_list.standing_out(found),
            alerts=[alert_view.alert_row(alert, present_ms(self._service)) for alert in alerts[:ALERTS_SHOWN]],
        )


def _query(search: str, page: int) -> dict[str, str]:
    return ({"search": search} if search else {}) | ({"page": str(page)} if page > 1 else {})
