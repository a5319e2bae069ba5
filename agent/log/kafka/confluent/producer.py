"""Producers of confluent-kafka."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from agent.log.kafka.client import KafkaLogSettings, KeyValue, NotQueuedError
from agent.log.kafka.confluent.arguments import RecordsFailedError, producing, transactional

STEP_S: Final = 0.2  # longest poll, because a poll waits for its whole time even if acknowledgements came
CHECK_EVERY: Final = 1000  # records between two checks for failures
NOW: Final = 0
ANY: Final = -1


class _ConfluentProducer:
    """The common part of both producers."""

    _producer: Producer

    def give_up(self) -> None:
        """End the producer without writing its queue. The producer's own `close` would write the queue first.

        A broker may still accept records that were already sent.
        """
        with suppress(KafkaException, RuntimeError):
            self._producer.purge(blocking=False)
        end_unattended(self, "_producer")


class ConfluentWriter(_ConfluentProducer):
    """Implements `RecordWriter`. librdkafka limits the records and bytes in the queue, and reports only failures."""

    def __init__(self, settings: KafkaLogSettings) -> None:
        self._block_s = settings.block_timeout_s
        self._topics: set[str] = set()
        self._failure: KafkaError | None = None
        self._offered = 0  # records since the last check
        arguments = {**producing(settings, "producer"), "delivery.report.only.error": True, "on_delivery": self._report}
        self._producer = Producer(arguments)

    def offer(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None
    ) -> bool:
        if topic not in self._topics:
            self._find(topic)
        self._offered += 1
        if self._offered >= CHECK_EVERY:
            self._poll(0.0)
        try:
            self._producer.produce(
                topic, value, key, ANY if partition is None else partition, timestamp=timestamp_ms or NOW
            )
        except BufferError:
            return False
        return True

    def settle(self, timeout_s: float) -> bool:
        before = len(self._producer)
        for step in range(max(1, round(timeout_s / STEP_S)) + 1):
            self._poll(STEP_S if step else 0.0)
            if len(self._producer) < before:
                return True
        return False

    def unacknowledged(self) -> int:
        return len(self._producer)

    def flush(self, timeout_s: float) -> None:
        left = self._producer.flush(timeout_s)
        self._check()
        if left:
            raise RecordsFailedError(f"{left} records are not acknowledged after {timeout_s:g} s")

    def _find(self, topic: str) -> None:
        """Look up `topic`. Raise NotQueuedError if it is missing; otherwise its records would fail only half a minute later."""
        for step in range(max(1, round(self._block_s / STEP_S))):
            if step:
                self._poll(STEP_S)  # brokers learn of a new topic with a delay
            try:
                metadata = self._producer.list_topics(topic, timeout=self._block_s).topics[topic]
            except KafkaException as error:
                raise NotQueuedError from error
            if metadata.error is None:
                self._topics.add(topic)
                return
            if not metadata.error.retriable() and metadata.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                break
        raise NotQueuedError from KafkaException(metadata.error)

    def _poll(self, timeout_s: float) -> None:
        self._offered = 0
        self._producer.poll(timeout_s)
        self._check()

    def _report(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            raise KafkaException(self._failure)


class ConfluentTransactions(_ConfluentProducer):
    """Implements `TransactionWriter`. A call may wait for ever, so each caller sets a deadline."""

    def __init__(self, settings: KafkaLogSettings, purpose: str, transactional_id: str) -> None:
        self._timeout_s = settings.checkpoint_timeout_s
        self._producer = Producer(transactional(settings, purpose, transactional_id))
        self._failure: KafkaError | None = None
        self._offset = ANY

    def fence(self) -> None:
        self._producer.init_transactions(self._timeout_s)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(
        self, topic: str, partition: int, records: Sequence[KeyValue], timeout_s: float, timestamp_ms: int | None
    ) -> int:
        produce = partial(
            self._producer.produce, topic, partition=partition, timestamp=timestamp_ms or NOW, on_delivery=self._report
        )
        try:
            self._send(produce, records, timeout_s)
        except (KafkaException, RecordsFailedError):
            raise
        except:  # after a fatal error the library may raise something that is not an Exception
            self._raise_fatal()
            raise
        return self._offset

    def commit(self) -> None:
        self._producer.commit_transaction(self._timeout_s)

    def abort(self) -> None:
        self._producer.abort_transaction(self._timeout_s)

    def _send(self, produce: Callable[..., None], records: Sequence[KeyValue], timeout_s: float) -> None:
        for key, value in records:
            while not _queued(produce, key, value):
                if not self._producer.poll(STEP_S) and self._failure is None:
                    timeout_s -= STEP_S
                self._check(timeout_s)
        left = self._producer.flush(max(0.0, timeout_s))
        self._check(0.0 if left else timeout_s)

    def _raise_fatal(self) -> None:
        """Raise the fatal error of this producer, if any: `begin_transaction` repeats a fatal error without asking a broker.

        An exception in a later callback can replace the fatal error by a SystemError without a cause. Without this method, a
        fenced learner then looked like a learner without a broker.
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


def end_unattended(owner: object, attribute: str) -> None:
    """Remove an attribute of `owner`, and drop its last reference in a new thread, because the library then closes the client slowly."""
    held = [owner.__dict__.pop(attribute)]
    Thread(target=held.clear, name="ending a client", daemon=True).start()
