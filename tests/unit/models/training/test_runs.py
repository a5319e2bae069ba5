"""The reservoir of runs and what follows answers."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.training.runs import ALL_NAMES_MAX, NAMES_MAX, LearnedRun, Reservoir
from processors.models.training.table import TrackRecord, best
from tests.kit.effort import examples


def run(number: int, **values: float) -> LearnedRun:
    return LearnedRun(f"run{number}", number, values or {"x": float(number)}, {"power_w": 300.0 + number})


def test_what_stays_follows_from_the_ids_and_not_from_their_order() -> None:
    runs = [run(i) for i in range(300)]
    retained = []
    for seed in range(3):
        reservoir = Reservoir(runs_max=40)
        for i, each in enumerate(np.random.default_rng(seed).permutation(300)):
            reservoir.add(runs[each])
            if i % 50 == 7 * seed:
                reservoir.advance()
        reservoir.advance()
        retained.append(list(reservoir.retained))
    assert retained[0] == retained[1] == retained[2]
    assert len(retained[0]) == 40


def test_a_run_that_is_reported_again_takes_its_own_place() -> None:
    reservoir = Reservoir()
    for power in (100.0, 200.0):
        reservoir.add(LearnedRun("r", 0, {"x": 1.0}, {"power_w": power}))
        reservoir.advance()
    assert reservoir.table("power_w").target.tolist() == [200.0]


def test_new_runs_wait_until_it_is_asked_to_advance_and_a_restored_one_has_the_same_table() -> None:
    reservoir = Reservoir()
    for i in range(60):
        reservoir.add(run(i))
    reservoir.advance()
    reservoir.add(run(60))
    assert not reservoir.due
    restored = Reservoir.build(json.loads(json.dumps(reservoir.snapshot())))
    assert restored == reservoir
    tables = [each.table("power_w") for each in (reservoir, restored)]
    assert tables[0].values.tobytes() == tables[1].values.tobytes()
    assert len(tables[0]) == 60
    for i in range(61, 63):
        reservoir.add(run(i))
    assert reservoir.due


def test_columns_are_what_most_runs_have_and_what_is_missing_is_the_mean() -> None:
    reservoir = Reservoir()
    for i in range(4):
        values = {"often": float(i), "rare": 1.0} if i == 0 else {"often": float(i), "half": 2.0 * i}
        reservoir.add(run(i, **values))
    reservoir.advance()
    table = reservoir.table("power_w")
    assert table.names == ("half", "often")
    assert table.filled()[0].tolist() == [4.0, 0.0]
    assert table.row({"often": 7.0, "unheard": 1.0}).tolist() == [[4.0, 7.0]]
    assert table.only(("often",)).values.tolist() == [[0.0], [1.0], [2.0], [3.0]]
    assert len(reservoir.table("energy_j")) == 0


def test_a_run_that_is_taken_away_stays_in_the_models_of_now_and_not_in_the_next() -> None:
    reservoir = Reservoir()
    for i in range(3):
        reservoir.add(run(i))
    reservoir.advance()
    assert reservoir.drop("run1")
    assert not reservoir.drop("run1")
    assert not reservoir.drop("unheard")
    assert (len(reservoir.table("power_w")), reservoir.find("run1"), reservoir.due) == (3, None, True)
    restored = Reservoir.build(json.loads(json.dumps(reservoir.snapshot())))
    assert restored == reservoir
    for each in (reservoir, restored):
        each.begin()
        assert len(each.table("power_w")) == 2
        assert len(each.table("power_w", now=True)) == 3
        each.advance()
        assert (len(each.table("power_w")), each.due) == (2, False)
    reservoir.add(run(1))
    assert reservoir.find("run1") is not None


def test_a_target_that_was_estimated_counts_less_than_others_of_its_run() -> None:
    reservoir = Reservoir()
    reported = LearnedRun("r", 0, {"x": 1.0}, {"power_w": 1.0, "run_time_s": 2.0}, weight=0.5, weights={"power_w": 0.1})
    reservoir.add(reported)
    reservoir.advance()
    weights = [reservoir.table(target).weight.tolist() for target in ("power_w", "run_time_s")]
    assert weights == [[pytest.approx(0.05)], [0.5]]
    with pytest.raises(ValueError, match="weight"):
        LearnedRun("r", 0, {}, {}, weights={"power_w": 2.0})


def test_names_of_all_runs_together_are_bounded_and_those_of_runs_that_left_make_room() -> None:
    reservoir = Reservoir(runs_max=2)
    for i in range(5):
        reservoir.add(LearnedRun(f"r{i}", i, {f"c{i}_{j}": 1.0 for j in range(60)}, {"power_w": 1.0}))
        reservoir.advance()
        assert len(reservoir.names) <= ALL_NAMES_MAX


def test_a_full_reservoir_in_the_middle_of_a_fit_is_stored_in_less_than_its_bound() -> None:
    rng = np.random.default_rng(1)
    reservoir = Reservoir(runs_max=256)
    for i in range(5000):
        values = {f"counter:PAPI_COUNTER_{j:02}": float(x) for j, x in enumerate(rng.random(64))}
        targets = {f"target_{j}_power_w": float(x) for j, x in enumerate(rng.random(5))}
        reservoir.add(LearnedRun(f"archer2/{i}@1795168800000", i, values, targets))
        if i in {700, 1500, 2600}:
            reservoir.advance()
        if i == 4000:
            reservoir.begin()
    assert len(reservoir.retained) == 256
    assert reservoir.coming is not None
    assert len(json.dumps(reservoir.snapshot())) < 250_000


def test_what_cannot_be_learned_from_is_left_out() -> None:
    odd = LearnedRun("r", 0, {"a": float("inf"), "b": 1.0}, {"power_w": -1.0, "energy_j": 0.0, "run_time_s": 2.0})
    assert (odd.values, odd.targets) == ({"b": 1.0}, {"run_time_s": 2.0})
    assert len(LearnedRun("r", 0, {f"c{i}": 1.0 for i in range(1000)}, {}).values) == NAMES_MAX
    with pytest.raises(ValueError, match="weight"):
        LearnedRun("r", 0, {}, {}, weight=0.0)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.integers(0, 100_000), max_size=400), st.integers(1, 20))
def test_what_it_holds_is_bounded(ids: list[int], runs_max: int) -> None:
    reservoir = Reservoir(runs_max=runs_max)
    for i, number in enumerate(ids):
        reservoir.add(run(number))
        if i % 37 == 0:
            reservoir.advance()
        assert len(reservoir.retained) <= runs_max
        assert len(reservoir.waiting) <= 1.25 * runs_max


def test_a_band_holds_the_share_it_promises_whatever_the_deviation_that_was_reported() -> None:
    rng = np.random.default_rng(1)
    for reported in (0.01, 0.05, 0.2):
        tracked, covered = TrackRecord(), []
        for actual in 400.0 * np.exp(0.05 * rng.normal(size=1500)):
            covered.append(tracked.band(400.0, reported).holds(actual))
            tracked.learn(400.0, reported, actual)
        assert 0.87 < np.mean(covered[200:]) < 0.93


def test_what_followed_answers_goes_on_after_a_restore_as_if_nothing_had_happened() -> None:
    tracked = TrackRecord()
    for i in range(50):
        tracked.learn(100.0, 0.02, 100.0 + i % 5)
    restored = TrackRecord.build(json.loads(json.dumps(tracked.snapshot())))
    for each in (tracked, restored):
        each.learn(100.0, 0.02, 103.0)
    assert restored.snapshot() == tracked.snapshot()
    assert restored.band(100.0, 0.02) == tracked.band(100.0, 0.02)


@pytest.mark.parametrize("actual", [0.0, -1.0, float("nan"), float("inf")])
def test_a_value_that_cannot_be_changes_nothing(actual: float) -> None:
    tracked = TrackRecord()
    with pytest.raises(ValueError, match="positive"):
        tracked.learn(100.0, 0.1, actual)
    assert tracked == TrackRecord()


def test_whom_to_believe_moves_from_the_fit_to_what_came() -> None:
    tracked = {"a": TrackRecord(), "b": TrackRecord()}
    prior = {"a": 0.01, "b": 0.05}
    assert best(tracked, prior) == "a"
    for i in range(40):
        tracked["a"].learn(100.0, 0.1, 100.0 * (1.3 if i % 2 else 1 / 1.3))
        tracked["b"].learn(100.0, 0.1, 100.0)
    assert best(tracked, prior) == "b"
    assert best({}, {}) is None
