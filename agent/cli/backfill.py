"""`scalewatch backfill`: write past runs to the journal of a running agent."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from agent.app import compose
from agent.app.compose import privacy
from agent.app.embedded import Feed
from agent.app.files import (
    Item,
    Remarks,
    ReportedEvent,
    file_telemetry,
    in_order,
    of_profiles,
    refused,
    telemetry_files,
)
from agent.app.kafka import connected
from agent.cli.options import FileInput, counted, finish, progress, reads_files, required_config_option
from agent.clock import SystemClock
from agent.config.topics import check_shards, own_topics
from agent.config.tree import Config
from agent.decode.files import read_file
from agent.decode.message import DecodeOptions, FileRecord
from agent.decode.opening import STDIN
from processors.contracts.events import (
    HostMinute,
    HostState,
    JobCompleted,
    JobEvent,
    JobProfile,
    JobStarted,
    JournalRecord,
    Origin,
    Tick,
    encode_record,
)
from processors.contracts.log import FLUSH_TIMEOUT_S, Log
from processors.contracts.names import job_key

FLUSH_RECORDS: Final = 2000
WRITTEN: Final = "written"
PROFILES: Final = "profiles"
SAMPLES: Final = "samples of telemetry"
LEFT_OUT: Final = {JobStarted: "start", HostState: "host-state"}  # skipped event types, which are not about the past


def backfill(
    config: Config,
    log: Log,
    paths: Sequence[str],
    options: DecodeOptions,
    *,
    now_ms: int,
    on_progress: Callable[[int], None],
    remarks: Remarks,
) -> Counter[str]:
    """Write the completed runs in files to the journal; return counts of records by outcome.

    A second backfill of the same files changes nothing, because runs have unique ids. Job starts, host states and host samples
    are skipped, because only the present ones matter; host samples of job archives become the profiles of their runs. Raise
    ConfigError if the journal has another number of partitions than the configuration. Raise UnavailableError if the broker is
    unreachable; some events have been written by then, and the backfill can be repeated.
    """
    log.create(own_topics(config))
    check_shards(log, config)
    producer, hide = log.producer(), privacy(config.privacy)
    counts: Counter[str] = Counter()
    items = _with_profiles(config, paths, now_ms, options, remarks)
    for written, (partition, item) in enumerate(_of_the_past(config, items, counts, remarks), 1):
        origin = Origin(item.place.rpartition(":")[0], 0, counts[WRITTEN])
        record = encode_record(JournalRecord(event=hide(item.event), origin=origin))
        producer.send(config.topics.journal, record, None, partition, now_ms)
        counts[PROFILES if isinstance(item.event, JobProfile) else WRITTEN] += 1
        if written % FLUSH_RECORDS == 0:
            producer.flush(FLUSH_TIMEOUT_S)
            on_progress(counts[WRITTEN])
    producer.flush(FLUSH_TIMEOUT_S)
    on_progress(counts[WRITTEN])
    producer.close()
    return +counts


def _of_the_past(
    config: Config, items: Iterable[Item], counts: Counter[str], remarks: Remarks
) -> Iterator[tuple[int, ReportedEvent]]:
    """Yield the events to write, each with its journal partition; add skipped and refused records to `counts`, by reason."""
    for item in items:
        if isinstance(item, FileRecord):
            counts.update(error.reason for error in refused(item))
            counts[SAMPLES] += 0 if item.samples is None else len(item.samples.series)
        if not isinstance(item, ReportedEvent) or isinstance(item.event, HostMinute):
            continue
        remarks.accepts(item.event.system)
        partition, left_out = config.journal_partition(item.event.system), LEFT_OUT.get(type(item.event))
        if partition is None or left_out is not None:
            counts["unknown-system" if partition is None else left_out or ""] += 1
        else:
            yield partition, item


class PastProfiles:
    """Processes runs and hosts from archives in order of time, to compute the profiles of the runs for a backfill."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._hosts = [compose.make_shard(config).hosts for _ in range(config.topics.journal_partitions)]
        self._settle_ms = round(config.jobs.settle_max_s * 1000)
        self._feed = Feed(self)
        self._settling: deque[JobCompleted] = deque()
        self._reported: list[JobProfile] = []

    def take(self, timed: ReportedEvent) -> Iterator[JobProfile]:
        """Process an event; yield the profiles of runs that settled before the event."""
        if isinstance(timed.event, HostMinute | JobStarted | JobCompleted):
            self._feed.take(timed)
            yield from self._new()

    def end(self) -> Iterator[JobProfile]:
        """Yield the profiles of the runs that have not settled by the end of the files."""
        self._feed.finish(2 * self._settle_ms)
        yield from self._new()

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        """Pass an event to the host state of its system, if the event matters for profiles."""
        del origin
        partition = self._config.journal_partition(event.system)
        if partition is None:
            return
        if isinstance(event, HostMinute):
            event = of_profiles(event)
        elif isinstance(event, JobCompleted):
            self._settling.append(event)
        self._hosts[partition].take(event)

    def tick(self, time_ms: int) -> None:
        """Advance the time; a run settles some time after its end."""
        for hosts in self._hosts:
            hosts.take(Tick("", time_ms=time_ms))
            hosts.sent()
        while self._settling and self._settling[0].end_ms + self._settle_ms <= time_ms:
            self._settle(self._settling.popleft())

    def _settle(self, event: JobCompleted) -> None:
        partition = self._config.journal_partition(event.system) or 0
        profile = self._hosts[partition].profile(job_key(event.system, event.job_id), event.run_id)
        if profile is not None:
            self._reported.append(JobProfile(event.system, event.job_id, event.run_id, profile))

    def _new(self) -> list[JobProfile]:
        reported, self._reported = self._reported, []
        return reported


def _with_profiles(
    config: Config, paths: Sequence[str], now_ms: int, options: DecodeOptions, remarks: Remarks
) -> Iterator[Item]:
    """Yield the content of the files in order of time; if any path is a job archive, also the profile of each run when it settles."""
    if not any(path != STDIN and Path(path).is_dir() for path in paths):
        telemetry = file_telemetry(config, options)
        yield from in_order(remarks.passing(read_file(path, now_ms, telemetry)) for path in paths)
        return
    past, files = PastProfiles(config), telemetry_files(config, paths, options)
    place = ""
    for item in in_order([remarks.passing(records) for records in files.read(now_ms)], files):
        yield item
        if isinstance(item, ReportedEvent):
            place = item.place
            yield from (ReportedEvent(None, profile, place) for profile in past.take(item))
    yield from (ReportedEvent(None, profile, place) for profile in past.end())


@click.command
@click.argument("files", nargs=-1, required=True)
@reads_files(required_config_option)
def command(files: tuple[str, ...], source: FileInput) -> None:
    """Write the finished runs in FILES to the journal, oldest first, so that the agent can predict from day one.

    FILES can be anything that `scalewatch replay` accepts. Runs of ClusterCockpit archives include their host measurements.
    The agent may keep running. A second backfill of the same files changes nothing. Old runs raise no alerts.
    """
    config = source.config
    now_ms, remarks, options = SystemClock().now_ms(), Remarks(config), source.options(unnamed=None)
    with connected(config) as log, progress("runs") as on_progress:
        counts = backfill(config, log, files, options, now_ms=now_ms, on_progress=on_progress, remarks=remarks)
    rest = ", ".join(
        f"{count} {reason}" for reason, count in sorted(counts.items()) if reason not in {WRITTEN, PROFILES}
    )
    text = f", {counted(counts[PROFILES], 'profile')}" if counts[PROFILES] else ""
    click.echo(f"{counted(counts[WRITTEN], 'run')}{text} written" + (f"; left out: {rest}" if rest else ""))
    finish(remarks, empty=not counts[WRITTEN])
