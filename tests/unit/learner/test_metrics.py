"""When the learner's metrics are reported: once a second while records come in, and at once when no more come."""

import msgspec

from agent.app import compose
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.learner.learner import Learner
from agent.log.memory import MemoryLog
from processors.contracts.events import JournalEvent, JournalRecord, Tick, encode_record
from tests.kit.scenario import completed

CONFIG = Config()
START_MS = 1_795_168_800_000


class Centre:
    """A journal, a learner that reads it, and its metrics."""

    def __init__(self) -> None:
        self.log, self.metrics, self.tick_ms = MemoryLog(state_topic=CONFIG.topics.state), compose.metrics(), 0
        self.log.create(own_topics(CONFIG))
        self.learner = Learner(
            self.log, compose.plan(CONFIG), self.metrics, "a", on_emission=lambda _: None, monotonic_s=lambda: 0.0
        )
        self.learner.step(0.0, 0.0)

    def folds(self, now_s: float, event: JournalEvent | None = None) -> None:
        """Take one record in at a time of the learner's clock, by default a tick."""
        self.tick_ms += 10_000
        record = JournalRecord(event=event or Tick(system="", time_ms=START_MS + self.tick_ms))
        self.log.producer().send(CONFIG.topics.journal, encode_record(record), None, 0)
        assert self.learner.step(now_s, 0.0) == 1

    def received(self) -> float:
        return self.metrics.value("scalewatch_events_total", role="learner", format="journal", outcome="received")


def test_while_records_come_in_metrics_are_reported_once_a_second() -> None:
    centre = Centre()
    centre.folds(10.0)
    assert centre.received() == 1
    centre.folds(10.4)
    centre.folds(10.9)
    assert centre.received() == 1
    centre.folds(11.0)
    assert centre.received() == 4


def test_without_further_records_metrics_are_reported_at_once() -> None:
    centre = Centre()
    for now_s in (10.0, 10.1, 10.2):
        centre.folds(now_s)
    assert centre.learner.step(10.3, 0.0) == 0
    assert centre.received() == 3


def test_what_was_folded_before_the_end_is_reported() -> None:
    centre = Centre()
    for now_s in (10.0, 10.1):
        centre.folds(now_s)
    centre.learner.close()
    assert centre.received() == 2


def test_what_a_run_used_is_counted_once_it_settles() -> None:
    centre = Centre()
    run = completed("1", START_MS - 6_000_000, 6000.0, application="lammps", nodes=4)
    centre.folds(10.0)
    centre.folds(11.0, msgspec.structs.replace(run, energy_j=5e6))
    for second in range(12, 50):
        centre.folds(float(second))
    seconds = {
        how: centre.metrics.value("scalewatch_run_node_seconds_total", energy=how)
        for how in ("measured", "estimated", "unknown")
    }
    assert seconds == {"measured": 24_000.0, "estimated": 0.0, "unknown": 0.0}
    assert centre.metrics.value("scalewatch_run_energy_joules_total", energy="measured") == 5e6
