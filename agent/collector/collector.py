"""The collector's loop: poll, write, tick, flush, commit.

It keeps no stored state. What it wrote and did not commit is written again after a crash, under the same identities;
where windows are open it commits the offset of the first record that they still need, and reads again from there.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

from agent.collector.meter import Meter
from agent.collector.reading import Reading
from agent.collector.routes import Routes
from agent.collector.writing import Writing, unknown_system
from agent.contracts.decoding import Decode, Decoded
from agent.contracts.errors import InvalidInputError
from agent.contracts.events import Origin
from agent.contracts.log import Assignment, Batch, Log, TopicPartition
from agent.contracts.measures import Measures
from agent.contracts.telemetry import DecodedBatch, Samples


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
        self._measures = measures
        self._monotonic_s = monotonic_s
        self._meter = Meter(measures, monotonic_s)
        self._consumer = log.consumer(routes.group, routes.topics, member=member)
        self._writing = Writing(log.producer(), routes, self._meter)
        self._readings: dict[TopicPartition, Reading] = {}
        self._telling: deque[TopicPartition] = deque()  # partitions with minutes on their way
        self._committed_s = -math.inf

    def step(self, now_ms: int, timeout_s: float) -> int:
        """Work off one poll and write the tick that is due; return the number of messages taken.

        Steps: (1) poll; (2) write events, dead letters and one part of the minutes that are due; (3) write the tick;
        (4) flush, every write is acknowledged; (5) commit. The last two come at most every `commit_s`. A crash between
        any two repeats writes and loses none. While the minutes of a partition are on their way it is not read.
        """
        poll = self._consumer.poll(0.0 if self._telling else timeout_s)
        self._follow(poll.assignment)
        with self._meter.batch() if poll.batches or self._telling else nullcontext():
            for batch in poll.batches:
                self._take(batch)
            self._tell(now_ms)
            self._writing.tick(now_ms)
            if self._monotonic_s() - self._committed_s >= self._routes.commit_s:
                self.commit()
        return sum(len(batch.values) for batch in poll.batches)

    def commit(self) -> None:
        """Flush (4) and commit (5) what was folded; what still is on its way is read again after a crash."""
        self._writing.flush()
        self._commit_folded()
        self._committed_s = self._monotonic_s()

    def assigned(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this member reads."""
        return tuple(sorted(self._consumer.assigned()))

    def lag(self) -> int:
        """Return how many messages of the own partitions are not folded yet; those that windows keep open are."""
        return sum(self._consumer.end(partition) - self._folded(partition) for partition in self._consumer.assigned())

    def close(self) -> None:
        """Leave the group and free the connections."""
        self._writing.close()
        self._consumer.close()

    def _commit_folded(self) -> None:
        moved = {}
        for partition, reading in self._readings.items():
            at = reading.position()
            if at is not None and at != reading.committed:
                moved[partition] = at
        if moved:
            self._consumer.commit(moved)
        for partition, at in moved.items():
            self._readings[partition].committed = at
        self._measures.set(
            "scalewatch_collector_series", sum(reading.series_held() for reading in self._readings.values())
        )

    def _folded(self, partition: TopicPartition) -> int:
        reading = self._readings.get(partition)
        at = None if reading is None else reading.next_offset
        return self._consumer.beginning(partition) if at is None else at

    def _follow(self, change: Assignment) -> None:
        """Drop the windows of lost partitions, and begin gained ones where their windows can fill again."""
        for partition in change.lost:
            self._readings.pop(partition, None)
        for partition in change.gained:
            self._begin(partition)
        if change.lost or change.gained:
            self._telling = deque(one for one in self._telling if one in self._readings and one not in change.gained)

    def _begin(self, partition: TopicPartition) -> None:
        topic, number = partition
        committed = self._consumer.committed(partition)
        if committed is not None:
            self._consumer.seek(partition, committed.offset)
        windows = self._routes.windows(f"{topic}/{number}", "" if committed is None else committed.metadata)
        self._readings[partition] = Reading(self._routes.source(topic), windows, committed)

    def _take(self, batch: Batch) -> None:
        reading = self._readings[batch.topic, batch.partition]
        decode, first = reading.source.decode, 0
        if decode is not None:
            first = self._take_jobs(batch, reading, decode)
        if first < len(batch.values):
            self._take_samples(batch, reading, first)
        else:
            reading.take(batch, first, NO_SAMPLES, NO_MESSAGES)
        if reading.part is not None:
            self._telling.append((batch.topic, batch.partition))
            self._consumer.pause([(batch.topic, batch.partition)])

    def _take_jobs(self, batch: Batch, reading: Reading, decode: Decode) -> int:
        """Take messages of jobs up to the first that may be something else; return which that is."""
        source = reading.source
        for at, (value, timestamp_ms) in enumerate(zip(batch.values, batch.timestamps_ms, strict=True)):
            try:
                decoded = decode(value if value is not None else b"", timestamp_ms)
            except InvalidInputError as error:
                decoded = Decoded(rejects=[error])
            if decoded.rejects and source.telemetry is not None:
                return at
            self._writing.message(decoded, source, _origin(batch, at), value, timestamp_ms)
        return len(batch.values)

    def _take_samples(self, batch: Batch, reading: Reading, first: int) -> None:
        """Take messages from number `first` on as a slice: samples into windows, all else as from any message."""
        decoded = reading.decode(batch.values[first:], batch.timestamps_ms[first:])
        others = _by_message(decoded)
        samples, message = self._accepted(decoded, reading, others)
        for at, other in sorted(others.items()):
            place = first + at
            value, timestamp_ms = batch.values[place], batch.timestamps_ms[place]
            self._writing.message(other, reading.source, _origin(batch, place), value, timestamp_ms)
        reading.take(batch, first, samples, message)
        self._meter.samples(reading.source.format, reading.counts())

    def _accepted(
        self, decoded: DecodedBatch, reading: Reading, others: dict[int, Decoded]
    ) -> tuple[Samples, "np.ndarray[tuple[int], np.dtype[np.int32]]"]:
        """Return the samples of systems that are accepted; each other system is refused once, with its first message."""
        samples, message = decoded.samples, decoded.sample_message
        if not len(message):
            return samples, message
        good = reading.accepted(samples.series, lambda system: self._routes.partition(system) is not None)
        if good.all():
            return samples, message
        refused: set[str] = set()
        for at in np.flatnonzero(~good).tolist():
            system = reading.system(int(samples.series[at]))
            if system not in refused:
                refused.add(system)
                others.setdefault(int(message[at]), Decoded()).rejects.append(unknown_system(system))
        self._meter.samples(reading.source.format, {"unknown_system": int((~good).sum())})
        return samples.take(good), message[good]

    def _tell(self, now_ms: int) -> None:
        """Write one part of the minutes that are due; partitions take turns."""
        if not self._telling:
            return
        partition = self._telling.popleft()
        reading = self._readings[partition]
        if reading.part is not None:
            for event in reading.part():
                self._writing.minute(event, now_ms)
        reading.advance()
        if reading.part is not None:
            self._telling.append(partition)
        else:
            self._consumer.resume([partition])


NO_MESSAGES = np.zeros(0, np.int32)
NO_SAMPLES = Samples(NO_MESSAGES, np.zeros(0, np.int64), np.zeros(0))


def _origin(batch: Batch, at: int) -> Origin:
    return Origin(batch.topic, batch.partition, batch.offsets[at])


def _by_message(decoded: DecodedBatch) -> dict[int, Decoded]:
    """Return what is no sample by the number of its message, in one piece each."""
    found: dict[int, Decoded] = {}
    for at, parts in itertools.groupby(sorted(decoded.others, key=lambda other: other[0]), key=lambda other: other[0]):
        one = found[at] = Decoded()
        for _, part in parts:
            one.events += part.events
            one.rejects += part.rejects
            one.unknown_fields += part.unknown_fields
            for reason, count in part.ignored.items():
                one.ignored[reason] = one.ignored.get(reason, 0) + count
    return found
