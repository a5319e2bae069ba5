"""All runs of an application become faster or slower: what they tell of attributes is learned on at the level of now."""

import json
import math

import msgspec
import numpy as np
import pytest

from processors.models.features.features import KINDS
from processors.models.training.runs import BY_WHAT_THEY_ADD, LearnedRun, LevelShift, LevelWatch, Ratio, Reservoir
from processors.models.training.trainer import Trainer


def shifts(ratios: list[Ratio], deviation: float = 0.05) -> list[LevelShift]:
    """Those that are found, where answers follow each."""
    watch, found = LevelWatch(), list[LevelShift]()
    for each in ratios:
        shift = watch.learn(each._replace(ln_ratio=each.ln_ratio - sum(known.ln_factor for known in found)), deviation)
        found += [shift] if shift is not None else []
    return found


def ratios(count: int, factor: float, *, since: int, configurations: int = 20, seed: int = 1) -> list[Ratio]:
    chance = np.random.default_rng(seed)
    off = 0.05 * chance.normal(size=count) + np.where(np.arange(count) >= since, math.log(factor), 0.0)
    return [Ratio(i, int(chance.integers(configurations)), float(each)) for i, each in enumerate(off)]


@pytest.mark.parametrize("factor", [0.6, 1.25])
def test_a_new_level_of_all_runs_is_found_within_a_dozen_with_its_time_and_factor(factor: float) -> None:
    found = shifts(ratios(212, factor, since=200))
    assert len(found) == 1
    assert abs(found[0].before_ms - 200) <= 2
    assert math.exp(found[0].ln_factor) == pytest.approx(factor, rel=0.07)


def test_without_a_shift_none_is_found() -> None:
    assert not shifts(ratios(2000, 1.0, since=2000))


def test_one_configuration_that_is_off_is_no_shift_of_all() -> None:
    calm = ratios(400, 1.0, since=400)
    assert not shifts([each._replace(ln_ratio=each.ln_ratio - 0.5 * (each.configuration == 3)) for each in calm[200:]])
    assert not shifts(calm[:200] + ratios(30, 0.5, since=0, configurations=1))


def test_what_a_model_of_few_runs_is_off_by_in_a_region_is_no_shift() -> None:
    chance = np.random.default_rng(1)
    scattered = [Ratio(i, i, float(0.1 * chance.normal() - 0.12 * (200 <= i < 260))) for i in range(400)]
    assert not shifts(scattered)


def test_answers_that_were_unsure_make_no_shift() -> None:
    assert not shifts(ratios(230, 0.6, since=200), deviation=0.6)


def run(i: int, factor: float = 1.0) -> LearnedRun:
    mesh, order = float(1 + i % 13), float(1 + i % 7)
    return LearnedRun(f"r{i}", i, {"mesh": mesh, "order": order}, {"run_time_s": 10.0 * mesh * order**2 * factor})


def test_runs_of_before_count_at_the_level_of_now_and_are_stored_as_they_were() -> None:
    trainer = Trainer({"run_time_s": KINDS}, retention=BY_WHAT_THEY_ADD)
    for i in range(100):
        trainer.learn(run(i))
    while trainer.tick():
        pass
    trainer.reservoir.shift(LevelShift(100, math.log(0.5)))
    assert trainer.wants
    assert trainer.reservoir.level == pytest.approx(math.log(0.5))
    restored = Trainer(
        {"run_time_s": KINDS}, state=json.loads(msgspec.json.encode(trainer.snapshot())), retention=BY_WHAT_THEY_ADD
    )
    for each in (trainer, restored):
        while each.tick():
            pass
        assert each.reservoir.level == 0.0
        band = each.predict("run_time_s", {"mesh": 5.0, "order": 3.0})
        assert band is not None
        assert band.value == pytest.approx(10.0 * 5 * 9 * 0.5, rel=0.05)
    assert trainer.snapshot() == restored.snapshot()
    assert trainer.reservoir.find("r5") == run(5)


def test_a_shift_that_is_found_while_a_fit_goes_on_takes_part_in_the_next() -> None:
    reservoir = Reservoir(64, retention=BY_WHAT_THEY_ADD)
    for i in range(20):
        reservoir.add(run(i))
    reservoir.begin()
    reservoir.shift(LevelShift(20, math.log(2.0)))
    before = reservoir.table("run_time_s").target.sum()
    restored = Reservoir.build(json.loads(msgspec.json.encode(reservoir.snapshot())), 64, BY_WHAT_THEY_ADD)
    for each in (reservoir, restored):
        each.advance()
        assert each.due
        assert each.table("run_time_s").target.sum() == before
        each.advance()
        assert each.table("run_time_s").target.sum() == pytest.approx(2.0 * before)
        assert not each.due
