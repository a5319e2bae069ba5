"""Topics whose messages need a schema that is not known yet: they wait, and all others go on."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest

from agent.app import compose
from agent.cli.deadletter import Filter, replayed
from agent.collector.collector import Collector
from agent.collector.registry import REFUSED_S
from agent.config.roles import SchemaRegistrySettings
from agent.config.topics import own_topics
from agent.config.tree import Config, Source
from agent.decode.avro import Schemas
from agent.log.memory import MemoryLog
from processors.contracts.events import DeadLetter, HostMinute, decode_record
from processors.contracts.log import Batch, TopicSettings
from tests.kit.agent_process import until
from tests.kit.clock import FakeClock
from tests.kit.schema_registry import LOADAVG, FakeRegistry, row, schema_registry

NOW_MS = 1_795_168_800_000
MINUTE_MS = 60_000


class Centre:
    """A topic of rows in Avro and one of rows in JSON, and the collector of both."""

    def __init__(self, registry: SchemaRegistrySettings) -> None:
        avro = Source(topics=("avro",), format="ldms", encoding="avro", system="exa")
        self.config = Config(
            schema_registry=registry, sources=(avro, Source(topics=("json",), format="ldms", system="exa"))
        )
        self.clock, self.log, self.metrics = FakeClock(NOW_MS), MemoryLog(), compose.metrics(self.config)
        self.log.create(
            [*own_topics(self.config), *(TopicSettings(name, 1, compacted=False) for name in ("avro", "json"))]
        )
        self.registry_clock = FakeClock()  # its time passes by waiting alone
        self._schemas = compose.schemas(self.config, self.metrics, self.registry_clock)
        routes = compose.routes(self.config, self._schemas)
        self.collector = Collector(self.log, routes, self.metrics, "one", monotonic_s=self.clock.monotonic_s)
        self._producer = self.log.producer()

    def send(self, topic: str, *values: bytes) -> None:
        """Send messages, and collect what can be."""
        for value in values:
            self._producer.send(topic, value, None, 0, NOW_MS)
        self._producer.flush(1.0)
        self.step()

    def step(self) -> None:
        """Collect what can be."""
        for _ in range(4):
            self._step()
        while self.collector.reporting():
            self._step()

    def _step(self) -> None:
        self.clock.advance(2.0)
        self.collector.step(NOW_MS, 0.0)

    def until(self, what: str) -> None:
        """Collect until no partition waits."""
        until(lambda: self.step() or not self.collector.waiting() or None, 20.0, lambda: what)

    def taken(self) -> int:
        """Return how many messages in Avro were taken."""
        return self.collector.taken()["avro", 0].next_offset

    def records(self, topic: str) -> list[bytes]:
        """Return the values of a topic."""
        found: list[Batch] = []
        self.log.read(topic, 0, found.append)
        return [value for batch in found for value in batch.values if value]

    def hosts(self) -> set[str]:
        """Return the hosts whose minutes were written."""
        events = [decode_record(value).event for value in self.records(self.config.topics.journal)]
        return {event.host for event in events if isinstance(event, HostMinute)}

    def dead_letters(self) -> list[tuple[str, str]]:
        """Return reasons and sentences of the dead letters."""
        values = self.records(self.config.topics.deadletters)
        dead_letters = [msgspec.json.decode(value, type=DeadLetter) for value in values]
        return [(each.reason, each.detail) for each in dead_letters]

    def close(self) -> None:
        """End the thread of the schemas."""
        self._schemas.close()


class Unasked(Schemas):
    """The schemas of a member whose registry never answers."""

    def text(self, number: int) -> bytes | None:
        return None


def avro_rows(host: str, number: int = 37) -> list[bytes]:
    return [row(NOW_MS - 20 * MINUTE_MS + at * MINUTE_MS, host, 3.0, number) for at in range(20)]


def json_rows(host: str) -> list[bytes]:
    times = [NOW_MS // 1000 - 1200 + at * 60 for at in range(20)]
    return [f'{{"timestamp":{time}.0,"producer":"{host}","load1min":3.0}}'.encode() for time in times]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as registry:
        yield registry


def settings(registry: FakeRegistry, **given: Any) -> SchemaRegistrySettings:
    return SchemaRegistrySettings(url=registry.url, **given)


def test_rows_are_read_once_their_schema_was_looked_up(registry: FakeRegistry) -> None:
    registry.hold(37, LOADAVG)
    with closing(Centre(settings(registry))) as centre:
        centre.send("avro", *avro_rows("nid1"))
        centre.until("the schema was looked up")
        assert (centre.hosts(), centre.dead_letters()) == ({"nid1"}, [])
        assert registry.requests == ["/schemas/ids/37"], "it is asked once for all rows"


def test_a_schema_that_only_fails_costs_its_messages_which_can_be_sent_again(registry: FakeRegistry) -> None:
    registry.hold(37, LOADAVG)
    registry.statuses["/schemas/ids/1"] = 500
    with closing(Centre(settings(registry))) as centre:
        centre.send("avro", *avro_rows("nid1"), *avro_rows("nid2", 1), *avro_rows("nid3"))
        until(lambda: centre.step() or centre.hosts() == {"nid1", "nid3"} or None, 20.0, "the schema is given up")
        assert {reason for reason, _ in centre.dead_letters()} == {"schema"}
        assert centre.dead_letters()[0][1].startswith("The schema registry answered 500 ('Error in the backend')")
        del registry.statuses["/schemas/ids/1"]
        registry.hold(1, LOADAVG)
        centre.registry_clock.advance(REFUSED_S + 1)
        sent = replayed(centre.log, centre.config.topics.deadletters, Filter(reason="schema")).sent
        assert sent == len(centre.dead_letters()) == 20
        until(lambda: centre.step() or centre.taken() == 80 or None, 20.0, "they are read")
        assert len(centre.dead_letters()) == 20


def test_while_the_registry_is_away_its_topic_waits_and_others_are_read(registry: FakeRegistry) -> None:
    registry.status = 503
    registry.hold(37, LOADAVG)
    with closing(Centre(settings(registry))) as centre:
        centre.send("avro", *avro_rows("nid1"))
        registry.wait(2)
        centre.send("json", *json_rows("nid2"))
        assert (centre.hosts(), centre.dead_letters()) == ({"nid2"}, [])
        assert centre.collector.waiting() == (("avro", 0),)
        assert centre.metrics.value("scalewatch_collector_partitions_waiting") == 1
        assert centre.taken() == 0
        registry.status = None
        centre.until("the registry is there again")
        assert (centre.hosts(), centre.dead_letters()) == ({"nid1", "nid2"}, [])
        assert centre.metrics.value("scalewatch_collector_partitions_waiting") == 0
        assert centre.metrics.value("scalewatch_schema_lookups_total", outcome="failed") >= 2


def test_a_schema_that_the_registry_does_not_have_costs_its_messages_alone(registry: FakeRegistry) -> None:
    registry.hold(37, LOADAVG)
    with closing(Centre(settings(registry))) as centre:
        first, *others = avro_rows("nid1")
        centre.send("avro", first, b"\0\0\0\0\x63\x02", *others)
        centre.until("both schemas were looked up")
        assert centre.hosts() == {"nid1"}
        assert centre.dead_letters() == [("schema", "The schema registry has no schema 99.")]


def test_what_comes_before_a_message_that_waits_is_read(registry: FakeRegistry) -> None:
    registry.hold(37, LOADAVG)
    with closing(Centre(settings(registry))) as centre:
        centre.send("avro", *avro_rows("nid1"))
        centre.until("the schema was looked up")
        registry.status = 401
        centre.send(
            "avro", *(value for rows in zip(avro_rows("nid3"), json_rows("nid4"), strict=True) for value in rows)
        )
        centre.send("avro", *avro_rows("nid5", 38))
        assert centre.taken() == 60
        registry.hold(38, LOADAVG)
        registry.status = None
        centre.until("the other schema was looked up")
        assert centre.taken() == 80
        assert centre.dead_letters() == []


def test_a_partition_that_waits_goes_on_with_the_member_that_gets_it(registry: FakeRegistry) -> None:
    registry.status = 500
    registry.hold(37, LOADAVG)
    with closing(Centre(settings(registry))) as centre:
        centre.send("avro", *avro_rows("nid1"))
        registry.wait(1)
        routes, clock = compose.routes(centre.config, Unasked({})), centre.clock.monotonic_s
        other = Collector(centre.log, routes, centre.metrics, "two", monotonic_s=clock)
        for _ in range(4):
            centre.step()
            other.step(NOW_MS, 0.0)
        assert {len(each.assigned()) for each in (centre.collector, other)} == {1}
        assert (*centre.collector.waiting(), *other.waiting()) == (("avro", 0),)
        other.close()
        registry.status = None
        centre.step()
        centre.until("the schema was looked up")
        assert centre.taken() == 20


def test_schemas_of_the_configuration_need_no_registry() -> None:
    given = SchemaRegistrySettings.model_validate(
        {"schemas": ({"id": 37, "text": msgspec.json.encode(LOADAVG).decode()},)}
    )
    with closing(Centre(given)) as centre:
        centre.send("avro", *avro_rows("nid1"), b"\0\0\0\0\x26\x02")
        assert centre.hosts() == {"nid1"}
        assert centre.dead_letters() == [("schema", "The Avro schema 38 is not in the configuration.")]
