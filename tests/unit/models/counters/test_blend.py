"""Both models of counters together: whom to believe where, what is never empty, and how sure a far answer is."""

import json

import numpy as np
import pytest

from processors.models.counters.model import KINDS, BlendKind, CounterBlend, added, adds, explained, explanation
from processors.models.counters.selection import select
from processors.models.training.runs import LearnedRun
from processors.models.training.table import RunTable, finished
from processors.models.training.trainer import TargetLearner, Trainer


def table(values: np.ndarray, target: np.ndarray) -> RunTable:
    names = tuple(f"c{i}" for i in range(values.shape[1]))
    return RunTable(names, values, target, np.ones(len(target)), np.arange(len(target)))


def blend(table: RunTable) -> CounterBlend:
    return finished(BlendKind().fitting(table, None))


def bent_inside(count: int, seed: int, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """A line with a small wave where runs were seen, which is not there beyond."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(low, high, (count, 2))
    wave = np.where(x[:, 0] < 3.0, 8.0 * np.sin(5 * x[:, 0]), 0.0)
    return x, (200 + 30 * x[:, 0] + wave) * np.exp(0.005 * rng.normal(size=count))


def test_among_the_runs_that_were_seen_the_model_that_bends_answers_and_far_from_them_the_line_counts_more() -> None:
    found = blend(table(*bent_inside(120, 1, 0.0, 3.0)))
    inside, far = found.weights(np.array([[1.5, 1.5], [6.0, 1.5]]))
    assert inside[1] > 0.8
    assert far[0] > 2 * inside[0]


def test_a_far_answer_is_less_sure_than_a_near_one() -> None:
    found = blend(table(*bent_inside(120, 2, 0.0, 3.0)))
    near, far = found.predict(np.array([[1.5, 1.5], [9.0, 9.0]])).deviation
    assert far > 2 * near


def several(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Six counters that each move the target a little: none follows it by its rank."""
    rng = np.random.default_rng(seed)
    x = rng.random((count, 6))
    return x, 200 + 30 * x @ np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])


def test_where_no_counter_passes_the_correlation_all_of_them_answer_and_explain() -> None:
    given = table(*several(80, 3))
    assert select(given).chosen == ()
    found = blend(given)
    assert len(found.linear.selection.chosen) == 6
    requested, truth = several(200, 4)
    assert np.mean(np.abs(found.linear.predict(requested).value / truth - 1)) < 0.01
    named = explained(found, given)
    assert sorted(each.counter for each in named) == [f"c{i}" for i in range(6)]
    assert {each.counter: np.sign(each.effect) for each in named} == {f"c{i}": (-1.0) ** i for i in range(6)}
    assert sum(each.share for each in named) == pytest.approx(1.0)


def test_what_counters_add_at_a_point_is_all_that_the_answer_has_beyond_the_mean_run() -> None:
    given = table(*bent_inside(120, 5, 0.0, 3.0))
    found, row = blend(given), np.array([[2.7, 0.4]])
    mean = given.values.mean(axis=0)[None, :]
    beyond = found.predict(row).value.item() - found.predict(mean).value.item()
    parts = added(found, given, row)
    assert parts[0].counter == "c0"
    assert sum(each.amount for each in parts) == pytest.approx(beyond, rel=0.02)


def trained() -> Trainer:
    trainer = Trainer({"power_w": KINDS})
    for number, (row, watts) in enumerate(zip(*several(60, 6), strict=True)):
        values = {f"c{i}": float(value) for i, value in enumerate(row)}
        trainer.learn(LearnedRun(f"r{number:02}", number, values, {"power_w": float(watts)}))
    while trainer.tick():
        pass
    return trainer


def test_every_answer_of_an_application_is_explained() -> None:
    learner = trained().learners["power_w"]
    assert len(explanation(learner)) == 6
    parts = adds(learner, {"c0": 1.0, "c1": 0.0, "c2": 0.5, "c3": 0.5, "c4": 0.5, "c5": 0.5})
    assert [each.counter for each in parts[:2]] == ["c0", "c1"] or [each.counter for each in parts[:2]] == ["c1", "c0"]
    assert all(each.amount > 5.0 for each in parts[:2])


def test_a_state_that_holds_models_of_other_kinds_is_fitted_again_at_once() -> None:
    state = json.loads(json.dumps(trained().snapshot()))
    learner = state["learners"]["power_w"]
    learner["found"] = {"linear": learner["found"].pop("blend")}
    restored = Trainer({"power_w": KINDS}, state=state)
    assert restored.predict("power_w", {"c0": 1.0}) is None
    assert restored.wants
    while restored.tick():
        pass
    assert restored.predict("power_w", {"c0": 1.0}) is not None
    assert not TargetLearner(KINDS).replaced
