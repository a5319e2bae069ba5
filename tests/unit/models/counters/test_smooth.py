"""The regression on counters that bends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.counters.gaussian_process import CounterProcess, CounterScale, fitting, kernel
from processors.models.counters.selection import ROWS_MAX, LinearModel, fitting_linear, parts
from processors.models.training.table import RunTable, finished
from tests.kit.effort import examples


def table(values: np.ndarray, target: np.ndarray, group: np.ndarray | None = None) -> RunTable:
    names = tuple(f"c{i}" for i in range(values.shape[1]))
    count = len(target)
    return RunTable(names, values, target, np.ones(count), np.arange(count) if group is None else group)


def fit(table: RunTable) -> CounterProcess:
    return finished(fitting(table))


def line(table: RunTable) -> LinearModel:
    return finished(fitting_linear(table, parts(table)))


def bent(count: int, seed: int, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.random((count, 2))
    return x, (200 + 80 * np.sin(4 * x[:, 0]) + 40 * x[:, 1]) * np.exp(noise * rng.normal(size=count))


def test_a_bend_is_followed_where_a_line_is_far_off() -> None:
    x, y = bent(80, 1)
    requested, truth = bent(200, 2)
    found = fit(table(x, y))
    assert np.mean(np.abs(found.predict(requested).value / truth - 1)) < 0.01
    assert line(table(x, y)).errors.near > 0.05


def test_the_error_it_reports_is_that_of_groups_fitted_without_and_not_of_repeats() -> None:
    x, y = bent(40, 3, noise=0.1)
    group = np.arange(40) // 2
    x[1::2], y[1::2] = x[::2], y[::2]  # each run twice: a repeat would tell its twin
    found = fit(table(x, y, group))
    assert found.errors.near > 0.03
    off = []
    for number in range(20):
        rest = group != number
        rows = found.scale.apply(x)
        alike = kernel(rows[rest], rows[rest], found.reach) + found.noise * np.eye(int(rest.sum()))
        answer = np.linalg.solve(alike, (y[rest] - found.centre) / found.spread)
        left = found.centre + found.spread * kernel(rows[~rest], rows[rest], found.reach) @ answer
        off.append(np.mean(np.abs(left / y[~rest] - 1)))
    assert found.errors.near == pytest.approx(np.mean(off), rel=1e-6)


def test_deviations_grow_where_no_run_is_near() -> None:
    x, y = bent(60, 4, noise=0.01)
    near, far = fit(table(x, y)).predict(np.array([[0.5, 0.5], [3.0, -2.0]])).deviation
    assert far > 2 * near


def test_a_wild_value_or_ranks_of_what_was_never_seen_stay_within_what_was() -> None:
    x, y = bent(30, 5)
    answers = fit(table(x, y)).predict(np.array([[1e300, -1e300], [0.0, 1e9]])).value
    assert ((answers >= y.min() / 2) & (answers <= y.max() * 1.5)).all()


def test_many_runs_are_thinned_and_alike_runs_or_still_counters_do_no_harm() -> None:
    x, y = bent(ROWS_MAX + 50, 6)
    assert len(fit(table(x, y)).rows) == ROWS_MAX
    same = fit(table(np.ones((8, 2)), np.full(8, 5.0)))
    assert same.predict(np.ones((1, 2))).value.tolist() == [5.0]
    assert line(table(np.ones((8, 2)), np.full(8, 5.0), np.zeros(8, int))).errors.near == 0.0


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12)), min_size=6, max_size=20))
def test_whatever_was_learned_answers_are_positive_and_finite(rows: list[tuple[float, float]]) -> None:
    data = np.array(rows)
    found = fit(table(data[:, :1], data[:, 1])).predict(data[:, :1])
    assert (np.isfinite(found.value) & (found.value > 0) & np.isfinite(found.deviation)).all()


def test_a_scale_of_ranks_is_even_and_ends_where_runs_do() -> None:
    values = np.array([[1.0], [10.0], [1000.0]])
    scale = CounterScale.of("ranks", values, np.ones(3))
    assert np.diff(scale.apply(values)[:, 0]) == pytest.approx([12**0.5 / 3] * 2)
    assert scale.apply(np.array([[1e9]])) == pytest.approx(scale.apply(values[2:]))
