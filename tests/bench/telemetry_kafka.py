"""A collector on a real Kafka: samples a second that it takes, what a completion costs, how long minutes of hosts stop it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from agent.app import compose
from agent.app.kafka import kafka_settings
from agent.clock import SystemClock
from agent.collector.collector import Collector
from agent.config.topics import own_topics
from agent.config.tree import Config, KafkaSettings, Source, TopicNames
from agent.log.kafka.client import ClientName
from agent.log.kafka.log import KafkaLog
from processors.contracts.log import TopicSettings
from processors.contracts.service import Measures
from processors.contracts.telemetry import MetricMapping, Telemetry
from tests.bench.layers import Layered, Layers, described
from tests.bench.result import Row
from tests.bench.telemetry import FIELDS, METRICS, START_MS, line_wide, load_one
from tests.bench.workload import Load, messages
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
GOALS_DRAINING_US: Final = {"kafka-python": 50, "confluent": 20}


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
    """What taking a stream cost, in seconds of the processor: all of it, and its longest steps with and without minutes.

    `layers_us` are the microseconds of a record by layer, from a second pass in which each is timed.
    """

    records: int
    cpu_s: float
    longest_s: float
    longest_reporting_s: float
    minutes: int
    layers_us: Mapping[str, float] = field(default_factory=dict)


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
                details = {
                    "minutes": spent.minutes, "longest_step_s": spent.longest_s, "us_per_record": spent.layers_us
                }  # fmt: skip
                shown = f"{meaning}; {described(spent.layers_us)}"
                yield Row(
                    f"{name}, {client}", rate, "samples/s per core", shown, goal, larger_is_better=True, details=details
                )
            yield _jobs(kafka, 40_000 // share, client)
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


def _jobs(kafka: KafkaBroker, count: int, client: ClientName) -> Row:
    stream = messages(Load(50, count))
    ended = Stream("native", lambda i: stream[i].value, lambda i: stream[i].time_ms, count, 1)
    spent = _spent(kafka, "completions", ended, client)
    us, meaning = spent.cpu_s / spent.records * 1e6, f"native completions; {described(spent.layers_us)}"
    details = {"us_per_record": spent.layers_us}
    return Row(f"collector draining, {client}", us, "us", meaning, GOALS_DRAINING_US[client], details=details)


def _spent(kafka: KafkaBroker, name: str, stream: Stream, client: ClientName) -> Spent:
    """Return what a plain pass costs, with the layers of a second one: to time them costs as well."""
    prefix = f"{name.replace(' ', '-')}-{client}"
    topic = f"{prefix}-raw"
    config, layered = (_config(kafka, topic, own, stream, client) for own in (prefix, f"{prefix}-layers"))
    log = KafkaLog(kafka_settings(config))
    log.create([*own_topics(config), *own_topics(layered), TopicSettings(topic, 1, compacted=False)])
    producer = log.producer()
    for i in range(stream.count):
        producer.send(topic, stream.make(i), None, 0, stream.time_ms(i))
    producer.flush(FLUSH_S)
    log.close()
    layers = Layers()
    plain = _pass(config, stream, Layers(), layered=False)
    timed = _pass(layered, stream, layers, layered=True)
    return replace(plain, layers_us=layers.shares_us(timed.records))


class _Counted:
    """Measures that also count the minutes of hosts: to ask the registry for them after each step takes longer than the step's own work."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self.set, self.observe = measures.set, measures.observe
        self.minutes = 0

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        self._measures.add(name, amount, **labels)
        if name == "scalewatch_collector_host_records_total":
            self.minutes += round(amount)


def _pass(config: Config, stream: Stream, layers: Layers, *, layered: bool) -> Spent:
    metrics = _Counted(compose.metrics())
    with _collector(config, metrics, Layered(layers) if layered else None) as collector:
        while not collector.assigned():
            collector.step(CLOCK.now_ms(), 1.0)
        while collector.lag() > stream.count * (1 - WARM_UP):  # the first sight of a series costs more than a sample
            collector.step(CLOCK.now_ms(), 0.2)
        left = collector.lag()
        longest_s, reporting_s, began_s = 0.0, 0.0, time.process_time()
        layers.clear()
        while collector.lag():
            for _ in range(50):  # a look at the lag asks the broker
                before_s, before = time.process_time(), metrics.minutes
                taken = collector.step(CLOCK.now_ms(), 0.2)
                step_s = time.process_time() - before_s
                longest_s = max(longest_s, step_s)
                reporting_s = max(reporting_s, step_s if metrics.minutes > before else 0.0)
                if not taken and not collector.reporting():
                    break
        collector.commit()
        cpu_s = time.process_time() - began_s
        layers.stop()
    return Spent(left, cpu_s, longest_s, reporting_s, metrics.minutes)


def _config(kafka: KafkaBroker, topic: str, prefix: str, stream: Stream, client: ClientName) -> Config:
    mappings = tuple(MetricMapping(measurement="wide", field=field, resource=field) for field in FIELDS)
    return Config(
        kafka=KafkaSettings(bootstrap=kafka.bootstrap, client=client),
        topics=TopicNames(prefix=prefix),
        sources=(
            Source(
                topics=(topic,),
                format=stream.format,
                system="bench",
                telemetry=Telemetry(metrics=mappings),
            ),
        ),
    )


@contextmanager
def _collector(config: Config, metrics: Measures, timed: Layered | None) -> Iterator[Collector]:
    log, routes = KafkaLog(kafka_settings(config)), compose.routes(config)
    try:
        if timed is None:
            yield Collector(log, routes, metrics, "bench", monotonic_s=CLOCK.monotonic_s)
        else:
            role = Collector(timed.log(log), timed.routes(routes), metrics, "bench", monotonic_s=CLOCK.monotonic_s)
            yield timed.collector(role)
    finally:
        log.close()
