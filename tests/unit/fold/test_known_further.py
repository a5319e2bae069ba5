"""Inputs of one application that were run further out than another one, as users see what they change."""

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest

from tests.kit.scenario import DAY_MS, Scenario

INPUTS = {"large": 4000.0, "medium": 2000.0, "other": 1000.0}
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
HOUR_MS = 3_600_000


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


def saturating(random: np.random.Generator) -> list[tuple[str, float, float]]:
    """Return runs (input, size, run time) of five inputs that saturate at 14 to 18, one ten times as fast, and of a small one."""
    runs = []
    for name, t1_s in {"a": 200.0, "b": 280.0, "c": 360.0, "d": 440.0, "fast": 20.0, "small": 333.0}.items():
        widest = float(random.choice((14, 16, 18)))
        sizes = SIZES[1:5] if name == "small" else SIZES
        runs += [(name, float(n), t1_s / min(n, widest)) for n in sizes for _ in range(3)]
    return [(name, n, t_s * math.exp(random.normal(0.0, 0.006))) for name, n, t_s in runs]


def lone(random: np.random.Generator) -> list[tuple[str, float, float]]:
    return [
        ("small", float(n), (900 / n + 12) * math.exp(random.normal(0.0, 0.02))) for n in SIZES[:5] for _ in range(4)
    ]


@pytest.mark.parametrize("world", [saturating, lone])
@pytest.mark.parametrize("seed", range(2))
def test_the_order_in_which_runs_arrive_moves_no_answer_by_more_than_two_per_cent(
    world: Callable[[np.random.Generator], list[tuple[str, float, float]]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    runs = world(random)
    answers = []
    for order in (range(len(runs)), *(random.permutation(len(runs)) for _ in range(3))):
        found = Scenario()
        for hour, run in enumerate(order):
            name, n, run_time_s = runs[int(run)]
            found.at_ms(DAY_MS + 2 * hour * HOUR_MS)
            found.ran(f"r{hour}", "app", n, run_time_s, input=name)
        found.at_ms(found.now_ms + 4 * HOUR_MS)
        points = found.asks("q", 3.0, 8.0, 32.0, 64.0, 128.0, application="app", input="small")["points"]
        answers.append([math.log(point["run_time_s"]) for point in points])
    assert np.ptp(answers, axis=0).max() < math.log(1.02)
