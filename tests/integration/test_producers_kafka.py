"""Real Telegraf and collectd, as deploy/producers has them, report this machine through a real Kafka."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from processors.contracts.log import Batch
from tests.kit.agent_process import ROOT, AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.producers import HOST, producer

pytestmark = [pytest.mark.kafka, pytest.mark.tools, pytest.mark.slow]

REPORTED_S = 180.0  # a minute is told when it is over
LOOK_S = 0.5
PARTITIONS = 3
SAMPLE = ROOT / "deploy" / "samples" / "telegraf.yaml"
RESOURCES = {
    "json": {"cpu_available", "load1", "memory_free", "memory_available"},
    "influx": {"cpu_available", "load1", "memory_free", "memory_available"},
    "collectd": {"cpu_available", "load1", "memory_free"},
}
SLACK = {"cpu_available": 0.1, "load1": 0.2, "memory_free": 200e6, "memory_available": 200e6}
Measured = dict[str, list[float]]


def source(topic: str, system: str) -> dict[str, Any]:
    """Return the source of a Telegraf centre in deploy/samples, for another topic."""
    sources = yaml.safe_load(SAMPLE.read_text())["sources"]
    shipped: dict[str, Any] = next(each for each in sources if each["topics"] == ["telegraf"])
    return {**shipped, "topics": [topic], "system": system}


def look(seen: Measured) -> None:
    """Note what this machine measures now."""
    memory = psutil.virtual_memory()
    seen["cpu_available"].append(psutil.cpu_times_percent().idle / 100.0)
    seen["load1"].append(psutil.getloadavg()[0])
    seen["memory_free"].append(memory.free)
    seen["memory_available"].append(memory.available)


class Centre:
    """A topic of three partitions for each producer, and an agent that reads them."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        self.topics = {system: f"{prefix}-{system}" for system in RESOURCES}
        sources = [source(topic, system) for system, topic in self.topics.items()]
        self.agent = AgentProcess(
            write_config(folder, bootstrap, prefix, sources, systems={system: {} for system in self.topics})
        )
        self.log = AgentTopics(self.agent.config)
        for topic in self.topics.values():
            self.log.create(topic, PARTITIONS)

    def measured(self) -> dict[str, dict[str, float]]:
        """Return the means of the last minute of this machine, by system and resource."""
        return {
            row["system"]: {each["resource"]: each["window"]["mean"] for each in row["resources"]}
            for row in self.agent.rows("/api/v1/hosts")
            if row["host"] == HOST
        }

    def keys(self, topic: str) -> list[set[bytes | None]]:
        """Return the keys in each partition that holds any."""
        found: list[set[bytes | None]] = []
        for partition in range(PARTITIONS):
            batches: list[Batch] = []
            self.log.log.read(topic, partition, batches.append)
            found.append({key for batch in batches for key in batch.keys})
        return [keys for keys in found if keys]


@pytest.fixture
def centre(kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path) -> Iterator[Centre]:
    found = Centre(kafka.bootstrap, fresh("producers"), tmp_path)
    with found.agent:
        yield found
    found.log.log.close()


def test_hosts_that_telegraf_and_collectd_measure_appear_with_what_this_machine_measures(
    centre: Centre, kafka: KafkaBroker, tmp_path: Path
) -> None:
    seen: Measured = {resource: [] for resource in SLACK}

    def all_reported() -> bool:
        look(seen)
        time.sleep(LOOK_S)
        reported = centre.measured()
        return all(resources <= set(reported.get(system, ())) for system, resources in RESOURCES.items())

    with ExitStack() as running:
        for what, topic in centre.topics.items():
            running.enter_context(producer(tmp_path / what, kafka.bootstrap, topic, what))
        until(all_reported, REPORTED_S, lambda: f"all resources, not {centre.measured()}\n{centre.agent.output()}")
    reported = centre.measured()
    for system, resources in RESOURCES.items():
        for resource in resources:
            low, high = min(seen[resource]) - SLACK[resource], max(seen[resource]) + SLACK[resource]
            assert low <= reported[system][resource] <= high, (system, resource)
    assert centre.log.messages("deadletters") == []
    telegraf_key = socket.gethostname().encode()
    assert centre.keys(centre.topics["json"]) == centre.keys(centre.topics["influx"]) == [{telegraf_key}]
    # it takes the next partition while it does not know yet whether the right one has a leader
    assert {key for keys in centre.keys(centre.topics["collectd"]) for key in keys} == {HOST.encode()}
