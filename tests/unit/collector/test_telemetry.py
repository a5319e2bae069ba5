"""Telemetry through the collector: samples of hosts become minutes in the journal, whatever else is in the topic."""

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from agent.app import compose
from agent.collector.collector import Collector
from agent.config.topics import own_topics
from agent.config.tree import Config, Source, System
from agent.log.memory import MemoryBroker, MemoryConsumer, MemoryLog
from processors.contracts.errors import RebalancingError, UnavailableError
from processors.contracts.events import DeadLetter, HostMinute, HostState, JobCompleted, JournalEvent, decode_record
from processors.contracts.log import Batch, TopicSettings
from processors.contracts.names import rfc3339
from sinks.prometheus.registry import Metrics
from tests.kit.clock import FakeClock
from tests.kit.job_records import completed
from tests.kit.logs import expel_member

START_MS = 1_795_168_800_000
TOPIC = "raw"


def load(second: float, value: float = 0.5, host: str = "nid1", **changes: object) -> bytes:
    time = rfc3339(START_MS + round(second * 1000))
    event = {"type": "load", "system": "exa", "host": host, "resource": "cpu_available", "time": time, "value": value}
    return json.dumps({**event, **changes}).encode()


def centre_config(source_format: str = "auto", **given: Any) -> Config:
    return Config(sources=(Source(topics=(TOPIC,), format=source_format, system="exa"),), **given)


@dataclass
class Centre:
    """A broker with one raw topic, and its collectors."""

    config: Config = field(default_factory=centre_config)
    routes: dict[str, Any] = field(default_factory=dict)
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    clock: FakeClock = field(default_factory=lambda: FakeClock(START_MS))

    def __post_init__(self) -> None:
        self.log = MemoryLog(self.broker)
        self.log.create([*own_topics(self.config), TopicSettings(TOPIC, 1, compacted=False)])
        self.metrics: Metrics = compose.metrics()

    def collector(self) -> Collector:
        routes = msgspec.structs.replace(compose.routes(self.config), **self.routes)
        return Collector(MemoryLog(self.broker), routes, self.metrics, "one", monotonic_s=self.clock.monotonic_s)

    def send(self, second: float, *values: bytes, key: bytes | None = None) -> None:
        for value in values:
            self.broker.append(TOPIC, value, key, 0, START_MS + round(second * 1000))

    def work(self, collector: Collector) -> None:
        while collector.step(START_MS, 0.0) or not collector.assigned() or collector.lag():
            pass

    def records(self, topic: str) -> list[bytes]:
        found: list[Batch] = []
        self.log.read(topic, 0, found.append)
        return [value for batch in found for value in batch.values if value]

    def journal(self) -> list[JournalEvent]:
        return [decode_record(value).event for value in self.records(self.config.topics.journal)]

    def minutes(self) -> list[HostMinute]:
        return [event for event in self.journal() if isinstance(event, HostMinute)]

    def dead_letters(self) -> list[tuple[str, int]]:
        dead_letters = (
            msgspec.json.decode(value, type=DeadLetter) for value in self.records(self.config.topics.deadletters)
        )
        return [(dead_letter.reason, dead_letter.offset) for dead_letter in dead_letters]

    def left_out(self, reason: str) -> float:
        return self.metrics.value("scalewatch_samples_left_out_total", reason=reason)


def test_samples_become_a_minute_of_their_host_once_it_has_ended() -> None:
    centre = Centre()
    for second in range(0, 60, 10):
        centre.send(second, load(second, value=second / 100))
    collector = centre.collector()
    centre.work(collector)
    assert centre.minutes() == []
    centre.send(71, load(71))
    centre.work(collector)
    (minute,) = centre.minutes()
    assert (minute.system, minute.host, minute.minute_ms, minute.source) == ("exa", "nid1", START_MS, "raw/0")
    assert minute.resources["cpu_available"].means == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@pytest.mark.parametrize("source_format", ["auto", "native"])
def test_jobs_samples_and_states_of_hosts_may_come_in_one_topic(source_format: str) -> None:
    centre = Centre(centre_config(source_format))
    state = {"type": "host.state", "system": "exa", "host": "nid1", "state": "drain", "time": rfc3339(START_MS)}
    job = completed(start=rfc3339(START_MS - 60_000), end=rfc3339(START_MS), run_time_s=60)
    centre.send(5, job, load(1), b"{", json.dumps(state).encode(), job)
    centre.send(75, load(71))
    centre.work(centre.collector())
    kinds = [type(event) for event in centre.journal() if not event.identity.startswith("tick")]
    assert kinds == [JobCompleted, HostState, JobCompleted, HostMinute]
    assert centre.dead_letters() == [("not-json", 2)]


def test_samples_of_a_system_that_is_not_listed_are_one_dead_letter_and_take_no_room() -> None:
    centre = Centre(centre_config(systems={"exa": System()}))
    centre.send(1, *(load(1, host=f"n{i}", system="other") for i in range(5)), load(1))
    centre.send(71, load(71))
    collector = centre.collector()
    centre.work(collector)
    assert centre.dead_letters() == [("unknown-system", 0)]
    assert [minute.host for minute in centre.minutes()] == ["nid1"]
    assert centre.left_out("unknown_system") == 5


def test_what_is_left_out_of_windows_is_counted_by_its_reason() -> None:
    centre = Centre(centre_config(collector={"series_max": 2}))
    centre.send(500, load(500), load(0), load(900), load(500), load(499, host="nid2"), load(499, host="nid3"))
    centre.send(500, b"system,host=nid1 uptime=3 1795169200")
    centre.work(centre.collector())
    reported = {name: centre.left_out(name) for name in ("late", "ahead", "repeated", "series_max", "unwanted")}
    assert reported == {"late": 1, "ahead": 1, "repeated": 1, "series_max": 1, "unwanted": 1}
    assert centre.metrics.value("scalewatch_bounds_hit_total", bound="collector_series_max") == 1


def test_a_new_collector_reads_again_what_open_windows_need_and_reports_the_same() -> None:
    undisturbed, centre = Centre(), Centre(routes={"commit_s": 0.0})
    for at in (undisturbed, centre):
        for second in range(900):
            at.send(second, load(second, value=(second % 97) / 100))
    undisturbed.work(undisturbed.collector())
    for _ in range(4):
        collector = centre.collector()
        for _ in range(3):
            collector.step(START_MS, 0.0)
        collector.close()
    centre.work(centre.collector())
    assert {one.identity: one for one in centre.minutes()} == {one.identity: one for one in undisturbed.minutes()}
    assert len(centre.minutes()) > len(undisturbed.minutes())


def test_what_open_windows_keep_is_no_lag() -> None:
    centre = Centre(routes={"commit_s": 0.0})
    centre.send(1, load(1))
    collector = centre.collector()
    centre.work(collector)
    committed = centre.broker.group(centre.config.collector_group).committed[TOPIC, 0]
    assert (committed.offset, collector.lag()) == (0, 0)
    assert committed.metadata.startswith("windows:1:")


def test_a_partition_that_stops_speaking_gives_its_offset_free_and_loses_no_minute() -> None:
    centre = Centre(routes={"commit_s": 0.0})
    centre.send(1, load(1))
    centre.send(70, load(70))
    collector = centre.collector()
    centre.work(collector)
    committed = centre.broker.group(centre.config.collector_group).committed
    centre.clock.advance(899)
    collector.step(START_MS, 0.0)
    assert (committed[TOPIC, 0].offset, len(centre.minutes())) == (0, 1)
    centre.clock.advance(1)
    for _ in range(3):
        collector.step(START_MS, 0.0)
    assert committed[TOPIC, 0].offset == 2
    assert [one.minute_ms - START_MS for one in centre.minutes()] == [0, 60_000]
    centre.send(200, load(125), load(200))  # it goes on where it was, late and all at once
    centre.work(collector)
    centre.clock.advance(900)
    for _ in range(3):
        collector.step(START_MS, 0.0)
    assert [one.minute_ms - START_MS for one in centre.minutes()] == [0, 60_000, 120_000, 180_000]
    assert {one.revision for one in centre.minutes()} == {0}


def test_a_partition_that_is_only_out_of_reach_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    centre = Centre(routes={"commit_s": 0.0})
    centre.send(1, load(1))
    collector = centre.collector()
    centre.work(collector)

    def away(*_: object) -> int:
        raise UnavailableError("No broker.")

    monkeypatch.setattr(MemoryConsumer, "end", away)
    centre.clock.advance(3600)
    for _ in range(3):
        collector.step(START_MS, 0.0)
    assert centre.minutes() == []


def test_a_commit_that_meets_a_rebalance_is_made_later_and_ends_nothing() -> None:
    centre = Centre(routes={"commit_s": 0.0})
    centre.send(1, completed())
    collector = centre.collector()
    collector.step(START_MS, 0.0)
    expel_member(centre.broker, centre.config.collector_group, "one")
    collector.commit()
    centre.work(collector)
    assert centre.broker.group(centre.config.collector_group).committed[TOPIC, 0].offset == 1


def test_a_rebalance_of_many_minutes_ends_nothing_but_commits_that_are_refused_for_good_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    centre = Centre(routes={"commit_s": 0.0})
    centre.send(1, completed())
    collector = centre.collector()
    commit = MemoryConsumer.commit

    def refused(*_: object) -> None:
        raise RebalancingError("The group is rebalancing.")

    def wait(minutes: int) -> None:
        for _ in range(minutes * 60):
            centre.clock.advance(1.0)
            collector.step(START_MS, 0.0)

    monkeypatch.setattr(MemoryConsumer, "commit", refused)
    wait(10)
    monkeypatch.setattr(MemoryConsumer, "commit", commit)
    wait(1)
    assert centre.broker.group(centre.config.collector_group).committed[TOPIC, 0].offset == 1
    monkeypatch.setattr(MemoryConsumer, "commit", refused)
    centre.send(2, completed())
    wait(10)  # counted anew
    with pytest.raises(RebalancingError):
        wait(10)


def test_minutes_are_reported_in_parts_between_which_other_partitions_are_read() -> None:
    centre = Centre()
    centre.log.create([TopicSettings("jobs", 1, compacted=False)])
    centre.config = Config(sources=(Source(topics=(TOPIC, "jobs")),))
    hosts = 2 * compose.PART_HOSTS + 1
    centre.send(1, *(load(1, host=f"nid{i}") for i in range(hosts)))
    collector = centre.collector()
    centre.work(collector)
    centre.send(71, load(71))
    reported = []
    for _ in range(4):
        job = completed(start=rfc3339(START_MS - 60_000), end=rfc3339(START_MS), run_time_s=60)
        centre.broker.append("jobs", job, None, 0, START_MS)
        collector.step(START_MS, 0.0)
        reported.append((len(centre.minutes()), sum(isinstance(event, JobCompleted) for event in centre.journal())))
    assert reported == [(compose.PART_HOSTS, 1), (2 * compose.PART_HOSTS, 2), (hosts, 3), (hosts, 4)]
    assert collector.lag() == 0


def test_names_that_come_and_go_are_forgotten() -> None:
    centre = Centre(centre_config(collector={"series_max": 200}))
    collector = centre.collector()
    for minute in range(60):
        centre.send(minute * 60, *(load(minute * 60 + i, host=f"pod-{minute}-{i}") for i in range(9)))
        centre.work(collector)
    assert centre.left_out("series_max") == 0
    assert len({minute.host for minute in centre.minutes()}) > 500
