"""Runs of long ago arrive faster than ticks; each is scored by a curve that knows the runs before it."""

import math

import numpy as np

from tests.kit.scenario import DAY_MS, Scenario, completed

APPLICATION = "exa/lammps//nodes"
RUNS = 96
A_DAY_MS = 86_400_000


def backfilled(seed: int) -> Scenario:
    """Return a centre that was given three months of runs between two ticks."""
    centre, random = Scenario(), np.random.default_rng(seed)
    centre.at("08:00")
    for run in range(RUNS):
        nodes = 2 ** int(random.integers(6))
        run_time_s = 60.0 + 3600.0 / nodes * math.exp(random.normal(0.0, 0.1))
        start_ms = DAY_MS - (RUNS - run) * A_DAY_MS
        centre.fold(completed(f"old{run}", start_ms, run_time_s, application="lammps", nodes=nodes))
    return centre


def test_runs_of_a_backfill_are_scored_though_no_tick_came_between_them() -> None:
    quality = backfilled(1).shard.state.models.open(APPLICATION).quality
    assert quality.scored >= 60


def test_bands_hold_as_many_runs_of_a_backfill_as_they_promise() -> None:
    found = [backfilled(seed).shard.state.models.open(APPLICATION).quality for seed in range(4)]
    held = sum((each.coverage_90 or 0.0) * each.scored for each in found) / sum(each.scored for each in found)
    assert 0.84 <= held <= 0.96


def test_a_curve_is_fitted_seldom_while_history_comes_in() -> None:
    published = [one for one in backfilled(1).messages("predictions") if one["application"] == "lammps"]
    assert 5 < len(published) < RUNS / 2
