"""A broker that its own cluster has lost sight of for a moment is waited for."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import NodeNotReadyError

from agent.log.kafka.client import ClientName, KafkaLogSettings, check_reachable, client_of
from processors.contracts.errors import UnavailableError
from tests.kit.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka
# heard once in 3 s, believed for half a second: most of the time it answers a question for its cluster's brokers with none
SELDOM_IN_SIGHT = {"broker.heartbeat.interval.ms": "3000", "broker.session.timeout.ms": "500"}


@pytest.fixture(scope="module")
def seldom_in_sight() -> Iterator[KafkaBroker]:
    with KafkaBroker(SELDOM_IN_SIGHT) as broker:
        yield broker


def test_a_cluster_that_names_no_broker_is_asked_until_it_does(
    seldom_in_sight: KafkaBroker, client: ClientName
) -> None:
    settings = KafkaLogSettings(bootstrap=seldom_in_sight.bootstrap, client=client)
    _reach_while_without_a_broker(settings, seldom_in_sight, times=2)


def test_without_a_broker_in_time_the_error_names_the_causes(seldom_in_sight: KafkaBroker) -> None:
    # confluent-kafka takes longer to connect than such a broker is out of sight; the rule is the same for both
    impatient = KafkaLogSettings(bootstrap=seldom_in_sight.bootstrap, client="kafka-python", bootstrap_timeout_s=0.3)
    with pytest.raises(UnavailableError, match="No Kafka broker could be reached"):
        _reach_while_without_a_broker(impatient, seldom_in_sight, times=50)


def _reach_while_without_a_broker(settings: KafkaLogSettings, broker: KafkaBroker, times: int) -> None:
    for _ in islice(_times_without_a_broker(broker), times):
        check_reachable(client_of(settings))


def _times_without_a_broker(broker: KafkaBroker) -> Iterator[None]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        while True:
            with suppress(NodeNotReadyError):  # it asks the controller, which is out of sight just now
                if not client.describe_cluster()["brokers"]:
                    yield
    finally:
        client.close()
