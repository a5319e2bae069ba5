"""Schemas from a real registry: what was registered is read, and what is not there, or of another kind, is none."""

import json
import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from agent.app import compose
from agent.clock import SystemClock
from agent.config.roles import SchemaRegistrySettings
from agent.config.tree import Config
from agent.decode.avro import AvroMessages
from tests.kit.agent_process import until
from tests.kit.apicurio import Apicurio, apicurio
from tests.kit.kafka_jars import NoKafkaError
from tests.kit.schema_registry import LOADAVG, row

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIME_MS = 1_787_217_284_001


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    try:
        with apicurio(tmp_path_factory.mktemp("registry")) as found:
            yield found
    except NoKafkaError as error:
        if os.environ.get("SCALEWATCH_REQUIRE_KAFKA") == "1":
            pytest.fail(str(error))
        pytest.skip(f"no schema registry: {error}")


def test_rows_are_opened_by_the_schema_that_was_registered(registry: Apicurio) -> None:
    number = registry.register("loadavg_8d2b8bd", json.dumps(LOADAVG))
    other = registry.register("job", 'syntax = "proto3"; message Job { string name = 1; }', "PROTOBUF")
    config = Config(schema_registry=SchemaRegistrySettings(url=registry.url))
    with closing(compose.schemas(config, compose.metrics(), SystemClock())) as schemas:
        messages = AvroMessages(schemas)
        values = [row(TIME_MS, "nid1", 3.0, each) for each in (number, other, 4_000)]
        assert messages.ready(values) == 0
        until(lambda: messages.ready(values) == 3, 30.0, "all were looked up")
        assert json.loads(messages.opened(values[0]))["timestamp"] == TIME_MS / 1000
        with pytest.raises(
            Exception, match=f"schema {other} of the registry has the type 'PROTOBUF', which is not supported"
        ):
            messages.opened(values[1])
        with pytest.raises(Exception, match="The schema registry has no schema 4000"):
            messages.opened(values[2])
