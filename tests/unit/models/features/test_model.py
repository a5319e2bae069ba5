"""Run time from configured attributes."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.features.features import FURTHER, KINDS, AttributeForest, encoded, fitting, law
from processors.models.training.runs import LearnedRun, Reservoir
from processors.models.training.table import RunTable, finished
from processors.models.training.trainer import ScoredModel, Trainer
from tests.kit.effort import examples


def jobs(count: int, seed: int, noise: float = 0.02) -> list[LearnedRun]:
    """Run time goes with cells and steps over nodes; one solver takes twice as long, and large blocks spill a cache."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        nodes, cells, block = 2.0 ** rng.integers(0, 6), 10 ** rng.uniform(4, 7), float(rng.choice([16, 32, 64, 128]))
        solver = str(rng.choice(["sweep", "jacobi"]))
        time_s = 1e-4 * cells / nodes**0.9 * (2.0 if solver == "jacobi" else 1.0) * (1.6 if block > 32 else 1.0)
        reported = {"nodes": nodes, "cells": cells, "block": block, "solver": solver}
        targets = {"run_time_s": float(time_s * np.exp(noise * rng.normal()))}
        found.append(LearnedRun(f"job{seed}-{number}", number, encoded(reported), targets))
    return found


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    trainer = Trainer({"run_time_s": KINDS})
    for number, each in enumerate(jobs(200, seed=1)):
        trainer.learn(each)
        if number % 40 == 39:
            while trainer.tick():
                pass
    return trainer


def test_unseen_configurations_are_predicted_with_bands_that_hold_and_trees_find_what_powers_do_not(
    trainer: Trainer,
) -> None:
    off, covered = [], []
    for each in jobs(200, seed=2):
        band = trainer.predict("run_time_s", each.values)
        assert band is not None
        off.append(abs(np.log(band.value / each.targets["run_time_s"])))
        covered.append(band.holds(each.targets["run_time_s"]))
    learner = trainer.learners["run_time_s"]
    assert learner.trusted in {"forest", "smooth"}
    assert np.mean(off) < 0.08
    assert np.mean(covered) > 0.8
    measured, table = learner.models["forest"], learner.table
    assert table is not None
    assert isinstance(measured, ScoredModel)
    assert isinstance(measured.fitted, AttributeForest)
    found = dict(zip(table.names, measured.fitted.forest.importances().tolist(), strict=True))
    assert max(found, key=lambda name: found[name]) == "block"
    assert learner.models["law"].error > 2 * learner.models["forest"].error
    assert learner.models["law"].error > 2 * learner.models["smooth"].error


def test_a_restored_one_answers_the_same_to_the_bit(trainer: Trainer) -> None:
    restored = Trainer({"run_time_s": KINDS}, state=json.loads(json.dumps(trainer.snapshot())))
    for each in jobs(20, seed=3):
        assert restored.predict("run_time_s", each.values) == trainer.predict("run_time_s", each.values)


def test_a_choice_that_was_not_made_counts_as_zero_and_one_that_was_made_once_is_no_column() -> None:
    reservoir = Reservoir()
    for number, solver in enumerate(("a", "a", "b", "b", "c")):
        reservoir.add(LearnedRun(str(number), 0, encoded({"n": 1 + number, "solver": solver}), {"run_time_s": 1.0}))
    reservoir.advance()
    table = reservoir.table("run_time_s")
    assert table.names == ("n", "solver=a", "solver=b")
    assert table.row({"n": 2.0}).tolist() == [[2.0, 0.0, 0.0]]
    assert table.filled()[:, 1].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_attributes_of_any_kind_become_numbers_or_are_left_out() -> None:
    odd = {"nan": float("nan"), "list": [1], "nested": {}, "empty": "", "inf": "inf", "n": "64", "yes": False}
    assert encoded(odd) == {"n": 64.0, "yes": 0.0}


def table(values: np.ndarray, target: np.ndarray) -> RunTable:
    names = tuple(f"a{i}" for i in range(values.shape[1]))
    return RunTable(names, values, target, np.ones(len(target)), np.arange(len(target)))


def test_a_power_law_of_two_attributes_goes_on_beyond_what_was_seen_and_then_stays() -> None:
    rng = np.random.default_rng(1)
    values = np.exp(rng.uniform(0, 4, (60, 2)))
    found = law(table(values, 3 * values[:, 0] ** 1.5 / values[:, 1]))
    most = values.max(axis=0)
    requested = np.array([[2.0, 3.0], [most[0] * 2, 3.0], [most[0] * FURTHER * 1000, 3.0]])
    reported = found.predict(requested).value
    assert reported[:2] == pytest.approx(3 * requested[:2, 0] ** 1.5 / requested[:2, 1], rel=0.1)
    assert reported[2] < 10 * reported[1]


def test_few_runs_make_no_model_and_a_law_without_bends_needs_few() -> None:
    few = table(np.arange(1.0, 6.0)[:, None], np.arange(1.0, 6.0))
    with pytest.raises(ValueError, match="6 runs"):
        law(few)
    with pytest.raises(ValueError, match="12 runs"):
        finished(fitting(few))
    assert not law(table(np.arange(1.0, 8.0)[:, None], np.arange(1.0, 8.0))).bends


numbers = st.one_of(st.floats(-1e9, 1e9), st.sampled_from([0.0, 1.0, 1e300, 5e-324]))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(numbers, numbers, st.floats(1e-3, 1e9)), min_size=12, max_size=30))
def test_whatever_was_learned_answers_are_positive_and_finite(rows: list[tuple[float, float, float]]) -> None:
    data = np.array(rows)
    found = finished(fitting(table(data[:, :2], data[:, 2])))
    reported = found.predict(np.concatenate([data[:, :2], [[-1e308, 1e308]]])).value
    assert (np.isfinite(reported) & (reported > 0)).all()
