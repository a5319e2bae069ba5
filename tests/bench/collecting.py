"""A collector's whole story on the memory log: from the bytes of a poll to what it sends, by layers, on one core."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from agent.app import compose
from agent.clock import SystemClock
from agent.collector.collector import Collector, Routes
from agent.collector.reading import SourceDecoders
from agent.config.topics import own_topics
from agent.config.tree import Config, Source
from agent.decode.formats import TELEMETRY
from agent.decode.guard import guarded_samples
from agent.log.memory import MemoryLog
from processors.contracts.log import TopicSettings
from tests.bench import counters, decoding, telemetry
from tests.bench.layers import Layered, Layers, described
from tests.bench.result import Row
from tests.bench.workload import Load, Message, messages

CLOCK: Final = SystemClock()
TOPIC: Final = "bench.raw"
WARM_UP: Final = 0.3  # of the records: the first sight of a series costs more than a sample
COUNTED_HOSTS: Final = 2_000
REPORTED_EVERY_S: Final = 60


@dataclass(frozen=True)
class Story:
    """Records of one source, so many values each, and what one of them may cost beyond decoding, or in all."""

    format: str
    records: list[Message]
    width: int
    meaning: str
    goal: float | None = None


def run(*, quick: bool) -> Iterator[Row]:
    """Yield samples a second of telemetry, and the microseconds of a record of counters and of a completion."""
    for name, (format_name, make, width, _, meaning) in telemetry.CASES.items():
        goal = 400_000 if width == 1 else 2_000_000 if width == telemetry.METRICS else None
        count = (40_000 if width == 1 else 10_000) if quick else (200_000 if width == 1 else 30_000)
        spent = _spent(Story(format_name, _made(make, count), width, meaning))
        rate, details = width / spent["whole"] * 1e6, {"us_per_record": spent}
        yield Row(f"collecting {name}", rate, "samples/s per core", f"{meaning}; {described(spent)}", goal,
                  larger_is_better=True, details=details)  # fmt: skip
    yield from _by_record(quick=quick)


def _by_record(*, quick: bool) -> Iterator[Row]:
    jobs = 4_000 if quick else 40_000
    minutes = 6 if quick else 12
    for name, story in {
        "counters": Story(
            "native", _counted(minutes), 16, "a record of 16 counters, once a minute; beyond decoding", 10.0
        ),
        "completions": Story("native", messages(Load(50, jobs)), 1, "completions while draining", 50.0),
        "completions, Slurm": Story("slurm", decoding.slurm(jobs), 1, "finish records of Slurm while draining"),
    }.items():
        spent = _spent(story)
        us = spent["whole"] - (spent["decode"] if story.width > 1 else 0.0)
        yield Row(f"collecting {name}", us, "us", f"{story.meaning}; {described(spent)}", story.goal,
                  details={"us_per_record": spent})  # fmt: skip


def _made(make: Callable[[int], bytes], count: int) -> list[Message]:
    return [Message(telemetry.START_MS + i // telemetry.HOSTS * 1000, make(i)) for i in range(count)]


def _counted(minutes: int) -> list[Message]:
    step_s = REPORTED_EVERY_S
    return [
        Message(counters.START_MS + second * 1000, counters.record(host, second, step_s=step_s, cumulative=False))
        for second in range(0, minutes * 60, step_s)
        for host in range(COUNTED_HOSTS)
    ]


def _spent(story: Story) -> dict[str, float]:
    """Return the microseconds of a record by layer."""
    config = Config(sources=(Source(topics=(TOPIC,), format=story.format, system="bench"),))
    log, layers = MemoryLog(), Layers()
    log.create([*own_topics(config), TopicSettings(TOPIC, 1, compacted=False)])
    producer = log.producer()
    for record in story.records:
        producer.send(TOPIC, record.value, None, 0, record.time_ms)
    timed = Layered(layers)
    role = timed.collector(
        Collector(
            timed.log(log),
            timed.routes(_with_metrics(compose.routes(config), story.format)),
            compose.metrics(),
            "bench",
            monotonic_s=CLOCK.monotonic_s,
        )
    )
    now_ms, warm = story.records[-1].time_ms, 0
    while warm < len(story.records) * WARM_UP:
        warm += role.step(now_ms, 0.0)
    layers.clear()
    taken = warm
    while taken < len(story.records) or role.reporting():
        taken += role.step(now_ms, 0.0)
    return layers.shares_us(taken - warm)


def _with_metrics(routes: Routes, format_name: str) -> Routes:
    """Return routes whose telemetry is that of the bench of decoders, with its names of metrics and nodes."""
    if format_name not in TELEMETRY or format_name == "slurm":
        return routes
    decode = routes.source(TOPIC).decode
    make = partial(guarded_samples, partial(TELEMETRY[format_name], telemetry.OPTIONS))
    return msgspec.structs.replace(routes, source=lambda _: SourceDecoders(format_name, decode, make))
