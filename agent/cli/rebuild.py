"""`scalewatch rebuild`: replace the learner's state by a state learned from the stored runs."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import click
import msgspec

from agent.app import compose
from agent.app.embedded import ticks
from agent.app.kafka import connected
from agent.cli.options import counted, progress, required_config_option
from agent.clock import SystemClock
from agent.config.load import load
from agent.config.topics import check_shards
from agent.config.tree import Config, config_hash
from processors import __version__
from processors.contracts.errors import ConfigError, FencedError, InvalidInputError, ScalewatchError
from processors.contracts.events import Identity, JobCompleted, JobEvent, JobProfile, JournalRecord, Tick
from processors.contracts.hosts import Profile
from processors.contracts.log import FLUSH_TIMEOUT_S, Log, Marker, Restoration, Restored, Watermarks, record_digest
from processors.contracts.outputs import Prediction, Run, Tombstone
from processors.jobs.lifecycle import Job
from processors.jobs.memory import AnsweredRequests
from processors.pipeline.host_state import of_hosts
from processors.pipeline.jobs import reported_at_start
from processors.store import Encoded
from sinks.topics import decoded

JOBS: Final = f"{Job.name}/"
REQUESTS: Final = f"{AnsweredRequests.name}/"
UNREADABLE_SHOWN: Final = 20


class Rebuilt(msgspec.Struct, frozen=True):
    """The result of rebuilding one shard: numbers of settled runs, of unsettled jobs, and of the resulting applications.

    `unreadable` has the errors of skipped records in the topic of runs, of all shards. `unreadable_jobs` is the number of
    unsettled jobs whose stored state is unreadable; the agent does not know them until they are reported again.
    `from_beginning` is the reason to read the journal from its beginning; None if the learner continues at its previous offset.
    """

    runs: int
    pending_jobs: int
    applications: int
    unreadable: tuple[str, ...]
    unreadable_jobs: int
    from_beginning: str | None = None


class JournalPlace(msgspec.Struct, frozen=True):
    """The journal offset at which the learner continues, and the reason if it is not the previous offset."""

    offset: int
    last_record: str | None = None
    from_beginning: str | None = None


def rebuild(config: Config, log: Log, shard: int, on_progress: Callable[[int], None], *, now_ms: int) -> Rebuilt:
    """Replace the state of a shard. The learner must be stopped. Event time does not advance beyond `now_ms`.

    (1) take the shard over; (2) process the settled runs, oldest first, with their evidence; (3) process the old state of jobs
    that have not settled; (4) save the new state in one checkpoint at the previous journal offset, with tombstones for removed
    keys, and with the stored hosts and answered requests if they are readable; (5) publish the new predictions. If the journal
    no longer holds that offset, it is read from its beginning with empty hosts, and each run is learned once. Raise FencedError
    if a learner took the shard back, ConfigError if journal or state have another number of partitions.
    """
    check_shards(log, config)
    store = log.checkpoints(shard)
    try:
        restored = store.take_over()  # (1)
        marker = restored.marker
        place = _place(config, log, shard, marker)
        rebuilt = _Rebuild(config)
        stored, unreadable = _settled(config, log, shard)
        runs = sorted(((_completion(run), run) for run in stored), key=lambda pair: (pair[0].end_ms, pair[1].run_id))
        for count, (event, run) in enumerate(runs, 1):  # (2)
            rebuilt.pass_time(min(event.end_ms, now_ms))  # drops evidence that came long before its run
            rebuilt.fold(_events_of(event, run))
            if count % 1000 == 0:
                on_progress(count)
        on_progress(len(runs))
        rebuilt.pass_time(min(marker.now_ms, now_ms) if marker else 0)
        pending, unreadable_jobs = _pending(restored)
        for job in pending:  # (3)
            rebuilt.fold(_events_of_job(job))
        states, shard_fold = rebuilt.shard.unsaved().states(), rebuilt.shard
        kept, hosts_stay = _kept(config, restored, now_ms, with_hosts=place.from_beginning is None)
        gone: dict[str, bytes | None] = dict.fromkeys(restored.states.keys() - states.keys() - kept)
        new_marker = Marker(
            offset=place.offset,
            number=marker.number + 1 if marker else 1,
            count=len(states) + len(gone),
            agent_version=__version__,
            config_hash=config_hash(config),
            journal_partitions=config.topics.journal_partitions,
            now_ms=shard_fold.now_ms,
            last_record=place.last_record,
            watermarks=Watermarks(shard_fold.now_ms),
            hosts=marker.hosts if marker and hosts_stay else None,
        )
        store.save(states | gone, new_marker)  # (4)
    finally:
        store.close()
    _publish(config, log, rebuilt.predictions)  # (5)
    applications = len(shard_fold.state.models)
    return Rebuilt(len(runs), len(pending), applications, unreadable, unreadable_jobs, place.from_beginning)


class _Rebuild:
    """The new state of a shard during a rebuild, and the newest prediction by key; None for a deleted prediction."""

    def __init__(self, config: Config) -> None:
        self.shard = compose.make_shard(config)
        self.predictions: dict[str, Prediction | None] = {}

    def fold(self, events: Iterable[JobEvent | Tick]) -> None:
        for event in events:
            for message in self.shard.fold(JournalRecord(event=event)):
                if isinstance(message, Prediction):
                    self.predictions[compose.encode(message).key] = message
                elif isinstance(message, Tombstone) and message.kind == "predictions":
                    self.predictions[message.key] = None

    def pass_time(self, time_ms: int) -> None:
        times_ms = ticks(self.shard.now_ms or None, time_ms - time_ms % 10_000)
        self.fold(Tick(system="", time_ms=tick_ms) for tick_ms in times_ms)


def _place(config: Config, log: Log, shard: int, old: Marker | None) -> JournalPlace:
    """Return the offset of the last checkpoint, or the beginning of the journal if the journal no longer holds that offset."""
    topic = config.topics.journal
    first, end = log.bounds(topic, shard)
    if old is None:
        return JournalPlace(first, from_beginning="there was no checkpoint")
    if not first <= old.offset <= end:
        return JournalPlace(
            first, from_beginning=f"it holds {first} to {end}, the last checkpoint ends at {old.offset}"
        )
    if old.last_record is not None and first < old.offset:
        found: list[bytes | None] = []
        newest = end - old.offset + 1
        log.read(topic, shard, lambda batch: found.extend(batch.values[: 1 - len(found)]), newest=newest)
        if found and record_digest(found[0]) != old.last_record:
            return JournalPlace(first, from_beginning="it is not the journal that the last checkpoint was about")
    return JournalPlace(old.offset, old.last_record)


def _settled(config: Config, log: Log, shard: int) -> tuple[list[Run], tuple[str, ...]]:
    """Return the settled runs of a shard, and the errors of the unreadable records."""
    runs, unreadable = [], []
    for key, value in _newest(log, config.topics.runs).items():
        try:
            run = decoded(value, Run)
        except InvalidInputError as error:
            unreadable.append(f"{config.topics.runs} {key[:80]!a} cannot be read and is left out: {error}")
            continue
        if config.journal_partition(_completion(run).system) == shard:
            runs.append(run)
    return runs, tuple(unreadable)


def _newest(log: Log, topic: str) -> Mapping[bytes, bytes]:
    """Return the last record of each key of a compacted topic."""
    found = Restoration()
    for partition in range(log.partitions(topic) or 0):
        log.read(topic, partition, found.add)
    return found.values


def _completion(run: Run) -> JobCompleted:
    return msgspec.json.decode(run.event, type=JobCompleted)


def _events_of(event: JobCompleted, run: Run) -> list[JobEvent]:
    return [*(msgspec.json.decode(raw, type=Identity) for raw in run.identities), event, *_profile(event, run.profile)]


def _profile(event: JobCompleted, profile: Profile | None) -> list[JobEvent]:
    """Return the event with the stored profile of a run, if any: it cannot be computed again, because host minutes are not kept."""
    return [JobProfile(event.system, event.job_id, event.run_id, profile)] if profile is not None else []


def _pending(restored: Restored) -> tuple[list[Job], int]:
    """Return the open jobs, and the number of jobs with unreadable state."""
    jobs: list[Job] = []
    stored = [value for key, value in restored.states.items() if key.startswith(JOBS)]
    for value in stored:
        with suppress(msgspec.MsgspecError):
            jobs.append(msgspec.json.decode(msgspec.json.decode(value, type=Encoded).data, type=Job))
    return jobs, len(stored) - len(jobs)


def _events_of_job(job: Job) -> list[JobEvent]:
    ended: list[JobEvent] = []
    for run in job.ended:
        ended += [*reported_at_start(run), run.event, *_profile(run.event, run.profile)]
    started: list[JobEvent] = [job.running] if job.running is not None else []
    return [*job.identities, *ended, *started]


def _kept(config: Config, restored: Restored, now_ms: int, *, with_hosts: bool) -> tuple[frozenset[str], bool]:
    """Return the keys of the stored states to keep, and whether the states of hosts are kept. Unreadable states are not kept.

    The states of hosts are kept because settled runs do not contain them, and answered requests because collectors may
    redeliver the newest requests.
    """
    if restored.fault is not None:
        return frozenset(), False
    hosts_now_ms = restored.marker.hosts.now_ms if restored.marker and restored.marker.hosts else None
    hosts = {key: value for key, value in restored.states.items() if of_hosts(key)}
    hosts_stay = with_hosts and (hosts_now_ms or 0) <= now_ms and _readable(config, hosts, hosts_now_ms)
    requests = {key: value for key, value in restored.states.items() if key.startswith(REQUESTS)}
    kept = (hosts if hosts_stay else {}) | (requests if _readable(config, requests) else {})
    return frozenset(kept), hosts_stay


def _readable(config: Config, states: Mapping[str, bytes], hosts_now_ms: int | None = None) -> bool:
    try:
        compose.make_shard(config).restore(states, 0, hosts_now_ms)
    except ConfigError:
        return False
    return True


def _publish(config: Config, log: Log, predictions: dict[str, Prediction | None]) -> None:
    producer = log.producer()
    topic = config.topics.predictions
    for gone in _newest(log, topic).keys() - {key.encode() for key in predictions}:
        producer.send(topic, None, gone)
    for key, message in predictions.items():
        producer.send(topic, compose.encode(message).value if message is not None else None, key.encode())
    producer.flush(FLUSH_TIMEOUT_S)
    producer.close()


@click.command
@required_config_option
@click.option(
    "--shard",
    type=click.IntRange(0),
    multiple=True,
    help="Rebuild this shard only; may be repeated. Default: all shards.",
)
def command(config: str, shard: tuple[int, ...]) -> None:
    """Rebuild the learner's state from the topic of settled runs, with the current rules and code.

    Stop the learners first. Rebuild after a change to the identification rules, to the number of journal partitions or to the
    stored format, after the state or the journal was lost, and after a wrong clock put the learner's time in the future. Running jobs and jobs that have not settled are kept.
    """
    settings = load(config)
    try:
        with connected(settings) as log:
            for number in shard or range(settings.topics.journal_partitions):
                click.echo(_rebuilt(settings, log, number))
    except FencedError as error:
        raise ScalewatchError(
            "A learner took the shard over during the rebuild. Stop all learners and run the command again."
        ) from error


def _rebuilt(config: Config, log: Log, shard: int) -> str:
    with progress(f"shard {shard}, runs") as on_progress:
        done = rebuild(config, log, shard, on_progress, now_ms=SystemClock().now_ms())
    for fault in done.unreadable[:UNREADABLE_SHOWN]:
        click.echo(f"scalewatch: {fault}", err=True)
    text = [
        counted(done.runs, "run"),
        counted(done.pending_jobs, "unsettled job"),
        counted(done.applications, "application"),
    ]
    if done.unreadable:
        text.append(counted(len(done.unreadable), "unreadable record"))
    if done.unreadable_jobs:
        text.append(counted(done.unreadable_jobs, "unreadable job"))
    again = f"; the journal is read from its beginning: {done.from_beginning}" if done.from_beginning else ""
    return f"shard {shard}: {', '.join(text)}{again}"
