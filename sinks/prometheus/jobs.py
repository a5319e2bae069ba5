"""Running jobs as metrics, by partition: how many will hit their limit, and when their nodes will be free."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import RunningJob, hits
from processors.contracts.service import Service
from sinks.prometheus.registry import gauge
from sinks.prometheus.table import JOBS, OTHER, WITHIN

PARTITIONS_MAX: Final = 64  # with series of their own: those with the most jobs
HOUR_MS: Final = 3_600_000
Place = tuple[str, str]  # system and partition
_WITHIN_MS: Final = tuple((label, int(label.removesuffix("h")) * HOUR_MS) for label in WITHIN)


class Running(msgspec.Struct):
    """The running jobs of a partition; `free` counts nodes of theirs that will be free by each of WITHIN."""

    predicted: int = 0
    unknown: int = 0
    hit_limit: int = 0
    nodes: int = 0
    free: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(WITHIN, 0))

    def add(self, job: RunningJob, now_ms: int) -> None:
        """Take a job in. One without a predicted end frees no node that anybody could plan with."""
        nodes = job.nodes or 0
        self.predicted += job.known
        self.unknown += not job.known
        self.hit_limit += hits(job.probability_exceeds_limit, session=job.session)
        self.nodes += nodes
        if job.end is not None:
            left_ms = parse_rfc3339(job.end) - now_ms
            for label, within_ms in _WITHIN_MS:
                self.free[label] += nodes if left_ms <= within_ms else 0


class JobCollector(Collector):
    """Running jobs by system and partition; series: at most 7 times `partitions_max` + 1, whatever does not fit is "other".

    `now_ms` gives the present in the time that the jobs live in.
    """

    def __init__(self, service: Service, now_ms: Callable[[], int], partitions_max: int = PARTITIONS_MAX) -> None:
        self._service, self._now_ms, self._partitions_max = service, now_ms, partitions_max

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples: registration must not ask the service."""
        return [gauge(declaration) for declaration in JOBS]

    def collect(self) -> Iterator[Metric]:
        """Yield the families with samples."""
        jobs, families = self._service.running(), {entry.name: gauge(entry) for entry in JOBS}
        for place, running in by_partition(jobs, self._now_ms(), self._partitions_max).items():
            add(families, place, running)
        yield from families.values()


def by_partition(jobs: Sequence[RunningJob], now_ms: int, partitions_max: int) -> dict[Place, Running]:
    """Return what runs in each partition; those with the fewest jobs are one where there are too many."""
    found: dict[Place, list[RunningJob]] = {}
    for job in jobs:
        found.setdefault((job.system, job.partition or ""), []).append(job)
    largest = sorted(found, key=lambda place: (-len(found[place]), place))[:partitions_max]
    shown: dict[Place, Running] = {}
    for place, own in sorted(found.items()):
        running = shown.setdefault(place if place in largest else (OTHER, OTHER), Running())
        for job in own:
            running.add(job, now_ms)
    return shown


def add(families: dict[str, GaugeMetricFamily], place: Place, running: Running) -> None:
    """Add the samples of a partition."""
    families["scalewatch_running_jobs"].add_metric([*place, "predicted"], running.predicted)
    families["scalewatch_running_jobs"].add_metric([*place, "unknown"], running.unknown)
    families["scalewatch_running_jobs_hit_limit"].add_metric(place, running.hit_limit)
    families["scalewatch_running_nodes"].add_metric(place, running.nodes)
    for label, nodes in running.free.items():
        families["scalewatch_running_nodes_free"].add_metric([*place, label], nodes)
