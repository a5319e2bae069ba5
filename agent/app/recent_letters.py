"""The newest dead letters of the whole agent, for readers: the tail of their topic, whoever wrote them."""

import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from agent.app import logs
from agent.clock import Clock
from agent.contracts.errors import InvalidInputError
from agent.contracts.log import Batch, Log
from agent.contracts.moments import parse_rfc3339
from agent.contracts.recent import Letter

SHOWN_MAX: Final = 200
LOOK_S: Final = 30.0
DETAIL_MAX: Final = 300


class _Written(msgspec.Struct, frozen=True):
    """What is read of a dead letter: the bytes of the message are not even decoded."""

    time: str
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int


_DECODER: Final = msgspec.json.Decoder(_Written)


class RecentLetters:
    """The letters found by the last `look`; a topic that is missing has none, and a broker that is away changes nothing.

    >>> from agent.log.memory import MemoryLog
    >>> letters = RecentLetters(MemoryLog(), "scalewatch.deadletters")
    >>> letters.look()
    >>> letters.seen()
    ()
    """

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic
        self._seen: tuple[Letter, ...] = ()
        self._failing = False
        self._say = logs.logger("letters")

    def seen(self) -> Sequence[Letter]:
        """Return the letters of the last look, the newest first; for any thread."""
        return self._seen

    def look(self) -> None:
        """Read the end of the topic; never raises."""
        try:
            self._seen = self._read()
        except Exception as error:  # noqa: BLE001  whatever a broker does, readers see what was seen before
            if not self._failing:
                self._say.warning("dead letters could not be read", reason=f"{type(error).__name__}: {error}")
            self._failing = True
            return
        if self._failing:
            self._say.info("dead letters can be read again")
        self._failing = False

    def run(self, clock: Clock, stop: threading.Event) -> None:
        """Look now and every LOOK_S until `stop` is set."""
        self.look()
        while not clock.sleep(LOOK_S, stop):
            self.look()

    def _read(self) -> tuple[Letter, ...]:
        found: list[Letter] = []

        def take(batch: Batch) -> None:
            found.extend(letter for value in batch.values if (letter := _letter(value)) is not None)

        for partition in range(self._log.partitions(self._topic) or 0):
            self._log.read(self._topic, partition, take, newest=SHOWN_MAX)
        found.reverse()  # of one time, the one that was written last comes first
        return tuple(sorted(found, key=lambda letter: -letter.time_ms)[:SHOWN_MAX])


def start(letters: RecentLetters, clock: Clock, stop: threading.Event) -> threading.Thread:
    """Start the thread that looks for dead letters until `stop` is set."""
    thread = threading.Thread(target=letters.run, args=(clock, stop), name="letters", daemon=True)
    thread.start()
    return thread


def _letter(value: bytes | None) -> Letter | None:
    try:
        written = _DECODER.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Letter(
        time_ms=_time_ms(written.time),
        reason=written.reason,
        detail=written.detail[:DETAIL_MAX],
        topic=written.topic,
        partition=written.partition,
        offset=written.offset,
    )


def _time_ms(text: str) -> int:
    try:
        return parse_rfc3339(text)
    except InvalidInputError:  # a message with an impossible time of its own is as old as can be
        return 0
