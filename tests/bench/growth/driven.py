"""One learner that is driven by event time: a second of it is written, folded and, at its rhythm, saved; each stop is timed."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from agent.app import compose
from agent.config.topics import own_topics
from agent.config.tree import Config, TopicNames
from agent.learner.learner import FairLock, Learner, at_once
from agent.learner.view import View
from agent.log.memory import MemoryLog
from processors.contracts.events import JournalRecord, Origin, Tick, encode_record
from processors.contracts.log import Marker
from processors.contracts.settings import RunTimeSettings
from processors.pipeline.shard import Shard
from tests.bench.growth import known
from tests.bench.workload import TOPIC, Load, config, events, messages

SECOND_MS: Final = 1000
Result = TypeVar("Result")


@dataclass
class Stops:
    """How long the fold held whoever had a question, by what it did: processor seconds of its thread."""

    longest_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    total_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    count: Counter[str] = field(default_factory=Counter)

    def took(self, name: str, seconds: float) -> None:
        """Add a stop."""
        self.longest_s[name] = max(self.longest_s[name], seconds)
        self.total_s[name] += seconds
        self.count[name] += 1

    def clear(self) -> None:
        """Count from now on."""
        self.longest_s.clear()
        self.total_s.clear()
        self.count.clear()

    @property
    def longest(self) -> tuple[str, float]:
        """What the longest of all was, and its seconds."""
        return max(self.longest_s.items(), key=lambda each: each[1], default=("nothing", 0.0))

    def longest_first(self) -> list[tuple[str, float]]:
        """Return what was done and the seconds of its longest stop, the longest of all first."""
        return sorted(self.longest_s.items(), key=lambda each: -each[1])


class TimedTurns(FairLock):
    """FairLock that time how long each was had; `doing` names what it was for."""

    def __init__(self, stops: Stops) -> None:
        super().__init__()
        self._stops, self._began_s = stops, 0.0
        self.doing = "slice of a checkpoint"

    def __enter__(self) -> None:
        super().__enter__()
        self._began_s = time.thread_time()

    def __exit__(self, *error: object) -> None:
        self._stops.took(self.doing, time.thread_time() - self._began_s)
        super().__exit__(*error)

    def give_way(self) -> None:
        self._stops.took(f"slice of a {self.doing}", time.thread_time() - self._began_s)
        super().give_way()
        self._began_s = time.thread_time()


class TimedLearner(Learner):
    """A learner that names what it does, for the times of its stops."""

    stops: Stops

    def time_by(self, stops: Stops) -> None:
        """Time stops from now on; before anything is taken over."""
        self.stops, self._folding = stops, TimedTurns(stops)

    def _folded(self, shard: Any, offset: int, record: JournalRecord) -> list[Any]:
        return self._named(
            type(record.event).__name__, lambda: super(TimedLearner, self)._folded(shard, offset, record)
        )

    def _checkpoint(self, *args: Any, **kwargs: Any) -> None:
        self._named("begin of a checkpoint", lambda: super(TimedLearner, self)._checkpoint(*args, **kwargs))

    def _encode(self, seconds: float) -> None:
        self._named("slice of a checkpoint", lambda: super(TimedLearner, self)._encode(seconds))

    def _confirm(self, *args: Any, **kwargs: Any) -> None:
        self._named("end of a checkpoint", lambda: super(TimedLearner, self)._confirm(*args, **kwargs))

    def _named(self, name: str, do: Callable[[], Result]) -> Result:
        turns = self._folding
        assert isinstance(turns, TimedTurns)
        before, turns.doing = turns.doing, name
        try:
            return do()
        finally:
            turns.doing = before


class Driven:
    """A learner of one or more shards on the memory log, and the event time that it has come to."""

    def __init__(self, settings: Config, applications: int = 0) -> None:
        self.settings, self.stops = settings, Stops()
        self._log = MemoryLog()
        self._log.create(own_topics(settings))
        self.now_ms = known.time_ms() if applications else 0
        for shard in range(settings.topics.journal_partitions) if applications else ():
            _save(self._log, shard, settings.topics.journal_partitions, applications, self.now_ms)
        self.learner = TimedLearner(
            self._log,
            compose.plan(settings),
            compose.metrics(),
            "bench",
            on_emission=View().apply,
            monotonic_s=time.perf_counter,
            saving=at_once,
        )
        self.learner.time_by(self.stops)
        self._producer = self._log.producer()
        self._step()

    def second(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Write a second's records, each with its shard, with the ticks of a second between them; then fold all of it."""
        topic, shards = self.settings.topics.journal, self.settings.topics.journal_partitions
        tick_ms = round(self.settings.collector.tick_s * SECOND_MS)
        waiting = list(records)
        for left in range(SECOND_MS // tick_ms, 0, -1):
            part, waiting = waiting[: -(-len(waiting) // left)], waiting[-(-len(waiting) // left) :]
            for shard, value in part:
                self._producer.send(topic, value, None, shard % shards)
            self.now_ms += tick_ms
            tick = encode_record(JournalRecord(Tick("", time_ms=self.now_ms)))
            for shard in range(shards):
                self._producer.send(topic, tick, None, shard)
            while self._step():
                pass

    def fold(self, shard: int) -> Shard:
        """Return the fold of a shard."""
        found = self.learner.shards()[shard].fold
        assert isinstance(found, Shard)
        return found

    def _step(self) -> int:
        return self.learner.step(self.now_ms / 1000, 0.0)


def _save(log: MemoryLog, shard: int, partitions: int, applications: int, now_ms: int) -> None:
    store = log.checkpoints(shard)
    store.take_over()
    states = dict(known.known(applications))
    store.save(states, Marker(0, 1, len(states), "bench", "bench", partitions, now_ms))
    store.close()


def settings_for(applications: int, shards: int = 1) -> Config:
    """Return a configuration whose bounds let so many applications be."""
    return config(
        run_time=RunTimeSettings(applications_max=max(20_000, applications + applications // 10)),
        topics=TopicNames(journal_partitions=shards),
    )


def jobs_by_second(load: Load) -> Iterator[Sequence[bytes]]:
    """Yield the starts and completions of each second of a load, as the journal holds them."""
    stream = messages(load)
    found: list[bytes] = []
    until_ms = load.start_ms + SECOND_MS
    for place, (message, event) in enumerate(zip(stream, events(stream), strict=True)):
        while message.time_ms >= until_ms:
            yield found
            found, until_ms = [], until_ms + SECOND_MS
        found.append(encode_record(JournalRecord(event, Origin(TOPIC, 0, place))))
    yield found


def continued(load: Load, start_ms: int) -> Load:
    """Return a load that begins then, with jobs that were not there before."""
    return replace(load, start_ms=start_ms, first_job=10_000_000, seed=load.seed + 1)
