"""What others wrote, read again now and then for the readers of this process: dead letters, messages of other learners."""

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
from processors.contracts.service import DeadLetterView, Measures
from sinks.topics import UNREADABLE, Kind, record

T = TypeVar("T")
Decode = Callable[[bytes | None, bytes | None], T]
NAMED_MAX: Final = 10  # records that the log names one by one, of each look at a topic


class OutputTopics:
    """The output topics as their readers see them; `topics` has the name of each kind.

    A record is counted once, however often its topic is read again. A tombstone, or the next message of its key, takes its
    place; until then readers see the message before it, where the topic still has that.
    """

    def __init__(self, log: Log, topics: Mapping[str, str], measures: Measures) -> None:
        self._log, self._topics, self._measures = log, topics, measures
        self._read: dict[tuple[Kind, int], int] = {}

    def read(self, kind: Kind, take: Callable[[Emission], None], newest: int | None = None) -> None:
        """Hand on the messages of a topic, or of its `newest` offsets, oldest first. Raises UnavailableError."""
        self.read_as(kind, partial(record, kind), take, newest)

    def read_as(self, kind: Kind, decode: Decode[T], take: Callable[[T], None], newest: int | None = None) -> None:
        """Do so with what `decode` makes of key and value; InvalidInputError where it cannot."""
        topic = self._topics[kind]
        for partition in range(self._log.partitions(topic) or 0):
            counted_to, found = self._read.get((kind, partition), 0), Unreadable()

            def on_batch(batch: Batch, counted_to: int = counted_to, found: Unreadable = found) -> None:
                for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
                    try:
                        message = decode(key, value)
                    except InvalidInputError as error:
                        if offset >= counted_to:
                            found.add(f"{batch.topic}/{batch.partition}/{offset}", error)
                        continue
                    take(message)

            self._read[kind, partition] = self._log.read(topic, partition, on_batch, newest=newest)
            found.report(kind, self._measures)


class Unreadable:
    """The records of one look at a topic that nobody can read."""

    def __init__(self) -> None:
        self._named: list[tuple[str, InvalidInputError]] = []
        self._count = 0

    def add(self, place: str, error: InvalidInputError) -> None:
        """Take note of a record."""
        self._count += 1
        if len(self._named) < NAMED_MAX:
            self._named.append((place, error))

    def report(self, kind: Kind, measures: Measures) -> None:
        """Count and name what was noted."""
        if not self._count:
            return
        measures.add("scalewatch_outputs_unreadable_total", self._count, topic=kind)
        log = logs.logger("readers")
        for place, error in self._named:
            log.warning("a record of an output topic cannot be read", record=place, reason=str(error))
        if self._count > len(self._named):
            log.warning("more records of an output topic cannot be read", topic=kind, records=self._count)


LOOK_S: Final = 30.0
TOPICS_LOOK_S: Final = 600.0  # settings of topics change rarely, and by hand
ENDS_LOOK_S: Final = 5.0
CLOCK_LOOK_S: Final = 15.0
DAY_MS: Final = 86_400_000
TOPICS_MAX: Final = 200
PARTITIONS_READ_MAX: Final = 64
NEWEST: Final = 3  # the last offsets may be marks of transactions
SHOWN_MAX: Final = 200
DETAIL_MAX: Final = 300


class Lookout:
    """Reads `what` again and again, by `read`; a failure is logged once, unless the broker is away, and readers see what was read before."""

    def __init__(self, what: str, read: Callable[[], object], every_s: float = LOOK_S) -> None:
        self._what, self._read, self._every_s = what, read, every_s
        self._failing = False

    def look(self) -> None:
        """Read once; never raises."""
        try:
            self._read()
        except UnavailableError:  # the role itself tells that the broker is away
            return
        except Exception as error:  # noqa: BLE001  whatever a broker does, readers see what was seen before
            if not self._failing:
                reason = f"{type(error).__name__}: {error}"
                logs.logger("readers").warning(f"{self._what} could not be read", reason=reason)
            self._failing = True
            return
        if self._failing:
            logs.logger("readers").info(f"{self._what} can be read again")
        self._failing = False

    def run(self, clock: Clock, stop: threading.Event) -> None:
        """Look again and again until `stop` is set."""
        while not clock.sleep(self._every_s, stop):
            self.look()

    def start(self, clock: Clock, stop: threading.Event) -> None:
        """Start the thread that looks until `stop` is set."""
        threading.Thread(target=self.run, args=(clock, stop), name=self._what, daemon=True).start()


class TopicFaults(Lookout):
    """The agent's own topics as they really are: what is wrong with them, or with the rights to them, is logged and counted."""

    def __init__(self, log: Log, config: Config, measures: Measures) -> None:
        super().__init__("settings of topics", self._examine, TOPICS_LOOK_S)
        self._log, self._config, self._measures = log, config, measures
        self._known: frozenset[str] = frozenset()

    def _examine(self) -> None:
        found = frozenset(own_faults(examine(self._log, self._config), self._config))
        self._measures.set("scalewatch_topic_faults", len(found))
        for fault in sorted(found - self._known):
            logs.logger("topics").warning("a topic is not as it has to be", fault=fault)
        self._known = found


class BrokerTime(Lookout):
    """Compares the clock of this host with the broker's, which notes in the journal when it took each record.

    A record that was not there at the look before was taken since. The journal never rests: collectors write ticks.
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
    """Return in a sentence how wrong the clock of this host is; None if it is right."""
    if not ahead_ms:
        return None
    side, days = "ahead of" if ahead_ms > 0 else "behind", round(abs(ahead_ms) / DAY_MS, 1)
    length = duration(abs(ahead_ms) / 1000) if days < 1 else f"{days:g} day{'s' if days > 1 else ''}"
    return f"The clock of this host is {length} {side} the broker's."


class RecentDeadLetters(Lookout):
    """The newest dead letters of the whole agent, whoever wrote them; a topic that is missing has none."""

    def __init__(self, outputs: OutputTopics) -> None:
        super().__init__("dead letters", self._take)
        self._outputs = outputs
        self._seen: tuple[DeadLetterView, ...] = ()

    def latest(self) -> Sequence[DeadLetterView]:
        """Return the letters of the last look, the newest first; for any thread."""
        return self._seen

    def run(self, clock: Clock, stop: threading.Event) -> None:
        """Look now, and again and again until `stop` is set."""
        self.look()
        super().run(clock, stop)

    def _take(self) -> None:
        read: list[DeadLetterView | None] = []
        self._outputs.read_as("deadletters", _dead_letter, read.append, newest=SHOWN_MAX)
        found = [dead_letter for dead_letter in read if dead_letter is not None]
        found.reverse()  # of one time, the one that was written last comes first
        self._seen = tuple(sorted(found, key=lambda dead_letter: -dead_letter.time_ms)[:SHOWN_MAX])


class SourceTopics(Lookout):
    """What the broker holds of the sources: the ends of their topics, and when each got its newest message.

    The time of a message that came while this looks is that of the look; clocks of producers count only for the message
    that is the newest at the first look. At most TOPICS_MAX are followed, those that the configuration names first; those
    left out are counted at each look.
    """

    def __init__(self, log: Log, wanted: Sequence[str], clock: Clock, measures: Measures) -> None:
        super().__init__("the sources", self._take, ENDS_LOOK_S)
        self._log, self._wanted, self._clock, self._measures = log, tuple(wanted), clock, measures
        self._reports: dict[str, TopicReport] = {}
        self.ends: Mapping[TopicPartition, int] = {}

    def latest(self) -> Sequence[TopicReport]:
        """Return the topics of the last look, and each wanted name or pattern that none of them has; for any thread."""
        return tuple(self._reports.values())

    def run(self, clock: Clock, stop: threading.Event) -> None:
        """Look now, and again and again until `stop` is set."""
        self.look()
        super().run(clock, stop)

    def _take(self) -> None:
        there = self._log.ends(self._wanted)
        absent = [name for name in self._wanted if not any(map(topic_pattern([name]).fullmatch, there))]
        names = [*absent, *sorted(there, key=lambda name: (name not in self._wanted, name))]
        if left_out := len(names[TOPICS_MAX:]):
            self._measures.add("scalewatch_bounds_hit_total", left_out, bound="source_topics_max")
        missing = absent[:TOPICS_MAX]
        found = {name: there[name] for name in names[len(missing) : TOPICS_MAX]}
        reports = {topic: self._report(topic, ends) for topic, ends in found.items()}
        self._reports = reports | {name: TopicReport(name) for name in missing}
        self.ends = {(topic, number): end for topic, ends in found.items() for number, end in ends.items()}

    def _report(self, topic: str, ends: Mapping[int, int]) -> TopicReport:
        messages, former = sum(ends.values()), self._reports.get(topic)
        if former is None:
            return TopicReport(topic, messages, self._written_ms(topic, ends))
        newest_ms = former.newest_ms if messages == former.messages else self._clock.now_ms()
        return TopicReport(topic, messages, newest_ms)

    def _written_ms(self, topic: str, ends: Mapping[int, int]) -> int | None:
        """Return when the newest message was written that is still there; None where none is."""
        times_ms: list[int] = []
        for partition in [number for number, end in ends.items() if end][:PARTITIONS_READ_MAX]:
            self._log.read(topic, partition, lambda batch: times_ms.extend(batch.timestamps_ms), newest=NEWEST)
        return min(max(times_ms), self._clock.now_ms()) if times_ms else None


class _Written(msgspec.Struct, frozen=True):
    """What is read of a dead letter: the bytes of the message are not even decoded."""

    time: str
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    count: int = 1
    places: tuple[str, ...] = ()


_DECODER: Final = msgspec.json.Decoder(_Written)


def _dead_letter(_key: bytes | None, value: bytes | None) -> DeadLetterView | None:
    """Return a letter as readers see it, None for a tombstone. InvalidInputError where it is none."""
    if value is None:
        return None
    try:
        written = _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(UNREADABLE, f"{error}.") from None
    return DeadLetterView(
        time_ms=time_ms(written.time),
        reason=written.reason,
        detail=written.detail[:DETAIL_MAX],
        topic=written.topic,
        partition=written.partition,
        offset=written.offset,
        count=written.count,
        places=written.places,
    )


def time_ms(text: str) -> int:
    """Return the time of a dead letter; a message with an impossible time of its own is as old as can be."""
    try:
        return parse_rfc3339(text)
    except InvalidInputError:
        return 0
