"""Dead letters of the learner's own: bounded in bytes, and the same after a crash as without one."""

import json
from collections.abc import Iterable

from agent.app import compose
from agent.config.roles import CollectorSettings, LearnerSettings
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.learner.learner import Learner
from agent.log.memory import MemoryLog
from processors.contracts.events import JournalRecord, Tick, encode_record
from processors.contracts.log import Batch
from processors.contracts.names import rfc3339
from sinks.prometheus.registry import Metrics

BEGAN_MS = 1_795_168_800_000
NOBODY_CAN_READ = b"{}" * 400
CONFIG = Config(
    collector=CollectorSettings(deadletter_bytes_per_s_max=10), learner=LearnerSettings(checkpoint_interval_s=1.0)
)


class Centre:
    """A journal with records that nobody can read, and what is written of them."""

    def __init__(self) -> None:
        self.written_ms = 0
        self.log = MemoryLog(state_topic=CONFIG.topics.state)
        self.log.create(own_topics(CONFIG))
        self.metrics = compose.metrics()

    def write(self, values: Iterable[bytes]) -> None:
        producer = self.log.producer()
        for value in values:
            producer.send(CONFIG.topics.journal, value, None, 0, self.written_ms)
        producer.flush(1.0)

    def learner(self, metrics: Metrics | None = None) -> Learner:
        return Learner(
            self.log, compose.plan(CONFIG), metrics or self.metrics, "a",
            on_emission=lambda _: None, monotonic_s=lambda: 0.0,
        )  # fmt: skip

    def dead_letters(self) -> list[bytes | None]:
        found: list[bytes | None] = []

        def take(batch: Batch) -> None:
            found.extend(batch.values)

        self.log.read(CONFIG.topics.deadletters, 0, take)
        return found

    def left_out(self) -> float:
        return self.metrics.value("scalewatch_bounds_hit_total", bound="deadletter_bytes_per_s_max")


def tick(minute: int) -> bytes:
    return encode_record(JournalRecord(Tick("", time_ms=BEGAN_MS + minute * 60_000)))


def flood() -> list[bytes]:
    """Return more bad records than there is room for, some at once and some over two hours of event time."""
    return [
        tick(0),
        *([NOBODY_CAN_READ] * 20),
        *(record for minute in range(1, 120) for record in (tick(minute), NOBODY_CAN_READ)),
    ]


def test_dead_letters_of_a_flood_are_bounded_by_event_time_and_counted() -> None:
    centre = Centre()
    records = flood()
    centre.write(records)
    learner = centre.learner()
    while sum(shard.offset for shard in learner.shards().values()) < len(records):
        learner.step(0.0, 0.0)
    written = centre.dead_letters()
    size = len(written[0] or b"")
    allowed = 10 * (1200 + 119 * 60)
    assert 0.9 * allowed < sum(len(value or b"") for value in written) <= allowed + size
    assert centre.left_out() == 20 + 119 - len(written)
    assert centre.metrics.value("scalewatch_dead_letters_total", reason="processor") == 20 + 119


def test_a_dead_letter_has_the_time_at_which_its_record_was_written() -> None:
    centre = Centre()
    for minute in (2, 3):
        centre.written_ms = BEGAN_MS + minute * 60_000
        centre.write([tick(minute), NOBODY_CAN_READ])
    learner = centre.learner()
    while sum(shard.offset for shard in learner.shards().values()) < 4:
        learner.step(0.0, 0.0)
    times = [json.loads(value or b"")["time"] for value in centre.dead_letters()]
    assert times == [rfc3339(BEGAN_MS + minute * 60_000) for minute in (2, 3)]


def test_after_crashes_the_same_events_have_dead_letters_as_without_one() -> None:
    undisturbed, crashing = Centre(), Centre()
    records = flood()
    undisturbed.write(records)
    learner = undisturbed.learner()
    while sum(shard.offset for shard in learner.shards().values()) < len(records):
        learner.step(0.0, 0.0)
    for first in range(0, len(records), 25):
        crashing.write(records[first : first + 25])
        learner = crashing.learner()
        learner.step(0.0, 0.0)
        learner.step(0.0, 0.0)
        if first % 50:
            learner.checkpoint(0.0)
        learner.close()  # nothing is saved by it: what was folded since the checkpoint is folded again
    assert set(crashing.dead_letters()) == set(undisturbed.dead_letters())
    assert len(crashing.dead_letters()) > len(undisturbed.dead_letters()), (
        "some were written again, with the same bytes"
    )
