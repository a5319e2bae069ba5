"""Run time by counters where its size explains most of it, on stories whose truth is known."""

import numpy as np
import pytest

from processors.models.counters.given_size import GivenSize, GivenSizeKind, given_size
from processors.models.training.runs import LearnedRun, Reservoir
from processors.models.training.table import RunTable, finished
from processors.power.by_size import COUNTER, LN_N, RUN_TIME, values_of
from tests.kit.counted_runs import FOLLOWED, FOLLOWER, MISSES, NOISE, SIZES, TLB, CountedRun, counted_runs

SEEDS = range(20, 26)
LEARNED = 80


def of_runs(runs: list[CountedRun]) -> RunTable:
    reservoir = Reservoir()
    for i, run in enumerate(runs):
        reservoir.add(LearnedRun(f"r{i:03}", i, values_of(run.n, run.profile), {RUN_TIME: run.run_time_s}))
    reservoir.advance()
    return reservoir.table(RUN_TIME)


def errors(found: GivenSize, table: RunTable, runs: list[CountedRun]) -> list[float]:
    rows = np.concatenate([table.row(values_of(run.n, run.profile)) for run in runs])
    actual = np.array([run.run_time_s for run in runs])
    return [float(each) for each in np.abs(found.predict(rows).value / actual - 1.0)]


@pytest.mark.parametrize("story", FOLLOWED)
def test_a_counter_that_run_time_follows_at_a_given_size_is_found_and_explains_it(story: str) -> None:
    off, times_found = [], 0
    for seed in SEEDS:
        runs = counted_runs(story, 2 * LEARNED, seed)
        table = of_runs(runs[:LEARNED])
        found = given_size(table, LN_N)
        names = {found.names[term.at] for term in found.terms}
        assert COUNTER + MISSES in names
        times_found += 1
        off += errors(found, table, runs[LEARNED:])
    assert times_found == len(SEEDS)
    assert np.mean(off) < 0.03


def test_two_counters_are_found_where_two_matter() -> None:
    found = given_size(of_runs(counted_runs("two counters", LEARNED, 20)), LN_N)
    assert {COUNTER + MISSES, COUNTER + TLB} <= {found.names[term.at] for term in found.terms}


def test_a_counter_that_merely_follows_the_size_is_not_chosen() -> None:
    chosen = []
    for seed in SEEDS:
        for story in ("none", "a time of its own"):
            found = given_size(of_runs(counted_runs(story, LEARNED, seed)), LN_N)
            chosen += [found.names[term.at] for term in found.terms]
    assert COUNTER + FOLLOWER not in chosen


def test_where_no_counter_matters_the_run_time_is_that_of_the_size() -> None:
    off, of_size = [], []
    for seed in SEEDS:
        runs = counted_runs("none", 2 * LEARNED, seed)
        table = of_runs(runs[:LEARNED])
        off += errors(given_size(table, LN_N), table, runs[LEARNED:])
        level = {n: np.mean([np.log(run.run_time_s) for run in runs[:LEARNED] if run.n == n]) for n in SIZES}
        of_size += [abs(np.exp(level[run.n]) / run.run_time_s - 1.0) for run in runs[LEARNED:]]
    assert np.mean(off) < 1.05 * np.mean(of_size)


def test_what_a_counter_takes_is_reported_in_seconds_per_rate() -> None:
    table = of_runs(counted_runs("a time of its own", LEARNED, 20))
    first = given_size(table, LN_N).explanation(table)[0]
    assert first.counter == COUNTER + MISSES
    assert first.coefficient == pytest.approx(4000.0, rel=0.1)
    assert first.rho > 0.8


def test_its_error_is_that_of_runs_it_did_not_see() -> None:
    found = finished(GivenSizeKind(LN_N).fitting(of_runs(counted_runs("a power", LEARNED, 20)), None))
    assert 0.5 * NOISE < found.error < 1.5 * NOISE


def test_a_model_that_is_made_again_after_a_restart_is_the_same() -> None:
    kind, table = GivenSizeKind(LN_N), of_runs(counted_runs("two counters", LEARNED, 21))
    *_, found = kind.fitting(table, None)
    first = finished(kind.fitting(table, None))
    row = table.values[:5]
    for one, other in zip(first.predict(row), kind.model(table, found).predict(row), strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize(("sizes", "runs"), [((4.0,), 40), ((2.0, 4.0), 40), (tuple(map(float, range(1, 41))), 40)])
def test_one_size_two_and_as_many_as_runs_are_all_learned(sizes: tuple[float, ...], runs: int) -> None:
    rng = np.random.default_rng(3)
    n, misses = np.array([sizes[i % len(sizes)] for i in range(runs)]), rng.random(runs)
    values = np.column_stack([np.log(n), misses])
    target = (100.0 / n + 5.0) * (1.0 + misses)
    found = given_size(RunTable((LN_N, "misses"), values, target, np.ones(runs), np.arange(runs)), LN_N)
    assert [term.at for term in found.terms] == [1]
    reported = found.predict(np.array([[np.log(sizes[-1]), 0.5]]))
    assert reported.value[0] == pytest.approx((100.0 / sizes[-1] + 5.0) * 1.5, rel=0.05)


def test_counters_unlike_any_before_widen_the_band_and_do_not_run_away() -> None:
    table = of_runs(counted_runs("a power", LEARNED, 20))
    found = finished(GivenSizeKind(LN_N).fitting(table, None))
    usual, far = counted_runs("a power", 1, 99)[0], 1000.0
    row = table.row(values_of(usual.n, usual.profile))
    other = row.copy()
    other[:, table.names.index(COUNTER + MISSES)] *= far
    near, away = found.predict(row), found.predict(other)
    assert away.deviation[0] > 2.0 * near.deviation[0]
    assert away.value[0] <= 1.6 * table.target.max()


def test_too_few_runs_are_refused() -> None:
    table = of_runs(counted_runs("none", 8, 1))
    with pytest.raises(ValueError, match="needs 12 runs with a size"):
        given_size(table, LN_N)
