"""`scalewatch simulate`: a simulated centre that writes jobs and host data to the topics of a real broker."""

import heapq
import re
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import click

from agent.app.kafka import connected, until_available
from agent.cli.options import report_retry, required_config_option, stopped_by_signals
from agent.clock import Clock, SystemClock
from agent.config.load import load
from agent.config.tree import Config, Source
from agent.simulation.centre import SYSTEM
from agent.simulation.load import LivingCentre, TimedMessage
from agent.simulation.meters import ENERGY, MINUTE_MS
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.log import Batch, Log, Producer, TopicSettings
from processors.contracts.names import rfc3339

STEP_S: Final = 0.2
BATCH_MAX: Final = 500  # maximum number of messages held until the broker has stored them
FLUSH_S: Final = 30.0
AGAIN_MAX_S: Final = 30.0
RETENTION_MS: Final = 86_400_000
OLD_MS: Final = 7 * 86_400_000  # an older simulation starts anew, because each start generates its whole past
_KEY: Final = re.compile(rb"simulated:(-?\d+):(\d+):(\d+)")
CONNECT_AGAIN_MAX_S: Final = 10.0
HOUR_S: Final = 3600.0


class Destinations(NamedTuple):
    """The topics of jobs, of host load with counters and power, and of energy; the topic of energy is optional."""

    jobs: str
    load: str
    energy: str | None


class Resumption(NamedTuple):
    """The state of an earlier simulation: its centre, and the time of the last job that it wrote."""

    centre: LivingCentre
    reported_ms: int


def destinations(config: Config, system: str) -> Destinations:
    """Return the topics that the configuration reads in native format.

    Raise ConfigError if there is no native topic, or if the configuration does not accept the system.
    """
    if config.journal_partition(system) is None:
        raise ConfigError(f"The configuration does not accept the system {system}; add it to `systems`.")
    native = [topic for source in config.sources if source.format in {"native", "auto"} for topic in _literal(source)]
    if not native:
        raise ConfigError(
            "The simulated centre needs a source with the format native and a topic name; add one to `sources`."
        )
    energy = (topic for source in config.sources if _takes_energy(source, system) for topic in _literal(source))
    return Destinations(native[0], native[min(1, len(native) - 1)], next(energy, None))


def last_place(log: Log, topic: str, seed: int, system: str) -> Resumption | None:
    """Return the state of an earlier simulation with this seed, from the last record in the topic of jobs; None without a record."""
    newest: tuple[int, bytes] | None = None

    def take(batch: Batch) -> None:
        nonlocal newest
        for time_ms, key in zip(batch.timestamps_ms, batch.keys, strict=True):
            if key and _KEY.match(key) and (newest is None or (time_ms, key) > newest):
                newest = (time_ms, key)

    for partition in range(log.partitions(topic) or 0):
        log.read(topic, partition, take)
    if newest is None or not (parts := _KEY.fullmatch(newest[1])):
        return None
    of_seed, began_ms, opened_ms = map(int, parts.groups())
    return Resumption(LivingCentre(seed, began_ms, opened_ms, system), newest[0]) if of_seed == seed else None


class Simulator:
    """Writes the messages of a simulated centre: first its past at `speed` simulated seconds per second, then its present in real time.

    A restart continues after the last written job. While the broker is unreachable, the simulation waits; it catches up later.
    """

    def __init__(
        self, log: Log, to: Destinations, clock: Clock, *, seed: int, past_s: float, speed: float, system: str
    ) -> None:
        self._log, self._to, self._clock, self._speed = log, to, clock, speed
        topics = [topic for topic in dict.fromkeys(to) if topic is not None]
        settings = [TopicSettings(topic, 1, compacted=False, retention_ms=RETENTION_MS) for topic in topics]
        self.created = log.create(settings)
        now_ms, place = clock.now_ms(), last_place(log, to.jobs, seed, system)
        if place is None or not place.reported_ms <= now_ms < place.centre.began_ms + OLD_MS:
            opened_ms = now_ms - now_ms % MINUTE_MS
            centre = LivingCentre(seed, opened_ms - round(past_s * 1000), opened_ms, system)
            place = Resumption(centre, centre.began_ms)
        self.centre, self.reported_ms = place
        self.live = False
        self._key = f"simulated:{seed}:{self.centre.began_ms}:{self.centre.opened_ms}".encode()
        self._predicted = self.centre.jobs(self.reported_ms)
        self._next = next(self._predicted)
        self._producer: Producer | None = None

    def run(self, stop: threading.Event) -> None:
        from_ms, began_s = self.reported_ms, self._clock.monotonic_s()
        try:
            while not self._clock.sleep(STEP_S, stop):
                elapsed_s = self._clock.monotonic_s() - began_s
                for batch in self.due(from_ms + round(elapsed_s * self._speed * 1000)):
                    until_available(partial(self.send, batch), stop, AGAIN_MAX_S)
                    if stop.is_set():
                        break
        finally:
            self._forget_producer()

    def due(self, until_ms: int) -> Iterator[Sequence[TimedMessage]]:
        """Yield batches of messages with times up to `until_ms`."""
        now_ms = self._clock.now_ms()
        if until_ms >= now_ms and not self.live:
            self.live = True
            measured = self.centre.measured(max(now_ms - now_ms % MINUTE_MS, self.centre.opened_ms))
            self._predicted = heapq.merge([self._next], self._predicted, measured, key=lambda text: text.time_ms)
            self._next = next(self._predicted)
        until_ms = now_ms if self.live else until_ms
        batch: list[TimedMessage] = []
        while self._next.time_ms <= until_ms:
            batch.append(self._next)
            self._next = next(self._predicted)
            if len(batch) == BATCH_MAX:
                yield batch
                batch = []
        if batch:
            yield batch

    def send(self, batch: Sequence[TimedMessage]) -> None:
        """Write messages and wait until the broker has stored them.

        Raise UnavailableError if the broker is unreachable; the caller must send the messages again.
        """
        try:
            self._producer = self._producer or self._log.producer()
            for message in batch:
                if (topic := getattr(self._to, message.kind)) is not None:
                    self._producer.send(topic, message.value, self._key, None, message.time_ms)
            self._producer.flush(FLUSH_S)
        except UnavailableError:
            self._forget_producer()
            raise
        self.reported_ms = batch[-1].time_ms

    def _forget_producer(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None


def _literal(source: Source) -> list[str]:
    return [topic for topic in source.topics if not topic.startswith("^")]


def _takes_energy(source: Source, system: str) -> bool:
    mapped = any(metric.measurement == ENERGY for metric in source.telemetry.metrics)
    return mapped and source.system == system and source.format in {"line-protocol", "auto"}


@click.command(short_help="Write the jobs and host data of a simulated centre to Kafka.")
@required_config_option
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Seed of the random generator; a different seed gives a different centre.",
)
@click.option("--past", type=click.FloatRange(0, 96), default=24.0, show_default=True, metavar="HOURS",
              help="Hours of past jobs to write before the present is reached.")  # fmt: skip
@click.option("--speed", type=click.FloatRange(1, 1_000_000), default=1200.0, show_default=True,
              help="Simulated seconds per real second while past jobs are written; afterwards the simulation runs in real time.")  # fmt: skip
@click.option(
    "--system", default=SYSTEM, show_default=True, help="System name of the centre; the configuration must list it."
)
def command(config: str, seed: int, past: float, speed: float, system: str) -> None:
    """Write the jobs and host data of a simulated centre to Kafka until Ctrl-C or SIGTERM.

    Jobs are written to the first topic of the source whose format is native, and host measurements to its second topic, if any.
    Energy counters are written to the line-protocol source that maps the measurement rapl, if any. Missing topics are created
    with one partition. A restart continues after the last job that was written.
    """
    settings = load(config, sources_required=True)
    to = destinations(settings, system)
    stop = stopped_by_signals()

    def simulate() -> None:
        with connected(settings) as log:
            simulator = Simulator(log, to, SystemClock(), seed=seed, past_s=past * HOUR_S, speed=speed, system=system)
            for topic in simulator.created:
                click.echo(f"created {topic}")
            topics = ", ".join(dict.fromkeys(topic for topic in to if topic))
            click.echo(f"The centre {system} writes to {topics}, starting at {rfc3339(simulator.reported_ms)}.")
            simulator.run(stop)
            click.echo(f"Stopped. All events until {rfc3339(simulator.reported_ms)} are written.")

    until_available(simulate, stop, CONNECT_AGAIN_MAX_S, report_retry)
