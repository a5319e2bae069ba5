"""Forecasts of hosts: fed by their minutes, stored in blocks, forgotten when a host goes quiet."""

import msgspec
import numpy as np
import pytest

from agent.contracts.events import HostMinute, ResourceMinute
from processors.forecasts_of_hosts import BLOCK, QUIET_MS, WAITING_MAX, HostForecasts, HostForecastsState
from processors.models.forecast.battery import Forecasters

MINUTE_MS = 60_000
Means = tuple[float | None, ...]


def minute(host: str, number: int, **resources: Means) -> HostMinute:
    found = {name: ResourceMinute(len(means), 0.5, 0.0, 1.0, means) for name, means in resources.items()}
    return HostMinute("exa", source="load-0", host=host, minute_ms=number * MINUTE_MS, resources=found)


def means(number: int, host: int = 0) -> Means:
    return tuple(np.random.default_rng([number, host]).random(6).tolist())


def stored(forecasts: HostForecasts) -> bytes:
    return msgspec.json.encode(forecasts.snapshot())


def restored(forecasts: HostForecasts) -> HostForecasts:
    return HostForecasts.build(msgspec.json.decode(stored(forecasts), type=HostForecastsState))


def test_a_host_is_told_what_the_forecasters_say_of_its_10_second_means() -> None:
    forecasts, plain = HostForecasts.build(), Forecasters(1)
    for number in range(20):
        forecasts.learn(minute("a", number, cpu_available=means(number)))
        for value in means(number):
            plain.observe(np.arange(1), [value])
    told, expected = forecasts.of("exa", "a")["cpu_available"], plain.forecast(np.arange(1))
    assert (told.value, told.error) == (expected.value[0], expected.error[0])
    assert (told.absolute_value, told.absolute_error) == (expected.absolute_value[0], expected.absolute_error[0])


def test_an_absent_mean_and_an_absent_minute_leave_a_series_as_it_is() -> None:
    gaps, plain = HostForecasts.build(), HostForecasts.build()
    gaps.learn(minute("a", 0, cpu=(0.1, None, 0.2, None)))
    gaps.learn(minute("a", 9, cpu=(None, 0.3)))
    gaps.learn(minute("a", 12, cpu=(None, None)))
    plain.learn(minute("a", 0, cpu=(0.1, 0.2, 0.3)))
    assert gaps.of("exa", "a") == plain.of("exa", "a")


def test_a_minute_that_comes_again_or_late_changes_nothing() -> None:
    forecasts = HostForecasts.build()
    forecasts.learn(minute("a", 5, cpu=means(5)))
    before = stored(forecasts)
    for number in (5, 4):
        forecasts.learn(minute("a", number, cpu=means(number)))
    assert stored(forecasts) == before


def test_when_somebody_asks_changes_nothing() -> None:
    asked, silent = HostForecasts.build(), HostForecasts.build()
    for number in range(30):
        for host in range(5):
            for each in (asked, silent):
                each.learn(minute(str(host), number, cpu=means(number, host)))
            asked.score(minute(str(host), number + 1, cpu=means(number, host)))
    assert stored(asked) == stored(silent)


def test_a_stored_state_goes_on_as_if_nothing_had_been() -> None:
    whole = HostForecasts.build()
    for number in range(10):
        whole.learn(minute("a", number, cpu=means(number)))
        whole.learn(minute(f"gone{number}", number, cpu=means(number)))
    whole.forget_quiet(2 * MINUTE_MS + QUIET_MS)
    before = whole.snapshot()
    kept, twin = msgspec.json.encode(before), restored(whole)
    for each in (whole, twin):
        for number in range(10, 20):
            each.learn(minute("a", number, cpu=means(number), memory=means(number, 1)))
            each.learn(minute(f"new{number}", number, cpu=means(number)))
    assert stored(twin) == stored(whole)
    assert twin.due_ms() == whole.due_ms()
    assert msgspec.json.encode(before) == kept, "a snapshot is a copy"


def test_score_tells_what_was_expected_before_the_minute() -> None:
    forecasts = HostForecasts.build()
    first = minute("a", 0, cpu=(0.25,))
    assert forecasts.score(first) == {}
    forecasts.learn(first)
    told = forecasts.score(minute("a", 1, cpu=(0.5,), memory=(1.0,)))
    assert {name: (each.value, each.error) for name, each in told.items()} == {"cpu": (0.25, None)}


def test_a_quiet_host_is_forgotten_and_its_place_taken_by_another_one() -> None:
    forecasts = HostForecasts.build(series_max=1)
    forecasts.learn(minute("a", 0, cpu=means(0)))
    assert forecasts.due_ms() == QUIET_MS
    assert forecasts.forget_quiet(QUIET_MS - 1) == 0
    assert forecasts.forget_quiet(QUIET_MS) == 1
    assert (forecasts.of("exa", "a"), forecasts.hosts, forecasts.due_ms()) == ({}, 0, None)
    forecasts.learn(minute("b", 70, cpu=(0.5,)))
    assert forecasts.of("exa", "b")["cpu"].value == 0.5, "nothing of the other host is left"
    assert forecasts.of("exa", "b")["cpu"].error is None


def test_a_host_that_goes_on_is_not_forgotten() -> None:
    forecasts = HostForecasts.build()
    for number in range(0, 100, 10):
        forecasts.learn(minute("a", number, cpu=means(number)))
    assert forecasts.forget_quiet(QUIET_MS) == 0
    assert forecasts.due_ms() == 90 * MINUTE_MS + QUIET_MS


def test_series_beyond_the_bound_are_refused_and_counted() -> None:
    forecasts = HostForecasts.build(series_max=2)
    for host in range(5):
        forecasts.learn(minute(str(host), 0, cpu=means(0)))
    assert (len(forecasts), forecasts.hosts, forecasts.refused) == (2, 2, 3)
    assert restored(forecasts).refused == 3


def test_more_series_than_wait_at_once_are_all_taken_in() -> None:
    forecasts = HostForecasts.build()
    for host in range(WAITING_MAX + 5):
        forecasts.learn(minute(str(host), 0, cpu=(0.5, 0.75)))
    assert len(forecasts) == sum(forecasts.answering().values()) == WAITING_MAX + 5
    assert forecasts.of("exa", "0") == forecasts.of("exa", str(WAITING_MAX + 4))


def test_blocks_of_another_layout_are_refused() -> None:
    forecasts = HostForecasts.build()
    forecasts.learn(minute("a", 0, cpu=means(0)))
    state = forecasts.snapshot()
    with pytest.raises(ValueError, match="another layout"):
        HostForecasts.build(HostForecastsState(state.hosts, {0: state.blocks[0][:-4]}))
    with pytest.raises(ValueError, match="no row"):
        HostForecasts.build(HostForecastsState(state.hosts, {}))


def test_a_stored_series_takes_little_more_than_a_kilobyte() -> None:
    forecasts = HostForecasts.build()
    for host in range(BLOCK):
        forecasts.learn(minute(str(host), 0, cpu=means(0, host)))
    assert len(stored(forecasts)) / BLOCK < 1200
