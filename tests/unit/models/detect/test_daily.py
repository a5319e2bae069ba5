"""What hours of the day and days are like."""

import numpy as np
import pytest

from processors.hosts.rate import DailyMaxima, combined_p, fired
from processors.models.detect.multivariate import FIGURES, CombinedRule, CombinedStep

HOST = np.array([0])
STEP_MS = 600_000
STEPS = 144  # a day
NIGHT = range(24, 36)  # four to six o'clock


def day(seed: int, *, busy_night: bool = False) -> np.ndarray:
    """Three resources that follow the load of a day; a busy night is within the range of any day, and they go together."""
    rng = np.random.default_rng(seed)
    load = 1.0 - np.cos(np.arange(STEPS) / STEPS * 2.0 * np.pi)
    if busy_night:
        load[NIGHT] = 1.9
    load += 0.05 * rng.normal(size=STEPS)
    return load[:, None] * [100.0, 5.0, 1e6] + rng.normal(size=(STEPS, 3)) * [2.0, 0.1, 2e4]


def run(busy: set[int], days: int, missing: int | None = None) -> list[list[CombinedStep]]:
    """Return the steps of each day; on busy ones the host works at night. A resource may be missing from a day on."""
    rule, found = CombinedRule(3), list[list[CombinedStep]]()
    for number in range(days):
        values = day(number, busy_night=number in busy)
        if missing is not None and number >= missing:
            values[:, 2] = np.nan
        at = [(number * STEPS + i) * STEP_MS for i in range(STEPS)]
        found.append([rule.step(HOST, row[None], time_ms) for row, time_ms in zip(values, at, strict=True)])
    return found


def by_hour(steps: list[CombinedStep]) -> list[int]:
    return [i for i, step in enumerate(steps) if step.by_hour[0] and fired(step, DailyMaxima(), 0.01)[0]]


def test_a_host_that_works_when_it_rests_on_other_days_fires_and_the_mean_of_the_hour_is_reported() -> None:
    *quiet, last = run({11}, 12)
    fired = by_hour(last)
    assert fired
    assert fired[0] in NIGHT
    assert not any(by_hour(steps) for steps in quiet)
    at = last[fired[0]]
    assert at.expected[0, 1] == pytest.approx(day(99)[fired[0], 1], abs=1.0)
    assert at.residual[0, 1] > 2.0


def test_a_day_of_the_week_that_is_busy_each_week_is_usual_once_it_was_seen() -> None:
    found = run({2, 9, 16}, 17)
    assert not by_hour(found[9])
    assert not by_hour(found[16])


def test_a_resource_that_is_missing_is_not_elsewhere() -> None:
    found = run(set(), 11, missing=10)
    assert not by_hour(found[10])
    assert np.isfinite([step.score[0] for step in found[10]]).all()


def quiet_days(count: int, seed: int, scale: float = 0.12) -> np.ndarray:
    """Daily maxima (ln of the ratio to earlier days) of normal hosts: one in ten is above -.05."""
    return -0.05 + scale * np.random.default_rng(seed).gumbel(-np.log(10.0), 1.0, (count, FIGURES))


@pytest.mark.parametrize("rate", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("scale", [0.06, 0.12, 0.5])
def test_a_fleet_gets_about_as_many_false_alerts_as_were_set_however_much_its_days_differ(
    rate: float, scale: float
) -> None:
    pool = DailyMaxima()
    pool.learn(quiet_days(10_000, seed=1, scale=scale))
    came = float((combined_p(pool.p(quiet_days(40_000, seed=2, scale=scale))) < rate).mean())
    assert rate / 3.0 < came < 2.0 * rate


def test_days_with_a_fault_hardly_hide_the_next_fault() -> None:
    pool, clean = DailyMaxima(), DailyMaxima()
    days = quiet_days(2_000, seed=3)
    clean.learn(days)
    days[::50] = 2.0
    pool.learn(days)
    fault = np.array([[0.6, 0.6]])
    assert combined_p(clean.p(fault))[0] < 0.01
    assert combined_p(pool.p(fault))[0] < 0.01


def test_a_host_without_earlier_days_is_not_unusual() -> None:
    assert DailyMaxima().p(np.full((1, FIGURES), -np.inf)).tolist() == [[1.0, 1.0]]


def test_a_figure_that_is_usual_weakens_an_unusual_one_by_half() -> None:
    assert combined_p(np.array([[0.01, 1.0]]))[0] == pytest.approx(0.0198, rel=0.01)


def test_a_new_fleet_is_judged_by_the_shipped_distribution() -> None:
    assert DailyMaxima().p(np.array([[-0.05, 0.0]]))[0] == pytest.approx([0.1, 0.1], rel=0.1)
