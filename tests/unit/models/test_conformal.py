"""Adaptive conformal radii: the published update, and the coverage they promise under change."""

import itertools
import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from processors.models.numerics.conformal import (
    NORMAL_90,
    RATES,
    SCORES_MIN,
    WINDOW,
    ConformalRadius,
    conformal_quantile,
)

COUNT = 3000


def series(kind: str, seed: int = 4) -> NDArray[np.float64]:
    scores = np.abs(np.random.default_rng(seed).normal(size=COUNT))
    time = np.arange(COUNT)
    factor: dict[str, NDArray[np.float64]] = {
        "steady": np.ones(COUNT),
        "jump": np.where(time >= COUNT // 2, 3.0, 1.0),
        "drift": 1.0 + 3.0 * time / COUNT,
        "periodic": 1.5 + np.sin(2 * np.pi * time / 300),
    }
    return scores * factor[kind]


def retained(scores: NDArray[np.float64]) -> list[bool]:
    radius, inside = ConformalRadius(), list[bool]()
    for score in scores.tolist():
        inside.append(score <= radius.radius())
        radius.learn(score)
    return inside


@pytest.mark.parametrize("kind", ["steady", "jump", "drift", "periodic"])
def test_nine_of_ten_scores_are_inside_whatever_changes(kind: str) -> None:
    assert 0.87 <= np.mean(retained(series(kind))[200:]) <= 0.93


def test_after_a_jump_no_window_is_lost() -> None:
    inside = np.array(retained(series("jump")), dtype=float)
    windows = np.convolve(inside, np.ones(200) / 200, mode="valid")[200:]
    assert windows.min() > 0.8


def test_the_miss_rate_moves_as_published() -> None:
    radius, rates, place = ConformalRadius(), list[float](), RATES.index(0.05)
    for score in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0):
        radius.learn(score)
        rates.append(round(radius.miss_rates[place], 9))
    assert rates == [0.1, 0.105, 0.11, 0.115, 0.12, 0.125, 0.13]
    assert conformal_quantile(radius.scores, 0.13) == 7.0
    radius.learn(8.0)
    assert radius.miss_rates[place] == pytest.approx(0.085)


def test_quantiles_at_the_ends() -> None:
    assert conformal_quantile([], 0.1) == math.inf
    assert conformal_quantile([1.0] * 50, 0.0) == math.inf
    assert conformal_quantile([1.0] * 50, 1.0) == 0.0
    assert conformal_quantile([float(i) for i in range(1, 10)], 0.1) == 9.0


def test_before_enough_scores_those_of_others_serve_and_the_radius_is_never_zero() -> None:
    radius = ConformalRadius()
    for _ in range(SCORES_MIN - 1):
        radius.learn(0.0)
    assert radius.radius() == NORMAL_90
    assert radius.radius([3.0] * SCORES_MIN) == 3.0


def test_memory_is_bounded() -> None:
    radius = ConformalRadius()
    for score in itertools.islice(itertools.cycle([0.1, 0.2, 3.0]), 3 * WINDOW):
        radius.learn(score)
    assert len(radius.scores) == WINDOW


def test_a_restart_changes_nothing() -> None:
    straight, restarted = ConformalRadius(), ConformalRadius()
    for score in series("jump")[1300:1700].tolist():
        straight.learn(score)
        restarted = ConformalRadius.build(json.loads(json.dumps(restarted.snapshot())))
        restarted.learn(score)
    assert restarted.snapshot() == straight.snapshot()
    assert restarted.radius() == straight.radius()


@pytest.mark.parametrize("score", [math.nan, math.inf, -1.0])
def test_what_is_no_score_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        ConformalRadius().learn(score)
