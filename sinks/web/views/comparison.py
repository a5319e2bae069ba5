"""Two runs side by side, with their differences."""

from collections.abc import Callable, Iterator, Sequence
from math import log
from statistics import fmean
from typing import Final
from urllib.parse import unquote

import msgspec

from processors.advice import ALIKE
from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import HostLines, ResourceLine
from processors.contracts.names import measured, prefixed, resource_name
from processors.contracts.nodes import spread
from processors.contracts.service import RecentRun, Service
from sinks.web.charts import band_points
from sinks.web.formatting import View, counted, duration, energy, linked, power, share, sized, when
from sinks.web.queries import BadParameterError, host_page, job_link, key_of, of_predicted
from sinks.web.views.jobs import predicted_text
from sinks.web.views.why import expanded, prediction_before, why_ended

COUNTERS_SHOWN: Final = 8
HOSTS_SHOWN: Final = 12
SAMPLED_HOSTS_MAX: Final = 16  # maximum hosts that are read per run, spread evenly over its hosts
# resources that show the load of a host; nearly every centre measures at least one of them
LOAD_RESOURCES: Final = ("cpu_available", "load1")
SAME: Final = "the same"
UNKNOWN: Final = "-"
Pair = tuple[RecentRun, RecentRun]


MeasuredLoad = tuple[float, float]
"""A resource of a run's hosts during the run: the mean over all hosts, and the mean of the most loaded host."""


class ComparedRow(msgspec.Struct, frozen=True):
    """A row of the comparison: its name, both values, and the difference of the second value from the first."""

    name: str
    first: str
    second: str
    difference: str = ""


def job_named(value: str | None, name: str) -> tuple[str, str]:
    """Return system and id of the job in a parameter; raise BadParameterError if the parameter names no job."""
    system, _, job_id = (value or "").partition("/")
    if not system or not job_id:
        raise BadParameterError(f"{name} has to name a job: SYSTEM/ID.")
    return unquote(system), unquote(job_id)


def comparison(service: Service, first: RecentRun, second: RecentRun) -> View:
    """Return a sentence that compares the second run with the first, the reason for each run time, and rows of values."""
    runs = (first, second)
    hosts, second_hosts = expanded(first.hosts), set(expanded(second.hosts))
    common = [host for host in hosts if host in second_hosts] if first.system == second.system else []
    counts = [counted(len(names), "host") if names else UNKNOWN for names in (hosts, second_hosts)]
    in_common = f"{len(common) or 'none'} in common" if hosts and second_hosts else ""
    return View(
        text=_text(first, second),
        names=[linked(f"{run.system}/{run.job_id}", job_link(run.system, run.job_id)) for run in runs],
        causes=[why_ended(service, run).lead for run in runs],
        rows=[*_rows(runs), *_loads(service, runs), ComparedRow("hosts", counts[0], counts[1], in_common)],
        counters=_counters(first, second),
        hosts=[linked(host, host_page(first.system, host)) for host in common[:HOSTS_SHOWN]],
        hosts_more=max(len(common) - HOSTS_SHOWN, 0),
    )


def _text(first: RecentRun, second: RecentRun) -> str:
    took = _took(first, second)
    differences = list(_differences(first, second))
    if not differences:
        return f"{took}. Application, input and size are the same."
    return f"{took}. They differ in {' and '.join(differences) if len(differences) < 3 else ', '.join(differences)}."


def _took(first: RecentRun, second: RecentRun) -> str:
    if first.run_time_s <= 0:
        return "The run times cannot be compared"
    ratio = second.run_time_s / first.run_time_s
    if abs(ratio - 1) < ALIKE:
        return f"{second.job_id} took as long as {first.job_id}"
    if ratio >= 2:
        return f"{second.job_id} took {ratio:.2g} times as long as {first.job_id}"
    if 0 < ratio <= 0.5:
        return f"{first.job_id} took {1 / ratio:.2g} times as long as {second.job_id}"
    return f"{second.job_id} took {share(abs(ratio - 1))} {'longer' if ratio > 1 else 'less time'} than {first.job_id}"


def _differences(first: RecentRun, second: RecentRun) -> Iterator[str]:
    key, other_key = key_of(first.application_id), key_of(second.application_id)
    if key.application != other_key.application:
        yield "application"
    elif key.input != other_key.input:
        yield "input"
    if (first.n, key.unit) != (second.n, other_key.unit):
        yield "size"
    if first.state != second.state:
        yield "final state"


def _rows(runs: Pair) -> Iterator[ComparedRow]:
    keys = [key_of(run.application_id) for run in runs]
    yield _labels("application", [key.application for key in keys])
    yield _labels("input", [key.input for key in keys])
    sizes = [(run.n, key.unit) for run, key in zip(runs, keys, strict=True)]
    yield _labels("size", ["" if n is None else sized(n, unit) for n, unit in sizes])
    yield _labels("partition", [run.partition or "" for run in runs])
    yield ComparedRow("started", *(f"{when(run.start_ms)} UTC" for run in runs))
    yield _labels("state", [run.state for run in runs])
    yield _numbers("run time", [run.run_time_s for run in runs], duration)
    predicted = (UNKNOWN if run.predicted is None else predicted_text(run.predicted) for run in runs)
    yield ComparedRow("predicted run time", *predicted)
    yield _numbers("run time over prediction", list(map(of_predicted, runs)), _times)
    yield _numbers("mean power of all hosts", [run.power_w for run in runs], power)
    yield _numbers("energy", [run.energy_j for run in runs], energy)
    shared = (share(run.shared) if run.shared else UNKNOWN if run.shared is None else "none" for run in runs)
    yield ComparedRow("time with other jobs on its hosts", *shared)


def _loads(service: Service, runs: Pair) -> Iterator[ComparedRow]:
    before = [prediction_before(service, run) for run in runs]
    factors = [job.under_load.load if job is not None and job.under_load is not None else None for job in before]
    yield _numbers("slow-down predicted from load at the start", factors, _times)
    loads = [measured_load(service, run) for run in runs]
    measured_names = [name for name in LOAD_RESOURCES if any(name in load for load in loads)]
    for resource in measured_names or LOAD_RESOURCES[:1]:
        first, second = (load.get(resource) for load in loads)
        name = f"{resource_name(resource)}, mean of its hosts during the run"
        difference = _difference(first[0], second[0]) if first is not None and second is not None else ""
        yield ComparedRow(name, _load_text(resource, first), _load_text(resource, second), difference)


def measured_load(service: Service, run: RecentRun) -> dict[str, MeasuredLoad]:
    """Return the measured load of a run's hosts by resource; empty if no host still has measurements from that time."""
    try:
        _, names = spread(run.hosts, SAMPLED_HOSTS_MAX)
    except InvalidInputError:
        return {}
    lines = [line for name in names if (line := service.reading(run.system).host_lines(name)) is not None]
    loads = {resource: [*_means(lines, resource, run)] for resource in LOAD_RESOURCES}
    return {
        resource: (fmean(means), min(means) if resource == "cpu_available" else max(means))
        for resource, means in loads.items()
        if means
    }


def _means(lines: Sequence[HostLines], resource: str, run: RecentRun) -> Iterator[float]:
    """Yield the mean of a resource during a run for each host that measured it at that time."""
    for host_lines in lines:
        values = _within(host_lines.day, resource, run) or _within(host_lines.hour, resource, run)
        if values:
            yield fmean(values)


def _within(line: ResourceLine, resource: str, run: RecentRun) -> list[float]:
    points = band_points(line, resource)
    return [point.mean for point in points if run.start_ms <= (point.start_ms + point.stop_ms) / 2 <= run.end_ms]


def _load_text(resource: str, load: MeasuredLoad | None) -> str:
    if load is None:
        return UNKNOWN
    mean, worst = (measured(resource, value) for value in load)
    return mean if mean == worst else f"{mean} ({worst} on the most loaded host)"


def _labels(name: str, texts: Sequence[str]) -> ComparedRow:
    first, second = texts
    difference = "differs" if first != second else SAME if first else ""
    return ComparedRow(name, first or UNKNOWN, second or UNKNOWN, difference)


def _numbers(name: str, values: Sequence[float | None], formatter: Callable[[float], str]) -> ComparedRow:
    first, second = (UNKNOWN if value is None else formatter(value) for value in values)
    return ComparedRow(name, first, second, _difference(*values))


def _times(value: float) -> str:
    return f"{value:.2f} times"


def _difference(first: float | None, second: float | None) -> str:
    if not first or second is None or first <= 0:
        return ""
    ratio = second / first
    if abs(ratio - 1) < ALIKE:
        return SAME
    return f"{ratio:.2g} times" if ratio >= 2 else f"{share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"


def _counters(first: RecentRun, second: RecentRun) -> list[ComparedRow]:
    rates = [(name, value, second.counters.get(name, 0.0)) for name, value in first.counters.items()]
    positive = [row for row in rates if row[1] > 0 and row[2] > 0]
    positive.sort(key=lambda row: -abs(log(row[2] / row[1])))
    return [ComparedRow(name, prefixed(a), prefixed(b), _difference(a, b)) for name, a, b in positive[:COUNTERS_SHOWN]]
