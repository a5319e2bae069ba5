"""How loaded the hosts of a run were: by what was known at its start, and by what they measured while it ran."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import HostLines, Line
from processors.contracts.load import UnderLoad
from processors.contracts.names import measured, parse_rfc3339
from processors.contracts.nodes import spread
from processors.contracts.outputs import JobPrediction, RecentRun
from processors.contracts.service import Service

HOSTS_MAX: Final = 16  # of a run that are asked: of more, so many spread evenly
BANDWIDTH: Final = "bandwidth"
MEASURED: Final = ("cpu_available", "load1")  # what tells the load of a host, and is measured nearly everywhere


class MeasuredLoad(msgspec.Struct, frozen=True):
    """A resource of the hosts of a run while it ran: the mean of all, and that of the host with the most load."""

    mean: float
    worst: float


def prediction_before(service: Service, run: RecentRun) -> JobPrediction | None:
    """Return what was predicted of a run while it ran; None where that is no longer known."""
    found = service.ended(run.system, run.job_id)
    return found if found is not None and parse_rfc3339(found.start) == run.start_ms else None


def stretched_by(service: Service, run: RecentRun) -> float | None:
    """Return how many times as long as on idle hosts a run was to take by the load at its start; None where nobody knows."""
    before = prediction_before(service, run)
    return before.under_load.load if before is not None and before.under_load is not None else None


def bandwidth_left(load: UnderLoad) -> str:
    """Return what the host has left that has least bandwidth, and what is usual."""
    usual = "" if load.baseline_bandwidth is None else f", usually {measured(BANDWIDTH, load.baseline_bandwidth)}"
    return f"{measured(BANDWIDTH, load.bandwidth)}{usual}"


def is_of_network(load: UnderLoad) -> bool:
    """Return whether the network of its hosts stretches a run by more than their processors do."""
    share, left, usual = load.communication_share, load.bandwidth, load.baseline_bandwidth
    if not share or not left or not usual or load.load is None:
        return False
    by_network, by_load = usual / left, math.pow(load.load / load.baseline_load, load.follows)
    return share * (by_network - 1) > (1 - share) * (by_load - 1)


def measured_load(service: Service, run: RecentRun) -> dict[str, MeasuredLoad]:
    """Return what the hosts of a run measured of their load while it ran, by resource; nothing where no line goes back so far."""
    try:
        _, names = spread(run.hosts, HOSTS_MAX)
    except InvalidInputError:
        return {}
    lines = [found for name in names if (found := service.host_lines(run.system, name)) is not None]
    loads = {resource: [*_means(lines, resource, run)] for resource in MEASURED}
    return {
        resource: MeasuredLoad(fmean(means), min(means) if resource == "cpu_available" else max(means))
        for resource, means in loads.items()
        if means
    }


def _means(lines: Sequence[HostLines], resource: str, run: RecentRun) -> Iterator[float]:
    """Yield the mean of a resource over the time of a run, of each host that measured it then."""
    for of_host in lines:
        found = _within(of_host.day, resource, run) or _within(of_host.hour, resource, run)
        if found:
            yield fmean(found)


def _within(line: Line, resource: str, run: RecentRun) -> list[float]:
    band = line.resources.get(resource)
    if band is None:
        return []
    step_ms = line.step_s * 1000
    middles = (line.start_ms + place * step_ms + step_ms / 2 for place in range(len(band.mean)))
    pairs = zip(middles, band.mean, strict=True)
    return [mean for time_ms, mean in pairs if mean is not None and run.start_ms <= time_ms <= run.end_ms]
