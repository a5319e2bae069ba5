"""What the tests of the log share: one bench per kind of log, and short ways to fill and to read."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import pytest
from _pytest.mark.structures import ParameterSet
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.protocol.group import LeaveGroupRequest

from agent.log.kafka.client import ClientName, KafkaLogSettings
from agent.log.kafka.log import KafkaLog
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.log import (
    Batch,
    Consumer,
    Log,
    Marker,
    Poll,
    TopicPartition,
    TopicSettings,
)
from tests.kit.faults import FaultRates, FaultyLog
from tests.kit.kafka_broker import KafkaBroker

CLIENTS: tuple[ClientName, ...] = ("kafka-python", "confluent")
# kafka-python is tried by each run of the tests, since every install has it; the other client by `make test-all`
MARKS_OF_CLIENT: dict[str, tuple[pytest.MarkDecorator, ...]] = {
    "kafka-python": (pytest.mark.kafka,),
    "confluent": (pytest.mark.kafka, pytest.mark.thorough),
}
LOG_KINDS: dict[str, tuple[pytest.MarkDecorator, ...]] = {  # faultless: the faulty log without its faults
    "memory": (), "faultless": (), **MARKS_OF_CLIENT,
}  # fmt: skip
WAIT_S = 90.0  # nothing takes so long where it works


@dataclass
class Bench:
    """A log, names that nobody else uses, and a way to make the broker drop a member of a group."""

    log: Log
    another: Callable[[], Log]
    fresh: Callable[[str], str]
    expel: Callable[[str, str], None]
    state_topic: str

    def topic(self, partitions: int = 1, *, compacted: bool = False, name: str = "topic") -> str:
        """Create a topic and return its name."""
        made = self.fresh(name)
        self.log.create([TopicSettings(name=made, partitions=partitions, compacted=compacted)])
        return made


def cases(functions: Mapping[str, object]) -> list[ParameterSet]:
    """Return each `check_` function with each kind of log, as cases named `kind:check`."""
    checks = {name.removeprefix("check_"): one for name, one in functions.items() if name.startswith("check_")}
    return [
        pytest.param(kind, check, id=f"{kind}:{name}", marks=marks)
        for kind, marks in LOG_KINDS.items()
        for name, check in checks.items()
    ]


def expel_member(broker: MemoryBroker, group: str, name: str) -> None:
    """Remove the members with this name, as a broker does when their session expires."""
    with broker.changed:
        for member in broker.group(group).members:
            if member.order[0] == name:
                broker.leave(group, member)


def memory_bench(fresh: Callable[[str], str], rates: FaultRates | None = None) -> Bench:
    """Return a bench over a broker in memory, with rates behind the dice of the faulty log."""
    broker, state_topic = MemoryBroker(), fresh("state")

    def make() -> Log:
        log = MemoryLog(broker, state_topic=state_topic)
        return log if rates is None else FaultyLog(log, 0, rates)

    return Bench(log=make(), another=make, fresh=fresh, expel=partial(expel_member, broker), state_topic=state_topic)


def kafka_settings(
    broker: KafkaBroker, fresh: Callable[[str], str], client: ClientName = "kafka-python"
) -> KafkaLogSettings:
    """Return settings under which new topics are found soon, and nobody is dropped because the machine is slow."""
    return KafkaLogSettings(
        bootstrap=broker.bootstrap,
        client=client,
        state_topic=fresh("state"),
        bootstrap_timeout_s=30.0,
        metadata_age_s=1.0,
        request_timeout_s=30.0,
        session_timeout_s=12.0,  # heartbeats, which report rebalances, come at a third of it
        block_timeout_s=8.0,
        work_timeout_s=60.0,
    )


def kafka_bench(broker: KafkaBroker, fresh: Callable[[str], str], client: ClientName) -> Bench:
    """Return a bench over a real broker."""
    settings = kafka_settings(broker, fresh, client)
    return Bench(
        log=KafkaLog(settings),
        another=lambda: KafkaLog(settings),
        fresh=fresh,
        expel=lambda group, _member: expel(settings.bootstrap, group),
        state_topic=settings.state_topic,
    )


def expel(bootstrap: str, group: str) -> None:
    """Make the broker drop all members of a group, as an operator can."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    (found,) = admin.describe_consumer_groups([group])
    members = [(member.member_id, None) for member in found.members]
    (coordinator,) = admin._find_coordinator_ids([group]).values()
    answer = admin.send_request(LeaveGroupRequest[3](group, members), coordinator)
    admin.close()
    assert [answer.error_code, *(code for *_, code in answer.members)] == [0] * (1 + len(members))


def limit_messages(bootstrap: str, topic: str, bytes_max: int) -> None:
    """Let a topic take messages of at most so many bytes."""
    limit = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": str(bytes_max)})
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.alter_configs([limit])
    admin.close()


def write(log: Log, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
    """Write values to one partition and wait for them."""
    producer = log.producer()
    for value in values:
        producer.send(topic, value, partition=partition)
    producer.flush(WAIT_S)
    producer.close()


def poll_until(consumers: Iterable[Consumer], done: Callable[[], bool], on_poll: Callable[[int, Poll], None]) -> None:
    """Poll the consumers in turn until `done`; fail after a while."""
    members = list(consumers)
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, f"nothing more happened in {WAIT_S:g} s"
        for number, consumer in enumerate(members):
            on_poll(number, consumer.poll(0.1))


def own(consumers: Iterable[Consumer], partitions: int) -> None:
    """Poll until every consumer has an equal share of so many partitions, and nobody has more."""
    members = list(consumers)
    share = partitions // len(members)
    poll_until(members, lambda: all(len(one.assigned()) == share for one in members), lambda _number, _poll: None)


def collect(consumer: Consumer, count: int) -> list[Batch]:
    """Poll until so many records have come."""
    batches: list[Batch] = []
    seen = lambda: sum(len(batch.values) for batch in batches) >= count  # noqa: E731 - read at every poll
    poll_until([consumer], seen, lambda _number, poll: batches.extend(poll.batches))
    return batches


def values(batches: Iterable[Batch]) -> list[bytes | None]:
    """Return the values of all batches, one after the other."""
    return [value for batch in batches for value in batch.values]


def fold(log: Log, partition: TopicPartition) -> dict[bytes | None, bytes | None]:
    """Read a partition and keep the last value of each key that has one."""
    last: dict[bytes | None, bytes | None] = {}
    log.read(*partition, lambda batch: last.update(zip(batch.keys, batch.values, strict=True)))
    return {key: value for key, value in last.items() if value is not None}


def marker(number: int, count: int, offset: int = 0) -> Marker:
    """Return a marker of a test's checkpoint."""
    return Marker(offset=offset, number=number, count=count, agent_version="1", config_hash="c", journal_partitions=1)
