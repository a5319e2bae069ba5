"""A log whose calls go wrong, by a seed: crashes, refusals, lost sessions, late and repeated records.

    log = FaultyLog(MemoryLog(broker), seed=7, rates=FaultRates(crash=0.01, unavailable=0.05))

Every call may go wrong before its effect or after it: whoever gets an error does not know which. After a `Crash` the
process is dead: its groups go on without it, what it had not flushed is gone, or partly gone, and every further call
crashes again. Come back with a new `FaultyLog` over the same broker.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from processors.contracts.errors import UnavailableError
from processors.contracts.log import Batch, CheckpointStore, Consumer, Examined, Log, TopicSettings
from tests.kit import faulty_clients

Result = TypeVar("Result")
SEND_SHARE = 0.02  # there are many sends to each other call; at the full rate no batch would ever get through


class Crash(BaseException):
    """The process dies here. No handler of the product may catch it, so it is no Exception."""


@dataclass(frozen=True)
class FaultRates:
    """How often each fault happens, as a probability per call, and less often per `send`."""

    crash: float = 0.0  # the process dies, before or after the effect of the call
    unavailable: float = 0.0  # UnavailableError, before or after the effect of the call
    delay: float = 0.0  # acknowledged records are seen only after a later flush
    rebalance: float = 0.0  # the group drops this member, or another owner takes the shard
    repeat: float = 0.0  # records are written once more, as by a retry after an unknown outcome
    split: float = 0.0  # a poll returns less than there is


@dataclass
class Faults:
    """The dice of one process, and a note of what they did, for the message of a test that fails."""

    seed: int
    rates: FaultRates
    happened: list[str] = field(default_factory=list)
    crashed: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - faults have to come again with their seed

    def happens(self, fault: str, where: str) -> bool:
        """Throw the dice for one kind of fault."""
        share = SEND_SHARE if where.endswith(" send") else 1.0
        if self.random.random() >= getattr(self.rates, fault) * share:
            return False
        self.happened.append(f"{fault} {where}")
        return True

    def around(self, call: str, effect: Callable[[], Result], *, refusable: bool = True) -> Result:
        """Run the effect of a call; a crash or a refusal may come before or after it."""
        self._strike(f"before {call}", refusable=refusable)
        result = effect()
        self._strike(f"after {call}", refusable=refusable)
        return result

    def _strike(self, where: str, *, refusable: bool) -> None:
        if self.crashed or self.happens("crash", where):
            self.crashed = True
            raise Crash(f"seed {self.seed}: crash {where}")
        if refusable and self.happens("unavailable", where):
            raise UnavailableError(f"Seed {self.seed}: refused {where}.")


class FaultyLog:
    """Wraps any log, and hands out clients that share its dice."""

    def __init__(self, log: Log, seed: int, rates: FaultRates) -> None:
        self.faults = Faults(seed, rates)
        self._log = log
        self._producers: list[faulty_clients.FaultyProducer] = []

    def consumer(self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True) -> Consumer:
        """Return a member that may lose its session."""

        def join() -> Consumer:
            return self._log.consumer(group, topics, member=member, from_beginning=from_beginning)

        return self._around("consumer", lambda: faulty_clients.FaultyConsumer(self, join))

    def producer(self) -> faulty_clients.FaultyProducer:
        """Return a producer that holds records back until they are flushed."""

        def make() -> faulty_clients.FaultyProducer:
            self._producers.append(faulty_clients.FaultyProducer(self, self._log))
            return self._producers[-1]

        return self._around("producer", make)

    def checkpoints(self, shard: int) -> CheckpointStore:
        """Return a store whose saves may be refused although they are done, lost, or fenced."""
        return self._around("checkpoints", lambda: faulty_clients.FaultyCheckpointStore(self, self._log, shard))

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, or fail."""
        return self._around("partitions", lambda: self._log.partitions(topic))

    def ends(self, topics: Sequence[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the ends of topics, or fail."""
        return self._around("ends", lambda: self._log.ends(topics))

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create topics, or fail, or both."""
        return self._around("create", lambda: self._log.create(topics))

    def examine(self, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]) -> Examined:
        """Examine topics, or fail."""
        return self._around("examine", lambda: self._log.examine(topics, groups, transactional_ids))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the bounds of a partition, or fail."""
        return self._around("bounds", lambda: self._log.bounds(topic, partition))

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        """Read a partition, or fail, or both."""
        return self._around("read", lambda: self._log.read(topic, partition, on_batch, newest=newest))

    def close(self) -> None:
        """Close every client; what was acknowledged and held back is seen now."""
        self._end()

    def strike(self, call: str, effect: Callable[[], Result], *, refusable: bool = True) -> Result:
        """Run the effect of a client's call; the whole process ends with a crash."""
        return self._around(call, effect, refusable=refusable)

    def _around(self, call: str, effect: Callable[[], Result], *, refusable: bool = True) -> Result:
        try:
            return self.faults.around(call, effect, refusable=refusable)
        except Crash:
            self._end()
            raise

    def _end(self) -> None:
        """Do what a broker sees of a crash: a part of the queue may still be written, then the sessions end."""
        for producer in self._producers:
            producer.crash()
        self._producers.clear()
        self._log.close()
