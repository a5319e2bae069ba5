"""What bands of other levels than the published one hold."""

import math

import numpy as np
import pytest

from agent.reports.backtest.observer import LEVELS, coverage
from agent.reports.backtest.scores import at_level
from processors.facts import Band

BAND = Band(100.0, 80.0, 160.0)


def observed_shares(band: Band, *run_times_s: float) -> set[float]:
    return {level.observed for level in coverage("inside", run_times_s, [band] * len(run_times_s)).levels}


def test_the_band_of_90_percent_is_the_one_that_was_predicted() -> None:
    _, low_s, high_s = at_level([BAND], 0.9)[:, 0]
    assert (low_s, high_s) == pytest.approx((80.0, 160.0))


def test_a_smaller_share_has_a_narrower_band_around_the_same_run_time() -> None:
    bands = [at_level([BAND], level)[:, 0].tolist() for level in LEVELS]
    widths = [math.log(high_s / low_s) for _, low_s, high_s in bands]
    assert widths == sorted(widths)
    assert all(low_s < 100.0 == run_time_s < high_s for run_time_s, low_s, high_s in bands)


def test_of_runs_that_follow_the_prediction_each_band_holds_what_it_should() -> None:
    run_times_s = []
    for deviations in np.random.default_rng(1).normal(size=4000).tolist():
        end_s = 160.0 if deviations > 0 else 80.0
        run_times_s.append(100.0 * math.exp(abs(deviations) / 1.6448536 * math.log(end_s / 100.0)))
    for level in coverage("inside", run_times_s, [BAND] * 4000).levels:
        assert level.low < level.predicted < level.high
        assert level.runs == 4000


def test_a_run_as_predicted_is_inside_every_band_and_one_outside_the_band_in_none() -> None:
    for run_time_s, share in ((100.0, 1.0), (161.0, 0.0), (79.0, 0.0)):
        assert observed_shares(BAND, run_time_s) == {share}


def test_a_band_without_width_holds_its_run_time_alone() -> None:
    assert observed_shares(Band(100.0, 100.0, 100.0), 100.0, 101.0) == {0.5}
