"""What the pages show of hosts, worked out from the service: plain data, and finished pictures of histograms."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal
from urllib.parse import quote, unquote

import msgspec
from markupsafe import Markup

from processors.contracts.hosts import HostView, ResourceView, quantile
from processors.contracts.names import measured
from processors.contracts.outputs import Alert
from processors.contracts.service import Service
from sinks.web.charts import Bars, Marker, Plot, PlotAxis, histogram_svg, intervals, small_histogram_svg, told
from sinks.web.words import measured_apart, moment, share

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
    """Return the part of a URL that names a host; its slashes are escaped, for names come from outside."""
    return f"{quote(system, safe='')}/{quote(host, safe='')}"


def find_host(service: Service, raw_path: str) -> HostView | None:
    """Return the host that the raw end of a URL names."""
    system, _, host = raw_path.partition("/")
    return service.host(unquote(system), unquote(host))


def matching_hosts(service: Service, system: str | None, host: str | None) -> tuple[Sequence[HostView], bool]:
    """Return the hosts with these names (None: any) among the first HOSTS_READ_MAX, and whether there may be more."""
    if system is not None and host is not None:
        found = service.host(system, host)
        return ([] if found is None else [found]), False
    known = service.hosts(HOSTS_READ_MAX + 1)
    wanted = [view for view in known[:HOSTS_READ_MAX] if system in (None, view.system) and host in (None, view.host)]
    return wanted, len(known) > HOSTS_READ_MAX


def hosts_like(views: Sequence[HostView], search: str) -> list[HostView]:
    """Return the hosts with a text in their name, system, state or job, in any case."""
    sought = search.casefold()
    return [
        view for view in views if sought in " ".join((view.system, view.host, view.state, view.job or "")).casefold()
    ]


def host_rows(views: Sequence[HostView], alerts: Sequence[Alert], *, small: bool = True) -> list[HostRow]:
    """Return the hosts as they are shown, with their open alerts."""
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
    """Return the alerts about a host, resolved ones too."""
    return [
        alert for alert in alerts if (alert.labels.get("system"), alert.labels.get("host")) == (view.system, view.host)
    ]


def resource_row(view: HostView, entry: ResourceView, *, small: bool) -> ResourceRow:
    """Return a resource as it is shown; the text in the picture is escaped where it is made."""
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
            PlotAxis("linear", told(sorted(window.edges), label)),
            PlotAxis("linear", told([0.0, top / 2, top], share)),
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


# The list of hosts: found by name, a page at a time, those first that need attention.


Key = tuple[str, str]  # system and name
NAMES_MAX: Final = 50_000
PAGE: Final = 40
LOOKED_AT_MAX: Final = 2_000  # for their state and their job; the models wait for it
RESOURCES_SHOWN: Final = {"attention": 8, "calm": 4}
AT_WORK: Final = frozenset({"", "up"})
_FIRST: Final = ("cpu_available", "load1", "memory_free", "memory_available", "power_w", "cpu_current", "bandwidth")


class Chip(msgspec.Struct, frozen=True):
    """A resource of a host in a few words, with its small histogram."""

    name: str
    picture: Markup
    mean: str
    odd: bool
    varies: bool
    old: bool


class HostCard(msgspec.Struct, frozen=True, kw_only=True):
    """A host in the list: what stands out in words, and its resources, the strange ones first."""

    view: HostView
    href: str
    group: Literal["attention", "calm"]
    notes: Sequence[str]
    alerts: Sequence[Alert]
    chips: Sequence[Chip]
    more: int


class HostPart(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the list. `known` counts all hosts, `found` those that were searched for."""

    cards: Sequence[HostCard]
    known: int
    found: int
    page: int
    pages: int

    def of(self, group: str) -> list[HostCard]:
        """Return the hosts of a group."""
        return [card for card in self.cards if card.group == group]


def host_part(service: Service, search: str, page: int) -> HostPart:
    """Return a page (from 1 on) of the hosts with a text in their name, or else in their state or job, in any case."""
    alerts = [alert for alert in service.alerts() if alert.status != "resolved" and "host" in alert.labels]
    named = _by_host(alerts)
    names = sorted(service.host_names(NAMES_MAX), key=lambda key: key not in named)
    found = _searched(service, names, search.casefold()) if search else names
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 1), pages)
    shown = [service.host(*key) for key in found[(page - 1) * PAGE : page * PAGE]]
    cards = [host_card(view, named.get((view.system, view.host), [])) for view in shown if view is not None]
    return HostPart(cards=cards, known=len(names), found=len(found), page=page, pages=pages)


def _by_host(alerts: Sequence[Alert]) -> dict[Key, list[Alert]]:
    found: dict[Key, list[Alert]] = {}
    for alert in alerts:
        found.setdefault((alert.labels.get("system", ""), alert.labels["host"]), []).append(alert)
    return found


def _searched(service: Service, names: Sequence[Key], sought: str) -> list[Key]:
    found = [key for key in names if sought in f"{key[0]}/{key[1]}".casefold()]
    if found:
        return found
    views = service.hosts(LOOKED_AT_MAX)
    return [(view.system, view.host) for view in views if sought in f"{view.state} {view.job or ''}".casefold()]


def host_card(view: HostView, alerts: Sequence[Alert]) -> HostCard:
    """Return a host as the list shows it."""
    notes = standing_out(view)
    group: Literal["attention", "calm"] = "attention" if notes or alerts else "calm"
    ordered = sorted(view.resources, key=_place)
    shown = ordered[: RESOURCES_SHOWN[group]]
    return HostCard(
        view=view,
        href=f"/hosts/{host_link(view.system, view.host)}",
        group=group,
        notes=notes,
        alerts=alerts,
        chips=[_chip(view, entry) for entry in shown],
        more=len(ordered) - len(shown),
    )


def standing_out(view: HostView) -> list[str]:
    """Return what of a host needs attention, in a few words each; nothing while it is as ever."""
    odd = [entry for entry in view.resources if entry.anomalous_since]
    notes = [] if view.state in AT_WORK else [view.state]
    if odd:
        since = min(entry.anomalous_since or "" for entry in odd)
        which = odd[0].resource if len(odd) == 1 else f"{len(odd)} of {len(view.resources)} resources"
        notes.append(f"{which} as never before, since {moment(since)[-5:]}")
    if not view.resources or all(entry.window.stale for entry in view.resources):
        notes.append("nothing was measured of late")
    return notes


def _place(entry: ResourceView) -> tuple[bool, bool, int, str]:
    base = entry.resource.partition(">")[0]
    return not entry.anomalous_since, base not in _FIRST, _FIRST.index(base) if base in _FIRST else 0, entry.resource


def _chip(view: HostView, entry: ResourceView) -> Chip:
    row = resource_row(view, entry, small=True)
    odd, varies = bool(entry.anomalous_since), entry.variation == "high"
    return Chip(entry.resource, row.picture, row.mean, odd=odd, varies=varies, old=entry.window.stale)
