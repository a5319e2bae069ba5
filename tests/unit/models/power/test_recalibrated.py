"""Watts from events, and of parts of a host."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.power import LAYERS_MAX, SAMPLES_MIN, WINDOW, PowerModel

EVENTS = ("instructions", "misses", "reads")


def transferred(ticks: int, idle_w: float = 80.0, seed: int = 1, noise_w: float = 0.5) -> PowerModel:
    model = PowerModel(EVENTS, most_idle_w=300.0)
    rng = np.random.default_rng(seed)
    for events in rng.random((ticks, 3)) * [10.0, 4.0, 2.0]:
        power = idle_w + float(events @ [9.0, 12.0, 0.0]) + noise_w * rng.normal()
        model.learn(events.tolist(), power)
    return model


def estimate(model: PowerModel, events: tuple[float, ...], frequency_mhz: float = 0.0) -> float:
    found = model.estimates(np.array([events]), frequency_mhz)
    assert found is not None
    return float(found[0])


def test_a_full_window_reports_weights_and_idle_and_relearns_only_when_it_is_off() -> None:
    model = transferred(300, idle_w=0.0)
    layer = model.layers[0]
    assert layer.relearned == 1
    assert layer.weights == pytest.approx([9.0, 12.0, 0.0], abs=0.5)
    error_w = model.error_w()
    assert error_w is not None
    assert error_w < 1.0


def test_power_without_events_is_found_once_the_window_is_full_and_the_error_shows_that_it_was_missing() -> None:
    model = transferred(WINDOW + 60, idle_w=80.0)
    assert model.layers[0].relearned > 1
    assert model.layers[0].idle_w == pytest.approx(80.0, abs=2.0)
    assert estimate(model, (5.0, 2.0, 1.0)) == pytest.approx(80 + 45 + 24, abs=2.0)


def test_after_a_change_it_is_right_again_within_two_windows() -> None:
    model = transferred(200)
    rng = np.random.default_rng(2)
    for events in rng.random((2 * WINDOW, 3)) * [10.0, 4.0, 2.0]:
        model.learn(events.tolist(), 80.0 + float(events @ [18.0, 12.0, 3.0]))
    assert estimate(model, (5.0, 2.0, 1.0)) == pytest.approx(80 + 90 + 24 + 3, abs=2.0)


def test_nothing_is_reported_before_enough_was_measured() -> None:
    model = transferred(SAMPLES_MIN - 1)
    assert model.estimates(np.ones((1, 3))) is None
    assert model.error_w() is None


def test_each_layer_of_frequency_has_its_own_model_and_a_higher_one_asks_the_next_below() -> None:
    model = PowerModel(("cycles",), layer_mhz=200.0)
    for frequency, watts in ((1200.0, 5.0), (2400.0, 20.0)):
        for load in range(1, 20):
            model.learn((load,), watts * load, frequency)
    requested = [estimate(model, (10.0,), frequency) for frequency in (800.0, 1300.0, 2399.0, 2400.0, 3500.0)]
    assert requested == pytest.approx([50.0, 50.0, 50.0, 200.0, 200.0], rel=1e-3)
    for number in range(3 * LAYERS_MAX):
        model.learn((1.0,), 5.0, 200.0 * number)
    assert len(model.layers) == LAYERS_MAX


def test_an_idle_power_beyond_what_can_be_is_not_trusted() -> None:
    model = PowerModel(("cycles",), most_idle_w=100.0)
    for tick in range(300):
        model.learn((tick % 7,), 500.0 + tick % 7)
    assert model.layers[0].idle_w == 0.0


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
def test_what_cannot_be_is_counted_and_changes_nothing(events: tuple[float, ...], power_w: float) -> None:
    model = PowerModel(EVENTS)
    model.learn(events, power_w)
    assert (model.rejected, model.layers) == (1, {})


def test_a_snapshot_goes_on_as_if_nothing_had_happened() -> None:
    model = transferred(100)
    restored = PowerModel(EVENTS, most_idle_w=300.0, state=json.loads(json.dumps(model.snapshot())))
    for each in (model, restored):
        for tick in range(80):
            each.learn((tick % 5, 1.0, 2.0), 100.0 + 20.0 * (tick % 5))
    assert restored.snapshot() == model.snapshot()
    with pytest.raises(ValueError, match="version"):
        PowerModel(("other",), state=model.snapshot())
    with pytest.raises(ValueError, match="at least one"):
        PowerModel(())


events = st.tuples(*[st.floats(0.0, 1e6)] * 3)
samples = st.lists(st.tuples(events, st.floats(0.1, 1e4)), min_size=0, max_size=150)


@settings(max_examples=60, deadline=None)
@given(samples)
def test_weights_and_idle_power_are_never_negative(seen: list[tuple[tuple[float, float, float], float]]) -> None:
    model = PowerModel(EVENTS, most_idle_w=300.0)
    for each, power in seen:
        model.learn(each, power)
    assert all(weight >= 0 for layer in model.layers.values() for weight in layer.weights)
    assert all(0 <= layer.idle_w < 300.0 for layer in model.layers.values())
