"""What is wrong with a host, as a state: which runs it explains."""

import numpy as np

from processors.hosts.peers import HostCauses

MINUTE_MS = 60_000
ROW = np.array([0])


def slow_since(minute: int) -> HostCauses:
    causes = HostCauses()
    causes.grow(1)
    causes.begin(0, "differing_ms", minute * MINUTE_MS, (minute + 5) * MINUTE_MS)
    return causes


def explains(causes: HostCauses, start: int, end: int) -> bool:
    return causes.explains(0, "n1", start * MINUTE_MS, end * MINUTE_MS) is not None


def test_a_run_is_explained_that_was_on_the_host_while_something_was_wrong_with_it() -> None:
    causes = slow_since(100)
    assert not explains(causes, 50, 99)
    assert explains(causes, 50, 100)


def test_what_began_goes_on_while_nobody_can_compare_the_host() -> None:
    causes = slow_since(100)
    assert explains(causes, 5_000, 5_010), "nothing says that it is over"


def test_what_is_over_explains_runs_up_to_when_it_was_seen_last() -> None:
    causes = slow_since(100)
    causes.rows["until_ms"][ROW] = 200 * MINUTE_MS
    causes.end(ROW, "differing_ms")
    assert explains(causes, 150, 250)
    assert not explains(causes, 201, 250)


def test_jobs_that_met_it_are_counted_once_each_and_anew_with_the_next_cause() -> None:
    causes = slow_since(100)
    assert [causes.met(0, job) for job in (7, 7, 8)] == [1, 1, 2]
    causes.end(ROW, "differing_ms")
    causes.begin(0, "odd_ms", 900 * MINUTE_MS, 901 * MINUTE_MS)
    assert causes.met(0, 9) == 1
    assert not explains(causes, 300, 400)
