"""Costs that applications share: found whatever the scale of each, scaled by a few runs, and worthless where nothing is shared."""

import numpy as np
import pytest

from processors.features.shared import APPLICATIONS_MAX, RUNS_MAX, CommunicationPool, SharedRun, scaled, shared
from processors.models.features.communication import NAMES
from processors.models.numerics.arrays import Floats

SET = ("max_bytes", "avg_buffer_to", "max_fifo")
Rows = list[dict[str, float]]


def rows(count: int, low: float, high: float, seed: int) -> Rows:
    drawn = np.random.default_rng(seed).uniform(low, high, (count, len(SET)))
    return [dict(zip(SET, row, strict=True)) for row in drawn.tolist()]


def times_s(runs: Rows, scale: float = 1.0, besides: float = 0.0) -> Floats:
    return np.array([scale * (2.0 * run["max_bytes"] + 5.0 * run["avg_buffer_to"]) + besides for run in runs])


def test_costs_are_found_whatever_the_scales_and_what_each_takes_besides() -> None:
    known = [rows(20, 1.0, 3.0, seed=i) for i in range(3)]
    shape = [(1.0, 0.0), (300.0, 0.0), (20.0, 200.0)]
    time_s = np.concatenate([times_s(runs, *each) for runs, each in zip(known, shape, strict=True)])
    found = shared(SET, [run for runs in known for run in runs], time_s, np.repeat(np.arange(3), 20))
    cost = np.array(found.cost)
    assert cost[1] / cost[0] == pytest.approx(2.5, rel=0.02)
    assert cost[2] == pytest.approx(0.0, abs=1e-3)
    assert found.error < 0.02


def test_two_runs_scale_them_and_sizes_beyond_follow() -> None:
    known = rows(40, 1.0, 3.0, seed=1)
    found = shared(SET, known, times_s(known) * np.repeat([1.0, 50.0], 20), np.repeat([0, 1], 20))
    own, far = rows(2, 1.0, 2.0, seed=7), rows(10, 4.0, 9.0, seed=8)
    fit = scaled(found.total(own), times_s(own, 7.0))
    assert np.exp(fit.ln(found.total(far))) == pytest.approx(times_s(far, 7.0), rel=0.02)


def test_a_single_application_shares_nothing() -> None:
    known = rows(40, 1.0, 3.0, seed=1)
    with pytest.raises(ValueError, match="2 applications with 4 runs each"):
        shared(SET, known, times_s(known), np.repeat([0, 1], [37, 3]))


def test_where_applications_have_nothing_in_common_the_error_is_large() -> None:
    known = rows(40, 1.0, 3.0, seed=1)
    other = np.array([run["max_fifo"] for run in known])
    mixed = np.where(np.arange(40) < 20, times_s(known), other)
    assert shared(SET, known, mixed, np.repeat([0, 1], 20)).error > 0.15


def run_of(application: int, number: int) -> SharedRun:
    features = {name: 1.0 + (number * (at + 3)) % 19 for at, name in enumerate(NAMES)}
    return SharedRun(f"exa/app{application}//nodes", f"exa/{application}.{number}@0", number, 10.0, features, number)


def test_a_pool_keeps_some_runs_of_some_applications_whatever_their_order() -> None:
    facts = [run_of(application, number) for application in range(3) for number in range(100)]
    pools = [CommunicationPool() for _ in range(2)]
    for pool, order in zip(pools, (facts, facts[::-1]), strict=True):
        for fact in order:
            pool.learn(fact)
    assert len(pools[0]) == 3 * RUNS_MAX
    assert pools[0].snapshot().runs == pools[1].snapshot().runs
    for application in range(3, 3 + APPLICATIONS_MAX):
        pools[0].learn(run_of(application, 500))
    assert len(pools[0]) == APPLICATIONS_MAX


def test_a_run_that_is_taken_away_teaches_nobody() -> None:
    pool = CommunicationPool()
    pool.learn(run_of(0, 1))
    assert pool.forget("exa/app0//nodes", "exa/0.1@0", 2)
    assert not pool.forget("exa/app0//nodes", "exa/0.1@0", 2)
    assert len(pool) == 0


def test_a_run_that_reports_few_features_is_judged_by_the_best_set_that_it_reports() -> None:
    pool, rng = CommunicationPool(), np.random.default_rng(5)
    for number in range(60):
        features = dict(zip(NAMES, rng.uniform(1.0, 3.0, len(NAMES)).tolist(), strict=True))
        time_s = (5.0 ** (number % 2)) * (features["max_bytes"] + 3.0 * features["avg_buffer_to"])
        pool.learn(SharedRun(f"exa/app{number % 2}//nodes", f"exa/{number}@0", number, time_s, features, number))
    while pool.step():
        pass
    assert pool.trusted == "H4"
    few = {"avg_bytes": 2.0, "max_bytes": 2.0}
    question = SharedRun("exa/app0//nodes", "", 0, 0.0, few, 0)
    assert pool.score(question) is not None
    assert pool.score(question._replace(features={"max_fifo": 2.0})) is None
