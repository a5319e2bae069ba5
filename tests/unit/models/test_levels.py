"""Levels of an application: any order of events gives the same bits, and what moved can move back."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.models.aggregates.sizes import (
    OWN_ENOUGH,
    SIZES_MAX,
    AggregatedSizes,
    LevelTable,
    PlacedRun,
    aggregate,
)

RUNS = st.lists(
    st.builds(
        PlacedRun,
        n=st.sampled_from([1.0, 2.0, 4.0]),
        run_time_s=st.floats(10, 1000),
        start_ms=st.integers(0, 99),
        outlier=st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


def moved(*levels: tuple[int, float], margin: float = 0.02) -> LevelTable:
    table = LevelTable()
    for since_ms, ln_factor in levels:
        table.move(since_ms, ln_factor, margin)
    return table


def bits(sizes: AggregatedSizes) -> list[bytes]:
    columns = (sizes.n, sizes.median_s, sizes.min_s, sizes.count, sizes.weight, np.array(sizes.noise))
    return [column.tobytes() for column in columns]


@given(RUNS, st.randoms(use_true_random=False))
def test_any_order_of_runs_gives_the_same_bits(runs: list[PlacedRun], random: object) -> None:
    table = moved((30, 0.2), (60, -0.1))
    shuffled = sorted(runs, key=lambda _: random.random())  # type: ignore[attr-defined]  # hypothesis hands a Random
    assert bits(aggregate(table, runs)) == bits(aggregate(table, shuffled))


@given(RUNS)
def test_merged_or_not_gives_the_same_bits_within_one_move(runs: list[PlacedRun]) -> None:
    runs = [run._replace(outlier=False) for run in runs]
    table = moved((50, 0.2))
    for run in runs[::2]:
        table.add(run, end_ms=run.start_ms)
    restored = LevelTable.build(json.loads(json.dumps(table.snapshot())))
    whole = bits(aggregate(moved((50, 0.2)), runs))
    assert bits(aggregate(table, runs[1::2])) == whole
    assert bits(aggregate(restored, runs[1::2])) == whole


@given(RUNS)
def test_without_a_move_and_without_outliers_nothing_is_different(runs: list[PlacedRun]) -> None:
    runs = [run._replace(outlier=False) for run in runs]
    merged = LevelTable()
    for run in runs:
        merged.add(run, end_ms=run.start_ms)
    assert bits(aggregate(LevelTable(), runs)) == bits(aggregate(merged, []))


def test_runs_from_before_a_move_stand_in_until_a_size_has_its_own() -> None:
    table = LevelTable()
    for i in range(20):
        table.add(PlacedRun(4, 100.0, i), i)
        table.add(PlacedRun(8, 60.0, i), i)
    table.move(100, math.log(1.5), 0.02)
    first = aggregate(table, [PlacedRun(4, 160.0, 100)])
    assert first.median_s == pytest.approx([150.0, 90.0], rel=1e-3)
    assert first.count == pytest.approx([3.0, 2.0])
    own = aggregate(table, [PlacedRun(4, 160.0, 100 + i) for i in range(OWN_ENOUGH)])
    assert own.median_s == pytest.approx([160.0, 90.0], rel=1e-3)
    assert own.count == pytest.approx([OWN_ENOUGH, 2.0])


def test_an_application_that_is_back_finds_its_runs_whole() -> None:
    table = LevelTable()
    for i in range(9):
        table.add(PlacedRun(4, 100.0 + i, i), i)
    before = bits(aggregate(table, []))
    assert not table.move(20, 0.3, 0.02)
    assert table.move(40, -0.29, 0.02)
    assert bits(aggregate(table, [])) == before
    assert not table.move(60, -0.2, 0.02), "below where it ever was"


def test_a_late_report_of_an_early_run_counts_at_the_level_of_its_time() -> None:
    table = moved((100, math.log(2)))
    table.add(PlacedRun(4, 50.0, start_ms=10), end_ms=60)
    assert aggregate(table, []).median_s == pytest.approx([100.0], rel=1e-4)
    assert aggregate(table, [PlacedRun(4, 100.0, start_ms=100)] * 3).median_s == pytest.approx([100.0], rel=1e-4)


def test_an_outlier_counts_a_quarter() -> None:
    runs = [PlacedRun(4, 100.0, 0), PlacedRun(4, 101.0, 1), PlacedRun(4, 300.0, 2, outlier=True)]
    sizes = aggregate(LevelTable(), runs)
    assert sizes.count.tolist() == [2.25]
    assert sizes.median_s == pytest.approx([101.0], rel=0.006)
    assert aggregate(LevelTable(), [run._replace(outlier=True) for run in runs[:1]]).median_s == pytest.approx([100.0])


def test_what_is_kept_is_bounded() -> None:
    table = LevelTable()
    for level in range(20):
        for n in range(1, 100):
            table.add(PlacedRun(n, 100.0, level), level)
        table.move(level + 1, 0.1, 0.01)
    assert len(table.own.stats) + len(table.earlier) <= 2 * SIZES_MAX
    assert len(table.levels) == 8
    assert np.isfinite(aggregate(table, []).median_s).all()


@pytest.mark.parametrize("seed", range(5))
def test_noisy_runs_of_several_levels_give_the_same_bits_in_any_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    table = moved((30, 0.2), (60, -0.1))
    runs = [
        PlacedRun(float(n), float(time_s), int(start_ms), outlier=bool(outlier))
        for n, time_s, start_ms, outlier in zip(
            random.choice([1.0, 2.0, 4.0], 30),
            random.uniform(10, 1000, 30),
            random.integers(0, 100, 30),
            random.random(30) < 0.3,
            strict=True,
        )
    ]
    shuffled = [[runs[i] for i in random.permutation(30)] for _ in range(40)]
    assert {tuple(bits(aggregate(table, order))) for order in shuffled} == {tuple(bits(aggregate(table, runs)))}
