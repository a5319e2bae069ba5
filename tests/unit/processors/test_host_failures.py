"""Whether a host fails runs that their applications would not have failed."""

import pytest

from processors.contracts.alerts import AlertSettings
from processors.facts import Outcome
from processors.jobs.memory import FailureRate, FailureState, HostFailureRate, HostFailureState, at_least
from processors.store import digest64


def host(*outcomes: tuple[bool, float, float]) -> HostFailureRate:
    """Return a host with outcomes (failed, expected, share) of runs of two applications in turn."""
    rate = HostFailureRate(AlertSettings().failure_rate, HostFailureState())
    for i, (failed, expected, share) in enumerate(outcomes):
        rate.learn(Outcome(f"r{i}", failed, f"a{i % 2}", expected, share))
    return rate


def test_failures_that_nothing_lets_expect_are_the_hosts() -> None:
    judged = host(*[(True, 0.03, 1.0)] * 6, *[(False, 0.03, 0.0)] * 14).score(100)
    assert (judged.recent_failures, judged.recent_runs, judged.causes, judged.credible) == (6, 20, 2, True)
    assert judged.expected_rate == pytest.approx(0.6 / 20)


def test_failures_that_the_applications_have_elsewhere_are_not() -> None:
    assert not host(*[(True, 0.4, 1.0)] * 9, *[(False, 0.4, 0.0)] * 11).score(100).credible


def test_failures_are_shared_among_the_hosts_of_a_job() -> None:
    judged = host(*[(True, 0.03, 1 / 16)] * 10).score(100)
    assert (judged.recent_failures, judged.credible) == (0, False)


def test_what_is_rare_on_one_host_is_usual_on_one_of_ten_thousand() -> None:
    rate = host(*[(True, 0.05, 1.0)] * 4, *[(False, 0.05, 0.0)] * 16)
    assert 1e-2 < 1 - rate.score(1).credibility < 2e-2
    rare = host(*[(True, 0.05, 1.0)] * 6, *[(False, 0.05, 0.0)] * 14)
    assert (rare.score(10).credible, rare.score(10_000).credible) == (True, False)


def test_what_an_application_turns_out_to_do_everywhere_is_no_news_of_its_former_runs() -> None:
    rate = host(*[(True, 0.03, 1.0)] * 5, *[(False, 0.03, 0.0)] * 5)
    for name in ("a0", "a1"):
        rate.expect(digest64(name), 0.5)
    assert not rate.score(100).credible
    rate.expect(digest64("a0"), 0.01)
    assert rate.score(100).expected_rate == pytest.approx(0.5), "it is never taken back"


def test_blame_goes_to_the_host_whose_runs_failed_before() -> None:
    broken, sound = host((True, 0.03, 0.25), (True, 0.03, 0.4)), host(*[(False, 0.03, 0.0)] * 10)
    assert sound.odds() < 1.0
    assert broken.odds() > 10.0


def test_a_failure_that_was_corrected_counts_no_more() -> None:
    rate = host(*[(True, 0.03, 1.0)] * 3)
    rate.correct("r0", Outcome("r0", failed=False, of="a0", expected=0.03))
    assert (rate.suspicious(), rate.score(1).recent_failures) == (False, 2)
    rate.correct("other", Outcome("other", failed=True))
    assert rate.score(1).recent_runs == 3


def test_the_sum_of_events_of_unlike_probability() -> None:
    assert at_least(0, [0.1, 0.2]) == 1.0
    assert at_least(1, [0.1, 0.2]) == pytest.approx(1 - 0.9 * 0.8)
    assert at_least(2, [0.1, 0.2]) == pytest.approx(0.02)
    assert at_least(3, [0.1, 0.2]) == 0.0


def test_a_run_that_is_left_out_twice_is_left_out_once() -> None:
    rate = FailureRate(AlertSettings().failure_rate, FailureState())
    rate.learn(Outcome("r1", failed=True))
    run = digest64("r1")
    assert rate.expected((run, run)) == rate.expected((run,)) == 0.5
