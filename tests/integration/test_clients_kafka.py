"""Both client libraries on one cluster: processes of one agent may have different ones, and an agent may change its own."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException

from agent.log.kafka.confluent.client import ADAPTER
from agent.log.kafka.confluent.producer import ConfluentTransactions
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import FencedError
from processors.contracts.log import Batch, Position, TopicSettings
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import CLIENTS, WAIT_S, kafka_settings, marker, own, poll_until, values, write

pytestmark = pytest.mark.kafka
PARTITIONS = 4


@pytest.fixture
def logs(kafka: KafkaBroker, fresh: Callable[[str], str]) -> list[KafkaLog]:
    return [KafkaLog(kafka_settings(kafka, fresh, client)) for client in CLIENTS]


def test_a_key_goes_to_the_same_partition_whichever_client_writes(
    logs: list[KafkaLog], fresh: Callable[[str], str]
) -> None:
    topic = fresh("keys")
    logs[0].create([TopicSettings(topic, PARTITIONS, compacted=False)])
    keys = [b"key-%d" % number for number in range(40)]
    for log in logs:
        producer = log.producer()
        for key in keys:
            producer.send(topic, b"value", key)
        producer.flush(WAIT_S)
    found: dict[bytes | None, set[int]] = {}
    for partition in range(PARTITIONS):
        batches: list[Batch] = []
        logs[0].read(topic, partition, batches.append)
        for arrived in (each for batch in batches for each in batch.keys):
            found.setdefault(arrived, set()).add(partition)
    assert set(found) == set(keys)
    assert all(len(partitions) == 1 for partitions in found.values())


def test_members_of_both_clients_share_a_group_and_know_each_other_s_positions(
    logs: list[KafkaLog], fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("shared"), fresh("group")
    logs[0].create([TopicSettings(topic, PARTITIONS, compacted=False)])
    members = [log.consumer(group, [topic], member=name) for log, name in zip(logs, CLIENTS, strict=True)]
    own(members, PARTITIONS)
    assert members[0].assigned().isdisjoint(members[1].assigned())
    for partition in range(PARTITIONS):
        write(logs[0], topic, [b"%d" % partition], partition)
    seen: list[bytes | None] = []
    poll_until(members, lambda: len(seen) >= PARTITIONS, lambda _, poll: seen.extend(values(poll.batches)))
    assert sorted(value for value in seen if value) == [b"0", b"1", b"2", b"3"]
    for member in members:
        member.commit({partition: Position(1, "shared") for partition in member.assigned()})
        for other in members:
            assert {other.committed(partition) for partition in member.assigned()} == {Position(1, "shared")}
    for member in members:
        member.close()


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, -1])
def test_a_checkpoint_of_one_client_is_restored_and_its_owner_fenced_by_the_other(
    logs: list[KafkaLog], kafka: KafkaBroker, fresh: Callable[[str], str], order: int
) -> None:
    logs[0].create([TopicSettings(fresh("state"), 1, compacted=True)])
    former, owner = (log.checkpoints(0) for log in logs[::order])
    former.take_over()
    former.save({"key": b"former"}, marker(1, 1))
    assert dict(owner.take_over().states) == {"key": b"former"}
    with pytest.raises(FencedError):
        former.save({"key": b"zombie"}, marker(2, 1))
    owner.save({"key": b"owner"}, marker(2, 1))
    again = logs[::order][0].checkpoints(0)
    assert dict(again.take_over().states) == {"key": b"owner"}
    for log in logs:
        log.close()


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, -1])
def test_metadata_of_one_client_is_read_whole_by_the_other(
    logs: list[KafkaLog], fresh: Callable[[str], str], order: int
) -> None:
    topic, group = fresh("told"), fresh("group")
    logs[0].create([TopicSettings(topic, 1, compacted=False)])
    writer, reader = (log.consumer(group, [topic], member="m") for log in logs[::order])
    own([writer], 1)
    for metadata in ("", "windows:1:1795168800000", "x" * 24, "y" * 40):
        writer.commit({(topic, 0): Position(3, metadata)})
        assert [reader.committed((topic, 0)) for _ in range(3)] == [Position(3, metadata)] * 3
    writer.close()
    reader.close()


@pytest.mark.thorough
def test_a_fenced_owner_notices_even_where_a_callback_loses_the_error(
    kafka: KafkaBroker, fresh: Callable[[str], str]
) -> None:
    def loses(self: ConfluentTransactions, *_: object) -> None:
        hasattr(self, "what it does not have")  # Python forgets what was raised before

    settings = kafka_settings(kafka, fresh, "confluent")
    log = KafkaLog(settings)
    log.create([TopicSettings(fresh("lost"), 1, compacted=True)])
    log.close()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ConfluentTransactions, "_report", loses)
        for number in range(3):  # the library raises one of two things
            former, owner = (
                ConfluentTransactions(settings, "checkpoint-0", fresh(f"owner-{number}")) for _ in range(2)
            )
            former.fence()
            former.begin()
            owner.fence()
            with pytest.raises(KafkaException) as caught:
                former.send(fresh("lost"), 0, [(b"key", b"value")] * 5, WAIT_S, None)
            assert ADAPTER.fault(caught.value).error is FencedError
            former.give_up()
            owner.give_up()
