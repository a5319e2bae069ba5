"""The combined score: what does not go with the other resources."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.hosts.rate import DailyMaxima, fired
from processors.models.detect.multivariate import RESOURCES_MAX, CombinedRule, CombinedSettings, CombinedStep
from processors.models.detect.record import Column, ColumnTable
from tests.kit.effort import examples

HOST = np.array([0])
MINUTE_MS = 60_000
DAY = 1440  # minutes


def loads(steps: int, seed: int = 1) -> np.ndarray:
    """One load moves three resources of a host, each with its own unit and a little noise."""
    rng = np.random.default_rng(seed)
    load = np.sin(np.arange(steps) / 20.0) + 0.3 * rng.normal(size=steps)
    noise = rng.normal(size=(steps, 3))
    return np.stack([100 * load, 5 - load, 1e6 * (2 + load)], axis=1) + noise * [3.0, 0.03, 3e4]


def fires(step: CombinedStep, false_per_host_day: float = 0.01) -> bool:
    return bool(fired(step, DailyMaxima(), false_per_host_day)[0])


def run(values: np.ndarray, rule: CombinedRule | None = None, first: int = 0) -> list[CombinedStep]:
    """A measurement a minute."""
    one = rule or CombinedRule(values.shape[1])
    return [one.step(HOST, row[None, :], i * MINUTE_MS) for i, row in enumerate(values, first)]


def test_a_value_within_its_range_that_contradicts_the_others_fires_and_the_expected_value_is_reported() -> None:
    begin = 8 * DAY + 300
    values = loads(begin + 100)
    usual = values[begin:, 1].mean()
    values[begin:, 1] = usual - (values[begin:, 1] - usual)  # the resource moves against the load
    found = run(values)
    assert not any(fires(step) for step in found[:begin])
    assert np.mean([fires(step) for step in found[begin + 10 :]]) > 0.5
    undisturbed = loads(begin + 100)[begin, 1]
    assert abs(found[begin].expected[0, 1] - undisturbed) < abs(values[begin, 1] - undisturbed)


def test_what_happened_the_day_before_fires_no_more_but_one_such_day_in_two_weeks_does_not_hide_the_next() -> None:
    def fires_on(days_with_a_fault: set[int], last: int) -> bool:
        rule, found = CombinedRule(3, CombinedSettings(learn_h=24.0, days_min=1)), list[CombinedStep]()
        for day in range(last + 1):
            values = loads(DAY, seed=day)[::5]
            if day in days_with_a_fault:
                values[120:128, 1] += 3.0
            found = [rule.step(HOST, row[None, :], (day * DAY + 5 * i) * MINUTE_MS) for i, row in enumerate(values)]
        return any(fires(step) for step in found)

    assert fires_on({3}, 3)
    assert not fires_on({3, 4}, 4)
    assert fires_on({3, 16}, 16)
    assert not fires_on(set(), 16)


def test_resources_far_from_their_means_fire_where_they_are_many_before_enough_days_are_known() -> None:
    def fires_with(resources: int) -> bool:
        values = np.random.default_rng(4).normal(size=(DAY // 5, 24))
        values[-1, :resources] = 12.0
        rule = CombinedRule(24, CombinedSettings(learn_h=12.0))
        return fires([rule.step(HOST, row[None], 5 * i * MINUTE_MS) for i, row in enumerate(values)][-1])

    assert fires_with(4)
    assert not fires_with(3)


def test_what_was_learned_is_forgotten_by_the_hour_not_by_the_step() -> None:
    """Values ten times further apart are judged the same where all is remembered ten times longer, and only there."""
    hours: dict[str, Any] = {"memory_h": 6.0, "level_h": 6.0, "smoothing_h": 1.0, "warm_up_h": 1.0}
    longer = CombinedSettings(**{name: 10.0 * value for name, value in hours.items()})
    values = loads(140)  # less than a day: hours of the day are by the clock

    def scores(settings: CombinedSettings, every: int) -> list[float]:
        rule = CombinedRule(3, settings)
        return [float(rule.step(HOST, row[None], every * i * MINUTE_MS).score[0]) for i, row in enumerate(values)]

    minutes = scores(CombinedSettings(**hours), 1)
    assert scores(longer, 10) == pytest.approx(minutes, abs=1e-9)
    assert scores(CombinedSettings(**hours), 10)[-1] != pytest.approx(minutes[-1], abs=1e-3)


def test_what_all_resources_do_together_is_nothing_new() -> None:
    values = loads(1500)
    scores = [float(step.score[0]) for step in run(values)]
    assert np.quantile(scores[1000:], 0.99) < 0.7


def test_it_reports_nothing_before_it_has_seen_enough() -> None:
    found = run(loads(60))
    assert not any(fires(step) or step.score[0] for step in found)


def test_a_missing_resource_is_no_anomaly() -> None:
    values = loads(3 * DAY + 600)
    values[3 * DAY :: 2, 2] = np.nan
    assert not any(fires(step) for step in run(values))


def test_resources_that_stand_still_or_are_the_same_do_no_harm() -> None:
    values = np.concatenate([loads(800), loads(800)[:, :1], np.full((800, 1), 7.0)], axis=1)
    found = run(values)
    assert np.isfinite([step.score[0] for step in found]).all()
    assert not any(fires(step) for step in found)


@pytest.mark.parametrize("resources", [0, RESOURCES_MAX + 1])
def test_too_few_or_too_many_resources_are_refused(resources: int) -> None:
    with pytest.raises(ValueError, match="can be scored together"):
        CombinedRule(resources)


def test_a_host_takes_at_most_what_its_series_may() -> None:
    assert CombinedRule(RESOURCES_MAX).table.row_bytes / RESOURCES_MAX < 700


def test_stored_hosts_go_on_as_if_nothing_had_happened_and_hosts_do_not_mind_their_neighbours() -> None:
    values, other = loads(600), loads(600, seed=2)
    alone = run(values)
    both = CombinedRule(3)
    for i in range(600):
        if i == 350:
            stored, both = both.table.stored_each(np.arange(2)), CombinedRule(3)
            for host, state in enumerate(stored):
                both.table.restore(host, host + 1, state.tobytes())
        step = both.step(np.array([1, 0]), np.stack([values[i], other[i]]), i * MINUTE_MS)
        assert step.score[0] == pytest.approx(alone[i].score[0], abs=1e-9)


def test_a_host_that_is_forgotten_starts_anew() -> None:
    rule = CombinedRule(3)
    run(loads(400), rule)
    rule.table.clear(HOST)
    assert run(loads(10), rule)[-1].score[0] == 0.0


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=60))
def test_whatever_comes_the_score_is_from_zero_to_below_one(values: list[tuple[float, float, float]]) -> None:
    eager = CombinedRule(3, CombinedSettings(warm_up_h=0.0))
    known = [(1.0, 2.0, 3.0), (2.0, 1.0, 4.0)] * 26
    for i, row in enumerate(known + values):
        assert 0.0 <= eager.step(HOST, np.array([row]), i * MINUTE_MS).score[0] < 1.0


def test_stored_rows_of_other_columns_or_another_number_of_rows_are_refused() -> None:
    table = ColumnTable({"count": Column((), "int64", 0)})
    table.grow(2)
    with pytest.raises(ValueError, match="other columns"):
        ColumnTable({"other": Column((), "int64", 0)}).restore(0, 2, table.stored(0, 2))
    with pytest.raises(ValueError, match="another number of rows"):
        table.restore(0, 1, table.stored(0, 2))


def test_a_host_with_another_resource_in_a_place_learns_anew_how_they_go_together() -> None:
    rule, values = CombinedRule(3), loads(700)
    run(values[:400], rule)
    rule.anew(0, place=2)
    values[400:, 2] = 40.0 + 1e-3 * values[400:, 2]  # nothing that the one before it said would let expect
    later = run(values[400:], rule, first=400)
    assert [step.score[0] for step in later[:60]] == [0.0] * 60
    assert not any(fires(step) for step in later)
