"""The collector decodes the messages of producers, and writes facts with natural identities into the journal.

The loop of the collector has five steps: poll, write, tick, flush, commit.

The collector stores no state. After a crash it writes uncommitted records again, with the same identities. While windows are
open, the collector commits the offset of the first record that an open window still needs. A restarted collector reads from
that offset.
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Final, Protocol, TypeVar

import msgspec
import numpy as np

from agent.collector.deadletters import Allowance, Complaints
from agent.collector.reading import PartitionReading, SourceDecoders, SourceWindows, WaitingPartitions, Watermark
from agent.collector.recorder import Attempt, Attempts, Recorder, left_out
from agent.collector.sources import PartitionProgress
from agent.config.tree import Config
from processors.contracts.errors import DECODER, InvalidInputError, RebalancingError, UnavailableError, defect
from processors.contracts.events import (
    CollectorReport,
    DeadLetter,
    Decode,
    Decoded,
    HostMinute,
    JobEvent,
    JournalRecord,
    Origin,
    Refusal,
    Tick,
    by_reason,
    encode_record,
)
from processors.contracts.log import FLUSH_TIMEOUT_S, Assignment, Batch, Log, Position, Producer, TopicPartition
from processors.contracts.service import Measures
from processors.contracts.telemetry import DecodedBatch, Samples

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
}  # reasons why a decoder ignores a sample, and their names in the metric
# time between look-ups: with transactional producers every batch has gaps, and each look-up is a request to the broker
GAP_LOOK_S: Final = 10.0
REBALANCE_MAX_S: Final = 900.0  # a rebalance waits 300 s for a busy member, so a longer rebalance has another cause
AFTER_ALL: Final = frozenset(("repeated", "thinned"))  # samples with these outcomes also count as taken

Fact = TypeVar("Fact", bound=JobEvent | HostMinute)
Report = Callable[[], CollectorReport | None]


class Privacy(Protocol):
    """Removes or replaces the user names in an event, and limits the length of its texts."""

    def __call__(self, event: Fact, /, left_out: Callable[[str], object] = ...) -> Fact:
        """Return the event with private fields replaced; `left_out` is called with the name of each limit that cut off text."""


class Routes(msgspec.Struct, frozen=True):
    """The settings of a collector that depend on the configuration.

    `source` returns the decoders of a topic, and `source_name` the name of the topic's source in the configuration. `privacy`
    rewrites user names. `windows` creates the windows of a source partition. An event larger than `record_bytes_max` is
    refused, because the learner must fit its own state of the event, and later the settled run, into a record. `commit_s` is
    the time between two commits. Dead letters may use `deadletter_bytes_per_s_max` on average; beyond that they are only
    counted. If a partition is idle for `partition_idle_s`, its windows are closed, even while other partitions of the source
    are active.
    """

    config: Config
    topics: tuple[str, ...]
    source: Callable[[str], SourceDecoders]
    source_name: Callable[[str], str]
    privacy: Privacy
    windows: Callable[[str, str], SourceWindows]
    deadletter_bytes_per_s_max: float
    dead_letter: Callable[[Refusal], DeadLetter]
    commit_s: float = 1.0
    partition_idle_s: float = 900.0
    record_bytes_max: int = 400_000
    hold_back_max_s: float = 900.0


class CollectorMeter:
    """Counts of a collector, collected while it decodes and published once per poll, because setting a metric is expensive.

    `monotonic_s` is a clock that never goes back; `source_name` returns the name of a topic in the configuration.
    """

    def __init__(self, measures: Measures, monotonic_s: Callable[[], float], source_name: Callable[[str], str]) -> None:
        self._measures = measures
        self._source_name = source_name
        self._monotonic_s = monotonic_s
        self._events: Counter[tuple[str, str]] = Counter()  # number of events by format and outcome
        # count by metric, label name and label value; a metric without labels has empty texts
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self.dead_letters: Counter[str] = Counter()  # number since the start, by reason

    def decoded(self, format_name: str, decoded: Decoded) -> None:
        """Count the events, refusals and ignored parts of a decoded message."""
        self._events[format_name, "processed"] += len(decoded.events)
        if decoded.rejects:
            self._events[format_name, "rejected"] += len(decoded.rejects)
        if decoded.ignored:
            self._events[format_name, "dropped"] += sum(decoded.ignored.values())
            for reason in UNUSED.keys() & decoded.ignored.keys():
                self._counts["scalewatch_samples_left_out_total", "reason", UNUSED[reason]] += decoded.ignored[reason]
            if "series" in decoded.ignored:
                self.bound("collector_series_max")

    def samples(self, format_name: str, counts: Mapping[str, int]) -> None:
        """Count samples by outcome: `taken`, or the reason why they were left out."""
        for outcome, count in counts.items():
            if outcome == "taken":
                self._events[format_name, "processed"] += count
                continue
            self._counts["scalewatch_samples_left_out_total", "reason", outcome] += count
            if outcome not in AFTER_ALL:
                self._events[format_name, "dropped"] += count

    def bound(self, name: str) -> None:
        """Count that the limit `name` was reached."""
        self._counts["scalewatch_bounds_hit_total", "bound", name] += 1

    def minute(self) -> None:
        self._counts["scalewatch_collector_host_records_total", "", ""] += 1

    def refused(self, topic: str, reason: str, parts: int) -> None:
        """Count the refused parts of a message from a topic; a whole message counts as one part."""
        self._counts["scalewatch_dead_letters_total", "reason", reason] += parts
        self._counts["scalewatch_source_dead_letters_total", "source", self._source_name(topic)] += parts
        self.dead_letters[reason] += parts

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Measure the duration of a block that processes one poll, flush and commit included, and publish the counts at its end."""
        began_s = self._monotonic_s()
        yield
        self._report()
        self._measures.observe("scalewatch_batch_duration_seconds", self._monotonic_s() - began_s, role="collector")

    def _report(self) -> None:
        for (format_name, outcome), count in self._events.items():
            labels = {"role": "collector", "format": format_name}
            for label in (outcome, "received") if count else ():
                self._measures.add("scalewatch_events_total", count, **labels, outcome=label)
        for (metric, label, value), count in self._counts.items():
            if count:
                self._measures.add(metric, count, **({label: value} if label else {}))
        self._events.clear()
        self._counts.clear()


class Writing:
    """Writes events, host minutes and ticks into the journal, and dead letters into their topic.

    `sent` is true if a write may be unacknowledged.
    """

    def __init__(
        self,
        producer: Producer,
        routes: Routes,
        meter: CollectorMeter,
        report: Report,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._producer = producer
        self._report = report
        self._routes, self._config = routes, routes.config
        self._meter = meter
        self._allowance = Allowance(routes.deadletter_bytes_per_s_max, monotonic_s)
        self._complaints = Complaints(_LOG)
        self._last_tick_ms: int | None = None
        self.sent = False

    def message(
        self, decoded: Decoded, source: SourceDecoders, origin: Origin, value: bytes | None, timestamp_ms: int
    ) -> None:
        """Write the events of one message, and its refused parts as dead letters."""
        events: list[JobEvent] = []
        for event in decoded.events:
            try:
                self._event(event, origin, timestamp_ms)
            except InvalidInputError as error:
                decoded.rejects.append(error)
            else:
                events.append(event)
        decoded.events = events
        for refused in by_reason(decoded.rejects):
            self._dead_letter(Refusal(origin, refused, source.format, value, timestamp_ms))
        self._meter.decoded(source.format, decoded)

    def minute(self, event: HostMinute, now_ms: int) -> None:
        """Write a host minute, unless its system is not accepted."""
        partition = self._config.journal_partition(event.system)
        if partition is not None:
            event = self._routes.privacy(event)
            value = encode_record(JournalRecord(event=event))
            # a host may have a thousand disks: some of its resources are better than none
            while len(value) > self._routes.record_bytes_max:
                half = dict(list(event.resources.items())[: len(event.resources) // 2])
                event = msgspec.structs.replace(event, resources=half)
                value = encode_record(JournalRecord(event=event))
                self._meter.bound("host_minute_bytes_max")
            self._send(self._config.topics.journal, value, None, partition, now_ms)
            self._meter.minute()

    def tick(self, now_ms: int, collector: str, until_ms: int | None) -> None:
        """Write a tick if one is due. `until_ms` is the latest time to which this collector lets the clock of the journal advance."""
        tick_ms = now_ms - now_ms % round(self._config.collector.tick_s * 1000)
        if tick_ms == self._last_tick_ms:  # after the clock was set back, ticks continue from the new time
            return
        self._last_tick_ms = tick_ms
        tick = Tick(system="", time_ms=tick_ms, collector=collector, until_ms=until_ms)
        value = encode_record(JournalRecord(event=tick, collector=self._report()))
        for partition in range(self._config.topics.journal_partitions):
            self._send(self._config.topics.journal, value, None, partition, tick_ms)

    def flush(self) -> None:
        """Wait until every write is acknowledged. Raise UnavailableError if the broker cannot be reached."""
        if self.sent:
            self._producer.flush(FLUSH_TIMEOUT_S)
            self.sent = False

    def close(self) -> None:
        self._producer.close()

    def _event(self, event: JobEvent, origin: Origin, timestamp_ms: int) -> None:
        partition = self._config.journal_partition(event.system)
        if partition is None:
            raise unknown_system(event.system)
        try:
            value = encode_record(JournalRecord(event=self._routes.privacy(event, self._meter.bound), origin=origin))
        except Exception as error:  # the decoder returned a value that no record can hold
            raise defect(error) from error
        if len(value) > self._routes.record_bytes_max:
            detail = f"The event needs {len(value)} bytes; {self._routes.record_bytes_max} are allowed."
            raise InvalidInputError("too-large", detail)
        self._send(self._config.topics.journal, value, None, partition, timestamp_ms)

    def _dead_letter(self, refusal: Refusal) -> None:
        """Write a dead letter; beyond the byte allowance it is only counted."""
        error = refusal.refused.error
        self._meter.refused(refusal.origin.topic, error.reason, refusal.refused.count)
        if error.reason == DECODER:
            self._complaints.add(refusal.origin, str(error))
        letter = self._routes.dead_letter(refusal)
        value = msgspec.json.encode(letter)
        if self._allowance.spend(len(value)):
            self._send(self._config.topics.deadletters, value, letter.id.encode(), None, refusal.timestamp_ms)
        else:
            self._meter.bound("deadletter_bytes_per_s_max")

    def _send(self, topic: str, value: bytes, key: bytes | None, partition: int | None, timestamp_ms: int) -> None:
        self.sent = True
        self._producer.send(topic, value, key, partition, timestamp_ms)


def unknown_system(system: str) -> InvalidInputError:
    """Return the error for a record whose system is not accepted."""
    return InvalidInputError("unknown-system", f"The system {system[:40]!r} is not listed in the configuration.")


class Collector:
    """One member of the consumer group of collectors. After any error except InvalidInputError, replace it by a new collector.

    `monotonic_s` is a clock that never goes back. `report` is called at each tick, and its result is written together with the
    tick. `recorder` outlives the process and holds the records being read. Ticks carry `name`, by default the member's name.
    """

    def __init__(
        self,
        log: Log,
        routes: Routes,
        measures: Measures,
        member: str,
        *,
        monotonic_s: Callable[[], float],
        report: Report = lambda: None,
        recorder: Recorder | None = None,
        name: str = "",
    ) -> None:
        self._recorder = recorder or Recorder()
        self._routes, self._name = routes, name or member
        self._measures = measures
        self._monotonic_s = monotonic_s
        self._meter = CollectorMeter(measures, monotonic_s, routes.source_name)
        self._consumer = log.consumer(routes.config.collector_group, routes.topics, member=member)
        self._writing = Writing(log.producer(), routes, self._meter, report, monotonic_s)
        self._readings: dict[TopicPartition, PartitionReading] = {}
        self._reporting: deque[TopicPartition] = deque()  # partitions whose minutes are being written
        self._waits = WaitingPartitions(self._consumer)
        self._watermark = Watermark(self._consumer, routes.hold_back_max_s, monotonic_s)
        self._committed_s = -math.inf
        self._refused_s: float | None = None  # time when the broker began to refuse commits
        self._gaps_s: dict[TopicPartition, float] = {}  # time of the last look-up of a gap

    def step(self, now_ms: int, timeout_s: float) -> int:
        """Process one poll, and write a tick if one is due; return the number of messages polled.

        Steps: (1) poll; (2) write events, dead letters and one part of the due minutes; (3) write the tick; (4) flush, so that
        every write is acknowledged; (5) commit. Steps 4 and 5 run at most once every `commit_s`. A crash between two steps may
        repeat writes, but loses none. A partition stays paused while its minutes are being written, and while its next message
        cannot be decoded yet.
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
        """Flush (4) and commit (5) all processed records; minutes that are still being written are read again after a crash."""
        self._writing.flush()
        try:
            self._commit_folded()
            self._refused_s = None
        except RebalancingError:  # the next poll drops lost partitions; the others are committed after that poll
            now_s = self._monotonic_s()
            if self._refused_s is None:
                self._refused_s = now_s
            if now_s - self._refused_s > REBALANCE_MAX_S:
                raise
        self._committed_s = self._monotonic_s()

    def assigned(self) -> tuple[TopicPartition, ...]:
        return tuple(sorted(self._consumer.assigned()))

    def lag(self) -> int:
        """Return the number of unprocessed messages in the assigned partitions; messages in open windows count as processed."""
        return sum(self._consumer.end(partition) - self._folded(partition) for partition in self._consumer.assigned())

    def reporting(self) -> bool:
        """Return whether minutes are being written, so that their partitions are not read."""
        return bool(self._reporting)

    def waiting(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that are not read because their next message cannot be decoded yet."""
        return tuple(self._waits.partitions)

    def taken(self) -> dict[TopicPartition, PartitionProgress]:
        """Return the next offset and the newest message time of each assigned partition."""
        readings = self._readings.items()
        return {key: PartitionProgress(reading.next_offset or 0, reading.newest_ms) for key, reading in readings}

    def dead_letters(self) -> dict[str, int]:
        """Return the number of dead letters since the start, by reason."""
        return dict(self._meter.dead_letters)

    def close(self) -> None:
        self._writing.close()
        self._consumer.close()

    def _commit_folded(self) -> None:
        moved = {}
        for partition, reading in self._readings.items():
            position = reading.position()
            if position is not None and position != reading.committed:
                moved[partition] = position
        if moved:
            self._consumer.commit(moved)
        for partition, position in moved.items():
            self._readings[partition].committed = position
        series = sum(reading.windows.series_count() for reading in self._readings.values())
        self._measures.set("scalewatch_collector_series", series)
        self._measures.set("scalewatch_collector_partitions_waiting", len(self._waits.partitions))
        self._measures.set("scalewatch_time_held_back_seconds", self._watermark.held_back_s)

    def _folded(self, partition: TopicPartition) -> int:
        reading = self._readings.get(partition)
        offset = None if reading is None else reading.next_offset
        return self._consumer.beginning(partition) if offset is None else offset

    def _follow(self, change: Assignment) -> None:
        """Drop the windows of lost partitions; read each gained partition from the offset where its windows can be filled again."""
        for partition in change.lost:
            self._readings.pop(partition, None)
        self._waits.forget((*change.lost, *change.gained))
        self._watermark.follow(change)
        for partition in change.gained:
            self._begin(partition)
        if change.lost or change.gained:
            self._reporting = deque(
                key for key in self._reporting if key in self._readings and key not in change.gained
            )

    def _begin(self, partition: TopicPartition) -> None:
        committed = self._consumer.committed(partition)
        first = None if committed is None else max(committed.offset, self._consumer.beginning(partition))
        if committed is not None and first is not None:
            self._consumer.seek(partition, first)
            self._count_deleted(partition, first - committed.offset)
        metadata = "" if committed is None else committed.metadata
        attempts = Attempts(partition, metadata, self._recorder.attempts())
        self._reading(partition, committed, attempts, attempts.windows).next_offset = first

    def _reading(
        self, partition: TopicPartition, committed: Position | None, attempts: Attempts, metadata: str
    ) -> PartitionReading:
        topic, number = partition
        windows = self._routes.windows(f"{topic}/{number}", metadata)
        reading = PartitionReading(self._routes.source(topic), windows, committed, self._monotonic_s(), attempts)
        self._readings[partition] = reading
        return reading

    def _count_gap(self, partition: TopicPartition, expected: int | None, first: int) -> None:
        """Count records that were deleted before this member read them; a gap may also be offsets of transaction markers."""
        now_s = self._monotonic_s()
        if expected is None or first <= expected or now_s < self._gaps_s.get(partition, -math.inf) + GAP_LOOK_S:
            return
        self._gaps_s[partition] = now_s
        self._count_deleted(partition, min(first, self._consumer.beginning(partition)) - expected)

    def _count_deleted(self, partition: TopicPartition, count: int) -> None:
        """Count and log records that the retention of their topic deleted before they were read."""
        if count > 0:
            topic, number = partition
            text = "%d records of %s/%d were deleted before they were read: raise the retention of the topic."
            _LOG.warning(text, count, topic, number)
            source = self._routes.source_name(topic)
            self._measures.add("scalewatch_source_records_deleted_total", count, source=source)

    def _close_idle(self) -> None:
        """Close the windows of idle partitions, because open windows would hold back the committed offset for ever.

        All minutes that have begun are written. The next record meets new windows, as after a restart.
        """
        now_s = self._monotonic_s()
        for partition, reading in self._readings.items():
            if reading.part is not None or now_s - reading.spoke_s < self._routes.partition_idle_s:
                continue
            position, reading.spoke_s = reading.position(), now_s
            if position is not None and position.offset != reading.next_offset and self._all_read(partition, reading):
                reading.end()
                self._hold(partition, reading)

    def _all_read(self, partition: TopicPartition, reading: PartitionReading) -> bool:
        """Return whether a partition has been read to its end, as opposed to being unreachable."""
        try:
            return self._consumer.end(partition) == reading.next_offset
        except UnavailableError:
            return False

    def _hold(self, partition: TopicPartition, reading: PartitionReading) -> None:
        """Pause a partition while its minutes are being written. If all its windows are closed and written, start new windows."""
        if reading.part is not None:
            self._reporting.append(partition)
            self._consumer.pause([partition])
        elif reading.ended:
            anew = self._reading(partition, reading.committed, reading.attempts, reading.resume())
            anew.next_offset = reading.next_offset

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
            self.commit()  # so that the next reader of the partition knows the failed attempts, even after a crash
        for part, attempt in reading.attempts.parts(batch):
            if reading.part is not None:  # the minutes of the previous part are still being written
                self._consumer.seek(partition, attempt.first)
                break
            with self._recorder.reading(attempt):
                self._take_part(part, reading, attempt)
        self._hold(partition, reading)

    def _take_part(self, batch: Batch, reading: PartitionReading, attempt: Attempt) -> None:
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

    def _take_jobs(self, batch: Batch, reading: PartitionReading, decode: Decode) -> int:
        """Process job messages up to the first that may hold samples; return its index in the batch, or the batch's length."""
        source = reading.source
        for number, (value, timestamp_ms) in enumerate(zip(batch.values, batch.timestamps_ms, strict=True)):
            try:
                decoded = decode(value if value is not None else b"", timestamp_ms)
            except InvalidInputError as error:
                decoded = Decoded(rejects=[error])
            if decoded.rejects and source.telemetry is not None:
                return number
            self._writing.message(decoded, source, _origin(batch, number), value, timestamp_ms)
            reading.note(decoded.events, timestamp_ms)
        return len(batch.values)

    def _take_samples(self, batch: Batch, reading: PartitionReading, first: int) -> None:
        """Process the messages from number `first` on as one slice: samples go into windows, and all other parts are written."""
        decoded = reading.decode(batch.values[first:], batch.timestamps_ms[first:])
        messages = decoded.others_by_message()
        samples, message = self._accepted(decoded, reading, messages)
        for number, part in sorted(messages.items()):
            place = first + number
            value, timestamp_ms = batch.values[place], batch.timestamps_ms[place]
            self._writing.message(part, reading.source, _origin(batch, place), value, timestamp_ms)
            reading.note(part.events, timestamp_ms)
        reading.take(batch, first, samples, message)
        self._meter.samples(reading.source.format, reading.windows.counts())

    def _accepted(
        self, decoded: DecodedBatch, reading: PartitionReading, messages: dict[int, Decoded]
    ) -> tuple[Samples, "np.ndarray[tuple[int], np.dtype[np.int32]]"]:
        """Return the samples of accepted systems. A system that is not accepted is refused once, with its first message."""
        samples, message = decoded.samples, decoded.sample_message
        if not len(message):
            return samples, message
        accepted = reading.accepted(
            samples.series, lambda system: self._routes.config.journal_partition(system) is not None
        )
        if accepted.all():
            return samples, message
        refused: set[str] = set()
        for sample in np.flatnonzero(~accepted).tolist():
            system = reading.windows.index[int(samples.series[sample])].system
            if system not in refused:
                refused.add(system)
                messages.setdefault(int(message[sample]), Decoded()).rejects.append(unknown_system(system))
        self._meter.samples(reading.source.format, {"unknown_system": int((~accepted).sum())})
        return samples.take(accepted), message[accepted]

    def _report(self, now_ms: int) -> None:
        """Write one part of the due minutes; partitions with due minutes take turns."""
        if not self._reporting:
            return
        partition = self._reporting.popleft()
        reading = self._readings[partition]
        if reading.part is not None:
            for event in reading.part():
                self._writing.minute(event, now_ms)
        reading.advance()
        if reading.part is None:
            self._read_on(partition)
        self._hold(partition, reading)


NO_MESSAGES = np.zeros(0, np.int32)
NO_SAMPLES = Samples(NO_MESSAGES, np.zeros(0, np.int64), np.zeros(0))


def _origin(batch: Batch, number: int) -> Origin:
    return Origin(batch.topic, batch.partition, batch.offsets[number])
