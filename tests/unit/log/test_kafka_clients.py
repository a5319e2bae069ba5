"""Which Kafka client does the work, what it is allowed to hold, and what its errors mean to the log."""

import subprocess
import sys

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import errors

from agent.log.kafka.client import KafkaLogSettings, client_name, client_of, translate
from agent.log.kafka.confluent.arguments import consuming, joining, producing, transactional
from processors.contracts.errors import ConfigError, FencedError, RebalancingError, ScalewatchError, UnavailableError
from tests.kit.cases import each

ADDRESS = "127.0.0.1:1"


def test_the_fast_client_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client_name("auto") == "confluent"
    assert client_name("kafka-python") == "kafka-python"
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert client_name("auto") == "kafka-python"
    with pytest.raises(ConfigError, match=r"not installed: run `pip install scalewatch\[fast\]`"):
        client_name("confluent")


@pytest.mark.parametrize(("name", "library", "other"), [
    ("kafka-python", "kafka", "confluent_kafka"), ("confluent", "confluent_kafka", "kafka"),
])  # fmt: skip
def test_a_start_loads_one_client_library(name: str, library: str, other: str) -> None:
    code = f"""
import sys
from agent.log.kafka.log import KafkaLog
from agent.log.kafka.client import KafkaLogSettings, client_of
client_of(KafkaLogSettings(bootstrap="{ADDRESS}", client="{name}"))
print("{library}" in sys.modules, "{other}" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "False"]


def test_what_a_client_holds_is_bounded() -> None:
    settings = KafkaLogSettings(ADDRESS, queue_records_max=100, queue_bytes_max=1 << 20, fetched_bytes_max=2 << 20)
    producer, consumer = producing(settings, "producer"), consuming(settings, "member", "group")
    assert (producer["queue.buffering.max.messages"], producer["queue.buffering.max.kbytes"]) == (100, 1024)
    assert (consumer["queued.max.messages.kbytes"], consumer["fetch.max.bytes"]) == (2048, 2 << 20)


def test_a_transaction_does_not_outlive_its_records_deadline() -> None:
    arguments = transactional(KafkaLogSettings(ADDRESS, transaction_timeout_s=20.0), "checkpoint", "state-0")
    assert arguments["delivery.timeout.ms"] <= arguments["transaction.timeout.ms"] == 20_000


def test_a_member_that_works_for_long_keeps_at_least_its_session() -> None:
    settings = KafkaLogSettings(ADDRESS, session_timeout_s=60.0, work_timeout_s=10.0)
    assert joining(settings, "group", "m", from_beginning=True)["max.poll.interval.ms"] == 60_000


CASES: list[tuple[str, BaseException, type[ScalewatchError], str]] = [
    ("kafka-python", errors.ProducerFencedError(), FencedError, "ProducerFenced"),
    ("kafka-python", errors.CommitFailedError("gone"), RebalancingError, "gone"),
    ("kafka-python", errors.GroupAuthorizationFailedError(), UnavailableError, "no right to a consumer group"),
    ("kafka-python", errors.NoBrokersAvailable(), UnavailableError, "No Kafka broker could be reached"),
    ("confluent", KafkaException(KafkaError(KafkaError._FENCED)), FencedError, "_FENCED"),
    ("confluent", KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID)), FencedError, "FENCED_INSTANCE_ID"),
    ("confluent", KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION)), RebalancingError, "ILLEGAL_GENERATION"),
    (
        "confluent",
        KafkaException(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)),
        UnavailableError,
        "no right to a transactional id",
    ),
    ("confluent", KafkaException(KafkaError(KafkaError._TRANSPORT)), UnavailableError, "could be reached"),
    ("confluent", RuntimeError("Consumer closed"), UnavailableError, "RuntimeError: Consumer closed"),
]


@each(("name", "error", "kind", "part"), CASES)
def test_errors_of_both_clients_mean_the_same(
    name: str, error: BaseException, kind: type[ScalewatchError], part: str
) -> None:
    settings = KafkaLogSettings(ADDRESS, client="confluent" if name == "confluent" else "kafka-python")
    found = translate(client_of(settings), error, "Writing")
    assert type(found) is kind
    assert part in str(found)
    assert ADDRESS in str(found)


def test_a_fatal_error_behind_a_callback_is_found() -> None:
    client = client_of(KafkaLogSettings(ADDRESS, client="confluent"))
    hidden = SystemError("returned a result with an exception set")
    hidden.__cause__ = KafkaException(KafkaError(KafkaError._FENCED))
    assert isinstance(translate(client, hidden, "Writing"), FencedError)
