"""How far a collector lets time pass while its sources are behind or come late; all time is the test's."""

import json
from typing import Any

import msgspec
import pytest

from agent.app import compose
from agent.collector import reading
from agent.collector.collector import Collector
from agent.config.topics import own_topics
from agent.config.tree import Config, Source
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.events import Tick, decode_record
from processors.contracts.log import TopicSettings, Watermarks
from processors.contracts.names import rfc3339
from tests.kit.clock import FakeClock
from tests.kit.job_records import completed

NOW_MS = 1_795_168_800_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
CONFIG_OF_OLD = Config(sources=(Source(topics=("jobs", "old"), format="native"),))
CONFIG = Config(sources=(Source(topics=("power", "jobs"), format="native"),))


def sample(time_ms: int) -> bytes:
    """Return a sample of power."""
    head = {"type": "power", "system": "exa", "host": "nid1", "component": "system"}
    return json.dumps({**head, "power_w": 300.0, "time": rfc3339(time_ms)}).encode()


@pytest.fixture(autouse=True)
def _few_records_in_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.log.memory.POLL_RECORDS_MAX", 3)


class Site:
    """A topic of power with two partitions, one of jobs, and the collectors of both."""

    def __init__(self, **routes: Any) -> None:
        self.broker, self.clock, self.metrics = MemoryBroker(), FakeClock(NOW_MS), compose.metrics(CONFIG)
        self.log = MemoryLog(self.broker)
        self.log.create([*own_topics(CONFIG), TopicSettings("power", 2, compacted=False)])
        self.log.create([TopicSettings("jobs", 1, compacted=False)])
        self.ticks: list[Tick] = []
        self._read = self._now_ms = 0
        self._marks = Watermarks()
        self._routes = msgspec.structs.replace(compose.routes(CONFIG), **routes)

    def collector(self, name: str = "one") -> Collector:
        """Return a new collector."""
        return Collector(MemoryLog(self.broker), self._routes, self.metrics, name, monotonic_s=self.clock.monotonic_s)

    def power(self, *times_ms: int, partition: int = 0) -> None:
        """Write samples of these times."""
        for time_ms in times_ms:
            self.broker.append("power", sample(time_ms), None, partition, time_ms)

    def job(self, end_ms: int) -> None:
        """Write a run that ended."""
        run = completed(start=rfc3339(end_ms - MINUTE_MS), end=rfc3339(end_ms), run_time_s=60)
        self.broker.append("jobs", run, None, 0, end_ms)

    def step(self, *collectors: Collector, seconds: float = 1.0) -> int:
        """Let each collector take a step and time pass; return what is now for a learner, in seconds from NOW_MS."""
        for collector in collectors:
            collector.step(self.clock.now_ms(), 0.0)
        self.clock.advance(seconds)
        return self.now_s()

    def now_s(self) -> int:
        """Return the present time of a learner, in seconds from NOW_MS."""
        known = len(self.ticks)
        batch = self.broker.partition((CONFIG.topics.journal, 0)).read(self._read, 10_000)
        if batch is not None:
            self._read = batch.next_offset
            events = [decode_record(value or b"").event for value in batch.values]
            self.ticks += [event for event in events if isinstance(event, Tick)]
        for tick in self.ticks[known:]:
            self._marks = self._marks.after(tick)
            self._now_ms = max(self._now_ms, self._marks.now_ms)
        return round((self._now_ms - NOW_MS) / 1000)


def test_time_is_that_of_the_samples_while_a_backlog_is_read_and_the_clock_after_it() -> None:
    site = Site()
    times_ms = [NOW_MS - HOUR_MS + second * 1000 for second in range(0, 3600, 100)]
    site.power(*times_ms)
    collector = site.collector()
    seen = [site.step(collector) for _ in range(200)]
    assert seen[0] <= -3000
    assert len(set(seen)) > 20
    assert seen[-1] >= 0


def test_of_two_partitions_the_one_that_is_further_behind_counts() -> None:
    site = Site()
    site.power(NOW_MS - HOUR_MS, NOW_MS - HOUR_MS // 2)
    site.power(*(NOW_MS - 3 * HOUR_MS + 1000 * second for second in range(20)), partition=1)
    collector = site.collector()
    assert {site.step(collector) for _ in range(4)} <= {*range(-3 * 3600, -3 * 3600 + 20), -NOW_MS // 1000}


def test_runs_that_are_read_before_the_samples_of_their_hosts_do_not_move_time() -> None:
    site = Site()
    site.job(NOW_MS - 2 * MINUTE_MS)
    site.power(*(NOW_MS - HOUR_MS + second * 1000 for second in range(40)))
    collector = site.collector()
    assert [site.step(collector) for _ in range(4)][-1] < -3000


def test_a_collector_that_keeps_up_cannot_push_time_past_one_that_is_behind() -> None:
    site = Site()
    site.power(NOW_MS - HOUR_MS, partition=0)
    site.power(*(NOW_MS - HOUR_MS + 1000 * second for second in range(600)), partition=1)
    both = site.collector("first"), site.collector("second")
    for _ in range(100):
        site.step(*both)
    newest = {tick.collector: tick.until_ms for tick in site.ticks}
    assert len(newest) == 2
    assert None in newest.values(), "one of them has read all it has"
    assert site.now_s() < -3000
    for _ in range(250):
        site.step(*both)
    assert site.now_s() > 0


@pytest.mark.parametrize(("late_s", "held_s"), [(30, 0), (600, 600), (890, 890), (3600, 0)])
def test_samples_that_come_late_hold_time_back_unless_their_clock_is_wrong(late_s: int, held_s: int) -> None:
    site = Site()
    collector = site.collector()
    for _ in range(250):
        site.power(site.clock.now_ms() - late_s * 1000)
        seen = site.step(collector, seconds=4.0)
    assert seen == pytest.approx(996 - held_s, abs=2)


def test_a_source_that_falls_silent_is_waited_for_no_longer_than_the_time_out() -> None:
    site = Site()
    collector = site.collector()
    for _ in range(300):
        site.power(site.clock.now_ms() - 600_000)
        site.step(collector, seconds=4.0)
    assert site.now_s() == pytest.approx(600, abs=5)
    for _ in range(round(reading.IDLE_S) + 3):
        site.step(collector)
    assert site.now_s() == pytest.approx(1200 + reading.IDLE_S, abs=4)


def test_a_partition_that_brings_nothing_more_stops_time_no_longer_than_the_time_out() -> None:
    site = Site()
    site.power(*(NOW_MS - HOUR_MS + 1000 * second for second in range(10)))
    collector = site.collector()
    for _ in range(2):
        site.step(collector)
    collector._consumer.pause([("power", 0)])  # as if its broker were gone
    seen = [site.step(collector) for _ in range(round(reading.IDLE_S) + 3)]
    assert seen[40] < -3500
    assert seen[-1] > 80


def test_an_old_topic_that_is_added_stops_time_only_while_its_last_quarter_of_an_hour_is_read() -> None:
    site = Site(topics=("jobs", "old"), source=compose.routes(CONFIG_OF_OLD).source)
    collector = site.collector()
    for _ in range(5):
        site.step(collector)
    site.log.create([TopicSettings("old", 1, compacted=False)])
    for minute in range(5 * 60):
        site.broker.append("old", sample(NOW_MS - 5 * HOUR_MS + minute * MINUTE_MS), None, 0, NOW_MS)
    seen = [site.step(collector) for _ in range(400)]
    assert seen[80] > 70, "four hours of it are still to be read"
    assert 3 < max(map(seen.count, seen)) < 15 + reading.IDLE_S


def test_a_partition_that_goes_to_another_member_holds_time_until_that_one_reads_it() -> None:
    site = Site()
    site.power(*(NOW_MS - HOUR_MS + 1000 * second for second in range(500)), partition=0)
    first = site.collector("first")
    for _ in range(5):
        site.step(first)
    site.collector("second")
    seen = [site.step(first) for _ in range(5)]
    assert len(first.assigned()) < 3
    assert max(seen) < -3000


def test_a_process_that_was_stopped_for_long_waits_for_what_it_has_not_read() -> None:
    site = Site()
    collector = site.collector()
    for _ in range(20):
        site.power(site.clock.now_ms(), partition=0)
        site.power(site.clock.now_ms(), partition=1)
        site.step(collector)
    site.clock.advance(600.0)
    site.power(*(site.clock.now_ms() - 1000 * second for second in (2, 1, 0)), partition=0)
    site.power(*(NOW_MS + 20_000 + 1000 * second for second in range(600)), partition=1)
    assert max(site.step(collector) for _ in range(20)) < 100
    for _ in range(400):
        site.step(collector)
    assert site.now_s() > 900


def test_no_tick_is_written_before_a_collector_has_its_partitions() -> None:
    site = Site()
    first, standby = (site.collector(name) for name in "ab")
    for _ in range(3):
        site.step(first)
    assert {tick.collector for tick in site.ticks} == {"a"}
    assert standby.assigned() == ()


def test_a_collector_without_any_source_lets_time_pass_after_a_while() -> None:
    site = Site(topics=("missing",))
    collector = site.collector()
    for second in range(40):
        site.step(collector)
        assert bool(site.ticks) == (second >= reading.START_S)


def test_time_is_the_clock_alone_if_it_may_not_be_held_back() -> None:
    site = Site(hold_back_max_s=0.0)
    site.power(*(NOW_MS - HOUR_MS + 1000 * second for second in range(10)))
    assert site.step(site.collector()) == 0
    assert [tick.until_ms for tick in site.ticks] == [None]


def test_how_far_time_is_held_back_is_measured(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(commit_s=0.0)
    site.power(*(NOW_MS - HOUR_MS + 1000 * second for second in range(10)))
    collector = site.collector()
    caplog.set_level("INFO")
    for _ in range(2):
        site.step(collector)
    assert site.metrics.value("scalewatch_time_held_back_seconds") == pytest.approx(3600, abs=10)
    for _ in range(100):
        site.step(collector)
    assert site.metrics.value("scalewatch_time_held_back_seconds") == 0
    assert [record.getMessage() for record in caplog.records] == [
        "Time waits for power/0, which is 60 minutes behind.",
        "Time waits for no partition any more.",
    ]
