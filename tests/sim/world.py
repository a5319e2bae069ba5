"""A world of two collectors and two learners over one broker in memory, in which everything goes wrong by a seed."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec

from agent.app import compose
from agent.collector.collector import Collector, Routes
from agent.collector.reading import SourceWindows
from agent.collector.recorder import Attempt, Recorder
from agent.config.roles import LearnerSettings
from agent.config.topics import own_topics
from agent.config.tree import Config, Source, TopicNames
from agent.learner.learner import Learner
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.errors import ConfigError, ScalewatchError
from processors.contracts.events import HostMinute, JournalRecord, Tick, encode_record
from processors.contracts.hosts import HostSettings
from processors.contracts.log import Batch
from processors.contracts.settings import JobSettings, RunTimeSettings
from processors.windows.settings import WindowSettings
from tests.kit.faults import Crash, FaultRates, FaultyLog
from tests.kit.logs import expel_member
from tests.sim.history import START_MS, History, history, shuffled
from tests.sim.load import Hosts
from tests.sim.measured import measured
from tests.sim.saving import Slow
from tests.sim.topics import journal, records

RAW = "raw"
RAW_PARTITIONS = 4
JOB_PARTITIONS = 3  # the first of them, which have messages of jobs
LOAD_PARTITIONS = (2, 3)  # which have samples of hosts: one with jobs, one without
RATES = FaultRates(crash=0.02, unavailable=0.03, delay=0.05, rebalance=0.02, repeat=0.05, split=0.2)
TICK_MS = 10_000
LOADS = 0.6  # chance of a message of samples each time
CONFIG = Config(
    sources=(Source(topics=(RAW,), format="native"),),
    learner=LearnerSettings(checkpoint_interval_s=3.0, host_checkpoint_interval_s=11.0),
    hosts=HostSettings(quiet_s=300.0, series_max=6),
    jobs=JobSettings(settle_max_s=300.0),
    run_time=RunTimeSettings(publish_after_runs=4, fits_per_tick_max=1, unmerged_runs_max=4),
    topics=TopicNames(),
)
PLAN = msgspec.structs.replace(compose.plan(CONFIG), checkpoint_records_max=8)
METRICS = compose.metrics()  # one for all processes: to make them takes as long as a life
UNDISTURBED: Routes = msgspec.structs.replace(compose.routes(CONFIG), commit_s=2.0)
ROUTES: Routes = msgspec.structs.replace(  # minutes in several parts, and names that have to be forgotten
    UNDISTURBED, windows=partial(SourceWindows, settings=WindowSettings(part_hosts=1), series_max=40)
)


class Role(Protocol):
    """What both roles have."""

    def close(self) -> None: ...


@dataclass
class Clock:
    """The world's time; it passes when the world says so."""

    now_ms: int = START_MS
    steps: int = 0
    looks: int = 0


@dataclass
class Process:
    """One process: its name, how its role is made, how it steps; dead while it has no role."""

    name: str
    make: Callable[[FaultyLog], Role]
    step: Callable[[Role], object]
    role: Role | None = None
    log: FaultyLog | None = None
    asleep: int = 0


def create_topics(broker: MemoryBroker) -> None:
    """Create all topics."""
    setup = MemoryLog(broker, state_topic=CONFIG.topics.state)
    setup.create(own_topics(CONFIG))
    setup.create([msgspec.structs.replace(own_topics(CONFIG)[0], name=RAW, partitions=RAW_PARTITIONS)])


def minutes(broker: MemoryBroker) -> list[HostMinute]:
    """Return the minutes of hosts that collectors wrote into the journal, in order."""
    events = (record.event for record in journal(broker, CONFIG.topics.journal))
    return [event for event in events if isinstance(event, HostMinute) and event.source.startswith(RAW)]


@dataclass
class World:
    """Everything of one seed. `trouble` says what went wrong, for the message of a test that fails."""

    seed: int
    rates: FaultRates = RATES
    collector: type[Collector] = Collector
    learner: type[Learner] = Learner
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    clock: Clock = field(default_factory=Clock)
    fault: list[str] = field(default_factory=list)
    look_s: float = 0.0  # passes whenever a role looks at its clock

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 - a world has to come again with its seed
        self.predicted: History = history(self.seed)
        self._hosts = Hosts(self.dice)
        self._restarts = 0
        self._threads: dict[str, Slow] = {}
        self._recorders: dict[str, Recorder] = defaultdict(Recorder)  # as the parent of each process has it
        self.attempts: list[Attempt] = []
        create_topics(self.broker)
        self.unsent = shuffled(self.predicted.messages, JOB_PARTITIONS, self.dice)
        self.processes = [
            *(Process(f"collector{i}", self._collector(f"collector{i}"), self._collect) for i in (1, 2)),
            *(Process(f"learner{i}", self._learner(f"learner{i}"), self._learn) for i in (1, 2)),
        ]

    def live(self) -> None:
        """Let the history happen, with faults, until all of it was sent."""
        while any(self.unsent):
            self._send_some()
            self.clock.now_ms += self.dice.choice((0, 2_000, 20_000, 90_000))
            for _ in range(4):
                self._stir(self.dice.choice(self.processes))

    def lived(self) -> "World":
        """Return this world after its history."""
        self.live()
        return self

    def heal(self) -> None:
        """End all faults and let everything be worked off: new processes, and enough time for all to settle."""
        for process in self.processes:
            self._end(process)
        calm = [self._start(process, FaultRates()) for process in (self.processes[0], self.processes[2])]
        collector = calm[0].role
        assert isinstance(collector, Collector)
        while not collector.assigned() or collector.lag():
            self._step(calm[0])
        self.clock.now_ms = max(self.clock.now_ms, self.predicted.end_ms) + 3_600_000
        for _ in range(60):
            self.clock.now_ms += TICK_MS
            for process in calm:
                self._step(process)
        collector.commit()
        self._step(calm[1])
        learner = calm[1].role
        assert isinstance(learner, Learner)
        learner.checkpoint(self._now_s())
        for process in calm:
            self._end(process)

    def records(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Return everything a topic holds, key and value, in order."""
        return records(self.broker, topic)

    def journal(self) -> list[JournalRecord]:
        """Return the journal, decoded."""
        return journal(self.broker, CONFIG.topics.journal)

    def bad(self) -> int:
        """Return how many messages, or parts of them, have to be refused."""
        return self.predicted.bad + self._hosts.bad

    def minutes(self) -> list[HostMinute]:
        """Return the minutes of hosts in the journal, in order."""
        return minutes(self.broker)

    def undisturbed_minutes(self) -> list[HostMinute]:
        """Return what one collector that nothing disturbs makes of the same records."""
        broker = MemoryBroker()
        create_topics(broker)

        def repeat(batch: Batch) -> None:
            for value, timestamp_ms in zip(batch.values, batch.timestamps_ms, strict=True):
                broker.append(RAW, value, None, batch.partition, timestamp_ms)

        for partition in range(RAW_PARTITIONS):
            MemoryLog(self.broker).read(RAW, partition, repeat)
        collector = Collector(MemoryLog(broker), UNDISTURBED, METRICS, "calm", monotonic_s=self._now_s)
        while not collector.assigned() or collector.lag():
            collector.step(START_MS, 0.0)
        return minutes(broker)

    def ticks(self) -> list[int]:
        """Return the times of all ticks of the journal, in order."""
        return [record.event.time_ms for record in self.journal() if isinstance(record.event, Tick)]

    def _send_some(self) -> None:
        for partition, messages in enumerate(self.unsent):
            for _ in range(self.dice.randrange(0, 3)):
                if messages:
                    self.broker.append(RAW, messages.pop(0), None, partition, self.clock.now_ms)
        if self.seed % 2:  # hosts by way of the collector, or what no collector would write: each seed takes its time
            self._send_samples()
        else:
            for event in measured(self.dice, self.clock.now_ms):
                value = encode_record(JournalRecord(event))
                self.broker.append(CONFIG.topics.journal, value, None, 0, self.clock.now_ms)

    def _send_samples(self) -> None:
        for partition in LOAD_PARTITIONS:
            if self.dice.random() < LOADS:
                self.broker.append(RAW, self._hosts.message(self.clock.now_ms), None, partition, self.clock.now_ms)
        self.broker.append(RAW, self._hosts.profiled(self.clock.now_ms), None, LOAD_PARTITIONS[0], self.clock.now_ms)

    def _stir(self, process: Process) -> None:
        for threads in self._threads.values():
            threads.happen()
        if process.asleep:
            process.asleep -= 1
            return
        if process.role is None:
            if self.dice.random() < 0.5:
                self._start(process, self.rates)
            return
        if self.dice.random() < 0.02:
            self._fall_asleep(process)
            return
        self._step(process)

    def _fall_asleep(self, process: Process) -> None:
        """Stop a process, long enough for others to take its place; it wakes up and knows nothing of that."""
        process.asleep = 12
        group = CONFIG.learner_group if process.name.startswith("learner") else CONFIG.collector_group
        expel_member(self.broker, group, process.name)
        self.fault.append(f"{process.name} sleeps")

    def _start(self, process: Process, rates: FaultRates) -> Process:
        self._restarts += 1
        process.asleep = 0
        process.log = FaultyLog(
            MemoryLog(self.broker, state_topic=CONFIG.topics.state), self.seed * 1000 + self._restarts, rates
        )
        self._guarded(process, lambda log: setattr(process, "role", process.make(log)))
        return process

    def _step(self, process: Process) -> None:
        role = process.role
        if role is not None:
            self._guarded(process, lambda _: process.step(role))

    def _guarded(self, process: Process, work: Callable[[FaultyLog], object]) -> None:
        assert process.log is not None
        try:
            work(process.log)
        except ConfigError:
            raise
        except (Crash, ScalewatchError) as error:
            self.fault.append(f"{process.name}: {error}")
            self._end(process)

    def _end(self, process: Process) -> None:
        threads = self._threads.pop(process.name, None)
        if threads is not None:
            threads.happen()  # what was sent may still arrive
        if process.log is not None:
            process.log.close()
            attempt = self._recorders[process.name].settle()
            self.attempts += [attempt] if attempt is not None else []
        process.role = process.log = None

    def _collector(self, name: str) -> Callable[[FaultyLog], Role]:
        recorder = self._recorders[name]
        return lambda log: self.collector(log, ROUTES, METRICS, name, monotonic_s=self._now_s, recorder=recorder)

    def _learner(self, name: str) -> Callable[[FaultyLog], Role]:
        def make(log: FaultyLog) -> Role:
            saving = self._threads[name] = Slow(self.dice)
            return self.learner(
                log, PLAN, METRICS, name,
                on_emission=lambda _: None, monotonic_s=self._now_s, saving=saving,
            )  # fmt: skip

        return make

    def _collect(self, role: Role) -> object:
        assert isinstance(role, Collector)
        return role.step(self.clock.now_ms, 0.0)

    def _learn(self, role: Role) -> object:
        assert isinstance(role, Learner)
        self.clock.steps += 1
        return role.step(self._now_s(), 0.0)

    def _now_s(self) -> float:
        self.clock.looks += 1
        return self.clock.steps + self.clock.looks * self.look_s
