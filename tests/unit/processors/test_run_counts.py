"""What a model counts beside its runs and scores is what these themselves say, in whatever order they came and went."""

import msgspec
import numpy as np
import pytest

from processors.contracts.settings import RunTimeSettings
from processors.facts import Ground, RunFact, Scored
from processors.models.aggregates.sizes import LevelTable, rounded_sizes
from processors.models.drift import FARTHEST, SCORES_MAX, farthest_after
from processors.run_time.model import RunTime, RunTimeState

SETTINGS = RunTimeSettings(unmerged_runs_max=8)
GROUNDS: tuple[Ground, ...] = ("runs", "curve")


def run(number: int, n: float) -> RunFact:
    return RunFact(f"s/{number}@0", n, 100.0 / n, 0, number * 1000, number * 1000)


def scored(fact: RunFact, ground: Ground) -> Scored:
    return Scored(fact, 10.0, 8.0, 12.0, 0.1, 0.2, inside=True, horizon="inside", observations=5, ground=ground)


def sizes_of(model: RunTime) -> tuple[float, ...]:
    state = model.snapshot()
    merged = LevelTable.build(state.sizes or None).sizes()
    return tuple(sorted({*merged, *rounded_sizes(each.n for each in state.runs)}))


@pytest.mark.parametrize("seed", range(4))
def test_the_sizes_of_a_model_are_those_of_its_runs_after_corrections_and_a_restart(seed: int) -> None:
    draw, model = np.random.default_rng(seed), RunTime(SETTINGS, RunTimeState())
    for i in range(120):
        number, n = (
            (i if draw.random() < 0.7 else int(draw.integers(i + 1))),
            float(draw.choice([1.0, 2.0, 3.0, 0.1 + 0.2])),
        )
        if draw.random() < 0.2:
            model.forget(run(number, n).run_id, i)
        else:
            model.learn(run(number, n), outlier=int(draw.random() < 0.1))
        assert model.sizes() == sizes_of(model)
        if draw.random() < 0.1:
            model = RunTime(SETTINGS, model.snapshot())


@pytest.mark.parametrize("seed", range(3))
def test_what_is_derived_of_sizes_does_not_depend_on_earlier_fits(seed: int) -> None:
    settings = RunTimeSettings(unmerged_runs_max=24)
    draw, model = np.random.default_rng(seed), RunTime(settings, RunTimeState())
    for i in range(60):
        fact = run(
            i if draw.random() < 0.9 else int(draw.integers(i + 1)), float(draw.choice([1.0, 2.0, 4.0, 0.1 + 0.2]))
        )
        late = msgspec.structs.replace(fact, run_time_s=fact.run_time_s * float(np.exp(draw.normal(0.0, 0.1))))
        if draw.random() < 0.1:
            model.forget(fact.run_id, i)
        else:
            model.learn(late, outlier=int(draw.random() < 0.08))
        if i == 30 * seed:
            model.move_level(fact.run_id, i * 1000, 0.3, margin=0.05, detected_ms=i)
        if model.observations and i % 2:
            anew = RunTime(settings, model.snapshot()).study()
            assert model.study().run_time_s.tolist() == anew.run_time_s.tolist()
            assert (model.study().weight.tolist(), model.study().noise) == (anew.weight.tolist(), anew.noise)


def test_a_restored_model_drops_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunTimeSettings, "scores_max", 12)
    draw, model = np.random.default_rng(1), RunTime(SETTINGS, RunTimeState())
    restored = model
    for i in range(60):
        fact, ground = run(i, float(draw.choice([1.0, 2.0, 4.0]))), GROUNDS[i % 3 % 2]
        for each in (model, restored):
            each.note(scored(fact, ground))
        restored = RunTime(SETTINGS, restored.snapshot())
        assert restored.scores == model.scores
    assert len(model.scores) == SETTINGS.scores_max


@pytest.mark.parametrize("digits", [0, 1, 3])
def test_a_score_stays_among_the_farthest_until_four_later_ones_reach_it(digits: int) -> None:
    draw = np.random.default_rng(digits)
    known: list[tuple[int, float]] = []
    every: list[tuple[int, float]] = []
    for index in range(3 * SCORES_MAX):
        score = round(float(draw.exponential()), digits)
        every.append((index, score))
        known = farthest_after(known, [(index, score)])
        window = [entry for entry in every if entry[0] > index - SCORES_MAX]
        reached = {i: sum(later >= each for _, later in window[at + 1 :]) for at, (i, each) in enumerate(window)}
        assert known == [entry for entry in window if reached[entry[0]] < FARTHEST]
