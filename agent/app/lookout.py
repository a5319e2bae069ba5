"""Threads that regularly read the state of the broker: output topics, topic settings, the broker clock, source topics."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from agent.app import logs
from agent.clock import BrokerClock, Clock
from agent.config.topics import examine, own_faults
from agent.config.tree import Config
from processors.contracts.errors import InvalidInputError, UnavailableError
from processors.contracts.events import TopicReport
from processors.contracts.log import Batch, Log, TopicPartition, topic_pattern
from processors.contracts.names import duration, parse_rfc3339
from processors.contracts.outputs import Emission
from processors.contracts.service import DeadLetterPosition, DeadLetterView, Measures
from sinks.topics import UNREADABLE, Kind, record

T = TypeVar("T")
Decode = Callable[[bytes | None, bytes | None], T]
NAMED_MAX: Final = 10  # maximum number of unreadable records that are logged individually per read of a topic


class OutputTopics:
    """The output topics, for readers in this process; `topics` maps each kind of output to its topic name.

    An unreadable record is skipped, and counted only at the first read. Until its key gets another message or a tombstone,
    readers see the previous message of the key, if the topic still has it.
    """

    def __init__(self, log: Log, topics: Mapping[str, str], measures: Measures) -> None:
        self._log, self._topics, self._measures = log, topics, measures
        self._read: dict[tuple[Kind, int], int] = {}

    def read(self, kind: Kind, take: Callable[[Emission], None], newest: int | None = None) -> None:
        """Pass the messages of a topic to `take`, oldest first. Raises UnavailableError.

        With `newest`, pass only the messages at the last `newest` offsets.
        """
        self.read_as(kind, partial(record, kind), take, newest)

    def read_as(self, kind: Kind, decode: Decode[T], take: Callable[[T], None], newest: int | None = None) -> None:
        """Decode the messages of a topic like `read`, and pass each result to `take`; `decode` raises InvalidInputError for an unreadable record."""
        topic = self._topics[kind]
        for partition in range(self._log.partitions(topic) or 0):
            counted_to, errors = self._read.get((kind, partition), 0), list[tuple[str, InvalidInputError]]()

            def on_batch(
                batch: Batch, counted_to: int = counted_to, errors: list[tuple[str, InvalidInputError]] = errors
            ) -> None:
                for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
                    try:
                        message = decode(key, value)
                    except InvalidInputError as error:
                        if offset >= counted_to:
                            errors.append((f"{batch.topic}/{batch.partition}/{offset}", error))
                        continue
                    take(message)

            self._read[kind, partition] = self._log.read(topic, partition, on_batch, newest=newest)
            if errors:
                self._report(kind, errors)

    def _report(self, kind: Kind, errors: list[tuple[str, InvalidInputError]]) -> None:
        """Count the unreadable records of one read, and log the first few with their positions."""
        self._measures.add("scalewatch_outputs_unreadable_total", len(errors), topic=kind)
        log = logs.logger("readers")
        for place, error in errors[:NAMED_MAX]:
            log.warning("a record of an output topic cannot be read", record=place, reason=str(error))
        if len(errors) > NAMED_MAX:
            log.warning("more records of an output topic cannot be read", topic=kind, records=len(errors))


LOOK_S: Final = 30.0
TOPICS_LOOK_S: Final = 600.0  # topic settings change rarely, because only people change them
ENDS_LOOK_S: Final = 5.0
CLOCK_LOOK_S: Final = 15.0
DAY_MS: Final = 86_400_000
TOPICS_MAX: Final = 200
PARTITIONS_READ_MAX: Final = 64
NEWEST: Final = 3  # number of last offsets to read, because the last one or two may be transaction markers
SHOWN_MAX: Final = 200
DETAIL_MAX: Final = 300


class Lookout:
    """Calls `read` every `every_s` seconds; with `at_once`, also at the start.

    Readers keep the previous result after a failure. Of consecutive failures only the first is logged; an unreachable broker is
    not logged, because the role logs it.
    """

    def __init__(
        self, subject: str, read: Callable[[], object], every_s: float = LOOK_S, *, at_once: bool = False
    ) -> None:
        self._subject, self._read, self._every_s, self._at_once = subject, read, every_s, at_once
        self._failing = False

    def look(self) -> None:
        """Call `read` once, and log an error instead of raising it."""
        try:
            self._read()
        except UnavailableError:  # the role itself logs that the broker is unreachable
            return
        except Exception as error:  # noqa: BLE001  whatever a broker does, readers keep the former result
            if not self._failing:
                reason = f"{type(error).__name__}: {error}"
                logs.logger("readers").warning(f"{self._subject} could not be read", reason=reason)
            self._failing = True
            return
        if self._failing:
            logs.logger("readers").info(f"{self._subject} can be read again")
        self._failing = False

    def run(self, clock: Clock, stop: threading.Event) -> None:
        if self._at_once:
            self.look()
        while not clock.sleep(self._every_s, stop):
            self.look()

    def start(self, clock: Clock, stop: threading.Event) -> None:
        """Start the thread that reads until `stop` is set."""
        threading.Thread(target=self.run, args=(clock, stop), name=self._subject, daemon=True).start()


class TopicFaults(Lookout):
    """Compares the agent's own topics and its access rights with the required ones; logs and counts each difference."""

    def __init__(self, log: Log, config: Config, measures: Measures) -> None:
        super().__init__("settings of topics", self._examine, TOPICS_LOOK_S)
        self._log, self._config, self._measures = log, config, measures
        self._known: frozenset[str] = frozenset()

    def _examine(self) -> None:
        faults = frozenset(own_faults(examine(self._log, self._config), self._config))
        self._measures.set("scalewatch_topic_faults", len(faults))
        for fault in sorted(faults - self._known):
            logs.logger("topics").warning("a topic has wrong settings", fault=fault)
        self._known = faults


class BrokerTime(Lookout):
    """Compares the clock of this host with the clock of the broker, which sets the timestamp of each journal record.

    A record that is new at a check was written since the previous check, so its timestamp shows how far the clocks can differ.
    Each check finds new records, because collectors write ticks.
    """

    def __init__(self, log: Log, journal: str, clock: BrokerClock, measures: Measures) -> None:
        super().__init__("the clock of the broker", self._compare, CLOCK_LOOK_S)
        self._log, self._journal, self._clock, self._measures = log, journal, clock, measures
        self._has_broker_time: bool | None = None
        self._end, self._looked_s, self._reported = 0, -math.inf, False

    def _compare(self) -> None:
        if self._has_broker_time is None:
            settings = self._log.examine([self._journal], [], []).topics[self._journal].settings
            self._has_broker_time = settings is None or settings.get("message.timestamp.type") == "LogAppendTime"
        looks_s = self._clock.monotonic_s()
        end = self._log.ends([self._journal]).get(self._journal, {}).get(0, 0)
        if self._has_broker_time and end != self._end:
            times_ms: list[int] = []
            self._log.read(self._journal, 0, lambda batch: times_ms.extend(batch.timestamps_ms), newest=NEWEST)
            if times_ms:
                self._clock.compare(max(times_ms), self._clock.monotonic_s() - self._looked_s)
        self._end, self._looked_s = end, looks_s
        self._report_difference()

    def _report_difference(self) -> None:
        fault = clock_fault(self._clock.ahead_ms)
        self._measures.set("scalewatch_clock_ahead_seconds", self._clock.ahead_ms / 1000)
        if fault is not None and not self._reported:
            logs.logger("clock").error("the clock of this host is wrong", fault=fault)
        elif fault is None and self._reported:
            logs.logger("clock").info("the clock of this host agrees with the broker's again")
        self._reported = fault is not None


def clock_fault(ahead_ms: int) -> str | None:
    """Return a sentence about the error of this host's clock; None if the clock is right."""
    if not ahead_ms:
        return None
    side, days = "ahead of" if ahead_ms > 0 else "behind", round(abs(ahead_ms) / DAY_MS, 1)
    length = duration(abs(ahead_ms) / 1000) if days < 1 else f"{days:g} day{'s' if days > 1 else ''}"
    return f"The clock of this host is {length} {side} the broker's."


class RecentDeadLetters(Lookout):
    """Reads the newest dead letters of the whole agent, from all writers; no dead letters if the topic is missing."""

    def __init__(self, outputs: OutputTopics) -> None:
        super().__init__("dead letters", self._take, at_once=True)
        self._outputs = outputs
        self._latest: tuple[DeadLetterView, ...] = ()

    def latest(self) -> Sequence[DeadLetterView]:
        """Return the dead letters read at the last check, newest first. Thread-safe."""
        return self._latest

    def _take(self) -> None:
        read: list[DeadLetterView | None] = []
        self._outputs.read_as("deadletters", _dead_letter, read.append, newest=SHOWN_MAX)
        letters = [dead_letter for dead_letter in read if dead_letter is not None]
        letters.reverse()  # among letters with equal times, the letter that was written last comes first
        self._latest = tuple(sorted(letters, key=lambda dead_letter: -dead_letter.time_ms)[:SHOWN_MAX])


class SourceTopics(Lookout):
    """Reads the end offsets of the source topics on the broker, and the time of their newest messages.

    The newest message of a topic gets the time of the check that found it; the timestamp that its producer set is used only at
    the first check. At most TOPICS_MAX topics are read: first the configured topics, then the topics that match a pattern. Each
    check counts the topics that are left out.
    """

    def __init__(self, log: Log, configured: Sequence[str], clock: Clock, measures: Measures) -> None:
        super().__init__("the sources", self._take, ENDS_LOOK_S, at_once=True)
        self._log, self._configured, self._clock, self._measures = log, tuple(configured), clock, measures
        self._reports: dict[str, TopicReport] = {}
        self.ends: Mapping[TopicPartition, int] = {}

    def latest(self) -> Sequence[TopicReport]:
        """Return the topics read at the last check, and each configured name or pattern without a topic. Thread-safe."""
        return tuple(self._reports.values())

    def _take(self) -> None:
        ends_by_topic = self._log.ends(self._configured)
        absent = [name for name in self._configured if not any(map(topic_pattern([name]).fullmatch, ends_by_topic))]
        names = [*absent, *sorted(ends_by_topic, key=lambda name: (name not in self._configured, name))]
        if left_out := len(names[TOPICS_MAX:]):
            self._measures.add("scalewatch_bounds_hit_total", left_out, bound="source_topics_max")
        missing = absent[:TOPICS_MAX]
        followed = {name: ends_by_topic[name] for name in names[len(missing) : TOPICS_MAX]}
        reports = {topic: self._report(topic, ends) for topic, ends in followed.items()}
        self._reports = reports | {name: TopicReport(name) for name in missing}
        self.ends = {(topic, number): end for topic, ends in followed.items() for number, end in ends.items()}

    def _report(self, topic: str, ends: Mapping[int, int]) -> TopicReport:
        messages, former = sum(ends.values()), self._reports.get(topic)
        if former is None:
            return TopicReport(topic, messages, self._written_ms(topic, ends))
        newest_ms = former.newest_ms if messages == former.messages else self._clock.now_ms()
        return TopicReport(topic, messages, newest_ms)

    def _written_ms(self, topic: str, ends: Mapping[int, int]) -> int | None:
        """Return the timestamp in ms of the newest existing message; None without a message. `ends` maps each partition to its end offset."""
        times_ms: list[int] = []
        for partition in [number for number, end in ends.items() if end][:PARTITIONS_READ_MAX]:
            self._log.read(topic, partition, lambda batch: times_ms.extend(batch.timestamps_ms), newest=NEWEST)
        return min(max(times_ms), self._clock.now_ms()) if times_ms else None


class _Written(DeadLetterPosition, frozen=True, kw_only=True):
    """The fields of a dead letter that readers need; the bytes of the original message are skipped, not decoded."""

    time: str


_DECODER: Final = msgspec.json.Decoder(_Written)


def _dead_letter(_key: bytes | None, value: bytes | None) -> DeadLetterView | None:
    """Return a dead letter for readers; None for a tombstone. Raises InvalidInputError for any other value."""
    if value is None:
        return None
    try:
        written = _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(UNREADABLE, f"{error}.") from None
    fields = msgspec.structs.asdict(written) | {"detail": written.detail[:DETAIL_MAX]}
    return DeadLetterView(time_ms=time_ms(fields.pop("time")), **fields)


def time_ms(text: str) -> int:
    """Return the time of a dead letter in ms; 0 if the time is invalid, which sorts the dead letter behind all others."""
    try:
        return parse_rfc3339(text)
    except InvalidInputError:
        return 0
