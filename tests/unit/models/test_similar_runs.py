"""Distributions of run time from past runs: who counts how much, limits, bands that learn, and no trouble from garbage."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.similar_runs import (
    CENTRE,
    CLASS,
    HIGH,
    LOW,
    NAME,
    OVERRUN_S,
    RUNS_MAX,
    UPPER,
    USER,
    BandLevels,
    ModelJob,
    PastRuns,
    RunTimeDistribution,
    SimilarityGroup,
    class_of,
    distribution,
    row_of,
)
from tests.kit.effort import examples

HOUR_S = 3600.0


def runs(*times_s: float, job: ModelJob | None = None) -> PastRuns:
    past = PastRuns()
    for time_s in times_s:
        past.put(row_of(job or ModelJob(n=4), time_s))
    return past


def median_s(*past: tuple[SimilarityGroup, PastRuns], job: ModelJob | None = None) -> float:
    return distribution(past, job or ModelJob(n=4)).quantile(0.5)


def test_a_run_that_is_always_the_same_is_expected_to_stay_so() -> None:
    found = distribution([(USER, runs(*[500.0] * 30))], ModelJob(n=4))
    assert found.quantiles((0.05, 0.5, 0.95)) == pytest.approx([500, 500, 500], rel=1e-3)


def test_runs_of_the_same_name_count_more_than_others_of_the_user() -> None:
    past = PastRuns()
    for i in range(20):
        past.put(row_of(ModelJob(n=4, name=1 + i % 2), 100.0 if i % 2 else 1000.0))
    assert median_s((USER, past), job=ModelJob(n=4, name=1)) == pytest.approx(1000, rel=0.01)
    assert median_s((USER, past), job=ModelJob(n=4, name=2)) == pytest.approx(100, rel=0.01)


def test_runs_of_the_same_size_and_limit_count_more_than_others() -> None:
    past = PastRuns()
    for _ in range(10):
        past.put(row_of(ModelJob(n=4, time_limit_s=HOUR_S), 100.0))
        past.put(row_of(ModelJob(n=64, time_limit_s=HOUR_S), 2000.0))
    assert median_s((USER, past), job=ModelJob(n=64, time_limit_s=HOUR_S)) == pytest.approx(2000, rel=0.01)
    assert median_s((USER, past), job=ModelJob(n=4, time_limit_s=HOUR_S)) == pytest.approx(100, rel=0.01)


def test_runs_of_the_same_limit_alone_decide_where_there_are_some() -> None:
    past = PastRuns()
    for _ in range(10):
        past.put(row_of(ModelJob(n=4, time_limit_s=HOUR_S), 100.0))
        past.put(row_of(ModelJob(n=4, time_limit_s=8 * HOUR_S), 20_000.0))
    assert median_s((USER, past), job=ModelJob(n=4, time_limit_s=HOUR_S)) == pytest.approx(100, rel=0.01)
    assert median_s((USER, past), job=ModelJob(n=4, time_limit_s=8 * HOUR_S)) == pytest.approx(20_000, rel=0.01)


def test_new_runs_count_more_than_old_ones() -> None:
    assert median_s((USER, runs(*[100.0] * 40, *[300.0] * 15))) == pytest.approx(300, rel=0.01)


def test_a_user_of_many_runs_outweighs_the_centre_and_one_without_follows_it() -> None:
    everybody = runs(*[1000.0] * 64)
    assert median_s((USER, runs(*[10.0] * 10)), (CLASS, everybody), (CENTRE, everybody)) < 15
    assert median_s((USER, PastRuns()), (CLASS, everybody), (CENTRE, everybody)) == pytest.approx(1000, rel=0.05)


def test_nothing_is_expected_beyond_the_time_limit_and_its_grace() -> None:
    found = distribution([(USER, runs(*[5 * HOUR_S] * 5))], ModelJob(n=4, time_limit_s=HOUR_S))
    assert found.quantile(1.0) <= HOUR_S + OVERRUN_S + 1e-6
    assert found.below(HOUR_S + OVERRUN_S + 1) > 0.9


def test_a_longer_limit_lets_expect_a_longer_run() -> None:
    past = runs(*[1000.0] * 10, job=ModelJob(n=4, time_limit_s=HOUR_S))
    limits = [1.0, 2.0, 4.0]
    found = [median_s((USER, past), job=ModelJob(n=4, time_limit_s=HOUR_S * limit)) for limit in limits]
    assert found == pytest.approx([1000, 1000 * 2**0.5, 2000], rel=0.02)


def test_without_any_run_the_limit_alone_answers() -> None:
    found = distribution([], ModelJob(n=4, time_limit_s=HOUR_S))
    assert 1 < found.quantile(0.05) < found.quantile(0.5) < found.quantile(0.95) <= HOUR_S
    assert found.alike == 0


def test_runs_with_and_without_a_limit_may_mix() -> None:
    past = runs(100.0, 100.0)
    past.put(row_of(ModelJob(n=4, time_limit_s=HOUR_S), 200.0))
    assert 90 < median_s((USER, past)) < 210
    assert 1 < median_s((USER, past), job=ModelJob(n=4, time_limit_s=HOUR_S)) < HOUR_S


def test_the_oldest_runs_leave_and_memory_stays_bounded() -> None:
    past = runs(*[float(i + 1) for i in range(1000)])
    assert past.count == RUNS_MAX
    assert past.run_times_s()[0] == pytest.approx(1000)
    assert min(past.run_times_s()) == pytest.approx(1000 - RUNS_MAX + 1)


def test_a_corrected_run_takes_the_place_of_the_wrong_one() -> None:
    past = runs(100.0, 7.0, 300.0)
    past.replace(1, row_of(ModelJob(n=4), 200.0))
    assert past.run_times_s() == pytest.approx([300, 200, 100])
    with pytest.raises(IndexError, match="no such run"):
        past.replace(3, row_of(ModelJob(n=4), 1.0))


@given(
    st.lists(st.tuples(st.floats(1e-3, 1e9), st.floats(1e-3, 1e9), st.none() | st.floats(1e-3, 1e9)), max_size=80),
    st.floats(1e-3, 1e9),
    st.none() | st.floats(1e-3, 1e9),
)
@settings(max_examples=examples(150), deadline=None)
def test_quantiles_are_finite_and_rise_whatever_was_seen(
    seen: list[tuple[float, float, float | None]], n: float, limit_s: float | None
) -> None:
    past = PastRuns()
    for time_s, size, past_limit_s in seen:
        past.put(row_of(ModelJob(n=size, time_limit_s=past_limit_s), time_s))
    found = distribution([(group, past) for group in (USER, NAME, CLASS, CENTRE)], ModelJob(n=n, time_limit_s=limit_s))
    quantiles = found.quantiles((0, 0.05, 0.5, 0.95, 1))
    assert all(0 < low <= high < math.inf for low, high in pairwise(quantiles))
    shares = [found.below(time_s) for time_s in sorted((0.0, 1e-4, *quantiles, 1e12))]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] <= 1


def test_half_of_many_runs_lie_below_the_median_and_the_shares_are_those_of_the_law() -> None:
    generator = np.random.default_rng(4)
    found = distribution([(CLASS, runs(*np.exp(generator.normal(6, 0.5, 64)).tolist()))], ModelJob(n=4))
    assert found.below(found.quantile(0.5)) == pytest.approx(0.5)
    assert found.quantile(0.5) == pytest.approx(math.exp(6), rel=0.2)
    assert found.below(math.exp(7)) == pytest.approx(0.977, abs=0.04)


@pytest.mark.parametrize("aim", [LOW, UPPER, HIGH])
def test_levels_learn_to_hold_the_share_they_aim_at_though_the_law_is_too_narrow(aim: float) -> None:
    generator = np.random.default_rng(1)
    law = RunTimeDistribution(np.linspace(-1.5, 1.5, 201), np.ones(201), 0.0)
    levels, below = BandLevels(), []
    for value in np.exp(generator.normal(0, 0.8, 4000)):
        low_s, upper_s, high_s = law.quantiles(levels)
        below.append(value < {LOW: low_s, UPPER: upper_s, HIGH: high_s}[aim])
        levels = levels.after(float(value), (low_s, upper_s, high_s))
    assert np.mean(below[1000:]) == pytest.approx(aim, abs=0.01)


def test_levels_stay_levels_whatever_happens() -> None:
    levels = BandLevels()
    for _ in range(5000):
        levels = levels.after(1e6, (1.0, 2.0, 3.0))
    assert 0 < levels.low < 0.5 < levels.upper < 1
    assert levels.high < 1
    for _ in range(5000):
        levels = levels.after(1e-3, (1.0, 2.0, 3.0))
    assert 0 < levels.low < 0.5 < levels.upper <= levels.high < 1


def test_classes_distinguish_limits_and_sizes() -> None:
    assert class_of(ModelJob(n=1, time_limit_s=600.0)) != class_of(ModelJob(n=1, time_limit_s=86_400.0))
    assert class_of(ModelJob(n=1)) != class_of(ModelJob(n=64)) != class_of(ModelJob(n=64, time_limit_s=600.0))
    assert class_of(ModelJob(n=1, time_limit_s=1e-3))[0] == 0


@pytest.mark.parametrize("n", [0.0, -1.0, math.nan, math.inf])
def test_impossible_sizes_are_refused(n: float) -> None:
    with pytest.raises(ValueError, match="size"):
        ModelJob(n=n)


@pytest.mark.parametrize("limit_s", [0.0, -1.0, math.nan, math.inf])
def test_impossible_limits_are_refused(limit_s: float) -> None:
    with pytest.raises(ValueError, match="limit"):
        ModelJob(n=1, time_limit_s=limit_s)


@pytest.mark.parametrize("name", [-1, 2**53])
def test_names_are_numbers_that_a_float_holds(name: int) -> None:
    with pytest.raises(ValueError, match="name"):
        ModelJob(n=1, name=name)


@pytest.mark.parametrize("time_s", [0.0, -1.0, math.nan, math.inf])
def test_impossible_run_times_leave_no_trace(time_s: float) -> None:
    past = runs(100.0)
    with pytest.raises(ValueError, match="run time"):
        past.put(row_of(ModelJob(n=4), time_s))
    assert past.run_times_s() == pytest.approx([100])


@pytest.mark.parametrize("level", [-0.1, 1.1, math.nan])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        distribution([], ModelJob(n=1)).quantile(level)
