"""Running jobs as metrics: bounded by partition, in the time of the jobs, and as the list of jobs marks them."""

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import JobPrediction
from sinks.prometheus.registry import JobCollector, Metrics
from tests.kit.messages import job
from tests.kit.service import FixedService

NOW_MS = parse_rfc3339("2026-11-20T10:00:00Z")
Seen = dict[tuple[str, ...], float]


def scraped(*jobs: JobPrediction, partitions_max: int = 64) -> dict[str, Seen]:
    metrics = Metrics(formats=(), reasons=(), processors=())
    metrics.register(JobCollector(FixedService(jobs=jobs), lambda: NOW_MS, partitions_max))
    families = text_string_to_metric_families(metrics.exposition().decode())
    found = {
        each.name: {
            tuple(one.labels.get(name, "") for name in ("system", "partition"))
            + tuple(one.labels[name] for name in ("end", "within") if name in one.labels): one.value
            for one in each.samples
        }
        for each in families
    }
    return {name.removeprefix("scalewatch_running_"): seen for name, seen in found.items() if "_running_" in name}


def running(
    job_id: str, end: str | None, nodes: int | None, chance: float | None = 0.1, partition: str = "batch"
) -> JobPrediction:
    return job(
        system="exa", job_id=job_id, end=end, nodes=nodes, partition=partition, known=end is not None,
        probability_exceeds_limit=chance,
    )  # fmt: skip


def test_nodes_are_free_when_the_jobs_that_hold_them_have_ended() -> None:
    seen = scraped(
        running("1", "2026-11-20T10:59:00Z", 4),
        running("2", "2026-11-20T13:00:00Z", 8),
        running("3", "2026-11-21T10:00:00Z", 16),
        running("4", None, 32),
    )
    assert seen["nodes"] == {("exa", "batch"): 60}
    free = {within: seen["nodes_free"]["exa", "batch", within] for within in ("1h", "4h", "12h")}
    assert free == {"1h": 4, "4h": 12, "12h": 12}
    assert seen["jobs"] == {("exa", "batch", "predicted"): 3, ("exa", "batch", "unknown"): 1}


def test_jobs_that_will_hit_their_limit_are_counted_by_partition() -> None:
    end = "2026-11-20T10:59:00Z"
    seen = scraped(
        running("1", end, 1, 0.9), running("2", end, 1, 0.6), running("3", end, 1, 0.5), running("4", end, 1, None),
        running("5", end, 1, 0.99, partition="debug"),
    )  # fmt: skip
    assert seen["jobs_hit_limit"] == {("exa", "batch"): 2, ("exa", "debug"): 1}


def test_partitions_beyond_the_bound_are_one() -> None:
    end = "2026-11-20T10:59:00Z"
    jobs = [running(f"{i}-{j}", end, 2, partition=f"p{i}") for i in range(5) for j in range(5 - i)]
    seen = scraped(*jobs, partitions_max=2)
    assert seen["nodes"] == {("exa", "p0"): 10, ("exa", "p1"): 8, ("other", "other"): 12}


def test_a_job_of_an_unknown_size_holds_no_nodes_that_anybody_could_plan_with() -> None:
    seen = scraped(running("1", "2026-11-20T10:59:00Z", None))
    assert (seen["nodes"], seen["nodes_free"]["exa", "batch", "12h"]) == ({("exa", "batch"): 0}, 0)


def test_a_session_that_will_meet_its_limit_is_not_counted_as_hitting_it() -> None:
    session = msgspec.structs.replace(running("1", "2026-11-20T10:59:00Z", 1, 0.9), session=True)
    assert scraped(session)["jobs_hit_limit"] == {("exa", "batch"): 0}
