"""The time of a journal partition: what several collectors let pass, the same at every replay and after every restart."""

from agent.app import compose
from agent.config.roles import LearnerSettings
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.learner.learner import Learner
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.events import HostMinute, JournalEvent, JournalRecord, ResourceMinute, Tick, encode_record
from processors.contracts.log import SILENT_MS, Marker, Watermarks

NOW_MS = 1_795_168_800_000
CONFIG = Config(learner=LearnerSettings(checkpoint_interval_s=0.001, host_checkpoint_interval_s=1e4))


def marks(*ticks: Tick) -> Watermarks:
    found = Watermarks()
    for tick in ticks:
        found = found.after(tick)
    return found


def test_without_a_hold_time_is_the_newest_clock() -> None:
    assert marks(Tick("", 5_000, "a"), Tick("", 3_000, "b"), Tick("", 4_000)).now_ms == 5_000


def test_the_collector_that_is_furthest_behind_decides() -> None:
    held = marks(Tick("", 900_000, "a", 300_000), Tick("", 900_000, "b", 200_000), Tick("", 901_000, "c"))
    assert held.now_ms == 200_000
    assert held.after(Tick("", 902_000, "b", 250_000)).now_ms == 250_000
    assert held.after(Tick("", 902_000, "b")).now_ms == 300_000


def test_a_collector_that_is_silent_holds_time_no_longer_than_its_group_needs() -> None:
    held = marks(Tick("", 900_000, "dead", 300_000), Tick("", 900_000 + SILENT_MS - 1, "b"))
    assert held.now_ms == 300_000
    assert held.after(Tick("", 900_000 + SILENT_MS, "b")).now_ms == 900_000 + SILENT_MS


def test_a_collector_whose_clock_is_behind_holds_time_like_any_other() -> None:
    held = marks(Tick("", 9_000_000, "fast"), Tick("", 8_000_000, "slow", 7_000_000), Tick("", 9_001_000, "fast"))
    assert held.now_ms == 7_000_000


class Journal:
    """A journal in which two collectors hold time back by turns, and learners that fold parts of it."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.log = MemoryLog(self.broker, state_topic=CONFIG.topics.state)
        self.log.create(own_topics(CONFIG))
        self.length = 0

    def write(self, seconds: range) -> None:
        """Write a minute of a host and ticks for each second: one collector is behind, the other one at times."""
        for second in seconds:
            clock_ms = NOW_MS + second * 1000
            minute = ResourceMinute(6, 0.5, 0.5, 0.5, (0.5,) * 6, (0.5,), (1.0,), 30)
            event = HostMinute("exa", "raw/0", "nid1", clock_ms // 60_000 * 60_000, {"cpu_available": minute})
            until_ms = None if second % 7 == 0 else clock_ms - 30_000
            ticks = [Tick("", clock_ms, "b", until_ms)]
            if second % 10 == 0:
                ticks.insert(0, Tick("", clock_ms, "a", clock_ms - 600_000))
            events: list[JournalEvent] = [event, *ticks]
            for each in events:
                self.broker.append(CONFIG.topics.journal, encode_record(JournalRecord(each)), None, 0, clock_ms)
                self.length += 1

    def fold(self) -> Marker:
        """Let a new learner fold what is there and save it in order; return the marker."""
        log = MemoryLog(self.broker, state_topic=CONFIG.topics.state)
        learner = Learner(
            log, compose.plan(CONFIG), compose.metrics(), "a", on_emission=lambda _: None, monotonic_s=lambda: 0.0
        )
        while not learner.shards() or learner.shards()[0].offset < self.length:
            learner.step(0.0, 0.0)
        learner._checkpoint(*next(iter(learner._shards.items())), 0.0)
        learner._confirm(*next(iter(learner._shards.items())), wait=True)
        learner.close()
        log.close()
        return self.marker()

    def marker(self) -> Marker:
        """Return the last marker."""
        found = self.log.checkpoints(0).take_over().marker
        assert found is not None
        return found


def test_after_a_restart_time_is_what_an_undisturbed_learner_would_have() -> None:
    disturbed, calm = Journal(), Journal()
    for part in (range(42), range(42, 47), range(47, 90)):
        disturbed.write(part)
        disturbed.fold()
    calm.write(range(90))
    calm.fold()
    first, second = disturbed.marker(), calm.marker()
    assert first.watermarks == second.watermarks
    assert set(first.watermarks.holds) == {"a", "b"}
    assert first.now_ms == second.now_ms == NOW_MS + 80_000 - 600_000
