"""One size of an application that is slow, or becomes so: an alert about that size, and nothing else goes wrong."""

import math

import numpy as np
import pytest

from tests.kit.copies import copied
from tests.kit.scenario import DAY_MS, Scenario

SIZES = (2, 4, 8, 16, 32, 64)
EVERY_MS = 900_000
KEY = "exa/lammps//nodes"
SEEDS = pytest.mark.parametrize("seed", range(2))


class Days:
    """An application that is run every quarter of an hour, at all of its sizes in random order, scattering by 2 % or so."""

    def __init__(self, seed: int, slow: int = 16, scatter: float = 0.02) -> None:
        self.centre = Scenario()
        self._random = np.random.default_rng(seed)
        self._slow = slow
        self._scatter = scatter
        self._runs = 0

    def go_on(self, rounds: int, factor: float = 1.0, *, without: int = 0, slow_by: float = 1.5) -> "Days":
        sizes = [n for n in SIZES if n != without]
        for n in (n for _ in range(rounds) for n in self._random.permutation(sizes).tolist()):
            self._run(n, factor * (slow_by if n == self._slow else 1.0))
        return self

    def repeat(self, n: int, *factors: float) -> "Days":
        for factor in factors:
            self._run(n, factor)
        return self

    def predicted(self, n: float) -> float:
        points = self.centre.topic("predictions")[KEY]["curve"]
        return float(next(point["run_time_s"] for point in points if point["n"] == n))

    def band(self, n: float) -> tuple[float, float]:
        points = self.centre.topic("predictions")[KEY]["curve"]
        return next((point["low_s"], point["high_s"]) for point in points if point["n"] == n)

    def _run(self, n: int, factor: float) -> None:
        self._runs += 1
        self.centre.at_ms(DAY_MS + self._runs * EVERY_MS)
        run_time_s = run_time(n) * factor * math.exp(self._random.normal(0.0, self._scatter))
        self.centre.ran(f"r{self._runs}", "lammps", n, run_time_s)


@copied
def with_one_slow_size(seed: int) -> Days:
    return Days(seed).go_on(15)


@copied
def well_known() -> Days:
    """Return days with 44 runs of each size, none of them slow."""
    return Days(2, slow=0).go_on(44)


def run_time(n: float) -> float:
    return 40.0 + 10_000.0 / n + 5.0 * math.log2(n)


@SEEDS
def test_one_slow_size_among_six_has_one_alert_that_stays_and_the_application_none(seed: int) -> None:
    days = with_one_slow_size(seed)
    assert days.centre.alerts("SlowSize") == ["pending", "firing"]
    assert days.centre.alerts("Regression") == days.centre.alerts("Improvement") == []


@SEEDS
def test_an_application_with_one_slow_size_follows_its_size_all_the_same(seed: int) -> None:
    days = with_one_slow_size(seed)
    assert {prediction["model"]["name"] for prediction in days.centre.messages("predictions", KEY)[3:]} == {
        "combination"
    }


@SEEDS
def test_a_slow_size_does_not_widen_what_is_reported_sizes_that_were_run_often(seed: int) -> None:
    days = with_one_slow_size(seed)
    for n in SIZES:
        low_s, high_s = days.band(n)
        true_s = run_time(n) * (1.5 if n == 16 else 1.0)
        assert 0.90 * true_s < low_s < true_s < high_s < 1.10 * true_s


@SEEDS
def test_a_size_that_is_slow_for_good_keeps_a_narrow_band_and_widens_no_other(seed: int) -> None:
    days = Days(seed, scatter=0.01).go_on(10, slow_by=1.0).repeat(16, *[1.5] * 44)
    for n in SIZES:
        low_s, high_s = days.band(n)
        true_s = run_time(n) * (1.5 if n == 16 else 1.0)
        assert 0.93 * true_s < low_s < true_s < high_s < 1.07 * true_s


def test_an_application_whose_runs_scatter_wildly_has_no_slow_size() -> None:
    days = Days(0, scatter=0.6).go_on(8, slow_by=200.0)
    assert days.centre.model("lammps").study().anomalies, "it is out of line all the same"
    assert days.centre.alerts("SlowSize") == []


@SEEDS
def test_a_slow_size_that_is_met_late_is_no_slowdown_of_the_application(seed: int) -> None:
    days = Days(seed).go_on(10, without=16).repeat(16, 1.5).repeat(8, 1.0).repeat(16, 1.5, 1.5, 1.5).go_on(6)
    assert days.centre.alerts("SlowSize") == ["pending", "firing"]
    assert days.centre.alerts("Regression") == days.centre.alerts("Improvement") == []


@SEEDS
def test_a_size_that_becomes_slow_is_no_slowdown_of_the_application(seed: int) -> None:
    days = Days(seed).go_on(10, slow_by=1.0).repeat(16, 1.5).repeat(8, 1.0).repeat(16, 1.5, 1.5, 1.5).go_on(14)
    assert days.centre.alerts("Regression") == days.centre.alerts("Improvement") == []
    assert days.centre.alerts("SlowSize") == ["pending", "firing"]


@SEEDS
def test_a_slowdown_of_all_sizes_is_found_while_one_is_slow_and_its_alert_stays(seed: int) -> None:
    days = Days(seed).go_on(8).go_on(1, 1.25)
    assert days.centre.alerts("Regression") == ["firing"]
    days.go_on(4, 1.25)
    assert days.centre.alerts("SlowSize") == ["pending", "firing"]
    assert days.centre.alerts("Regression") == ["firing"]
    low_s, high_s = days.band(64.0)
    assert low_s < 1.25 * run_time(64) < high_s


def runs_until_followed(days: Days, factor: float, n: int = 16) -> int:
    """Return after how many runs of a size that has changed the prediction at that size has followed."""
    for count in range(1, 9):
        for each in SIZES:
            days.repeat(each, factor if each == n else 1.0)
            if each == n:
                days.centre.at_ms(days.centre.now_ms + 20_000)
                low_s, high_s = days.band(n)
                if low_s < factor * run_time(n) < high_s < 2 * low_s:
                    return count
    return 99


@pytest.mark.parametrize("factor", [1.5, 1.2, 0.6])
def test_a_size_that_changes_for_good_is_followed_after_three_to_five_runs_and_the_others_stay(factor: float) -> None:
    """With 44 runs of each size before, its median had moved after 44 more; the alert came after 16 hours."""
    days = well_known()
    before = {n: days.predicted(n) for n in SIZES}
    assert 3 <= runs_until_followed(days, factor) <= 5
    for n in SIZES:
        assert days.predicted(n) == pytest.approx(before[n] * (factor if n == 16 else 1.0), rel=0.03)
    assert days.centre.alerts("Regression") == days.centre.alerts("Improvement") == []


def test_its_strange_run_stays_open_until_the_alert_of_the_size_fires() -> None:
    days = well_known()
    runs_until_followed(days, 1.5)
    days.centre.at_ms(days.centre.now_ms + 1_900_000)
    reported = [
        (each["labels"]["alertname"], each["status"])
        for each in days.centre.messages("alerts")
        if each["status"] != "pending"
    ]
    assert reported == [("StrangeRun", "firing"), ("SlowSize", "firing")]
    days.repeat(2, *[1.0] * 6)
    alerts = [each for each in days.centre.messages("alerts") if each["labels"]["alertname"] == "StrangeRun"]
    assert [each["status"] for each in alerts] == ["firing", "resolved"]
    assert "on 16 nodes has taken 1.5" in alerts[1]["annotations"]["summary"]


def test_a_size_that_is_back_is_followed_as_soon() -> None:
    days = well_known()
    runs_until_followed(days, 1.5)
    for _ in range(4):
        for n in SIZES:
            days.repeat(n, 1.5 if n == 16 else 1.0)
    assert runs_until_followed(days, 1.0) <= 5


def test_one_strange_run_moves_no_level() -> None:
    days = well_known()
    before = days.predicted(16)
    days.repeat(16, 3.0).go_on(2)
    assert days.predicted(16) == pytest.approx(before, rel=0.02)
    assert days.centre.tally["size_shift:regression"] == 0
