"""A log played through EASY backfilling: who waits, for how long, and what decides it."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reports.backtest.waits import (
    EasyMachine,
    LastTwoJobs,
    Order,
    Perfect,
    QueuedJob,
    RequestedTimes,
    Start,
    queue_of,
    scheduling,
)
from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence, JobCompleted

ORDERS: tuple[Order, ...] = ("first_come", "shortest_first")


def completed(job_id: str, submit_s: float, nodes: float, run_time_s: float, limit_s: float | None) -> JobCompleted:
    start_ms = round(submit_s * 1000)
    evidence = Evidence(sizes={"nodes": nodes} if nodes else {}, user="mary", time_limit_s=limit_s, submit_ms=start_ms)
    end_ms = start_ms + round(run_time_s * 1000)
    return JobCompleted("exa", job_id, f"exa/{job_id}", start_ms, end_ms, run_time_s, "COMPLETED", evidence)


def queue(*jobs: tuple[float, float, float, float]) -> list[QueuedJob]:
    """Return jobs of (submit, nodes, run time, limit)."""
    return list(queue_of([completed(str(n), *job) for n, job in enumerate(jobs)], 1000.0).jobs)


def starts(
    nodes: float, order: Order, jobs: list[QueuedJob], estimates: RequestedTimes | LastTwoJobs
) -> dict[str, float]:
    return {start.job.event.job_id: start.start_s for start in EasyMachine(nodes, order).run(jobs, estimates)}


def test_jobs_that_fit_start_when_they_come() -> None:
    assert starts(10, "first_come", queue((0, 4, 100, 100), (5, 6, 100, 100)), RequestedTimes()) == {"0": 0, "1": 5}


def test_a_short_job_fills_the_gap_in_front_of_a_wide_one_and_a_long_one_waits() -> None:
    jobs = queue((0, 6, 100, 100), (1, 8, 50, 50), (2, 4, 90, 90), (3, 4, 100, 100))
    assert starts(10, "first_come", jobs, RequestedTimes()) == {"0": 0, "2": 2, "1": 100, "3": 150}


def test_a_long_job_goes_first_where_enough_nodes_are_left_beside_the_wide_one() -> None:
    jobs = queue((0, 6, 100, 100), (1, 8, 50, 50), (2, 2, 900, 900))
    assert starts(10, "first_come", jobs, RequestedTimes()) == {"0": 0, "2": 2, "1": 100}


def test_a_limit_that_is_too_long_costs_a_place_that_the_real_run_time_would_have_got() -> None:
    jobs = queue((0, 6, 100, 100), (1, 8, 50, 50), (2, 4, 10, 500))
    assert starts(10, "first_come", jobs, RequestedTimes())["2"] == 150
    assert starts(10, "first_come", jobs, Perfect())["2"] == 2


def test_the_shortest_of_those_that_wait_goes_first_where_that_is_asked() -> None:
    jobs = queue((0, 6, 100, 100), (1, 10, 50, 50), (2, 3, 90, 90), (2, 3, 20, 20))
    assert starts(10, "first_come", jobs, RequestedTimes()) == {"0": 0, "2": 2, "1": 100, "3": 150}
    assert starts(10, "shortest_first", jobs, RequestedTimes()) == {"0": 0, "3": 2, "1": 100, "2": 150}


def test_a_job_that_goes_on_beyond_what_was_expected_puts_off_who_waits_for_it_and_is_not_ended() -> None:
    jobs = queue((0, 10, 60, 1000), (100, 10, 300, 1000), (110, 10, 5, 1000), (500, 1, 5, 1000))
    found = starts(10, "first_come", jobs, LastTwoJobs())
    assert found == {"0": 0, "1": 100, "2": 400, "3": 500}, "60 s were expected of the second"


JOBS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(1, 16), st.integers(1, 300), st.integers(1, 400)),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize("order", ORDERS)
@given(JOBS)
def test_every_job_runs_once_and_the_machine_is_never_too_full(
    order: Order, jobs: list[tuple[int, int, int, int]]
) -> None:
    for estimates in (RequestedTimes(), Perfect(), LastTwoJobs()):
        found = list(EasyMachine(16.0, order).run(queue(*jobs), estimates))
        assert Counter(start.job.event.job_id for start in found) == Counter(str(n) for n in range(len(jobs)))
        assert all(start.start_s >= start.job.submit_s for start in found)
        assert max(held(found)) <= 16


@given(JOBS)
def test_nobody_who_came_first_waits_for_longer_because_others_fill_gaps(jobs: list[tuple[int, int, int, int]]) -> None:
    """With real run times the first of a full queue starts no later than without any filling of gaps."""
    coming = queue(*jobs)
    found = starts(16.0, "first_come", coming, Perfect())
    first_blocked = next((job for job in coming if found[job.event.job_id] > job.submit_s), None)
    if first_blocked is not None:
        alone = starts(16.0, "first_come", coming[: coming.index(first_blocked) + 1], Perfect())
        assert found[first_blocked.event.job_id] == alone[first_blocked.event.job_id]


def held(found: list[Start]) -> Iterator[float]:
    changes = [(start.start_s, 1, start.job.nodes) for start in found]
    changes += [(start.start_s + start.job.run_time_s, 0, -start.job.nodes) for start in found]
    total = 0.0
    for _, _, nodes in sorted(changes):
        total += nodes
        yield total


def test_without_a_size_the_machine_is_as_large_as_the_log_used_at_once() -> None:
    jobs = [completed("1", 0, 4, 100, 200), completed("2", 50, 3, 100, 200), completed("3", 150, 5, 10, 20)]
    assert (queue_of(jobs, None).size, queue_of(jobs, None).size_given) == (7.0, False)
    assert (queue_of(jobs, 32.0).size, queue_of(jobs, 32.0).size_given) == (32.0, True)


def test_jobs_without_size_or_limit_and_those_that_never_fit_are_counted() -> None:
    jobs = [
        completed("1", 0, 4, 100, 200),
        completed("2", 0, 0, 100, 200),
        completed("3", 0, 4, 100, None),
        completed("4", 0, 64, 100, 200),
        completed("5", 0, 4, 0, 200),
    ]
    found = queue_of(jobs, 8.0)
    assert [job.event.job_id for job in found.jobs] == ["1"]
    assert found.left_out == {"no-size": 1, "no-limit": 1, "larger-than-the-machine": 1}


def test_a_log_that_no_scheduler_can_be_played_with_is_refused() -> None:
    with pytest.raises(ConfigError, match="No job of the files has a size and a time limit"):
        queue_of([completed("1", 0, 4, 100, None)], None)
    other = completed("2", 0, 4, 100, 200)
    two = JobCompleted("other", "1", "other/1", 0, 1000, 1.0, "COMPLETED", other.evidence)
    with pytest.raises(ConfigError, match=r"several systems \(exa, other\)"):
        queue_of([other, two], None)


def test_the_figures_are_those_of_the_waits_and_earlier_jobs_are_played_not_scored() -> None:
    jobs = [completed("1", 0, 4, 100, 100), completed("2", 10, 4, 5, 100), completed("3", 20, 4, 100, 100)]
    whole = scheduling(queue_of(jobs, 4.0), Perfect)
    by = {(row.source, row.order): row for row in whole.waits}
    requested = by["requested", "first_come"]
    assert requested.wait_mean_s == (0 + 90 + 85) / 3
    assert requested.bounded_slowdown == pytest.approx((1 + 95 / 10 + 185 / 100) / 3)
    assert requested.utilisation == 1.0
    assert requested.too_short == 0
    assert by["last_two", "first_come"].too_short == 0
    assert [period.wait_mean_s["requested"] for period in whole.periods] == [requested.wait_mean_s]
    late = scheduling(queue_of(jobs, 4.0), Perfect, since_ms=15_000)
    assert (late.jobs, late.scored, late.waits[0].wait_mean_s) == (3, 1, 85.0)
