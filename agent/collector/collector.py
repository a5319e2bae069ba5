"""The collector's loop: poll, decode, write, flush, commit.

It keeps no state. What it wrote and did not commit is written again after a crash, under the same identities.
"""

from collections.abc import Callable
from contextlib import nullcontext

import msgspec

from agent.collector.meter import Meter
from agent.collector.routes import Refusal, Routes, Source
from agent.contracts.decoding import Decoded
from agent.contracts.errors import InvalidInputError
from agent.contracts.events import JobEvent, JournalRecord, Origin, Tick, encode_record
from agent.contracts.log import Batch, Log, Position, TopicPartition
from agent.contracts.measures import Measures


class Collector:
    """One member of the group of collectors. Any error but InvalidInputError ends it: make a new one.

    `monotonic_s` is a clock that only grows.

    >>> from agent.app import compose
    >>> from agent.config.sources import Source
    >>> from agent.config.tree import Config
    >>> from agent.contracts.log import TopicSettings
    >>> from agent.log.memory import MemoryLog
    >>> from agent.topics import own_topics
    >>> log, config = MemoryLog(), Config(sources=(Source(topics=("raw",), format="native"),))
    >>> _ = log.create([*own_topics(config), TopicSettings("raw", partitions=1, compacted=False)])
    >>> collector = Collector(log, compose.routes(config), compose.metrics(), "a", monotonic_s=lambda: 0.0)
    >>> log.producer().send("raw", b"no event")
    >>> [collector.step(now_ms=60_000, timeout_s=0.0) for _ in range(2)], collector.lag()  # the first joins the group
    ([0, 1], 0)
    """

    def __init__(
        self, log: Log, routes: Routes, measures: Measures, member: str, *, monotonic_s: Callable[[], float]
    ) -> None:
        self._routes = routes
        self._meter = Meter(measures, monotonic_s)
        self._consumer = log.consumer(routes.group, routes.topics, member=member)
        self._producer = log.producer()
        self._last_tick_ms: int | None = None

    def step(self, now_ms: int, timeout_s: float) -> int:
        """Work off one poll and write the tick that is due; return the number of messages taken.

        Steps: (1) poll; (2) write events and dead letters; (3) write the tick; (4) flush, every write is
        acknowledged; (5) commit. A crash between any two repeats writes and loses none.
        """
        poll = self._consumer.poll(timeout_s)
        with self._meter.batch() if poll.batches else nullcontext():
            self._work(poll.batches, now_ms)
        return sum(len(batch.values) for batch in poll.batches)

    def assigned(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this member reads."""
        return tuple(sorted(self._consumer.assigned()))

    def lag(self) -> int:
        """Return how many messages of the own partitions are not read yet."""
        committed = {partition: self._consumer.committed(partition) for partition in self._consumer.assigned()}
        return sum(
            self._consumer.end(partition) - (at.offset if at else self._consumer.beginning(partition))
            for partition, at in committed.items()
        )

    def close(self) -> None:
        """Leave the group and free the connections."""
        self._producer.close()
        self._consumer.close()

    def _work(self, batches: tuple[Batch, ...], now_ms: int) -> None:
        for batch in batches:
            self._take(batch)
        ticked = self._tick(now_ms)
        if batches or ticked:
            self._producer.flush(self._routes.flush_timeout_s)
        if batches:
            self._consumer.commit(_positions(batches))

    def _tick(self, now_ms: int) -> bool:
        tick_ms = now_ms - now_ms % self._routes.tick_ms
        if self._last_tick_ms is not None and tick_ms <= self._last_tick_ms:
            return False
        self._last_tick_ms = tick_ms
        value = encode_record(JournalRecord(event=Tick(system="", time_ms=tick_ms)))
        for partition in range(self._routes.journal_partitions):
            self._producer.send(self._routes.journal_topic, value, None, partition, tick_ms)
        return True

    def _take(self, batch: Batch) -> None:
        source = self._routes.source(batch.topic)
        for offset, value, timestamp_ms in zip(batch.offsets, batch.values, batch.timestamps_ms, strict=True):
            origin = Origin(batch.topic, batch.partition, offset)
            try:
                decoded = source.decode(value if value is not None else b"", timestamp_ms)
            except InvalidInputError as error:
                decoded = Decoded(rejects=[error])
            self._journal(decoded, origin, timestamp_ms)
            self._refuse(decoded.rejects, source, origin, value, timestamp_ms)
            self._meter.decoded(source.format, decoded)

    def _journal(self, decoded: Decoded, origin: Origin, timestamp_ms: int) -> None:
        events: list[JobEvent] = []
        for event in decoded.events:
            try:
                self._write(event, origin, timestamp_ms)
            except InvalidInputError as error:
                decoded.rejects.append(error)
            else:
                events.append(event)
        decoded.events = events

    def _write(self, event: JobEvent, origin: Origin, timestamp_ms: int) -> None:
        partition = self._routes.partition(event.system)
        if partition is None:
            detail = f"The system {event.system[:40]!r} is not listed in the configuration."
            raise InvalidInputError("unknown-system", detail)
        value = encode_record(JournalRecord(event=self._routes.privacy(event), origin=origin))
        if len(value) > self._routes.record_bytes_max:
            detail = f"The event needs {len(value)} bytes; {self._routes.record_bytes_max} are allowed."
            raise InvalidInputError("too-large", detail)
        self._producer.send(self._routes.journal_topic, value, None, partition, timestamp_ms)

    def _refuse(
        self, rejects: list[InvalidInputError], source: Source, origin: Origin, value: bytes | None, timestamp_ms: int
    ) -> None:
        for index, error in enumerate(rejects):
            refusal = Refusal(origin, index, source.format, value, error, timestamp_ms)
            letter = self._routes.dead_letter(refusal)
            self._producer.send(
                self._routes.deadletter_topic, msgspec.json.encode(letter), letter.id.encode(), None, timestamp_ms
            )
            self._meter.refused(error.reason)


def _positions(batches: tuple[Batch, ...]) -> dict[TopicPartition, Position]:
    return {(batch.topic, batch.partition): Position(batch.next_offset) for batch in batches}
