"""Telemetry on a real Kafka: samples a second that one collector takes, and for how long the minutes of hosts stop it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from agent.app import compose
from agent.app.kafka import kafka_settings
from agent.clock import SystemClock
from agent.collector import Collector
from agent.config.roles import CollectorSettings
from agent.config.tree import Config, KafkaSettings, Source, TopicNames
from agent.log.kafka.log import KafkaLog
from agent.log.kafka.settings import ClientName
from agent.topics import own_topics
from processors.contracts.log import TopicSettings
from processors.contracts.telemetry import MetricMapping, Telemetry
from sinks.prometheus.registry import Metrics
from tests.bench.result import Row
from tests.bench.telemetry import FIELDS, METRICS, START_MS, line_wide, load_one
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import CLIENTS

CLOCK: Final = SystemClock()
HOSTS: Final = 10_000
RESOURCES: Final = 10
EVERY_S: Final = 10
FLUSH_S: Final = 120.0
WARM_UP: Final = 0.3  # of the records
GOALS: Final = {"kafka-python": 200_000, "confluent": 450_000}
GOALS_WIDE: Final = {"kafka-python": 2_000_000, "confluent": 4_000_000}


@dataclass(frozen=True)
class Stream:
    """Records of one topic, `width` samples each; number i was measured and sent at `time_ms(i)`."""

    format: str
    make: Callable[[int], bytes]
    time_ms: Callable[[int], int]
    count: int
    width: int


@dataclass(frozen=True)
class Spent:
    """What taking a stream cost, in seconds of the processor: all of it, and its longest steps with and without minutes."""

    records: int
    cpu_s: float
    longest_s: float
    longest_reporting_s: float
    minutes: int


def run(*, quick: bool) -> Iterator[Row]:
    """Yield the figures; everything of the collector's process counts, the client's threads too."""
    share = 4 if quick else 1
    one = Stream("native", load_one, lambda i: START_MS + i // 2_000 * 1000, 600_000 // share, 1)
    wide = Stream("line-protocol", line_wide, lambda i: START_MS + i // 2_000 * 1000, 60_000 // share, METRICS)
    rounds = 8 if quick else 14
    all_hosts = Stream(
        "line-protocol", _ten, lambda i: START_MS + i // HOSTS * EVERY_S * 1000, HOSTS * rounds, RESOURCES
    )
    with KafkaBroker() as kafka:
        for client in CLIENTS:
            for name, stream, goal, meaning in (
                ("telemetry", one, GOALS[client], "native samples, one a record"),
                (f"telemetry x{METRICS}", wide, GOALS_WIDE[client], f"line protocol, {METRICS} fields a record"),
            ):
                spent = _spent(kafka, name, stream, client)
                rate = spent.records * stream.width / spent.cpu_s
                details = {"minutes": spent.minutes, "longest_step_s": spent.longest_s}
                yield Row(
                    f"{name}, {client}",
                    rate,
                    "samples/s per core",
                    meaning,
                    goal,
                    larger_is_better=True,
                    details=details,
                )
            spent = _spent(kafka, "hosts", all_hosts, client)
            yield Row(
                f"telemetry, {client}, stop", spent.longest_reporting_s * 1000, "ms",
                f"longest step while minutes of {HOSTS:,} hosts x {RESOURCES} are written; {spent.minutes:,} in all", 250,
            )  # fmt: skip
            rate = spent.records * RESOURCES / spent.cpu_s
            yield Row(f"telemetry x10, {client}", rate, "samples/s per core", "the same stream, its minutes included")


def _ten(i: int) -> bytes:
    fields = ",".join(f"{field}={i % 977}.5" for field in FIELDS[:RESOURCES])
    return f"wide,host=nid{i % HOSTS:06d} {fields} {START_MS // 1000 + i // HOSTS * EVERY_S}000000000".encode()


def _spent(kafka: KafkaBroker, name: str, stream: Stream, client: ClientName) -> Spent:
    prefix = f"{name.replace(' ', '-')}-{client}"
    metrics = compose.metrics()

    def minutes() -> int:
        return round(metrics.value("scalewatch_collector_host_records_total"))

    with _collector(kafka, prefix, stream, metrics, client) as collector:
        while not collector.assigned():
            collector.step(CLOCK.now_ms(), 1.0)
        while collector.lag() > stream.count * (1 - WARM_UP):  # the first sight of a series costs more than a sample
            collector.step(CLOCK.now_ms(), 0.2)
        left = collector.lag()
        longest_s, reporting_s, began_s = 0.0, 0.0, time.process_time()
        while collector.lag():
            for _ in range(50):  # a look at the lag asks the broker
                before_s, before = time.process_time(), minutes()
                collector.step(CLOCK.now_ms(), 0.2)
                step_s = time.process_time() - before_s
                longest_s = max(longest_s, step_s)
                reporting_s = max(reporting_s, step_s if minutes() > before else 0.0)
        collector.commit()
        cpu_s = time.process_time() - began_s
    return Spent(left, cpu_s, longest_s, reporting_s, minutes())


@contextmanager
def _collector(
    kafka: KafkaBroker, prefix: str, stream: Stream, metrics: Metrics, client: ClientName
) -> Iterator[Collector]:
    mappings = tuple(MetricMapping(measurement="wide", field=field, resource=field) for field in FIELDS)
    topic = f"{prefix}-raw"
    config = Config(
        kafka=KafkaSettings(bootstrap=kafka.bootstrap, client=client),
        topics=TopicNames(prefix=prefix),
        sources=(Source(topics=(topic,), format=stream.format, system="bench", telemetry=Telemetry(metrics=mappings)),),  # type: ignore[arg-type] # one of its names
        collector=CollectorSettings(group=prefix),
    )
    log = KafkaLog(kafka_settings(config))
    log.create([*own_topics(config), TopicSettings(topic, 1, compacted=False)])
    producer = log.producer()
    for i in range(stream.count):
        producer.send(topic, stream.make(i), None, 0, stream.time_ms(i))
    producer.flush(FLUSH_S)
    producer.close()
    try:
        yield Collector(log, compose.routes(config), metrics, "bench", monotonic_s=CLOCK.monotonic_s)
    finally:
        log.close()
