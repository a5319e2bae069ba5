"""The fenced checkpoint on a real broker. For each of its steps one test shows the step at work, and its twin shows
what goes wrong without it, so that a step which is lost cannot go unnoticed."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from agent.log.kafka.checkpoint import KafkaCheckpointStore
from agent.log.kafka.client import ClientName, KafkaLogSettings
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import CheckpointLostError, FencedError, UnavailableError
from processors.contracts.log import Restored, TopicSettings
from tests.kit.checkpoints import (
    CommitsNothing,
    EndsNotCompared,
    ForeignTransaction,
    Interrupted,
    NotConfirmed,
    NotFenced,
    NotSwept,
    leave_open,
    prepared,
    restored_by_a_new_owner,
    save_hidden,
    saved_after,
)
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import limit_messages, marker

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(kafka: KafkaBroker, fresh: Callable[[str], str], client: ClientName) -> KafkaLogSettings:
    return prepared(kafka, fresh, client)


@pytest.fixture(scope="module")
def lenient(kafka: KafkaBroker) -> Iterator[KafkaBroker]:  # the first broker decides whether this machine can run one
    """A broker that takes records of transactions it does not know: so one can be left open as its crash leaves it."""
    with KafkaBroker({"transaction.partition.verification.enable": "false"}) as broker:
        yield broker


def test_a_zombie_that_wakes_after_the_take_over_is_fenced_and_leaves_nothing(settings: KafkaLogSettings) -> None:
    zombie, owner = Interrupted(settings, 0), KafkaCheckpointStore(settings, 0)
    zombie.take_over()
    zombie.before_commit = lambda: (owner.take_over(), owner.save({"key": b"owner"}, marker(1, 1)))
    with pytest.raises(FencedError):
        zombie.save({"key": b"zombie", "another": b"zombie"}, marker(1, 2))
    owner.save({"more": b"owner"}, marker(2, 1))
    assert restored_by_a_new_owner(settings) == Restored(marker(2, 1), {"key": b"owner", "more": b"owner"})
    owner.close()


def test_without_fencing_the_zombie_adds_its_states(settings: KafkaLogSettings) -> None:
    class Store(NotFenced, EndsNotCompared, NotConfirmed, Interrupted):
        pass

    zombie, owner = Store(settings, 0), Store(settings, 0)
    zombie.take_over()
    zombie.before_commit = lambda: (owner.take_over(), owner.save({"key": b"owner"}, marker(1, 1)))
    zombie.save({"key": b"zombie", "another": b"zombie"}, marker(1, 2))
    assert "another" in restored_by_a_new_owner(settings).states
    zombie.close()
    owner.close()


def test_a_transaction_that_a_broker_forgot_to_end_is_swept(
    lenient: KafkaBroker, fresh: Callable[[str], str], client: ClientName
) -> None:
    settings = prepared(lenient, fresh, client)
    leave_open(settings, b"ghost")
    assert saved_after(KafkaCheckpointStore(settings, 0), settings) == {"key": b"owner"}


def test_without_the_sweep_an_open_transaction_is_noticed_and_refused(
    lenient: KafkaBroker, fresh: Callable[[str], str], client: ClientName
) -> None:
    class Store(NotSwept, KafkaCheckpointStore):
        pass

    settings = prepared(lenient, fresh, client)
    leave_open(settings, b"ghost")
    with pytest.raises(UnavailableError, match="keeps a transaction open"):
        Store(settings, 0).take_over()


def test_without_sweep_and_comparison_an_abandoned_state_comes_back(
    lenient: KafkaBroker, fresh: Callable[[str], str], client: ClientName
) -> None:
    class Store(NotSwept, EndsNotCompared, KafkaCheckpointStore):
        pass

    settings = prepared(lenient, fresh, client)
    leave_open(settings, b"ghost")
    assert saved_after(Store(settings, 0), settings) == {"key": b"owner", "ghost": b"abandoned"}


def test_a_foreign_open_transaction_that_hides_checkpoints_is_refused(settings: KafkaLogSettings) -> None:
    with ForeignTransaction(settings):
        save_hidden(settings)
        with pytest.raises(UnavailableError, match="keeps a transaction open"):
            KafkaCheckpointStore(settings, 0).take_over()
    assert dict(restored_by_a_new_owner(settings).states) == {"key": b"hidden"}


def test_without_the_comparison_an_older_checkpoint_is_restored(settings: KafkaLogSettings) -> None:
    class Store(EndsNotCompared, KafkaCheckpointStore):
        pass

    with ForeignTransaction(settings):
        save_hidden(settings)
        store = Store(settings, 0)
        assert store.take_over() == Restored(None, {})
        store.close()


def test_a_commit_that_returned_but_was_aborted_is_found_lost(settings: KafkaLogSettings) -> None:
    store = CommitsNothing(settings, 0)
    store.take_over()
    with pytest.raises(CheckpointLostError):
        store.save({"key": b"value"}, marker(1, 1))
    assert restored_by_a_new_owner(settings) == Restored(None, {})


def test_without_reading_back_a_lost_checkpoint_counts_as_saved(settings: KafkaLogSettings) -> None:
    class Store(NotConfirmed, CommitsNothing):
        pass

    store = Store(settings, 0)
    store.take_over()
    store.save({"key": b"value"}, marker(1, 1))
    store.close()
    assert restored_by_a_new_owner(settings) == Restored(None, {})


def test_a_state_the_broker_refuses_fails_the_whole_checkpoint(kafka: KafkaBroker, settings: KafkaLogSettings) -> None:
    narrow = replace(settings, state_topic=f"{settings.state_topic}-narrow")
    KafkaLog(narrow).create([TopicSettings(narrow.state_topic, 1, compacted=True)])
    limit_messages(kafka.bootstrap, narrow.state_topic, 20_000)
    store = KafkaCheckpointStore(narrow, 0)
    store.take_over()
    store.save({"small": b"1"}, marker(1, 1))
    with pytest.raises(UnavailableError, match=r"MessageSizeTooLarge|previous|MSG_SIZE_TOO_LARGE"):
        store.save({"small": b"2", "large": b"2" * 30_000}, marker(2, 2))
    assert restored_by_a_new_owner(narrow) == Restored(marker(1, 1), {"small": b"1"})
