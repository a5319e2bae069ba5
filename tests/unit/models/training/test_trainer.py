"""An application's models: fitted in steps, followed, restored."""

import json
import time
from collections.abc import Generator

import numpy as np
import pytest

from processors.models.counters.model import KINDS, explanation
from processors.models.numerics.arrays import RowPredictions
from processors.models.training.runs import LearnedRun, Reservoir
from processors.models.training.table import FittedModel, RunTable
from processors.models.training.trainer import ReplayedKind, Trainer

TARGETS = {"power_w": KINDS, "run_time_s": KINDS}


def runs(count: int, seed: int = 1, disturbed: float = 0.0) -> list[LearnedRun]:
    """Power follows two counters, one of them with a bend; ten more counters tell nothing."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        x = rng.random(12)
        power = (200 + 100 * x[0] + 80 * np.sqrt(x[1])) * np.exp(0.01 * rng.normal())
        off = rng.random() < disturbed
        values = {f"c{i:02}": float(value) for i, value in enumerate(x)}
        targets = {"power_w": power * (1.5 if off else 1.0), "run_time_s": 100 / (0.5 + x[0])}
        found.append(LearnedRun(f"run{seed}-{number}", number, values, targets, weight=0.05 if off else 1.0))
    return found


def transferred(count: int) -> Trainer:
    trainer = Trainer(TARGETS)
    for each in runs(count):
        trainer.learn(each)
        while trainer.tick():
            pass
    return trainer


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    return transferred(90)


def test_unseen_runs_are_predicted_the_counters_named_and_the_bands_hold(trainer: Trainer) -> None:
    errors, covered = [], []
    for each in runs(200, seed=2):
        band = trainer.predict("power_w", each.values)
        assert band is not None
        errors.append(abs(band.value / each.targets["power_w"] - 1))
        covered.append(band.holds(each.targets["power_w"]))
    assert np.mean(errors) < 0.03
    assert np.mean(covered) > 0.8
    assert explanation(trainer.learners["power_w"])[0].counter == "c00"


def test_nothing_is_reported_before_anything_is_known_and_little_after_one_run() -> None:
    trainer = Trainer(TARGETS)
    assert trainer.predict("power_w", {"c00": 1.0}) is None
    assert not trainer.tick()
    trainer.learn(runs(1)[0])
    while trainer.tick():
        pass
    assert trainer.predict("power_w", {"c00": 1.0}) is None
    with pytest.raises(KeyError):
        trainer.predict("energy_j", {})


@pytest.mark.parametrize("steps", [0, 1, 11, 23])
def test_one_restored_in_the_middle_of_a_fit_answers_and_goes_on_as_the_other(steps: int) -> None:
    whole = transferred(20)
    more = runs(12, seed=3)
    for each in more[:6]:
        whole.learn(each)
    for _ in range(steps):
        whole.tick()
    whole.learn(more[6])
    restored = Trainer(TARGETS, state=json.loads(json.dumps(whole.snapshot())))
    for each in more[7:]:
        answers = [trainer.predict("power_w", each.values) for trainer in (whole, restored)]
        assert answers[0] == answers[1]
        reported = [trainer.tick() for trainer in (whole, restored)]
        assert reported[0] == reported[1]
        for trainer in (whole, restored):
            trainer.learn(each)
    assert json.dumps(whole.snapshot()) == json.dumps(restored.snapshot())


def test_one_restored_at_each_step_of_a_fit_predicts_the_same_to_the_bit_as_one_that_was_never_stopped() -> None:
    whole, restored = transferred(20), transferred(20)
    for each in runs(8, seed=3):
        whole.learn(each)
        restored.learn(each)
    going = True
    while going:
        restored = Trainer(TARGETS, state=json.loads(json.dumps(restored.snapshot())))
        going = whole.tick()
        assert restored.tick() == going
        assert restored.predict("power_w", runs(1, seed=5)[0].values) == whole.predict(
            "power_w", runs(1, seed=5)[0].values
        )
    assert json.dumps(whole.snapshot()) == json.dumps(restored.snapshot())


def test_a_kind_that_cannot_be_taken_up_again_is_fitted_again_after_a_restore() -> None:
    class Mean(FittedModel):
        error = 0.1

        def __init__(self, table: RunTable) -> None:
            self.mean = float(table.target.mean())

        def predict(self, values: np.ndarray) -> RowPredictions:
            return RowPredictions(np.full(len(values), self.mean), np.full(len(values), 0.1))

    def kind(table: RunTable) -> Generator[None, None, Mean]:
        yield
        yield
        return Mean(table)

    targets = {"power_w": {"mean": ReplayedKind(kind)}}
    whole = Trainer(targets)
    for each in runs(10):
        whole.learn(each)
        whole.tick()
    restored = Trainer(targets, state=json.loads(json.dumps(whole.snapshot())))
    assert whole.predict("power_w", {}) is not None
    for _ in range(4):
        assert restored.predict("power_w", {}) == whole.predict("power_w", {})
        assert restored.tick() == whole.tick()
    assert restored.snapshot() == whole.snapshot()


def test_models_are_those_of_the_runs_whatever_their_order() -> None:
    answers = []
    for seed in range(2):
        trainer = Trainer(TARGETS)
        for i in np.random.default_rng(seed).permutation(40):
            trainer.learn(runs(40)[i])
        while trainer.tick():
            pass
        row = trainer.learners["power_w"].table
        assert row is not None
        answers.append(
            [model.predict(row.filled()[:5]).value.tobytes() for model in trainer.learners["power_w"].models.values()]
        )
    assert answers[0] == answers[1]


def test_runs_that_were_disturbed_and_weigh_little_hardly_change_the_model() -> None:
    trainer = Trainer({"power_w": KINDS})
    for each in runs(100, disturbed=0.2):
        trainer.learn(each)
    while trainer.tick():
        pass
    requested = runs(50, seed=4)
    rows = [trainer.predict("power_w", each.values) for each in requested]
    off = [abs(band.value / each.targets["power_w"] - 1) for band, each in zip(rows, requested, strict=True) if band]
    assert np.mean(off) < 0.05


def test_a_step_of_a_full_reservoir_of_many_counters_is_short() -> None:
    trainer = Trainer({"power_w": KINDS})
    rng = np.random.default_rng(1)
    for number in range(512):
        x = rng.random(40)
        values = {f"c{i}": float(value) for i, value in enumerate(x)}
        trainer.learn(LearnedRun(f"r{number}", number, values, {"power_w": 100.0 + 100.0 * x[0]}))
    longest = 0.0
    while True:
        began = time.process_time()
        if not trainer.tick():
            break
        longest = max(longest, time.process_time() - began)
    assert longest < 0.5  # 50 ms are the aim; a busy machine takes its time


def test_a_reservoir_states_what_a_fit_is_made_of_until_it_is_made() -> None:
    reservoir = Reservoir()
    first, second = runs(2)
    reservoir.add(first)
    reservoir.begin()
    reservoir.add(second)
    assert len(reservoir.table("power_w")) == 1
    assert Reservoir.build(reservoir.snapshot()) == reservoir
    reservoir.advance()
    assert (list(reservoir.retained), list(reservoir.waiting)) == ([first.id], [second.id])
