"""Arithmetic of stochastic values: worked figures, and what holds for all of them."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from processors.models.histogram import (
    AVAILABILITY_MIN,
    Histogram,
    add,
    at_least,
    divide,
    exact_sum,
    given,
    maximum,
    mean,
    minimum,
    multiply,
    point,
    power,
    rebinned,
    scaled,
    shifted,
)
from tests.kit.effort import examples
from tests.kit.histograms import variance

D = given([1, 3, 5], [0.3, 0.7])
E = given([2, 4, 7], [0.4, 0.6])
Operation = Callable[[Histogram, Histogram], Histogram]


@pytest.mark.parametrize(
    ("operation", "low", "high", "shares"),
    [
        (add, 3, 12, [0.054, 0.2236, 0.3204, 0.2508, 0.1512]),
        (multiply, 2, 35, [0.179906, 0.301117, 0.277934, 0.120522, 0.120522]),
        (divide, 1 / 7, 2.5, [0.269693, 0.38025, 0.1992, 0.075429, 0.075429]),
        (maximum, 2, 7, [0.06, 0.2, 0.34, 0.2, 0.2]),
    ],
)
def test_two_values_give_the_worked_intervals(
    operation: Operation, low: float, high: float, shares: list[float]
) -> None:
    found = operation(D, E)
    assert found.edges == pytest.approx(np.linspace(low, high, 6))
    assert found.shares == pytest.approx(shares, abs=1e-6)


def test_means_and_variances_of_a_sum_are_the_worked_ones() -> None:
    total = add(D, E)
    assert (float(mean(D)), float(mean(E)), float(mean(total))) == pytest.approx((3.4, 4.5, 7.89888))
    assert (float(variance(D)), float(variance(E))) == pytest.approx((1.173333, 2.083333), abs=1e-6)
    assert float(variance(total)) == pytest.approx(4.30734, abs=1e-5)


def test_an_exact_sum_is_as_wide_as_sums_really_are() -> None:
    draw = np.random.default_rng(4)
    d = np.where(draw.random(400_000) < 0.3, draw.uniform(1, 3, 400_000), draw.uniform(3, 5, 400_000))
    e = np.where(draw.random(400_000) < 0.4, draw.uniform(2, 4, 400_000), draw.uniform(4, 7, 400_000))
    exact = exact_sum(D, E)
    assert exact.shares == pytest.approx(np.histogram(d + e, exact.edges)[0] / 400_000, abs=0.003)
    assert exact.shares == pytest.approx([0.0488, 0.1971, 0.3523, 0.2882, 0.1136], abs=0.003)
    fine = exact_sum(D, E, intervals=25)
    assert float(variance(fine)) == pytest.approx(3.25667, abs=0.03)
    assert float(variance(add(D, E, intervals=25))) > 4.1


def test_certain_values_stay_certain() -> None:
    two, three = point(2.0), point(3.0)
    for operation, result in ((add, 5.0), (multiply, 6.0), (divide, 2 / 3), (maximum, 3.0), (minimum, 2.0)):  # fmt: skip
        assert operation(two, three).edges.tolist() == [result, result]
    assert exact_sum(two, three).edges.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("divisor", [given([-1, 1], [1.0]), given([0, 1], [1.0]), given([-2, -1, 0], [0.5, 0.5]), point(0.0)])  # fmt: skip
def test_a_divisor_that_may_be_zero_is_refused(divisor: Histogram) -> None:
    with pytest.raises(ValueError, match="A divisor may be 0"):
        divide(D, divisor)
    with pytest.raises(ValueError, match="A divisor may be 0"):
        power(divisor, -1)


def test_a_divisor_whose_part_at_zero_never_happens_is_none() -> None:
    assert divide(D, given([0, 1, 2], [0.0, 1.0])).edges[[0, -1]].tolist() == [0.5, 5.0]


def test_a_host_that_is_all_taken_delays_a_run_a_hundredfold_and_no_more() -> None:
    idle = at_least(given([0.0, 0.5, 1.0], [0.5, 0.5]), AVAILABILITY_MIN)
    assert idle.edges[[0, -1]].tolist() == [0.01, 1.0]
    assert divide(point(1.0), idle).edges[-1] == 100.0
    assert at_least(E, AVAILABILITY_MIN) is E


def test_results_beyond_numbers_are_refused() -> None:
    huge = given([1e300, 1.7e308], [1.0])
    results: tuple[Callable[[], Histogram], ...] = (
        lambda: add(huge, huge),
        lambda: multiply(huge, huge),
        lambda: scaled(huge, 1e9),
        lambda: power(huge, 3),
    )
    for result in results:
        with pytest.raises(ValueError, match="too large"):
            result()


def test_a_value_times_itself_is_no_product_of_two_values() -> None:
    value = given([-1, 2], [1.0])
    assert power(value, 2).edges[[0, -1]].tolist() == [0.0, 4.0]
    assert multiply(value, value).edges[[0, -1]].tolist() == [-2.0, 4.0]
    assert power(given([2, 4], [1.0]), -1).edges[[0, -1]].tolist() == [0.25, 0.5]


@st.composite
def histograms(draw: st.DrawFn, low: float = -1e3) -> Histogram:
    count = draw(st.integers(1, 6))
    start = draw(st.floats(low, 1e3))
    widths = draw(st.lists(st.floats(0.01, 100), min_size=count, max_size=count))
    weights = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count).filter(any))
    if draw(st.booleans()):
        return given(start + np.concatenate([[0], np.cumsum(widths)]), np.array(weights) / sum(weights))
    return point(start)


def support(x: Histogram) -> tuple[float, float]:
    return float(x.low[x.shares > 0].min()), float(x.high[x.shares > 0].max())


SUMS: list[Operation] = [add, exact_sum]
OPERATIONS: list[Operation] = [add, multiply, divide, maximum, minimum]


@settings(max_examples=examples(60), deadline=None)
@for_all(histograms(), histograms(low=0.5), st.sampled_from([1, 2, 5, 25]))
def test_every_operation_keeps_all_probability_and_none_is_negative(x: Histogram, y: Histogram, intervals: int) -> None:
    for operation in (*OPERATIONS, exact_sum):
        found = operation(x, y, intervals=intervals)  # type: ignore[call-arg]  # all of them have it
        assert abs(found.shares.sum() - 1) < 1e-12
        assert (found.shares >= 0).all()
        assert (np.diff(found.edges) >= 0).all()


@settings(max_examples=examples(60), deadline=None)
@for_all(histograms(), histograms(low=0.5))
def test_the_range_is_that_of_interval_arithmetic(x: Histogram, y: Histogram) -> None:
    (a, b), (c, d) = support(x), support(y)
    corners = [a * c, a * d, b * c, b * d]
    ratios = [a / c, a / d, b / c, b / d]
    wanted = [(a + c, b + d), (min(corners), max(corners)), (min(ratios), max(ratios)),
              (max(a, c), max(b, d)), (min(a, c), min(b, d))]  # fmt: skip
    for operation, ends in zip(OPERATIONS, wanted, strict=True):
        assert operation(x, y).edges[[0, -1]] == pytest.approx(ends, rel=1e-12, abs=1e-9)


@settings(max_examples=examples(60), deadline=None)
@for_all(histograms(), histograms())
def test_sums_products_and_maxima_do_not_depend_on_the_order(x: Histogram, y: Histogram) -> None:
    for operation in (add, multiply, maximum, minimum):
        one, other = operation(x, y), operation(y, x)
        assert one.edges == pytest.approx(other.edges, rel=1e-12)
        assert one.shares == pytest.approx(other.shares, abs=1e-9)


@settings(max_examples=examples(60), deadline=None)
@for_all(histograms(), histograms())
def test_the_mean_of_a_sum_is_the_sum_of_the_means_but_for_half_an_interval(x: Histogram, y: Histogram) -> None:
    for operation in SUMS:
        total = operation(x, y)
        half = float(total.edges[1] - total.edges[0]) / 2
        assert abs(float(mean(total)) - float(mean(x)) - float(mean(y))) <= half + 1e-9


@settings(max_examples=examples(60), deadline=None)
@for_all(histograms())
def test_adding_nothing_only_makes_intervals_equal(x: Histogram) -> None:
    same, plain = add(x, point(0.0)), rebinned(x.low, x.high, x.shares, 5)
    assert same.edges == pytest.approx(plain.edges)
    assert same.shares == pytest.approx(plain.shares, abs=1e-12)


@settings(max_examples=examples(40), deadline=None)
@for_all(histograms(), st.floats(-100, 100))
def test_a_number_scales_and_shifts_exactly(x: Histogram, number: float) -> None:
    assert float(mean(scaled(x, number))) == pytest.approx(number * float(mean(x)), abs=1e-6)
    assert float(variance(scaled(x, number))) == pytest.approx(number**2 * float(variance(x)), rel=1e-6, abs=1e-6)
    assert float(mean(shifted(x, number))) == pytest.approx(number + float(mean(x)), abs=1e-6)
    assert (np.diff(scaled(x, number).edges) >= 0).all()


@settings(max_examples=examples(25), deadline=None)
@for_all(st.integers(0, 2**32))
def test_hosts_together_give_what_each_gives_alone(seed: int) -> None:
    draw = np.random.default_rng(seed)
    x = given(np.cumsum(draw.uniform(0.1, 1, (4, 6)), axis=1), draw.dirichlet(np.ones(5), 4))
    y = given(np.cumsum(draw.uniform(0.1, 1, (4, 6)), axis=1), draw.dirichlet(np.ones(5), 4))
    for operation in OPERATIONS:
        joint, shared = operation(x, y), operation(x, D)
        for host in range(4):
            for found, alone in (
                (joint, operation(x.host(host), y.host(host))),
                (shared, operation(x.host(host), D)),
            ):
                assert found.host(host).edges == pytest.approx(alone.edges)
                assert found.host(host).shares == pytest.approx(alone.shares, abs=1e-12)
