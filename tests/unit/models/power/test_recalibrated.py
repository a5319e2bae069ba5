"""Watts from events."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.power import SAMPLES_MIN, WINDOW, PowerModel
from tests.kit.effort import examples

EVENTS = ("instructions", "misses", "reads")


def transferred(ticks: int, idle_w: float = 80.0, model: PowerModel | None = None) -> PowerModel:
    model = model or PowerModel(EVENTS)
    rng = np.random.default_rng(len(model.samples))
    for events in rng.random((ticks, 3)) * [10.0, 4.0, 2.0]:
        power = idle_w + float(events @ [9.0, 12.0, 0.0]) + 0.5 * rng.normal()
        model.learn(events.tolist(), power)
    return model


def estimate(model: PowerModel, events: tuple[float, ...]) -> float:
    estimates = model.estimates(np.array([events]))
    assert estimates is not None
    return float(estimates[0])


def test_a_full_window_reports_weights_and_relearns_only_when_it_is_off() -> None:
    model = transferred(WINDOW, idle_w=0.0)
    first_weights = list(model.weights)
    transferred(300, 0.0, model)
    assert model.weights == first_weights
    assert model.weights == pytest.approx([9.0, 12.0, 0.0], abs=0.5)
    assert np.median(model.errors) < 1.0


def test_power_without_events_is_found_once_the_window_is_full_and_the_error_shows_that_it_was_missing() -> None:
    model = transferred(WINDOW + 60, idle_w=80.0)
    assert model.idle_w == pytest.approx(80.0, abs=2.0)
    assert estimate(model, (5.0, 2.0, 1.0)) == pytest.approx(80 + 45 + 24, abs=2.0)


def test_after_a_change_it_is_right_again_within_two_windows() -> None:
    model = transferred(200)
    rng = np.random.default_rng(2)
    for events in rng.random((2 * WINDOW, 3)) * [10.0, 4.0, 2.0]:
        model.learn(events.tolist(), 80.0 + float(events @ [18.0, 12.0, 3.0]))
    assert estimate(model, (5.0, 2.0, 1.0)) == pytest.approx(80 + 90 + 24 + 3, abs=2.0)


def test_nothing_is_reported_before_enough_was_measured() -> None:
    assert transferred(SAMPLES_MIN - 1).estimates(np.ones((1, 3))) is None


@pytest.mark.parametrize(
    ("events", "power_w"),
    [
        ((1.0,), 100.0),
        ((1.0, 1.0, -1.0), 100.0),
        ((1.0, 1.0, np.nan), 1.0),
        ((1.0, 1.0, 1.0), 0.0),
        ((1, 1, 1), np.nan),
    ],
)
def test_what_cannot_be_changes_nothing(events: tuple[float, ...], power_w: float) -> None:
    model = PowerModel(EVENTS)
    model.learn(events, power_w)
    assert model == PowerModel(EVENTS)


def test_a_stored_model_goes_on_as_if_nothing_had_happened() -> None:
    model = transferred(100)
    restored = msgspec.convert(json.loads(msgspec.json.encode(model)), PowerModel)
    for each in (model, restored):
        for tick in range(80):
            each.learn((tick % 5, 1.0, 2.0), 100.0 + 20.0 * (tick % 5))
    assert restored == model


events = st.tuples(*[st.floats(0.0, 1e6)] * 3)
samples = st.lists(st.tuples(events, st.floats(0.1, 1e4)), min_size=0, max_size=150)


@settings(max_examples=examples(60), deadline=None)
@given(samples)
def test_weights_and_idle_power_are_never_negative(seen: list[tuple[tuple[float, float, float], float]]) -> None:
    model = PowerModel(EVENTS)
    for each, power in seen:
        model.learn(each, power)
    assert all(weight >= 0 for weight in model.weights)
    assert model.idle_w >= 0.0
