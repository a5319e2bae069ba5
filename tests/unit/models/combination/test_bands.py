"""Scores, pool and quantiles behind the bands."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.combination.evidence import GATE, NO_RELATED, Curve, evidence, judged_runs
from processors.models.combination.replay import (
    SCALE,
    Circumstances,
    features,
    reasons_of,
    replay,
    rows,
    scales_of,
    scores,
)
from processors.models.combination.scores import (
    APPLICATION_WEIGHT,
    NO_SCORES,
    POOL_WEIGHT_MAX,
    SIGNED,
    UNIT,
    Counts,
    ForecastScores,
    SystemScores,
    pooled,
    share,
    tally,
)
from processors.models.combination.shapes import NO_LOSSES
from tests.kit.combination import quantiles

SHIPPED = [np.linspace(-2.0, 2.0, 20).tolist()] * 3
NEAR = np.array([1.0])


def many(score: float, weight: float, distance: float = 1.0) -> ForecastScores:
    count = int(weight)
    return ForecastScores(np.full(count, distance), np.full(count, score), np.ones(count))


def counted(score: float, weight: float, system: str = "s", distance: float = 1.0) -> SystemScores:
    return SystemScores(system, tally([many(score, weight, distance)]))


def upper(own: list[SystemScores], pool: Counts = NO_SCORES, distance: float = 1.0) -> float:
    return float(quantiles(np.array([distance]), SHIPPED, "s", own, pool).upper[0])


def test_without_scores_the_shipped_ones_answer_wider_far_out() -> None:
    near, middle, far = (upper([], distance=distance) for distance in (1.0, 2.0, 3.0))
    assert min(near, middle) > 1.8
    assert max(near, middle) < far


def test_many_own_scores_take_over() -> None:
    assert upper([counted(10.0, 300)]) == pytest.approx(10.0, rel=0.15)
    assert upper([counted(0.2, 3000)]) == pytest.approx(0.2, rel=0.15)


def test_misses_to_one_side_leave_the_other_end_near() -> None:
    above = [counted(float(score), 30) for score in np.linspace(0.0, 8.0, 9)]
    both = [*above, *(counted(float(score), 30) for score in np.linspace(-8.0, 0.0, 9))]
    one_sided, even = (quantiles(NEAR, SHIPPED, "s", own) for own in (above, both))
    assert -one_sided.lower[0] < 0.2 * -even.lower[0]
    assert one_sided.upper[0] == pytest.approx(even.upper[0], rel=0.15)


def test_forecasts_that_related_curves_carry_have_scores_of_their_own() -> None:
    carried = [SystemScores("s", tally([many(10.0, 300)._replace(known_further=True)]))]
    assert upper(carried) == upper([])
    assert quantiles(NEAR, SHIPPED, "s", carried, known_further=True).upper[0] == pytest.approx(10.0, rel=0.15)


def test_scores_of_another_system_weigh_less() -> None:
    here = upper([counted(10.0, 3)])
    there = upper([counted(10.0, 3, "elsewhere")])
    assert there < here


def test_scores_of_far_targets_weigh_less_of_near_ones() -> None:
    of_near = upper([counted(10.0, 3, distance=1.0)])
    of_far = upper([counted(10.0, 3, distance=6.0)])
    assert of_far < of_near


def test_one_application_adds_little_to_the_pool_however_much_it_ran() -> None:
    assert share([counted(1.0, 5000)]).sum() / UNIT == pytest.approx(APPLICATION_WEIGHT, rel=0.01)


def test_an_application_does_not_hear_itself_in_the_pool() -> None:
    own = [counted(10.0, 20)]
    assert upper(own, pooled([share(own)])) == upper(own)


def test_the_pool_never_outweighs_everything() -> None:
    pool = pooled([share([counted(10.0, 5000)])] * 1000)
    own = [counted(0.5, 100 * int(POOL_WEIGHT_MAX))]
    assert upper(own, pool) < 1.0


@settings(deadline=None)
@given(st.permutations(range(6)))
def test_the_order_of_scores_changes_no_bit(order: list[int]) -> None:
    parts = [ForecastScores(np.array([0.3 * i]), np.array([0.7 * i - 2.0]), np.array([1 / (i + 1)])) for i in range(6)]
    assert np.array_equal(tally([parts[i] for i in order]), tally(parts))


def test_scores_beyond_the_grid_are_kept_at_its_ends() -> None:
    near, far, inside = 0.01, 99.0, 0.0
    ends = tally([ForecastScores(np.array([near, far, inside]), np.array([-1e9, 1e9, 1e9]), np.ones(3))])
    assert ends.sum() == 3 * UNIT
    assert (ends[0], ends[4 * SIGNED - 1], ends[-1]) == (UNIT, UNIT, UNIT)
    assert np.array_equal(tally([]), NO_SCORES)


def test_repeats_of_a_size_share_its_weight() -> None:
    repeated = Curve("a", "s", (1.0, 2.0, 4.0), (8.0, 4.0, 2.0), ((8.0,), (4.0,), (1.9, 2.0, 2.2)))
    made = rows(GATE, evidence(repeated), NO_RELATED)
    found, carried = scores(SCALE, made, replay([made]).shares[0], NO_LOSSES)
    assert found.weight.tolist() == pytest.approx([0.1, 0.1, 0.1])
    assert len(set(found.score.tolist())) == 3
    assert not carried.weight.any()


def test_of_many_repeats_four_judge_whatever_their_order() -> None:
    runs = tuple(float(i) for i in range(1, 41))
    chosen = [judged_runs(Curve("a", "s", (1.0,), (5.0,), (order,)), 0) for order in (runs, runs[::-1])]
    assert chosen[0] == chosen[1] == (6.0, 16.0, 26.0, 36.0)


def circumstances(**changed: float) -> Circumstances:
    usual = {"distance": 1.0, "spread": 0.02, "own": 0.3, "related": 0.3, "sizes": 8.0, "gap": 1.0}
    usual |= {"residual": -4.5, "known_further": 0.0}
    return Circumstances(**{name: np.array([value]) for name, value in (usual | changed).items()})


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"distance": 5.0}, "far"),
        ({"spread": 0.5}, "members_disagree"),
        ({"gap": 2.0}, "wide_gap"),
        ({"residual": -2.0}, "poor_fit"),
        ({"sizes": 3.0}, "few_sizes"),
    ],
)
def test_what_makes_a_forecast_unsure_is_named_first_and_widens_the_band(
    changed: dict[str, float], reason: str
) -> None:
    reported = circumstances(**changed)
    usual = circumstances()
    assert reasons_of(SCALE, features(reported), reported.distance)[0][0] == reason
    assert scales_of(SCALE, features(reported), reported.distance) > scales_of(SCALE, features(usual), usual.distance)


def test_a_forecast_that_nothing_speaks_against_has_a_reason_too() -> None:
    usual = circumstances()
    assert reasons_of(SCALE, features(usual), usual.distance)[0] == ("wide_band",)
