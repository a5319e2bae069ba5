"""The scores of windows of measured load, on load whose truth is known."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.quality import host_forecasts
from tests.quality.host_forecasts import (
    FORMS,
    START,
    Values,
    distances,
    each_sample,
    equal_intervals,
    points,
    score,
    score_tails,
    table,
    tails,
)


@pytest.fixture(scope="module")
def noise() -> Values:
    """Two series of values that are even from 0 to 1."""
    return np.random.default_rng(7).random((2, 700))


def test_of_even_noise_the_best_point_is_a_quarter_away_and_the_window_a_sixth(noise: Values) -> None:
    prediction = points(noise)
    assert distances(prediction.last, noise, 1).mean() == pytest.approx(1 / 3, rel=0.1)
    assert distances(prediction.chosen, noise, 1).mean() == pytest.approx(1 / 4, rel=0.1)
    assert score(noise, 30, 1, equal_intervals).crps.mean() == pytest.approx(1 / 6, rel=0.1)


@pytest.mark.parametrize(("form", "uneven"), [("equal intervals", 0.1), ("equal shares", 0.1), ("samples", 0.2)])
def test_windows_of_noise_hold_what_they_should_and_are_even(form: str, uneven: float, noise: Values) -> None:
    """The PIT of samples takes a few values only, which do not share ten parts evenly."""
    found = score(noise, 15, 1, FORMS[form])
    assert found.inside == pytest.approx(14 / 16, abs=0.03)
    assert found.unevenness < uneven


def test_a_forecast_with_tails_is_even_and_beats_a_window_where_load_wanders(noise: Values) -> None:
    """What is added each time is skewed, as bursts are: quantiles that are taken from errors hold what they should."""
    wander = -np.log(noise)
    for k in range(1, wander.shape[1]):
        wander[:, k] += 0.9 * wander[:, k - 1]
    found, window = score_tails(tails(wander), wander, 1), score(wander, 8, 1, equal_intervals)
    assert found.unevenness < 0.07
    assert window.unevenness > 0.1
    assert found.crps.mean() < 0.8 * window.crps.mean()


def test_points_report_the_value_after_the_latest_known_one() -> None:
    rising = np.arange(300.0)[None]
    assert distances(points(rising).last, rising, 1) == pytest.approx([1.0])
    assert distances(points(rising).last, rising, 5) == pytest.approx([5.0])
    assert score(rising, 5, 1, each_sample).inside == 0.0
    assert score(rising, 5, 5, each_sample).crps == pytest.approx([6.2])


def test_the_table_reads_machines_and_reports_every_form(tmp_path: Path, noise: Values) -> None:
    head = ";\t".join(["Timestamp [ms]", *host_forecasts.RESOURCES])
    for machine, offset in ((10, 0.0), (20, 5.0)):
        rows = [";\t".join(map(str, (300 * i, *noise[:, i] + offset, 1.0))) for i in range(START + 60)]
        (tmp_path / f"{machine}.csv.gz").write_bytes(gzip.compress("\n".join([head, *rows]).encode()))
    lines = list(table(tmp_path))
    assert lines[0] == "2 series of 1 machines choose, 2 of 1 tell", "a resource that never changes is left out"
    assert [line.count(" of ") for line in lines].count(1) >= 2 * len(FORMS)
