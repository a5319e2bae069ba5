"""A reader of an output topic: all that it holds, then what comes."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from processors.contracts.log import Batch, Consumer, Log, TopicPartition
from processors.contracts.outputs import Prediction
from sinks.table import Row, rows

POLL_S: Final = 1.0


class Change(msgspec.Struct, frozen=True):
    """The newest message of a key, None where the key has left the topic."""

    key: str
    value: bytes | None


class Changes(msgspec.Struct, frozen=True):
    """What one look at a topic found; `caught_up` tells that everything was read that was there at the start."""

    changes: tuple[Change, ...]
    caught_up: bool


def follow(log: Log, topic: str, group: str, stop: Callable[[], bool], *, only_new: bool = False) -> Iterator[Changes]:
    """Yield what a topic holds and what comes, until `stop` says so. Raises UnavailableError.

    Nothing is committed: every reader reads the whole topic, and has a group of its own. A compacted topic holds the last message of each key, so
    that this is all there is to know.
    """
    consumer = log.consumer(group, [topic], member="reader", from_beginning=not only_new)
    try:
        yield from _followed(log, consumer, topic, stop)
    finally:
        consumer.close()


def newest(application_ids: dict[str, bytes]) -> dict[str, list[Row]]:
    """Return the rows of predictions, by application id."""
    return {key: list(rows(key, msgspec.json.decode(value, type=Prediction))) for key, value in application_ids.items()}


def _followed(log: Log, consumer: Consumer, topic: str, stop: Callable[[], bool]) -> Iterator[Changes]:
    ends: dict[TopicPartition, int] = {}
    read: dict[TopicPartition, int] = {}
    caught_up = False
    while not stop():
        poll = consumer.poll(POLL_S)
        for partition in poll.assignment.gained:
            ends.setdefault(partition, consumer.end(partition))
            read.setdefault(partition, consumer.beginning(partition))
        for batch in poll.batches:
            read[batch.topic, batch.partition] = batch.next_offset
        changes = tuple(change for batch in poll.batches for change in _changes(batch))
        if not caught_up and ends and len(ends) == log.partitions(topic):
            caught_up = all(read[partition] >= end for partition, end in ends.items())
        yield Changes(changes, caught_up)


def _changes(batch: Batch) -> Iterator[Change]:
    for key, value in zip(batch.keys, batch.values, strict=True):
        yield Change((key or b"").decode("utf-8", "replace"), value)
