"""Alerts: the list with its filters, and one with its evidence and what to do."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from agent.http import alert_view, parameters
from agent.http.access import reader
from agent.http.pages.rendering import Rendering
from agent.http.present import present_ms

ALERTS_SHOWN: Final = 200
FILTERS: Final = ("status", "kind", "severity", "name")


class AlertPages:
    """The list of alerts, and the page of one.

    >>> AlertPages(Rendering(None)).show.__name__
    'show'
    """

    def __init__(self, rendering: Rendering) -> None:
        self._rendering, self._service = rendering, rendering.service

    def index(self, request: Request) -> Response:
        """Show alerts by status, kind, severity and name; open ones where nothing else is asked for."""
        chosen = {name: parameters.text(request.query_params, name) or "" for name in FILTERS}
        alerts, now_ms = self._service.alerts(), present_ms(self._service)
        found = alert_view.in_order(alert_view.wanted(alerts, chosen))
        return self._rendering.page(
            request,
            "alerts.html",
            chosen=chosen,
            choices={
                "status": alert_view.STATUSES,
                "kind": alert_view.KINDS,
                "severity": alert_view.SEVERITIES,
                "name": [name for name, _ in alert_view.names(alerts)],
            },
            rows=[alert_view.alert_row(alert, now_ms) for alert in found[:ALERTS_SHOWN]],
            rows_total=len(found),
            summary=alert_view.summary(alerts),
            quiet=alert_view.quiet_since(alerts),
        )

    def show(self, request: Request) -> Response:
        """Show one alert."""
        fingerprint = request.path_params["fingerprint"]
        found = alert_view.find(self._service.alerts(), fingerprint)
        if found is None:
            return self._rendering.missing(request, f"There is no alert {fingerprint[:80]!r}, or no longer.")
        view = alert_view.alert_view(self._service, found, reader(request), present_ms(self._service))
        return self._rendering.page(request, "alert.html", view=view)
