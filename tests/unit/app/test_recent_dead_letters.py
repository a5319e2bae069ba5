"""The newest dead letters, as readers see them."""

import threading
from collections.abc import Callable

import msgspec
from structlog.testing import capture_logs

from agent.app import compose
from agent.app.lookout import DETAIL_MAX, LOOK_S, SHOWN_MAX, OutputTopics, RecentDeadLetters
from agent.log.memory import MemoryLog
from processors.contracts.errors import UnavailableError
from processors.contracts.events import DeadLetter
from processors.contracts.log import Batch, TopicSettings
from processors.contracts.names import rfc3339
from sinks.prometheus.registry import Metrics
from tests.kit.clock import FakeClock

TOPIC = "dead_letters"
BEGAN_MS = 1_795_168_800_000


def dead_letter(number: int, **changes: object) -> bytes:
    content = {
        "schema": "scalewatch.deadletter/1",
        "id": f"slurm/0/{number}/0",
        "time": rfc3339(BEGAN_MS + number * 1000),
        "reason": "not-json",
        "detail": "No JSON.",
        "topic": "slurm",
        "partition": 0,
        "offset": number,
        "format": "auto",
        "value_base64": "c2VjcmV0",
        "value_bytes": 6,
        "truncated": False,
    }
    return msgspec.json.encode(msgspec.convert(content | changes, DeadLetter))


def log_of(*values: bytes | None, partitions: int = 1) -> MemoryLog:
    log = MemoryLog()
    log.create([TopicSettings(TOPIC, partitions, compacted=False)])
    producer = log.producer()
    for number, value in enumerate(values):
        producer.send(TOPIC, value, None, number % partitions)
    producer.flush(1.0)
    return log


def of(log: MemoryLog, metrics: Metrics | None = None) -> RecentDeadLetters:
    return RecentDeadLetters(OutputTopics(log, {"deadletters": TOPIC}, metrics or compose.metrics()))


def looked(log: MemoryLog, metrics: Metrics | None = None) -> RecentDeadLetters:
    dead_letters = of(log, metrics)
    dead_letters.look()
    return dead_letters


def test_the_newest_dead_letters_come_first_and_report_where_and_why_but_not_what() -> None:
    found = looked(log_of(*(dead_letter(number) for number in range(SHOWN_MAX + 30)))).latest()
    assert [each.offset for each in found] == list(range(SHOWN_MAX + 29, 29, -1))
    assert (found[0].reason, found[0].topic, found[0].time_ms) == (
        "not-json",
        "slurm",
        BEGAN_MS + (SHOWN_MAX + 29) * 1000,
    )
    assert "c2VjcmV0" not in repr(found)


def test_dead_letters_of_several_partitions_are_one_list() -> None:
    assert [each.offset for each in looked(log_of(*map(dead_letter, range(6)), partitions=3)).latest()] == [
        5,
        4,
        3,
        2,
        1,
        0,
    ]


def test_what_nobody_can_read_is_left_out_and_counted_once_and_long_words_are_cut() -> None:
    metrics = compose.metrics()
    log = log_of(b"nonsense", None, b"{}", dead_letter(1, detail="x" * 9_000), dead_letter(2, time="yesterday"))
    dead_letters = looked(log, metrics)
    dead_letters.look()
    first, second = dead_letters.latest()
    assert len(first.detail) == DETAIL_MAX
    assert second.time_ms == 0
    assert metrics.above_zero("scalewatch_outputs_unreadable_total") == {"deadletters": 2}


class Weak(MemoryLog):
    """A log whose broker can be away."""

    away = False

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        if self.away:
            raise UnavailableError("No Kafka broker could be reached.")
        return super().read(topic, partition, on_batch, newest=newest)


def test_a_broker_that_is_away_changes_nothing_and_is_left_to_the_role_to_report() -> None:
    log = Weak(log_of(dead_letter(1)).broker)
    dead_letters = looked(log)
    with capture_logs() as lines:
        for away in (True, True, True, False, False):
            log.away = away
            dead_letters.look()
            assert len(dead_letters.latest()) == 1
    assert lines == []


def test_a_topic_that_is_missing_has_no_dead_letters() -> None:
    dead_letters = of(MemoryLog())
    dead_letters.look()
    assert dead_letters.latest() == ()


def test_it_looks_at_once_and_every_half_minute_until_it_is_stopped() -> None:
    class Stopping(FakeClock):
        def sleep(self, seconds: float, stop: threading.Event) -> bool:
            if len(self.slept_s) == 3:
                stop.set()
            return super().sleep(seconds, stop)

    clock, dead_letters = Stopping(), of(log_of(dead_letter(1)))
    dead_letters.run(clock, threading.Event())
    assert clock.slept_s == [LOOK_S] * 3
    assert len(dead_letters.latest()) == 1
