"""Stories with a known truth: what was once answered wrongly although the runs tell it."""

import math

import numpy as np
import pytest

from processors.facts import RunFact, Scored
from processors.run_time.drift import Drift, ScoredRun
from tests.kit.stories import Story

SEEDS = pytest.mark.parametrize("seed", range(3))


@SEEDS
def test_a_study_in_ascending_order_with_a_fifth_of_noise_is_answered_near_its_runs(seed: int) -> None:
    story = Story(seed, noise=0.2)
    for n in range(16, 132, 4):
        story.ran(lambda n: 1600.0 / n, [float(n)] * 4)
    for point in story.given(16, 32, 64, 128):
        assert abs(math.log(point.run_time_s * point.n / 1600.0)) < math.log(1.35)


@SEEDS
def test_runs_that_others_slow_down_are_answered_at_their_intrinsic_time_and_with_a_band_that_holds_the_slow_ones(
    seed: int,
) -> None:
    story, random = Story(seed, noise=0.0), np.random.default_rng(seed)
    for n in range(16, 132, 4):
        story.ran(lambda n: 1600.0 / n * math.exp(contended(random)), [float(n)] * 4)
    for point in story.given(16, 32, 64, 128):
        assert point.run_time_s * point.n / 1600.0 == pytest.approx(1.0, rel=0.1)
        assert point.holds(1.25 * point.run_time_s)


@SEEDS
def test_a_size_slow_from_its_first_run_is_believed_and_bends_no_neighbour(seed: int) -> None:
    def law(n: float) -> float:
        return (1000.0 / n + 5.0) * (1.5 if n == 8 else 1.0)

    before, slow, after = Story(seed).repeated(law, (1, 2, 4, 8, 16, 32), 4).given(6, 8, 12)
    assert slow.run_time_s == pytest.approx(law(8), rel=0.05)
    assert slow.verdict == "reliable"
    assert [before.run_time_s, after.run_time_s] == pytest.approx([law(6), law(12)], rel=0.08)


@SEEDS
def test_a_curve_with_a_large_serial_part_is_answered_reliably_and_called_nothing_else(seed: int) -> None:
    story = Story(seed).repeated(lambda n: 100.0 / n + 40.0, (1, 2, 4, 8), 3)
    (point,) = story.given(16)
    assert point.run_time_s == pytest.approx(46.25, rel=0.06)
    assert point.verdict == "reliable"
    assert "linear" not in story.answer(16)["points"][0]["reliability"]["reasons"]


def contended(random: np.random.Generator) -> float:
    """Return ln of the factor by which others slow a run down: most by nothing, some by a third, a few by far more."""
    draw = random.random()
    if draw < 0.75:
        return abs(float(random.normal(0.0, 0.01)))
    return math.log(1.0 + float(random.exponential(0.3))) if draw < 0.97 else math.log(float(random.uniform(3.0, 42.0)))


def scored(index: int, ln_ratio: float) -> ScoredRun:
    run = RunFact(f"r{index}", 4.0, 100.0 * math.exp(ln_ratio), index * 1000, index * 1000 + 500, index * 1000 + 500)
    inside = abs(ln_ratio) < 0.05
    return ScoredRun(Scored(run, 100.0, 95.0, 105.0, ln_ratio, 0.05, inside, "inside", 50, "runs", 0.05))


@pytest.mark.parametrize("ln_factor", [0.1, 0.3, -0.3])
def test_runs_that_others_slow_down_are_no_shift_and_a_changed_code_is_one_within_a_dozen_runs(
    ln_factor: float,
) -> None:
    random, found, true_ones = np.random.default_rng(5), 0, 0
    for _ in range(12):
        drift = Drift()
        found += sum(drift.take(scored(i, contended(random))).found is not None for i in range(160))
        true_ones += any(
            drift.take(scored(i, contended(random) + ln_factor)).found is not None for i in range(160, 172)
        )
    assert found <= 1, "in 1,920 unchanged runs"
    assert true_ones >= 10, "twelve codes changed"


@pytest.mark.parametrize(("noise", "runs"), [(0.01, 5), (0.05, 12)])
def test_a_tenth_slower_is_found_soon_if_runs_scatter_little(noise: float, runs: int) -> None:
    random, found = np.random.default_rng(7), 0
    for _ in range(20):
        drift = Drift()
        for i in range(60):
            drift.learn(scored(i, random.normal(0.0, noise)))
        taken = [drift.take(scored(60 + i, random.normal(math.log(1.1), noise))).found for i in range(runs)]
        found += any(shift is not None for shift in taken)
    assert found >= 19, "of twenty"
