"""The order in which the agent would have heard of past jobs."""

from itertools import pairwise

import msgspec

from agent.reports.backtest.observer import PERIODS, RUNS_OF_PERIOD, moments, period_edges, span
from processors.contracts.events import Evidence, Identity, JobStarted
from tests.kit.scenario import completed, moment_ms


def predicted(*events: object) -> list[str]:
    return [moment.event.identity.split("@")[0] for moment in moments(events)]  # type: ignore[arg-type]


def test_a_log_of_ended_jobs_has_their_starts_in_order_of_time() -> None:
    first = completed("1", moment_ms("10:00"), 7200.0)
    second = completed("2", moment_ms("11:00"), 600.0)
    assert predicted(second, first) == ["started:exa/1", "started:exa/2", "completed:exa/2", "completed:exa/1"]


def test_what_ended_is_known_to_what_starts_at_that_moment() -> None:
    first = completed("1", moment_ms("10:00"), 3600.0)
    second = completed("2", moment_ms("11:00"), 600.0)
    assert predicted(second, first)[:3] == ["started:exa/1", "completed:exa/1", "started:exa/2"]


def test_a_start_that_is_reported_is_not_made_up() -> None:
    end = completed("1", moment_ms("10:00"), 60.0)
    start = JobStarted("exa", job_id="1", run_id=end.run_id, start_ms=end.start_ms, evidence=Evidence(user="mary"))
    found = moments([end, start])
    assert [moment.event for moment in found] == [start, end]


def test_a_repeated_completion_starts_once() -> None:
    end = completed("1", moment_ms("10:00"), 60.0)
    assert predicted(end, end) == ["started:exa/1", "completed:exa/1", "completed:exa/1"]


def test_a_job_that_never_ran_does_not_start() -> None:
    assert predicted(completed("1", moment_ms("10:00"), 0.0, "CANCELLED")) == ["completed:exa/1"]


def test_a_run_shorter_than_a_millisecond_starts_before_it_ends() -> None:
    end = msgspec.structs.replace(completed("1", moment_ms("10:00"), 0.0), run_time_s=0.0001)
    assert predicted(end) == ["started:exa/1", "completed:exa/1"]


def test_other_evidence_keeps_its_place_behind_the_event_it_follows() -> None:
    end = completed("1", moment_ms("10:00"), 60.0)
    start = JobStarted("exa", job_id="1", run_id=end.run_id, start_ms=end.start_ms, evidence=Evidence())
    more = Identity("exa", job_id="1", source="xalt", evidence=Evidence(application="lammps"))
    assert predicted(start, more, end) == ["started:exa/1", "identity:exa/1:xalt", "completed:exa/1"]


def test_periods_hold_equally_many_starts_and_cover_all() -> None:
    found = moments([completed(str(job), moment_ms("10:00") + job * job * 1000, 5.0) for job in range(1000)])
    edges = period_edges(found)
    starts = [moment.time_ms for moment in found if isinstance(moment.event, JobStarted)]
    counts = [sum(low <= start < high for start in starts) for low, high in pairwise(edges)]
    assert len(counts) == PERIODS
    assert sum(counts) == 1000
    assert max(counts) - min(counts) <= 1
    assert (edges[0], edges[-1] - 1) == span(found)


def test_few_runs_make_few_periods() -> None:
    found = moments([completed(str(job), moment_ms("10:00") + job * 1000, 5.0) for job in range(2 * RUNS_OF_PERIOD)])
    assert len(period_edges(found)) == 3
    assert len(period_edges(found, since_ms=moment_ms("10:00:10"))) == 2
    assert period_edges(found, since_ms=moment_ms("10:00:10"))[0] == moment_ms("10:00:10")
    assert period_edges(found, since_ms=moment_ms("09:00"))[0] == moment_ms("10:00")
    assert period_edges(found[:1]) == [moment_ms("10:00"), moment_ms("10:00") + 1]
