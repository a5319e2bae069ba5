"""Windows of samples as histograms: what they hold, what they say, and how good they were."""

from random import Random

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from processors.models.histogram import (
    Histogram,
    crps,
    cumulative,
    from_samples,
    given,
    in_common,
    interval_index,
    maximum_over,
    mean,
    minimum_over,
    mixture,
    pit,
    point,
    quantiles,
    variation,
    variation_class,
)
from tests.kit.cases import each
from tests.kit.effort import examples
from tests.kit.histograms import variance

SAMPLES = [0.2, 0.26, 0.31, 0.33, 0.35, 0.52, 0.55, 0.61, 0.68, 0.7]
WINDOW = from_samples(SAMPLES)


def test_ten_samples_give_the_worked_window() -> None:
    assert WINDOW.edges == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    assert WINDOW.shares == pytest.approx([0.2, 0.3, 0.0, 0.2, 0.3])
    assert (float(mean(WINDOW)), float(variance(WINDOW))) == pytest.approx((0.46, 0.0257333), abs=1e-7)
    assert float(variation(WINDOW)) == pytest.approx(0.5)


def test_samples_that_are_all_alike_are_one_point() -> None:
    constant = from_samples([3.0, 3.0, 3.0])
    assert (constant.edges.tolist(), constant.shares.tolist()) == ([3.0, 3.0], [1.0])
    assert quantiles(constant, [0.0, 0.5, 1.0]).tolist() == [3.0, 3.0, 3.0]


VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


@settings(max_examples=examples(80), deadline=None)
@for_all(VALUES, st.integers(1, 25), st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter_and_each_lies_where_it_was_counted(
    values: list[float], intervals: int, shuffle: Random
) -> None:
    window = from_samples(values, intervals)
    mixed = list(values)
    shuffle.shuffle(mixed)
    assert from_samples(mixed, intervals).shares.tolist() == window.shares.tolist()
    index = [int(interval_index(window, value)) for value in values]
    counted = np.bincount(np.clip(index, 0, None), minlength=window.intervals) / len(values)
    assert counted == pytest.approx(window.shares)
    assert min(index) >= 0
    assert max(index) < window.intervals


def test_hosts_may_have_different_numbers_of_samples() -> None:
    samples = np.full((3, 10), np.nan)
    samples[0], samples[1, :4], samples[2, 0] = SAMPLES, [1.0, 2.0, 3.0, 4.0], 7.0
    joint = from_samples(samples)
    for host, alone in enumerate(([*SAMPLES], [1.0, 2.0, 3.0, 4.0])):
        assert joint.host(host).shares == pytest.approx(from_samples(alone).shares)
    assert joint.host(2).edges.tolist() == [7.0] * 6
    assert joint.host(2).shares.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("samples", [[], [np.nan], [[1.0, 2.0], [np.nan, np.nan]], [np.inf, 1.0]])
def test_no_window_comes_from_nothing_or_from_infinity(samples: list[float]) -> None:
    with pytest.raises(ValueError):
        from_samples(samples)


@pytest.mark.parametrize(
    ("edges", "shares"),
    [([0, 1], [0.5, 0.5]), ([1, 0], [1]), ([0, np.nan], [1]), ([0, 1], [0.9]), ([0, 1, 2], [1.5, -0.5]), ([], [])],
)
def test_a_window_from_outside_that_is_none_is_refused(edges: list[float], shares: list[float]) -> None:
    with pytest.raises(ValueError):
        given(edges, shares)
    with pytest.raises(ValueError):
        in_common([edges, edges], [shares, [1.0, 0.0, 0.0]])


@settings(max_examples=examples(60), deadline=None)
@for_all(VALUES.filter(lambda values: max(values) - min(values) > 1e-3))
def test_quantiles_undo_cumulative_probabilities(values: list[float]) -> None:
    window, levels = from_samples(values), np.linspace(0.01, 0.99, 9)
    assert cumulative(window, quantiles(window, levels)) == pytest.approx(levels)
    assert (np.diff(quantiles(window, levels)) >= 0).all()


def test_levels_beyond_0_and_1_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantiles(WINDOW, [1.1])


def test_classes_of_variation_have_their_limits() -> None:
    assert [variation_class(length) for length in (0.0, 0.25, 0.26, 0.5, 0.51, 1.0)] == [
        "low", "low", "medium", "medium", "high", "high",
    ]  # fmt: skip


@each("actual", [0.1, 0.2, 0.31, 0.45, 0.5, 0.66, 0.7, 0.9])
def test_a_score_is_the_integral_that_it_stands_for(actual: float) -> None:
    at = np.linspace(-0.2, 1.2, 200_001)
    squares = (cumulative(WINDOW, at) - (at >= actual)) ** 2
    assert float(crps(WINDOW, actual)) == pytest.approx(float(np.trapezoid(squares, at)), abs=2e-5)


def test_hosts_are_scored_each_with_its_own_value() -> None:
    two = in_common([WINDOW.edges.tolist(), (3.0,)], [WINDOW.shares.tolist(), (1.0,)])
    assert crps(two, [0.5, 4.0]) == pytest.approx([float(crps(WINDOW, 0.5)), 1.0])
    assert pit(two, [0.4, 3.0]) == pytest.approx([0.5, 0.5])


def test_forecasts_that_are_right_have_even_transforms_and_the_best_score() -> None:
    draw = np.random.default_rng(1)
    actual = quantiles(WINDOW, draw.random(4000))
    assert np.histogram(pit(WINDOW, actual), 5, (0, 1))[0] / 4000 == pytest.approx([0.2] * 5, abs=0.03)
    wide = given([0.0, 1.0], [1.0])
    assert float(crps(WINDOW, actual).mean()) < float(crps(wide, actual).mean())


def test_the_largest_of_many_is_as_their_simulation_states() -> None:
    draw = np.random.default_rng(2)
    for n in (2, 16, 300):
        largest = quantiles(WINDOW, draw.random((20_000, n)).ravel()).reshape(-1, n).max(axis=1)
        found = maximum_over(WINDOW, counts=n)
        assert cumulative(found, [np.quantile(largest, level) for level in (0.25, 0.5, 0.75)]) == pytest.approx(
            [0.25, 0.5, 0.75], abs=0.1
        )
        assert float(mean(found)) == pytest.approx(largest.mean(), abs=0.15 * float(largest.std()))


def test_the_largest_of_ten_thousand_keeps_its_shape() -> None:
    found = maximum_over(given([0.0, 1.0], [1.0]), counts=1e4)
    assert found.edges[0] > 0.999
    assert float(mean(found)) == pytest.approx(1 - 1e-4, abs=1e-5)


@settings(max_examples=examples(40), deadline=None)
@for_all(st.floats(1.0, 200.0), st.floats(1.0, 3.0))
def test_the_largest_of_more_is_never_smaller(n: float, factor: float) -> None:
    few, more = maximum_over(WINDOW, counts=n), maximum_over(WINDOW, counts=n * factor)
    assert float(mean(more)) >= float(mean(few)) - 0.01
    assert abs(more.shares.sum() - 1) < 1e-12


def test_hosts_that_differ_give_the_product_of_their_probabilities() -> None:
    hosts = given(np.linspace(0, 1, 6) + np.arange(3)[:, None] / 4, np.full((3, 5), 0.2))
    found = maximum_over(hosts)
    for at, share in zip(found.edges[1:], np.cumsum(found.shares), strict=True):
        assert share == pytest.approx(np.prod(cumulative(hosts, [at])[:, 0]))
    alike = Histogram(np.repeat(WINDOW.edges[None], 7, 0), np.repeat(WINDOW.shares[None], 7, 0))
    assert maximum_over(alike).shares == pytest.approx(maximum_over(WINDOW, counts=7).shares)
    assert minimum_over(point(2.0), counts=5).edges.tolist() == [2.0, 2.0]


def test_pooled_windows_are_those_of_a_host_picked_at_random() -> None:
    hosts = in_common([(0.0, 0.5, 1.0), (0.75,)], [(0.5, 0.5), (1.0,)])
    pool = mixture(hosts)
    assert pool.edges == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert pool.shares == pytest.approx([0.1, 0.1, 0.1, 0.6, 0.1])
    assert mixture(hosts, weights=[1.0, 0.0]).shares == pytest.approx([0.2] * 5)
    with pytest.raises(ValueError, match="needs hosts"):
        mixture(WINDOW)
    with pytest.raises(ValueError, match="needs hosts"):
        mixture(hosts, weights=[0.0, 0.0])
