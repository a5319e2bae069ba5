"""The list of hosts: found by name, a page at a time, those first that need attention."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from markupsafe import Markup

from agent.contracts.hosts import HostView, ResourceView
from agent.contracts.outputs import Alert
from agent.contracts.service import Service
from agent.http.hosts import host_link, resource_row
from agent.words import moment

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
    """A page of the list. `known` counts all hosts, `found` those that were searched for.

    >>> HostPart(cards=(), known=0, found=0, page=1, pages=1).of("calm")
    []
    """

    cards: Sequence[HostCard]
    known: int
    found: int
    page: int
    pages: int

    def of(self, group: str) -> list[HostCard]:
        """Return the hosts of a group."""
        return [card for card in self.cards if card.group == group]


def host_part(service: Service, search: str, page: int) -> HostPart:
    """Return a page (from 1 on) of the hosts with a text in their name, or else in their state or job, in any case.

    >>> class Nothing:
    ...     host_names = staticmethod(lambda limit: [])
    ...     alerts = staticmethod(lambda: [])
    ...     hosts = staticmethod(lambda limit: [])
    >>> host_part(Nothing, "", 1).pages
    1
    """
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
    """Return a host as the list shows it.

    >>> host_card(HostView("exa", "nid1", "", state="drain"), []).notes
    ['drain', 'nothing was measured of late']
    """
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
    """Return what of a host needs attention, in a few words each; nothing while it is as ever.

    >>> standing_out(HostView("exa", "nid1", "", resources=()))
    ['nothing was measured of late']
    """
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
