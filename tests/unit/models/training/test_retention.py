"""Which runs of an application stay where there are too many, and what one takes."""

import json
import tracemalloc

import msgspec
import numpy as np
import pytest

from processors.models.training.runs import BY_WHAT_THEY_ADD, REPEATS, LearnedRun, Reservoir, chosen, room_bytes


def run(number: int, mesh: float, time_ms: int | None = None) -> LearnedRun:
    return LearnedRun(f"r{number}", number if time_ms is None else time_ms, {"mesh": mesh}, {"run_time_s": 10.0})


def test_runs_alike_leave_room_for_what_is_rarely_run() -> None:
    every = [run(i, 1.0) for i in range(2000)] + [run(2000 + i, 2.0 + i, time_ms=0) for i in range(50)]
    stays = chosen(every, 200, BY_WHAT_THEY_ADD)
    meshes = [each.values["mesh"] for each in stays.values()]
    assert len(stays) == 200
    assert len(set(meshes)) == 51, "an even sample has five of the fifty"


def test_half_of_the_room_is_the_newest_whatever_they_are() -> None:
    stays = chosen([run(i, float(i)) for i in range(1000)], 100, BY_WHAT_THEY_ADD)
    assert {f"r{i}" for i in range(950, 1000)} <= stays.keys()
    assert len([each for each in stays.values() if each.time_ms < 500]) > 10, "and the others are of all times"


def test_of_runs_alike_the_newest_stay() -> None:
    old = [run(i, 1.0) for i in range(100)]
    every = old + [run(100 + i, 2.0 + i) for i in range(100)]
    stays = chosen(every, 120, BY_WHAT_THEY_ADD)
    assert {f"r{i}" for i in range(100 - REPEATS, 100)} <= stays.keys()


def test_what_stays_does_not_depend_on_the_order_in_which_runs_came() -> None:
    every = [run(i, float(i % 7), time_ms=i // 3) for i in range(300)]
    mixed = [every[i] for i in np.random.default_rng(1).permutation(300)]
    assert chosen(every, 60, BY_WHAT_THEY_ADD) == chosen(mixed, 60, BY_WHAT_THEY_ADD)


def test_a_reservoir_that_is_restored_anywhere_retains_the_same_runs() -> None:
    one, other = (Reservoir(64, retention=BY_WHAT_THEY_ADD) for _ in range(2))
    for i in range(600):
        for each in (one, other):
            each.add(run(i, float(i % 13)))
            if i % 50 == 49:
                each.advance()
        if i % 37 == 0:
            other = Reservoir.build(json.loads(msgspec.json.encode(other.snapshot())), 64, BY_WHAT_THEY_ADD)
        assert len(one.waiting) <= 72
    assert one.snapshot() == other.snapshot()


def test_a_lower_bound_takes_effect_at_the_next_fit_of_what_was_stored() -> None:
    full = Reservoir(64, retention=BY_WHAT_THEY_ADD)
    for i in range(64):
        full.add(run(i, float(i)))
    full.advance()
    restored = Reservoir.build(full.snapshot(), 16, BY_WHAT_THEY_ADD)
    restored.advance()
    assert len(restored.retained) == 16


@pytest.mark.parametrize("columns", [4, 12])
def test_a_run_takes_no_more_memory_and_room_in_the_topic_than_is_reckoned_with(columns: int) -> None:
    chance = np.random.default_rng(1)
    names = [f"attribute{i}" for i in range(columns)]
    reservoir = Reservoir(2048, retention=BY_WHAT_THEY_ADD)
    tracemalloc.start()
    for i in range(2048):
        values = dict(zip(names, chance.random(columns).tolist(), strict=True))
        reservoir.add(LearnedRun(f"{i:016x}", 1_795_168_800_000 + i, values, {"attributes": 10.0 + i}))
    taken = tracemalloc.get_traced_memory()[0] / 2048
    tracemalloc.stop()
    stored = len(msgspec.json.encode(reservoir.snapshot())) / 2048
    assert 0.7 * room_bytes(columns) < taken < room_bytes(columns)
    assert stored < 45 + 5.4 * (columns + 1)
