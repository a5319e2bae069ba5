"""Jobs on hosts, hosts of partitions and states of hosts: known after the next tick, bounded, the same after a restart."""

from typing import Any

import pytest

from processors.contracts.events import Evidence, HostState, JobCompleted, JobStarted, JournalRecord
from processors.contracts.names import run_id
from processors.contracts.service import Neighbour
from processors.hosts import jobs as hosts_jobs
from processors.hosts.jobs import HostJobs
from processors.pipeline.shard import Shard
from tests.kit.host_minutes import minute
from tests.kit.scenario import DAY_MS, SYSTEM, Scenario

HOUR_MS = 3_600_000


def placed(centre: Scenario | Shard) -> HostJobs:
    shard = centre.shard if isinstance(centre, Scenario) else centre
    return shard.hosts.jobs


def started(job: str, after_ms: int, *hosts: str, **fields: Any) -> JobStarted:
    start_ms = DAY_MS + after_ms
    return JobStarted(SYSTEM, job, run_id(SYSTEM, job, start_ms), start_ms, Evidence(hosts=hosts, **fields))


def ended(start: JobStarted, after_ms: int) -> JobCompleted:
    """Return the end of a run, so long after its start."""
    end_ms, time_s = start.start_ms + after_ms, after_ms / 1000
    return JobCompleted(SYSTEM, start.job_id, start.run_id, start.start_ms, end_ms, time_s, "FAILED", start.evidence)


def prediction(host: str, state: str, after_ms: int) -> HostState:
    return HostState(SYSTEM, host, state, DAY_MS + after_ms)


def centre_with(*events: JobStarted | JobCompleted | HostState, then: str = "09:00") -> Scenario:
    centre = Scenario().at("08:00")
    for event in events:
        centre.fold(event)
    return centre.at(then)


def everything(jobs: HostJobs, *names: str) -> Any:
    return [(jobs.on(SYSTEM, name), jobs.state_of(SYSTEM, name)) for name in names], [
        jobs.of(job) for job in jobs.running()
    ]


def test_a_job_runs_on_its_hosts_from_its_start_to_its_end() -> None:
    start = started("1", 0, "nid[001-002]", "login1")
    jobs = placed(centre_with(start))
    assert [jobs.on(SYSTEM, host) for host in ("nid001", "login1", "nid003")] == [("exa/1",), ("exa/1",), ()]
    assert jobs.of("exa/1") == ("nid001", "nid002", "login1")
    jobs = placed(centre_with(start, ended(start, 60_000)))
    assert (jobs.on(SYSTEM, "nid001"), jobs.of("exa/1"), jobs.running()) == ((), (), ())


def test_the_other_jobs_on_the_hosts_of_a_job_are_its_neighbours() -> None:
    centre = centre_with(
        started("1", 0, "nid[1-4]"),
        started("2", 60_000, "nid[3-6]"),
        started("3", 30_000, "nid4"),
        started("4", 0, "nid9"),
    )
    assert centre.shard.views(SYSTEM).neighbours("1") == [
        Neighbour("2", 2, DAY_MS + 60_000), Neighbour("3", 1, DAY_MS + 30_000),
    ]  # fmt: skip
    assert centre.shard.views(SYSTEM).neighbours("4") == []
    assert centre.shard.views(SYSTEM).neighbours("9") == []


def test_jobs_that_share_a_host_are_shown_the_last_first() -> None:
    jobs = placed(centre_with(started("1", 0, "a"), started("3", 9, "a", "b"), started("2", 9, "a")))
    assert jobs.on(SYSTEM, "a") == ("exa/2", "exa/3", "exa/1")


def test_a_requeued_job_runs_where_its_newest_run_does_whatever_order_it_is_reported_in() -> None:
    first, second = started("1", 0, "a"), started("1", HOUR_MS, "b")
    for events in ((first, second), (second, first), (first, ended(first, 60_000), second), (second, ended(first, 9))):
        jobs = placed(centre_with(*events))
        assert (jobs.on(SYSTEM, "a"), jobs.of("exa/1")) == ((), ("b",))


def test_a_start_that_comes_after_its_end_does_not_begin_the_job_again() -> None:
    start = started("1", 0, "a")
    assert placed(centre_with(ended(start, 60_000), start)).on(SYSTEM, "a") == ()


def test_hosts_of_a_partition_are_those_on_which_its_jobs_ran() -> None:
    start = started("1", 0, "n[3-4]", partition="fat/a")
    jobs = placed(centre_with(start, ended(start, 9), started("2", 0, "n[1-3]", partition="fat/a")))
    assert jobs.hosts_of(SYSTEM, "fat/a") == ("n1", "n2", "n3", "n4")
    assert (jobs.hosts_of(SYSTEM, "thin"), jobs.hosts_of("other", "fat/a")) == ((), ())


def test_a_run_of_which_only_the_end_is_reported_reports_hosts_of_its_partition_too() -> None:
    centre = centre_with(ended(started("1", 0, "n1", partition="fat"), 60_000))
    assert placed(centre).hosts_of(SYSTEM, "fat") == ("n1",)
    assert centre.shard.state.windows.hosts_of(SYSTEM, "fat") == ("n1",)


def test_a_partition_forgets_the_hosts_that_were_not_used_for_the_longest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_jobs, "PARTITION_HOSTS_MAX", 3)
    events = [started(str(i), i, host, partition="fat") for i, host in enumerate(("c", "b", "a", "c", "d"))]
    assert placed(centre_with(*events)).hosts_of(SYSTEM, "fat") == ("a", "c", "d")
    monkeypatch.setattr(hosts_jobs, "PARTITION_TEXT_MAX", 3)
    assert placed(centre_with(started("1", 0, "aa", "bb", "c", partition="fat"))).hosts_of(SYSTEM, "fat") == ("bb", "c")


@pytest.mark.parametrize("hosts", [("n[1-20000]",), ("n[1-",), ("x" * 400_000,)])
def test_a_job_whose_hosts_are_too_many_or_unreadable_is_left_out_and_counted(hosts: tuple[str, ...]) -> None:
    centre = centre_with(started("1", 0, *hosts, partition="fat"), started("2", 0, "n1"))
    assert placed(centre).running() == ("exa/2",)
    assert centre.tally["bound:job_hosts_max"] == 1


def test_hosts_of_all_jobs_together_are_bounded_and_the_bound_holds_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts_jobs, "RETAINED_HOSTS_MAX", 5)
    centre = centre_with(*(started(str(i), i, f"n[{i}0-{i}2]") for i in range(1, 4)))
    assert placed(centre).running() == ("exa/1",)
    assert centre.tally["bound:job_hosts_max"] == 2
    centre.restart()
    assert placed(centre).running() == ("exa/1",)
    centre.fold(started("9", 9, "a", "b"))
    assert placed(centre.at("09:01")).running() == ("exa/1", "exa/9")


def test_too_many_jobs_and_states_push_out_the_longest_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_jobs, "JOBS_MAX", 4)
    monkeypatch.setattr(hosts_jobs, "STATES_MAX", 4)
    events = [each for i in range(9) for each in (started(str(i), i, f"n{i}"), prediction(f"n{i}", "drain", i))]
    centre = centre_with(*events)
    assert len(centre.shard.hosts.state.jobs) == len(centre.shard.hosts.state.conditions) == 4
    assert len(placed(centre).running()) == 4
    assert (centre.tally["bound:host_jobs_max"], centre.tally["bound:host_states_max"]) == (5, 5)


def test_the_state_of_a_host_is_what_was_reported_last() -> None:
    jobs = placed(centre_with(prediction("a", "drain", 5), prediction("a", "up", 9), prediction("a", "down", 7)))
    assert (jobs.state_of(SYSTEM, "a"), jobs.state_of(SYSTEM, "b")) == ("up", "")


def test_an_ended_job_is_forgotten_after_an_hour_and_one_without_an_end_after_a_month() -> None:
    centre = Scenario().at("08:00")
    start, stays = started("1", 8 * HOUR_MS, "a"), started("2", 8 * HOUR_MS, "b")
    for event in (start, ended(start, 9), stays):
        centre.fold(event)
    assert len(centre.at("08:59").shard.hosts.state.jobs) == 2
    assert placed(centre.at("09:10")).running() == ("exa/2",)
    assert len(centre.shard.hosts.state.jobs) == 1
    assert placed(centre.at("31d 08:00")).on(SYSTEM, "b") == ()


def test_all_of_it_is_the_same_after_a_restart() -> None:
    first = started("1", 0, "n[1-2]", partition="fat")
    centre = centre_with(
        first, started("2", 5, "n2", partition="fat"), ended(first, 9), started("3", 7, "n1"), prediction("n1", "down", 7)
    )  # fmt: skip
    before = everything(placed(centre), "n1", "n2")
    centre.restart()
    assert everything(placed(centre), "n1", "n2") == before
    assert placed(centre).hosts_of(SYSTEM, "fat") == ("n1", "n2")


def test_readers_see_the_job_and_the_state_of_a_host_and_the_class_of_its_variation() -> None:
    centre = Scenario().at("08:00")
    number = centre.now_ms // 60_000
    centre.fold(started("1", 0, "n1"))
    centre.fold(prediction("n1", "drain", 0))
    shard = centre.shard
    for name in ("n2", "n1"):
        shard.fold(JournalRecord(minute(name, number, cpu_available=(0.2, 0.6), memory_free=(1e9,))))
    view = centre.at("08:01:30").shard.views(SYSTEM).host("n1")
    assert view is not None
    assert (view.state, view.job, view.as_of) == ("drain", "exa/1", "2026-11-20T08:01:30Z")
    assert [(each.resource, each.variation) for each in view.resources] == [
        ("cpu_available", "medium"), ("memory_free", None),
    ]  # fmt: skip
    assert shard.first_hosts(9) == [(SYSTEM, "n1"), (SYSTEM, "n2")]
    assert shard.first_hosts(1) == [(SYSTEM, "n1")]
