"""What the pages show of hosts, worked out from the service: plain data, and finished pictures of histograms."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final
from urllib.parse import quote, unquote

import msgspec
from markupsafe import Markup

from agent.contracts.hosts import HostView, ResourceView, quantile
from agent.contracts.outputs import Alert
from agent.contracts.service import Service
from agent.contracts.units import measured
from agent.http.histograms import Bars, Marker, histogram_svg, intervals, small_histogram_svg
from agent.http.plots import Axis, Plot, told
from agent.words import measured_apart, share

HOSTS_READ_MAX: Final = 2_000  # in one look: the models wait for it


class ResourceRow(msgspec.Struct, frozen=True):
    """A resource of a host: the words for its figures, and its picture."""

    view: ResourceView
    picture: Markup
    mean: str
    spread: str
    forecast: str
    intervals: Sequence[tuple[str, str, float]]
    bounds: Sequence[tuple[float, float, float]]
    markers: Sequence[tuple[float, str]]
    plot: Plot


class HostRow(msgspec.Struct, frozen=True):
    """A host in the table."""

    view: HostView
    link: str
    resources: Sequence[ResourceRow]
    alerts: Sequence[Alert]


def host_link(system: str, host: str) -> str:
    """Return the part of a URL that names a host; its slashes are escaped, for names come from outside.

    >>> host_link("exa", "rack1/nid1")
    'exa/rack1%2Fnid1'
    """
    return f"{quote(system, safe='')}/{quote(host, safe='')}"


def find_host(service: Service, raw_path: str) -> HostView | None:
    """Return the host that the raw end of a URL names.

    >>> class Hosts:
    ...     host = staticmethod(lambda system, host: (system, host))
    >>> find_host(Hosts, "exa/rack1%2Fnid1")
    ('exa', 'rack1/nid1')
    """
    system, _, host = raw_path.partition("/")
    return service.host(unquote(system), unquote(host))


def matching_hosts(service: Service, system: str | None, host: str | None) -> tuple[Sequence[HostView], bool]:
    """Return the hosts with these names (None: any) among the first HOSTS_READ_MAX, and whether there may be more.

    >>> class Hosts:
    ...     hosts = staticmethod(lambda limit: [HostView("exa", "nid1", ""), HostView("exb", "nid1", "")])
    >>> [view.system for view in matching_hosts(Hosts, "exb", None)[0]]
    ['exb']
    """
    if system is not None and host is not None:
        found = service.host(system, host)
        return ([] if found is None else [found]), False
    known = service.hosts(HOSTS_READ_MAX + 1)
    wanted = [view for view in known[:HOSTS_READ_MAX] if system in (None, view.system) and host in (None, view.host)]
    return wanted, len(known) > HOSTS_READ_MAX


def hosts_like(views: Sequence[HostView], search: str) -> list[HostView]:
    """Return the hosts with a text in their name, system, state or job, in any case.

    >>> [view.host for view in hosts_like([HostView("exa", "nid1", ""), HostView("exa", "nid2", "")], "NID2")]
    ['nid2']
    """
    sought = search.casefold()
    return [
        view for view in views if sought in " ".join((view.system, view.host, view.state, view.job or "")).casefold()
    ]


def host_rows(views: Sequence[HostView], alerts: Sequence[Alert], *, small: bool = True) -> list[HostRow]:
    """Return the hosts as they are shown, with their open alerts.

    >>> [row.link for row in host_rows([HostView("exa", "nid1", "")], [])]
    ['/hosts/exa/nid1']
    """
    return [
        HostRow(
            view,
            f"/hosts/{host_link(view.system, view.host)}",
            [resource_row(view, entry, small=small) for entry in view.resources],
            [alert for alert in alerts_of_host(view, alerts) if alert.status != "resolved"],
        )
        for view in views
    ]


def alerts_of_host(view: HostView, alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts about a host, resolved ones too.

    >>> alerts_of_host(HostView("exa", "nid1", ""), [])
    []
    """
    return [
        alert for alert in alerts if (alert.labels.get("system"), alert.labels.get("host")) == (view.system, view.host)
    ]


def resource_row(view: HostView, entry: ResourceView, *, small: bool) -> ResourceRow:
    """Return a resource as it is shown; the text in the picture is escaped where it is made.

    >>> from agent.contracts.hosts import HostWindow
    >>> window = HostWindow(0, (0.5, 0.75, 1.0), (0.5, 0.5), count=4, mean=0.75, low=0.5, high=1.0)
    >>> resource_row(HostView("exa", "nid1", ""), ResourceView("cpu_available", window), small=True).spread
    '52.5 % to 97.5 %'
    """
    window, outlook = entry.window, entry.outlook
    words, label = partial(measured, entry.resource), measured_apart(entry.resource, window.edges)
    low, high = quantile(window, 0.05), quantile(window, 0.95)
    top = max(window.shares, default=1.0)
    forecast = "-" if outlook is None else words(outlook.value)
    if outlook is not None and outlook.error is not None:
        forecast += f" ± {words(outlook.error)}"
    bars = Bars(
        title=f"{entry.resource} of {view.host}",
        description=_described(entry),
        edges=window.edges,
        shares=window.shares,
        label=label,
        markers=() if small else tuple(_markers(entry)),
    )
    picture = Markup(small_histogram_svg(bars) if small else histogram_svg(bars))  # noqa: S704 -- histograms.py escapes
    bounds = intervals(window.edges, window.shares)
    return ResourceRow(
        entry,
        picture,
        words(window.mean),
        f"{words(low)} to {words(high)}",
        forecast,
        [(label(start), label(stop), mass) for start, stop, mass in bounds],
        bounds,
        [(marker.value, marker.note) for marker in _markers(entry)],
        Plot(
            bars.title,
            picture,
            Axis("linear", told(sorted(window.edges), label)),
            Axis("linear", told([0.0, top / 2, top], share)),
            ratio=0.36,
        ),
    )


def _described(entry: ResourceView) -> str:
    if not entry.window.edges:
        return "Nothing was measured in the last five minutes."
    low, high = (measured(entry.resource, entry.window.edges[place]) for place in (0, -1))
    return f"Shares of {entry.window.count} samples between {low} and {high} in the last five minutes."


def _markers(entry: ResourceView) -> Iterator[Marker]:
    mean = entry.window.mean
    yield Marker(mean, "line", f"mean of the last minute {measured(entry.resource, mean)}")
    if entry.outlook is not None:
        value = entry.outlook.value
        yield Marker(value, "forecast", f"forecast {measured(entry.resource, value)}")
