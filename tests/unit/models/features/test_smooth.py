"""Run times that bend smoothly in several attributes which act on each other."""

import json

import numpy as np
import pytest

from processors.models.features.features import KINDS, SmoothKind, encoded
from processors.models.numerics.kriging import GROUPS_MAX, NEAR, STEPS, KrigingPoints, searching
from processors.models.training.runs import LearnedRun
from processors.models.training.table import RunTable, finished
from processors.models.training.trainer import Trainer


def table(count: int, seed: int, noise: float = 0.02) -> RunTable:
    """Near and far work of particles against each other: a power law in neither attribute."""
    chance = np.random.default_rng(seed)
    leaf, order, threads = (
        chance.uniform(16, 400, count),
        chance.integers(2, 9, count),
        2.0 ** chance.integers(0, 5, count),
    )
    time_s = (leaf / 10 + order**4.0 / leaf) / np.minimum(threads, 6.0) * np.exp(noise * chance.normal(size=count))
    values = np.stack([leaf, order, threads, chance.random(count)], axis=1)
    return RunTable(("leaf", "order", "threads", "place"), values, time_s, np.ones(count), np.arange(count))


@pytest.fixture(scope="module")
def seen() -> RunTable:
    return table(300, seed=1)


def test_attributes_that_act_on_each_other_are_learned_from_few_runs_and_the_error_is_foretold(seen: RunTable) -> None:
    requested = table(200, seed=2, noise=0.0)
    found = {name: finished(KINDS[name].fitting(seen, None)) for name in ("forest", "smooth")}
    off = {
        name: float(np.abs(np.log(model.predict(requested.values).value / requested.target)).mean())
        for name, model in found.items()
    }
    assert off["smooth"] < 0.04
    assert off["smooth"] < 0.5 * off["forest"]
    assert 0.5 < found["smooth"].error / off["smooth"] < 2.0


def test_what_decides_is_relevant_and_what_does_not_is_hardly(seen: RunTable) -> None:
    shares = dict(zip(seen.names, finished(SmoothKind().fitting(seen, None)).relevance.tolist(), strict=True))
    assert min(shares, key=lambda name: shares[name]) == "place"
    assert sum(shares.values()) == pytest.approx(1.0)


def test_the_band_is_wider_where_no_run_is_near(seen: RunTable) -> None:
    model = finished(SmoothKind().fitting(seen, None))
    near, far = model.predict(np.array([[100.0, 5.0, 4.0, 0.5], [3000.0, 40.0, 300.0, 0.5]])).deviation
    assert far > 2 * near


def test_a_fit_that_is_taken_up_again_anywhere_ends_the_same_to_the_bit(seen: RunTable) -> None:
    kind = SmoothKind()
    steps = list(kind.fitting(seen, None))
    for at in (0, STEPS // 2, STEPS, len(steps) - 1):
        assert list(kind.fitting(seen, json.loads(json.dumps(steps[at]))))[-1:] in ([steps[-1]], [])
    made = kind.model(seen, json.loads(json.dumps(steps[-1])))
    assert (
        made.predict(seen.values[:NEAR]).value.tolist()
        == finished(kind.fitting(seen, None)).predict(seen.values[:NEAR]).value.tolist()
    )


def test_a_fit_to_a_few_more_runs_goes_on_from_the_reaches_of_the_last(seen: RunTable) -> None:
    kind = SmoothKind()
    first = list(kind.fitting(seen, None))
    more = table(320, seed=1)
    anew, onward = (list(kind.fitting(more, begun)) for begun in (None, kind.again(first[-1])))
    assert len(onward) < len(anew) / 3
    assert onward[-1]["error"] < 1.3 * anew[-1]["error"]


def test_runs_that_are_alike_count_as_one_that_is_known_better() -> None:
    one = KrigingPoints.of(np.array([[1.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0]), np.array([1.0, 3.0, 1.0]))
    assert (one.values.tolist(), one.target.tolist(), one.weight.tolist()) == ([[1.0], [2.0]], [2.5, 5.0], [4.0, 1.0])


def test_too_many_attributes_are_left_to_the_other_models() -> None:
    columns = GROUPS_MAX + 1
    points = KrigingPoints.of(np.random.default_rng(1).random((20, columns)), np.arange(20.0), np.ones(20))
    with pytest.raises(ValueError, match="at most 48 correlation lengths"):
        next(searching(points, list(range(columns))))


def test_words_and_numbers_that_never_change_do_no_harm() -> None:
    trainer = Trainer({"run_time_s": KINDS})
    for i in range(40):
        values = encoded({"n": 4, "solver": ("cg", "amg")[i % 2], "mesh": 10 + i % 5})
        trainer.learn(LearnedRun(f"r{i}", i, values, {"run_time_s": 10.0 * (1 + i % 2) * (1 + i % 5)}))
    while trainer.tick():
        pass
    band = trainer.predict("run_time_s", encoded({"n": 4, "solver": "amg", "mesh": 12}))
    assert band is not None
    assert band.value == pytest.approx(60.0, rel=0.1)
