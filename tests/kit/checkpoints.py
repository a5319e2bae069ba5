"""Checkpoint stores that leave one of their steps out, and what happens around a checkpoint."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition
from msgspec.structs import replace

from agent.log.kafka.checkpoint import KafkaCheckpointStore
from agent.log.kafka.client import ClientName, KafkaLogSettings, client_of
from agent.log.kafka.consumer import KafkaReader
from agent.log.kafka.log import KafkaLog
from agent.log.kafka.python.arguments import transactional
from agent.log.kafka.python.producer import give_up
from processors.contracts.log import Restored, TopicSettings
from tests.kit.agent_process import until
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import WAIT_S, kafka_settings, marker

DEADLINE_S = 2.0  # of a checkpoint that shall not end
HANGS_S = 3 * DEADLINE_S


class Interrupted(KafkaCheckpointStore):
    """Something happens when the states are written and not yet committed."""

    before_commit: Callable[[], object] = staticmethod(lambda: None)

    def _commit(self) -> None:
        self.before_commit()
        super()._commit()


class CommitsNothing(KafkaCheckpointStore):
    """Its commit returns as if all were well, and everything was aborted."""

    def _commit(self) -> None:
        self._fencing().abort()


class NotConfirmed:
    def _confirm(self, marker_offset: int, marker_value: bytes | None) -> None:
        pass


class NotConfirmedStore(NotConfirmed, KafkaCheckpointStore):
    """A store that believes every commit."""


class NotSwept:
    def _sweep(self) -> None:
        pass


class EndsNotCompared:
    def _ends_agree(self) -> bool:
        return True


class NoDeadline:
    def _deadline(self, call: Any, doing: str) -> None:
        call()


class NotFenced:
    """Each owner writes under a name of its own."""

    def _fence(self) -> None:
        self._owner = f"{id(self)}"  # only this test's stores live as long as it runs
        super()._fence()  # type: ignore[misc] # mixed into a store


class ForeignTransaction:
    """Somebody else's open transaction in the state partition; it is aborted at the end."""

    def __init__(self, settings: KafkaLogSettings) -> None:
        self._writer = client_of(settings).adapter.transaction_writer(settings, "foreign", f"{settings.state_topic}-x")
        self._writer.fence()
        self._writer.begin()
        self._writer.send(settings.state_topic, 0, [(b"foreign", b"foreign")], WAIT_S, None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._writer.abort()
        self._writer.give_up()


def prepared(broker: KafkaBroker, fresh: Callable[[str], str], client: ClientName = "kafka-python") -> KafkaLogSettings:
    settings = replace(kafka_settings(broker, fresh, client), checkpoint_timeout_s=WAIT_S)
    KafkaLog(settings).create([TopicSettings(name=settings.state_topic, partitions=1, compacted=True)])
    return settings


def grow_impatient(store: KafkaCheckpointStore) -> None:
    """Give the next steps of a store a short deadline, because they shall not end."""
    store._settings = replace(store._settings, checkpoint_timeout_s=DEADLINE_S)


def leave_open(settings: KafkaLogSettings, key: bytes) -> None:
    """Write a record of the shard's own producer that its coordinator does not know of, and go away."""
    producer = KafkaProducer(**transactional(settings, "crashed", f"{settings.state_topic}-0"))
    producer.init_transactions()
    producer.begin_transaction()
    producer._transaction_manager._partitions_in_transaction.add(TopicPartition(settings.state_topic, 0))
    producer.send(settings.state_topic, b"abandoned", key, partition=0).get(WAIT_S)
    give_up(producer)


def expire_a_record(broker: KafkaBroker, producer: KafkaProducer, settings: KafkaLogSettings) -> None:
    """Leave a transaction with a record that expired here, and that the broker took when it woke up."""
    topic = settings.state_topic
    producer.begin_transaction()
    offset = producer.send(topic, b"in time", b"key", partition=0).get(WAIT_S).offset
    broker.pause()
    try:
        expired = producer.send(topic, b"expired", b"key", partition=0)
        with pytest.raises(KafkaTimeoutError):
            expired.get(WAIT_S)
    finally:
        broker.resume()
    with closing(KafkaReader(settings, topic, 0, committed=False)) as reader:
        until(lambda: reader.end() > offset + 1, WAIT_S, "what lay in the broker's socket is obeyed")


def save_hidden(settings: KafkaLogSettings) -> None:
    """Commit a checkpoint behind an open transaction, where nobody can read it yet."""

    class Store(EndsNotCompared, NotConfirmed, KafkaCheckpointStore):
        pass

    store = Store(settings, 0)
    store.take_over()
    store.save({"key": b"hidden"}, marker(1, 1))
    store.close()


def saved_after(store: KafkaCheckpointStore, settings: KafkaLogSettings) -> dict[str, bytes]:
    store.take_over()
    store.save({"key": b"owner"}, marker(1, 1))
    store.close()
    return dict(restored_by_a_new_owner(settings).states)


def save_as_new_owner(settings: KafkaLogSettings, states: dict[str, bytes]) -> None:
    store = KafkaCheckpointStore(settings, 0)
    store.take_over()
    store.save(states, marker(1, len(states)))
    store.close()
    assert dict(restored_by_a_new_owner(settings).states) == states


def restored_by_a_new_owner(settings: KafkaLogSettings) -> Restored:
    store = KafkaCheckpointStore(settings, 0)
    restored = store.take_over()
    store.close()
    return restored
