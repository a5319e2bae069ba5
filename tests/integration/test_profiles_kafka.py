"""Counters and power on a real broker: through both roles to a settled run with its profile, a killed learner between."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from msgspec.structs import replace

from agent.config.load import load
from agent.config.topics import own_topics
from processors.contracts.events import HostMinute, JournalRecord, Tick, decode_record, encode_record
from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SYSTEM = "exa"
HOSTS = ("nid0", "nid1")
MINUTE_MS = 60_000
MINUTES = 3
SOON_S = 120.0
CYCLES, INSTRUCTIONS, WATTS = 6e10, 9e10, {"nid0": 410.0, "nid1": 390.0}
SETTINGS: dict[str, dict[str, Any]] = {  # the run settles when the test lets time pass, and no minute is late till then
    "jobs": {"settle_max_s": 480.0}, "learner": {"checkpoint_interval_s": 1.0}
}  # fmt: skip


def telemetry(start_ms: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield when, and what hosts tell during the run and for some time after it."""
    for minute in range(MINUTES + 1):
        begin_ms = start_ms + minute * MINUTE_MS
        for host in HOSTS:
            reported = {"system": SYSTEM, "host": host}
            for at_ms in (begin_ms + 15_000, begin_ms + 45_000):
                watts = WATTS[host] if minute < MINUTES else 120.0
                power = {"type": "power", "component": "system", "power_w": watts}
                yield at_ms, reported | power | {"time": rfc3339(at_ms)}
            counters = {"PAPI_TOT_CYC": CYCLES, "PAPI_TOT_INS": INSTRUCTIONS}
            counted = {"type": "counters", "interval_s": 60, "counters": counters}
            yield begin_ms + MINUTE_MS, reported | counted | {"time": rfc3339(begin_ms + MINUTE_MS)}


@pytest.fixture
def name(_numbers: Iterator[int]) -> str:
    return f"profiles-{next(_numbers)}"


def test_native_power_and_counters_become_the_profile_of_a_run(kafka: KafkaBroker, name: str, tmp_path: Path) -> None:
    source = f"{name}-raw"
    config = write_config(tmp_path, kafka.bootstrap, name, [{"topics": [source], "format": "native"}], **SETTINGS)
    start_ms = (time.time_ns() // 1_000_000 // MINUTE_MS - MINUTES - 2) * MINUTE_MS
    end_ms = start_ms + MINUTES * MINUTE_MS
    facts = {
        "system": SYSTEM, "job_id": "812", "application": "lammps", "n": 2, "unit": "nodes", "hosts": ["nid[0-1]"],
        "start": rfc3339(start_ms),
    }  # fmt: skip
    ended = {"type": "job.completed", "end": rfc3339(end_ms), "run_time_s": 60.0 * MINUTES, "state": "COMPLETED"}
    events = [
        (start_ms, {"type": "job.started"} | facts),
        (end_ms, ended | facts),
        *telemetry(start_ms),
        (end_ms + 90_000, {"type": "power", "system": SYSTEM, "host": "nid0", "component": "system",
                           "time": rfc3339(end_ms + 90_000), "power_w": 120.0}),
    ]  # fmt: skip
    settings = load(str(config))
    with AgentTopics(
        settings
    ) as topics:  # the test has a clock of its own: a journal with the broker's would refuse it
        topics.create(source)
        topics.log.create([replace(own_topics(settings)[0], broker_time=False)])
    with AgentProcess(config) as agent, AgentTopics(settings) as topics:
        agent.wait_ready()
        send(kafka, source, sorted(events, key=lambda event: event[0]))
        until(lambda: minutes(topics) >= len(HOSTS) * MINUTES, SOON_S, agent.output)
        agent.signal_role("learner", signal.SIGKILL)
        agent.wait_ready()
        later_ms = end_ms + 500_000
        producer = topics.log.producer()
        producer.send(settings.topics.journal, encode_record(JournalRecord(Tick("", later_ms))), None, 0, later_ms)
        producer.flush(SOON_S)
        run = until(lambda: next(iter(topics.messages("runs")), None), SOON_S, agent.output)
    profile = run["profile"]
    assert run["run_id"] == f"{SYSTEM}/812@{start_ms}"
    assert (profile["hosts"], profile["minutes"], profile["expected"]) == (2, 2 * MINUTES, 2 * MINUTES)
    assert profile["counters"] == pytest.approx({"PAPI_TOT_CYC": CYCLES / 60, "PAPI_TOT_INS": INSTRUCTIONS / 60})
    assert profile["power_w"] == pytest.approx({"system": 400.0})
    assert profile["energy_j"] == pytest.approx({"system": 400.0 * 2 * 60 * MINUTES})
    assert profile["measured"] == {"system": 1.0}


def send(kafka: KafkaBroker, topic: str, events: list[tuple[int, dict[str, Any]]]) -> None:
    """Write events with the times at which their producer would have."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all", enable_idempotence=True)
    for time_ms, event in events:
        producer.send(topic, json.dumps(event).encode(), partition=0, timestamp_ms=time_ms)
    producer.flush(30.0)
    producer.close()


def minutes(topics: AgentTopics) -> int:
    """Return how many minutes of hosts of the run are in the journal with counters."""
    events = (decode_record(value).event for value in topics.journal())
    reported = (event for event in events if isinstance(event, HostMinute))
    return len({(event.host, event.minute_ms) for event in reported if "counter_delta>PAPI_TOT_CYC" in event.resources})
