"""Both client libraries through the contract of the log, side by side: a record written, a record read, a commit."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from agent.log.kafka.client import ClientName, KafkaLogSettings
from agent.log.kafka.log import KafkaLog
from processors.contracts.log import Consumer, Log, Position, TopicSettings
from tests.bench.result import Row
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import CLIENTS

RECORD_BYTES: Final = 180
RECORDS: Final = 300_000
ROUNDS: Final = 200
IN_ROUND: Final = 50  # records that a round writes before it commits
WAIT_S: Final = 120.0
TOPICS: Final = ("bench-in", "bench-out")


def run(*, quick: bool) -> Iterator[Row]:
    """Yield processor time, everything of this process counted, the clients' threads too."""
    records, rounds = (RECORDS // 4, ROUNDS // 4) if quick else (RECORDS, ROUNDS)
    with KafkaBroker() as kafka:
        for client in CLIENTS:
            log = KafkaLog(KafkaLogSettings(kafka.bootstrap, client=client))
            log.create([TopicSettings(f"{topic}-{client}", 1, compacted=False) for topic in TOPICS])
            yield from _measured(log, client, records, rounds)
            log.close()


def _measured(log: Log, client: ClientName, records: int, rounds: int) -> Iterator[Row]:
    source, sink = (f"{topic}-{client}" for topic in TOPICS)
    value = b"x" * RECORD_BYTES
    write_s = _cpu_s(lambda: _write(log, source, value, records))
    consumer = log.consumer(f"bench-{client}", [source], member="bench")
    while not consumer.assigned():
        consumer.poll(1.0)
    read_s = _cpu_s(lambda: _read(consumer, records))
    producer = log.producer()

    def commit() -> None:
        for number in range(rounds):
            for _ in range(IN_ROUND):
                producer.send(sink, value, None, 0)
            producer.flush(WAIT_S)
            consumer.commit({(source, 0): Position(number)})

    commit_s = _cpu_s(commit)
    size = f"records of {RECORD_BYTES} bytes, {records:,}"
    yield Row(f"write, {client}", write_s / records * 1e6, "µs/record", f"send, and a flush at the end; {size}")
    yield Row(f"read, {client}", read_s / records * 1e6, "µs/record", f"polls of at most 2,000, as columns; {size}")
    yield Row(
        f"flush and commit, {client}", commit_s / rounds * 1e6, "µs", f"with {IN_ROUND} records written; {rounds} times"
    )


def _cpu_s(work: Callable[[], None]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def _write(log: Log, topic: str, value: bytes, records: int) -> None:
    producer = log.producer()
    for _ in range(records):
        producer.send(topic, value, None, 0)
    producer.flush(WAIT_S)
    producer.close()


def _read(consumer: Consumer, records: int) -> None:
    left = records
    while left > 0:
        left -= sum(len(batch.values) for batch in consumer.poll(1.0).batches)
