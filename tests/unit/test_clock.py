"""The clock and its stand-in keep the same promises."""

import math
import threading

import pytest

from agent.app.lookout import clock_fault
from agent.clock import BrokerClock, Clock, SystemClock
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


class Host(FakeClock):
    """A host's clock that can be wrong, and the broker's, which is right."""

    def __init__(self, ahead_ms: int) -> None:
        super().__init__()
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def broker_ms(self) -> int:
        return super().now_ms()


@pytest.mark.parametrize(
    ("ahead_ms", "fault"),
    [
        (59_000, None),
        (-59_000, None),
        (-90_000, "The clock of this host is 1 min 30 s behind the broker's."),
        (86_400_000, "The clock of this host is 1 day ahead of the broker's."),
        (-3 * 86_400_000, "The clock of this host is 3 days behind the broker's."),
    ],
)
def test_a_wrong_clock_of_the_host_is_named_and_the_broker_clock_counts_until_it_is_right(
    ahead_ms: int, fault: str | None
) -> None:
    host = Host(ahead_ms)
    clock = BrokerClock(host)
    clock.compare(host.broker_ms(), within_s=10.0)
    assert clock_fault(clock.ahead_ms) == fault
    host.advance(100.0)
    assert clock.now_ms() == (host.now_ms() if fault is None else host.broker_ms())
    host.ahead_ms = 0
    clock.compare(host.broker_ms(), within_s=10.0)
    assert clock_fault(clock.ahead_ms) is None
    assert clock.now_ms() == host.broker_ms()


def test_an_old_record_does_not_make_the_clock_of_the_host_wrong() -> None:
    host = Host(0)
    clock = BrokerClock(host)
    clock.compare(host.broker_ms() - 86_400_000, within_s=math.inf)
    clock.compare(host.broker_ms() - 7_200_000, within_s=7_200.0)
    assert clock_fault(clock.ahead_ms) is None
    assert clock.now_ms() == host.now_ms()


def test_a_stamp_is_never_more_than_an_hour_ahead_of_a_time_that_the_broker_has_shown() -> None:
    host = Host(86_400_000)
    clock = BrokerClock(host)
    assert clock.stamp_ms() == host.now_ms()
    clock.compare(host.broker_ms(), within_s=math.inf)
    assert clock_fault(clock.ahead_ms) is None, "the record may be a day old"
    assert host.broker_ms() < clock.stamp_ms() < host.broker_ms() + 3_600_000
