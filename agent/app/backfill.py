"""History into the running system: completions of files go straight into the journal, oldest first."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from agent.app import compose
from agent.app.privacy import privacy
from agent.app.streams import TimedEvent, in_order, refused
from agent.app.telemetry_files import file_telemetry
from agent.config.tree import Config
from agent.contracts.events import HostMinute, HostState, JobStarted, JournalRecord, Origin, encode_record
from agent.contracts.log import Log
from agent.decode.files import read_each
from agent.decode.records import FileRecord
from agent.topics import own_topics

FLUSH_RECORDS: Final = 2000
SAMPLES: Final = "samples of telemetry"
LEFT_OUT: Final = {JobStarted: "start", HostState: "host-state"}  # what says nothing of the past


def backfill(
    config: Config,
    log: Log,
    paths: Sequence[str],
    *,
    timezone: str,
    now_ms: int,
    on_progress: Callable[[int], None],
) -> Counter[str]:
    """Write what the files tell of ended runs into the journal; return counts by what became of the records.

    A second backfill of the same files changes nothing: runs have identities. Starts, states
    and samples of hosts are left out, for they say nothing of the past. Raises UnavailableError; what was written then
    may be written again.
    """
    log.create(own_topics(config))
    producer = log.producer()
    hide = privacy(config.privacy)
    counts: Counter[str] = Counter()
    options = compose.file_options(config, timezone)
    for item in in_order(read_each(paths, now_ms, file_telemetry(config, options))):
        if isinstance(item, FileRecord):
            counts.update(error.reason for error in refused(item))
            counts[SAMPLES] += 0 if item.samples is None else len(item.samples.series)
        if not isinstance(item, TimedEvent) or isinstance(item.event, HostMinute):
            continue
        partition = config.journal_partition(item.event.system)
        left_out = "unknown-system" if partition is None else LEFT_OUT.get(type(item.event))
        if left_out is not None:
            counts[left_out] += 1
            continue
        origin = Origin(item.place.rpartition(":")[0], 0, counts["written"])
        record = encode_record(JournalRecord(event=hide(item.event), origin=origin))
        producer.send(config.topics.journal, record, None, partition, now_ms)
        counts["written"] += 1
        if counts["written"] % FLUSH_RECORDS == 0:
            producer.flush(config.collector.flush_timeout_s)
            on_progress(counts["written"])
    producer.flush(config.collector.flush_timeout_s)
    on_progress(counts["written"])
    producer.close()
    return +counts
