"""Records that end the process which reads them: the collectors after it find the record, leave it out and go on."""

import math
import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from agent.app import compose
from agent.collector.collector import Collector
from agent.collector.reading import SourceDecoders
from agent.collector.recorder import KEEP_MAX, Attempt, Attempts, Recorder
from agent.config.topics import own_topics
from agent.config.tree import Config, Source
from agent.log.memory import MemoryLog
from processors.contracts.errors import UnavailableError
from processors.contracts.events import DeadLetter, Decoded, Evidence, JobCompleted, decode_record
from processors.contracts.log import Batch, Position, TopicSettings
from tests.kit.clock import FakeClock
from tests.kit.faults import Crash

NOW_MS = 1_795_168_800_000
BOMB = b"bomb"
CONFIG = Config(sources=(Source(topics=("raw",), format="native", system="exa"),))
METRICS = compose.metrics(CONFIG)


def decoded(value: bytes) -> Decoded:
    return Decoded(
        [JobCompleted("exa", value.decode(), f"exa/{value.decode()}@0", 0, 1000, 1.0, "COMPLETED", Evidence())]
    )


def explode(value: bytes, received_ms: int) -> Decoded:
    """Decode a job of that id, or end the process."""
    if value == BOMB:
        raise Crash
    return decoded(value)


class Host:
    """A machine that runs one collector after another; `ends` counts those that ended. Hosts share a log."""

    def __init__(
        self,
        log: MemoryLog,
        decode: Callable[[bytes, int], Decoded] = explode,
        name: str = "one",
        between_polls: Callable[[], object] = tuple,
    ) -> None:
        self.log, self.name, self.recorder, self.ends = log, name, Recorder(), 0
        self.struck: Attempt | None = None  # what the last process was reading when it ended
        self._between_polls = between_polls
        self._routes = msgspec.structs.replace(
            compose.routes(CONFIG), source=lambda topic: SourceDecoders(topic, decode), commit_s=0.0
        )
        self._collector: Collector | None = None

    def run(self, steps: int = 4, *, certain: bool = True) -> int:
        """Go on, with a new process if the last one has ended; return how many have ended so far."""
        try:
            self._collector = self._collector or Collector(
                self.log, self._routes, METRICS, self.name, monotonic_s=FakeClock().monotonic_s, recorder=self.recorder
            )
            for _ in range(steps):
                self._between_polls()
                self._collector.step(NOW_MS, 0.0)
        except (Crash, UnavailableError):
            self.leave()
            self.ends += 1
            self.struck = self.recorder.settle(certain=certain)
        return self.ends

    def leave(self) -> None:
        """End the process and let its group know."""
        if self._collector is not None:
            self._collector.close()
            self._collector = None


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create([*own_topics(CONFIG), TopicSettings("raw", 1, compacted=False)])
    return log


def send(log: MemoryLog, *values: bytes, written_ms: int = NOW_MS) -> None:
    producer = log.producer()
    for value in values:
        producer.send("raw", value, None, 0, written_ms)
    producer.flush(1.0)


def values(log: MemoryLog, topic: str) -> list[bytes]:
    batches: list[Batch] = []
    log.read(topic, 0, batches.append)
    return [value for batch in batches for value in batch.values if value]


def jobs(log: MemoryLog) -> Counter[str]:
    events = (decode_record(value).event for value in values(log, CONFIG.topics.journal))
    return Counter(event.job_id for event in events if isinstance(event, JobCompleted))


def dead_letters(log: MemoryLog) -> list[DeadLetter]:
    return [msgspec.json.decode(value, type=DeadLetter) for value in values(log, CONFIG.topics.deadletters)]


def test_a_record_that_ended_two_processes_is_a_dead_letter_and_the_records_around_it_count(log: MemoryLog) -> None:
    host = Host(log)
    send(log, b"1", b"2", BOMB, b"3", b"4")
    assert [host.run(), host.run(), host.run(), host.run()] == [1, 2, 2, 2]
    (dead_letter,) = dead_letters(log)
    assert (dead_letter.reason, dead_letter.topic, dead_letter.partition, dead_letter.offset) == (
        "decoder",
        "raw",
        0,
        2,
    )
    assert dead_letter.detail == (
        "The record raw/0/2 crashed 2 collectors, so the agent skips it. Report the fault to the developers, and send it again "
        "with `scalewatch deadletter` once the cause is fixed."
    )
    assert set(jobs(log)) == {"1", "2", "3", "4"}
    send(log, b"5")
    host.run()
    assert jobs(log)["5"] == 1


def test_a_record_alone_in_its_slice_is_found_by_two_ends_whoever_ended_the_processes(log: MemoryLog) -> None:
    host = Host(log)
    send(log, BOMB)
    assert [host.run(certain=False), host.run(certain=False), host.run(certain=False)] == [1, 2, 2]
    assert [one.offset for one in dead_letters(log)] == [0]


def test_a_kill_without_a_known_cause_has_to_meet_a_record_alone_twice(log: MemoryLog) -> None:
    host = Host(log)
    send(log, b"1", BOMB, b"2")
    assert [host.run(certain=False) for _ in range(5)] == [1, 2, 3, 3, 3]
    assert [one.offset for one in dead_letters(log)] == [1]


def test_each_of_several_such_records_is_found(log: MemoryLog) -> None:
    host = Host(log)
    send(log, BOMB, b"1", BOMB, b"2", BOMB)
    for _ in range(8):
        host.run()
    assert [one.offset for one in dead_letters(log)][-3:] == [0, 2, 4]
    assert host.ends == 4
    assert set(jobs(log)) == {"1", "2"}


def test_the_defect_of_a_stage_behind_the_decoder_counts_too(log: MemoryLog) -> None:
    def fail(value: bytes, received_ms: int) -> Decoded:
        if value == BOMB:
            raise ZeroDivisionError
        return decoded(value)

    host = Host(log, fail)
    send(log, b"1", BOMB)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            host.run()
        host.leave()
        host.recorder.settle(certain=True)
    host.run()
    assert [one.offset for one in dead_letters(log)] == [1]


def test_no_record_is_left_out_because_the_broker_was_away_while_it_was_read(log: MemoryLog) -> None:
    away = True

    def decode(value: bytes, received_ms: int) -> Decoded:
        if away:
            raise UnavailableError("The broker is away.")
        return decoded(value)

    host = Host(log, decode)
    send(log, b"1")
    assert [host.run() for _ in range(4)] == [1, 2, 3, 4]
    assert host.recorder.attempts() == []
    away = False
    host.run()
    assert (dead_letters(log), jobs(log)) == ([], {"1": 1})


def test_after_300_kills_at_random_moments_no_healthy_record_is_left_out(log: MemoryLog) -> None:
    """A third of the time goes into decoding: 5 ms a record, a hundred times what it takes, between polls of 200 ms."""
    dice = random.Random(8)  # noqa: S311 - the kills come again with their seed
    clock, kill_s, alone = FakeClock(), math.inf, 0

    def pass_time(seconds: float) -> None:
        clock.advance(seconds)
        if clock.monotonic_s() >= kill_s:
            raise Crash

    def decode(value: bytes, received_ms: int) -> Decoded:
        pass_time(0.005)
        return decoded(value)

    host, sent = Host(log, decode, between_polls=lambda: pass_time(0.2)), 0
    for ends in range(1, 301):
        kill_s = clock.monotonic_s() + dice.uniform(0.0, 3.0)
        while host.run(1, certain=False) < ends:
            send(log, *(str(number).encode() for number in range(sent, sent + 20)))
            sent += 20
        alone += host.struck is not None and host.struck.ends > 1
    kill_s = math.inf
    host.run(sent)
    assert dead_letters(log) == []
    assert set(jobs(log)) == {str(number) for number in range(sent)}
    assert alone > 5, "kills also met records that were read alone"


def test_attempts_go_with_their_partition_to_another_collector(log: MemoryLog) -> None:
    first, second = Host(log, name="first"), Host(log, name="second")
    send(log, b"1")
    first.run()
    send(log, b"2", BOMB, b"3")
    assert first.run() == 1
    assert first.run() == 2
    first.run(steps=1)  # it commits what it knows before it reads on
    first.leave()
    assert second.run(steps=8) == 0
    assert {one.offset for one in dead_letters(log)} == {2}
    assert set(jobs(log)) == {"1", "2", "3"}


def test_a_topic_that_was_made_anew_has_other_records_at_these_offsets(log: MemoryLog) -> None:
    hopeless = Attempt("raw", 0, 0, 0, NOW_MS, ends=2, alone=2)
    for written_ms, count in ((NOW_MS, 1), (NOW_MS + 1, 0)):
        other = MemoryLog()
        other.create([*own_topics(CONFIG), TopicSettings("raw", 1, compacted=False)])
        send(other, b"1", written_ms=written_ms)
        host = Host(other)
        host.recorder.begin(hopeless)
        host.recorder.settle()
        host.run()
        assert len(dead_letters(other)) == count


def test_the_metadata_of_a_position_holds_the_windows_and_the_newest_attempts_that_lie_ahead() -> None:
    known = [Attempt("raw", 0, at, at + 5, ends=1) for at in range(0, 100, 10)]
    attempts = Attempts(("raw", 0), "windows:1:60000", [*known, Attempt("raw", 1, 95, 95)])
    assert attempts.windows == "windows:1:60000"
    text = attempts.metadata("windows:1:120000", 45)
    again = Attempts(("raw", 0), text, ())
    assert again.windows == "windows:1:120000"
    assert again.metadata("", 0) == attempts.metadata("", 45)
    assert text.count("raw") == KEEP_MAX
    assert attempts.metadata("windows:1:120000", 96) == "windows:1:120000"


@pytest.mark.parametrize("text", ["windows:1:60000 attempts:[[", "windows:1:60000 attempts:{}", "windows:1:60000"])
def test_attempts_of_another_version_are_none_and_the_windows_stay(text: str) -> None:
    attempts = Attempts(("raw", 0), text, ())
    assert (attempts.windows, attempts.metadata("w", 0)) == ("windows:1:60000", "w")


def test_a_position_without_attempts_is_committed_as_ever(log: MemoryLog) -> None:
    host = Host(log)
    send(log, b"1")
    host.run()
    host.leave()
    consumer = log.consumer(CONFIG.collector_group, ["raw"], member="look")
    consumer.poll(0.0)
    assert consumer.committed(("raw", 0)) == Position(1, "")
