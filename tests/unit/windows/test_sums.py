"""Minutes of what is only part of profiles, which keep no samples."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.telemetry import Series, SeriesIndex
from processors.windows.sums import SeriesTraits, SumColumns, Sums
from tests.kit.rings import memory_bytes

DELTA, TOTAL, LEVEL = "counter_delta>cycles", "counter_total>cycles", "counter_level>ipc"
NOW_MS = 1_795_168_800_000


def made(*names: str) -> Sums:
    index = SeriesIndex(99)
    for name in names:
        index.number(Series("exa", "nid1", name))
    return Sums(SeriesTraits(index), settle_minutes=2)


def add(sums: Sums, *samples: tuple[int, float, float]) -> None:
    """Append samples (series, seconds, value)."""
    series, seconds, value = np.array(samples, np.float64).reshape(-1, 3).T
    sums.append(series.astype(np.int64), NOW_MS + np.rint(seconds * 1000).astype(np.int64), value)


def predicted(sums: Sums, minute: int = 0) -> SumColumns:
    every = np.ones(99, np.bool_)
    return sums.of(every, NOW_MS // 60_000 + minute, np.zeros(99, np.int64))


def test_a_sum_is_reported_as_number_and_mean_and_a_counter_with_its_last_value() -> None:
    sums = made(DELTA, TOTAL)
    add(sums, (0, 0, 2.0), (1, 0, 2.0**53), (0, 59.9, 4.0), (1, 30, 2.0**53 + 2))
    found = predicted(sums)
    assert found.mean.tolist() == [3.0, pytest.approx(2.0**53)]
    assert (found.low[0], found.high[0], found.count.tolist()) == (2.0, 4.0, [2, 2])
    assert np.isnan(found.last[0])
    assert found.last[1] == 2.0**53 + 2


def test_what_is_reported_twice_counts_once_also_in_another_batch() -> None:
    sums = made(DELTA)
    add(sums, (0, 1, 5.0), (0, 31, 7.0), (0, 1, 5.0))
    add(sums, (0, 31, 7.0))
    assert (predicted(sums).count.tolist(), predicted(sums).mean.tolist(), sums.counts["repeated"]) == ([2], [6.0], 2)


def test_parts_of_a_host_may_share_a_level() -> None:
    sums = made(LEVEL)
    add(sums, *((0, 10, float(core)) for core in range(72)))
    add(sums, *((0, 10, float(core)) for core in range(72)))
    assert (predicted(sums).count[0], predicted(sums).mean[0], sums.counts["repeated"]) == (144, 35.5, 0)


def test_measurements_twice_a_second_all_count() -> None:
    sums = made(DELTA)
    add(sums, *((0, half / 2 + 0.1, 1.0) for half in range(120)))
    assert predicted(sums).count.tolist() == [120]


def test_each_minute_has_its_own_sum_and_an_old_one_makes_room() -> None:
    sums = made(DELTA)
    for minute in range(12):
        add(sums, (0, minute * 60 + 5, minute + 1.0))
        assert predicted(sums, minute).mean.tolist() == [minute + 1.0]
    assert len(predicted(sums, 0).series) == 0
    assert predicted(sums, 8).mean.tolist() == [9.0]


def test_series_that_are_quiet_give_their_rows_to_others() -> None:
    sums = made(*(f"counter_delta>c{i}" for i in range(50)))
    add(sums, *((i, 1, 1.0) for i in range(25)))
    assert (len(sums), sums.numbers().tolist()) == (25, list(range(25)))
    before = memory_bytes(sums)
    assert sums.clear_quiet(NOW_MS + 60_000) == 25
    add(sums, *((i, 2, float(i)) for i in range(25, 50)))
    found = predicted(sums)
    assert sorted(zip(found.series.tolist(), found.mean.tolist(), strict=True)) == [
        (i, float(i)) for i in range(25, 50)
    ]
    assert memory_bytes(sums) == before


def test_numbers_may_be_given_anew() -> None:
    sums = made("load1", DELTA, TOTAL)
    add(sums, (2, 1, 9.0))
    index = SeriesIndex(9)
    index.number(Series("exa", "nid1", TOTAL))
    sums.renumber(SeriesTraits(index), sums.numbers())
    add(sums, (0, 2, 11.0))
    assert (predicted(sums).series.tolist(), predicted(sums).last.tolist()) == ([0], [11.0])


def test_a_power_has_windows_even_where_it_is_of_one_job() -> None:
    index = SeriesIndex(9)
    for name in ("power_w>cpu:0", "power_w>cpu:0#812", DELTA, "load1#812"):
        index.number(Series("exa", "nid1", name))
    assert SeriesTraits(index).mask("summed").tolist() == [
        False,
        False,
        True,
        True,
    ]


def _in_order(found: SumColumns) -> SumColumns:
    return found.take(np.argsort(found.series))


def parts(samples: list[tuple[int, int, float]], sizes: list[int]) -> Iterator[list[tuple[int, int, float]]]:
    at = 0
    for size in [*sizes, len(samples)]:
        yield samples[at : at + size]
        at += size


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 90_000), st.floats(0, 1e15)), max_size=60),
    st.lists(st.integers(0, 20), max_size=5),
)
def test_how_samples_are_split_changes_nothing(samples: list[tuple[int, int, float]], sizes: list[int]) -> None:
    one, other = (made(DELTA, TOTAL, LEVEL) for _ in range(2))
    add(one, *((series, at_ms / 1000, value) for series, at_ms, value in samples))
    for part in parts(samples, sizes):
        add(other, *((series, at_ms / 1000, value) for series, at_ms, value in part))
    for minute in (0, 1):
        left, right = (_in_order(predicted(sums, minute)) for sums in (one, other))
        assert left.count.tolist() == right.count.tolist()
        assert left.mean.tolist() == right.mean.tolist()
        assert [repr(value) for value in left.last.tolist()] == [repr(value) for value in right.last.tolist()]
