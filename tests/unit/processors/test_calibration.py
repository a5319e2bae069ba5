"""Bands learn from signed scores, each horizon from its own; what one size teaches is bounded."""

import math

import numpy as np
import pytest

from processors.contracts.outputs import HorizonQuality
from processors.facts import Band, Measured, measured, uninformative
from processors.run_time.calibration import (
    STRIDE,
    BandPool,
    Calibration,
    Counts,
    centre_sides,
    combined,
    quantile,
    share,
)
from processors.run_time.quality import OWN, ROWS, Score, places, quality, with_score

NOTHING: Counts = {}
UP_TO_2X = ROWS.index("up_to_2x")


def score(signed: float, *, horizon: int = 1, n: float = 32.0, own: bool = False) -> Score:
    return Score(horizon, signed / 10, abs(signed) <= 1.0, abs(signed), n, own)


def calibration(*scores: Score, left_out: frozenset[float] = frozenset(), centre: Counts = NOTHING) -> Calibration:
    return Calibration(scores, left_out, centre)


def test_a_score_keeps_its_side() -> None:
    assert Score(1, -0.3, inside=False, distance=2.0, n=8.0).signed == -2.0
    assert Score(1, 0.3, inside=False, distance=2.0, n=8.0).signed == 2.0


def test_misses_above_widen_the_upper_side_alone() -> None:
    found = calibration(*(score(3.0, n=float(n)) for n in range(8))).sides(UP_TO_2X, 64.0)
    assert found.upper > 1.5
    assert found.lower == 1.0


def test_repeats_of_a_size_that_was_run_change_no_other_horizon() -> None:
    own = [score(0.2, horizon=0, n=8.0, own=True) for _ in range(60)]
    found = calibration(*own)
    assert [found.sides(row, 16.0) for row in range(1, len(ROWS))] == [(1.0, 1.0)] * 4
    assert found.sides(OWN, 8.0).upper < 1.0


def test_a_size_with_few_runs_is_taken_to_repeat_as_others_of_its_application_do() -> None:
    wild = [
        score(sign * distance, horizon=0, n=n, own=True)
        for n in (4.0, 8.0, 32.0)
        for sign in (-1.0, 1.0)
        for distance in (0.5, 2.5) * 5
    ]
    found = calibration(*wild, score(0.3, horizon=0, n=16.0, own=True))
    assert 1.5 < found.sides(OWN, 16.0).upper <= found.sides(OWN, 8.0).upper
    calm = [score(sign * 0.3, horizon=0, n=16.0, own=True) for sign in (-1.0, 1.0) for _ in range(20)]
    assert calibration(*wild, *calm).sides(OWN, 16.0).upper < 1.0, "its own runs say more"


def test_one_size_that_was_slow_for_a_while_widens_no_other_band() -> None:
    calm = [score(sign * 0.8, horizon=0, n=n, own=True) for n in (4.0, 16.0) for sign in (-1.0, 1.0) for _ in range(8)]
    slow = [score(15.0, horizon=0, n=8.0, own=True)] * 16
    assert calibration(*calm, *slow).sides(OWN, 16.0).upper <= 1.0


def test_repeats_of_a_size_far_out_count_once() -> None:
    once = calibration(score(3.0)).sides(UP_TO_2X, 64.0).upper
    often = calibration(*[score(3.0)] * 40).sides(UP_TO_2X, 64.0).upper
    assert once == pytest.approx(often)
    assert once < 1.2


def test_a_size_out_of_line_widens_no_other_band() -> None:
    scores = [score(15.0, n=16.0, own=True, horizon=0)] * 40 + [score(15.0, n=16.0)] * 5
    found = calibration(*scores, left_out=frozenset({16.0}))
    assert found.sides(OWN, 8.0) == found.sides(UP_TO_2X, 64.0) == (1.0, 1.0)


def test_the_centre_counts_by_horizon_until_an_application_has_scores() -> None:
    shares = [share([score(2.5, n=float(n)) for n in range(4)]) for _ in range(40)]
    centre = NOTHING
    for each in shares:
        centre = combined(centre, each)
    found = calibration(centre=centre)
    assert found.sides(UP_TO_2X, 64.0).upper == pytest.approx(2.0, abs=0.3)
    assert found.sides(UP_TO_2X + 1, 64.0) == (1.0, 1.0)


def test_of_one_application_the_centre_learns_a_bounded_share_and_forgets_it_exactly() -> None:
    pool = BandPool()
    others, many = share([score(0.5)]), share([score(2.0, n=float(n)) for n in range(500)])
    pool.learn(({}, others))
    pool.learn(({}, many))
    assert sum(many.values()) < 3.1 * 1024
    pool.learn((many, {}))
    assert pool.counts == others
    assert BandPool.snapshot(pool.snapshot()).counts == others


def test_a_few_scores_give_the_largest_and_many_the_conformal_quantile() -> None:
    assert quantile([(2.0, 1.0), (-3.0, 1.0)]) == 2.0
    assert quantile([(float(i), 1.0) for i in range(1, 41)]) == 39.0
    assert centre_sides([0] * STRIDE, 1) == (1.0, 1.0)


def test_a_band_of_a_calibrated_application_holds_nine_of_ten_runs() -> None:
    random = np.random.default_rng(3)
    errors = random.laplace(0.4, 1.2, size=(2000, 2))
    scores = [score(float(error), n=float(i)) for i, error in enumerate(errors[:, 0])]
    sides = calibration(*scores).sides(UP_TO_2X, 64.0)
    held = np.mean((errors[:, 1] <= sides.upper) & (errors[:, 1] >= -sides.lower))
    assert held == pytest.approx(0.9, abs=0.02)


def test_measured_coverage_is_left_out_before_twenty_runs_and_drawn_to_what_is_usual() -> None:
    inside = [score(0.5, n=float(n)) for n in range(20)]
    assert calibration(*inside[:19]).measured(UP_TO_2X) is None
    found = calibration(*inside).measured(UP_TO_2X)
    assert found is not None
    assert (found.runs, round(found.coverage, 3)) == (20, 0.95)
    assert measured(1.0, 19) is None
    assert measured(0.85, 20) == Measured(0.85, 20)


def test_repeats_do_not_drive_out_scores_far_out() -> None:
    scores = [score(0.5, horizon=3, n=512.0)]
    counts = places(scores)
    for _ in range(100):
        scores = with_score(scores, score(0.1, horizon=0, own=True), 64, counts)
    assert len(scores) == 64
    assert scores[0].horizon == 3
    assert counts == places(scores)


def test_quality_has_no_coverage_before_it_can_be_measured() -> None:
    assert quality([score(0.5)] * 5).coverage_90 is None
    found = quality([score(0.5)] * 15 + [score(3.0)] * 5)
    assert found.coverage_90 == 0.75
    (horizon,) = found.horizons
    assert horizon == HorizonQuality("up_to_2x", 20, horizon.median_error, 0.75)
    assert horizon.median_error == pytest.approx(-math.expm1(-0.05))


@pytest.mark.parametrize(("low_s", "high_s", "nothing"), [(50.0, 2e4, False), (50.0, 1e5, True), (0.1, 101.0, True)])
def test_a_band_that_ends_at_a_thousand_times_is_none(low_s: float, high_s: float, *, nothing: bool) -> None:
    assert uninformative(Band(100.0, low_s, high_s)) == nothing
