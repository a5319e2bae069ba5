"""A host unlike its peers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from processors.models.detect.multivariate import PEERS_MIN, compared_with_peers


def test_the_straggler_of_a_job_stands_out_and_a_slower_job_does_not() -> None:
    fast, slow = 10.0 + np.arange(8) * 0.01, 30.0 + np.arange(8) * 0.01
    slow[3] = 45.0
    z = compared_with_peers(np.concatenate([fast, slow]), np.repeat([0, 1], 8)).deviations
    assert np.flatnonzero(np.abs(z) > 5).tolist() == [11]


def test_few_peers_and_values_that_are_no_numbers_report_nothing() -> None:
    assert compared_with_peers(np.array([1.0, 1.0, 9.0]), np.zeros(3, int)).deviations.tolist() == [0.0] * 3
    assert compared_with_peers(np.array([1.0, 1.0, 9.0, np.nan]), np.zeros(4, int)).deviations.tolist() == [0.0] * 4
    assert compared_with_peers(np.zeros(0), np.zeros(0, int)).deviations.tolist() == []


def test_hosts_that_all_stand_still_are_alike_and_the_one_that_does_not_is_infinitely_unlike() -> None:
    assert compared_with_peers(np.array([0.0, 0.0, 0.0, 0.0, 1.0]), np.zeros(5, int)).deviations.tolist() == [
        0.0,
        0.0,
        0.0,
        0.0,
        np.inf,
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-1e6, 1e6)), max_size=40))
def test_each_group_is_judged_as_if_it_were_alone(hosts: list[tuple[int, float]]) -> None:
    group, value = np.array([g for g, _ in hosts], int), np.array([v for _, v in hosts])
    z = compared_with_peers(value, group).deviations
    for one in range(4):
        mine = value[group == one]
        if mine.size < PEERS_MIN:
            assert not z[group == one].any()
            continue
        off = mine - np.median(mine)
        deviation = max(1.4826 * float(np.median(np.abs(off))), 0.01 * abs(float(np.median(mine))))
        if deviation > 1e-9:
            np.testing.assert_allclose(z[group == one], off / deviation, rtol=1e-6, atol=1e-6)
