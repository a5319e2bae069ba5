"""Dead letters are listed, and their messages sent again, on the memory log."""

import json

import msgspec
import pytest

from agent.cli.deadletter import Filter, listed, replayed
from agent.decode.message import VALUE_BYTES_MAX, dead_letter
from agent.log.memory import MemoryLog
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import DeadLetter, Origin, Refusal, by_reason
from processors.contracts.log import Batch, TopicSettings
from processors.contracts.names import parse_rfc3339

TOPIC = "scalewatch.deadletters"
NOON = parse_rfc3339("2026-11-20T12:00:00Z")


def written(
    offset: int, *, topic: str = "slurm.jobs", reason: str = "not-json", value: bytes = b"x", parts: int = 0
) -> DeadLetter:
    errors = [
        InvalidInputError(reason, f"It is {reason}.").at(f"[{number}]" * bool(parts)) for number in range(parts or 1)
    ]
    (refused,) = by_reason(errors)
    return dead_letter(Refusal(Origin(topic, 0, offset), refused, "slurm", value, NOON + offset * 60_000))


def log_of(*dead_letters: DeadLetter | bytes | None) -> MemoryLog:
    log = MemoryLog()
    log.create([TopicSettings(name, 2, compacted=False) for name in (TOPIC, "slurm.jobs", "native")])
    producer = log.producer()
    for number, one in enumerate(dead_letters):
        producer.send(TOPIC, msgspec.json.encode(one) if isinstance(one, DeadLetter) else one, partition=number % 2)
    producer.flush(1)
    return log


def sent(log: MemoryLog, topic: str) -> list[bytes | None]:
    values: list[bytes | None] = []

    def take(batch: Batch) -> None:
        values.extend(batch.values)

    for partition in range(2):
        log.read(topic, partition, take)
    return values


def lines(log: MemoryLog, wanted: Filter, *, as_json: bool = False) -> list[str]:
    found: list[str] = []
    assert listed(log, TOPIC, wanted, found.append, as_json=as_json) == len(found)
    return found


def test_a_dead_letter_is_one_line_that_states_when_why_where_and_what() -> None:
    assert lines(log_of(written(7)), Filter()) == [
        "2026-11-20T12:07:00Z  not-json  slurm.jobs/0/7  slurm, 1 bytes: It is not-json."
    ]


def test_parts_of_a_message_are_one_line_that_states_how_many_and_where() -> None:
    assert lines(log_of(written(7, reason="time", parts=50)), Filter()) == [
        "2026-11-20T12:07:00Z  time  slurm.jobs/0/7  slurm, 1 bytes, 50 parts ([0], [1], [2] ...): It is time."
    ]


def test_a_dead_letter_of_an_older_version_is_read() -> None:
    plain = msgspec.json.decode(msgspec.json.encode(written(7)))
    older = msgspec.json.encode({name: value for name, value in plain.items() if name not in {"count", "places"}})
    assert len(lines(log_of(older), Filter())) == 1


def test_records_that_are_no_dead_letters_are_counted_beside_the_list() -> None:
    complaints: list[str] = []
    log = log_of(written(7), b"nonsense", b"{}")
    assert listed(log, TOPIC, Filter(), lambda _: None, complain=complaints.append) == 1
    assert complaints == ["Skipped, because they are not dead letters: 2 records of the topic."]


def test_filters_choose_by_reason_topic_time_and_number() -> None:
    log = log_of(written(0), written(2, reason="time"), written(4, topic="native"), written(6))
    assert len(lines(log, Filter())) == 4
    assert len(lines(log, Filter(reason="time"))) == 1
    assert len(lines(log, Filter(topic="native"))) == 1
    assert len(lines(log, Filter(since_ms=NOON + 4 * 60_000))) == 2
    assert len(lines(log, Filter(limit=3))) == 3


def test_json_gives_whole_dead_letters() -> None:
    assert json.loads(lines(log_of(written(7)), Filter(), as_json=True)[0])["value_base64"] == "eA=="


def test_original_bytes_go_to_their_original_topics() -> None:
    log = log_of(written(0, value=b"\x00one"), written(1, topic="native", value=b"two"))
    assert replayed(log, TOPIC, Filter()).sent == 2
    assert sent(log, "slurm.jobs") == [b"\x00one"]
    assert sent(log, "native") == [b"two"]


def test_a_batch_with_several_refused_parts_is_sent_once() -> None:
    log = log_of(written(0, value=b"[1,2]"), written(0, value=b"[1,2]", reason="time"))
    assert replayed(log, TOPIC, Filter()).sent == 1
    assert sent(log, "slurm.jobs") == [b"[1,2]"]


def test_a_message_that_was_cut_is_refused_and_counted() -> None:
    log = log_of(written(0, value=b"x" * (VALUE_BYTES_MAX + 1)), written(1, value=b"good"))
    done = replayed(log, TOPIC, Filter())
    assert (done.sent, done.truncated) == (1, 1)
    assert sent(log, "slurm.jobs") == [b"good"]
    assert ", cut: " in lines(log, Filter())[0]


def test_a_dry_run_counts_and_sends_nothing() -> None:
    log = log_of(written(0), written(1))
    assert replayed(log, TOPIC, Filter(), dry_run=True).sent == 2
    assert sent(log, "slurm.jobs") == []


@pytest.mark.parametrize("junk", [b"no json", None, b"{}", b"\xff", b'{"schema": 1}'])
def test_what_is_no_dead_letter_is_passed_over_and_counted(junk: bytes | None) -> None:
    log = log_of(junk, written(1))
    assert len(lines(log, Filter())) == 1
    done = replayed(log, TOPIC, Filter())
    assert (done.sent, done.unreadable) == (1, 1)


def test_damaged_base64_is_not_sent() -> None:
    broken = msgspec.structs.replace(written(0), value_base64="!!!")
    done = replayed(log_of(broken), TOPIC, Filter())
    assert (done.sent, done.unreadable) == (0, 1)


def test_a_topic_that_does_not_exist_is_named_with_the_command_that_makes_it() -> None:
    with pytest.raises(ConfigError, match="scalewatch topics --create"):
        listed(MemoryLog(), TOPIC, Filter(), print)
