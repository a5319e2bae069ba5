"""The sketch of run times: small errors, exact merging, bounded memory, compact state."""

import json
import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.aggregates.sketch import ALPHA, BUCKETS_MAX, GAMMA, LogSketch
from tests.kit.effort import examples

POSITION_ERROR = math.log(GAMMA) / 1024  # what rounding to a position may add to the relative error
run_times = st.floats(1e-3, 1e7)
spreads = st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.7])
LEVELS = [0, 0.01, 0.05, 0.25, 1 / 3, 0.5, 0.75, 0.9, 0.95, 0.99, 1]


def sketch_of(values: list[float]) -> LogSketch:
    sketch = LogSketch()
    for value in values:
        sketch.add(value)
    return sketch


def test_the_bucket_grows_by_the_known_factor() -> None:
    assert pytest.approx(1.01005, abs=5e-6) == GAMMA


@given(st.integers(0, 2**32 - 1), st.integers(1, 120), spreads)
@settings(max_examples=examples(200), deadline=None)
def test_every_quantile_lies_within_half_a_percent(seed: int, count: int, spread: float) -> None:
    values = np.exp(np.random.default_rng(seed).normal(5, spread, count))
    sketch = sketch_of(values.tolist())
    for level in LEVELS:
        assert sketch.quantile(level) == pytest.approx(np.quantile(values, level), rel=ALPHA + POSITION_ERROR)


@given(st.lists(st.integers(0, 1100), min_size=1, max_size=60), st.floats(1, 1e4))
@settings(max_examples=examples(300), deadline=None)
def test_values_at_the_far_ends_of_one_bucket_stay_within_half_a_percent(positions: list[int], start: float) -> None:
    values = [start * GAMMA ** (position / 1024) for position in positions]
    sketch = sketch_of(values)
    for level in LEVELS:
        assert sketch.quantile(level) == pytest.approx(np.quantile(values, level), rel=ALPHA + POSITION_ERROR)


@given(run_times, st.integers(1, 100))
@settings(deadline=None)
def test_a_value_comes_back_as_it_was(value: float, count: int) -> None:
    sketch = LogSketch()
    for _ in range(count):
        sketch.add(value)
    assert [sketch.quantile(level) for level in LEVELS] == [value] * len(LEVELS)
    assert (sketch.count, sketch.min, sketch.max) == (count, value, value)


def test_equal_values_among_others_come_back_within_the_rounding_of_a_position() -> None:
    sketch = sketch_of([3.0, 100.0, 100.0, 100.0, 100.0, 900.0])
    assert sketch.quantile(0.5) == pytest.approx(100, rel=1e-5)
    assert sketch.quantile(0) == 3
    assert sketch.quantile(1) == 900


def test_an_even_number_of_values_has_the_middle_of_two_as_its_median() -> None:
    assert sketch_of([1.0, 10.0, 20.0, 300.0]).quantile(0.5) == pytest.approx(15, rel=1e-5)


@given(st.lists(run_times, max_size=40), st.lists(run_times, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=examples(200), deadline=None)
def test_merging_is_the_sketch_of_both_in_any_order(left: list[float], right: list[float], random: Random) -> None:
    joint = left + right
    random.shuffle(joint)
    first, second = sketch_of(left), sketch_of(right)
    first.merge(second)
    other = sketch_of(right)
    other.merge(sketch_of(left))
    assert first.snapshot() == other.snapshot() == sketch_of(joint).snapshot()
    assert second.snapshot() == sketch_of(right).snapshot(), "the merged one stays as it was"


def test_memory_is_bounded_and_the_order_still_does_not_matter() -> None:
    generator = np.random.default_rng(3)
    values = np.exp(generator.uniform(-20, 20, 3000))
    sketch, backwards = sketch_of(values.tolist()), sketch_of(values[::-1].tolist())
    assert len(list(sketch.buckets())) <= BUCKETS_MAX
    assert sketch == backwards
    halves = sketch_of(values[:1000].tolist())
    halves.merge(sketch_of(values[1000:].tolist()))
    assert halves == sketch
    narrow = sketch_of([5.0])
    narrow.merge(sketch)
    assert narrow == sketch_of([5.0, *values.tolist()])
    coarse = (GAMMA ** (2**sketch.level) - 1) / (GAMMA ** (2**sketch.level) + 1)
    for level in LEVELS:
        assert sketch.quantile(level) == pytest.approx(np.quantile(values, level), rel=coarse + POSITION_ERROR)


def test_coarse_buckets_keep_their_promise_wherever_values_crowd() -> None:
    generator = np.random.default_rng(8)
    filling = GAMMA ** np.arange(1500, 2300, 2.5)
    for trial in range(200):
        ends = 4 * generator.integers(0, 20) + generator.choice([0, 1, 2, 3]) + np.array([0.004, 3.996])
        crowd = GAMMA ** generator.choice(ends, 40, p=[0.9, 0.1] if trial % 2 else [0.1, 0.9])
        values = np.concatenate([crowd, filling])
        sketch = sketch_of(values.tolist())
        assert sketch.level == 2
        coarse = (GAMMA**4 - 1) / (GAMMA**4 + 1)
        for rank in range(40):
            level = rank / (values.size - 1)
            assert sketch.quantile(level) == pytest.approx(np.sort(values)[rank], rel=coarse + POSITION_ERROR)


@given(st.lists(run_times, max_size=60), st.lists(run_times, max_size=5))
@settings(max_examples=examples(200), deadline=None)
def test_a_restored_sketch_goes_on_as_if_nothing_had_been(before: list[float], after: list[float]) -> None:
    restored = LogSketch.build(json.loads(json.dumps(sketch_of(before).snapshot())))
    for value in after:
        restored.add(value)
    assert restored.snapshot() == sketch_of(before + after).snapshot()


def test_wide_sketches_are_restored_too() -> None:
    sketch = sketch_of(np.exp(np.random.default_rng(1).uniform(-600, 600, 2000)).tolist())
    assert sketch.level > 0
    assert LogSketch.build(sketch.snapshot()) == sketch


def test_the_state_of_a_few_runs_is_a_few_numbers() -> None:
    assert LogSketch().snapshot() == []
    assert sketch_of([12.5]).snapshot() == [12.5]
    assert sketch_of([12.5, 11.0]).snapshot() == [11.0, 12.5]
    ten = np.exp(np.random.default_rng(0).normal(5, 0.03, 10)).round(2)
    assert len(json.dumps(sketch_of(ten.tolist()).snapshot(), separators=(",", ":"))) < 100


def test_a_copy_is_independent() -> None:
    sketch = sketch_of([1.0, 2.0, 3.0])
    twin = sketch.moved(0)
    twin.add(4.0)
    assert sketch == sketch_of([1.0, 2.0, 3.0])
    assert twin == sketch_of([1.0, 2.0, 3.0, 4.0])
    assert sketch != twin
    assert sketch != [1.0, 2.0, 3.0]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_garbage_is_refused_and_leaves_no_trace(value: float) -> None:
    sketch = sketch_of([1.0])
    with pytest.raises(ValueError, match="positive"):
        sketch.add(value)
    assert sketch == sketch_of([1.0])


@pytest.mark.parametrize("level", [-0.1, 1.1, float("nan")])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        sketch_of([1.0]).quantile(level)
    with pytest.raises(ValueError, match="quantile"):
        LogSketch().quantile(0.5)


@pytest.mark.parametrize("state", [[1.0, 2.0, 0, 5], [1.0, 2.0, 99, 5, 1, 1], [1.0, 2.0, -1, 5, 1, 1]])
def test_a_state_that_is_none_is_refused(state: list[float]) -> None:
    with pytest.raises(ValueError, match="state"):
        LogSketch.build(state)


def test_extreme_values_are_kept() -> None:
    values = [5e-324, 1e-300, 1.0, 1e300, 1.7e308, 1.7e308]
    sketch = sketch_of(values)
    assert (sketch.min, sketch.max) == (5e-324, 1.7e308)
    assert all(0 < sketch.quantile(level) < math.inf for level in LEVELS)
    assert LogSketch.build(sketch.snapshot()) == sketch
