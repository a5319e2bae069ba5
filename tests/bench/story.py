"""A centre's whole story in a learner: starts, ticks, revisions, ends, settlement, refits, checkpoints, and what each costs.

Events come in event time at a centre's pace, after a first part in which the learner gets to know the applications. Each
kind of record is timed alone, by processor time, so that neighbours on the machine change little.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final

import msgspec

from agent.app import compose
from agent.config.topics import own_topics
from agent.learner.learner import Learner
from agent.learner.view import View
from agent.log.memory import MemoryLog
from processors.contracts.events import JournalRecord, Tick, encode_record
from processors.contracts.outputs import Emission
from processors.models.numerics import scipy_functions
from processors.pipeline.shard import Shard
from processors.pipeline.stage import STOP, MayStop, Run
from processors.pipeline.state import Outgoing
from tests.bench.result import Row
from tests.bench.roles import CLOCK, journalled
from tests.bench.workload import TICK_MS, Load, Message, config, messages

KNOWN_PER_S: Final = 30.0  # of event time, while the applications become known
RATE_PER_S: Final = 1000.0
QUIET_MS: Final = 300_000  # between the two parts, and after them: all runs settle
GOAL_US: Final = 250.0


@dataclass
class Layers:
    """Processor seconds by what they went into."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def took(self, name: str, began_s: float) -> None:
        """Add what has gone by since."""
        self.seconds[name] += time.process_time() - began_s

    def each_us(self, jobs: int) -> dict[str, float]:
        """Return microseconds a job by layer."""
        longest_first = sorted(self.seconds.items(), key=lambda each: -each[1])
        return {name: round(seconds / jobs * 1e6, 1) for name, seconds in longest_first}


class TimedShard(Shard):
    """A shard that times each record by its kind, and each of its stages."""

    layers: Layers
    stages: Layers

    def time_stages(self, stages: Layers) -> None:
        """Time the stages of each kind of record from now on; each costs a microsecond more by that."""
        self.stages = stages
        self.lines = {
            kind: line._replace(stages=tuple([each._replace(run=self._timed(kind, each.run)) for each in line.stages]))
            for kind, line in self.lines.items()
        }

    def _timed(self, kind: type, run: Run) -> Run:
        name = f"{kind.__name__}.{run.__name__}"

        @wraps(run)
        def timed(work: Any) -> Sequence[Outgoing] | MayStop:
            began_s = time.process_time()
            try:
                result = run(work)
                return result if result is None or result is STOP else list(result)
            finally:
                self.stages.took(name, began_s)

        return timed

    def fold(self, record: JournalRecord) -> list[Any]:
        """Fold a record and note how long it took."""
        began_s = time.process_time()
        try:
            return super().fold(record)
        finally:
            self.layers.took(type(record.event).__name__, began_s)


class Story:
    """One learner on the memory log, with a journal that is written and folded in parts."""

    def __init__(self) -> None:
        self.layers, self.stages = Layers(), Layers()
        scipy_functions.load()  # as a learner does once: 0.2 s that are no job's
        settings = config()
        self._log = MemoryLog()
        self._log.create(own_topics(settings))
        plan, self._topic = compose.plan(settings), settings.topics.journal
        timed = msgspec.structs.replace(plan, make_fold=self._made(plan.make_fold), encode=self._encoding(plan.encode))
        self._view = View()
        self._learner = Learner(
            self._log, timed, compose.metrics(), "bench", on_emission=self._shown, monotonic_s=CLOCK.monotonic_s
        )
        self._learner.step(CLOCK.monotonic_s(), 0.0)
        self._producer = self._log.producer()

    @property
    def shard(self) -> Shard:
        """The shard as it is now."""
        return self._learner.shards()[0].fold

    def fold(self, journal: Sequence[bytes]) -> float:
        """Fold a part of the journal as if a long time had gone by, and return how much of the processor it took."""
        for value in journal:
            self._producer.send(self._topic, value, None, 0)
        began_s = time.process_time()
        while self._learner.step(CLOCK.monotonic_s(), 0.0):
            pass
        self._learner.checkpoint(CLOCK.monotonic_s())
        return time.process_time() - began_s

    def _made(self, make: Callable[[], Shard]) -> Callable[[], Shard]:
        def made() -> Shard:
            shard = make()
            shard.__class__ = TimedShard
            assert isinstance(shard, TimedShard)
            shard.layers = self.layers
            shard.time_stages(self.stages)
            return shard

        return made

    def _encoding(self, encode: Callable[[Any], Emission]) -> Callable[[Any], Emission]:
        def encoded(message: Any) -> Emission:
            began_s = time.process_time()
            found = encode(message)
            self.layers.took("encoding of messages", began_s)
            return found

        return encoded

    def _shown(self, emission: Emission) -> None:
        began_s = time.process_time()
        self._view.apply(emission)
        self.layers.took("view", began_s)


def journals(load: Load, known: int) -> tuple[list[bytes], list[bytes]]:
    """Return the journal in which applications become known by so many jobs, and that of the load."""
    first = messages(replace(load, jobs=known, rate_per_s=KNOWN_PER_S))
    start_ms = first[-1].time_ms + 2 * QUIET_MS
    then = messages(replace(load, start_ms=start_ms, first_job=known, seed=load.seed + 1))
    return _with_quiet(first), _with_quiet(then)


def _with_quiet(stream: list[Message]) -> list[bytes]:
    last_ms = stream[-1].time_ms - stream[-1].time_ms % TICK_MS
    ticks = range(last_ms + TICK_MS, last_ms + QUIET_MS, TICK_MS)
    return journalled(stream) + [encode_record(JournalRecord(event=Tick(system="", time_ms=each))) for each in ticks]


def run(*, quick: bool) -> Iterator[Row]:
    """Yield what a job costs a learner in all."""
    for applications in (50, 1000):
        yield from _job(applications, 2_000 if quick else 10_000)


def _job(applications: int, jobs: int) -> Iterator[Row]:
    first, then = journals(
        Load(applications, jobs, starts=True, rate_per_s=RATE_PER_S, t1_s=40.0, hosts_max=1), 6 * applications
    )
    story = Story()
    story.fold(first)
    story.layers.seconds.clear()
    story.stages.seconds.clear()
    seconds = story.fold(then)
    layers, stages = story.layers.each_us(jobs), story.stages.each_us(jobs)
    rest = seconds / jobs * 1e6 - sum(layers.values())
    layers["decoding, sending, checkpoints"] = round(rest, 1)
    name, details = f"story of a job, {applications:,} applications", {"layers_us": layers, "stages_us": stages}
    yield Row(
        f"whole {name}", seconds / jobs * 1e6, "us per job", f"µs by layer: {_shown(layers)}", GOAL_US, details=details
    )
    meaning = f"of these by stage, those of a microsecond or more: {_shown(stages)}"
    yield Row(f"stages of the {name}", sum(stages.values()), "us per job", meaning)


def _shown(each_us: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {each:.0f}" for name, each in each_us.items() if each >= 1.0)
