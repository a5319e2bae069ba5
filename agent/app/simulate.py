"""The simulated centre as a producer: it writes what its jobs and hosts tell into the topics that the agent reads."""

import heapq
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tenacity import Retrying, retry_if_exception_type, sleep_using_event, stop_when_event_set, wait_exponential_jitter

from agent.clock import Clock
from agent.config.sources import Source
from agent.config.tree import Config
from agent.contracts.errors import ConfigError, UnavailableError
from agent.contracts.log import Batch, Log, Producer, TopicSettings
from agent.simulation.living import Kind, LivingCentre, Said
from agent.simulation.meters import ENERGY, MINUTE_MS

STEP_S: Final = 0.2
BATCH_MAX: Final = 500  # messages that are held until the broker has them
FLUSH_S: Final = 30.0
AGAIN_MAX_S: Final = 30.0
RETENTION_MS: Final = 86_400_000
OLD_MS: Final = 7 * 86_400_000  # a centre that is older begins anew: its whole past is made at each start
_KEY: Final = re.compile(rb"simulated:(-?\d+):(\d+):(\d+)")


class Destinations(NamedTuple):
    """The topics of jobs, of load with counters and power, and of energy, which may be told to nobody."""

    jobs: str
    load: str
    energy: str | None

    def topic(self, kind: Kind) -> str | None:
        """Return the topic of one kind of message."""
        topic: str | None = getattr(self, kind)
        return topic


class Place(NamedTuple):
    """Where an earlier simulation was: its centre, and the time of the last job that it told of."""

    centre: LivingCentre
    told_ms: int


def destinations(config: Config, system: str) -> Destinations:
    """Return the topics that the configuration reads natively. Raises ConfigError where nothing would be understood."""
    if config.journal_partition(system) is None:
        raise ConfigError(f"The configuration does not accept the system {system}; name it in `systems`.")
    native = [topic for source in config.sources if source.format in {"native", "auto"} for topic in _literal(source)]
    if not native:
        raise ConfigError(
            "No source has the format native and a topic with a name; the simulated centre writes into one."
        )
    energy = (topic for source in config.sources if _takes_energy(source, system) for topic in _literal(source))
    return Destinations(native[0], native[min(1, len(native) - 1)], next(energy, None))


def last_place(log: Log, topic: str, seed: int, system: str) -> Place | None:
    """Return where a simulation of this seed was, by the last record of the topic of jobs; None where there was none."""
    found: list[tuple[int, bytes]] = []

    def take(batch: Batch) -> None:
        keyed = [(at, key) for at, key in zip(batch.timestamps_ms, batch.keys, strict=True) if key and _KEY.match(key)]
        found[:] = [max([*found, *keyed])] if found or keyed else []

    for partition in range(log.partitions(topic) or 0):
        log.read(topic, partition, take)
    if not found or not (parts := _KEY.fullmatch(found[0][1])):
        return None
    of_seed, began_ms, opened_ms = map(int, parts.groups())
    return Place(LivingCentre(seed, began_ms, opened_ms, system), found[0][0]) if of_seed == seed else None


class Simulator:
    """Lets a centre tell its past at `speed` simulated seconds per second, and from then on what happens as it happens.

    A restart goes on after the last job that was told. While the broker is away the centre waits, and says everything later.
    """

    def __init__(
        self, log: Log, to: Destinations, clock: Clock, *, seed: int, past_s: float, speed: float, system: str
    ) -> None:
        self._log, self._to, self._clock, self._speed = log, to, clock, speed
        self.created = log.create([_raw(topic) for topic in dict.fromkeys(to) if topic is not None])
        place = last_place(log, to.jobs, seed, system)
        if place is None or not _goes_on(place, clock.now_ms()):
            place = _begun(seed, clock.now_ms(), round(past_s * 1000), system)
        self.centre, self.told_ms = place
        self.live = False
        self._key = f"simulated:{seed}:{self.centre.began_ms}:{self.centre.opened_ms}".encode()
        self._said = self.centre.jobs(self.told_ms)
        self._next = next(self._said)
        self._producer: Producer | None = None

    def run(self, stop: threading.Event) -> None:
        """Tell until `stop` is set."""
        again = Retrying(
            retry=retry_if_exception_type(UnavailableError), stop=stop_when_event_set(stop), reraise=True,
            wait=wait_exponential_jitter(initial=1, max=AGAIN_MAX_S), sleep=sleep_using_event(stop),
        )  # fmt: skip
        from_ms, began_s = self.told_ms, self._clock.monotonic_s()
        try:
            while not self._clock.sleep(STEP_S, stop):
                elapsed_s = self._clock.monotonic_s() - began_s
                for batch in self.due(from_ms + round(elapsed_s * self._speed * 1000)):
                    again(self.send, batch)
                    if stop.is_set():
                        break
        except UnavailableError:
            if not stop.is_set():
                raise
        finally:
            self._forget_producer()

    def due(self, until_ms: int) -> Iterator[Sequence[Said]]:
        """Yield in parts what is told until a time; never what is still to come."""
        now_ms = self._clock.now_ms()
        if until_ms >= now_ms and not self.live:
            self.live = True
            measured = self.centre.measured(max(now_ms - now_ms % MINUTE_MS, self.centre.opened_ms))
            self._said = heapq.merge([self._next], self._said, measured, key=lambda said: said.time_ms)
            self._next = next(self._said)
        until_ms = now_ms if self.live else until_ms
        batch: list[Said] = []
        while self._next.time_ms <= until_ms:
            batch.append(self._next)
            self._next = next(self._said)
            if len(batch) == BATCH_MAX:
                yield batch
                batch = []
        if batch:
            yield batch

    def send(self, batch: Sequence[Said]) -> None:
        """Write messages and wait until the broker has them. Raises UnavailableError: they are to be sent again."""
        try:
            self._producer = self._producer or self._log.producer()
            for said in batch:
                if (topic := self._to.topic(said.kind)) is not None:
                    self._producer.send(topic, said.value, self._key, None, said.time_ms)
            self._producer.flush(FLUSH_S)
        except UnavailableError:
            self._forget_producer()
            raise
        self.told_ms = batch[-1].time_ms

    def _forget_producer(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None


def _begun(seed: int, now_ms: int, past_ms: int, system: str) -> Place:
    opened_ms = now_ms - now_ms % MINUTE_MS
    centre = LivingCentre(seed, opened_ms - past_ms, opened_ms, system)
    return Place(centre, centre.began_ms)


def _goes_on(place: Place, now_ms: int) -> bool:
    return place.told_ms <= now_ms < place.centre.began_ms + OLD_MS


def _raw(topic: str) -> TopicSettings:
    return TopicSettings(topic, 1, compacted=False, retention_ms=RETENTION_MS)


def _literal(source: Source) -> list[str]:
    return [topic for topic in source.topics if not topic.startswith("^")]


def _takes_energy(source: Source, system: str) -> bool:
    mapped = any(metric.measurement == ENERGY for metric in source.telemetry.metrics)
    return mapped and source.system == system and source.format in {"line-protocol", "auto"}
