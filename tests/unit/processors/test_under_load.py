"""Run times under load as pure functions: the equation, its histogram, and windows of many hosts."""

import math
from typing import Final

import numpy as np
import pytest

from processors.contracts.hosts import HostWindow
from processors.contracts.load import UnderLoadSettings
from processors.facts import PublishedPoint
from processors.load.messages import LoadPredictor, LoadQuestion
from processors.load.prediction import (
    LearnedLoad,
    TooLittleError,
    WindowLoad,
    load_spread,
    loaded_run_time,
    of_hosts,
    of_partition,
    quiet_run_time,
    slowdown,
    summary,
    waiting,
)
from processors.load.records import NetworkEffect
from processors.models.histogram import Histogram, given, mean, quantiles
from tests.kit.host_windows import KnownWindows

PREDICTOR: Final = LoadPredictor(UnderLoadSettings())
BAND = PublishedPoint(8.0, 100.0, 92.1, 108.6)  # five per cent of deviation


def cpu(*rows: tuple[float, float], counts: tuple[float, ...] = ()) -> WindowLoad:
    each = given([list(row) for row in rows], [[1.0]] * len(rows))
    return WindowLoad(each, np.array(counts or [1.0] * len(rows)), 0, 0, 0, 0.0)


def test_the_band_of_a_curve_is_met_at_its_quantiles() -> None:
    x = quiet_run_time(PublishedPoint(4, 100.0, 70.0, 120.0), 25)
    assert quantiles(x, [0.05, 0.5, 0.95]) == pytest.approx([70.0, 100.0, 120.0], rel=0.01)


@pytest.mark.parametrize("band", [(110.0, 120.0), (0.0, 120.0), (90.0, math.inf), (90.0, 99.0)])
def test_a_band_that_holds_not_its_point_is_refused(band: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="band holds its point"):
        quiet_run_time(PublishedPoint(4, 100.0, *band))


def test_the_slowest_host_decides_and_a_host_without_anything_left_has_a_hundredth() -> None:
    assert slowdown(cpu((0.9, 1.0), (0.4, 0.5), (0.95, 1.0))).edges[[0, -1]] == pytest.approx([2.0, 2.5])
    assert slowdown(cpu((0.0, 0.0), (1.0, 1.0))).edges[0] == pytest.approx(100.0)


def test_many_like_hosts_are_one_raised_to_their_number() -> None:
    pooled, each = slowdown(cpu((0.5, 1.0), counts=(64.0,))), slowdown(cpu(*[(0.5, 1.0)] * 64))
    median = 1 / (0.5 + 0.5 * (1 - 0.5 ** (1 / 64)))
    assert quantiles(pooled, [0.5]) == pytest.approx([median], rel=0.005)
    assert pooled.edges == pytest.approx(each.edges)
    assert pooled.shares == pytest.approx(each.shares)


def test_a_part_that_waits_for_the_network_is_stretched_by_the_slowest_link() -> None:
    quiet, free = Histogram(np.array([100.0, 100.001]), np.ones(1)), slowdown(cpu((1.0, 1.0)))
    half, waits = LearnedLoad(network=NetworkEffect(0.5, bandwidth=1e9)), waiting(cpu((1e9, 1e9), (2.5e8, 2.5e8)))
    assert mean(loaded_run_time(quiet, free, half, waits)) == pytest.approx(0.5 * 100 + 0.5 * 400, rel=1e-3)
    assert mean(loaded_run_time(quiet, free, half)) == pytest.approx(100, rel=1e-3)
    fading = half._replace(network=NetworkEffect(0.5, bandwidth=1e9, persistence=0.5))
    assert mean(loaded_run_time(quiet, free, fading, waits)) == pytest.approx(0.5 * 100 + 0.5 * 200, rel=1e-3)


def test_a_host_without_bandwidth_has_a_hundredth_of_the_best_and_where_none_has_any_there_is_no_figure() -> None:
    assert waiting(cpu((0.0, 0.0), (1e9, 1e9))).edges[-1] == pytest.approx(1e-7)
    with pytest.raises(TooLittleError, match="no bandwidth left"):
        waiting(cpu((0.0, 0.0), (0.0, 0.0)))


def test_runs_that_follow_the_load_by_half_are_stretched_by_its_root() -> None:
    quiet, slowed = Histogram(np.array([100.0, 100.001]), np.ones(1)), slowdown(cpu((0.25, 0.25)))
    assert mean(loaded_run_time(quiet, slowed, LearnedLoad(1.0, 0.5))) == pytest.approx(200, rel=1e-3)
    assert mean(loaded_run_time(quiet, slowed, LearnedLoad(4.0, 0.5))) == pytest.approx(100, rel=1e-3)


def test_what_is_reported_holds_everything_in_five_intervals_beyond_far_quantiles() -> None:
    x = load_spread(quiet_run_time(PublishedPoint(4, 100.0, 50.0, 300.0), 25), 1.0)
    prediction = summary(x)
    assert prediction.histogram.shares.sum() == pytest.approx(1.0)
    assert len(prediction.histogram.edges) == 6
    low_s, high_s = quantiles(x, [0.005, 0.995])
    assert prediction.histogram.edges[0] == pytest.approx(100 * (low_s / 100) ** 1.15, rel=0.02)
    assert prediction.histogram.edges[-1] == pytest.approx(100 * (high_s / 100) ** 1.15, rel=0.02)
    assert prediction.quantiles_s == pytest.approx((50.0, 100.0, 300.0), rel=0.03)


def test_runs_whose_inputs_are_independent_fall_where_they_are_asked_to() -> None:
    """500 runs on hosts of which each has a value out of its window: in range, and each interval within three deviations."""
    random = np.random.default_rng(11)
    hits, masses, spreads, inside = np.zeros(5), np.zeros(5), np.zeros(5), 0
    for _ in range(500):
        windows = KnownWindows()
        samples = np.clip(random.normal(random.uniform(0.5, 0.8, (8, 1)), 0.08, (8, 30)), 0.1, 1.0)
        for host, row in enumerate(samples):
            windows.report(f"h{host}", row.tolist(), 0)
        prediction = PREDICTOR.predict(windows, LoadQuestion("a", of_hosts("exa", ["h[0-7]"]), 8.0, BAND, 0))
        assert prediction.histogram is not None
        met = [random.choice(row) for row in samples]
        actual_s = 100 * math.exp(random.normal(0, 0.05)) / min(met)
        edges, shares = np.array(prediction.histogram.edges_s), np.array(prediction.histogram.probabilities)
        inside += bool(edges[0] <= actual_s <= edges[-1])
        masses, spreads = masses + shares, spreads + shares * (1 - shares)
        index = int(np.searchsorted(edges[1:-1], actual_s, side="right"))
        hits[index] += 1
    assert inside >= 0.95 * 500
    assert (abs(hits - masses) <= 3 * np.sqrt(spreads)).all(), (hits - masses) / np.sqrt(spreads)


def test_a_pool_is_as_uneven_as_the_most_changing_of_its_windows() -> None:
    windows = KnownWindows({"standard": ["a", "b", "c"]})
    for name, high in (("a", 0.6), ("b", 0.7), ("c", 1.0)):
        windows.report(name, [0.45, high], 0)
    place = of_partition(windows, "exa", "standard", 2)
    assert PREDICTOR.predict(windows, LoadQuestion("a", place, 8.0, BAND, 0)).variation == "high"
    assert PREDICTOR.predict(windows, LoadQuestion("a", of_hosts("exa", ["a"]), 8.0, BAND, 0)).variation == "low"


def test_a_host_without_a_window_is_taken_to_be_like_the_others() -> None:
    windows = KnownWindows()
    for name in ("h1", "h2", "h3"):
        windows.report(name, [0.5, 1.0], 0)
    known = PREDICTOR.predict(windows, LoadQuestion("a", of_hosts("exa", ["h[1-3]"]), 8.0, BAND, 0))
    more = PREDICTOR.predict(windows, LoadQuestion("a", of_hosts("exa", ["h[1-4]"]), 8.0, BAND, 0))
    assert (known.missing, more.missing) == (0, 1)
    assert known.q50_s is not None
    assert more.q50_s is not None
    assert known.q50_s < more.q50_s


def test_the_same_question_has_the_same_answer() -> None:
    windows = KnownWindows()
    for host in range(8):
        windows.report(f"h{host}", np.random.default_rng(host).random(30).tolist(), 0)
    question = LoadQuestion("a", of_hosts("exa", ["h[0-7]"]), 8.0, BAND, 0)
    assert PREDICTOR.predict(windows, question) == LoadPredictor(UnderLoadSettings()).predict(windows, question)


def test_a_pool_is_read_once_for_all_jobs_of_a_moment_until_a_window_changes() -> None:
    windows, predictor = (
        KnownWindows({"standard": [f"h{host}" for host in range(8)]}),
        LoadPredictor(UnderLoadSettings()),
    )
    for host in range(8):
        windows.report(f"h{host}", [0.4, 0.5], 60_000)

    def reads(count: float, until_ms: int) -> int:
        before, question = windows.requested, _in_pool(windows, count, until_ms)
        found = predictor.predict(windows, question)
        requested = windows.requested - before
        assert found == LoadPredictor(UnderLoadSettings()).predict(windows, question)
        return requested

    assert reads(2.0, 60_000) == 8
    assert reads(4.0, 60_000) == 0
    assert reads(4.0, 180_000) == 8
    windows.report("h3", [0.1, 0.2], 120_000)
    assert reads(4.0, 180_000) == 8


def _in_pool(windows: KnownWindows, count: float, until_ms: int) -> LoadQuestion:
    return LoadQuestion("a", of_partition(windows, "exa", "standard", count), 8.0, BAND, until_ms)


def test_windows_whose_shares_were_rounded_are_taken() -> None:
    windows = KnownWindows()
    shares = (0.33333, 0.33333, 0.0, 0.0, 0.33333)
    windows.put("h1", HostWindow(0, (0.5, 0.6, 0.7, 0.8, 0.9, 1.0), shares, 30, 0.75, 0.5, 1.0))
    prediction = PREDICTOR.predict(windows, LoadQuestion("a", of_hosts("exa", ["h1"]), 8.0, BAND, 0))
    assert prediction.histogram is not None
    assert sum(prediction.histogram.probabilities) == pytest.approx(1.0, abs=1e-8)
