"""Samples far ahead of those around them are told apart; gaps, and clocks behind all others, cost nobody else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.windows.partition import FOLLOWING, far_ahead

AHEAD = 120_000
FAR = 10**9
NONE = np.zeros(0, np.int64)
GOOD = [10_000 * step for step in range(3_000)]


def found(times: list[int], slices: int = 700) -> list[int]:
    """The places of what is far ahead, in a stream that comes in slices."""
    every = np.array(times, np.int64)
    return [
        first + at
        for first in range(0, len(every), slices)
        for at in np.flatnonzero(
            far_ahead(
                every[first : first + slices],
                every[first + slices : first + slices + FOLLOWING],
                AHEAD,
            )
        ).tolist()
    ]


@pytest.mark.parametrize("places", [[0], [5], [699], [700, 701], [*range(1000, 1100)], [2_995], [*range(0, 3_000, 3)]])
def test_what_a_wrong_clock_states_is_far_ahead_and_all_else_is_not(places: list[int]) -> None:
    times = [time_ms + FAR if at in places else time_ms for at, time_ms in enumerate(GOOD)]
    assert found(times) == places


@pytest.mark.parametrize("behind_ms", [AHEAD + 1, FAR, 10**12])
def test_a_host_behind_all_others_costs_them_nothing(behind_ms: int) -> None:
    assert found([time_ms - behind_ms if at % 3 == 0 else time_ms for at, time_ms in enumerate(GOOD)]) == []


@given(st.lists(st.sampled_from([0, 1, 1_000, AHEAD, AHEAD + 1, FAR]), max_size=60), st.integers(1, 40))
def test_a_stream_in_the_order_of_time_may_have_any_gaps(steps: list[int], slices: int) -> None:
    assert found(np.cumsum(steps).tolist(), slices) == []


@given(st.lists(st.integers(0, AHEAD), max_size=60), st.integers(1, 40))
def test_within_the_lateness_that_is_allowed_any_order_will_do(times: list[int], slices: int) -> None:
    assert found(times, slices) == []


@given(st.lists(st.sampled_from([0, 1, FAR, FAR + 1, 2 * FAR]), max_size=60), st.integers(1, 40))
def test_how_a_stream_is_cut_makes_no_difference(times: list[int], slices: int) -> None:
    assert found(times, slices) == found(times, 1_000)


def test_what_comes_last_counts_for_nearly_nothing_comes_after_it() -> None:
    assert found([*GOOD[:50], FAR, GOOD[50]]) == []


def test_an_empty_slice_has_nothing_ahead() -> None:
    assert far_ahead(NONE, NONE, AHEAD).tolist() == []
