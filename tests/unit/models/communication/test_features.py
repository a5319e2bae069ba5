"""Features of traffic and scores of an order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from processors.models.features.communication import (
    NAMES,
    REPORTED_MAX,
    averages,
    features,
    r_squared,
    rcc,
    rcc_symmetric,
)
from tests.kit.effort import examples

LINKS = ([10, 20, 30, 40, 100, 98], [0, 1, 2, 3, 20, 4], [10, 20, 30, 40, 100, 98])


def test_the_worked_example_comes_out_to_the_digit() -> None:
    found = features(LINKS, ([1, 1, 2, 3, 4, 1], [1, 1, 1, 1, 1, 1]), [3, 5, 2])
    expected = {
        "avg_bytes": 49.666667,
        "max_bytes": 100.0,
        "avg_bytes_ao": 99.0,
        "avg_bytes_to": 99.0,
        "avg_buffer": 5.0,
        "avg_buffer_ao": 20.0,
        "avg_buffer_to": 20.0,
        "avg_delay": 0.07208,
        "avg_delay_ao": 0.1375,
        "avg_delay_to": 0.2,
        "sum_dilation_ao": 7.0,
        "max_fifo": 5.0,
        "max_dilation": 4.0,
        "avg_dilation": 2.0,
        "hop_bytes": 12.0,
        "avg_hops_per_byte": 2.0,
    }
    assert found == pytest.approx(expected, abs=1e-5)
    assert set(found) == set(NAMES)


def test_values_that_are_all_alike_have_no_outliers_and_idle_links_no_delay() -> None:
    found = features(([7.0, 7.0], [3, 3], [0, 0]), ([2, 2], [5, 5]))
    assert found["avg_bytes_ao"] == found["avg_bytes_to"] == 7.0
    assert found["sum_dilation_ao"] == 0.0
    assert found["avg_delay"] == found["avg_delay_to"] == 0.0
    assert averages("avg_bytes", np.full(7, 0.1))["avg_bytes_ao"] == 0.1


def test_what_a_producer_does_not_report_has_no_features() -> None:
    assert features() == {}
    assert set(features(fifo_messages=[1, 2])) == {"max_fifo"}
    assert features(messages=([1], [0.0]))["avg_hops_per_byte"] == 0.0


@pytest.mark.parametrize(
    ("links", "why"),
    [
        (([1.0], [1.0], []), "columns"),
        (([-1.0], [0.0], [0.0]), "negative"),
        (([float("nan")], [0.0], [0.0]), "finite"),
        (([0.0] * (REPORTED_MAX + 1),) * 3, "At most"),
    ],
)
def test_traffic_that_cannot_be_is_refused(links: tuple[list[float], list[float], list[float]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        features(links)


values = st.lists(st.floats(0.0, 1e12), min_size=1, max_size=40)


@settings(max_examples=examples(100), deadline=None)
@given(values)
def test_outliers_lie_between_the_mean_and_the_maximum(numbers: list[float]) -> None:
    array = np.array(numbers)
    for found in averages("avg_bytes", array).values():
        assert array.mean() * (1 - 1e-9) <= found <= array.max() * (1 + 1e-9)


def test_pairs_are_counted_as_the_source_states_and_ties_depend_on_the_order() -> None:
    tied = np.array([1.0, 1.0])
    assert (rcc(tied, np.array([1.0, 2.0])), rcc(tied, np.array([2.0, 1.0]))) == (1.0, 0.0)
    assert rcc_symmetric(tied, np.array([1.0, 2.0])) == rcc_symmetric(tied, np.array([2.0, 1.0])) == 0.5
    order = np.arange(28.0)
    swapped = order.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    assert rcc(swapped, order) == pytest.approx(377 / 378)


@settings(max_examples=examples(50), deadline=None)
@given(st.permutations(list(range(12))), st.randoms(use_true_random=False))
def test_without_ties_both_forms_are_that_of_kendall_whatever_the_order(order: list[int], chance: object) -> None:
    x, y = np.array(order, float), np.arange(12.0)
    assert rcc(x, y) == pytest.approx((1 + kendalltau(x, y).statistic) / 2)
    assert rcc_symmetric(x, y) == pytest.approx(rcc(x, y))


def test_r_squared_of_the_mean_is_zero_and_of_nothing_unknown() -> None:
    actual = np.array([1.0, 2.0, 3.0])
    assert r_squared(actual, actual) == 1.0
    assert r_squared(np.full(3, 2.0), actual) == 0.0
    assert np.isnan(r_squared(np.ones(2), np.ones(2)))
    assert np.isnan(rcc(np.ones(1), np.ones(1)))
    assert np.isnan(rcc_symmetric(np.ones(0), np.ones(0)))
