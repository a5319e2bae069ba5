"""The pipeline from counters to the few that explain a target."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from processors.models.counters.model import explained, per_cycle
from processors.models.counters.selection import CORRELATION_MIN, loadings, ridge, select
from processors.models.numerics.statistics import ranks, spearman
from processors.models.training.table import RunTable
from tests.kit.effort import examples

EXAMPLE = np.array([(1, 2, 5), (2, 1, 5), (3, 4, 5), (4, 3, 5), (5, 6, 5), (6, 5, 5)], dtype=float)


def table(values: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None) -> RunTable:
    names = tuple(f"c{i:02}" for i in range(values.shape[1]))
    rows = len(target)
    return RunTable(names, values, target, np.ones(rows) if weight is None else weight, np.arange(rows))


def test_the_worked_example_comes_out_to_the_digit() -> None:
    given = table(EXAMPLE, 2 + 3 * EXAMPLE[:, 0] + 0.5 * EXAMPLE[:, 1])
    found = select(given)
    assert found.chosen == (0, 1)
    assert found.linear.intercept == pytest.approx(2.0, abs=1e-4)
    assert found.linear.coefficients == pytest.approx([3.0, 0.5], abs=1e-4)
    named = explained(found, given)
    assert [each.counter for each in named] == ["c00", "c01"]
    assert [each.rho for each in named] == pytest.approx([1.0, 0.828571], abs=1e-6)
    assert [each.coefficient for each in named] == pytest.approx([3.0, 0.5], abs=1e-4)
    assert sum(each.share for each in named) == pytest.approx(1.0)


def test_rank_correlation_shares_the_ranks_of_those_alike() -> None:
    assert spearman(np.array([[1.0], [2.0], [2.0], [3.0]]), np.arange(4.0)).item() == pytest.approx(0.948683, abs=1e-6)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=30))
def test_ranks_and_correlations_are_those_of_a_library(rows: list[tuple[int, int]]) -> None:
    data = np.array(rows, dtype=float)
    assert ranks(data) == pytest.approx(rankdata(data, axis=0))
    if np.ptp(data, axis=0).all():
        assert spearman(data[:, :1], data[:, 1]).item() == pytest.approx(spearmanr(*data.T).statistic, abs=1e-9)


def latent(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Forty counters of three hidden causes, which the target follows too; both with a little noise of their own."""
    rng = np.random.default_rng(seed)
    mix, effect = rng.normal(size=(3, 40)), rng.uniform(0.5, 1.5, size=3)
    cause = rng.random((rows, 3))
    counters = 5.0 + cause @ mix + 0.05 * rng.normal(size=(rows, 40))
    return counters, (20.0 + 5.0 * cause @ effect) * (1 + 0.01 * rng.normal(size=rows))


def test_forty_counters_of_three_causes_predict_within_five_percent() -> None:
    errors = []
    for seed in range(20):
        values, target = latent(seed, 160)
        found = select(table(values[:60], target[:60])).predict(values[60:]).value
        errors.append(np.mean(np.abs(found / target[60:] - 1)))
    assert np.mean(errors) <= 0.05


def test_a_counter_that_does_not_move_a_copy_and_few_runs_do_no_harm() -> None:
    rng = np.random.default_rng(1)
    x = rng.random((6, 1))
    values = np.concatenate([x, 2 * x, np.full((6, 1), 7.0), rng.random((6, 20))], axis=1)
    found = select(table(values, 100 + 50 * x[:, 0]))
    assert len(found.chosen) <= 4
    assert 2 not in found.chosen
    assert found.predict(values).value == pytest.approx(100 + 50 * x[:, 0], rel=0.02)


def test_where_nothing_explains_the_target_its_mean_is_the_answer() -> None:
    values = np.array([[1.0], [2.0], [1.0], [2.0]])
    given = table(values, np.array([10.0, 10.0, 20.0, 20.0]))
    found = select(given)
    assert (found.chosen, explained(found, given)) == ((), [])
    assert found.predict(values).value.tolist() == [15.0] * 4
    assert select(table(values[:1], np.array([10.0]))).predict(values).value.tolist() == [10.0] * 4


def test_predictions_stay_near_what_was_seen() -> None:
    x = np.arange(1.0, 9.0)[:, None]
    found = select(table(x, 100 * x[:, 0]))
    assert found.predict(np.array([[1e9], [-1e9]])).value.tolist() == [1200.0, 50.0]


def test_a_run_of_no_weight_worth_speaking_of_changes_nothing() -> None:
    x = np.arange(1.0, 11.0)[:, None]
    target = 50 + 10 * x[:, 0]
    target[4] = 2000.0
    weight = np.ones(10)
    weight[4] = 1e-6
    assert select(table(x, target, weight)).linear.coefficients == pytest.approx([10.0], rel=0.01)


def test_thresholds_state_what_is_kept() -> None:
    values, target = latent(3, 60)
    chosen = select(table(values, target)).chosen
    rho = np.abs(spearman(values, target))
    assert 0 < len(chosen) < len(rho)
    assert (rho[list(chosen)] >= CORRELATION_MIN).all()


def test_rates_are_per_cycle_and_what_is_no_count_is_left_out() -> None:
    counters = {"cycles": 2e9, "instructions": 4e9, "misses": float("nan"), "odd": -1.0, "huge": float("inf")}
    assert per_cycle(counters) == {"instructions": 2.0}
    assert per_cycle({"instructions": 4e9}) == per_cycle({"cycles": 0.0, "instructions": 1.0}) == {}


def test_ridge_without_columns_is_the_weighted_mean_and_components_of_nothing_are_none() -> None:
    found = ridge(np.zeros((2, 0)), np.array([1.0, 4.0]), np.array([1.0, 2.0]), 1e-6)
    assert found.predict(np.zeros((1, 0))).tolist() == [3.0]
    assert loadings(np.zeros((5, 2)), np.ones(5)).tolist() == [0.0, 0.0]
