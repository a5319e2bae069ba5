"""The overview: what needs attention first, the freshness of the sources, running jobs, and the box to ask in."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agent.contracts.outputs import Alert, JobPrediction, Prediction
from agent.http import hosts, parameters, view
from agent.http.access import reader
from agent.http.asked import asked, both
from agent.http.freshness import SourceRow, source_rows
from agent.http.lookup import application_id
from agent.http.pages.rendering import Rendering
from agent.http.present import present_ms

APPLICATIONS_SHOWN: Final = 60
ALERTS_SHOWN: Final = 30
ALERTS_FIRST: Final = 5  # the others are folded, so that applications are in sight
JOBS_SHOWN: Final = 50
JOBS_FIRST: Final = 12
HOSTS_SHOWN: Final = 8
CHOICES_SHOWN: Final = 500


class Tile(msgspec.Struct, frozen=True):
    """A number at the top of the page, what it counts, where that is, and how it looks.

    >>> Tile(2, "open alerts", "#alerts", "warning").count
    2
    """

    count: int
    what: str
    link: str
    kind: str = "plain"


class OverviewPage:
    """The first page.

    >>> OverviewPage(Rendering(None)).show.__name__
    'show'
    """

    def __init__(self, rendering: Rendering) -> None:
        self._rendering, self._service = rendering, rendering.service

    def show(self, request: Request) -> Response:
        """Show every application, those that need attention first, alerts, sources, hosts and running jobs."""
        search = parameters.text(request.query_params, "search") or ""
        alerts, known = self._service.alerts(), self._service.predictions()
        wanted = view.named_like(known, search)
        is_open = view.worst_first(alerts)
        asks = reader(request)
        jobs = [job for job in self._service.jobs() if asks.sees(job.user)]
        found = self._service.hosts(HOSTS_SHOWN)
        strange = [entry for entry in found if any(each.anomalous_since for each in entry.resources)]
        sources = source_rows(self._service.sources(), present_ms(self._service) or 0)
        return self._rendering.page(
            request,
            "overview.html",
            search=search,
            rows=view.rows(wanted, alerts, self._rendering.truth, APPLICATIONS_SHOWN),
            rows_total=len(wanted),
            tiles=tiles(known, is_open, jobs, sources, len(strange)),
            open_alerts=is_open[:ALERTS_SHOWN],
            alerts_first=ALERTS_FIRST,
            resolved_alerts=[alert for alert in alerts if alert.status == "resolved"][:ALERTS_SHOWN],
            jobs=jobs[:JOBS_SHOWN],
            jobs_first=JOBS_FIRST,
            jobs_total=len(jobs),
            hosts=hosts.host_rows(strange, alerts),
            hosts_known=bool(found),
            sources=sources,
            **self._asked(request, known),
        )

    def _asked(self, request: Request, known: Sequence[Prediction]) -> dict[str, Any]:
        """Return what the box shows: the applications to choose from, and the answer where one was chosen."""
        query = request.query_params
        chosen = parameters.text(query, "application") or ""
        by_id = {application_id(entry): entry for entry in known}
        choices = [(id_, _named(entry)) for id_, entry in sorted(by_id.items(), key=lambda pair: _named(pair[1]))]
        entry = by_id.get(chosen)
        answer = asked(self._service, entry, query, self._service.runs(chosen)) if entry else None
        return {
            "choices": choices[:CHOICES_SHOWN],
            "chosen": chosen,
            "asked": answer,
            "asked_rows": both(answer, entry.unit) if answer and entry else [],
            "unit": entry.unit if entry else "",
            "not_found": f"There is no model of {chosen[:80]!r}." if chosen and entry is None else "",
        }


def tiles(
    known: Sequence[Prediction],
    is_open: Sequence[Alert],
    jobs: Sequence[JobPrediction],
    sources: Sequence[SourceRow],
    hosts_strange: int,
) -> list[Tile]:
    """Return the numbers at the top.

    >>> [(tile.count, tile.what) for tile in tiles([], [], [], [], 1)][1:4]
    [(0, 'applications'), (0, 'of them reliable'), (1, 'unusual host')]
    """
    worst = min((view.SEVERITIES.index(alert.severity) for alert in is_open), default=len(view.SEVERITIES))
    late = sum(1 for job in jobs if (job.probability_exceeds_limit or 0.0) > 0.5)
    old = sum(1 for source in sources if source.is_old)
    reliable = sum(1 for entry in known if entry.reliability.verdict == "reliable")
    found = [
        _tile(len(is_open), "open alert", "#alerts", (*view.SEVERITIES, "good")[worst]),
        _tile(len(known), "application", "#applications"),
        Tile(reliable, "of them reliable", "#applications"),
        _tile(hosts_strange, "unusual host", "#hosts", "warning" if hosts_strange else "plain"),
        _tile(len(jobs), "running job", "#jobs"),
    ]
    if late:
        found.append(Tile(late, "likely to hit the limit", "#jobs", "warning"))
    if old:
        found.append(_tile(old, "late source", "#sources", "warning"))
    return found


def _tile(count: int, thing: str, link: str, kind: str = "plain") -> Tile:
    return Tile(count, thing if count == 1 else f"{thing}s", link, kind)


def _named(entry: Prediction) -> str:
    return " ".join(part for part in (entry.application, entry.input, f"({entry.system}, {entry.unit})") if part)
