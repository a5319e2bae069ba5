"""Observations: one order, one unit of time, and nonsense refused."""

import numpy as np
import pytest

from processors.models.downey.curve import observations, seconds


def test_any_order_becomes_the_same_order() -> None:
    first = observations([4, 1, 4], [30.0, 100.0, 29.0], [1, 0.5, 0.2])
    second = observations([4, 4, 1], [29.0, 30.0, 100.0], [0.2, 1, 0.5])
    assert first.scale_s == second.scale_s
    for left, right in zip(first[:-1], second[:-1], strict=True):
        assert np.array_equal(left, right)
    assert first.n.tolist() == [1, 4, 4]
    assert first.run_time_s.tolist() == [100, 29, 30]


def test_the_unit_of_the_models_is_a_power_of_two_near_the_smallest_time() -> None:
    seen = observations([1, 2], [1e-300, 7e300])
    assert 0.5 < seen.rate.max() <= 1
    assert seconds(1.0, seen.scale_s) == seen.scale_s <= 1e-300
    assert seconds(1e10, observations([1], [1.7e308]).scale_s) == np.finfo(float).max


def test_what_weighs_nothing_is_left_out() -> None:
    assert observations([1, 2, 4], [3.0, 2.0, 1.0], [1, 0, 1]).n.tolist() == [1, 4]


def test_less_than_one_processor_is_an_observation_of_one() -> None:
    seen = observations([0.5, 0.1], [200.0, 900.0])
    assert seen.n.tolist() == [1, 1]
    assert seen.run_time_s.tolist() == [90, 100]


@pytest.mark.parametrize("weight", [[1e-200, 1], [1e200, 1], [0, 0], [-1, 2], [np.nan, 1], [1], [[1, 1]]])
def test_a_weight_that_means_nothing_is_refused(weight: list[float]) -> None:
    with pytest.raises(ValueError, match=r"[Ww]eights"):
        observations([1, 2], [2.0, 1.0], weight)


def test_a_table_is_no_list() -> None:
    with pytest.raises(ValueError, match="one length"):
        observations([[1, 2]], [[2.0, 1.0]])
