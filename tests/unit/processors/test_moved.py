"""Which counter moved with the run times of an application: only one that did, by more than its own noise."""

import math

import numpy as np
import pytest

from processors.models.training.runs import LearnedRun
from processors.power.blame import MovedCounter, moved

MOMENT_MS = 10_000_000
TIME_S = 10.0


def run(i: int, time_ms: int, n: float = 4.0, weight: float = 1.0, **per_cycle: float) -> LearnedRun:
    values = {f"counter:{name}": rate for name, rate in per_cycle.items()} | {"ln_n": math.log(n)}
    return LearnedRun(f"r{i:03}", time_ms, values, {"run_time_s": TIME_S}, weight)


def story(
    change: float, noise: float, since: int = 3, before: int = 40, *, counters: int = 1, seed: int = 1
) -> MovedCounter | None:
    """Return what is found where the first of some counters changed, and all scatter."""
    rng, runs = np.random.default_rng(seed), []
    for i in range(before + since):
        late = i >= before
        rates = {f"c{j:02}": 0.01 * float(np.exp(noise * rng.normal())) for j in range(counters)}
        rates["c00"] *= change if late else 1.0
        runs.append(run(i, MOMENT_MS + (i + 1) * 100_000 if late else i * 1000, **rates))
    return moved(runs, MOMENT_MS)


def test_a_counter_that_moved_is_reported_by_how_much() -> None:
    found = story(1.4, 0.05)
    assert found is not None
    assert found.text.startswith("c00 per cycle rose by ")
    assert found.since / found.before == pytest.approx(1.4, rel=0.05)


def test_a_counter_that_moved_by_less_than_its_own_noise_is_not_named() -> None:
    assert story(1.4, 0.5) is None
    assert story(1.04, 0.001) is None


def test_of_many_counters_that_did_not_move_hardly_ever_one_is_named() -> None:
    named = [story(1.0, 0.1, counters=20, seed=seed) is not None for seed in range(100)]
    assert sum(named) <= 5


def test_too_few_runs_name_nothing() -> None:
    assert story(1.4, 0.01, since=1) is None
    assert story(1.4, 0.01, before=7) is None


def test_sizes_that_were_not_run_before_show_nothing() -> None:
    runs = [run(i, i * 1000, c=0.01) for i in range(40)]
    assert moved([*runs, *(run(50 + i, MOMENT_MS + 100_000, n=64.0, c=0.02) for i in range(4))], MOMENT_MS) is None


def test_runs_that_were_disturbed_before_do_not_count() -> None:
    runs = [run(i, i * 1000, c=0.01 * (1 + 0.001 * (i % 7))) for i in range(40)]
    runs += [run(60 + i, i * 1000, weight=0.1, c=0.05) for i in range(60)]
    found = moved([*runs, *(run(200 + i, MOMENT_MS + 100_000, c=0.014) for i in range(3))], MOMENT_MS)
    assert found is not None
    assert found.since / found.before == pytest.approx(1.4, rel=0.02)
