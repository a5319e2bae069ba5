"""Rows in Avro on a real broker, while the schema registry is away: they wait, whatever happens to the collector, and others do not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.log.kafka.client import ClientName
from processors.contracts.events import HostMinute, JournalEvent, decode_record
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.schema_registry import LOADAVG, FakeRegistry, row, schema_registry

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

START_MS = 1_795_168_800_000
ROWS = 20
WORKED_OFF_S = 90.0


class Site:
    """A topic in Avro and one in JSON, and the collector of both."""

    def __init__(self, kafka: KafkaBroker, name: str, folder: Path, client: ClientName, registry: str) -> None:
        self.avro, self.json = f"{name}-avro", f"{name}-json"
        sources = [
            {"topics": [self.avro], "format": "ldms", "system": "exa", "encoding": "avro"},
            {"topics": [self.json], "format": "ldms", "system": "exa"},
        ]
        path = write_config(folder, kafka.bootstrap, name, sources, client, schema_registry={"url": registry})
        self.collector = AgentProcess(path, "collector")
        self.topics = AgentTopics(self.collector.config)
        for topic in (self.avro, self.json):
            self.topics.create(topic)

    def hosts(self) -> set[str]:
        """Return the hosts of which all minutes but the last are in the journal."""
        events = [event for event in self._events() if isinstance(event, HostMinute)]
        hosts = [event.host for event in events if event.revision == 0]
        return {host for host in hosts if hosts.count(host) >= ROWS - 4}

    def _events(self) -> list[JournalEvent]:
        return [decode_record(value).event for value in self.topics.journal()]

    def read(self, *hosts: str) -> None:
        """Wait until these hosts, and no others, are in the journal."""
        until(lambda: self.hosts() == set(hosts) or None, WORKED_OFF_S, lambda: f"{hosts}: {self.collector.output()}")

    def waiting(self) -> float:
        return self.collector.metric("collector", "scalewatch_collector_partitions_waiting")


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as registry:
        registry.hold(37, LOADAVG)
        registry.status = 503
        yield registry


@pytest.fixture
def site(
    kafka: KafkaBroker, _numbers: Iterator[int], tmp_path: Path, client: ClientName, registry: FakeRegistry
) -> Iterator[Site]:
    found = Site(kafka, f"avro-{next(_numbers)}", tmp_path, client, registry.url)
    try:
        yield found
    finally:
        if found.collector.running():
            found.collector.kill()
        found.topics.log.close()


def rows(host: str) -> list[bytes]:
    return [row(START_MS + at * 60_000, host, 3.0) for at in range(ROWS)]


def plain(host: str) -> list[bytes]:
    times = [START_MS // 1000 + at * 60 for at in range(ROWS)]
    return [f'{{"timestamp":{time}.0,"producer":"{host}","load1min":3.0}}'.encode() for time in times]


def test_rows_wait_for_their_schema_over_a_crash_of_the_collector(site: Site, registry: FakeRegistry) -> None:
    site.topics.write(site.avro, rows("nid1"))
    site.collector.start()
    until(lambda: site.waiting() == 1, WORKED_OFF_S, site.collector.output)
    site.topics.write(site.json, plain("nid2"))
    site.read("nid2")
    site.collector.kill()
    site.collector.start()
    until(lambda: site.waiting() == 1, WORKED_OFF_S, site.collector.output)
    assert site.collector.lines("schema registry unavailable")[0]["reason"].startswith(
        "The schema registry answered 503"
    )
    registry.status = None
    site.read("nid1", "nid2")
    assert site.topics.read(site.collector.config.topics.deadletters) == []
    assert site.collector.stop() == 0
