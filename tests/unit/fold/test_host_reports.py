"""What subscribers hear of hosts: each once in a period, no two bursts, and a tombstone when one is forgotten."""

import msgspec
import pytest

from agent.app.compose import make_shard
from agent.config.load import loads
from agent.config.topics import own_topics, rights
from agent.config.tree import Config
from processors.contracts.events import JournalEvent, JournalRecord, Tick
from processors.contracts.outputs import HostReport, Message, Tombstone
from processors.pipeline.hosts import slots
from processors.pipeline.shard import Shard
from sinks.topics import decoded, emission
from tests.kit.agent_topics import host_states
from tests.kit.host_minutes import MINUTE_MS, SYSTEM, means, minute
from tests.kit.messages import host_report

PERIOD_S = 300
HOSTS = [f"nid{number}" for number in range(40)]


def shard(**hosts: float) -> Shard:
    return make_shard(Config.model_validate({"hosts": {"quiet_s": 600.0, **hosts}}))


def measured(until: int, first: int = 0, hosts: list[str] = HOSTS) -> list[JournalEvent]:
    """Return minutes of hosts with a tick each second."""
    events: list[JournalEvent] = []
    for number in range(first, until):
        events += [minute(host, number, cpu=means(number, at)) for at, host in enumerate(hosts)]
        events += [Tick("", (number + 1) * MINUTE_MS + 1_000 * second) for second in range(60)]
    return events


def sent(of: Shard, events: list[JournalEvent]) -> list[Message | Tombstone]:
    found: list[Message | Tombstone] = []
    for event in events:
        found += of.fold(JournalRecord(event))
        found += of.hosts.sent()
    return [each for each in found if isinstance(each, HostReport | Tombstone)]


def test_nothing_is_published_of_hosts_unless_it_is_asked_for() -> None:
    assert sent(shard(), measured(8)) == []
    plain, asking = Config(), loads("hosts: {publish_s: 300}\ntopics: {prefix: hpc}", sources_required=False)
    assert "scalewatch.hosts" not in {topic.name for topic in own_topics(plain)}
    assert {topic.name: topic.compacted for topic in own_topics(asking)}["hpc.hosts"]
    assert [right.operations for right in rights(asking) if right.name == "hpc.hosts"] == [
        ("Write", "Describe", "DescribeConfigs")
    ]


def test_each_host_is_published_once_in_a_period_and_not_all_at_once() -> None:
    of = shard(publish_s=PERIOD_S)
    sent(of, measured(3))
    found = [each for each in sent(of, measured(13, 3)) if isinstance(each, HostReport)]
    assert sorted(each.host for each in found) == sorted(2 * HOSTS)
    assert len({each.time for each in found}) > len(HOSTS) // 2
    assert len({each.id for each in found}) == len(found)


def test_a_report_has_histograms_and_forecasts_and_can_be_read_back() -> None:
    of = shard(publish_s=PERIOD_S)
    report = next(each for each in reversed(sent(of, measured(40, hosts=["nid1"]))) if isinstance(each, HostReport))
    (cpu,) = report.resources
    assert (report.system, report.host, cpu.resource) == (SYSTEM, "nid1", "cpu")
    assert len(cpu.window.edges) == len(cpu.window.shares) + 1
    assert sum(cpu.window.shares) == pytest.approx(1.0)
    assert cpu.forecast is not None
    record = emission(report)
    assert (record.kind, record.key) == ("hosts", f"{SYSTEM}/nid1")
    assert msgspec.json.decode(record.value or b"", type=HostReport) == report
    assert decoded(emission(host_report()).value or b"", HostReport) == host_report()


def test_a_host_that_is_forgotten_leaves_the_topic() -> None:
    of = shard(publish_s=PERIOD_S)
    sent(of, measured(3, hosts=["nid1", "nid2"]))
    found = sent(of, measured(20, 3, hosts=["nid2"]))
    assert [each for each in found if isinstance(each, Tombstone)] == [Tombstone("hosts", f"{SYSTEM}/nid1")]


def test_after_a_restart_the_same_is_published_as_without_one() -> None:
    of = shard(publish_s=PERIOD_S)
    sent(of, measured(6))
    twin = shard(publish_s=PERIOD_S)
    twin.restore(
        {key: value for key, value in host_states(of).items() if value is not None}, of.now_ms, of.hosts.state.now_ms
    )
    rest = measured(14, 6)
    assert msgspec.json.encode(sent(twin, rest)) == msgspec.json.encode(sent(of, rest))


def test_after_a_pause_each_second_of_the_period_comes_once() -> None:
    assert slots(0, 10_000_000, PERIOD_S) == frozenset(range(PERIOD_S))
    assert sum(17 in slots(ms, ms + 7_000, PERIOD_S) for ms in range(0, 2_100_000, 7_000)) == 7
