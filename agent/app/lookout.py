"""What others wrote, read again now and then for the readers of this process: dead letters, messages of other learners."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from agent.app import supervisor
from agent.clock import Clock
from agent.config.tree import Config
from agent.topics import examine, own_faults
from processors.contracts.errors import InvalidInputError
from processors.contracts.log import Batch, Log
from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import DeadLetterView
from processors.contracts.service import Measures

LOOK_S: Final = 30.0
TOPICS_LOOK_S: Final = 600.0  # settings of topics change rarely, and by hand
SHOWN_MAX: Final = 200
DETAIL_MAX: Final = 300


class Lookout:
    """Reads `what` again and again, by `read`; a failure is logged once, and readers see what was read before."""

    def __init__(self, what: str, read: Callable[[], object], every_s: float = LOOK_S) -> None:
        self._what, self._read, self._every_s = what, read, every_s
        self._failing = False

    def look(self) -> None:
        """Read once; never raises."""
        try:
            self._read()
        except Exception as error:  # noqa: BLE001  whatever a broker does, readers see what was seen before
            if not self._failing:
                reason = f"{type(error).__name__}: {error}"
                supervisor.logger("readers").warning(f"{self._what} could not be read", reason=reason)
            self._failing = True
            return
        if self._failing:
            supervisor.logger("readers").info(f"{self._what} can be read again")
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
            supervisor.logger("topics").warning("a topic is not as it has to be", fault=fault)
        self._known = found


class RecentDeadLetters(Lookout):
    """The newest dead letters of the whole agent, whoever wrote them; a topic that is missing has none."""

    def __init__(self, log: Log, topic: str) -> None:
        super().__init__("dead letters", self._take)
        self._log, self._topic = log, topic
        self._seen: tuple[DeadLetterView, ...] = ()

    def latest(self) -> Sequence[DeadLetterView]:
        """Return the letters of the last look, the newest first; for any thread."""
        return self._seen

    def run(self, clock: Clock, stop: threading.Event) -> None:
        """Look now and every LOOK_S until `stop` is set."""
        self.look()
        super().run(clock, stop)

    def _take(self) -> None:
        found: list[DeadLetterView] = []

        def take(batch: Batch) -> None:
            found.extend(dead_letter for value in batch.values if (dead_letter := _dead_letter(value)) is not None)

        for partition in range(self._log.partitions(self._topic) or 0):
            self._log.read(self._topic, partition, take, newest=SHOWN_MAX)
        found.reverse()  # of one time, the one that was written last comes first
        self._seen = tuple(sorted(found, key=lambda dead_letter: -dead_letter.time_ms)[:SHOWN_MAX])


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


def _dead_letter(value: bytes | None) -> DeadLetterView | None:
    try:
        written = _DECODER.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
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
