"""What hours of the day and days are like."""

import numpy as np
import pytest

from processors.models.detect.multivariate import DAYS, CombinedRule, CombinedStep, largest_expected, same_weekday

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
    return [i for i, step in enumerate(steps) if step.by_hour[0]]


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


def test_hours_are_not_judged_before_each_day_of_the_week_was_seen() -> None:
    assert not any(by_hour(steps) for steps in run({5}, 6))


def test_a_resource_that_is_missing_is_not_elsewhere() -> None:
    found = run(set(), 11, missing=10)
    assert not by_hour(found[10])
    assert np.isfinite([step.score[0] for step in found[10]]).all()


def test_days_with_a_fault_raise_what_is_expected_of_none_while_they_are_few_and_jumps_of_each_day_do() -> None:
    quiet = np.tile([1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.0], 2)[None]
    faults, jumps = quiet.copy(), quiet.copy()
    faults[0, [3, 8, 9]] = 10.0
    jumps[0, ::2] *= 3.0
    bound, with_faults, with_jumps = (float(largest_expected(days, 4.0)[0]) for days in (quiet, faults, jumps))
    assert with_faults < 1.5 * bound
    assert with_jumps > 4.0 * bound


def test_of_no_day_nothing_is_expected() -> None:
    none = np.zeros((1, DAYS))
    assert (largest_expected(none, 4.0)[0], same_weekday(none)[0]) == (0.0, 0.0)
