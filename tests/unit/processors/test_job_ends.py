"""When a running job ends: a log-normal law, given that the job still runs."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.facts import EndForecast, forecast, noteworthy


def test_at_its_start_a_job_is_told_what_was_published() -> None:
    said = forecast(100, 80, 125, elapsed_s=0, limit_s=None)
    assert (said.run_time_s, round(said.low_s, 6), round(said.high_s, 6), said.exceeds) == (100.0, 80.0, 125.0, None)


def test_half_of_all_jobs_exceed_their_median() -> None:
    assert forecast(100, 80, 125, elapsed_s=0, limit_s=100.0).exceeds == pytest.approx(0.5)
    assert forecast(100, 80, 125, elapsed_s=0, limit_s=125.0).exceeds == pytest.approx(0.05)


def test_the_chance_is_that_of_jobs_that_still_run() -> None:
    unknown = forecast(100, 80, 125, elapsed_s=0, limit_s=125.0).exceeds
    late = forecast(100, 80, 125, elapsed_s=100, limit_s=125.0).exceeds
    assert unknown is not None
    assert late == pytest.approx(2 * unknown), (
        "half of the jobs have ended by then, none of those that exceed the limit"
    )


def test_a_job_that_has_reached_its_limit_exceeds_it() -> None:
    assert forecast(100, 80, 125, elapsed_s=130, limit_s=125.0).exceeds == 1.0


def test_the_longer_a_job_runs_the_later_it_ends() -> None:
    told = [forecast(100, 80, 125, elapsed_s=elapsed_s, limit_s=150.0) for elapsed_s in range(0, 400, 10)]
    for earlier, later in pairwise(told):
        assert later.run_time_s >= earlier.run_time_s - 1e-9
        assert (later.exceeds or 0) >= (earlier.exceeds or 0) - 1e-9


SECONDS = st.floats(1e-3, 1e9)


@given(SECONDS, st.floats(1e-300, 1.0), st.floats(1.0, 1e300), st.floats(0, 1e10), st.none() | st.floats(-1, 1e308))
def test_no_numbers_give_a_forecast_that_is_none(
    run_time_s: float, low: float, high: float, elapsed_s: float, limit_s: float | None
) -> None:
    low_s, high_s = max(run_time_s * low, 1e-300), min(run_time_s * high, 1e300)
    said = forecast(run_time_s, low_s, high_s, elapsed_s, limit_s)
    assert said.low_s <= said.run_time_s <= said.high_s
    assert all(math.isfinite(number) for number in (said.low_s, said.run_time_s, said.high_s))
    assert said.exceeds is None or 0 <= said.exceeds <= 1
    assert said.high_s >= elapsed_s or said.high_s == pytest.approx(elapsed_s)


def test_changes_below_two_per_cent_are_not_worth_a_message() -> None:
    old = (100.0, 80.0, 125.0)
    assert not noteworthy(old, EndForecast(101.0, 80.5, 126.0, None))
    assert noteworthy(old, EndForecast(103.0, 80.0, 125.0, None))
    assert noteworthy(old, EndForecast(100.0, 80.0, 129.0, None))
    assert noteworthy(None, EndForecast(100.0, 80.0, 125.0, None))
