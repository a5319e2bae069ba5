"""Hosts in the fold: minutes wait for a tick, are windows and forecasts after it, and repeats change nothing."""

from agent.app.compose import make_shard
from agent.config.tree import Config
from agent.contracts.events import JournalEvent, JournalRecord, Tick
from processors.fold.shard import Shard
from tests.kit.host_minutes import MINUTE_MS, SYSTEM, minute


def folded(*events: JournalEvent, shard: Shard | None = None, **hosts: float) -> Shard:
    shard = shard or make_shard(Config(hosts=hosts))
    for event in events:
        assert shard.fold(JournalRecord(event)) == []
    return shard


def tick(number: float) -> Tick:
    return Tick("", time_ms=round(number * MINUTE_MS))


def test_a_minute_is_a_window_and_a_forecast_after_the_next_tick() -> None:
    shard = folded(tick(10), minute("nid1", 10, cpu=(0.5, 0.75)))
    assert shard.desk.windows.window(SYSTEM, "nid1", "cpu", until_ms=11 * MINUTE_MS) is None
    folded(tick(11.2), shard=shard)
    window = shard.desk.windows.window(SYSTEM, "nid1", "cpu", until_ms=11 * MINUTE_MS)
    assert window is not None
    assert (window.until_ms, window.edges[0], window.edges[-1], window.count) == (11 * MINUTE_MS, 0.5, 0.75, 10)
    (outlook,) = shard.hosts.desk.forecasts.of([0])
    assert outlook is not None
    assert 0.5 <= outlook.value <= 0.75
