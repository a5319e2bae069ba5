"""What meters show is believed as far as it can be: wraps and resets of counters, nulls, zeros, negative values, gaps."""

from collections.abc import Iterable

import pytest

from processors.contracts.events import HostMinute, JournalEvent, ResourceMinute
from processors.contracts.hosts import Profile
from tests.kit.profiled_hosts import Resources, ended, folded, grew, in_time, level, minute, of_run, started, total
from tests.kit.rapl import RAPL_FINE_RANGE_J, RAPL_RANGE_J

POWER = "power_w>system"


def run_of(predicted: Iterable[HostMinute], minutes: int = 10) -> Profile:
    """Return the profile of a run on one host, of which something is told from a minute before on."""
    events: list[JournalEvent] = [started("1", 0, "nid1"), *predicted, ended("1", 0, minutes)]
    return of_run(folded(*in_time(events, until=minutes + 3)))


def predicted(minutes: dict[int, Resources]) -> list[HostMinute]:
    return [minute("nid1", number, resources) for number, resources in minutes.items()]


def counted(name: str, values: dict[int, float]) -> list[HostMinute]:
    return predicted({number: {name: total(value)} for number, value in values.items()})


def test_a_counter_since_some_start_is_what_it_grew_from_minute_to_minute() -> None:
    found = run_of(counted("counter_total>cycles", {n: 1e15 + 6e10 * n for n in range(-1, 10)}))
    assert (found.counters, found.minutes) == ({"cycles": 1e9}, 10)


def test_the_first_minute_of_a_counter_reports_nothing_and_is_missing() -> None:
    found = run_of(counted("counter_total>cycles", {n: 6e10 * n for n in range(10)}))
    assert (found.counters, found.minutes, found.expected) == ({"cycles": 1e9}, 9, 10)


def test_a_gap_of_some_minutes_is_one_step_over_all_of_them() -> None:
    values = {n: 6e10 * (n + 1) for n in range(-1, 10) if n not in (3, 4)}
    found = run_of(counted("counter_total>cycles", values))
    assert (found.counters, found.minutes) == ({"cycles": 1e9}, 10)


def test_a_gap_over_the_start_of_a_run_reports_nothing_of_it() -> None:
    idle_then_busy = {-2: 0.0, 1: 6e10 * 2, **{n: 6e10 * (n + 1) for n in range(2, 10)}}
    found = run_of(counted("counter_total>cycles", idle_then_busy))
    assert (found.counters, found.minutes) == ({"cycles": 1e9}, 8)


def test_after_a_long_silence_a_counter_begins_anew() -> None:
    values = {-1: 0.0, 0: 6e10, 1: 1.2e11, **{n: 6e10 * n for n in range(8, 20)}}
    found = run_of(counted("counter_total>cycles", values), minutes=20)
    assert (found.counters, found.minutes) == ({"cycles": 1e9}, 13)


def test_a_reset_counter_loses_a_minute_and_nothing_is_made_up() -> None:
    values = {n: 6e10 * (n + 2 if n < 5 else n - 5) + 1e6 for n in range(-1, 10)}
    found = run_of(counted("counter_total>cycles", values))
    assert (found.counters, found.minutes, found.left_out) == ({"cycles": 1e9}, 9, {"reset": 1})


@pytest.mark.parametrize(
    ("resource", "component", "whole", "watts"),
    [
        ("energy_total>cpu:0", "cpu", RAPL_RANGE_J, 250.0),
        ("energy_total>memory:0", "memory", RAPL_FINE_RANGE_J, 40.0),
    ],
)
def test_energy_counters_wrap_at_their_ranges(resource: str, component: str, whole: float, watts: float) -> None:
    values = {n: (whole - 100_000.0 + watts * 60 * n) % whole for n in range(-1, 40)}
    assert min(values.values()) < values[-1], "it wraps within the run"
    found = run_of(counted(resource, values), minutes=40)
    assert found.power_w == {component: pytest.approx(watts)}
    assert (found.minutes, found.left_out) == (40, {})


def test_power_of_sockets_is_that_of_the_host_only_where_all_reported() -> None:
    both = {"power_w>cpu:0": level(100.0), "power_w>cpu:1": level(120.0)}
    one = {"power_w>cpu:0": level(100.0), POWER: level(400.0)}
    found = run_of(predicted({n: one if n in (4, 5) else both for n in range(-1, 10)}))
    assert found.power_w == {"system": 400.0, "cpu": 220.0}
    assert (found.measured, found.left_out) == ({"system": 0.2, "cpu": 0.8}, {"part": 2})


def test_what_the_whole_host_reports_goes_before_its_parts() -> None:
    both = {"power_w>cpu": level(230.0), "power_w>cpu:0": level(100.0), "power_w>cpu:1": level(120.0)}
    assert run_of(predicted(dict.fromkeys(range(10), both))).power_w == {"cpu": 230.0}


def test_a_sensor_of_power_goes_before_counters_of_energy() -> None:
    def at(n: int) -> Resources:
        energy = {"energy_total>cpu:0": total(1000.0 + 6000.0 * n)}
        return energy | ({"power_w>cpu:0": level(110.0)} if n > 100 else {})

    assert run_of(predicted({n: at(n) for n in range(-1, 10)})).power_w == {"cpu": 100.0}
    assert run_of(predicted({n: at(n) | {"power_w>cpu": level(110.0)} for n in range(10)})).power_w == {"cpu": 110.0}


def test_interfaces_of_a_host_add_up() -> None:
    def at(n: int) -> Resources:
        return {"nic_total>cxi0:sent": total(6e9 * n), "nic_total>cxi1:sent": total(1e12 + 1.2e10 * n)}

    assert run_of(predicted({n: at(n) for n in range(-1, 10)})).nic == {"sent": 3e8}


def test_rates_of_parts_add_up_and_levels_are_their_mean() -> None:
    at = {"counter_rate>flops:0": level(2e9), "counter_rate>flops:1": level(3e9)}
    at |= {"counter_level>clock:0": level(2000.0), "counter_level>clock:1": level(3000.0)}
    at = {name: ResourceMinute(6, each.mean, each.mean, each.mean) for name, each in at.items()}
    assert run_of(predicted(dict.fromkeys(range(10), at))).counters == {"flops": 5e9, "clock": 2500.0}


BAD = {
    "negative": level(300.0, low=-5.0),
    "zero": level(0.0),
    "excessive": level(400.0, high=65_535.0),
    "missing": ResourceMinute(0, float("nan"), float("nan"), float("nan")),
}


@pytest.mark.parametrize("reason", BAD)
def test_power_that_cannot_be_is_left_out_and_counted(reason: str) -> None:
    counters = {"counter_delta>cycles": grew(6e10)}
    found = run_of(predicted({n: counters | {POWER: BAD[reason] if n in (2, 3) else level(400.0)} for n in range(10)}))
    assert (found.power_w, found.left_out) == ({"system": 400.0}, {reason: 2})
    assert (found.measured, found.minutes) == ({"system": 0.8}, 10)
    assert found.energy_j == {"system": 400.0 * 600}


def test_a_zero_among_samples_of_power_makes_the_minute_doubtful() -> None:
    found = run_of(
        predicted({n: {POWER: level(200.0, low=0.0, high=400.0) if n == 2 else level(400.0)} for n in range(10)})
    )
    assert (found.power_w, found.left_out) == ({"system": 400.0}, {"zero": 1})


def test_an_accelerator_may_be_off() -> None:
    assert run_of(predicted({n: {"power_w>gpu": level(0.0)} for n in range(10)})).power_w == {"gpu": 0.0}


def test_a_counter_that_shrinks_is_left_out() -> None:
    found = run_of(predicted({n: {"counter_delta>cycles": grew(-5.0 if n == 4 else 6e10)} for n in range(10)}))
    assert (found.counters, found.left_out, found.minutes) == ({"cycles": 1e9}, {"negative": 1}, 9)


def test_a_counter_that_is_reported_every_second_minute_has_its_rate() -> None:
    found = run_of(
        predicted({n: {"counter_delta>cycles": grew(1.2e11, count=1)} for n in range(-6, 20, 2)}), minutes=20
    )
    assert (found.counters, found.coverage) == ({"cycles": 1e9}, 0.9), "one at either end is not all its own"


def test_a_minute_that_got_lost_does_not_lower_the_rate_of_a_counter() -> None:
    found = run_of(predicted({n: {"counter_delta>cycles": grew(6e10)} for n in range(10) if n != 4}))
    assert (found.counters, found.minutes) == ({"cycles": 1e9}, 9)


def test_meters_beyond_the_bound_are_counted_and_left_out() -> None:
    hosts = folded(*in_time([minute(f"nid{i}", 0, {POWER: level(400.0)}) for i in range(9)], 2), resources_max=5)
    assert hosts.state.tally["bound", "profile_resources_max"] == 4
    assert hosts.state.profiles.sizes()["profile_meters"] == 5


def test_of_many_counters_those_are_kept_that_were_reported_longest() -> None:
    at = {f"counter_delta>c{i:03}": grew(60.0) for i in range(80)}
    found = run_of(predicted({n: at if n else {"counter_delta>c079": grew(60.0)} for n in range(10)}))
    assert list(found.counters) == [*(f"c{i:03}" for i in range(63)), "c079"]
