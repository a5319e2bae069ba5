"""Pages as HTML: the templates, and what every page shows besides its own."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from agent import __version__, words
from agent.contracts.service import Service
from agent.http import environment as html
from agent.http import hosts, view
from agent.http.access import reader
from agent.http.changes import Changes
from agent.http.job_view import job_link, link_of_key
from agent.http.lookup import Truth, known_ids, link
from agent.http.troubles import Troubles

REFRESH_S: Final = 15  # where there is no script
Endpoint = Callable[[Request], Response]


def environment() -> Environment:
    """Return the templates with what the pages add to them.

    >>> environment().from_string("{{ name }}").render(name="<b>")
    '&lt;b&gt;'
    """
    made = html.environment("agent.http")
    made.filters.update(duration=words.duration, size=words.size, change=view.change, span=words.span)
    made.filters.update(power=words.power, energy=words.energy)
    made.globals.update(band=view.band, link=link, host_link=hosts.host_link, job_link=job_link, version=__version__)
    made.globals.update(link_of_key=link_of_key)
    return made


class Rendering:
    """Makes pages over a service; `troubles` tells what went wrong, `truth` the true run time where it is known.

    >>> Rendering(None).truth is None
    True
    """

    def __init__(self, service: Service, truth: Truth | None = None, troubles: Troubles = tuple) -> None:
        self.service = service
        self.truth = truth
        self.changes = Changes(service)
        self._troubles = troubles
        self._templates = environment()

    def following(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint whose page knows what it was made from; it is noted first, so that no later change is missed."""

        def show(request: Request) -> Response:
            request.state.versions = self.changes.versions_for_page()
            return endpoint(request)

        return show

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Return the page that a template makes of values."""
        health = self.service.health()
        query = [(name, value) for name, value in request.query_params.multi_items() if name != "refresh"]
        is_off = request.query_params.get("refresh") == "off"
        text = self._templates.get_template(template).render(
            refresh_s=0 if is_off else REFRESH_S,
            versions=getattr(request.state, "versions", {}),
            path=request.url.path,
            turned=f"{request.url.path}?{urlencode(query if is_off else [*query, ('refresh', 'off')])}".removesuffix(
                "?"
            ),
            reader=reader(request),
            health=health,
            troubles=self._troubles(),
            ready=bool(health) and all(role.ready for role in health),
            has_truth=self.truth is not None,
            **values,
        )
        return HTMLResponse(text, status)

    def missing(self, request: Request, detail: str, name: str = "", status: int = 404) -> Response:
        """Say that there is no such page, and what there is."""
        known = known_ids(self.service.predictions(), like=name)
        return self.page(request, "missing.html", status, detail=detail, known=known)


def raw_path(request: Request, prefix: str) -> str:
    """Return the URL's path behind a prefix as it was sent, with its escapes.

    >>> raw_path(Request({"type": "http", "raw_path": b"/hosts/exa%2Fa?x=1"}), "/hosts/")
    'exa%2Fa'
    """
    raw: bytes = request.scope.get("raw_path") or b""
    return raw.decode("latin-1").partition("?")[0].removeprefix(prefix)
