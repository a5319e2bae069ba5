"""Inputs of one application that were run further out than another one, as users see what they change."""

from itertools import permutations

import pytest

from tests.kit.scenario import Scenario

INPUTS = {"large": 4000.0, "medium": 2000.0, "other": 1000.0}
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def knee(n: float, t1_s: float) -> float:
    return t1_s / min(n, 16.0)


def centre(inputs: tuple[str, ...], hours: float = 0.0) -> Scenario:
    """Let inputs run whole one after the other, hours apart, and then another one at its smaller sizes."""
    found = Scenario()
    found.at("08:00")
    for place, name in enumerate(inputs):
        for n in SIZES:
            found.ran(f"{name}{n}", "app", n, knee(n, INPUTS[name]), input=name)
        found.at(f"{place + 1}d {8 + hours:02.0f}:00")
    for n in SIZES[:5]:
        found.ran(f"small{n}", "app", n, knee(n, 700.0), input="small")
    return found.at("8d 10:00")


def answer(found: Scenario) -> dict[str, float]:
    point: dict[str, float]
    (point,) = found.asks("q", 128.0, application="app", input="small")["points"]
    return point


def test_a_small_input_is_foreseen_to_saturate_where_the_larger_ones_did() -> None:
    truth_s = knee(128.0, 700.0)
    carried, alone = answer(centre(tuple(INPUTS))), answer(centre(()))
    assert alone["run_time_s"] < 0.5 * truth_s
    assert carried["run_time_s"] == pytest.approx(truth_s, rel=0.25)
    assert carried["low_s"] <= truth_s <= carried["high_s"]


def test_neither_the_order_of_the_inputs_nor_the_hour_of_their_runs_changes_the_answer() -> None:
    first = answer(centre(tuple(INPUTS)))["run_time_s"]
    assert [answer(centre(order))["run_time_s"] for order in permutations(INPUTS)] == [first] * 6
    assert answer(centre(tuple(INPUTS), hours=5.0))["run_time_s"] == first
