"""Where only some hosts have sensors, the others' power is estimated from their counters, and marked as that."""

import numpy as np
import pytest

from agent.app.compose import make_shard
from agent.config.tree import Config
from processors.contracts.events import HostMinute, JournalEvent
from processors.contracts.hosts import Profile
from processors.pipeline.host_state import encoded
from processors.pipeline.hosts import HostShard
from tests.kit.profiled_hosts import Resources, ended, folded, grew, in_time, level, minute, of_run, profile, started

HOSTS, MINUTES = 8, 30
WITH_SENSOR = 5


def watts(host: int, number: int) -> tuple[float, float, float]:
    """Return cycles and misses per second of a host in a minute, and what it draws for them."""
    cycles, misses = np.random.default_rng([host, number]).random(2)
    return cycles * 3e9, misses * 1e7, 120.0 + 200.0 * cycles + 60.0 * misses


def predicted(host: int, number: int) -> HostMinute:
    cycles, misses, power_w = watts(host, number)
    found: Resources = {"counter_delta>cycles": grew(cycles * 60), "counter_delta>misses": grew(misses * 60)}
    return minute(f"nid{host}", number, found | ({"power_w>system": level(power_w)} if host < WITH_SENSOR else {}))


def centre(minutes: int = MINUTES, hosts: str = "nid[5-7]", others: tuple[HostMinute, ...] = ()) -> HostShard:
    events = [predicted(host, number) for number in range(minutes) for host in range(HOSTS)]
    job: list[JournalEvent] = [started("1", 20, hosts), ended("1", 20, 30)]
    return folded(*in_time([*events, *others, *job], until=33))


def true_w(hosts: range) -> float:
    return float(np.mean([watts(host, number)[2] for host in hosts for number in range(20, 30)]))


def run_of(shard: HostShard) -> Profile:
    return of_run(shard, start=20)


def test_hosts_without_a_sensor_get_what_their_counters_let_expect() -> None:
    found = run_of(centre())
    assert (found.measured, found.estimated) == ({"system": 0.0}, {"system": 1.0})
    assert found.power_w["system"] == pytest.approx(true_w(range(5, 8)), rel=0.02)
    assert found.energy_j["system"] == pytest.approx(3 * 600 * found.power_w["system"])


def test_what_is_measured_stays_and_the_rest_is_estimated() -> None:
    found = run_of(centre(hosts="nid[4-7]"))
    assert (found.measured, found.estimated) == ({"system": 0.25}, {"system": 0.75})
    assert found.power_w["system"] == pytest.approx(true_w(range(4, 8)), rel=0.02)


def test_where_all_have_sensors_nothing_is_estimated_and_no_model_is_kept() -> None:
    events = [predicted(host, number) for number in range(30) for host in range(WITH_SENSOR)]
    shard = folded(*in_time([*events, started("1", 20, "nid[0-4]"), ended("1", 20, 30)], until=33))
    assert (run_of(shard).measured, run_of(shard).estimated) == ({"system": 1.0}, {})
    assert shard.state.sizes()["profile_power"] == 0


def test_hosts_of_another_kind_get_no_estimate() -> None:
    others = tuple(minute("gpu1", number, {"counter_delta>kernels": grew(6e3)}) for number in range(30))
    found = profile(centre(hosts="gpu1", others=others), "1", 20)
    assert found is not None
    assert (found.minutes, found.power_w) == (10, {})


def test_estimates_are_never_negative_nor_far_above_what_was_measured() -> None:
    mad = tuple(
        minute("nid9", number, {"counter_delta>cycles": grew(1e15), "counter_delta>misses": grew(0.0)})
        for number in range(30)
    )
    found = run_of(centre(hosts="nid9", others=mad))
    assert 300.0 < found.power_w["system"] < 1.2 * 380.0


def test_how_far_estimates_are_out_where_sensors_are_is_reported() -> None:
    assert centre().profiles.power_errors()["system"] == pytest.approx(0.0, abs=2.0)


HIGH, LOW = 1.08, 0.92
FELL_SILENT = 90


def differing(host: int, number: int) -> HostMinute:
    """Return a minute of hosts that draw more or less than others at the same; all sensors but that of nid0 fall silent or never were."""
    cycles, misses, power_w = watts(host, number)
    found: Resources = {"counter_delta>cycles": grew(cycles * 60), "counter_delta>misses": grew(misses * 60)}
    power_w *= {1: HIGH, 2: LOW}.get(host, 1.0)
    has_sensor = host < WITH_SENSOR and (host not in {1, 2} or number < FELL_SILENT)
    return minute(f"nid{host}", number, found | ({"power_w>system": level(power_w)} if has_sensor else {}))


def estimated_w(host: int) -> float:
    end = FELL_SILENT + 10
    events = [differing(each, number) for number in range(end) for each in range(HOSTS)]
    job: list[JournalEvent] = [started("1", FELL_SILENT, f"nid{host}"), ended("1", FELL_SILENT, end)]
    found = of_run(folded(*in_time([*events, *job], until=end + 3)), start=FELL_SILENT)
    assert found.estimated == {"system": 1.0}
    return found.power_w["system"]


@pytest.mark.parametrize(("host", "factor"), [(1, HIGH), (2, LOW), (6, 1.0)])
def test_a_host_whose_sensor_falls_silent_keeps_what_it_drew_beyond_others(host: int, factor: float) -> None:
    usual_w = np.mean([watts(host, number)[2] for number in range(FELL_SILENT, FELL_SILENT + 10)])
    assert estimated_w(host) == pytest.approx(factor * float(usual_w), rel=0.02)


def test_the_error_that_is_reported_is_that_of_hosts_whose_level_is_not_known() -> None:
    events = [differing(host, number) for number in range(FELL_SILENT) for host in (0, 1, 2, 7)]
    error_w = folded(*in_time(events, until=FELL_SILENT + 3)).profiles.power_errors()["system"]
    assert 10.0 < error_w < 30.0  # two of three hosts with a sensor are 8 % off, of about 250 W


def test_levels_outlast_a_checkpoint() -> None:
    events = in_time([differing(host, number) for number in range(60) for host in range(HOSTS)], until=63)
    hosts = folded(*events)
    levels = hosts.state.profiles.index.power_levels
    again = make_shard(Config()).hosts
    stored = {key: value for key, value in encoded(hosts.state.copied()).items() if value is not None}
    again.restore(stored, hosts.state.now_ms)
    row = hosts.state.profiles.index.hosts.ids.rows["exa", "nid1"]
    assert levels.rows["ln"][row, 0] > 0.02
    assert again.state.profiles.index.power_levels.rows[row] == levels.rows[row]
