"""The clock and its stand-in keep the same promises."""

import threading

import pytest

from agent.clock import Clock, SystemClock
from tests.kit.clock import FakeClock


@pytest.fixture(params=[SystemClock, FakeClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


def test_wall_clock_time_is_in_milliseconds_of_this_century(clock: Clock) -> None:
    assert 1_600_000_000_000 < clock.now_ms() < 4_102_444_800_000


def test_monotonic_time_grows_by_what_was_slept(clock: Clock) -> None:
    before = clock.monotonic_s()
    clock.sleep(0.01, threading.Event())
    assert clock.monotonic_s() - before >= 0.01


def test_a_sleep_that_is_asked_to_stop_ends_at_once(clock: Clock) -> None:
    stop = threading.Event()
    stop.set()
    before = clock.monotonic_s()
    assert clock.sleep(3600.0, stop)
    assert clock.monotonic_s() - before < 60


def test_a_sleep_that_ran_its_length_states_that_nobody_stopped_it(clock: Clock) -> None:
    assert not clock.sleep(0.0, threading.Event())


def test_a_negative_sleep_is_none(clock: Clock) -> None:
    before = clock.monotonic_s()
    assert not clock.sleep(-5.0, threading.Event())
    assert clock.monotonic_s() >= before


def test_a_step_of_the_wall_clock_leaves_monotonic_time_alone() -> None:
    clock = FakeClock(now_ms=1000)
    clock.jump_wall_ms(-500)
    assert (clock.now_ms(), clock.monotonic_s()) == (500, 0.0)
