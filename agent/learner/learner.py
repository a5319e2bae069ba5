"""The learner's loop: poll, process, send, checkpoint.

A checkpoint has four steps, with the same numbers in tests and documents:
(1) Flush the output messages, and check each acknowledgement.
(2) Write the changed states and one marker in one transaction.
(3) Read the marker back. Only then the states count as saved.
(4) Commit the group's offset, which only serves tools that measure lag.

Steps 2 and 3 use a snapshot taken right after step 1. The learner encodes the snapshot in slices between records, so that
requests need not wait. A thread writes the snapshot while processing continues, so a crash meanwhile is a crash between two
checkpoints. A shard has at most one unfinished checkpoint, and processes at most `checkpoint_records_max` records after it.
"""

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args

import msgspec

from agent.collector.deadletters import Complaints
from agent.collector.recorder import Attempt, Recorder
from agent.collector.sources import Collectors, Sources
from agent.learner.shard import LearnerPlan, OwnedShard, Snapshot
from processors.contracts.errors import (
    CheckpointLostError,
    FencedError,
    InvalidInputError,
    RebalancingError,
    ScalewatchError,
    UnavailableError,
    described,
)
from processors.contracts.events import (
    JournalRecord,
    Origin,
    PredictionRequested,
    Refusal,
    Refused,
    Tick,
    decode_record,
)
from processors.contracts.hosts import HostCounts, HostUse, HostView, most_anomalous_first
from processors.contracts.log import FLUSH_TIMEOUT_S, Batch, Log, Position, TopicPartition
from processors.contracts.outputs import AlertEnd, Answer, Emission
from processors.contracts.service import Measures, Views

if TYPE_CHECKING:
    from processors.pipeline.shard import Shard


class FairLock:
    """A fair lock: a waiting thread gets the lock before the thread that just released it.

    The learner takes the lock for each record, and for each slice of a tick, which fits up to a hundred curves. With a plain
    lock, the learner would take the lock again before any other thread woke up.
    """

    def __init__(self) -> None:
        self._next, self._held = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._next:  # only one thread waits for the lock itself; all others wait for that thread
            self._held.acquire()

    def __exit__(self, *_error: object) -> None:
        self._held.release()

    def give_way(self) -> None:
        """Release the lock for the threads that wait for it, and take it again after them."""
        self._held.release()
        self.__enter__()


AHEAD_MAX_MS: Final = 5_000  # covers usual clock differences, and collectors under load
FULL_SECOND_MS: Final = 1_000  # ticks are rounded to full seconds, so that the ticks of several collectors are equal


def is_ahead(record: JournalRecord, written_ms: int) -> bool:
    """Return whether a record is a tick ahead of the broker's timestamp; False if the broker set no timestamp."""
    return type(record.event) is Tick and 0 < written_ms < record.event.time_ms - AHEAD_MAX_MS


def at_broker_time(record: JournalRecord, written_ms: int) -> JournalRecord:
    """Return the tick with the broker's timestamp, so that a wrong collector clock cannot stall event time."""
    time_ms = written_ms - written_ms % FULL_SECOND_MS
    return msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, time_ms=time_ms))


_LOG = logging.getLogger("scalewatch.learner")
OnEmission = Callable[[Emission], None]
USES_AT_ONCE: Final = 1_000
FOLDED_S: Final = 0.02  # time for processing between two slices of a checkpoint
# duration of a slice: while many records wait, a checkpoint takes a fifth of the time
ENCODED_S: Final = 0.005
ENCODED_AT_ONCE: Final = 16  # states encoded between two checks of the clock
# time between two waits for acknowledgements while records remain: a wait after each poll took a seventh of the time
FLUSH_S: Final = 0.25
OUTCOMES: Final[dict[type[Exception], str]] = {
    CheckpointLostError: "lost",
    FencedError: "fenced",
    UnavailableError: "unavailable",
}
# metrics for the counts by kind and name: the metric, and the label that takes the name
TALLIED: Final = {
    "event": ("scalewatch_events_total", "outcome"),
    "dead_letter": ("scalewatch_dead_letters_total", "reason"),
    "fault": ("scalewatch_processor_faults_total", "processor"),
    "bound": ("scalewatch_bounds_hit_total", "bound"),
    "refused": ("scalewatch_runs_refused_total", "reason"),
    "shift": ("scalewatch_level_shifts_total", "direction"),
    "host_day": ("scalewatch_daily_maxima_total", "rate"),
    "profile": ("scalewatch_profiles_total", "outcome"),
    "withheld": ("scalewatch_alerts_withheld_total", "alertname"),
    "node_s": ("scalewatch_run_node_seconds_total", "energy"),
    "energy_j": ("scalewatch_run_energy_joules_total", "energy"),
}
WITHOUT_LABEL: Final = {
    ("profile", "minute_late"): "scalewatch_profile_records_late_total",
    ("tick", "ahead"): "scalewatch_ticks_refused_total",
}
MORE_LABELS: Final = {"event": {"role": "learner", "format": "journal"}}
RESOLVED: Final = {f"resolved_{by}": by for by in get_args(AlertEnd)}


class Save(Protocol):
    """A checkpoint that is being written."""

    def done(self) -> bool:
        """Return whether the write has ended, successfully or with an error."""

    def result(self) -> float:
        """Wait until the write has ended, and return its duration in seconds. Raise its error if it failed."""


Saving = Callable[[Callable[[], float]], Save]


def at_once(work: Callable[[], float]) -> Save:
    """Run `work`, which writes a checkpoint, in this thread; return after it has ended."""
    ended: Future[float] = Future()
    _end(ended, work)
    return ended


def in_thread(work: Callable[[], float]) -> Save:
    """Run `work` in a new thread. Wait for its result before you close the store that it writes to."""
    ended: Future[float] = Future()
    threading.Thread(target=_end, args=(ended, work), name="checkpoint", daemon=True).start()
    return ended


def _end(ended: Future[float], work: Callable[[], float]) -> None:
    try:
        ended.set_result(work())
    except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
        ended.set_exception(error)


REPORT_S: Final = 1.0


class Meter:
    """The counts of a learner, collected in memory and published once a second, because setting a metric is slow.

    `tally` counts events of the shards by kind and name. `sent` counts sent messages by kind. `ticks_s` is the time spent on
    ticks.
    """

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self._reported_s = -math.inf
        self.tally: Counter[tuple[str, str]] = Counter()
        self.sent: Counter[str] = Counter()
        self.ticks_s = 0.0

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Count a failed checkpoint if this block raises an error."""
        try:
            yield
        except tuple(OUTCOMES) as error:
            self._measures.add("scalewatch_checkpoints_total", outcome=OUTCOMES[type(error)])
            raise

    def due(self, now_s: float, records: int) -> bool:
        """Return whether to publish counts: one second after the last time, or as soon as a poll returned no `records`."""
        waits = records > 0 and now_s - self._reported_s < REPORT_S
        if waits or not self.tally["event", "received"]:
            return False
        self._reported_s = now_s
        return True

    def report_folded(self, folds: Sequence["Shard"]) -> None:
        """Publish the counts of the shards `folds` since the last call, and the sizes of their states."""
        for fold in folds:
            self.tally.update(fold.tallied())
        self._report_counts()
        self._report_state(folds)
        self.tally.clear()
        self.ticks_s = 0.0

    def _report_counts(self) -> None:
        for (kind, name), count in self.tally.items():
            if not count:
                continue
            if (kind, name) in WITHOUT_LABEL:
                self._measures.add(WITHOUT_LABEL[kind, name], count)
            elif kind in RESOLVED:
                self._measures.add("scalewatch_alerts_resolved_total", count, alertname=name, by=RESOLVED[kind])
            elif kind in TALLIED:
                metric, label = TALLIED[kind]
                self._measures.add(metric, count, **{label: name}, **MORE_LABELS.get(kind, {}))
        published = self.tally["fit", "published"]
        for _ in range(published):  # a tick publishes the models that it fits, which share its time
            self._measures.observe("scalewatch_fit_duration_seconds", self.ticks_s / published)

    def _report_state(self, folds: Sequence["Shard"]) -> None:
        sizes, waiting, errors_w = Counter[str](), Counter[str](), dict[str, float]()
        for fold in folds:
            sizes.update(fold.sizes())
            waiting.update(fold.state.waiting_fits)
            errors = fold.hosts.profiles.power_errors()
            errors_w |= {name: max(error_w, errors_w.get(name, 0.0)) for name, error_w in errors.items()}
        for name, count in sizes.items():
            self._measures.set("scalewatch_state_records", count, processor=name)
        longest = max(waiting.values(), default=0)
        self._measures.set("scalewatch_fits_waiting", longest, lane="longest")
        self._measures.set("scalewatch_fits_waiting", sum(waiting.values()) - longest, lane="others")
        for component, error_w in errors_w.items():
            self._measures.set("scalewatch_power_estimate_error_watts", error_w, component=component)

    def report_sent(self) -> None:
        """Publish the counts of records sent since the last call."""
        for kind, count in self.sent.items():
            self._measures.add("scalewatch_emissions_total", count, topic=kind)
        self.sent.clear()


class Learner:
    """A member of the consumer group of learners. After any error, replace it by a new learner.

    `monotonic_s` is a clock that never goes back. `saving` decides which thread writes checkpoints. `recorder` outlives the
    process, and holds the record that is being processed.
    """

    def __init__(
        self,
        log: Log,
        plan: LearnerPlan,
        measures: Measures,
        member: str,
        *,
        on_emission: OnEmission,
        monotonic_s: Callable[[], float],
        saving: Saving = at_once,
        recorder: Recorder | None = None,
    ) -> None:
        self._recorder = recorder or Recorder()
        self._log = log
        self._saving = saving
        self._saves: dict[TopicPartition, Save] = {}
        self._encoding: dict[TopicPartition, Snapshot] = {}  # snapshots that are not being written yet
        self._encode_at_s = 0.0
        self._plan = plan
        self._measures, self._meter, self._monotonic_s = measures, Meter(measures), monotonic_s
        self._on_emission = on_emission
        self._consumer = log.consumer(plan.group, [plan.journal_topic], member=member)
        self._producer = log.producer()
        self._shards: dict[TopicPartition, OwnedShard] = {}
        self._folding = FairLock()
        self._sent = False
        self._flushed_s = -math.inf
        self._complaints = Complaints(_LOG)
        self.sources = Sources(plan.is_source)
        self.collectors = Collectors()

    def step(self, now_s: float, timeout_s: float) -> int:
        """Process one poll; `now_s` is the time of the clock `monotonic_s`. Return the number of processed records."""
        poll = self._consumer.poll(0.0 if self._encoding else timeout_s)
        for partition in poll.assignment.lost:
            self._give_up(partition)
        for partition in poll.assignment.gained:
            self._take_over(partition, now_s)
        folded = sum(self._fold(batch) for batch in poll.batches)
        if not folded or now_s - self._flushed_s >= FLUSH_S:
            self._flush()
            self._flushed_s = now_s
        self._encode(FOLDED_S)
        if self._meter.due(now_s, folded):
            self._report()
        for partition, shard in self._shards.items():
            full = shard.records >= self._plan.checkpoint_records_max
            self._confirm(partition, shard, wait=full)
            idle = partition not in self._saves and partition not in self._encoding
            due = full or now_s - shard.saved_s >= self._plan.checkpoint_interval_s
            if idle and due and shard.records:
                self._checkpoint(partition, shard, now_s)
        return folded

    def checkpoint(self, now_s: float) -> None:
        """Save the whole state of every shard with processed records, before an orderly end."""
        for partition, shard in self._shards.items():
            self._confirm(partition, shard, wait=True)
            if shard.unsaved:
                self._checkpoint(partition, shard, now_s, with_hosts=True)
                self._confirm(partition, shard, wait=True)

    def shards(self) -> dict[int, OwnedShard]:
        """Return the owned shards by shard number."""
        return {partition: shard for (_, partition), shard in dict(self._shards).items()}

    def answer(self, request: PredictionRequested, shard: int) -> Answer | None:
        """Answer a prediction request from the models of a shard; None if the shard is not owned. Thread-safe."""
        owned = self._shards.get((self._plan.journal_topic, shard))
        if owned is None:
            return None
        with self._folding:
            return owned.fold.answer(request)

    def floods(self) -> tuple[str, ...]:
        """Return a sentence for each shard in which many models wait for a fit.

        The sentence names the user, application or system of most of these models. Thread-safe.
        """
        floods = ((fold.flood(), fold.state.waiting_fits.total()) for fold in self._folds())
        return tuple(f"{count:,} models wait for their fit, most of them of {who}" for who, count in floods if who)

    def hosts(self, limit: int) -> list[HostView]:
        """Return at most `limit` hosts of all owned shards, anomalous hosts first. Thread-safe."""
        views: list[HostView] = []
        for fold in self._folds():
            with self._folding:
                keys = fold.first_hosts(limit)
            for system, name in keys:
                # one turn of the lock per host, so that processing continues
                view = fold.views(system, self._folding).host(name)
                views += [view] if view is not None else []
        return sorted(views, key=most_anomalous_first)[:limit]

    def host_counts(self) -> HostCounts:
        """Return the numbers of the hosts of all owned shards. Thread-safe."""
        counts = HostCounts()
        for fold in self._folds():
            with self._folding:
                counts += fold.hosts.views.counts()
        return counts

    def host_names(self, limit: int) -> list[tuple[str, str]]:
        """Return system and name of at most `limit` hosts, the anomalous hosts of each shard first. Thread-safe."""
        names: list[tuple[str, str]] = []
        for fold in self._folds():
            with self._folding:
                names += fold.hosts.views.names(limit - len(names))
        return names

    def host_uses(self, limit: int) -> list[HostUse]:
        """Return state and job of at most `limit` hosts of all owned shards. Thread-safe."""
        uses: list[HostUse] = []
        for fold in self._folds():
            with self._folding:
                names = fold.hosts.views.names(limit - len(uses))
            for first in range(0, len(names), USES_AT_ONCE):
                with self._folding:  # one part per turn of the lock, so that processing continues
                    uses += [fold.hosts.views.use(*name) for name in names[first : first + USES_AT_ONCE]]
        return uses

    def _folds(self) -> "list[Shard]":
        return [shard.fold for _, shard in sorted(self.shards().items())]

    def reading(self, system: str, shard: int) -> Views:
        """Return the views of a system in a shard; the views of an empty system if the shard is not owned. Thread-safe."""
        owned = self._shards.get((self._plan.journal_topic, shard))
        return owned.fold.views(system, self._folding) if owned is not None else Views()

    def close(self) -> None:
        """Leave the group and close the connections, without a checkpoint."""
        self._report()
        for partition in list(self._shards):
            self._give_up(partition)
        self._producer.close()
        self._consumer.close()

    def _take_over(self, partition: TopicPartition, now_s: float) -> None:
        shard = OwnedShard(self._plan, self._log.checkpoints(partition[1]), self._consumer, partition, now_s)
        self._consumer.seek(partition, shard.start)
        shard.fold.give_way_by(self._folding.give_way)
        self._shards[partition] = shard
        self._measures.add("scalewatch_restores_total")
        if shard.hosts_lost:
            self._measures.add("scalewatch_restores_without_hosts_total")
            _LOG.warning(
                "The journal of shard %d does not hold what came since the last checkpoint of its hosts: "
                "the learned host state begins anew.",
                partition[1],
            )

    def _give_up(self, partition: TopicPartition) -> None:
        self._encoding.pop(partition, None)
        shard, save = self._shards.pop(partition, None), self._saves.pop(partition, None)
        if save is not None:
            with suppress(Exception):  # the outcome does not matter, because the next owner restores the stored state
                save.result()
        if shard is not None:
            self._meter.tally.update(shard.fold.tallied())
            shard.close()

    def _fold(self, batch: Batch) -> int:
        shard = self._shards.get((batch.topic, batch.partition))
        if shard is None:
            return 0
        shard.check(batch)
        began_s, folded = self._monotonic_s(), 0
        try:
            for offset, value, written_ms in zip(batch.offsets, batch.values, batch.timestamps_ms, strict=True):
                if offset >= shard.offset:
                    self._recorder.begin(Attempt(batch.topic, batch.partition, offset, offset, written_ms))
                    self._fold_one(shard, Origin(batch.topic, batch.partition, offset), value or b"", written_ms)
                    folded += 1
                    if self._encoding and self._monotonic_s() >= self._encode_at_s:
                        self._encode(ENCODED_S)
        finally:
            self._recorder.end()
        shard.folded(batch)
        shard.records += folded
        self._meter.tally["event", "received"] += folded
        self._measures.observe("scalewatch_batch_duration_seconds", self._monotonic_s() - began_s, role="learner")
        return folded

    def _report(self) -> None:
        self._meter.report_folded([shard.fold for shard in self._shards.values()])
        self.sources.report(self._measures)

    def _fold_one(self, shard: OwnedShard, origin: Origin, value: bytes, written_ms: int) -> None:
        try:
            record = decode_record(value)
            if is_ahead(record, written_ms):
                self._meter.tally["tick", "ahead"] += 1
                record = at_broker_time(record, written_ms)
            messages = self._folded(shard, origin.offset, record)
        except Exception as error:  # an error of a processor affects this event only
            if isinstance(error, ScalewatchError) and not isinstance(error, InvalidInputError):
                raise
            self._refuse(shard, origin, value, written_ms, error)
            return
        for message in messages:
            self._send(self._plan.encode(message))

    def _refuse(self, shard: OwnedShard, origin: Origin, value: bytes, written_ms: int, error: Exception) -> None:
        """Send the dead letter of a record; only count it if the shard has used up its byte allowance for dead letters."""
        self._meter.tally["event", "rejected"] += 1
        self._meter.tally["dead_letter", "processor"] += 1
        self._complaints.add(origin, repr(error))
        if shard.is_known(origin.offset):
            return
        refused = Refused(InvalidInputError("processor", f"A processor raised {described(error)}"))
        emission = self._plan.encode(self._plan.dead_letter(Refusal(origin, refused, "journal", value, written_ms)))
        if shard.dead_letters.spend(len(emission.value or b"")):
            self._send(emission)
        else:
            self._meter.tally["bound", "deadletter_bytes_per_s_max"] += 1

    def _folded(self, shard: OwnedShard, offset: int, record: JournalRecord) -> list[Any]:
        if record.collector is not None:
            self.collectors.take(record.collector)
        if type(record.event) is not Tick:
            self.sources.note(record, shard.fold.watermarks.clock_ms)
            with self._folding:
                return shard.take(offset, record)
        with self._folding:
            began_s = self._monotonic_s()
            messages = shard.take(offset, record)
            self._meter.ticks_s += self._monotonic_s() - began_s  # ticks fit the models
            return messages

    def _send(self, emission: Emission) -> None:
        self._producer.send(self._plan.topics[emission.kind], emission.value, emission.key.encode())
        self._meter.sent[emission.kind] += 1
        self._on_emission(emission)
        self._sent = True

    def _flush(self) -> None:
        if self._sent:
            self._producer.flush(FLUSH_TIMEOUT_S)
            self._meter.report_sent()
            self._sent = False

    def _checkpoint(
        self, partition: TopicPartition, shard: OwnedShard, now_s: float, *, with_hosts: bool = False
    ) -> None:
        with self._meter.checkpoint():
            self._flush()  # (1)
        with self._folding:
            self._encoding[partition] = shard.snapshot(now_s, with_hosts=with_hosts)
        self._encode(ENCODED_S)
        self._confirm(partition, shard, wait=False)

    def _encode(self, seconds: float) -> None:
        """Encode states of pending checkpoints for about `seconds`; start the write of each checkpoint that is fully encoded."""
        if not self._encoding:
            return
        until_s = self._monotonic_s() + seconds
        for partition, snapshot in list(self._encoding.items()):
            left = True
            while left and self._monotonic_s() < until_s:
                with self._folding:
                    left = snapshot.unsaved.encode(ENCODED_AT_ONCE)
            if not left:
                self._send_off(partition)
        self._encode_at_s = self._monotonic_s() + FOLDED_S

    def _send_off(self, partition: TopicPartition) -> None:
        """Start to write an encoded snapshot."""
        snapshot = self._encoding.pop(partition)
        self._saves[partition] = self._saving(partial(self._timed, snapshot.write))  # (2) and (3)

    def _confirm(self, partition: TopicPartition, shard: OwnedShard, *, wait: bool) -> None:
        """Finish the checkpoint of a shard if its write has ended; with `wait`, wait for the end. Raise the error of the write."""
        if wait and partition in self._encoding:
            with self._folding:
                while self._encoding[partition].unsaved.encode(ENCODED_AT_ONCE):
                    pass
            self._send_off(partition)
        save = self._saves.get(partition)
        if save is None or not (wait or save.done()):
            return
        del self._saves[partition]
        with self._meter.checkpoint():
            seconds = save.result()
        self._measures.observe("scalewatch_checkpoint_duration_seconds", seconds)
        self._measures.add("scalewatch_checkpoints_total", outcome="confirmed")
        with self._folding:
            offset = shard.confirm()
        with suppress(RebalancingError):  # the commit is optional; the next poll shows whether the shard is still owned
            self._consumer.commit({partition: Position(offset)})  # (4)

    def _timed(self, work: Callable[[], None]) -> float:
        """Do the work, and return its duration in seconds."""
        began_s = self._monotonic_s()
        work()
        return self._monotonic_s() - began_s
