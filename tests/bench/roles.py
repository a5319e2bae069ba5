"""The two roles on the memory log, each alone and both in one process: no broker, no network, one core."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agent.app import compose
from agent.clock import SystemClock
from agent.collector.collector import Collector
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.learner.learner import Learner
from agent.learner.view import View
from agent.log.memory import MemoryLog
from processors.contracts.events import JournalRecord, Origin, Tick, encode_record
from processors.contracts.log import TopicSettings
from tests.bench.result import Row, median_rate
from tests.bench.workload import TICK_MS, TOPIC, Load, Message, config, events, messages

REPEATS = 3
CLOCK = SystemClock()


@dataclass(frozen=True)
class Case:
    """A stream that the learner folds."""

    name: str
    load: Load
    meaning: str


def cases(jobs: int) -> list[Case]:
    """Return the streams: completions alone, and starts with completions, over few and many applications."""
    few, many = 50, 2000
    meaning = "journal to messages and state, refits and checkpoints included"
    found = []
    for applications in (few, many):
        alone = Load(applications, jobs, hosts_max=1)
        both = Load(applications, jobs // 2, starts=True, rate_per_s=1500.0, t1_s=40.0, hosts_max=1)
        found += [
            Case(f"learner, completions, {applications:,} applications", alone, meaning),
            Case(f"learner, starts + completions, {applications:,} applications", both, meaning),
        ]
    wide = Load(few, jobs // 4)
    return [*found, Case("learner, completions on 1 to 128 hosts", wide, "every host of a run has a failure rate")]


def learner(*, quick: bool) -> Iterator[Row]:
    """Yield events per processor second of the learner."""
    for case in cases(4_000 if quick else 20_000):
        journal = journalled(messages(case.load))
        seconds = [_fold(journal) for _ in range(1 if quick else REPEATS)]
        yield Row(case.name, median_rate(len(journal), seconds), "events/s per core", case.meaning)


def collector(*, quick: bool) -> Iterator[Row]:
    """Yield events per processor second of the collector."""
    stream = messages(Load(50, 4_000 if quick else 20_000))
    seconds = []
    for _ in range(REPEATS):
        settings, log = _fresh(stream)
        role = _collector(settings, log)
        began_s = time.process_time()
        _exhaust(role)
        seconds.append(time.process_time() - began_s)
    yield Row(
        "collector", median_rate(len(stream), seconds), "events/s per core", "native messages decoded and journalled"
    )


def whole_path(*, quick: bool) -> Iterator[Row]:
    """Yield completions per processor second through both roles in one process."""
    stream = messages(Load(50, 4_000 if quick else 20_000, hosts_max=1))
    seconds = []
    for _ in range(1 if quick else REPEATS):
        settings, log = _fresh(stream)
        first, second = _collector(settings, log), _learner(settings, log)
        began_s = time.process_time()
        first.step(stream[-1].time_ms, 0.0)  # the assignments
        second.step(CLOCK.monotonic_s(), 0.0)
        while first.step(stream[-1].time_ms, 0.0) + second.step(CLOCK.monotonic_s(), 0.0):
            pass
        seconds.append(time.process_time() - began_s)
    meaning = "collector and learner in one process on the memory log, as demo and replay run"
    yield Row("whole path, memory", median_rate(len(stream), seconds), "completions/s per core", meaning)


def journalled(stream: Sequence[Message]) -> list[bytes]:
    """Return the journal of a stream: its events and a tick every ten seconds."""
    records: list[bytes] = []
    tick_ms = 0
    for message, event in zip(stream, events(stream), strict=True):
        now_ms = message.time_ms - message.time_ms % TICK_MS
        if now_ms > tick_ms:
            tick_ms = now_ms
            records.append(encode_record(JournalRecord(event=Tick(system="", time_ms=tick_ms))))
        records.append(encode_record(JournalRecord(event=event, origin=Origin(TOPIC, 0, len(records)))))
    return records


def _fold(journal: Sequence[bytes]) -> float:
    settings, log = _fresh(())
    role = _learner(settings, log)
    producer = log.producer()
    for value in journal:
        producer.send(settings.topics.journal, value, None, 0)
    began_s = time.process_time()
    _exhaust(role)
    role.checkpoint(CLOCK.monotonic_s())
    return time.process_time() - began_s


def _exhaust(role: Collector | Learner) -> None:
    step: Callable[[], int] = (
        (lambda: role.step(CLOCK.now_ms(), 0.0))
        if isinstance(role, Collector)
        else (lambda: role.step(CLOCK.monotonic_s(), 0.0))
    )
    step()  # the assignment
    while step():
        pass


def _fresh(stream: Sequence[Message]) -> tuple[Config, MemoryLog]:
    settings, log = config(), MemoryLog()
    log.create([*own_topics(settings), TopicSettings(TOPIC, 1, compacted=False)])
    producer = log.producer()
    for message in stream:
        producer.send(TOPIC, message.value, None, 0, message.time_ms)
    return settings, log


def _collector(settings: Config, log: MemoryLog) -> Collector:
    return Collector(log, compose.routes(settings), compose.metrics(), "bench", monotonic_s=CLOCK.monotonic_s)


def _learner(settings: Config, log: MemoryLog) -> Learner:
    plan, measures = compose.plan(settings), compose.metrics()
    return Learner(log, plan, measures, "bench", on_emission=View().apply, monotonic_s=CLOCK.monotonic_s)
