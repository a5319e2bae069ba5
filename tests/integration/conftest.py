"""Real producers for the integration tests."""

import os
from collections.abc import Iterator

import pytest

from agent.log.kafka.client import ClientName, KafkaLogSettings
from agent.log.kafka.log import KafkaLog
from processors.contracts.log import TopicSettings
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import CLIENTS, MARKS_OF_CLIENT
from tests.kit.slurm import SlurmCluster
from tests.kit.slurm_root import NEWEST, SUITES, why_not


@pytest.fixture(params=[pytest.param(client, marks=MARKS_OF_CLIENT[client]) for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> ClientName:
    """Each Kafka client library, for tests of failures that depend on the client."""
    name: ClientName = request.param
    return name


@pytest.fixture(
    scope="session",
    params=[pytest.param(suite, marks=() if suite == NEWEST else pytest.mark.thorough) for suite in SUITES],
)
def slurm(request: pytest.FixtureRequest, kafka: KafkaBroker) -> Iterator[SlurmCluster]:
    """A running Slurm of four nodes, once per version, that writes to the session's broker."""
    if reason := why_not():
        if os.environ.get("SCALEWATCH_REQUIRE_SLURM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    topic = f"slurm.{request.param}"
    log = KafkaLog(KafkaLogSettings(bootstrap=kafka.bootstrap))
    log.create([TopicSettings(name, 1, compacted=False) for name in (topic, f"{topic}.started")])
    log.close()
    with SlurmCluster(request.param, kafka.bootstrap, topic=topic) as cluster:
        yield cluster
