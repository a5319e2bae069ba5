"""Fixtures of more than one area, among them a real Kafka broker; the end of a run says what was left out."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

import agent  # noqa: F401 - before numpy, whose threads it limits
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_jars import NoKafkaError

pytest_plugins = ["pytester", "tests.kit.not_run"]

REQUIRED = "SCALEWATCH_REQUIRE_KAFKA"

# the same examples every time, however slow the machine is; --hypothesis-profile=default looks for new ones
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A running broker; where none can be started the test is skipped, or fails if a broker is required."""
    try:
        with KafkaBroker() as broker:
            yield broker
    except NoKafkaError as error:
        reason = f"no Kafka broker: {error}"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def fresh(_numbers: Iterator[int]) -> Callable[[str], str]:
    """Make names of topics and groups that no other test has used."""
    number = next(_numbers)
    return lambda name: f"{name}-{number}"
