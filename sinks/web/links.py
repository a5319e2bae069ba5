"""Links of the pages to what a centre has besides: dashboards of Grafana, and the page of a job in a portal of its own."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from processors.contracts.hosts import HostView
from processors.contracts.outputs import Prediction

# by template: the dashboard about the same things
_DASHBOARDS: Final = {
    "overview.html": "centre",
    "alerts.html": "centre",
    "alert.html": "centre",
    "application.html": "application",
    "hosts.html": "host",
    "host.html": "host",
    "jobs.html": "jobs",
    "job.html": "jobs",
    "agent.html": "agent",
}


class Links(msgspec.Struct, frozen=True):
    """Where dashboards and portal are: the address of Grafana, and a template of a job's address; None where there is none."""

    grafana_url: str | None = None
    job_portal: str | None = None

    def portal(self, system: str, job_id: str) -> str | None:
        """Return where a job is in the portal."""
        if self.job_portal is None:
            return None
        return self.job_portal.format(system=quote(system, safe=""), job_id=quote(job_id, safe=""))

    def dashboard(self, template: str, shown: Mapping[str, Any]) -> str | None:
        """Return the dashboard about what a page shows."""
        name = _DASHBOARDS.get(template)
        if self.grafana_url is None or name is None:
            return None
        chosen = urlencode({f"var-{key}": value for key, value in _variables(shown).items()})
        return f"{self.grafana_url.rstrip('/')}/d/scalewatch-{name}{chosen and f'?{chosen}'}"


def _variables(shown: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a dashboard by what a page shows; that of inputs is a matcher."""
    host, row = shown.get("host"), shown.get("row")
    if isinstance(host, HostView):
        return {"system": host.system, "host": host.host}
    entry = getattr(row, "prediction", None)
    if isinstance(entry, Prediction):
        matcher = f"input='{entry.input}'"
        return {"system": entry.system, "application": entry.application, "input": matcher, "unit": entry.unit}
    return {}
