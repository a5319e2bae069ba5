"""What the collector does with events that decode well and still cannot be written."""

import json

import msgspec

from agent.app import compose
from agent.collector import Collector
from agent.config.tree import Config, Source, System
from agent.log.memory import MemoryLog
from agent.topics import own_topics
from processors.contracts.events import DeadLetter, Tick, decode_record
from processors.contracts.log import Batch, TopicSettings
from tests.kit.clock import FakeClock

NOW_MS = 1_795_168_800_000
JOB = {
    "type": "job.completed", "system": "exa", "job_id": "1", "application": "lammps", "n": 4, "unit": "nodes",
    "start": "2026-11-20T09:00:00Z", "end": "2026-11-20T09:10:00Z", "state": "COMPLETED",
}  # fmt: skip


def dead_letters(config: Config, record_bytes_max: int) -> tuple[list[str], int]:
    """Collect one job; return the reasons of its dead letters and how many records of the journal are no ticks."""
    log = MemoryLog()
    log.create([*own_topics(config), TopicSettings("jobs", 1, compacted=False)])
    routes = msgspec.structs.replace(compose.routes(config), record_bytes_max=record_bytes_max)
    collector = Collector(log, routes, compose.metrics(), "one", monotonic_s=FakeClock(NOW_MS).monotonic_s)
    producer = log.producer()
    producer.send("jobs", json.dumps(JOB).encode(), None, 0, NOW_MS)
    producer.flush(1.0)
    for _ in range(3):
        collector.step(NOW_MS, 0.0)
    found: list[Batch] = []
    log.read(config.topics.deadletters, 0, found.append)
    reasons = [msgspec.json.decode(value, type=DeadLetter).reason for batch in found for value in batch.values if value]
    journal: list[Batch] = []
    log.read(config.topics.journal, 0, journal.append)
    return reasons, sum(b"job.completed" in (value or b"") for batch in journal for value in batch.values)


def config(**given: object) -> Config:
    return Config(sources=(Source(topics=("jobs",), format="native"),), **given)  # type: ignore[arg-type]


def test_a_job_goes_into_the_journal() -> None:
    assert dead_letters(config(), 400_000) == ([], 1)


def test_an_event_that_no_record_of_the_journal_can_hold_is_a_dead_letter() -> None:
    assert dead_letters(config(), 50) == (["too-large"], 0)


def test_an_event_of_a_system_that_is_not_listed_is_a_dead_letter() -> None:
    assert dead_letters(config(systems={"other": System()}), 400_000) == (["unknown-system"], 0)


def test_a_collector_whose_clock_was_set_back_ticks_on() -> None:
    log, settings = MemoryLog(), config()
    log.create([*own_topics(settings), TopicSettings("jobs", 1, compacted=False)])
    collector = Collector(log, compose.routes(settings), compose.metrics(), "one", monotonic_s=FakeClock().monotonic_s)
    times_ms = [NOW_MS, NOW_MS + 86_400_000, NOW_MS + 1000, NOW_MS + 1400, NOW_MS + 2000]
    for now_ms in times_ms:
        collector.step(now_ms, 0.0)
    found: list[Batch] = []
    log.read(settings.topics.journal, 0, found.append)
    ticks = [decode_record(value or b"").event for batch in found for value in batch.values]
    assert ticks == [Tick("", time_ms=time_ms) for time_ms in times_ms if not time_ms % 1000]
