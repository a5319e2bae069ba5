"""Runs that others disturbed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.counters.model import RUNS_MIN, WEIGHT_MIN, unusual, weight
from tests.kit.effort import examples

NAMES = ("ipc", "misses", "branches")
FAR = 5.0


def like(count: int, disturbed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(1)
    values = np.array([1.5, 0.02, 0.3]) * (1 + 0.03 * rng.normal(size=(count, 3)))
    values[:disturbed] *= [0.5, 3.0, 1.0]
    return values


def test_a_disturbed_run_names_what_was_unusual_and_hardly_counts_even_where_others_were_disturbed() -> None:
    found = unusual(NAMES, like(30, disturbed=8), {"ipc": 0.75, "misses": 0.06, "branches": 0.3}, FAR)
    assert [each.counter for each in found] == ["misses", "ipc"]
    assert found[0].deviations > 0 > found[1].deviations
    assert abs(found[0].usual - 0.02) < 0.002
    assert weight(found, FAR) < 0.3


def test_runs_like_the_others_count_in_full() -> None:
    rows = like(40)
    counts = [weight(unusual(NAMES, rows, dict(zip(NAMES, row.tolist(), strict=True)), FAR), FAR) for row in rows]
    assert np.mean(counts) > 0.98


def test_little_is_known_from_few_runs_and_nothing_of_counters_that_are_not_reported() -> None:
    assert unusual(NAMES, like(RUNS_MIN - 1), {"ipc": 0.1}, FAR) == []
    assert unusual(NAMES, like(20), {"other": 1.0, "ipc": float("nan")}, FAR) == []


def test_a_counter_that_never_moved_may_move_by_a_little() -> None:
    still = np.full((20, 1), 4.0)
    assert unusual(("a",), still, {"a": 4.1}, FAR) == []
    assert unusual(("a",), still, {"a": 5.0}, FAR)[0].counter == "a"


@settings(max_examples=examples(50), deadline=None)
@given(st.floats(0.0, 1e12))
def test_a_weight_is_one_that_a_run_may_have(rate: float) -> None:
    assert WEIGHT_MIN <= weight(unusual(NAMES, like(20), {"ipc": rate}, FAR), FAR) <= 1.0
