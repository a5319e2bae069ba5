"""A share of processors that is estimated from the load counts where none is measured, and never beside one that is."""

import pytest

from agent.app.compose import make_shard
from agent.config.tree import Config
from processors.contracts.events import HostMinute, JournalEvent, JournalRecord, ResourceMinute, Tick
from processors.contracts.telemetry import BY_LOAD, CPU_AVAILABLE
from processors.pipeline.hosts import HostShard
from tests.kit.profiled_hosts import folded

START_MS = 1_795_168_800_000
MINUTE_MS = 60_000


def minute(number: int, source: str, **shares: float) -> HostMinute:
    """Return what a source reports of a minute: `measured`, or `by_load`."""
    names = {"measured": CPU_AVAILABLE, "by_load": BY_LOAD}
    resources = {
        names[name]: ResourceMinute(6, share, share, share, (share,) * 6, (share,), (1.0,), 30)
        for name, share in shares.items()
    }
    return HostMinute("exa", source, "nid1", START_MS + number * MINUTE_MS, resources)


def tick(number: int) -> Tick:
    return Tick("", time_ms=START_MS + (number + 1) * MINUTE_MS + 20_000)


def mean_of(hosts: HostShard, number: int) -> float | None:
    """Return the mean of the window of CPU_AVAILABLE at the end of a minute; None where there is none."""
    found = hosts.window("exa", "nid1", CPU_AVAILABLE, START_MS + (number + 1) * MINUTE_MS)
    return None if found is None else found.mean


def test_an_estimate_counts_where_nothing_is_measured() -> None:
    hosts = folded(*(each for n in range(3) for each in (minute(n, "loadavg/0", by_load=0.25), tick(n))))
    assert mean_of(hosts, 2) == 0.25
    assert hosts.window("exa", "nid1", BY_LOAD, START_MS + 3 * MINUTE_MS) is None


@pytest.mark.parametrize("first", ["measured", "by_load"])
def test_what_is_measured_counts_alone_whichever_comes_first(first: str) -> None:
    events: list[JournalEvent] = []
    for n in range(8):
        both = [minute(n, "procstat2/0", measured=0.75), minute(n, "loadavg/0", by_load=0.25)]
        events += [*(both if first == "measured" else reversed(both)), tick(n)]
    hosts = folded(*events)
    assert [mean_of(hosts, n) for n in range(4, 8)] == [0.75] * 4
    view = hosts.views.host("exa", "nid1")
    assert view is not None
    assert [each.resource for each in view.resources] == [CPU_AVAILABLE]


def test_of_one_record_that_has_both_the_measured_one_counts() -> None:
    hosts = folded(minute(0, "all/0", by_load=0.25, measured=0.75), tick(0))
    assert mean_of(hosts, 0) == 0.75


def test_where_nothing_was_measured_for_long_an_estimate_counts_again() -> None:
    events: list[JournalEvent] = [minute(0, "procstat2/0", measured=0.75), tick(0)]
    events += [each for n in range(1, 16) for each in (minute(n, "loadavg/0", by_load=0.25), tick(n))]
    hosts = folded(*events)
    assert mean_of(hosts, 15) == 0.25
    soon = folded(*events[: 2 * 5])
    assert mean_of(soon, 4) == 0.75


def test_a_restored_shard_goes_on_by_what_was_measured_before() -> None:
    shard, twin = make_shard(Config()), make_shard(Config())
    for n in range(3):
        shard.fold(JournalRecord(minute(n, "procstat2/0", measured=0.75)))
        shard.fold(JournalRecord(tick(n)))
    states = {key: value for key, value in shard.unsaved(with_hosts=True).states().items() if value is not None}
    twin.restore(states, shard.now_ms, shard.hosts.state.now_ms)
    for each in (shard, twin):
        each.fold(JournalRecord(minute(3, "loadavg/0", by_load=0.25)))
        each.fold(JournalRecord(tick(3)))
        assert mean_of(each.hosts, 3) == 0.75
