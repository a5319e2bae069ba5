"""The collector: it decodes what producers send and writes facts with natural identities into the journal.

Its loop is: poll, write, tick, flush, commit.

It keeps no stored state. What it wrote and did not commit is written again after a crash, under the same identities;
where windows are open it commits the offset of the first record that they still need, and reads again from there.
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Final, Protocol, TypeVar

import msgspec
import numpy as np

from agent.collector.deadletters import Allowance, DeadLetterWriter, Refusal
from agent.collector.reading import Reading, Source, Waits, others_by_message
from agent.collector.recorder import Attempt, Attempts, Recorder, left_out
from agent.collector.sources import Taken
from agent.collector.watermark import Watermark
from processors.contracts.errors import InvalidInputError, RebalancingError, UnavailableError, defect
from processors.contracts.events import (
    CollectorReport,
    DeadLetter,
    Decode,
    Decoded,
    HostMinute,
    JobEvent,
    JournalRecord,
    Origin,
    Tick,
    encode_record,
)
from processors.contracts.log import Assignment, Batch, Log, Producer, TopicPartition
from processors.contracts.service import Measures
from processors.contracts.telemetry import DecodedBatch, MakeWindows, Samples

_LOG = logging.getLogger("scalewatch.collector")
UNUSED: Final = {
    "metric": "unwanted",
    "series": "series_max",
    "null": "null",
    "no-number": "no_number",
    "negative": "negative",
    "too_large": "too_large",
    "unknown-host": "unknown_host",
    "shared": "shared",
    "unit": "no_unit",
    "second-sensor": "second_sensor",
}  # what decoders leave out of samples, and as what it counts
GAP_LOOK_S: Final = 10.0  # where producers use transactions every batch has gaps, and each look asks the broker
REBALANCE_MAX_S: Final = 900.0  # a rebalance waits 300 s for a member that works: beyond this it is another fault
AFTER_ALL: Final = frozenset(("repeated", "thinned"))  # of samples that were taken

Fact = TypeVar("Fact", bound=JobEvent | HostMinute)
Report = Callable[[], CollectorReport | None]


def unreported() -> CollectorReport | None:
    """Report nothing."""
    return None


class Privacy(Protocol):
    """Rewrites what an event says of people, and bounds it."""

    def __call__(self, event: Fact, /, left_out: Callable[[str], object] = ...) -> Fact:
        """Return the event as it may be written; `left_out` is told the bounds at which something was left out."""


class Routes(msgspec.Struct, frozen=True):
    """Everything that depends on the configuration.

    `source` tells how a topic is decoded and `source_name` what it is called in the configuration, `partition` the journal partition of a system (None: not accepted),
    `privacy` rewrites what an event says of people, `windows` makes those of a source partition. Events that need more
    than `record_bytes_max` are refused: what the learner makes of one, its state and its settled run, has to fit into a
    record, too. Between two commits pass `commit_s`. Dead letters have `deadletter_bytes_per_s_max` on average; more are counted only.
    The windows of a partition that was idle for `partition_idle_s` are ended; its source need not be silent.
    """

    topics: tuple[str, ...]
    source: Callable[[str], Source]
    source_name: Callable[[str], str]
    partition: Callable[[str], int | None]
    privacy: Privacy
    dead_letter: Callable[[Refusal], DeadLetter]
    windows: MakeWindows
    journal_topic: str
    journal_partitions: int
    deadletter_topic: str
    group: str
    deadletter_bytes_per_s_max: float
    tick_ms: int = 200
    flush_timeout_s: float = 30.0
    commit_s: float = 1.0
    partition_idle_s: float = 900.0
    record_bytes_max: int = 400_000
    hold_back_max_s: float = 900.0


class Meter:
    """What a collector measures: gathered while it decodes and told once a batch, because a metric costs as much as an event.

    `monotonic_s` is a clock that only grows, `source_name` tells what a topic is called in the configuration.
    """

    def __init__(self, measures: Measures, monotonic_s: Callable[[], float], source_name: Callable[[str], str]) -> None:
        self._measures = measures
        self._source_name = source_name
        self._monotonic_s = monotonic_s
        self._events: Counter[tuple[str, str]] = Counter()
        self._reasons: Counter[str] = Counter()
        self._sources: Counter[str] = Counter()
        self.dead_letters: Counter[str] = Counter()  # since the start
        self._left_out: Counter[str] = Counter()
        self._bounds: Counter[str] = Counter()
        self._minutes = 0

    def decoded(self, format_name: str, decoded: Decoded) -> None:
        """Count the parts of a message by what became of them."""
        self._events[format_name, "processed"] += len(decoded.events)
        if decoded.rejects:
            self._events[format_name, "rejected"] += len(decoded.rejects)
        if decoded.ignored:
            self._events[format_name, "dropped"] += sum(decoded.ignored.values())
            for what in UNUSED.keys() & decoded.ignored.keys():
                self._left_out[UNUSED[what]] += decoded.ignored[what]
            if "series" in decoded.ignored:
                self.bound("collector_series_max")

    def samples(self, format_name: str, counts: Mapping[str, int]) -> None:
        """Count what became of samples: `taken`, or why they were left out."""
        for what, count in counts.items():
            if what == "taken":
                self._events[format_name, "processed"] += count
                continue
            self._left_out[what] += count
            if what not in AFTER_ALL:
                self._events[format_name, "dropped"] += count

    def bound(self, name: str) -> None:
        """Count that a bound was reached."""
        self._bounds[name] += 1

    def minute(self) -> None:
        """Count a minute of a host."""
        self._minutes += 1

    def refused(self, topic: str, reason: str, parts: int) -> None:
        """Count the parts of a message of a topic that are refused for a reason; a whole one is one."""
        self._reasons[reason] += parts
        self._sources[self._source_name(topic)] += parts
        self.dead_letters[reason] += parts

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Time the work on one poll, its flush and commit included, and tell what was counted."""
        began_s = self._monotonic_s()
        yield
        self._report()
        self._measures.observe("scalewatch_batch_duration_seconds", self._monotonic_s() - began_s, role="collector")

    def _report(self) -> None:
        for (format_name, outcome), count in self._events.items():
            self._count(format_name, outcome, count)
            self._count(format_name, "received", count)
        for reason, count in self._reasons.items():
            self._measures.add("scalewatch_dead_letters_total", count, reason=reason)
        for source, count in self._sources.items():
            self._measures.add("scalewatch_source_dead_letters_total", count, source=source)
        for reason, count in self._left_out.items():
            if count:
                self._measures.add("scalewatch_samples_left_out_total", count, reason=reason)
        for bound, count in self._bounds.items():
            self._measures.add("scalewatch_bounds_hit_total", count, bound=bound)
        if self._minutes:
            self._measures.add("scalewatch_collector_host_records_total", self._minutes)
        self._events.clear()
        self._reasons.clear()
        self._sources.clear()
        self._left_out.clear()
        self._bounds.clear()
        self._minutes = 0

    def _count(self, format_name: str, outcome: str, count: int) -> None:
        if count:
            self._measures.add("scalewatch_events_total", count, role="collector", format=format_name, outcome=outcome)


class Writing:
    """What the collector writes: events and minutes of hosts into the journal, dead letters, and the time.

    It knows whether anything is not yet acknowledged.
    """

    def __init__(
        self, producer: Producer, routes: Routes, meter: Meter, report: Report, monotonic_s: Callable[[], float]
    ) -> None:
        self._producer = producer
        self._report = report
        self._routes = routes
        self._meter = meter
        allowance = Allowance(routes.deadletter_bytes_per_s_max, monotonic_s)
        self._dead_letters = DeadLetterWriter(self._send_dead_letter, routes.dead_letter, meter, allowance)
        self._last_tick_ms: int | None = None
        self.sent = False

    def message(self, decoded: Decoded, source: Source, origin: Origin, value: bytes | None, timestamp_ms: int) -> None:
        """Write what one message yielded: its events, and its refused parts as dead letters."""
        events: list[JobEvent] = []
        for event in decoded.events:
            try:
                self._event(event, origin, timestamp_ms)
            except InvalidInputError as error:
                decoded.rejects.append(error)
            else:
                events.append(event)
        decoded.events = events
        if decoded.rejects:
            self._dead_letters.write(decoded.rejects, origin, source.format, value, timestamp_ms)
        self._meter.decoded(source.format, decoded)

    def minute(self, event: HostMinute, now_ms: int) -> None:
        """Write a minute of a host whose system is accepted."""
        partition = self._routes.partition(event.system)
        if partition is not None:
            event = self._routes.privacy(event)
            value = encode_record(JournalRecord(event=event))
            while len(value) > self._routes.record_bytes_max:  # a host with a thousand disks; better some than none
                some = dict(list(event.resources.items())[: len(event.resources) // 2])
                event = msgspec.structs.replace(event, resources=some)
                value = encode_record(JournalRecord(event=event))
                self._meter.bound("host_minute_bytes_max")
            self._send(self._routes.journal_topic, value, None, partition, now_ms)
            self._meter.minute()

    def tick(self, now_ms: int, collector: str, until_ms: int | None) -> None:
        """Write the tick that is due, with the time until which this collector lets time pass."""
        tick_ms = now_ms - now_ms % self._routes.tick_ms
        if tick_ms == self._last_tick_ms:  # a clock that was set back ticks on from there
            return
        self._last_tick_ms = tick_ms
        tick = Tick(system="", time_ms=tick_ms, collector=collector, until_ms=until_ms)
        value = encode_record(JournalRecord(event=tick, collector=self._report()))
        for partition in range(self._routes.journal_partitions):
            self._send(self._routes.journal_topic, value, None, partition, tick_ms)

    def flush(self) -> None:
        """Wait until every write is acknowledged. Raises UnavailableError."""
        if self.sent:
            self._producer.flush(self._routes.flush_timeout_s)
            self.sent = False

    def close(self) -> None:
        """Free the connections."""
        self._producer.close()

    def _event(self, event: JobEvent, origin: Origin, timestamp_ms: int) -> None:
        partition = self._routes.partition(event.system)
        if partition is None:
            raise unknown_system(event.system)
        try:
            value = encode_record(JournalRecord(event=self._routes.privacy(event, self._meter.bound), origin=origin))
        except Exception as error:  # a decoder let something through that no record can hold
            raise defect(error) from error
        if len(value) > self._routes.record_bytes_max:
            detail = f"The event needs {len(value)} bytes; {self._routes.record_bytes_max} are allowed."
            raise InvalidInputError("too-large", detail)
        self._send(self._routes.journal_topic, value, None, partition, timestamp_ms)

    def _send_dead_letter(self, value: bytes, key: bytes, timestamp_ms: int) -> None:
        self._send(self._routes.deadletter_topic, value, key, None, timestamp_ms)

    def _send(self, topic: str, value: bytes, key: bytes | None, partition: int | None, timestamp_ms: int) -> None:
        self.sent = True
        self._producer.send(topic, value, key, partition, timestamp_ms)


def unknown_system(system: str) -> InvalidInputError:
    """Return the refusal of what is of a system that is not accepted."""
    return InvalidInputError("unknown-system", f"The system {system[:40]!r} is not listed in the configuration.")


class Collector:
    """One member of the group of collectors. Any error but InvalidInputError ends it: make a new one.

    `monotonic_s` is a clock that only grows. `report` is asked at each tick for what to write beside it. `recorder`
    outlives the process and knows what it was reading.
    Ticks carry `name`, by default that of the member.
    """

    def __init__(
        self,
        log: Log,
        routes: Routes,
        measures: Measures,
        member: str,
        *,
        monotonic_s: Callable[[], float],
        report: Report = unreported,
        recorder: Recorder | None = None,
        name: str = "",
    ) -> None:
        self._recorder = recorder or Recorder()
        self._routes, self._name = routes, name or member
        self._measures = measures
        self._monotonic_s = monotonic_s
        self._meter = Meter(measures, monotonic_s, routes.source_name)
        self._consumer = log.consumer(routes.group, routes.topics, member=member)
        self._writing = Writing(log.producer(), routes, self._meter, report, monotonic_s)
        self._readings: dict[TopicPartition, Reading] = {}
        self._reporting: deque[TopicPartition] = deque()  # partitions with minutes on their way
        self._waits = Waits(self._consumer)
        self._watermark = Watermark(self._consumer, routes.hold_back_max_s, monotonic_s)
        self._committed_s = -math.inf
        self._refused_s: float | None = None  # since when commits are refused
        self._gaps_s: dict[TopicPartition, float] = {}  # when a gap was looked into last

    def step(self, now_ms: int, timeout_s: float) -> int:
        """Work off one poll and write the tick that is due; return the number of messages taken.

        Steps: (1) poll; (2) write events, dead letters and one part of the minutes that are due; (3) write the tick;
        (4) flush, every write is acknowledged; (5) commit. The last two come at most every `commit_s`. A crash between
        any two repeats writes and loses none. While the minutes of a partition are on their way it is not read, nor while its
        next message cannot be decoded yet.
        """
        for partition in self._waits.over():
            self._read_on(partition)
        poll = self._consumer.poll(0.0 if self._reporting else timeout_s)
        self._follow(poll.assignment)
        with self._meter.batch() if poll.batches or self._reporting else nullcontext():
            for batch in poll.batches:
                self._take(batch)
            self._report(now_ms)
            self._close_idle()
            until_ms = self._watermark.until_ms(now_ms, self._readings)
            if self._watermark.started:
                self._writing.tick(now_ms, self._name, until_ms)
            if self._monotonic_s() - self._committed_s >= self._routes.commit_s:
                self.commit()
        return sum(len(batch.values) for batch in poll.batches)

    def commit(self) -> None:
        """Flush (4) and commit (5) what was folded; what still is on its way is read again after a crash."""
        self._writing.flush()
        try:
            self._commit_folded()
            self._refused_s = None
        except RebalancingError:  # what is lost is dropped at the next poll, the rest is committed after it
            now_s = self._monotonic_s()
            if self._refused_s is None:
                self._refused_s = now_s
            if now_s - self._refused_s > REBALANCE_MAX_S:
                raise
        self._committed_s = self._monotonic_s()

    def assigned(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this member reads."""
        return tuple(sorted(self._consumer.assigned()))

    def lag(self) -> int:
        """Return how many messages of the own partitions are not folded yet; those that windows keep open are."""
        return sum(self._consumer.end(partition) - self._folded(partition) for partition in self._consumer.assigned())

    def reporting(self) -> bool:
        """Return whether minutes are on their way, so that their partitions are not read."""
        return bool(self._reporting)

    def waiting(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that are not read because their next message cannot be decoded yet."""
        return tuple(self._waits.partitions)

    def taken(self) -> dict[TopicPartition, Taken]:
        """Return how far each of the own partitions is taken."""
        return {one: Taken(reading.next_offset or 0, reading.newest_ms) for one, reading in self._readings.items()}

    def dead_letters(self) -> dict[str, int]:
        """Return how many dead letters were written since the start, by reason."""
        return dict(self._meter.dead_letters)

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
            "scalewatch_collector_series", sum(reading.series_count() for reading in self._readings.values())
        )
        self._measures.set("scalewatch_collector_partitions_waiting", len(self._waits.partitions))
        self._measures.set("scalewatch_time_held_back_seconds", self._watermark.held_back_s)

    def _folded(self, partition: TopicPartition) -> int:
        reading = self._readings.get(partition)
        at = None if reading is None else reading.next_offset
        return self._consumer.beginning(partition) if at is None else at

    def _follow(self, change: Assignment) -> None:
        """Drop the windows of lost partitions, and begin gained ones where their windows can fill again."""
        for partition in change.lost:
            self._readings.pop(partition, None)
        self._waits.forget((*change.lost, *change.gained))
        self._watermark.follow(change)
        for partition in change.gained:
            self._begin(partition)
        if change.lost or change.gained:
            self._reporting = deque(
                one for one in self._reporting if one in self._readings and one not in change.gained
            )

    def _begin(self, partition: TopicPartition) -> None:
        topic, number = partition
        committed = self._consumer.committed(partition)
        first = None if committed is None else max(committed.offset, self._consumer.beginning(partition))
        if committed is not None and first is not None:
            self._consumer.seek(partition, first)
            self._count_deleted(partition, first - committed.offset)
        metadata = "" if committed is None else committed.metadata
        attempts = Attempts(partition, metadata, self._recorder.attempts())
        windows = self._routes.windows(f"{topic}/{number}", attempts.windows)
        reading = Reading(self._routes.source(topic), windows, committed, self._monotonic_s(), attempts)
        reading.next_offset = first
        self._readings[partition] = reading

    def _count_gap(self, partition: TopicPartition, expected: int | None, first: int) -> None:
        """Count what was deleted while this member was behind; a broker also needs offsets for transactions of its own."""
        now_s = self._monotonic_s()
        if expected is None or first <= expected or now_s < self._gaps_s.get(partition, -math.inf) + GAP_LOOK_S:
            return
        self._gaps_s[partition] = now_s
        self._count_deleted(partition, min(first, self._consumer.beginning(partition)) - expected)

    def _count_deleted(self, partition: TopicPartition, count: int) -> None:
        """Count and tell records that the topic's retention deleted before they were read."""
        if count > 0:
            topic, number = partition
            _LOG.warning(
                "%d records of %s/%d were deleted before they were read: keep the topic for longer.",
                count,
                topic,
                number,
            )
            source = self._routes.source_name(topic)
            self._measures.add("scalewatch_source_records_deleted_total", count, source=source)

    def _close_idle(self) -> None:
        """Close the windows of partitions that have said nothing for long: they would hold back the offset for ever.

        Minutes are told as far as they have begun, and the next record finds what it would find after a restart.
        """
        now_s = self._monotonic_s()
        for partition, reading in self._readings.items():
            if reading.part is not None or now_s - reading.spoke_s < self._routes.partition_idle_s:
                continue
            at, reading.spoke_s = reading.position(), now_s
            if at is not None and at.offset != reading.next_offset and self._all_read(partition, reading):
                reading.end()
                self._hold(partition, reading)

    def _all_read(self, partition: TopicPartition, reading: Reading) -> bool:
        """Return whether a partition is idle, and not just out of reach."""
        try:
            return self._consumer.end(partition) == reading.next_offset
        except UnavailableError:
            return False

    def _hold(self, partition: TopicPartition, reading: Reading) -> None:
        """Read no more of a partition while minutes are on their way."""
        if reading.part is not None:
            self._reporting.append(partition)
            self._consumer.pause([partition])
        elif reading.ended:
            self._begin_anew(partition, reading)

    def _begin_anew(self, partition: TopicPartition, ended: Reading) -> None:
        topic, number = partition
        windows = self._routes.windows(f"{topic}/{number}", ended.resume())
        reading = Reading(ended.source, windows, ended.committed, self._monotonic_s(), ended.attempts)
        reading.next_offset = ended.next_offset
        self._readings[partition] = reading

    def _read_on(self, partition: TopicPartition) -> None:
        if partition not in self._waits.partitions and partition not in self._reporting:
            self._consumer.resume([partition])

    def _take(self, batch: Batch) -> None:
        reading = self._readings[batch.topic, batch.partition]
        reading.spoke_s = self._monotonic_s()
        batch = self._waits.ready(batch, reading.source)
        if not batch.values:
            return
        partition = (batch.topic, batch.partition)
        self._count_gap(partition, reading.next_offset, batch.offsets[0])
        if reading.attempts.any(batch):
            self.commit()  # so the next reader of the partition knows of the attempts, whatever happens here
        for part, attempt in reading.attempts.parts(batch):
            if reading.part is not None:  # the minutes of the part before are on their way
                self._consumer.seek(partition, attempt.first)
                break
            with self._recorder.reading(attempt):
                self._take_part(part, reading, attempt)
        self._hold(partition, reading)

    def _take_part(self, batch: Batch, reading: Reading, attempt: Attempt) -> None:
        decode, first = reading.source.decode, 0
        if attempt.hopeless:
            value, timestamp_ms = batch.values[0], batch.timestamps_ms[0]
            self._writing.message(left_out(attempt), reading.source, _origin(batch, 0), value, timestamp_ms)
            first = 1
        elif decode is not None:
            first = self._take_jobs(batch, reading, decode)
        if first < len(batch.values):
            self._take_samples(batch, reading, first)
        else:
            reading.take(batch, first, NO_SAMPLES, NO_MESSAGES)

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
            reading.note(decoded.events, timestamp_ms)
        return len(batch.values)

    def _take_samples(self, batch: Batch, reading: Reading, first: int) -> None:
        """Take messages from number `first` on as a slice: samples into windows, all else as from any message."""
        decoded = reading.decode(batch.values[first:], batch.timestamps_ms[first:])
        others = others_by_message(decoded)
        samples, message = self._accepted(decoded, reading, others)
        for at, other in sorted(others.items()):
            place = first + at
            value, timestamp_ms = batch.values[place], batch.timestamps_ms[place]
            self._writing.message(other, reading.source, _origin(batch, place), value, timestamp_ms)
            reading.note(other.events, timestamp_ms)
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

    def _report(self, now_ms: int) -> None:
        """Write one part of the minutes that are due; partitions take turns."""
        if not self._reporting:
            return
        partition = self._reporting.popleft()
        reading = self._readings[partition]
        if reading.part is not None:
            for event in reading.part():
                self._writing.minute(event, now_ms)
        reading.advance()
        if reading.part is not None:
            self._reporting.append(partition)
            return
        self._read_on(partition)
        if reading.ended:
            self._begin_anew(partition, reading)


NO_MESSAGES = np.zeros(0, np.int32)
NO_SAMPLES = Samples(NO_MESSAGES, np.zeros(0, np.int64), np.zeros(0))


def _origin(batch: Batch, at: int) -> Origin:
    return Origin(batch.topic, batch.partition, batch.offsets[at])
