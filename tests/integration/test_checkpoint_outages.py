"""Checkpoints while the broker hangs, dies and comes back."""

from collections.abc import Callable
from threading import Thread, Timer

import pytest
from msgspec.structs import replace

from agent.log.kafka.checkpoint import KafkaCheckpointStore
from agent.log.kafka.client import ClientName, KafkaLogSettings
from processors.contracts.errors import CheckpointLostError, UnavailableError
from processors.contracts.log import Restored
from tests.kit.checkpoints import (
    HANGS_S,
    Interrupted,
    NoDeadline,
    NotConfirmedStore,
    expire_a_record,
    grow_impatient,
    prepared,
    restored_by_a_new_owner,
    save_as_new_owner,
)
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import WAIT_S, marker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def settings(kafka: KafkaBroker, fresh: Callable[[str], str], client: ClientName) -> KafkaLogSettings:
    return prepared(kafka, fresh, client)


def test_a_commit_that_hangs_ends_at_its_deadline(kafka: KafkaBroker, settings: KafkaLogSettings) -> None:
    store = Interrupted(settings, 0)
    store.take_over()
    store.before_commit = lambda: (grow_impatient(store), kafka.pause())
    try:
        with pytest.raises(UnavailableError, match="did not end within 2 s"):
            store.save({"key": b"first"}, marker(1, 1))
    finally:
        kafka.resume()
    save_as_new_owner(settings, {"key": b"second"})


def test_without_a_deadline_the_commit_hangs(kafka: KafkaBroker, settings: KafkaLogSettings) -> None:
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
        saving.join(WAIT_S)
    assert not saving.is_alive()
    store.close()


def test_after_an_error_nothing_more_is_written(kafka: KafkaBroker, settings: KafkaLogSettings) -> None:
    store = KafkaCheckpointStore(settings, 0)
    store.take_over()
    grow_impatient(store)
    kafka.pause()
    try:
        with pytest.raises(UnavailableError):
            store.save({"key": b"first"}, marker(1, 1))
    finally:
        kafka.resume()
    for _ in range(2):
        with pytest.raises(UnavailableError, match="cannot be used any more"):
            store.save({"key": b"second"}, marker(1, 1))
    assert restored_by_a_new_owner(settings) == Restored(None, {})


@pytest.mark.parametrize("client", ["kafka-python"])  # the other client ends such a producer by itself
def test_without_giving_the_producer_up_a_later_checkpoint_is_lost(
    kafka: KafkaBroker, settings: KafkaLogSettings
) -> None:
    impatient = replace(settings, request_timeout_s=2.0, delivery_timeout_s=4.0)
    store = NotConfirmedStore(impatient, 0)
    store.take_over()
    store.save({"key": b"first"}, marker(1, 1))
    expire_a_record(kafka, store._writer._producer, settings)
    store._fencing().abort()
    store.save({}, marker(2, 0))  # acknowledged as a repeat of the record that expired
    store.close()
    assert restored_by_a_new_owner(settings).marker == marker(1, 1)


@pytest.mark.parametrize(  # when, is a matter of the broker: the other client is killed at the ends of the scale
    ("client", "kill_after_s"),
    [
        *(("kafka-python", after_s) for after_s in (None, 0.005)),
        *(pytest.param("kafka-python", after_s, marks=pytest.mark.thorough) for after_s in (0.0, 0.002, 0.02)),
        *(pytest.param("confluent", after_s, marks=pytest.mark.thorough) for after_s in (None, 0.02)),
    ],
)
def test_a_checkpoint_is_whole_or_not_there_when_the_broker_is_killed_within_it(
    kafka: KafkaBroker, settings: KafkaLogSettings, kill_after_s: float | None
) -> None:
    save_as_new_owner(settings, {f"key-{number}": b"old" for number in range(50)})
    store = Interrupted(settings, 0)
    store.take_over()
    killer = Timer(kill_after_s or 0.0, kafka.kill)
    store.before_commit = lambda: (grow_impatient(store), (kafka.kill if kill_after_s is None else killer.start)())
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
    restored = restored_by_a_new_owner(settings)
    assert set(restored.states.values()) == {b"new" if restored.marker == marker(2, 50) else b"old"}
    assert len(restored.states) == 50
    assert not saved or restored.marker == marker(2, 50)
    save_as_new_owner(settings, {f"key-{number}": b"newer" for number in range(50)})
    store.close()


def test_two_thousand_states_are_restored(settings: KafkaLogSettings) -> None:
    store = KafkaCheckpointStore(settings, 0)
    store.take_over()
    for number in range(1, 5):
        store.save({f"key-{key}": b"%d" % number * 4_000 for key in range(2_000)}, marker(number, 2_000))
    restored = restored_by_a_new_owner(settings)
    assert restored.marker == marker(4, 2_000)
    assert len(restored.states) == 2_000
    assert set(restored.states.values()) == {b"4" * 4_000}
    store.close()
