"""Lines of hosts: what was measured over a day and the last hour, kept through restarts, and cheap to keep."""

import msgspec
import numpy as np
import pytest

from agent.app.compose import make_shard
from agent.config.tree import Config
from processors.contracts.errors import ConfigError
from processors.contracts.events import HostMinute, JournalRecord, ResourceMinute, Tick
from processors.contracts.hosts import HostLines, HostWindow, quantile
from processors.hosts.lines import LINE_KINDS, coded, decoded_values
from processors.pipeline.shard import Shard
from tests.kit.agent_topics import host_states
from tests.kit.host_minutes import MINUTE_MS, SYSTEM

DAY = 1440
START = 100 * DAY
STATED = tuple(np.linspace(0.0, 1.0, 6).tolist())


def measured(host: str, number: int, mean: float = 0.5, resource: str = "cpu", revision: int = 0) -> HostMinute:
    low, high = mean - 0.1, mean + 0.1
    found = ResourceMinute(6, mean, low, high, (mean,) * 6, tuple(x * mean for x in STATED), (0.2,) * 5, 30)
    return HostMinute(SYSTEM, "load/0", host, (START + number) * MINUTE_MS, {resource: found}, revision)


def fold(shard: Shard, *events: HostMinute) -> Shard:
    for event in events:
        shard.fold(JournalRecord(event))
    return shard


def tick(shard: Shard, number: float) -> Shard:
    shard.fold(JournalRecord(Tick("", time_ms=round((START + number) * MINUTE_MS))))
    return shard


def followed(minutes: int, shard: Shard | None = None, first: int = 0) -> Shard:
    shard = shard or tick(make_shard(Config()), 0)
    for number in range(first, first + minutes):
        tick(fold(shard, measured("nid1", number, 1.0 + number % 100)), number + 1.2)
    return shard


def lines(shard: Shard, host: str = "nid1") -> HostLines:
    found = shard.views(SYSTEM).host_lines(host)
    assert found is not None
    return found


def saved(shard: Shard) -> dict[str, bytes | None]:
    states = host_states(shard)
    shard.confirm(with_hosts=True)
    return {key: value for key, value in states.items() if key.partition("/")[0] in LINE_KINDS}


def test_each_closed_five_minutes_is_a_band_and_each_minute_of_the_last_hour_a_point() -> None:
    found = lines(followed(12))
    assert (found.day.start_ms, found.day.step_s) == (START * MINUTE_MS, 300)
    band = found.day.resources["cpu"]
    assert band.mean == (3.0, 8.0), "the means of minutes 0 to 4 and 5 to 9; the next five are not over"
    window = HostWindow(0, tuple(x * 10 for x in STATED), (0.2,) * 5, count=30, mean=10, low=0, high=10)
    assert (band.low[1], band.high[1]) == pytest.approx((quantile(window, 0.05), quantile(window, 0.95)), rel=0.002)
    minutes = found.hour.resources["cpu"]
    assert (found.hour.start_ms, found.hour.step_s, len(minutes.mean)) == (START * MINUTE_MS, 60, 12)
    assert (minutes.low[3], minutes.mean[3], minutes.high[3]) == pytest.approx((3.9, 4.0, 4.1), rel=0.002)


def test_where_nothing_was_measured_there_is_a_gap() -> None:
    shard = followed(10)
    tick(shard, 20)
    followed(5, shard, first=20)
    assert lines(shard).day.resources["cpu"].mean == (3.0, 8.0, None, None, 23.0)


def test_a_minute_that_is_reported_again_takes_the_place_of_the_first_report() -> None:
    shard = followed(4)
    tick(fold(shard, measured("nid1", 3, 7.0, revision=1), measured("nid1", 3, 6.0)), 5)
    assert lines(shard).hour.resources["cpu"].mean == (1.0, 2.0, 3.0, 7.0)


def test_what_only_grows_has_no_line() -> None:
    shard = followed(1)
    tick(fold(shard, measured("nid1", 1, resource="network_received_total>eth0")), 3)
    assert list(lines(shard).hour.resources) == ["cpu"]


def test_lines_go_back_as_far_as_configured_and_minutes_an_hour() -> None:
    shard = tick(make_shard(Config(hosts={"lines_h": 2.5})), 0)
    found = lines(followed(200, shard))
    assert len(found.day.resources["cpu"].mean) == 30
    assert Config().hosts.lines_h == 24
    assert len(found.hour.resources["cpu"].mean) == 60


def test_lines_are_the_same_after_a_restart() -> None:
    shard = followed(200)
    stored = {key: value for key, value in host_states(shard).items() if value is not None}
    twin = make_shard(Config())
    twin.restore(stored, shard.now_ms, shard.hosts.state.now_ms)
    assert lines(twin) == lines(shard)
    assert lines(followed(30, twin, first=200)) == lines(followed(30, shard, first=200))


def test_a_checkpoint_writes_only_the_hours_that_changed_and_removes_the_old_ones() -> None:
    shard = followed(180)
    first = saved(shard)
    assert None not in first.values(), "what was never written needs no removal"
    assert len(first) == 3 + 6, "three hours of bands, and the chunks of ten minutes that touch the last hour"
    assert saved(shard) == {}
    followed(10, shard, first=180)
    later = saved(shard)
    assert {key.partition("/")[0] for key, value in later.items() if value is not None} == set(LINE_KINDS)
    assert len([value for value in later.values() if value is not None]) <= 3
    gone = [key for key, value in later.items() if value is None]
    assert gone
    assert set(gone) <= set(first)


def test_who_takes_the_place_of_a_host_that_left_does_not_have_its_line() -> None:
    shard = followed(3)
    tick(shard, 100)
    assert shard.views(SYSTEM).host_lines("nid1") is None
    tick(fold(shard, measured("nid2", 100)), 102)
    assert lines(shard, "nid2").hour.resources["cpu"].mean == (0.5,)


def test_nothing_is_retained_where_the_configuration_asks_for_none() -> None:
    shard = followed(12, make_shard(Config(hosts={"lines_h": 0})))
    assert not lines(shard).day.resources
    assert not lines(shard).hour.resources
    assert saved(shard) == {}


def test_damaged_lines_are_refused_with_what_helps() -> None:
    shard = followed(12)
    stored = {key: value for key, value in host_states(shard).items() if value is not None}
    key = next(key for key in stored if key.startswith("host_lines/"))
    block = msgspec.json.decode(stored[key])
    stored[key] = msgspec.json.encode({**block, "data": block["data"][:8]})
    with pytest.raises(ConfigError, match="rebuild"):
        make_shard(Config()).restore(stored, shard.now_ms, shard.hosts.state.now_ms)


def test_a_figure_keeps_three_digits_whatever_its_size() -> None:
    values = np.array([1e-9, 4.2e-6, 0.8335, 1.0, 65_535.0, 2.56e11, -3.3, 1e30])
    found = decoded_values(coded(values))
    np.testing.assert_allclose(found[:-1], values[:-1], rtol=0.002)
    assert found[-1] > 1e19, "what is too large stays the largest"
    assert np.isnan(decoded_values(coded(np.array([np.nan])))).all()
