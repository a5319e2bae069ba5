"""The whole agent in one process, on an in-memory log; used by the demo, by replays, and for predictions from files."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, Protocol

import msgspec

from agent.app import compose
from agent.app.files import ReportedEvent
from agent.app.lookout import OutputTopics, RecentDeadLetters
from agent.clock import Clock
from agent.collector.collector import Collector
from agent.collector.sources import combined
from agent.config.topics import own_topics, source_topics
from agent.config.tree import Config
from agent.learner.learner import Learner, OnEmission
from agent.learner.view import LearnerService, View
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import HostMinute, JobEvent, JournalRecord, Origin, Tick, encode_record
from processors.contracts.outputs import Emission
from processors.contracts.service import DeadLetterView, Health

TICK_MS: Final = 10_000
PAUSES_MS: Final = (60_000, 300_000, 600_000)  # growing intervals between ticks within a gap between events
LONG_MS: Final = 1_800_000
GAP_MAX_MS: Final = 2 * 86_400_000
RECORDS_MAX = 50_000
NEVER_S = 1e12


class Journal(Protocol):
    """The interface through which `Feed` writes events and ticks."""

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        """Write an event. Raise InvalidInputError if the configuration does not list the system of the event."""

    def tick(self, time_ms: int) -> None: ...


class Feed:
    """Writes events and ticks to a journal in the order of event time; `records` is the number of events and ticks written."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._now_ms: int | None = None
        self._written = 0
        self.records = 0

    def take(self, timed: ReportedEvent) -> None:
        """Write the ticks up to the time of an event, then the event. Raise InvalidInputError if the journal refuses the event."""
        if timed.time_ms is not None:
            self.pass_time(timed.time_ms)
        name, _, _ = timed.place.rpartition(":")
        self._journal.write(timed.event, Origin(name, 0, self._written))
        self._written += 1
        self.records += 1

    def finish(self, wait_ms: int) -> None:
        """Advance the time by `wait_ms` after the last event, so that runs settle and alerts resolve."""
        if self._now_ms is not None:
            self.pass_time(self._now_ms + wait_ms)

    def pass_time(self, time_ms: int) -> None:
        """Write the ticks up to `time_ms`; an earlier time has no effect, because time never goes backwards."""
        for tick_ms in ticks(self._now_ms, time_ms - time_ms % TICK_MS):
            self._journal.tick(tick_ms)
            self._now_ms = tick_ms
            self.records += 1


def ticks(now_ms: int | None, target_ms: int) -> Iterator[int]:
    """Yield tick times from `now_ms` (exclusive) to `target_ms` (inclusive) in growing steps; only `target_ms` after more than GAP_MAX_MS."""
    if now_ms is None or target_ms - now_ms > GAP_MAX_MS:
        yield target_ms
        return
    steps = iter(PAUSES_MS)
    step_ms = TICK_MS
    while now_ms < target_ms:
        now_ms = min(now_ms + step_ms, target_ms)
        yield now_ms
        step_ms = next(steps, LONG_MS) if target_ms - now_ms > step_ms else TICK_MS


class Embedded:
    """Learner and journal in memory; `step` processes the records written since the last call. Outputs go to `on_emission` and the view.

    There are no checkpoints, because no state outlives the process. If `raw_retention_ms` is set, the records of source topics
    expire by timestamp, so producers must write them with ascending timestamps.
    """

    def __init__(
        self, config: Config, clock: Clock, on_emission: OnEmission | None = None, raw_retention_ms: int | None = None
    ) -> None:
        self.config = config
        self.metrics = compose.metrics(config)
        self.view = View()
        self._clock = clock
        self._privacy = compose.privacy(config.privacy)
        self._on_emission = on_emission
        self.log = MemoryLog(MemoryBroker(records_max=RECORDS_MAX), state_topic=config.topics.state)
        # without checkpoints no record is read again, so output topics need no compaction and the journal needs no time limit
        topics = [
            msgspec.structs.replace(topic, compacted=topic.name == config.topics.state, retention_ms=None)
            for topic in own_topics(config)
        ]
        self.log.create([*topics, *source_topics(config, raw_retention_ms)])
        plan = msgspec.structs.replace(
            compose.plan(config), checkpoint_interval_s=NEVER_S, checkpoint_records_max=2**62
        )
        self.learner = Learner(
            self.log, plan, self.metrics, "embedded", on_emission=self._emitted, monotonic_s=clock.monotonic_s
        )
        silent_s = compose.silent_after(config)
        self.service = LearnerService(
            self.view,
            config.journal_partition,
            self._health,
            dead_letters=self._newest_dead_letters,
            sources=lambda: combined((), self.learner.sources.status(), (), silent_s),
            racks=compose.racks(config),
            rewritten=compose.question_privacy(config),
        )
        self.service.learner = self.learner
        self._producer = self.log.producer()
        self._schemas = compose.schemas(config, self.metrics, clock)
        self.step()

    def collector(self) -> Collector:
        routes = compose.routes(self.config, self._schemas)
        # the caller advances time only after all records have been read
        routes = msgspec.structs.replace(routes, hold_back_max_s=0.0)
        return Collector(self.log, routes, self.metrics, "embedded", monotonic_s=self._clock.monotonic_s)

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        """Write an event into the journal. Raise InvalidInputError if the configuration does not list the system of the event."""
        partition = self.config.journal_partition(event.system)
        if partition is None:
            raise InvalidInputError(
                "unknown-system", f"The system {event.system[:40]!r} is not listed in the configuration."
            )
        written = self._privacy(event, lambda bound: self.metrics.add("scalewatch_bounds_hit_total", bound=bound))
        self._send(JournalRecord(event=written, origin=origin), partition)

    def tick(self, time_ms: int) -> None:
        for partition in range(self.config.topics.journal_partitions):
            self._send(JournalRecord(event=Tick(system="", time_ms=time_ms)), partition)

    def step(self) -> int:
        """Process all written records; return their number."""
        folded = 0
        self._producer.flush(1.0)
        while (count := self.learner.step(self._clock.monotonic_s(), 0.0)) or self._behind():
            folded += count
        return folded

    def close(self) -> None:
        self._schemas.close()
        self.log.close()

    def _behind(self) -> bool:
        return len(self.learner.shards()) < self.config.topics.journal_partitions

    def _send(self, record: JournalRecord, partition: int) -> None:
        self._producer.send(self.config.topics.journal, encode_record(record), None, partition, 0)

    def _emitted(self, emission: Emission) -> None:
        self.view.apply(emission)
        if self._on_emission is not None:
            self._on_emission(emission)

    @cached_property
    def _dead_letters(self) -> RecentDeadLetters:
        return RecentDeadLetters(OutputTopics(self.log, compose.output_topics(self.config), self.metrics))

    def _newest_dead_letters(self) -> Sequence[DeadLetterView]:
        self._dead_letters.look()  # reading from memory costs almost nothing
        return self._dead_letters.latest()

    def _health(self) -> Sequence[Health]:
        shards = self.learner.shards()
        folded_ms = max((shard.fold.now_ms for shard in shards.values()), default=None) or None
        return [Health(role="learner", ready=True, partitions=tuple(shards), lag_s=0.0, folded_ms=folded_ms)]
