"""Topics as a program that is not ours sees them: written and read with the client alone, and decoded as plain JSON."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

READ_MS: Final = 120_000


class Record(NamedTuple):
    """A record of a topic, without its time."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None

    def plain(self) -> Any:
        """Return the value as plain JSON."""
        return json.loads(self.value or b"null")


def create(bootstrap: str, topics: Mapping[str, int]) -> None:
    """Make topics with so many partitions each."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, partitions, 1) for name, partitions in topics.items()])
    admin.close()


@contextmanager
def producing(bootstrap: str) -> Iterator[KafkaProducer]:
    """Yield a producer that repeats nothing and gives nothing up while a broker is away."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=5, delivery_timeout_ms=600_000
    )
    try:
        yield producer
    finally:
        producer.close(timeout=10)


@contextmanager
def consuming(bootstrap: str, topic: str, *, committed: bool = True) -> Iterator[KafkaConsumer]:
    """Yield a consumer of all partitions of a topic, without a group, at their beginning."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level, enable_auto_commit=False)
    try:
        found = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(found)
        consumer.seek_to_beginning(*found)
        yield consumer
    finally:
        consumer.close(autocommit=False)


def records(bootstrap: str, topic: str, *, committed: bool = True) -> list[Record]:
    """Return everything in a topic, by partition and in order."""
    found: list[Record] = []
    with consuming(bootstrap, topic, committed=committed) as consumer:
        ends = consumer.end_offsets(list(consumer.assignment()))
        while any(consumer.position(one) < end for one, end in ends.items()):
            for batch in consumer.poll(timeout_ms=1000, max_records=5000).values():
                found += [Record(each.partition, each.offset, each.key, each.value) for each in batch]
    return sorted(found, key=lambda each: each[:2])
