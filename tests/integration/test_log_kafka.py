"""The log on a real Kafka, beyond the contract: security, outages, and producers that have failed."""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread, Timer
from typing import TypedDict

import pytest
from msgspec.structs import replace

from agent.log.kafka.client import ClientName, KafkaLogSettings, KafkaSecurity
from agent.log.kafka.confluent import arguments as confluent
from agent.log.kafka.log import KafkaLog
from agent.log.kafka.python import arguments as python
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.log import Poll, Producer, TopicSettings
from tests.kit.agent_process import until
from tests.kit.kafka_broker import PASSWORD, USER, KafkaBroker
from tests.kit.logs import WAIT_S, collect, kafka_settings, own, poll_until, values, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
QUICK_S = 1.0


@pytest.fixture
def settings(kafka: KafkaBroker, fresh: Callable[[str], str], client: ClientName) -> KafkaLogSettings:
    return kafka_settings(kafka, fresh, client)


@pytest.fixture
def log(settings: KafkaLogSettings) -> Iterator[KafkaLog]:
    made = KafkaLog(settings)
    yield made
    made.close()


@pytest.fixture
def topic(log: KafkaLog, fresh: Callable[[str], str]) -> str:
    name = fresh("topic")
    log.create([TopicSettings(name=name, partitions=1, compacted=False)])
    return name


@contextmanager
def paused(broker: KafkaBroker) -> Iterator[None]:
    broker.pause()
    try:
        yield
    finally:
        broker.resume()


def secured(broker: KafkaBroker, protocol: str, *, timeout_s: float = WAIT_S, **login: str | None) -> KafkaLogSettings:
    return KafkaLogSettings(
        bootstrap=broker.addresses[protocol],
        security=KafkaSecurity(protocol=protocol, **login),  # type: ignore[arg-type] # a test passes wrong ones, too
        bootstrap_timeout_s=timeout_s,
    )


@pytest.fixture(scope="module")
def guarded(kafka: KafkaBroker) -> Iterator[KafkaBroker]:  # the first broker decides whether this machine can run one
    """A broker on which only the operator may do anything."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with KafkaBroker(settings) as broker:
        yield broker


class Login(TypedDict):
    """What a user logs in with."""

    mechanism: str
    username: str
    password: str


def scram(password: str) -> Login:
    return Login(mechanism="SCRAM-SHA-256", username=USER, password=password)


def test_a_user_without_rights_reads_so_and_where_to_find_what_to_grant(
    guarded: KafkaBroker, fresh: Callable[[str], str], client: ClientName
) -> None:
    topic = fresh("topic")
    owner = KafkaLog(KafkaLogSettings(bootstrap=guarded.bootstrap))
    owner.create([TopicSettings(topic, 1, compacted=False)])
    log = KafkaLog(replace(secured(guarded, "SASL_PLAINTEXT", **scram(PASSWORD)), client=client))
    calls: list[Callable[[], object]] = [
        lambda: log.create([TopicSettings(topic, 1, compacted=False)]),
        lambda: log.partitions(topic),
        lambda: write(log, topic, [b"value"]),
        lambda: log.consumer(f"{topic}-group", [topic], member="m").poll(WAIT_S),
    ]
    for call in calls:
        with pytest.raises(
            UnavailableError, match=r"user \(scalewatch\) has no right to a .*`scalewatch topics --acls`"
        ):
            call()
    log.close()
    owner.close()


def test_a_login_by_password_writes_and_reads(kafka: KafkaBroker, topic: str, client: ClientName) -> None:
    log = KafkaLog(replace(secured(kafka, "SASL_PLAINTEXT", **scram(PASSWORD)), client=client))
    write(log, topic, [b"value"])
    assert values(collect(log.consumer(f"{topic}-group", [topic], member="m"), 1)) == [b"value"]
    log.close()


def test_an_encrypted_connection_checks_the_broker_s_certificate(
    kafka: KafkaBroker, topic: str, client: ClientName
) -> None:
    log = KafkaLog(replace(secured(kafka, "SSL", ca_file=str(kafka.ca_file)), client=client))
    write(log, topic, [b"value"])
    assert log.read(topic, 0, lambda _batch: None) == 1
    log.close()
    with pytest.raises(UnavailableError, match="CA file"):
        KafkaLog(replace(secured(kafka, "SSL", timeout_s=QUICK_S), client=client)).partitions(topic)


@pytest.mark.parametrize(
    ("protocol", "login"),
    [("SASL_PLAINTEXT", scram("wrong horse")), ("PLAINTEXT", {}), ("SSL", {})],
    ids=["wrong password", "plain text to a login", "encryption to a login"],
)
def test_a_connection_that_fails_names_address_security_and_causes_but_no_password(
    kafka: KafkaBroker, protocol: str, login: dict[str, str], client: ClientName, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    settings = replace(
        secured(kafka, protocol, timeout_s=QUICK_S, **login), bootstrap=kafka.addresses["SASL_PLAINTEXT"], client=client
    )
    for use in (KafkaLog.producer, lambda log: log.partitions("topic"), lambda log: log.checkpoints(0)):
        with pytest.raises(UnavailableError) as caught:
            use(KafkaLog(settings))
        for part in (settings.bootstrap, protocol, "1 s", "password"):
            assert part in str(caught.value)
    reported = [*traceback.format_exception(caught.value), caplog.text, repr(settings)]
    reported += [repr(arguments.connection(settings, "x")) for arguments in (confluent, python)]
    assert all("wrong horse" not in text for text in reported)


def test_a_broker_that_is_not_there_is_reported_with_its_address_and_the_time_it_was_given(client: ClientName) -> None:
    settings = KafkaLogSettings(bootstrap="127.0.0.1:1", client=client, bootstrap_timeout_s=QUICK_S)
    for make in (
        lambda: KafkaLog(settings).producer(),
        lambda: KafkaLog(settings).consumer("group", ["topic"], member="m"),
        lambda: KafkaLog(settings).partitions("topic"),
        lambda: KafkaLog(settings).create([]),
        lambda: KafkaLog(settings).read("topic", 0, lambda _batch: None),
        lambda: KafkaLog(settings).checkpoints(0).take_over(),
    ):
        with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1 .* within 1 s"):
            make()


def test_a_login_that_is_not_complete_is_a_mistake_of_the_configuration() -> None:
    security = KafkaSecurity(protocol="SASL_SSL", username="agent")
    with pytest.raises(ConfigError, match="SASL_SSL needs a mechanism, a user name and a password"):
        KafkaLog(KafkaLogSettings(bootstrap="127.0.0.1:1", security=security)).producer()


def test_compressed_records_arrive(settings: KafkaLogSettings, topic: str) -> None:
    log = KafkaLog(replace(settings, compression="gzip"))
    write(log, topic, [b"x" * 10_000] * 20)
    batches: list[bytes | None] = []
    log.read(topic, 0, lambda batch: batches.extend(batch.values))
    assert batches == [b"x" * 10_000] * 20
    log.close()


def test_an_answer_of_several_partitions_at_once_does_not_break_the_connection(
    log: KafkaLog, fresh: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    name = fresh("wide")
    log.create([TopicSettings(name=name, partitions=3, compacted=False)])
    for partition in range(3):
        write(log, name, [b"x" * 16_000] * 100, partition)
    assert len(values(collect(log.consumer(f"{name}-group", [name], member="m"), 300))) == 300
    assert "Invalid frame length" not in caplog.text


def test_a_full_queue_refuses_records_and_takes_them_again_later(
    kafka: KafkaBroker, settings: KafkaLogSettings, topic: str
) -> None:
    log = KafkaLog(replace(settings, queue_records_max=10, block_timeout_s=0.5))
    producer = log.producer()
    producer.send(topic, b"first", partition=0)
    producer.flush(WAIT_S)
    with paused(kafka):
        for _ in range(10):
            producer.send(topic, b"queued", partition=0)
        with pytest.raises(UnavailableError, match="queue is full: 10 records"):
            producer.send(topic, b"too many", partition=0)
    until(lambda: taken(producer, topic, b"later"), WAIT_S, "room in the queue")
    producer.flush(WAIT_S)
    seen: list[bytes | None] = []
    log.read(topic, 0, lambda batch: seen.extend(batch.values))
    assert seen == [b"first", *[b"queued"] * 10, b"later"]
    log.close()


def taken(producer: Producer, topic: str, value: bytes) -> bool:
    try:
        producer.send(topic, value, partition=0)
    except UnavailableError:
        return False
    return True


def test_a_queue_of_many_bytes_is_full_too(kafka: KafkaBroker, settings: KafkaLogSettings, topic: str) -> None:
    log = KafkaLog(replace(settings, queue_bytes_max=100_000, block_timeout_s=0.5))
    producer = log.producer()
    producer.send(topic, b"first", partition=0)
    producer.flush(WAIT_S)
    with paused(kafka), pytest.raises(UnavailableError, match=r"queue is full: [12] records"):  # noqa: PT012 - at one of them
        for _ in range(3):
            producer.send(topic, b"x" * 60_000, partition=0)
    log.close()


def test_a_producer_is_dead_after_a_flush_that_failed_and_a_new_one_works(
    kafka: KafkaBroker, log: KafkaLog, topic: str
) -> None:
    producer = log.producer()
    producer.send(topic, b"first", partition=0)
    producer.flush(WAIT_S)
    with paused(kafka):
        producer.send(topic, b"unknown", partition=0)
        with pytest.raises(UnavailableError):
            producer.flush(QUICK_S)
        with pytest.raises(UnavailableError, match="cannot be used any more"):
            producer.send(topic, b"never", partition=0)
        with pytest.raises(UnavailableError, match="cannot be used any more"):
            producer.flush(QUICK_S)
    write(log, topic, [b"unknown"])
    seen: list[bytes | None] = []
    log.read(topic, 0, lambda batch: seen.extend(batch.values))
    assert seen in ([b"first", b"unknown"], [b"first", b"unknown", b"unknown"])


def test_closing_a_producer_gives_up_what_the_broker_did_not_get(
    kafka: KafkaBroker, settings: KafkaLogSettings, log: KafkaLog, topic: str
) -> None:
    producer = KafkaLog(replace(settings, delivery_timeout_s=600.0, request_timeout_s=600.0)).producer()
    producer.send(topic, b"first", partition=0)
    producer.flush(WAIT_S)
    with paused(kafka):
        for _ in range(3):
            producer.send(topic, b"queued" * 10_000, partition=0)
        closing = Thread(target=producer.close, daemon=True)
        closing.start()
        closing.join(WAIT_S)
        assert not closing.is_alive()  # nobody answers, and to wait for that would take ten minutes
    time.sleep(1.0)
    assert log.read(topic, 0, lambda _batch: None) <= 2


def test_consumer_and_producer_go_on_by_themselves_after_the_broker_was_killed(
    kafka: KafkaBroker, log: KafkaLog, topic: str
) -> None:
    consumer, producer = log.consumer(f"{topic}-group", [topic], member="m"), log.producer()
    own([consumer], 1)
    producer.send(topic, b"before", partition=0)
    producer.flush(WAIT_S)
    assert values(collect(consumer, 1)) == [b"before"]
    kafka.kill()
    producer.send(topic, b"sent while away", partition=0)
    starting = Timer(1.0, kafka.start)
    starting.start()
    try:
        producer.flush(WAIT_S)
    finally:
        starting.join()
    seen: list[bytes | None] = []
    deadline = time.monotonic() + WAIT_S
    while b"sent while away" not in seen and time.monotonic() < deadline:
        try:
            seen.extend(values(consumer.poll(1.0).batches))
        except UnavailableError:
            continue
    # a slow start outlives the session: the partition is assigned anew, and without a seek read from its start
    assert seen in ([b"sent while away"], [b"before", b"sent while away"])


def test_a_consumer_that_is_behind_and_gets_nothing_is_given_up(
    settings: KafkaLogSettings, topic: str, log: KafkaLog
) -> None:
    consumer = KafkaLog(replace(settings, stuck_after_s=1.0)).consumer(f"{topic}-group", [topic], member="m")
    write(log, topic, [b"first"])
    collect(consumer, 1)
    polls: list[Poll] = []
    poll_until([consumer], lambda: len(polls) > 15, lambda _, poll: polls.append(poll))  # quiet, and nothing behind
    write(log, topic, [b"second"])
    consumer._member.poll = lambda timeout_s: ()  # type: ignore[method-assign] # a client that gets nothing any more
    with pytest.raises(UnavailableError, match="has records, but none arrived"):
        poll_until([consumer], lambda: False, lambda _, poll: polls.append(poll))
    consumer.close()


def test_a_join_that_takes_longer_than_a_poll_ends_all_the_same(log: KafkaLog, fresh: Callable[[str], str]) -> None:
    for number in range(3):
        early, late = (TopicSettings(fresh(f"{name}-{number}"), 1, compacted=False) for name in ("early", "late"))
        log.create([early])
        consumer = log.consumer(fresh(f"hasty-{number}"), [f"^({early.name}|{late.name})"], member="m")
        own([consumer], 1)
        log.create([late])
        until(lambda: consumer.poll(0.03) and len(consumer.assigned()) == 2, WAIT_S, "both topics")  # noqa: B023
        consumer.close()
