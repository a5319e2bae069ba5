"""Hosts unlike their peers on a real job: none is, and one that is slowed is found.

The job of 32 hosts over a day is in `telemetry/clustercockpit` of the data, a value a minute. From its middle on, one host
is slowed: its clock, load and power fall by a share.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.alerts.rules import PEER_DIFFERENCE
from processors.contracts.alerts import AlertSettings
from processors.contracts.events import Evidence, JobStarted
from processors.contracts.outputs import Alert
from processors.contracts.settings import JobSettings, RunTimeSettings
from processors.hosts.jobs import HostJobs
from processors.hosts.windows import MinuteBatch
from processors.pipeline.host_alerts import HostAlerts
from processors.pipeline.host_state import HostShardState
from processors.pipeline.state import FoldSettings

NAMES: Final = {"cpu_load": "load1", "rapl_power": "power_w", "clock": "clock"}
MINUTE_MS: Final = 60_000
Job = dict[str, npt.NDArray[np.float64]]  # host -> (resources, minutes), resources in the order of NAMES


def read(path: Path) -> Job:
    """Return what the hosts of a job measured."""
    with gzip.open(path, "rt") as file:
        data = json.load(file)
    found: dict[str, list[list[float]]] = {}
    for name in NAMES:
        for series in data[name]["node"]["series"]:
            found.setdefault(series["hostname"], []).append(series["data"])
    return {host: np.array(values, np.float64) for host, values in sorted(found.items())}


def reported_hosts(job: Job) -> list[tuple[int, str]]:
    """Return the stragglers that are reported: minute and host."""
    state = HostShardState(FoldSettings(JobSettings(), RunTimeSettings(), AlertSettings(), "quality"))
    jobs, found = HostJobs(state), list[tuple[int, str]]()
    part = HostAlerts(state, jobs)
    jobs.started(JobStarted("exa", "1", "exa/1@0", 0, Evidence(hosts=tuple(job))))
    for minute in range(next(iter(job.values())).shape[1]):
        rows = np.array(
            [
                state.index.enter("exa", host, name, minute * MINUTE_MS) or (0, 0)
                for host in job
                for name in NAMES.values()
            ]
        )
        means = np.full((len(rows), 6), np.nan)
        means[:, 0] = np.concatenate([values[:, minute] for values in job.values()])
        part.take(MinuteBatch(rows[:, 0], rows[:, 1], np.full(len(rows), minute * MINUTE_MS), means))
        before_ms, state.now_ms = state.now_ms, (minute + 1) * MINUTE_MS + 20_000
        firing = [alert for alert in part.tick(before_ms) if isinstance(alert, Alert) and alert.status == "firing"]
        found += [
            (minute, alert.labels["host"]) for alert in firing if alert.labels["alertname"] == PEER_DIFFERENCE.name
        ]
    return found


def slowed(job: Job, host: str, share: float, since: int) -> Job:
    """Return the job with a host slowed from a minute on."""
    values = job[host].copy()
    values[:, since:] *= 1.0 - share
    return {**job, host: values}


def table(folder: Path) -> Iterator[str]:
    """Yield what is reported the job as it was, and with a host slowed by some shares."""
    for path in sorted(folder.glob("*/data.json.gz")):
        job = read(path)
        minutes = next(iter(job.values())).shape[1]
        host, since = list(job)[len(job) // 2], minutes // 2
        yield f"job of {len(job)} hosts, {minutes / 60:.0f} h: {len(reported_hosts(job))} stragglers are told of"
        for share in (0.1, 0.2, 0.3):
            found = reported_hosts(slowed(job, host, share, since))
            mine = [minute - since + 1 for minute, name in found if name == host]
            when = f"told after {mine[0]} min" if mine else "not told"
            yield f"a host slowed by {100 * share:.0f} %: {when}; {len(found) - len(mine)} others"
