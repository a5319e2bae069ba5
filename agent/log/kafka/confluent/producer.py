"""Producers of confluent-kafka."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from agent.log.kafka.client import KafkaSettings, NotQueuedError
from agent.log.kafka.confluent.arguments import RecordsFailedError, producing, transactional


def end_unattended(owner: object, attribute: str) -> None:
    """Let a thread be the last to refer to what an attribute holds: the library ends it then, and nobody waits for that."""
    held = [owner.__dict__.pop(attribute)]
    Thread(target=held.clear, name="ending a client", daemon=True).start()


STEP_S: Final = 0.2  # a longer poll would wait to its end though acknowledgements came
LOOK_EVERY: Final = 1000  # records between two looks at the acknowledgements
NOW: Final = 0
ANY: Final = -1


class ConfluentWriter:
    """The library bounds the queue, by number and by bytes; only failures are reported."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._block_s = settings.block_timeout_s
        self._topics: set[str] = set()
        self._failure: KafkaError | None = None
        self._looked = 0
        arguments = {**producing(settings, "producer"), "delivery.report.only.error": True, "on_delivery": self._report}
        self._producer = Producer(arguments)

    def offer(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None
    ) -> bool:
        """Queue a record; False where the queue is full. Raises NotQueuedError where the topic cannot be found."""
        if topic not in self._topics:
            self._find(topic)
        self._looked += 1
        if self._looked >= LOOK_EVERY:
            self._take_in(0.0)
        try:
            self._producer.produce(
                topic, value, key, ANY if partition is None else partition, timestamp=timestamp_ms or NOW
            )
        except BufferError:
            return False
        return True

    def settle(self, timeout_s: float) -> bool:
        """Take in what was acknowledged, and wait for one where none was; False at the deadline. Raises for what failed."""
        before = len(self._producer)
        for step in range(max(1, round(timeout_s / STEP_S)) + 1):
            self._take_in(STEP_S if step else 0.0)
            if len(self._producer) < before:
                return True
        return False

    def unacknowledged(self) -> int:
        """Return how many records are queued or under way."""
        return len(self._producer)

    def flush(self, timeout_s: float) -> None:
        """Wait for every acknowledgement. Raises for what failed, and at the deadline."""
        left = self._producer.flush(timeout_s)
        self._check()
        if left:
            raise RecordsFailedError(f"{left} records are not acknowledged after {timeout_s:g} s")

    def give_up(self) -> None:
        """Free everything within about a second, and write nothing more of what is queued."""
        give_up(self)

    def _find(self, topic: str) -> None:
        """Look a topic up: else only the records' failure would tell, half a minute later, that it is missing."""
        for step in range(max(1, round(self._block_s / STEP_S))):
            if step:
                self._take_in(STEP_S)  # a new topic is known a little after it was made
            try:
                found = self._producer.list_topics(topic, timeout=self._block_s).topics[topic]
            except KafkaException as error:
                raise NotQueuedError from error
            if found.error is None:
                self._topics.add(topic)
                return
            if not found.error.retriable() and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                break
        raise NotQueuedError from KafkaException(found.error)

    def _take_in(self, timeout_s: float) -> None:
        self._looked = 0
        self._producer.poll(timeout_s)
        self._check()

    def _report(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            raise KafkaException(self._failure)


class ConfluentTransactions:
    """A transactional producer. Its calls wait as long as they want: whoever calls has a deadline."""

    def __init__(self, settings: KafkaSettings, purpose: str, transactional_id: str) -> None:
        self._timeout_s = settings.checkpoint_timeout_s
        self._producer = Producer(transactional(settings, purpose, transactional_id))
        self._failure: KafkaError | None = None
        self._offset = ANY

    def fence(self) -> None:
        """End and fence every former producer of this name."""
        self._producer.init_transactions(self._timeout_s)

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def send(
        self,
        topic: str,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        timeout_s: float,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write keys and values, wait for each acknowledgement, and return the offset of the last."""
        produce = partial(
            self._producer.produce, topic, partition=partition, timestamp=timestamp_ms or NOW, on_delivery=self._report
        )
        try:
            self._send(produce, records, timeout_s)
        except (KafkaException, RecordsFailedError):
            raise
        except:  # what is raised after a fatal error need not be an exception
            self._raise_fatal()
            raise
        return self._offset

    def commit(self) -> None:
        """Commit the transaction."""
        self._producer.commit_transaction(self._timeout_s)

    def abort(self) -> None:
        """Abort the transaction."""
        self._producer.abort_transaction(self._timeout_s)

    def give_up(self) -> None:
        """Free everything within about a second, and write nothing more of what is queued."""
        give_up(self)

    def _send(
        self, produce: Callable[..., None], records: Sequence[tuple[bytes, bytes | None]], timeout_s: float
    ) -> None:
        for key, value in records:
            while not _queued(produce, key, value):
                if not self._producer.poll(STEP_S) and self._failure is None:
                    timeout_s -= STEP_S
                self._check(timeout_s)
        left = self._producer.flush(max(0.0, timeout_s))
        self._check(0.0 if left else timeout_s)

    def _raise_fatal(self) -> None:
        """Raise the fatal error of this producer, if it had one: every call repeats it, this one asks no broker.

        A callback that runs after it, ours or that of a logger, may lose it. The call that runs them then raises a
        SystemError without a cause, and a fenced learner was taken for one whose broker is away.
        """
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            if error.args[0].fatal():
                raise

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
        else:
            self._offset = message.offset() or 0

    def _check(self, left_s: float) -> None:
        if self._failure is not None:
            raise KafkaException(self._failure)
        if left_s <= 0:
            raise RecordsFailedError(f"{len(self._producer)} records are not acknowledged in time")


def _queued(produce: Callable[..., None], key: bytes, value: bytes | None) -> bool:
    try:
        produce(key=key, value=value)
    except BufferError:
        return False
    return True


def give_up(owner: ConfluentWriter | ConfluentTransactions) -> None:
    """End a producer without writing what it still holds: its own close would write it first.

    What a broker was already sent may be obeyed.
    """
    with suppress(KafkaException, RuntimeError):
        owner._producer.purge(blocking=False)  # noqa: SLF001 - of this file
    end_unattended(owner, "_producer")
