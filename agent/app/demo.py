"""The demo: the whole agent on the memory log, fed by the simulated centre, faster than real time."""

import heapq
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import psutil
from tenacity import Retrying, retry_if_exception_type, sleep_using_event, stop_when_event_set, wait_exponential_jitter

from agent.app.embedded import Embedded
from agent.clock import Clock
from agent.config.sources import MetricMapping, Source, Telemetry
from agent.config.tree import Config
from agent.simulation.centre import SYSTEM, Centre, TimedEvent
from agent.simulation.living import Kind, LivingCentre, Said
from agent.simulation.load import SharedNodes
from agent.simulation.meters import ENERGY, MINUTE_MS, MeasuredJobs, Meters
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.hosts import HostView
from processors.contracts.log import Batch, Log, Producer, TopicSettings
from processors.contracts.names import rfc3339
from processors.contracts.outputs import Alert, Letter, SourceSeen
from processors.contracts.service import Forwarding, Service
from processors.contracts.settings import AlertSettings, HostAnomaly, RackAnomaly

# This machine's own load beside a simulated centre: a small agent of its own, in which time passes as it does here.
#
# The centre's time runs hundreds of times faster. A clock for both would either stretch a second of this machine over
# minutes or slow the centre down; so this machine is a system with a journal and a learner of its own.


LOCAL_SYSTEM: Final = "local"
HOST: Final = "this machine"
TOPIC: Final = "local.load"
EVERY_S: Final = 2.0
RETENTION_MS: Final = 1_800_000
Measure = Callable[[], Mapping[str, float]]
_ENCODER: Final = msgspec.json.Encoder()


def measured() -> Mapping[str, float]:
    """Return what this machine measures now: the processor since the last call, free memory and disk in bytes."""
    return {
        "cpu_available": min(max(1.0 - psutil.cpu_percent(None) / 100, 0.0), 1.0),
        "memory_free": float(psutil.virtual_memory().available),
        "disk_free": float(psutil.disk_usage("/").free),
    }


class ThisMachine:
    """Measures this machine every few seconds, and keeps windows, forecasts and anomalies of it as of any host.

    Samples go the way of all: through a topic and the collector. `measure` is asked at each of them.
    """

    def __init__(self, clock: Clock, measure: Measure = measured) -> None:
        self._clock, self._measure = clock, measure
        config = Config(sources=(Source(topics=(TOPIC,), format="native"),))
        self._agent = Embedded(config, clock, raw_retention_ms=RETENTION_MS)
        self._collector = self._agent.collector()
        self._producer = self._agent.log.producer()
        self._due_s = clock.monotonic_s()
        measure()  # the load of a processor is that since the last look

    @property
    def service(self) -> Service:
        """What readers see."""
        return self._agent.service

    def step(self) -> bool:
        """Measure if it is time to; return whether it was."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        if now_s < self._due_s:
            return False
        self._due_s = now_s + EVERY_S
        self._producer.send(TOPIC, self._message(now_ms), None, 0, now_ms)
        self._producer.flush(1.0)
        self._collector.step(now_ms, 0.0)
        self._agent.step()
        return True

    def close(self) -> None:
        """Free everything."""
        self._agent.close()

    def _message(self, now_ms: int) -> bytes:
        head = {"type": "load", "system": LOCAL_SYSTEM, "host": HOST, "time": rfc3339(now_ms)}
        return _ENCODER.encode([{**head, "resource": name, "value": value} for name, value in self._measure().items()])


class Together(Forwarding):
    """Shows `first`, and with it the hosts and alerts of `others`.

    Their hosts come first: there are few of them, and a list of the first ones would never show them else.
    """

    def __init__(self, first: Service, *others: Service) -> None:
        super().__init__(first)
        self._others = others

    def alerts(self) -> Sequence[Alert]:
        """Return open alerts, then the newest resolved ones."""
        found = [alert for service in (self._service, *self._others) for alert in service.alerts()]
        return sorted(found, key=lambda alert: alert.status == "resolved")

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most so many hosts."""
        found = [view for service in self._others for view in service.hosts(limit)][:limit]
        return [*found, *super().hosts(limit - len(found))] if len(found) < limit else found

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most so many hosts."""
        found = [name for service in self._others for name in service.host_names(limit)][:limit]
        return [*found, *super().host_names(limit - len(found))] if len(found) < limit else found

    def host(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""
        views = (service.host(system, host) for service in (self._service, *self._others))
        return next((view for view in views if view is not None), None)

    def letters(self) -> Sequence[Letter]:
        """Return the newest dead letters of the whole agent."""
        found = [letter for service in (self._service, *self._others) for letter in service.letters()]
        return sorted(found, key=lambda letter: letter.time_ms, reverse=True)

    def sources(self) -> Sequence[SourceSeen]:
        """Return the sources, the one that spoke last first."""
        found = [source for service in (self._service, *self._others) for source in service.sources()]
        return sorted(found, key=lambda source: source.newest_ms, reverse=True)


# The simulated centre as a producer: it writes what its jobs and hosts tell into the topics that the agent reads.


SIMULATED_STEP_S: Final = 0.2
BATCH_MAX: Final = 500  # messages that are held until the broker has them
FLUSH_S: Final = 30.0
AGAIN_MAX_S: Final = 30.0
SIMULATED_RETENTION_MS: Final = 86_400_000
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
            while not self._clock.sleep(SIMULATED_STEP_S, stop):
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
    return TopicSettings(topic, 1, compacted=False, retention_ms=SIMULATED_RETENTION_MS)


def _literal(source: Source) -> list[str]:
    return [topic for topic in source.topics if not topic.startswith("^")]


def _takes_energy(source: Source, system: str) -> bool:
    mapped = any(metric.measurement == ENERGY for metric in source.telemetry.metrics)
    return mapped and source.system == system and source.format in {"line-protocol", "auto"}


START_MS: Final = 1_795_168_800_000
JOBS: Final = "simulated.jobs"
LOAD: Final = "simulated.load"
ENERGY_TOPIC: Final = "simulated.energy"
STEP_S: Final = 0.05
QUANTUM_MS: Final = 60_000  # what is told goes to the agent in such pieces, so that load and jobs come in their order
ALERTS: Final = AlertSettings(  # nearly five hours are long here; three resources besides power, which stays the same
    host_anomaly=HostAnomaly(learn_s=17_100.0, resources_min=3), rack_anomaly=RackAnomaly(pattern=r"^(r\d+)n\d+$")
)
RAPL: Final = Telemetry(  # energy counters come in line protocol, as Telegraf would write them
    metrics=(MetricMapping(measurement="rapl", field="joules", resource="energy_total", instance="component"),)
)
SOURCES: Final = (
    Source(topics=(JOBS, LOAD), format="native"),
    Source(topics=(ENERGY_TOPIC,), format="line-protocol", system=SYSTEM, telemetry=RAPL),
)
Message = tuple[int, str, bytes]  # time, topic, value


class Demo:
    """One run of the demo; `speed` is simulated seconds per second. This machine is measured in its own time."""

    def __init__(self, seed: int, speed: float, clock: Clock, measure: Measure = measured) -> None:
        self._speed = speed
        self._clock = clock
        config = Config(sources=SOURCES, alerts=ALERTS)
        self.agent = Embedded(config, clock, raw_retention_ms=RETENTION_MS)
        self.machine = ThisMachine(clock, measure)
        self.service: Service = Together(self.agent.service, self.machine.service)
        self._collector = self.agent.collector()
        self._producer = self.agent.log.producer()
        self._centre = Centre(seed=seed, start_ms=START_MS)
        self._shared = SharedNodes(seed=seed, start_ms=START_MS)
        self._measured = MeasuredJobs(self._centre)
        self._messages = self._told()
        self._next = next(self._messages)
        self.now_ms = START_MS
        self.error: Exception | None = None
        self._collector.step(START_MS, 0.0)  # joins the group

    def truth(self, application_id: str, n: float) -> float | None:
        """Return the true run time now, which the agent does not know; on shared nodes that under the usual load."""
        return self._centre.truth(application_id, n, self.now_ms) or self._shared.truth(application_id, n)

    def true_power_w(self, application_id: str, n: float) -> float | None:
        """Return the true mean power of all hosts of a usual run, in W; None where it is not measured."""
        return self._measured.power_w(application_id, n)

    def headline(self) -> str:
        """Return one line about the time in the simulated centre."""
        return f"simulated centre, {rfc3339(self.now_ms)}, {self._speed:g} times real time"

    def run(self, stop: threading.Event) -> None:
        """Let the centre's time pass until `stop` is set; an error ends it and is kept."""
        began_s = self._clock.monotonic_s()
        try:
            while not self._clock.sleep(STEP_S, stop):
                self.machine.step()
                self.advance(self._clock.monotonic_s() - began_s)
        except Exception as error:  # noqa: BLE001 - told by the command, which waits for this thread
            self.error = error
            stop.set()

    def advance(self, elapsed_s: float) -> None:
        """Bring the centre to where it is after so many real seconds."""
        until_ms = START_MS + round(elapsed_s * self._speed * 1000)
        while self.now_ms < until_ms:
            self._pass_time(min(self.now_ms - self.now_ms % QUANTUM_MS + QUANTUM_MS, until_ms))

    def close(self) -> None:
        """Free everything."""
        self.machine.close()
        self.agent.close()

    def _pass_time(self, until_ms: int) -> None:
        while self._next[0] <= until_ms:
            time_ms, topic, value = self._next
            self._producer.send(topic, value, None, 0, time_ms)
            self._next = next(self._messages)
        self._producer.flush(1.0)
        for now_ms in (self.now_ms, until_ms):  # what all topics tell comes before the tick that lets time pass
            while self._collector.step(now_ms, 0.0):
                pass
        self.agent.step()
        self.now_ms = until_ms

    def _told(self) -> Iterator[Message]:
        """Yield what the centre tells in the order of time."""
        jobs = (
            ((event.time_ms, JOBS, event.value) for event in part.events()) for part in (self._centre, self._shared)
        )
        load = ((time_ms, LOAD, value) for time_ms, value in self._shared.samples())
        shared = _metered(self._shared.meters(), self._shared.events())
        measured = _metered(self._measured.meters(), self._centre.events())
        return heapq.merge(*jobs, load, shared, measured, key=lambda message: message[0])


def _metered(meters: Meters, events: Iterator[TimedEvent]) -> Iterator[Message]:
    """Yield what meters tell of hosts on which this happens."""
    for told in meters.messages(events):
        yield told.time_ms, LOAD, told.events
        if told.lines:
            yield told.time_ms, ENERGY_TOPIC, told.lines
