"""The fenced checkpoint on a real broker. For each of its steps one test shows the step at work, and its twin shows
what goes wrong without it, so that a step which is lost cannot go unnoticed."""

import time
from collections.abc import Callable, Iterator
from threading import Thread, Timer
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition
from msgspec.structs import replace

from agent.contracts.errors import CheckpointLostError, FencedError, UnavailableError
from agent.contracts.log import Restored, TopicSettings
from agent.log.kafka import KafkaLog
from agent.log.kafka_checkpoint import KafkaCheckpointStore
from agent.log.kafka_connection import give_up
from agent.log.kafka_settings import KafkaSettings
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import kafka_settings, marker

pytestmark = pytest.mark.kafka
DEADLINE_S = 2.0
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
        self._producer.abort_transaction()


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


@pytest.fixture
def settings(kafka: KafkaBroker, fresh: Callable[[str], str]) -> KafkaSettings:
    return _prepared(kafka, fresh)


@pytest.fixture(scope="module")
def lenient(kafka: KafkaBroker) -> Iterator[KafkaBroker]:  # the first broker decides whether this machine can run one
    """A broker that takes records of transactions it does not know: so one can be left open as its crash leaves it."""
    with KafkaBroker({"transaction.partition.verification.enable": "false"}) as broker:
        yield broker


def test_a_zombie_that_wakes_after_the_take_over_is_fenced_and_leaves_nothing(settings: KafkaSettings) -> None:
    zombie, owner = Interrupted(settings, 0), KafkaCheckpointStore(settings, 0)
    zombie.take_over()
    zombie.before_commit = lambda: (owner.take_over(), owner.save({"key": b"owner"}, marker(1, 1)))
    with pytest.raises(FencedError):
        zombie.save({"key": b"zombie", "another": b"zombie"}, marker(1, 2))
    owner.save({"more": b"owner"}, marker(2, 1))
    assert _take_over(settings) == Restored(marker(2, 1), {"key": b"owner", "more": b"owner"})
    owner.close()


def test_without_fencing_the_zombie_adds_its_states(settings: KafkaSettings) -> None:
    class Store(NotFenced, EndsNotCompared, NotConfirmed, Interrupted):
        pass

    zombie, owner = Store(settings, 0), Store(settings, 0)
    zombie.take_over()
    zombie.before_commit = lambda: (owner.take_over(), owner.save({"key": b"owner"}, marker(1, 1)))
    zombie.save({"key": b"zombie", "another": b"zombie"}, marker(1, 2))
    assert "another" in _take_over(settings).states
    zombie.close()
    owner.close()


def test_a_transaction_that_a_broker_forgot_to_end_is_swept(lenient: KafkaBroker, fresh: Callable[[str], str]) -> None:
    settings = _prepared(lenient, fresh)
    _leave_open(settings, b"ghost")
    assert _saved_after(KafkaCheckpointStore(settings, 0), settings) == {"key": b"owner"}


def test_without_the_sweep_an_open_transaction_is_noticed_and_refused(
    lenient: KafkaBroker, fresh: Callable[[str], str]
) -> None:
    class Store(NotSwept, KafkaCheckpointStore):
        pass

    settings = _prepared(lenient, fresh)
    _leave_open(settings, b"ghost")
    with pytest.raises(UnavailableError, match="stays open"):
        Store(settings, 0).take_over()


def test_without_sweep_and_comparison_an_abandoned_state_comes_back(
    lenient: KafkaBroker, fresh: Callable[[str], str]
) -> None:
    class Store(NotSwept, EndsNotCompared, KafkaCheckpointStore):
        pass

    settings = _prepared(lenient, fresh)
    _leave_open(settings, b"ghost")
    assert _saved_after(Store(settings, 0), settings) == {"key": b"owner", "ghost": b"abandoned"}


def test_a_foreign_open_transaction_that_hides_checkpoints_is_refused(settings: KafkaSettings) -> None:
    with _ForeignTransaction(settings):
        _save_hidden(settings)
        with pytest.raises(UnavailableError, match="stays open"):
            KafkaCheckpointStore(settings, 0).take_over()
    assert dict(_take_over(settings).states) == {"key": b"hidden"}


def test_without_the_comparison_an_older_checkpoint_is_restored(settings: KafkaSettings) -> None:
    class Store(EndsNotCompared, KafkaCheckpointStore):
        pass

    with _ForeignTransaction(settings):
        _save_hidden(settings)
        store = Store(settings, 0)
        assert store.take_over() == Restored(None, {})
        store.close()


def test_a_commit_that_returned_but_was_aborted_is_found_lost(settings: KafkaSettings) -> None:
    store = CommitsNothing(settings, 0)
    store.take_over()
    with pytest.raises(CheckpointLostError):
        store.save({"key": b"value"}, marker(1, 1))
    assert _take_over(settings) == Restored(None, {})


def test_without_reading_back_a_lost_checkpoint_counts_as_saved(settings: KafkaSettings) -> None:
    class Store(NotConfirmed, CommitsNothing):
        pass

    store = Store(settings, 0)
    store.take_over()
    store.save({"key": b"value"}, marker(1, 1))
    store.close()
    assert _take_over(settings) == Restored(None, {})


def test_a_commit_that_hangs_ends_at_its_deadline(kafka: KafkaBroker, settings: KafkaSettings) -> None:
    store = Interrupted(settings, 0)
    store.take_over()
    store.before_commit = kafka.pause
    try:
        started = time.monotonic()
        with pytest.raises(UnavailableError, match="did not end within"):
            store.save({"key": b"first"}, marker(1, 1))
        assert time.monotonic() - started < HANGS_S
    finally:
        kafka.resume()
    _save_as_new_owner(settings, {"key": b"second"})


def test_without_a_deadline_the_commit_hangs(kafka: KafkaBroker, settings: KafkaSettings) -> None:
    class Store(NoDeadline, Interrupted):
        pass

    store = Store(settings, 0)
    store.take_over()
    store.before_commit = kafka.pause
    saving = Thread(target=store.save, args=({"key": b"first"}, marker(1, 1)), daemon=True)
    try:
        saving.start()
        saving.join(HANGS_S)
        assert saving.is_alive()
    finally:
        kafka.resume()
        saving.join(HANGS_S)
    store.close()


def test_a_state_the_broker_refuses_fails_the_whole_checkpoint(kafka: KafkaBroker, settings: KafkaSettings) -> None:
    narrow = replace(settings, state_topic=f"{settings.state_topic}-narrow")
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.create_topics([NewTopic(narrow.state_topic, 1, 1, topic_configs={"max.message.bytes": "20000"})])
    admin.close()
    store = KafkaCheckpointStore(narrow, 0)
    store.take_over()
    store.save({"small": b"1"}, marker(1, 1))
    with pytest.raises(UnavailableError, match=r"MessageSizeTooLarge|previous"):
        store.save({"small": b"2", "large": b"2" * 30_000}, marker(2, 2))
    assert _take_over(narrow) == Restored(marker(1, 1), {"small": b"1"})


def test_after_an_error_nothing_more_is_written(kafka: KafkaBroker, settings: KafkaSettings) -> None:
    store = KafkaCheckpointStore(settings, 0)
    store.take_over()
    kafka.pause()
    try:
        with pytest.raises(UnavailableError):
            store.save({"key": b"first"}, marker(1, 1))
    finally:
        kafka.resume()
    for _ in range(2):
        with pytest.raises(UnavailableError, match="cannot be used any more"):
            store.save({"key": b"second"}, marker(1, 1))
    assert _take_over(settings) == Restored(None, {})


def test_without_giving_the_producer_up_a_later_checkpoint_is_lost(kafka: KafkaBroker, settings: KafkaSettings) -> None:
    impatient = replace(settings, request_timeout_s=0.5, delivery_timeout_s=1.0)
    store = NotConfirmedStore(impatient, 0)
    store.take_over()
    store.save({"key": b"first"}, marker(1, 1))
    _expire_a_record(kafka, store._producer, settings.state_topic)
    store._producer.abort_transaction()
    store.save({}, marker(2, 0))  # acknowledged as a repeat of the record that expired
    store.close()
    assert _take_over(settings).marker == marker(1, 1)


@pytest.mark.parametrize("kill_after_s", [None, 0.0, 0.002, 0.005, 0.02])
def test_a_checkpoint_is_whole_or_not_there_when_the_broker_is_killed_within_it(
    kafka: KafkaBroker, settings: KafkaSettings, kill_after_s: float | None
) -> None:
    _save_as_new_owner(settings, {f"key-{number}": b"old" for number in range(50)})
    store = Interrupted(settings, 0)
    store.take_over()
    killer = Timer(kill_after_s or 0.0, kafka.kill)
    store.before_commit = kafka.kill if kill_after_s is None else killer.start
    saved = True
    try:
        store.save({f"key-{number}": b"new" for number in range(50)}, marker(2, 50))
    except (UnavailableError, CheckpointLostError):
        saved = False
    finally:
        if kill_after_s is not None:
            killer.join()
        kafka.kill()
        kafka.start()
    restored = _take_over(settings)
    assert set(restored.states.values()) == {b"new" if restored.marker == marker(2, 50) else b"old"}
    assert len(restored.states) == 50
    assert not saved or restored.marker == marker(2, 50)
    _save_as_new_owner(settings, {f"key-{number}": b"newer" for number in range(50)})
    store.close()


def test_two_thousand_states_are_restored(settings: KafkaSettings) -> None:
    store = KafkaCheckpointStore(settings, 0)
    store.take_over()
    for number in range(1, 5):
        store.save({f"key-{key}": b"%d" % number * 4_000 for key in range(2_000)}, marker(number, 2_000))
    started = time.monotonic()
    restored = _take_over(settings)
    assert time.monotonic() - started < 20
    assert restored.marker == marker(4, 2_000)
    assert len(restored.states) == 2_000
    assert set(restored.states.values()) == {b"4" * 4_000}
    store.close()


class _ForeignTransaction:
    """Somebody else's open transaction in the state partition; it is aborted at the end."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._producer = KafkaProducer(**settings.producing("foreign"), transactional_id=f"{settings.state_topic}-x")
        self._producer.init_transactions()
        self._producer.begin_transaction()
        self._producer.send(settings.state_topic, b"foreign", b"foreign", partition=0)
        self._producer.flush(DEADLINE_S)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._producer.abort_transaction()
        self._producer.close()


def _prepared(broker: KafkaBroker, fresh: Callable[[str], str]) -> KafkaSettings:
    settings = replace(
        kafka_settings(broker, fresh), checkpoint_timeout_s=DEADLINE_S, read_timeout_s=5.0, take_overs_max=2
    )
    KafkaLog(settings).create([TopicSettings(name=settings.state_topic, partitions=1, compacted=True)])
    return settings


def _leave_open(settings: KafkaSettings, key: bytes) -> None:
    """Write a record of the shard's own producer that its coordinator does not know of, and go away."""
    producer = KafkaProducer(**settings.producing("crashed"), transactional_id=f"{settings.state_topic}-0")
    producer.init_transactions()
    producer.begin_transaction()
    producer._transaction_manager._partitions_in_transaction.add(TopicPartition(settings.state_topic, 0))
    producer.send(settings.state_topic, b"abandoned", key, partition=0).get(DEADLINE_S)
    give_up(producer)


def _expire_a_record(broker: KafkaBroker, producer: KafkaProducer, topic: str) -> None:
    """Leave a transaction with a record that expired here, and that the broker took when it woke up."""
    producer.begin_transaction()
    producer.send(topic, b"in time", b"key", partition=0).get(DEADLINE_S)
    broker.pause()
    try:
        expired = producer.send(topic, b"expired", b"key", partition=0)
        with pytest.raises(KafkaTimeoutError):
            expired.get(HANGS_S)
    finally:
        broker.resume()
    time.sleep(0.5)  # what lies in the broker's socket is obeyed now


def _save_hidden(settings: KafkaSettings) -> None:
    """Commit a checkpoint behind an open transaction, where nobody can read it yet."""

    class Store(EndsNotCompared, NotConfirmed, KafkaCheckpointStore):
        pass

    store = Store(settings, 0)
    store.take_over()
    store.save({"key": b"hidden"}, marker(1, 1))
    store.close()


def _saved_after(store: KafkaCheckpointStore, settings: KafkaSettings) -> dict[str, bytes]:
    store.take_over()
    store.save({"key": b"owner"}, marker(1, 1))
    store.close()
    return dict(_take_over(settings).states)


def _save_as_new_owner(settings: KafkaSettings, states: dict[str, bytes]) -> None:
    store = KafkaCheckpointStore(settings, 0)
    store.take_over()
    store.save(states, marker(1, len(states)))
    store.close()
    assert dict(_take_over(settings).states) == states


def _take_over(settings: KafkaSettings) -> Restored:
    store = KafkaCheckpointStore(settings, 0)
    restored = store.take_over()
    store.close()
    return restored
