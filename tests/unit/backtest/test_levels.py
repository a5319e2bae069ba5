"""What bands of other levels than the published one hold."""

import math

import numpy as np
import pytest

from agent.reports.backtest.groups import LEVELS, Levels
from agent.reports.backtest.scores import Band

BAND = Band(100.0, 80.0, 160.0)


def test_the_band_of_90_percent_is_the_one_that_was_predicted() -> None:
    found = BAND.at_level(0.9)
    assert (found.low_s, found.high_s) == pytest.approx((80.0, 160.0))


def test_a_smaller_share_has_a_narrower_band_around_the_same_run_time() -> None:
    bands = [BAND.at_level(level) for level in LEVELS]
    widths = [math.log(band.high_s / band.low_s) for band in bands]
    assert widths == sorted(widths)
    assert all(band.low_s < 100.0 == band.run_time_s < band.high_s for band in bands)


def test_of_runs_that_follow_the_prediction_each_band_holds_what_it_should() -> None:
    levels, random = Levels(), np.random.default_rng(1)
    for deviations in random.normal(size=4000).tolist():
        end_s = 160.0 if deviations > 0 else 80.0
        levels.add(100.0 * math.exp(abs(deviations) / 1.6448536 * math.log(end_s / 100.0)), BAND)
    for level in levels.coverage("inside").levels:
        assert level.low < level.predicted < level.high
        assert level.runs == 4000


def test_a_run_as_predicted_is_inside_every_band_and_one_outside_the_band_in_none() -> None:
    for run_time_s, held in ((100.0, 1.0), (161.0, 0.0), (79.0, 0.0)):
        levels = Levels()
        levels.add(run_time_s, BAND)
        assert {level.observed for level in levels.coverage("inside").levels} == {held}


def test_a_band_without_width_holds_its_run_time_alone() -> None:
    levels = Levels()
    levels.add(100.0, Band(100.0, 100.0, 100.0))
    levels.add(101.0, Band(100.0, 100.0, 100.0))
    assert {level.observed for level in levels.coverage("inside").levels} == {0.5}
