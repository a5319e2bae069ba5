"""Small multiples: one resource of many hosts over the same time on the same scale, each as a small picture."""

from collections.abc import Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import Band, HostLines, HostView, Line
from processors.contracts.names import host_link, measured, parse_rfc3339, resource_title, rfc3339
from processors.contracts.nodes import spread
from processors.contracts.service import Service
from sinks.web.charts import Spark, sparkline
from sinks.web.formatting import span
from sinks.web.views.hosts import IMPORTANT, job_of

HOSTS_MAX: Final = 24
RESOURCES_MAX: Final = 2
NEIGHBOURS_MAX: Final = 12
NAMES_MAX: Final = 50_000
PICTURE: Final = (220, 48)  # pixels
MINUTES_MS: Final = 3_600_000  # shorter and more recent times are shown by the minute
_DIGITS: Final = "0123456789"


class Multiple(msgspec.Struct, frozen=True):
    """A host in small: its name and page, its picture, its mean over the time as text, and what stands out about it."""

    host: str
    href: str
    picture: Markup
    mean: str
    odd: str


class Multiples(msgspec.Struct, frozen=True):
    """One resource of some hosts. `scale` says what the top of each picture is, `more` how many hosts there are besides."""

    resource: str
    title: str
    scale: str
    span: str
    hosts: Sequence[Multiple]
    more: int


class Peers(msgspec.Struct, frozen=True):
    """Hosts beside which one is looked at: who they are in words, and their pictures."""

    title: str
    note: str
    parts: Sequence[Multiples]


_Time = tuple[int, int | None]  # from when until when; None is now


class _Host(msgspec.Struct, frozen=True):
    name: str
    lines: HostLines
    view: HostView | None


def of_job(service: Service, system: str, job_id: str) -> list[Multiples]:
    """Return the hosts of a job over its time; nothing where they or their lines are not known."""
    running, runs = service.job(system, job_id), service.runs_of_job(system, job_id)
    if running is not None:
        names, start_ms, end_ms = service.reading(system).hosts_of_job(job_id), parse_rfc3339(running.start), None
    elif runs:
        names, start_ms, end_ms = runs[0].hosts, runs[0].start_ms, runs[0].end_ms
    else:
        return []
    try:
        total, shown = spread(names, HOSTS_MAX)
    except InvalidInputError:
        return []
    return _multiples(service, system, shown, total, (start_ms, end_ms))


def peers(service: Service, view: HostView) -> Peers | None:
    """Return the hosts beside which one is looked at: those of its job, else those of its rack, else those next to it by name."""
    if view.job is not None:
        system, job_id = job_of(view.job)
        names = service.reading(system).hosts_of_job(job_id)
        if len(names) > 1:
            near = _near(sorted(names), view.host)
            parts = _multiples(service, view.system, near, len(names))
            note = "They run the same job, on the same scale."
            return Peers(f"Hosts of job {view.job}", note, parts) if parts else None
    known = sorted(host for system, host in service.host_names(NAMES_MAX) if system == view.system)
    rack = service.rack(view.system, view.host)
    same_rack = [host for host in known if service.rack(view.system, host) == rack] if rack is not None else []
    if rack is not None and len(same_rack) > 1:
        parts = _multiples(service, view.system, _near(same_rack, view.host), len(same_rack))
        note = f"They are in the same rack{rack.known_by}, on the same scale."
        return Peers(f"Rack {rack.name}", note, parts) if parts else None
    near = _near([host for host in known if _stem(host) == _stem(view.host)], view.host)
    parts = _multiples(service, view.system, near, len(near)) if len(near) > 1 else []
    note = "They stand next to it by name, on the same scale. Where a rack ends is not known."
    return Peers("Neighbours by name", note, parts) if parts else None


def _stem(host: str) -> str:
    return host.rstrip(_DIGITS)


def _near(names: Sequence[str], host: str) -> list[str]:
    """Return a host with those around it."""
    at = names.index(host) if host in names else 0
    first = max(0, min(at - NEIGHBOURS_MAX // 2, len(names) - NEIGHBOURS_MAX))
    return list(names[first : first + NEIGHBOURS_MAX])


def _multiples(
    service: Service, system: str, names: Sequence[str], total: int, time: _Time | None = None
) -> list[Multiples]:
    """Return the pictures of hosts from one time to another, by default of all that is known, by resource."""
    found = [(name, service.reading(system).host_lines(name)) for name in names]
    hosts = [_Host(name, lines, service.reading(system).host(name)) for name, lines in found if lines is not None]
    if not hosts:
        return []
    now_ms = max(parse_rfc3339(host.lines.as_of) for host in hosts)
    start_ms, end_ms = time or (None, None)
    last_ms = now_ms if end_ms is None else end_ms
    first_ms = last_ms - 24 * MINUTES_MS if start_ms is None else start_ms
    by_minute = last_ms - first_ms <= MINUTES_MS and first_ms >= now_ms - MINUTES_MS
    lines = [host.lines.hour if by_minute else host.lines.day for host in hosts]
    if start_ms is None:
        first_ms = max(first_ms, min(line.start_ms for line in lines))
    made = (_part(hosts, lines, name, (first_ms, last_ms)) for name in _resources(hosts, lines))
    return [msgspec.structs.replace(part, more=total - len(part.hosts)) for part in made if part is not None]


def _resources(hosts: Sequence[_Host], lines: Sequence[Line]) -> list[str]:
    """Return which resources are shown: those that are odd, then the important ones, of those that most hosts have."""
    odd = {each.resource for host in hosts if host.view for each in host.view.resources if each.anomalous_since}
    names = sorted({name for line in lines for name in line.resources})
    count = {name: sum(name in line.resources for line in lines) for name in names}
    often = [name for name in names if 2 * count[name] > len(hosts)]
    rank = {name: place for place, name in enumerate(IMPORTANT)}
    often.sort(key=lambda name: (name not in odd, rank.get(name.partition(">")[0], len(rank)), name))
    return often[:RESOURCES_MAX]


def _part(hosts: Sequence[_Host], lines: Sequence[Line], resource: str, ends: tuple[int, int]) -> Multiples | None:
    known = [
        (host, line, line.resources[resource])
        for host, line in zip(hosts, lines, strict=True)
        if resource in line.resources
    ]
    points = [_points(line, band, ends) for _, line, band in known]
    top = max((high for each in points for _, _, _, high in each), default=None)
    if top is None:
        return None
    frame = (0.0, min(0.0, *(low for each in points for _, low, _, _ in each))), (1.0, top)
    shown = [
        _multiple(host, resource, each, frame, ends) for (host, _, _), each in zip(known, points, strict=True) if each
    ]
    shown.sort(key=lambda one: (not one.odd, one.host))
    title = resource_title(resource)
    when = span(rfc3339(ends[0]), rfc3339(ends[1]))
    return Multiples(resource, title, f"0 to {measured(resource, top)}", when, shown, 0)


_Point = tuple[int, float, float, float]


def _points(line: Line, band: Band, ends: tuple[int, int]) -> list[_Point]:
    """Return the points of a band between two times: when, low, mean, high."""
    step_ms = line.step_s * 1000
    times = (line.start_ms + place * step_ms for place in range(len(band.mean)))
    found = zip(times, band.low, band.mean, band.high, strict=True)
    return [
        (time, low, mean, high)
        for time, low, mean, high in found
        if low is not None and mean is not None and high is not None and ends[0] - step_ms < time < ends[1]
    ]


def _multiple(
    host: _Host, resource: str, points: Sequence[_Point], frame: tuple[tuple[float, float], tuple[float, float]],
    ends: tuple[int, int],
) -> Multiple:  # fmt: skip
    width = max(ends[1] - ends[0], 1)
    across = [min(max((time - ends[0]) / width, 0.0), 1.0) for time, *_ in points]
    low = [(x, point[1]) for x, point in zip(across, points, strict=True)]
    high = [(x, point[3]) for x, point in zip(across, points, strict=True)]
    line = [(x, point[2]) for x, point in zip(across, points, strict=True)]
    mean = sum(point[2] for point in points) / len(points)
    title = f"{resource_title(resource)} of {host.name}"
    spark = Spark(title=title, area=[*high, *reversed(low)], lines=[("line", line)], frame=frame)
    since = (
        next((one.anomalous_since for one in host.view.resources if one.resource == resource), None)
        if host.view
        else None
    )
    odd = f"anomalous since {since[11:16]}" if since else ""
    href = f"/hosts/{host_link(host.lines.system, host.name)}"
    return Multiple(host.name, href, sparkline(spark, *PICTURE), measured(resource, mean), odd)
