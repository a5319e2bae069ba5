"""Forests: what a tree must do, whatever it is grown from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.numerics.trees import Forest, Growth, growing
from processors.models.training.table import finished
from tests.kit.effort import examples
from tests.kit.forests import mean


def grow(
    values: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None, growth: Growth | None = None
) -> Forest:
    heavy = np.ones(len(target)) if weight is None else weight
    return finished(growing(values, target, heavy, growth or Growth(), 1 << 17))


def friedman(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The first problem of Friedman, "Multivariate adaptive regression splines" (1991): five features of ten matter."""
    rng = np.random.default_rng(seed)
    x = rng.random((rows, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, y + rng.normal(size=rows)


def same(a: Forest, b: Forest, rows: np.ndarray) -> bool:
    return mean(a, rows).tobytes() == mean(b, rows).tobytes() and a.gain.tobytes() == b.gain.tobytes()


def test_every_row_that_was_learned_comes_back_exactly_from_leaves_of_one_row() -> None:
    x, y = friedman(200, 1)
    assert mean(grow(x, y), x) == pytest.approx(y, abs=1e-12)


def test_unseen_rows_are_explained_as_well_as_the_literature_states_and_by_the_features_that_matter() -> None:
    x, y = friedman(300, 1)
    forest = grow(x, y, growth=Growth(trees=50))
    requested, truth = friedman(1000, 2)
    assert np.mean((mean(forest, requested) - truth) ** 2) < 6.5  # the noise alone is 1, the variance 24
    assert set(np.argsort(forest.importances())[-5:]) == {0, 1, 2, 3, 4}
    assert forest.importances().sum() == pytest.approx(1.0)


def test_the_same_rows_and_seed_give_the_same_forest_whether_it_is_grown_at_once_or_tree_by_tree() -> None:
    x, y = friedman(150, 3)
    growth = Growth(trees=7)
    in_parts = finished(growing(x, y, np.ones(150), growth, rows_at_once=450))
    requested, _ = friedman(50, 4)
    whole = grow(x, y, growth=growth)
    assert mean(in_parts, requested) == pytest.approx(mean(whole, requested), abs=1e-12)
    assert in_parts.quantiles(requested, (0.1, 0.9)) == pytest.approx(whole.quantiles(requested, (0.1, 0.9)), abs=1e-12)
    assert same(whole, grow(x, y, growth=growth), requested)
    assert not same(whole, grow(x, y, growth=Growth(trees=7, seed=2)), requested)


def test_quantiles_are_those_of_the_targets_in_the_leaves() -> None:
    values = np.zeros((5, 1))
    forest = grow(values, np.array([1.0, 2.0, 3.0, 4.0, 10.0]))
    assert forest.quantiles(values[:1], (0.0, 0.2, 0.5, 0.8, 1.0)).tolist() == [[1.0, 1.5, 3.0, 7.0, 10.0]]
    heavy = grow(values, np.array([1.0, 2.0, 3.0, 4.0, 10.0]), np.array([0.1, 0.1, 0.1, 0.1, 1.0]))
    assert heavy.quantiles(values[:1], (0.5,)).item() == 10.0
    assert mean(heavy, values[:1]).item() == pytest.approx(11.0 / 1.4)


def test_bands_of_leaves_hold_about_what_they_promise() -> None:
    x, y = friedman(1000, 5)
    requested, truth = friedman(1000, 6)
    low, high = grow(x, y, growth=Growth(trees=30, leaf_rows=5)).quantiles(requested, (0.05, 0.95)).T
    assert 0.85 < np.mean((truth >= low) & (truth <= high)) < 0.99


def test_a_leaf_has_at_least_the_rows_it_must_and_no_row_is_lost() -> None:
    x, y = friedman(100, 7)
    forest = grow(x, y, growth=Growth(trees=4, leaf_rows=6))
    size = (forest.stop - forest.start)[forest.feature < 0]
    assert size.min() >= 6
    assert size.sum() == 400


def test_equal_targets_and_still_features_make_one_leaf() -> None:
    forest = grow(np.arange(6.0)[:, None], np.full(6, 2.5))
    assert len(forest.feature) == len(forest.roots)
    assert mean(grow(np.zeros((4, 2)), np.arange(4.0)), np.zeros((1, 2))).tolist() == [1.5]
    assert forest.importances().tolist() == [0.0]


numbers = st.floats(-1e100, 1e100)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=30))
def test_answers_never_leave_the_range_of_what_was_learned(rows: list[tuple[float, float, float]]) -> None:
    data = np.array(rows)
    forest = grow(data[:, :2], data[:, 2], growth=Growth(trees=3))
    low, high = data[:, 2].min(), data[:, 2].max()
    slack = 1e-9 * max(abs(low), abs(high), 1.0)
    requested = np.concatenate([data[:, :2], np.array([[1e300, -1e300]])])
    for answer in (mean(forest, requested), *forest.quantiles(requested, (0.05, 0.5, 0.95)).T):
        assert np.isfinite(answer).all()
        assert (answer >= low - slack).all()
        assert (answer <= high + slack).all()


def test_trees_of_many_rows_are_grown_in_some_steps_of_like_work_and_come_out_the_same() -> None:
    chance = np.random.default_rng(1)
    values, weight = chance.random((2048, 9)), np.ones(2048)
    target = values[:, 0] * values[:, 1]
    steps, few_rows = (growing(values, target, weight, Growth(2), rows) for rows in (2048, 64))
    counts, forests = [], []
    for each in (steps, few_rows):
        count = 0
        while True:
            try:
                next(each)
            except StopIteration as end:
                forests.append(end.value)
                break
            count += 1
        counts.append(count)
    assert 2 <= counts[0] <= 6
    assert counts[1] >= 20
    whole = grow(values, target, growth=Growth(2))
    for forest in forests:
        assert mean(forest, values[:50]).tolist() == mean(whole, values[:50]).tolist()
