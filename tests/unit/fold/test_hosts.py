"""Hosts in the fold: minutes wait for a tick, are windows and forecasts after it, and repeats change nothing."""

from typing import Any

import msgspec
import numpy as np
import pytest

from agent.app.compose import make_shard
from agent.config.tree import Config
from processors.contracts.errors import ConfigError
from processors.contracts.events import (
    HostMinute,
    HostState,
    JournalEvent,
    JournalRecord,
    ResourceMinute,
    Tick,
)
from processors.contracts.hosts import HostWindow
from processors.hosts.windows import HostForecasts
from processors.models.forecast import Forecasters
from processors.pipeline import hosts as host_shard
from processors.pipeline.host_state import COLUMNS
from processors.pipeline.hosts import HostShard
from processors.pipeline.shard import Shard
from tests.kit.agent_topics import host_states
from tests.kit.host_minutes import MINUTE_MS, SYSTEM, means, minute, resource_minute
from tests.kit.scenario import Scenario


def folded(*events: JournalEvent, shard: Shard | None = None, **hosts: float) -> Shard:
    shard = shard or make_shard(Config(hosts=hosts))
    for event in events:
        assert shard.fold(JournalRecord(event)) == []
    return shard


def tick(number: float) -> Tick:
    return Tick("", time_ms=round(number * MINUTE_MS))


def again(shard: Shard, **hosts: float) -> Shard:
    """Return a shard that knows what a checkpoint of this one holds."""
    stored = {key: value for key, value in host_states(shard).items() if value is not None}
    twin = make_shard(Config(hosts=hosts))
    twin.restore(stored, shard.now_ms, shard.hosts.state.now_ms)
    return twin


def window(shard: Shard, host: str, until: float, resource: str = "cpu") -> HostWindow | None:
    return shard.state.windows.window(SYSTEM, host, resource, until_ms=round(until * MINUTE_MS))


def forecast(shard: Shard, host: str, resource: str = "cpu") -> Any:
    view = shard.views(SYSTEM).host(host)
    assert view is not None
    return {each.resource: each.forecast for each in view.resources}[resource]


def test_ticks_within_a_second_change_nothing_of_hosts() -> None:
    seldom, often = make_shard(Config()), make_shard(Config())
    for event in day():
        if isinstance(event, Tick):
            for part_ms in range(0, 1_000, 200):
                folded(Tick("", event.time_ms + part_ms), shard=often)
        else:
            folded(event, shard=often)
        folded(event, shard=seldom)
    assert host_states(often) == host_states(seldom)
    assert often.hosts.state.now_ms == seldom.hosts.state.now_ms


def day(hosts: int = 5, count: int = 12) -> list[JournalEvent]:
    """Return some minutes of hosts that come and go, told by two sources, with ticks between."""
    events: list[JournalEvent] = []
    for number in range(count):
        events += [minute(str(host), number, cpu=means(number, host)) for host in range(hosts) if (number + host) % 4]
        events += [minute(f"gone{number}", number, source="load/1", cpu=means(number), memory=means(number, 1))]
        events += [HostState(SYSTEM, "1", "drain" if number % 2 else "up", number * MINUTE_MS), tick(number + 1.2)]
    return events


def test_a_minute_is_a_window_and_a_forecast_after_the_next_tick() -> None:
    shard = folded(tick(10), minute("nid1", 10, cpu=(0.5, 0.75)))
    assert window(shard, "nid1", until=11) is None
    folded(tick(11.2), shard=shard)
    reported = window(shard, "nid1", until=11)
    assert reported is not None
    assert (reported.until_ms, reported.edges[0], reported.edges[-1], reported.count) == (11 * MINUTE_MS, 0.5, 0.75, 10)
    assert (reported.low, reported.high, reported.mean, reported.stale, reported.thin) == (
        0.5,
        0.75,
        0.625,
        False,
        False,
    )
    assert 0.5 <= forecast(shard, "nid1").value <= 0.75


def test_a_host_is_shown_what_the_forecasters_state_of_its_10_second_means() -> None:
    shard, plain = make_shard(Config()), Forecasters(1)
    for number in range(20):
        folded(minute("a", number, cpu=means(number)), tick(number + 1), shard=shard)
        for value in known(list(means(number))):
            plain.observe(np.arange(1), np.array([value], dtype=np.float64))
    reported, expected = forecast(shard, "a"), plain.forecast(np.arange(1))[0]
    assert reported.value == pytest.approx(float(expected.value[0]), rel=1e-5)
    assert reported.error == pytest.approx(float(expected.error[0]), rel=1e-5)


def test_a_window_of_some_time_ago_is_reported_as_it_was() -> None:
    shard = folded(*(event for n in range(3) for event in (minute("a", n, cpu=(n / 10,)), tick(n + 1.2))))
    assert [reported.mean for until in (1, 1.9, 2, 3, 9) if (reported := window(shard, "a", until))] == [
        0,
        0,
        0.1,
        0.2,
        0.2,
    ]
    assert window(shard, "a", 0.9) is None


def test_a_window_that_was_read_before_is_that_of_the_newest_report() -> None:
    shard = folded(tick(10), minute("a", 10, cpu=(0.5,)), minute("b", 10, cpu=(0.4,)), tick(11.2))
    before = window(shard, "a", 11), window(shard, "b", 11)
    folded(msgspec.structs.replace(minute("a", 10, cpu=(0.9,)), revision=1), tick(11.5), shard=shard)
    after = window(shard, "a", 11), window(shard, "b", 11)
    assert after == (window(again(shard), "a", 11), before[1])
    assert after[0] != before[0]


@pytest.mark.parametrize("until", [3.0, 3.0001, 3.5, 3.9999, 4.0, 4.4])
def test_what_is_known_of_a_window_is_the_same_at_the_moment_that_stands_for_another(until: float) -> None:
    shard = folded(
        *(event for number in range(3) for event in (minute("nid1", number, cpu=(0.5,)), tick(number + 1.2)))
    )
    windows, until_ms = shard.state.windows, round(until * MINUTE_MS)
    at, stands_for = (windows.window(SYSTEM, "nid1", "cpu", each) for each in (until_ms, windows.moment(until_ms)))
    assert at == stands_for
    assert at is not None


def test_a_minute_changes_what_is_known_of_windows_when_it_is_taken_in() -> None:
    shard = folded(tick(1.0))
    before = shard.state.windows.changes()
    folded(minute("nid1", 0, cpu=(0.5,)), shard=shard)
    assert (shard.state.windows.changes(), window(shard, "nid1", 1.0)) == (before, None)
    folded(tick(1.2), shard=shard)
    assert shard.state.windows.changes() != before
    assert window(shard, "nid1", 1.0) is not None


def test_a_window_is_stale_when_nothing_came_for_a_minute_more() -> None:
    shard = folded(minute("a", 0, cpu=(0.5,)), tick(1.2))
    stale = [reported.stale for until in (1, 2.9, 3, 30) if (reported := window(shard, "a", until))]
    assert stale == [False, False, True, True]


def test_what_two_sources_report_a_resource_is_one_window_and_one_minute() -> None:
    shard = folded(
        minute("a", 0, source="load/0", cpu=(0.0, 0.2)), minute("a", 0, source="load/1", cpu=(0.4, 0.6)), tick(1.2)
    )
    reported = window(shard, "a", 1)
    assert reported is not None
    assert (reported.edges[0], reported.edges[-1], reported.count, reported.low, reported.high) == (
        0.0,
        0.6,
        20,
        0.0,
        0.6,
    )
    assert reported.mean == pytest.approx(0.3)
    assert sum(reported.shares) == pytest.approx(1.0)
    one = folded(minute("a", 0, cpu=(0.2, 0.4)), tick(1.2))
    assert forecast(shard, "a").value == pytest.approx(forecast(one, "a").value)


def test_a_minute_that_comes_again_or_late_changes_nothing() -> None:
    reported, later = minute("a", 5, cpu=means(5)), tick(6.2)
    shard = folded(reported, later)
    before = host_states(shard)
    folded(minute("a", 5, cpu=means(5)), tick(6.3), shard=shard)
    folded(minute("a", 4, cpu=means(4)), tick(6.4), shard=shard)
    assert host_states(shard) == before
    assert host_states(folded(reported, reported, reported, later)) == before


def test_a_minute_that_is_reported_anew_with_a_late_sample_changes_its_window_but_is_not_learned_twice() -> None:
    shard = folded(minute("a", 5, cpu=(0.2, 0.4)), tick(6.2))
    before = forecast(shard, "a")
    folded(minute("a", 5, cpu=(0.2, 0.4, 0.9)), tick(6.3), shard=shard)
    reported = window(shard, "a", 6)
    assert reported is not None
    assert (reported.high, reported.count) == (0.9, 15)
    assert forecast(shard, "a") == before


def retold(event: HostMinute) -> HostMinute:
    return msgspec.structs.replace(event, revision=1)


@pytest.mark.parametrize("between", [[], [tick(6.15)]])
def test_the_first_report_of_a_minute_does_not_undo_the_second_when_it_comes_late(between: list[Tick]) -> None:
    first, second = minute("a", 5, cpu=(0.2, 0.4)), retold(minute("a", 5, cpu=(0.2, 0.4, 0.9)))
    shard = folded(second, *between, first, tick(6.2))
    reported = window(shard, "a", 6)
    assert reported is not None
    assert (reported.high, reported.count) == (0.9, 15)
    assert host_states(shard) == host_states(folded(second, *between, tick(6.2)))


def test_absent_means_and_minutes_leave_a_forecast_as_it_is() -> None:
    gaps = folded(
        minute("a", 0, cpu=(0.1, None, 0.2, None)), tick(1), minute("a", 9, cpu=(None, 0.3)), tick(10),
        minute("a", 12, cpu=(None, None)), tick(13),
    )  # fmt: skip
    assert forecast(gaps, "a") == forecast(folded(minute("a", 0, cpu=(0.1, 0.2, 0.3)), tick(1)), "a")


def test_minutes_that_wait_together_are_learned_one_after_the_other() -> None:
    events = [minute("a", number, cpu=means(number)) for number in range(6)]
    at_once = folded(*reversed(events), tick(7.2))
    by_and_by = folded(*(each for n, event in enumerate(events) for each in (event, tick(n + 1.2))), tick(7.2))
    assert forecast(at_once, "a") == forecast(by_and_by, "a")


def test_more_minutes_than_may_wait_are_learned_before_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_shard, "WAITING_MAX", 3)
    shard = folded(*(minute(str(host), 0, cpu=(0.5,)) for host in range(7)))
    assert (len(shard.hosts.state.index.series.ids), shard.hosts.waiting, shard.hosts.waiting) == (6, 1, True)
    folded(tick(1), shard=shard)
    assert (len(shard.hosts.state.index.series.ids), shard.hosts.waiting) == (7, False)


def test_a_quiet_host_is_forgotten_and_its_place_taken_by_another_one() -> None:
    shard = folded(minute("a", 0, cpu=means(0)), tick(1), tick(59), series_max=1)
    assert shard.views(SYSTEM).host("a") is not None
    folded(tick(61), shard=shard)
    assert shard.views(SYSTEM).host("a") is None
    folded(minute("b", 70, cpu=(0.5,)), tick(71), shard=shard)
    assert forecast(shard, "b") == forecast(folded(minute("b", 70, cpu=(0.5,)), tick(71)), "b"), "nothing of a is left"
    assert (shard.sizes()["host_rows"], shard.sizes()["host_windows"]) == (1, 1)


def test_a_host_that_goes_on_is_not_forgotten_but_a_resource_that_stopped_is() -> None:
    events = [event for n in range(0, 100, 10) for event in (minute("a", n, cpu=means(n)), tick(n + 1))]
    shard = folded(minute("a", 0, disk=(0.5,)), *events)
    view = shard.views(SYSTEM).host("a")
    assert view is not None
    assert [each.resource for each in view.resources] == ["cpu"]


def test_series_beyond_the_bound_are_left_out_and_counted() -> None:
    shard = folded(*(minute(str(host), 0, cpu=means(0)) for host in range(5)), tick(1), series_max=2)
    assert shard.sizes()["host_series"] == 2
    assert shard.tallied()["bound", "series_max"] == 3


def test_history_is_left_out() -> None:
    shard = folded(tick(1000), minute("a", 10, cpu=means(0)), tick(1001))
    assert shard.sizes()["host_rows"] == 0


def tails(shard: Shard, resource: str) -> list[float | None]:
    found = forecast(shard, "a", resource)
    return [found.q05, found.q25, found.q50, found.q75, found.q95]


def known(values: list[float | None]) -> list[float]:
    found = [each for each in values if each is not None]
    assert len(found) == len(values)
    return found


def test_a_forecast_has_tails_within_the_bounds_of_its_resource_once_twenty_errors_are_known() -> None:
    random, shard = np.random.default_rng(4), make_shard(Config())
    for number in range(20):
        left = np.clip(0.98 + random.normal(0, 0.05, 6), 0, 1)
        measured = {"cpu_available": tuple(left), "network": tuple(random.exponential(1.0, 6)), "chill": tuple(-left)}
        folded(minute("a", number, "load/0", **measured), tick(number + 1.2), shard=shard)
        if number == 2:
            assert tails(shard, "cpu_available") == [None] * 5
    share, network, chill = (known(tails(shard, name)) for name in ("cpu_available", "network", "chill"))
    for found in (share, network, chill):
        assert found == sorted(found)
    assert share[4] == 1.0 >= forecast(shard, "a", "cpu_available").value
    assert 0 <= network[0] < network[2] < network[4]
    assert chill[4] < 0, "what was negative may be so"
    assert tails(again(shard), "network") == network, "a checkpoint holds them"


def test_a_checkpoint_from_before_there_were_tails_keeps_its_forecasts() -> None:
    shard = make_shard(Config())
    for number in range(20):
        folded(minute("a", number, cpu=means(number)), tick(number + 1.2), shard=shard)
    stored = {k: v for k, v in host_states(shard).items() if v is not None and not k.startswith("host_forecast_errors")}
    twin = make_shard(Config())
    twin.restore(stored, shard.now_ms, shard.hosts.state.now_ms)
    assert forecast(twin, "a").value == forecast(shard, "a").value
    assert tails(twin, "cpu") == [None] * 5
    for number in range(20, 24):
        folded(minute("a", number, cpu=means(number)), tick(number + 1.2), shard=twin)
    assert None not in tails(twin, "cpu")


@pytest.mark.parametrize("cut", range(0, 48, 3))
def test_a_stored_state_goes_on_as_if_nothing_had_been(cut: int) -> None:
    events, hosts = day(), {"quiet_s": 300.0, "series_max": 9}
    whole, part = folded(*events, shard=None, **hosts), folded(*events[:cut], shard=None, **hosts)
    waiting = part.hosts.waiting
    twin = again(part, **hosts)
    assert host_states(again(part, **hosts)) == host_states(again(twin, **hosts))
    folded(*events[cut - waiting : cut], *events[cut:], shard=twin, **hosts)
    assert host_states(twin) == {key: value for key, value in host_states(whole).items() if value is not None}


def test_a_block_that_is_empty_again_is_removed_from_the_checkpoints() -> None:
    shard = folded(minute("a", 0, "load/0", cpu=means(0), **{"power_w>system": means(0)}), tick(1), tick(5))
    host_states(shard)
    shard.confirm(with_hosts=True)
    folded(tick(90), tick(91), shard=shard)  # what profiles keep is forgotten as of the tick before
    gone = host_states(shard)
    assert set(gone.values()) == {None}
    others = {"profile_names/0", "profile_minutes/0.0", "host_minute_lines/0.0"}
    assert gone.keys() - others == {f"{kind.name}/0" for kind in COLUMNS}
    shard.confirm(with_hosts=True)
    assert host_states(shard) == {}


def test_states_of_hosts_that_are_not_put_back_are_removed() -> None:
    stored = {key: value for key, value in host_states(folded(*day())).items() if value is not None}
    shard = make_shard(Config())
    shard.restore(stored, now_ms=1)
    assert host_states(shard) == dict.fromkeys(stored)
    assert shard.sizes()["host_rows"] == 0


@pytest.mark.parametrize(
    ("change", "prediction"),
    [
        ({"host_windows/0": b"{"}, "host_windows/0 is damaged"),
        ({"host_forecasts/0": msgspec.json.encode({"version": 1, "data": b"1234"})}, "are damaged"),
        ({"host_windows/0": msgspec.json.encode({"version": 99, "data": b""})}, "was written by a newer agent"),
        ({"host_rows/0": msgspec.json.encode({"version": 1, "data": b"", "names": []})}, "are damaged"),
        ({"host_rows/999": msgspec.json.encode({"version": 1, "data": b"", "names": [(2, "e", "h")]})}, "are damaged"),
        ({"host_series/0": msgspec.json.encode({"version": 1, "data": b"", "names": [(0, "e", "h")]})}, "are damaged"),
    ],
)
def test_a_damaged_state_of_hosts_is_refused(change: dict[str, bytes], prediction: str) -> None:
    stored = {key: value for key, value in host_states(folded(*day())).items() if value is not None}
    with pytest.raises(ConfigError, match=f"{prediction}.*`scalewatch rebuild`"):
        make_shard(Config()).restore(stored | change, 1, 1)


def test_columns_of_an_older_version_begin_anew_and_the_others_go_on() -> None:
    shard = folded(*day())
    stored = {key: value for key, value in host_states(shard).items() if value is not None}
    older = {k: v.replace(b'"version":1', b'"version":0') for k, v in stored.items() if k.startswith("host_forecasts")}
    twin = make_shard(Config())
    twin.restore(stored | older, 1, shard.now_ms)
    assert window(twin, "1", 12) == window(shard, "1", 12) is not None
    assert (forecast(twin, "1"), forecast(shard, "1") is None) == (None, False)


def test_a_part_that_raises_costs_what_it_learns_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostForecasts, "take", lambda *_: 1 / 0)
    shard = folded(minute("a", 0, cpu=(0.5,)), tick(1))
    assert shard.tallied()["fault", "host_forecasts"] == 1
    assert window(shard, "a", 1) is not None


def test_hosts_that_raise_do_not_stop_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostShard, "take", lambda *_: 1 / 0)
    centre = Scenario()
    centre.at("08:00").scales("lammps", 1, 2, 4)
    centre.at("08:10")
    assert list(centre.topic("predictions")) == ["exa/lammps//nodes"]
    assert centre.tally["fault:host_rows"] > 3


@pytest.mark.parametrize(
    "reported",
    [
        ResourceMinute(1, 1e300, -1e300, 1e300, (1e300,), (-1e300, 1e300), (1.0,), 1),
        ResourceMinute(-5, 0.5, 0.5, 0.5, (0.5,) * 9, (0.5,) * 6, (0.2,) * 5, -7),
        ResourceMinute(2**60, 0.5, 0.5, 0.5, (), (1.0, 0.0, 2.0, 3.0, 4.0, 5.0), (0.2,) * 5, 2**60),
        ResourceMinute(5, 0.5, 0.5, 0.5, (0.5,), (0.5,) * 40, (0.1,) * 39, 5),
        ResourceMinute(5, 0.5, 0.5, 0.5, (0.5,), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0), (-1.0, 2.0, 0.0, 0.0, 0.0), 5),
        ResourceMinute(0, 0.0, 0.0, 0.0),
    ],
)
def test_whatever_a_minute_holds_the_others_are_taken(reported: ResourceMinute) -> None:
    outlier = HostMinute(SYSTEM, "load/0", "b", 0, {"cpu": reported, "memory": resource_minute((0.5, 0.6))})
    shard = folded(minute("a", 0, cpu=(0.5, 0.6)), outlier, tick(1.2))
    assert window(shard, "a", 1) == window(shard, "b", 1, "memory") is not None
    assert ("fault", "host_rows") not in shard.tallied()
    found = window(shard, "b", 1)
    assert found is None or (sum(found.shares) == pytest.approx(1) and list(found.edges) == sorted(found.edges))
