"""When a running job ends: a log-normal law, given that the job still runs."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.facts import Band, noteworthy, remaining

PUBLISHED = Band(100.0, 80.0, 125.0)


def test_at_its_start_a_job_is_shown_what_was_published() -> None:
    lopsided = Band(100.0, 80.0, 300.0)
    for band in (PUBLISHED, lopsided):
        found = remaining(band, elapsed_s=0, limit_s=None)
        assert (found.band, found.exceeds_limit) == (band, None)


def test_quartiles_lie_between_the_ends_and_the_middle_and_half_of_the_jobs_between_them() -> None:
    at_start, later = (remaining(PUBLISHED, elapsed_s=elapsed_s, limit_s=None) for elapsed_s in (0, 100))
    assert at_start.quantiles_s == pytest.approx((80, 100 * 0.8**0.41, 100, 100 * 1.25**0.41, 125), rel=1e-3)
    assert list(later.quantiles_s) == sorted(later.quantiles_s)
    assert later.quantiles_s[0] > 100
    assert remaining(PUBLISHED, elapsed_s=0, limit_s=later.quantiles_s[1]).exceeds_limit == pytest.approx(0.75 / 2)


def test_half_of_all_jobs_exceed_their_median() -> None:
    assert remaining(PUBLISHED, elapsed_s=0, limit_s=100.0).exceeds_limit == pytest.approx(0.5)
    assert remaining(PUBLISHED, elapsed_s=0, limit_s=125.0).exceeds_limit == pytest.approx(0.05)


def test_the_chance_is_that_of_jobs_that_still_run() -> None:
    unknown = remaining(PUBLISHED, elapsed_s=0, limit_s=125.0).exceeds_limit
    late = remaining(PUBLISHED, elapsed_s=100, limit_s=125.0).exceeds_limit
    assert unknown is not None
    assert late == pytest.approx(2 * unknown), (
        "half of the jobs have ended by then, none of those that exceed the limit"
    )


def test_a_job_that_has_reached_its_limit_exceeds_it() -> None:
    for elapsed_s in (130, 5470):
        assert remaining(PUBLISHED, elapsed_s=elapsed_s, limit_s=125.0).exceeds_limit == 1.0


def test_the_longer_a_job_runs_the_later_it_ends() -> None:
    reported = [remaining(PUBLISHED, elapsed_s=elapsed_s, limit_s=150.0) for elapsed_s in range(0, 400, 10)]
    for earlier, later in pairwise(reported):
        assert later.band.run_time_s >= earlier.band.run_time_s - 1e-9
        assert (later.exceeds_limit or 0) >= (earlier.exceeds_limit or 0) - 1e-9


def test_a_job_that_has_long_outlived_its_band_may_go_on_for_anything_between_a_twentieth_and_twenty_times_as_long() -> (
    None
):
    """Before, its end was told to be now, with a band of no width, for as long as it ran."""
    for elapsed_s in (400.0, 4000.0, 4e6):
        found = remaining(PUBLISHED, elapsed_s, limit_s=None).band
        assert found.low_s == pytest.approx(elapsed_s / 0.95, rel=0.01)
        assert found.run_time_s == pytest.approx(2 * elapsed_s, rel=0.01)
        assert found.high_s == pytest.approx(20 * elapsed_s, rel=0.01)


def test_what_outlives_its_band_is_ended_at_its_limit() -> None:
    found = remaining(PUBLISHED, 400.0, limit_s=1000.0)
    assert found.band.high_s == 1000.0
    assert found.exceeds_limit == pytest.approx(0.4, abs=0.01)


def test_just_beyond_its_band_a_job_is_still_expected_to_end_soon() -> None:
    found = remaining(PUBLISHED, 126.0, limit_s=None).band
    assert 126 < found.low_s < found.run_time_s < 140
    assert 150 < found.high_s < 300


SECONDS = st.floats(1e-3, 1e9)


@given(SECONDS, st.floats(1e-300, 1.0), st.floats(1.0, 1e300), st.floats(0, 1e10), st.none() | st.floats(-1, 1e308))
def test_no_numbers_give_a_forecast_that_is_none(
    run_time_s: float, low: float, high: float, elapsed_s: float, limit_s: float | None
) -> None:
    low_s, high_s = max(run_time_s * low, 1e-300), min(run_time_s * high, 1e300)
    found = remaining(Band(run_time_s, low_s, high_s), elapsed_s, limit_s)
    prediction = found.band
    assert prediction.low_s <= prediction.run_time_s <= prediction.high_s
    assert all(math.isfinite(number) for number in (prediction.low_s, prediction.run_time_s, prediction.high_s))
    assert found.exceeds_limit is None or 0 <= found.exceeds_limit <= 1
    assert prediction.high_s >= elapsed_s or prediction.high_s == pytest.approx(elapsed_s)


def test_changes_below_two_per_cent_are_not_worth_a_message() -> None:
    assert not noteworthy(PUBLISHED, Band(101.0, 80.5, 126.0))
    assert noteworthy(PUBLISHED, Band(103.0, 80.0, 125.0))
    assert noteworthy(PUBLISHED, Band(100.0, 80.0, 129.0))
    assert noteworthy(None, PUBLISHED)
