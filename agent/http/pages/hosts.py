"""Hosts: those with anomalies first, and one with the histogram of each resource, forecasts, scores and alerts."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from agent.http import hosts, parameters
from agent.http.pages.rendering import Rendering, raw_path

HOSTS_SHOWN: Final = 60
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
        known, more = hosts.matching_hosts(self._service, None, None)
        wanted = hosts.hosts_like(known, search)
        return self._rendering.page(
            request,
            "hosts.html",
            search=search,
            hosts=hosts.host_rows(wanted[:HOSTS_SHOWN], self._service.alerts()),
            hosts_total=len(wanted),
            more=more,
        )

    def show(self, request: Request) -> Response:
        """Show one host: the histogram of each resource, forecasts, scores and alerts."""
        found = hosts.find_host(self._service, raw_path(request, "/hosts/"))
        if found is None:
            return self._rendering.missing(request, f"There is no host {request.path_params['name'][:80]!r}.")
        alerts = hosts.alerts_of_host(found, self._service.alerts())
        row = hosts.host_rows([found], alerts, small=False)[0]
        return self._rendering.page(request, "host.html", row=row, alerts=alerts[:ALERTS_SHOWN])
