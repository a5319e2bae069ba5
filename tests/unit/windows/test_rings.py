"""Rings of samples: what they hold, how they grow, thin out and give memory back."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.errors import InvalidInputError
from processors.windows.minutes import summarise
from processors.windows.rings import Pool, Rings
from processors.windows.settings import Resume, WindowSettings
from tests.kit.rings import memory_bytes, plain_traits
from tests.kit.rings import retained as retained_of

Samples = list[tuple[int, int]]


def append(rings: Rings, samples: Samples, floor_ms: int = 0) -> None:
    series, time_ms = (np.array(column, np.int64) for column in zip(*samples, strict=True))
    rings.append(series, time_ms, time_ms / 7, floor_ms)


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400_000)), min_size=1, max_size=80), max_size=12))
def test_rings_hold_every_time_of_every_series_once(polls: list[Samples]) -> None:
    rings, expected = Rings(keep_ms=480_000), dict[int, set[int]]()
    for samples in polls:
        append(rings, samples)
        for series, time_ms in samples:
            expected.setdefault(series, set()).add(time_ms)
    if any(rings.thinned):
        return
    for series, times in expected.items():
        retained, values = retained_of(rings, series)
        assert retained.tolist() == sorted(times)
        assert np.allclose(values, retained / 7, rtol=1e-6)
    assert rings.counts["repeated"] == sum(len(poll) for poll in polls) - sum(len(times) for times in expected.values())


def test_what_is_needed_is_never_overwritten_and_what_is_not_makes_room() -> None:
    rings = Rings(keep_ms=480_000)
    for second in range(5_000):
        now_ms = second * 1_000
        append(rings, [(series, now_ms + series) for series in (0, 1, 2)], now_ms - 100_000)
        times = retained_of(rings, 1)[0]
        assert set(range(max(1, now_ms - 99_000 + 1), now_ms + 2, 1_000)) <= set(times.tolist())
    assert rings.pools[rings.pool[1]].capacity == 128


def test_three_hundred_samples_of_a_series_take_less_than_three_thousand_bytes() -> None:
    rings = Rings(keep_ms=480_000)
    for second in range(300):
        append(rings, [(series, second * 1_000) for series in range(3_000)])
    assert retained_of(rings, 7)[0].size == 300
    assert memory_bytes(rings) / 3_000 < 3_000


def test_too_dense_a_series_keeps_the_first_of_each_ten_seconds_and_its_neighbour_all() -> None:
    rings = Rings(keep_ms=430_000)
    for tenth in range(0, 4_200, 20):
        dense = [(0, t * 100) for t in range(tenth, tenth + 20)]
        append(rings, [*dense, (1, tenth * 100)])
    expected = [ten + tenth for ten in range(0, 420_000, 10_000) for tenth in range(0, 1_100, 100)]
    assert retained_of(rings, 0)[0].tolist() == expected
    assert retained_of(rings, 1)[0].size == 210
    assert rings.thinned.tolist()[:2] == [True, False]
    assert rings.counts["thinned"] == 4_200 - 42 * 11
    assert rings.clear_quiet(floor_ms=10**9) == 2
    assert not rings.thinned.any()


@given(st.permutations(range(60)), st.integers(1, 60))
def test_which_samples_stay_depends_on_their_order_alone_not_on_how_they_are_split(order: list[int], poll: int) -> None:
    rings, expected = Rings(keep_ms=430_000), list[int]()
    for first in range(0, 60, poll):
        append(rings, [(0, t * 500) for t in order[first : first + poll]])
    for t in order:
        if sum(one // 20 == t // 20 for one in expected) < 11:
            expected.append(t)
    assert retained_of(rings, 0)[0].tolist() == sorted(t * 500 for t in expected)
    assert rings.counts["thinned"] == 60 - len(expected)


def test_thousands_of_samples_of_one_series_in_one_poll_do_no_harm() -> None:
    rings = Rings(keep_ms=430_000)
    append(rings, [(0, t) for t in range(0, 400_000, 50)])
    assert retained_of(rings, 0)[0].size == 40 * 11


def test_samples_older_than_what_is_kept_cost_the_oldest_and_never_an_endless_search() -> None:
    rings = Rings(keep_ms=420_000)
    append(rings, [(0, t * 2_000) for t in range(1_000)])  # as if nothing ever expired
    assert retained_of(rings, 0)[0].size <= 512
    assert retained_of(rings, 0)[0].max() == 1_998_000


@given(st.lists(st.integers(0, 199), unique=True, max_size=150))
def test_rows_of_a_pool_stay_dense_and_keep_their_owners(gone: list[int]) -> None:
    pool = Pool(capacity=4)
    pool.time[pool.add(np.arange(200))] = np.arange(200, dtype=np.uint32)[:, None]
    moved, rows = pool.remove(np.array(gone, np.int64))
    assert pool.rows == 200 - len(gone)
    assert sorted(pool.owner[: pool.rows].tolist()) == sorted(set(range(200)) - set(gone))
    assert (pool.time[: pool.rows, 0] == pool.owner[: pool.rows]).all()
    assert (pool.owner[rows] == moved).all()


def test_a_histogram_has_five_equal_intervals_and_the_last_is_closed() -> None:
    rings = Rings(keep_ms=480_000)
    values = np.array([0.2, 0.26, 0.31, 0.33, 0.35, 0.52, 0.55, 0.61, 0.68, 0.7])
    rings.append(np.zeros(10, np.int64), np.arange(10) * 1_000, values, 0)
    found = summarise(rings, 0, np.array([True]), np.array([3]), traits=plain_traits(1))
    assert found.edges[0].tolist() == [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert found.shares[0].tolist() == [0.2, 0.3, 0.0, 0.2, 0.3]
    assert (found.count[0], found.window_count[0], found.late[0], found.mean[0]) == (10, 10, 3, 0.451)


@pytest.mark.parametrize("text", ["", "windows:2:60000", "windows:1:x", "windows:1:", "1795168800000"])
def test_metadata_that_reports_not_of_windows_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="does not have the form windows"):
        Resume.parse(text)


@pytest.mark.parametrize(
    "wrong", [{"late_max_s": -1.0}, {"late_max_s": 601.0}, {"emit_after_s": 61.0}, {"part_hosts": 0}]
)
def test_settings_that_windows_cannot_keep_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        WindowSettings(**wrong)
