"""The record rule: what was never seen before fires, once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.detect.record import WAYS, RecordRule, RecordStep
from tests.kit.effort import examples

HOUR_MS = 3_600_000
TRACE = [10.0, 12.0, 11.0] * 12 + [12.03, 12.5, 12.2, 9.0]


def steps(values: list[float], every_ms: int = 0) -> list[RecordStep]:
    one = RecordRule()
    return [one.step(np.array([0]), np.array([value]), i * every_ms) for i, value in enumerate(values)]


def shorten(monkeypatch: pytest.MonkeyPatch, **constants: int) -> None:
    for name, value in constants.items():
        monkeypatch.setattr(f"processors.models.detect.record.{name}", value)


def fired(values: list[float], every_ms: int = 0) -> list[int]:
    return [i for i, step in enumerate(steps(values, every_ms)) if step.fired[0]]


def test_the_margins_of_the_worked_trace() -> None:
    margins = [round(float(step.margin[0]), 4) for step in steps(TRACE)]
    assert margins[:36] == [0.0] * 36
    assert margins[36:] == [0.015, 0.2315, 0.0, 0.4]


def test_after_a_record_the_series_rests_so_that_the_next_scores_less_and_does_not_fire() -> None:
    found = steps(TRACE)
    assert fired(TRACE) == [37]
    assert found[37].score[0] > 0.99
    assert found[39].score[0] == pytest.approx(0.4, abs=1e-6)


def test_a_record_fires_again_after_the_rest() -> None:
    assert fired([*TRACE[:38], *[11.0] * 30, 20.0]) == [37, 68]


def test_a_constant_series_that_moves_fires() -> None:
    assert fired([5.0] * 100) == []
    assert fired([5.0] * 100 + [5.001]) == [100]


def test_a_new_level_inside_of_the_range_is_found_by_the_step_of_the_means() -> None:
    quiet = [9.0, 10.0, 11.0] * 100
    quiet[5] = 30.0  # before the rule judges, so only the range knows it
    assert fired(quiet, 300_000) == []
    level = [value + 8 for value in quiet[60:120]]
    assert min(fired(quiet + level, 300_000)) in range(300, 330)


def test_a_step_of_the_means_is_judged_once_a_whole_day_was_seen() -> None:
    rising = [*[9.0, 10.0, 11.0] * 60, *[13.0, 14.0, 15.0] * 40]
    rising[5] = 30.0
    assert fired(rising, 300_000) == []
    assert fired(rising, 600_000) != []


def test_a_value_of_the_day_in_the_night_is_found_after_eight_days() -> None:
    days = [100.0 if 8 <= i // 12 % 24 < 18 else 10.0 for i in range(12 * 24 * 9)]
    assert [i for i in fired(days, 300_000) if i > 500] == []
    night = days + [10.0] * 12 + [100.0]
    assert fired(night, 300_000)[-1] == len(days) + 12
    assert fired(night, 0)[-1] < 500, "without the hour it would not be seen"
    eight = days[: 12 * 24 * 7]
    assert fired([*eight, *[10.0] * 12, 100.0], 300_000)[-1] < 500, "every weekday is to be seen once, and one again"


def test_what_leaves_the_range_of_its_hour_again_fires_where_it_goes_further_by_a_quarter() -> None:
    def fires(first: float, again: float) -> bool:
        days = [100.0 if 8 <= i // 12 % 24 < 18 else 10.0 for i in range(12 * 24 * 12)]
        days[12 * 24 * 9 + 12], days[12 * 24 * 11 + 24] = first, again
        return 12 * 24 * 11 + 24 in fired(days, 300_000)

    assert fires(10.0, 60.0)
    assert not fires(55.0, 60.0)
    assert fires(40.0, 60.0)


def test_it_sees_again_what_it_saw_long_ago_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, BLOCK=100, BLOCK_H=0)
    found = steps([*[1.0, 2.0] * 50, 50.0, *[1.0, 2.0] * 300, 50.0])
    assert found[100].fired[0]
    assert found[-1].fired[0]
    assert found[-1].high[0] == 2.0


def test_however_many_values_come_a_week_is_not_forgotten_within_the_week_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shorten(monkeypatch, BLOCK=100, BLOCK_H=7 * 24, HOUR_DAYS=300)
    early = [*[1.0, 2.0] * 50, 50.0]
    found = steps([*early, *[1.0, 2.0] * 250, 49.0], every_ms=HOUR_MS)
    assert not found[-1].fired[0]
    found = steps([*early, *[1.0, 2.0] * 350, 49.0], every_ms=HOUR_MS)
    assert found[-1].fired[0]


def test_what_is_not_finite_changes_nothing() -> None:
    rule, other = RecordRule(), RecordRule()
    for value in TRACE:
        rule.step(np.array([0]), np.array([value]), 0)
        rule.step(np.array([0]), np.array([np.nan]), 0)
        rule.step(np.array([0]), np.array([np.inf]), 0)
        other.step(np.array([0]), np.array([value]), 0)
    assert rule.table.stored(0, 1) == other.table.stored(0, 1)


@settings(max_examples=examples(10), deadline=None)  # of 160 steps of four rules each
@given(st.integers(0, 2**32), st.integers(40, 150))
def test_series_do_not_mind_their_neighbours_and_stored_rows_go_on_as_if_nothing_had_happened(
    seed: int, cut: int
) -> None:
    values = np.random.default_rng(seed).normal(size=(160, 3)).cumsum(axis=0)
    joint, alone = RecordRule(), [RecordRule() for _ in range(3)]
    for i, row in enumerate(values):
        if i == cut:
            stored, joint = [joint.table.stored(0, 1), joint.table.stored(1, 3)], RecordRule()
            joint.table.restore(1, 3, stored[1])
            joint.table.restore(0, 1, stored[0])
        step = joint.step(np.arange(3), row, i * HOUR_MS)
        for j in range(3):
            one = alone[j].step(np.array([0]), row[j : j + 1], i * HOUR_MS)
            assert one.score[0] == step.score[j]
            assert one.fired[0] == step.fired[j]


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=120))
def test_whatever_comes_the_score_is_between_zero_and_one(values: list[float]) -> None:
    for step in steps(values, HOUR_MS):
        assert 0.0 <= step.score[0] <= 1.0


def test_which_question_was_answered_strangely_and_the_usual_range_is_reported() -> None:
    found = steps(TRACE)[37]
    assert (WAYS[found.way[0]], found.low[0], found.high[0]) == ("value", 10.0, pytest.approx(12.03))
    days = [100.0 if 8 <= i // 12 % 24 < 18 else 10.0 for i in range(12 * 24 * 9)]
    night = steps([*days, *[10.0] * 12, 100.0], 300_000)[-1]
    assert (WAYS[night.way[0]], night.low[0], night.high[0]) == ("hour", 10.0, 10.0)
    quiet = [9.0, 10.0, 11.0] * 100
    quiet[5] = 30.0
    level = steps(quiet + [value + 8 for value in quiet[60:120]], 300_000)
    assert {WAYS[step.way[0]] for step in level[300:] if step.fired[0]} == {"step"}


def test_small_changes_of_a_large_value_are_seen() -> None:
    assert fired([1e11 + value for value in TRACE]) == fired(TRACE)


def test_a_series_that_is_cleared_starts_anew_and_its_neighbour_does_not() -> None:
    rule, both = RecordRule(), np.array([0, 1])
    for value in TRACE[:37]:
        rule.step(both, np.full(2, value), 0)
    rule.table.clear(np.array([0]))
    assert rule.step(both, np.full(2, 12.5), 0).fired.tolist() == [False, True]


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32), st.integers(-6, 6))
def test_a_change_of_unit_by_a_power_of_two_changes_no_score(seed: int, power: int) -> None:
    values = np.random.default_rng(seed).normal(size=150).cumsum()
    one, other = steps(values.tolist()), steps((values * 2.0**power).tolist())
    assert [float(step.score[0]) for step in one] == [float(step.score[0]) for step in other]
