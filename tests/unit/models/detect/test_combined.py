"""The combined score: what does not go with the other resources."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.detect.multivariate import RESOURCES_MAX, CombinedRule, CombinedSettings, CombinedStep
from processors.models.detect.record import Column, Table

HOST = np.array([0])


def loads(steps: int, seed: int = 1) -> np.ndarray:
    """One load moves three resources of a host, each with its own unit and a little noise."""
    rng = np.random.default_rng(seed)
    load = np.sin(np.arange(steps) / 20.0) + 0.3 * rng.normal(size=steps)
    noise = rng.normal(size=(steps, 3))
    return np.stack([100 * load, 5 - load, 1e6 * (2 + load)], axis=1) + noise * [3.0, 0.03, 3e4]


def run(values: np.ndarray, rule: CombinedRule | None = None) -> list[CombinedStep]:
    one = rule or CombinedRule(values.shape[1])
    return [one.step(HOST, row[None, :]) for row in values]


def test_a_value_within_its_range_that_contradicts_the_others_fires_and_the_expected_value_is_reported() -> None:
    values = loads(1500)
    usual = values[1400:, 1].mean()
    values[1400:, 1] = usual - (values[1400:, 1] - usual)  # the resource moves against the load
    found = run(values)
    assert np.mean([step.fired[0] for step in found[1000:1400]]) < 0.05
    assert np.mean([step.fired[0] for step in found[1410:]]) > 0.5
    undisturbed = loads(1500)[1400, 1]
    assert abs(found[1400].expected[0, 1] - undisturbed) < abs(values[1400, 1] - undisturbed)


def test_what_all_resources_do_together_is_nothing_new() -> None:
    values = loads(1500)
    scores = [float(step.score[0]) for step in run(values)]
    assert np.quantile(scores[1000:], 0.99) < 0.7


def test_it_reports_nothing_before_it_has_seen_enough() -> None:
    found = run(loads(300))
    assert not any(step.fired[0] or step.score[0] for step in found)


def test_a_missing_resource_is_no_anomaly() -> None:
    values = loads(1500)
    values[1200::2, 2] = np.nan
    found = run(values)
    assert np.mean([step.fired[0] for step in found[1200:]]) < 0.05


def test_resources_that_stand_still_or_are_the_same_do_no_harm() -> None:
    values = np.concatenate([loads(800), loads(800)[:, :1], np.full((800, 1), 7.0)], axis=1)
    found = run(values)
    assert np.isfinite([step.score[0] for step in found]).all()
    assert np.mean([step.fired[0] for step in found[300:]]) < 0.1


@pytest.mark.parametrize("resources", [0, RESOURCES_MAX + 1])
def test_too_few_or_too_many_resources_are_refused(resources: int) -> None:
    with pytest.raises(ValueError, match="can be scored together"):
        CombinedRule(resources)


def test_a_host_takes_at_most_what_its_series_may() -> None:
    assert CombinedRule(RESOURCES_MAX).host_bytes / RESOURCES_MAX < 700


def test_stored_hosts_go_on_as_if_nothing_had_happened_and_hosts_do_not_mind_their_neighbours() -> None:
    values, other = loads(600), loads(600, seed=2)
    alone = run(values)
    both = CombinedRule(3)
    for i in range(600):
        if i == 350:
            stored, both = both.stored(0, 2), CombinedRule(3)
            both.restore(0, 2, stored)
        step = both.step(np.array([1, 0]), np.stack([values[i], other[i]]))
        assert step.score[0] == pytest.approx(alone[i].score[0], abs=1e-9)


def test_a_host_that_is_forgotten_starts_anew() -> None:
    rule = CombinedRule(3)
    run(loads(400), rule)
    rule.clear(HOST)
    assert run(loads(10), rule)[-1].score[0] == 0.0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=60))
def test_whatever_comes_the_score_is_from_zero_to_below_one(values: list[tuple[float, float, float]]) -> None:
    eager = CombinedRule(3, CombinedSettings(warm_up=5))
    for row in values:
        assert 0.0 <= eager.step(HOST, np.array([row])).score[0] < 1.0


def test_stored_rows_of_other_columns_or_another_number_of_rows_are_refused() -> None:
    table = Table({"count": Column((), "int64", 0)})
    table.grow(2)
    with pytest.raises(ValueError, match="other columns"):
        Table({"other": Column((), "int64", 0)}).restore(0, 2, table.stored(0, 2))
    with pytest.raises(ValueError, match="another number of rows"):
        table.restore(0, 1, table.stored(0, 2))


def test_a_host_with_another_resource_in_a_place_learns_anew_how_they_go_together() -> None:
    rule, values = CombinedRule(3), loads(700)
    run(values[:400], rule)
    rule.anew(0, place=2)
    values[400:, 2] = 40.0 + 1e-3 * values[400:, 2]  # nothing that the one before it said would let expect
    later = run(values[400:], rule)
    assert [step.score[0] for step in later[:299]] == [0.0] * 299
    assert not any(step.fired[0] for step in later)
