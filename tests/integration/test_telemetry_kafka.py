"""Telemetry on a real broker: minutes of hosts are there and right, whoever is killed, started again or joins."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from agent.app import compose
from agent.collector.collector import Collector
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.log.kafka.client import ClientName
from agent.log.memory import MemoryLog
from processors.contracts.events import HostMinute, decode_record
from processors.contracts.log import TopicSettings
from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 2
START_MS = 1_795_168_800_000
SECONDS = 1200
HOSTS = 6
WORKED_OFF_S = 120.0
SETTINGS: dict[str, dict[str, Any]] = {
    "kafka": {"session_timeout_s": 3.0},
}
Sent = list[tuple[int, bytes, int]]  # partition, value, time


def samples() -> Sent:
    """Return what six hosts measure in twenty minutes: in arrays, a tenth of it late, in two partitions."""
    dice = random.Random(1)  # noqa: S311 - the same samples each time
    sent: Sent = []
    for second in range(0, SECONDS, 5):
        for partition in range(PARTITIONS):
            now_ms = START_MS + second * 1000
            loads = [
                {
                    "type": "load", "system": "exa", "host": f"nid{host}", "resource": "cpu_available",
                    "time": rfc3339(now_ms - (dice.randrange(110_000) if dice.random() < 0.1 else 0)),
                    "value": round(dice.random(), 3),
                }
                for host in range(partition, HOSTS, PARTITIONS)
            ]  # fmt: skip
            sent.append((partition, json.dumps(loads).encode(), now_ms))
    return sent


def undisturbed(config: Config, topic: str, sent: Sent) -> dict[tuple[str, int], HostMinute]:
    """Return what one collector makes of the same records in memory."""
    log = MemoryLog()
    log.create([*own_topics(config), TopicSettings(topic, PARTITIONS, compacted=False)])
    producer = log.producer()
    for partition, value, time_ms in sent:
        producer.send(topic, value, None, partition, time_ms)
    collector = Collector(log, compose.routes(config), compose.metrics(), "calm", monotonic_s=lambda: 0.0)
    while not collector.assigned() or collector.lag():
        collector.step(START_MS, 0.0)
    values: list[bytes | None] = []
    log.read(config.topics.journal, 0, lambda batch: values.extend(batch.values))
    return minutes([value for value in values if value])


def minutes(journal: Sequence[bytes]) -> dict[tuple[str, int], HostMinute]:
    """Return the minutes of a journal; fail where one was told in two ways."""
    found: dict[tuple[str, int], HostMinute] = {}
    for event in (decode_record(value).event for value in journal):
        if isinstance(event, HostMinute):
            assert found.setdefault((event.identity, event.revision), event) == event
    return found


class Site:
    """A raw topic on the broker, and collectors that come and go."""

    def __init__(self, kafka: KafkaBroker, name: str, folder: Path, client: ClientName) -> None:
        self.topic = f"{name}-raw"
        self._kafka, self._name, self._folder, self._client = kafka, name, folder, client
        self._collectors: list[AgentProcess] = []
        self._producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all", enable_idempotence=True)
        self.config = self.collector(start=False).config
        self.topics = AgentTopics(self.config)
        self.topics.create(self.topic, PARTITIONS)

    def collector(self, *, start: bool = True) -> AgentProcess:
        """Return one more collector of the group, on a port of its own."""
        folder = self._folder / str(len(self._collectors))
        folder.mkdir()
        sources = [{"topics": [self.topic], "format": "auto"}]
        process = AgentProcess(
            write_config(folder, self._kafka.bootstrap, self._name, sources, self._client, **SETTINGS), "collector"
        )
        self._collectors.append(process)
        return process.start() if start else process

    def send(self, sent: Sent) -> None:
        """Write records, and wait for the broker's word."""
        for partition, value, time_ms in sent:
            self._producer.send(self.topic, value, partition=partition, timestamp_ms=time_ms)
        self._producer.flush(30.0)

    def published(self) -> dict[tuple[str, int], HostMinute]:
        """Return the minutes in the journal."""
        return minutes(self.topics.journal())

    def some_reported(self, count: int) -> None:
        """Wait until so many minutes were told."""
        until(lambda: len(self.published()) >= count, WORKED_OFF_S, f"{count} minutes of hosts")

    def everything_is_there(self, sent: Sent) -> None:
        """Wait for all minutes, and compare."""
        expected = undisturbed(self.config, self.topic, sent)
        assert {revision for _, revision in expected} == {0, 1}
        until(lambda: set(self.published()) >= set(expected), WORKED_OFF_S, "every minute of every host")
        assert self.published() == expected

    def close(self) -> None:
        for process in self._collectors:
            if process.running():
                process.kill()
        self._producer.close()
        self.topics.log.close()


@pytest.fixture
def site(kafka: KafkaBroker, _numbers: Iterator[int], tmp_path: Path, client: ClientName) -> Iterator[Site]:
    found = Site(kafka, f"telemetry-{next(_numbers)}", tmp_path, client)
    try:
        yield found
    finally:
        found.close()


def test_minutes_of_hosts_are_the_same_after_kills_of_the_collector(site: Site) -> None:
    sent = samples()
    site.send(sent[: len(sent) // 2])
    collector = site.collector()
    dice = random.Random(2)  # noqa: S311 - the same kills each time
    for part in range(3):
        site.some_reported(15 + 10 * part)
        time.sleep(dice.random())
        collector.kill()
        collector.start()
    site.send(sent[len(sent) // 2 :])
    site.everything_is_there(sent)
    assert collector.stop() == 0


def test_minutes_of_hosts_are_the_same_when_a_second_collector_joins_and_the_first_is_killed(site: Site) -> None:
    sent, third = samples(), SECONDS // 5 * PARTITIONS // 3
    first = site.collector()
    site.send(sent[:third])
    site.some_reported(10)
    second = site.collector()
    site.send(sent[third : 2 * third])
    until(
        lambda: second.metric("collector", "scalewatch_events_total", outcome="processed") > 0,
        WORKED_OFF_S,
        "both read",
    )
    first.kill()
    site.send(sent[2 * third :])
    site.everything_is_there(sent)
    assert second.stop() == 0
