"""Run times by size: order never matters, memory is bounded, merged or not gives the same bits."""

import json
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.aggregates.sizes import (
    NOISE_MIN,
    SIZES_MAX,
    AggregatedSizes,
    LevelTable,
    PlacedRun,
    SizeTable,
    aggregate,
    rounded_size,
    thin,
)
from tests.kit.effort import examples

Run = tuple[float, float, int]
runs = st.lists(
    st.tuples(st.sampled_from([0.5, 1, 2, 3, 4, 8, 16]), st.floats(0.1, 1e5), st.integers(0, 100)), max_size=40
)


def table_of(rows: list[Run]) -> SizeTable:
    table = SizeTable()
    for n, run_time_s, time_ms in rows:
        table.add(n, run_time_s, time_ms)
    return table


def aggregated(table: SizeTable, unmerged: Iterable[tuple[float, float]] = ()) -> AggregatedSizes:
    levels = LevelTable()
    levels.own = table
    return aggregate(levels, [PlacedRun(n, run_time_s, 0) for n, run_time_s in unmerged])


def bits(sizes: AggregatedSizes) -> list[bytes | float]:
    arrays = (sizes.n, sizes.median_s, sizes.min_s, sizes.count, sizes.weight)
    return [*(array.tobytes() for array in arrays), sizes.noise]


@given(runs, st.randoms(use_true_random=False))
@settings(max_examples=examples(100), deadline=None)
def test_the_order_of_runs_does_not_change_a_bit(rows: list[Run], random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert table_of(shuffled).snapshot() == table_of(rows).snapshot()
    assert bits(aggregated(table_of(shuffled))) == bits(aggregated(table_of(rows)))


@given(runs, st.integers(0, 40))
@settings(max_examples=examples(100), deadline=None)
def test_runs_that_are_merged_or_not_yet_merged_give_the_same_bits(rows: list[Run], split: int) -> None:
    merged, rest = rows[:split], rows[split:]
    table = table_of(merged)
    before = table.snapshot()
    assert bits(aggregated(table, [(n, t) for n, t, _ in rest])) == bits(aggregated(table_of(rows)))
    assert table.snapshot() == before


@given(runs, runs)
@settings(max_examples=examples(100), deadline=None)
def test_a_restored_table_goes_on_as_if_nothing_had_been(before: list[Run], after: list[Run]) -> None:
    restored = SizeTable.build(json.loads(json.dumps(table_of(before).snapshot())))
    for n, run_time_s, time_ms in after:
        restored.add(n, run_time_s, time_ms)
    assert bits(aggregated(restored)) == bits(aggregated(table_of(before + after)))
    assert restored.snapshot() == table_of(before + after).snapshot()


def test_a_hundred_thousand_runs_of_a_thousand_sizes_keep_sixty_four() -> None:
    generator = np.random.default_rng(1)
    table = SizeTable()
    sizes, times = generator.integers(1, 1001, 100_000), np.exp(generator.normal(5, 1, 100_000))
    for time_ms, (n, t) in enumerate(zip(sizes.tolist(), times.tolist(), strict=True)):
        table.add(n, t, time_ms)
    assert len(table.stats) == SIZES_MAX
    assert len(set(sizes[-SIZES_MAX:].tolist()) - set(table.stats)) == 0, "the last ones to run are there"
    assert table.evicted > 1000
    assert len(json.dumps(table.snapshot())) < 60_000


def test_the_size_with_the_oldest_last_run_goes_first() -> None:
    table = table_of([(float(n), 1.0, n) for n in range(1, SIZES_MAX + 1)])
    table.add(1, 1.0, 1000)
    table.add(1000, 1.0, 1001)
    assert 1.0 in table.stats
    assert 2.0 not in table.stats
    assert table.evicted == 1
    assert SizeTable.build(table.snapshot()).evicted == 1


def test_medians_and_minima_are_those_of_the_runs() -> None:
    generator = np.random.default_rng(4)
    values = {n: np.exp(generator.normal(5, 0.1, 21)) / n for n in (1.0, 2.0, 8.0)}
    sizes = aggregated(SizeTable(), [(n, t) for n, row in values.items() for t in row.tolist()])
    assert sizes.n.tolist() == [1, 2, 8]
    assert sizes.median_s == pytest.approx([np.median(row) for row in values.values()], rel=0.005)
    assert sizes.min_s.tolist() == [row.min() for row in values.values()]
    assert sizes.count.tolist() == [21] * 3


def test_noise_is_pooled_within_sizes_and_not_between_them() -> None:
    generator = np.random.default_rng(2)
    rows = [(n, float(1000 / n * np.exp(0.2 * z))) for n in (1.0, 4.0, 16.0) for z in generator.standard_normal(40)]
    logs = {n: np.log([t for m, t in rows if m == n]) for n in (1.0, 4.0, 16.0)}
    expected = np.sqrt(sum(((row - row.mean()) ** 2).sum() for row in logs.values()) / (120 - 3))
    assert aggregated(SizeTable(), rows).noise == pytest.approx(expected, rel=1e-3)
    assert expected == pytest.approx(0.2, rel=0.15)


def test_few_repeats_and_steady_ones_have_the_least_noise() -> None:
    wild = [(4.0, t) for t in (1.0, 9.0, 2.0, 30.0)]
    assert aggregated(SizeTable(), wild).noise == NOISE_MIN
    assert aggregated(SizeTable(), [(4.0, 7.0)] * 100).noise == NOISE_MIN
    assert aggregated(SizeTable(), wild * 3).noise > 1


def test_repeats_make_a_size_surer_but_never_surer_than_the_model() -> None:
    sizes = aggregated(SizeTable(), [(1.0, 100.0)] + [(2.0, 50.0)] * 4 + [(4.0, 25.0)] * 4000)
    assert sizes.weight[0] == pytest.approx(1)
    assert sizes.weight[1] == pytest.approx((0.02**2 + 0.03**2) / (0.02**2 + 0.03**2 / 4))
    assert sizes.weight[2] == pytest.approx(3.25, rel=0.01)


def test_sizes_that_agree_in_nine_digits_are_one() -> None:
    sizes = aggregated(SizeTable(), [(0.1 + 0.2, 5.0), (0.3, 5.0), (64, 1.0), (64.0, 1.0), (64.00000000001, 1.0)])
    assert sizes.n.tolist() == [0.3, 64]
    assert sizes.count.tolist() == [2, 3]
    assert rounded_size(123_456_789_123) == 123_456_789_000


@pytest.mark.parametrize(
    ("n", "t"), [(0, 1.0), (-1, 1.0), (float("nan"), 1.0), (float("inf"), 1.0), (1, 0.0), (1, -2.0)]
)
def test_garbage_is_refused_and_leaves_no_trace(n: float, t: float) -> None:
    table = table_of([(1.0, 1.0, 1)])
    before = table.snapshot()
    with pytest.raises(ValueError, match="positive"):
        table.add(n, t, 5)
    with pytest.raises(ValueError, match="positive"):
        table.add(n + 6, t * 0, 5)
    assert table.snapshot() == before
    with pytest.raises(ValueError, match="positive"):
        aggregated(table, [(n, t)])


def test_without_runs_there_are_no_sizes() -> None:
    sizes = aggregated(SizeTable())
    assert sizes.n.size == 0
    assert thin(sizes).n.size == 0


def test_the_arrays_are_computed_anew_after_a_run() -> None:
    table = table_of([(1.0, 10.0, 1)])
    assert aggregated(table).median_s.tolist() == [10]
    table.add(1, 30.0, 2)
    assert aggregated(table).median_s == pytest.approx([20], rel=1e-4)


def test_up_to_twelve_sizes_are_left_alone() -> None:
    sizes = aggregated(SizeTable(), [(float(n), 100.0 / n) for n in range(1, 13)])
    assert thin(sizes) is sizes


def test_near_neighbours_merge_and_the_ends_stay() -> None:
    rows = [(float(n), 1000.0 / n) for n in range(1, 65)]
    thinned = thin(aggregated(SizeTable(), rows))
    assert thinned.n.size == 12
    assert (thinned.n[0], thinned.n[-1]) == (1, 64)
    assert (thinned.median_s[0], thinned.median_s[-1]) == (1000, 1000 / 64)
    assert thinned.count.sum() == 64
    assert thinned.median_s * thinned.n == pytest.approx(np.full(12, 1000)), "what lies on a line stays on it"
    assert (np.diff(np.log(thinned.n)) > 0.1).all()


def test_a_merged_size_leans_to_where_most_runs_were() -> None:
    rows = [(1.0, 8.0), (7.9, 3.0), (8.0, 2.0), (8.0, 2.0), (8.0, 2.0), (64.0, 1.0)]
    thinned = thin(aggregated(SizeTable(), rows), 3)
    assert thinned.n[1] == pytest.approx(np.exp((np.log(7.9) + 3 * np.log(8)) / 4))
    assert thinned.median_s[1] == pytest.approx(np.exp((np.log(3) + 3 * np.log(2)) / 4))
    assert thinned.count.tolist() == [1, 4, 1]
    assert thinned.weight[1] > thinned.weight[0]


@given(st.sets(st.integers(1, 4000), min_size=13, max_size=64), st.integers(3, 12))
@settings(max_examples=examples(100), deadline=None)
def test_thinning_keeps_the_limit_the_order_and_the_ends(sizes: set[int], limit: int) -> None:
    full = aggregated(SizeTable(), [(n, 5.0) for n in sizes])
    thinned = thin(full, limit)
    assert thinned.n.size == limit
    assert (np.diff(thinned.n) > 0).all()
    assert (thinned.n[0], thinned.n[-1]) == (min(sizes), max(sizes))
    assert thinned.median_s == pytest.approx(np.full(limit, 5.0))
    assert thinned.count.sum() == len(sizes)


def test_a_table_is_not_thinned_to_nothing() -> None:
    with pytest.raises(ValueError, match="three"):
        thin(aggregated(SizeTable()), 2)


def test_extreme_numbers_are_aggregated_without_a_warning() -> None:
    rows = [(n, t) for n in (1e-300, 1.0, 1e308) for t in (5e-324, 1e-300, 1.0, 1.7e308)]
    sizes = aggregated(SizeTable(), rows)
    assert np.isfinite([sizes.n, sizes.median_s, sizes.min_s, sizes.weight]).all()
    assert np.isfinite(thin(aggregated(SizeTable(), [(10.0**i, 1e300) for i in range(-300, 300, 10)])).n).all()
