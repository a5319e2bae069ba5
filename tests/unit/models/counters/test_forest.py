"""Trees of many runs: what hosts draw that differ a little in what they count, and no trees of few runs."""

import numpy as np
import pytest

from processors.models.counters.model import BLEND, FOREST, FOREST_KIND, POWER_KINDS, explanation
from processors.models.counters.selection import ROWS_MAX
from processors.models.training.runs import LearnedRun
from processors.models.training.table import RunTable, finished
from processors.models.training.trainer import Trainer

HOSTS = 24


def runs(count: int, first: int = 0) -> list[LearnedRun]:
    """Return runs on hosts by turns: each host has a level of power and a temperature of its own that have nothing to do with each other."""
    rng = np.random.default_rng(7)
    level, warm = 1.0 + 0.05 * rng.normal(size=HOSTS), rng.random(HOSTS)
    found = []
    for i in range(first, first + count):
        own = np.random.default_rng([3, i])
        load, host = own.random(), i % HOSTS
        values = {"counter:load": load, "counter:warm": warm[host] + 1e-4 * own.normal()}
        watts = (200.0 + 60.0 * load) * level[host] * (1.0 + 0.002 * own.normal())
        found.append(LearnedRun(f"r{i}", i, values, {"system_power_w": watts}))
    return found


def trained(count: int) -> Trainer:
    trainer = Trainer({"system_power_w": POWER_KINDS}, 2048)
    for run in runs(count):
        trainer.reservoir.add(run)
    while trainer.tick():
        pass
    return trainer


def test_of_many_runs_trees_part_hosts_that_count_almost_alike() -> None:
    learner = trained(1200).learners["system_power_w"]
    later = runs(240, 1200)
    errors = {}
    for name, model in learner.models.items():
        assert learner.table is not None
        expected = [float(model.predict(learner.table.row(dict(run.values))).value[0]) for run in later]
        errors[name] = np.mean(
            [abs(e / run.targets["system_power_w"] - 1.0) for e, run in zip(expected, later, strict=True)]
        )
    assert learner.trusted == FOREST
    assert errors[FOREST] < 0.01
    assert errors[FOREST] < 0.5 * errors[BLEND]
    assert learner.models[FOREST].error == pytest.approx(errors[FOREST], rel=0.5)


def test_what_explains_an_answer_of_trees_is_what_moves_them() -> None:
    learner = trained(1200).learners["system_power_w"]
    assert next(each.counter for each in explanation(learner)) == "counter:load"


def test_of_as_many_runs_as_a_matrix_takes_no_trees_grow() -> None:
    learner = trained(ROWS_MAX).learners["system_power_w"]
    assert list(learner.models) == [BLEND]


def test_trees_are_the_same_again_from_what_was_found_of_them() -> None:
    found = runs(400)
    values = np.array([[run.values["counter:load"], run.values["counter:warm"]] for run in found])
    target = np.array([run.targets["system_power_w"] for run in found])
    table = RunTable(("load", "warm"), values, target, np.ones(400), np.arange(400))
    *_, last = FOREST_KIND.fitting(table, None)
    whole, again = finished(FOREST_KIND.fitting(table, None)), FOREST_KIND.model(table, last)
    assert again.predict(values).value.tolist() == whole.predict(values).value.tolist()
    assert again.error == whole.error


def test_answers_stay_near_what_was_measured() -> None:
    learner = trained(400).learners["system_power_w"]
    assert learner.table is not None
    far = learner.models[FOREST].predict(learner.table.row({"counter:load": 1e9, "counter:warm": -1e9})).value[0]
    assert 100.0 < far < 1.5 * max(learner.table.target)
