"""What is learned of hosts: checkpoints in a rhythm of their own, and a restart that reads again what came since."""

import logging
from collections.abc import Callable

import pytest

from agent.app import compose
from agent.config.roles import LearnerSettings
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.learner.learner import Learner
from agent.log.memory import MemoryConsumer, MemoryLog
from processors.contracts.events import HostMinute, JournalEvent, JournalRecord, Tick, encode_record
from processors.contracts.hosts import HostUse
from processors.contracts.log import Marker
from processors.pipeline.shard import Shard
from tests.kit.host_minutes import MINUTE_MS, SYSTEM, means, minute
from tests.kit.scenario import completed

CONFIG = Config(learner=LearnerSettings(checkpoint_interval_s=10.0, host_checkpoint_interval_s=100.0))


class Centre:
    """A journal in memory, and the learner that folds it now."""

    def __init__(self) -> None:
        self.log = MemoryLog(state_topic=CONFIG.topics.state)
        self.log.create(own_topics(CONFIG))
        self.producer = self.log.producer()
        self.events: list[JournalEvent] = []
        self.metrics = compose.metrics()
        self.close: Callable[[], None] = lambda: None
        self.learner = self.starts(0.0)

    def starts(self, now_s: float) -> Learner:
        """Let the learner end without saving anything, and a new one begin."""
        self.close()
        learner = Learner(
            self.log, compose.plan(CONFIG), self.metrics, "a", on_emission=lambda _: None, monotonic_s=lambda: 0.0
        )
        learner.step(now_s, 0.0)
        self.learner, self.close = learner, learner.close
        return learner

    def reports(self, *events: JournalEvent) -> None:
        for event in events:
            self.producer.send(CONFIG.topics.journal, encode_record(JournalRecord(event)), None, 0, 0)
        self.events += events
        self.producer.flush(1.0)

    def minutes(self, *numbers: int) -> None:
        """Tell minutes of some hosts, each with a run of a job and a tick after it."""
        for number in numbers:
            measured: list[HostMinute] = [minute(str(host), number, cpu=means(number, host)) for host in range(4)]
            run = completed(str(number), number * MINUTE_MS, 60.0 + number, application="lammps", nodes=4)
            self.reports(*measured, run, Tick("", time_ms=(number + 1) * MINUTE_MS + 10_000))

    def marker(self) -> Marker:
        marker = self.log.checkpoints(0).take_over().marker
        assert marker is not None
        return marker

    def undisturbed(self) -> Shard:
        shard = compose.make_shard(CONFIG)
        for event in self.events:
            shard.fold(JournalRecord(event))
        return shard


def all_of(shard: Shard) -> dict[str, bytes]:
    states = shard.unsaved(with_hosts=True).states()
    return {key: value for key, value in states.items() if value is not None}


def test_hosts_are_in_the_first_checkpoint_and_then_in_few() -> None:
    centre = Centre()
    shard, saved = centre.learner.shards()[0], []
    for step in range(1, 31):
        centre.minutes(step)
        centre.learner.step(10.0 * step, 0.0)
        saved.append(not shard.unsaved)
    assert [step for step, all_saved in enumerate(saved, 1) if all_saved] == [1, 11, 21]


def test_after_a_restart_hosts_read_again_what_the_jobs_know_already() -> None:
    centre = Centre()
    for step in range(1, 16):
        centre.minutes(step)
        centre.learner.step(10.0 * step, 0.0)
    marker = centre.marker()
    assert marker.hosts is not None
    assert marker.hosts.offset < marker.offset == len(centre.events)
    learner = centre.starts(200.0)
    shard = learner.shards()[0]
    assert shard.offset == marker.hosts.offset
    centre.minutes(16)
    while learner.step(201.0, 0.0):
        pass
    learner.checkpoint(202.0)
    assert centre.log.checkpoints(0).take_over().states == all_of(centre.undisturbed())
    after = centre.marker()
    assert after.hosts is not None
    assert (after.offset, after.hosts.offset) == (len(centre.events),) * 2


def test_a_checkpoint_while_hosts_catch_up_keeps_the_place_of_the_jobs() -> None:
    centre = Centre()
    for step in range(1, 16):
        centre.minutes(step)
        centre.learner.step(10.0 * step, 0.0)
    before = centre.marker()
    shard = centre.starts(200.0).shards()[0]
    shard.snapshot(201.0).write()
    shard.confirm()
    after = centre.marker()
    assert (after.offset, after.now_ms, after.hosts) == (before.offset, before.now_ms, before.hosts)


def test_what_waits_for_a_tick_is_read_again() -> None:
    centre = Centre()
    centre.minutes(1)
    centre.reports(minute("0", 2, cpu=means(2)))
    centre.learner.step(20.0, 0.0)
    centre.learner.checkpoint(21.0)
    marker = centre.marker()
    assert marker.hosts is not None
    assert (marker.offset, marker.hosts.offset) == (7, 6)
    centre.starts(30.0)
    centre.reports(Tick("", time_ms=4 * MINUTE_MS))
    while centre.learner.step(31.0, 0.0):
        pass
    assert centre.learner.reading(SYSTEM, 0).host("0") is not None
    centre.learner.checkpoint(32.0)
    assert centre.log.checkpoints(0).take_over().states == all_of(centre.undisturbed())


def test_a_marker_without_hosts_lets_hosts_begin_where_the_jobs_are() -> None:
    centre = Centre()
    centre.minutes(1, 2)
    store = centre.log.checkpoints(0)
    store.take_over()
    store.save({}, Marker(offset=6, number=1, count=0, agent_version="1", config_hash="c", journal_partitions=1))
    learner = centre.starts(0.0)
    while learner.step(1.0, 0.0):
        pass
    view = learner.reading(SYSTEM, 0).host("1")
    assert view is not None
    assert view.resources[0].window.until_ms == 3 * MINUTE_MS


def test_where_the_journal_was_deleted_hosts_begin_anew_and_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    centre = Centre()
    for step in range(1, 16):
        centre.minutes(step)
        centre.learner.step(10.0 * step, 0.0)
    marker = centre.marker()
    assert marker.hosts is not None
    first = marker.hosts.offset + 1
    beginning: Callable[..., int] = lambda *_: first  # noqa: E731 - what the journal still holds
    monkeypatch.setattr(MemoryConsumer, "beginning", beginning)
    with caplog.at_level(logging.WARNING):
        learner = centre.starts(200.0)
    assert (learner.shards()[0].offset, learner.hosts(9)) == (marker.offset, [])
    assert "the learned host state begins anew" in caplog.text
    assert centre.metrics.value("scalewatch_restores_without_hosts_total") == 1
    learner.checkpoint(201.0)
    states = centre.log.checkpoints(0).take_over().states
    assert not [key for key in states if key.startswith("host_") and "window" in key]
    assert [key for key in states if key.startswith("run_time/")]


def test_readers_see_hosts_of_every_shard_sorted() -> None:
    centre = Centre()
    centre.minutes(1)
    while centre.learner.step(1.0, 0.0):
        pass
    assert [view.host for view in centre.learner.hosts(3)] == ["0", "1", "2"]
    assert centre.learner.reading(SYSTEM, 0).host("nobody") is None
    views = centre.learner.hosts(3)
    assert centre.learner.host_uses(3) == [HostUse(view.system, view.host, view.state, view.job) for view in views]
