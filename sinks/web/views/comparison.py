"""Two runs side by side: what differs between them, and by how much."""

from collections.abc import Callable, Iterator, Sequence
from math import log
from typing import Final
from urllib.parse import unquote

import msgspec

from processors.contracts.names import host_link, measured, prefixed, resource_name, rfc3339
from processors.contracts.outputs import RecentRun
from processors.contracts.service import Service
from sinks.web.filters import key_of, of_predicted
from sinks.web.formatting import counted, duration, energy, moment, power, share, sized
from sinks.web.queries import BadParameterError
from sinks.web.views.jobs import job_link, predicted_text
from sinks.web.views.why import MEASURED, MeasuredLoad, Why, expanded, measured_load, stretched_by, why_ended

COUNTERS_SHOWN: Final = 8
HOSTS_SHOWN: Final = 12
ALIKE: Final = 0.02
SAME: Final = "the same"
UNKNOWN: Final = "-"


class Side(msgspec.Struct, frozen=True):
    """One of the two runs: its name, its page, and why it took so long."""

    name: str
    href: str
    why: Why


class Line(msgspec.Struct, frozen=True):
    """A row of the comparison: what, the two values, and how the second differs from the first."""

    what: str
    first: str
    second: str
    difference: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """Two runs: how the second went against the first in one sentence, then line by line."""

    text: str
    sides: tuple[Side, Side]
    lines: Sequence[Line]
    counters: Sequence[Line]
    hosts: Sequence[tuple[str, str]]
    hosts_more: int


def job_named(value: str | None, name: str) -> tuple[str, str]:
    """Return system and id of the job that a parameter names; BadParameterError where it names none."""
    system, _, job_id = (value or "").partition("/")
    if not system or not job_id:
        raise BadParameterError(f"{name} has to name a job: SYSTEM/ID.")
    return unquote(system), unquote(job_id)


def newest_run(service: Service, job: tuple[str, str]) -> RecentRun | None:
    """Return the newest settled run of a job; None where none is known."""
    return next(iter(service.runs_of_job(*job)), None)


def comparison(service: Service, first: RecentRun, second: RecentRun) -> Comparison:
    """Return two runs side by side."""
    hosts, others = expanded(first.hosts), set(expanded(second.hosts))
    common = [host for host in hosts if host in others] if first.system == second.system else []
    return Comparison(
        _text(first, second),
        (_side(service, first), _side(service, second)),
        [*_lines(first, second), *_loads(service, first, second), _common(hosts, others, common)],
        _counters(first, second),
        [(host, f"/hosts/{host_link(first.system, host)}") for host in common[:HOSTS_SHOWN]],
        max(len(common) - HOSTS_SHOWN, 0),
    )


def _side(service: Service, run: RecentRun) -> Side:
    return Side(f"{run.system}/{run.job_id}", job_link(run.system, run.job_id), why_ended(service, run))


def _text(first: RecentRun, second: RecentRun) -> str:
    """Return how the second run went against the first, in one sentence, and what of their settings differs."""
    ratio = second.run_time_s / first.run_time_s if first.run_time_s > 0 else None
    if ratio is None or abs(ratio - 1) < ALIKE:
        how = (
            f"{second.job_id} took as long as {first.job_id}"
            if ratio is not None
            else "Their run times cannot be compared"
        )
    elif ratio >= 2 or ratio <= 0.5:
        longer = ratio >= 2
        how = f"{second.job_id} took {ratio if longer else 1 / ratio:.2g} times as {'long as' if longer else 'little time as'} {first.job_id}"
    else:
        how = (
            f"{second.job_id} took {share(abs(ratio - 1))} {'longer' if ratio > 1 else 'less time'} than {first.job_id}"
        )
    differs = list(_differs(first, second))
    if not differs:
        return f"{how}, with the same application, input and size."
    return f"{how}; they differ in {' and '.join(differs) if len(differs) < 3 else ', '.join(differs)}."


def _differs(first: RecentRun, second: RecentRun) -> Iterator[str]:
    one, other = key_of(first.application_id), key_of(second.application_id)
    if one.application != other.application:
        yield "application"
    elif one.input != other.input:
        yield "input"
    if (first.n, one.unit) != (second.n, other.unit):
        yield "size"
    if first.state != second.state:
        yield "how they ended"


def _lines(first: RecentRun, second: RecentRun) -> Iterator[Line]:
    one, other = key_of(first.application_id), key_of(second.application_id)
    yield _labels("application", one.application, other.application)
    yield _labels("input", one.input, other.input)
    yield _labels("size", _size(first, one.unit), _size(second, other.unit))
    yield _labels("partition", first.partition or "", second.partition or "")
    yield Line("started", f"{moment(rfc3339(first.start_ms))} UTC", f"{moment(rfc3339(second.start_ms))} UTC")
    yield _labels("state", first.state, second.state)
    yield _numbers("run time", first.run_time_s, second.run_time_s, duration)
    yield Line("predicted", _predicted(first), _predicted(second))
    yield _numbers(
        "against its prediction", of_predicted(first), of_predicted(second), lambda value: f"{value:.2f} times"
    )
    yield _numbers("mean power of all its hosts", first.power_w, second.power_w, power)
    yield _numbers("energy", first.energy_j, second.energy_j, energy)
    yield Line("other jobs on its hosts", _shared(first), _shared(second))


def _loads(service: Service, first: RecentRun, second: RecentRun) -> Iterator[Line]:
    """Yield how loaded the hosts of both runs were at their start and meanwhile."""
    stretched = (stretched_by(service, first), stretched_by(service, second))
    yield _numbers("run time by the load of its hosts at its start", *stretched, lambda value: f"{value:.2f} times")
    one, other = measured_load(service, first), measured_load(service, second)
    for resource in [name for name in MEASURED if name in one or name in other] or MEASURED[:1]:
        a, b = one.get(resource), other.get(resource)
        what = f"{resource_name(resource)} on its hosts, mean while it ran"
        difference = _difference(a.mean, b.mean) if a is not None and b is not None else ""
        yield Line(what, _load_text(resource, a), _load_text(resource, b), difference)


def _load_text(resource: str, load: MeasuredLoad | None) -> str:
    if load is None:
        return UNKNOWN
    mean, worst = measured(resource, load.mean), measured(resource, load.worst)
    return mean if mean == worst else f"{mean} ({worst} on the most loaded one)"


def _labels(what: str, first: str, second: str) -> Line:
    difference = SAME if first == second and first else "differs" if first != second else ""
    return Line(what, first or UNKNOWN, second or UNKNOWN, difference)


def _numbers(what: str, first: float | None, second: float | None, formatter: Callable[[float], str]) -> Line:
    one, other = (UNKNOWN if value is None else formatter(value) for value in (first, second))
    return Line(what, one, other, _difference(first, second))


def _difference(first: float | None, second: float | None) -> str:
    if not first or second is None or first <= 0:
        return ""
    ratio = second / first
    if abs(ratio - 1) < ALIKE:
        return SAME
    return f"{ratio:.2g} times" if ratio >= 2 else f"{share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"


def _size(run: RecentRun, unit: str) -> str:
    return "" if run.n is None else sized(run.n, unit)


def _predicted(run: RecentRun) -> str:
    return UNKNOWN if run.predicted is None else predicted_text(run.predicted)


def _shared(run: RecentRun) -> str:
    if run.shared is None:
        return UNKNOWN
    return f"{share(run.shared)} of the time" if run.shared else "none"


def _common(hosts: Sequence[str], others: set[str], common: Sequence[str]) -> Line:
    if not hosts or not others:
        return Line(
            "hosts",
            counted(len(hosts), "host") if hosts else UNKNOWN,
            counted(len(others), "host") if others else UNKNOWN,
        )
    return Line(
        "hosts", counted(len(hosts), "host"), counted(len(others), "host"), f"{len(common) or 'none'} in common"
    )


def _counters(first: RecentRun, second: RecentRun) -> list[Line]:
    """Return the counters whose rates differ by most, the farthest first."""
    pairs = [(name, value, second.counters.get(name, 0.0)) for name, value in first.counters.items()]
    known = [pair for pair in pairs if pair[1] > 0 and pair[2] > 0]
    known.sort(key=lambda pair: -abs(log(pair[2] / pair[1])))
    return [
        Line(name, prefixed(one), prefixed(other), _difference(one, other))
        for name, one, other in known[:COUNTERS_SHOWN]
    ]
