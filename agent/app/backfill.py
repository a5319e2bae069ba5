"""History into the running system: completions of files go straight into the journal, oldest first."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from agent.app import compose
from agent.app.feed import TimedEvent, in_order, refused
from agent.app.privacy import privacy
from agent.config.tree import Config
from agent.contracts.events import JobStarted, JournalRecord, Origin, encode_record
from agent.contracts.log import Log
from agent.decode.files import read_files
from agent.topics import own_topics

FLUSH_RECORDS: Final = 2000


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

    A second backfill of the same files changes nothing: runs have identities. Starts are left out, for they say nothing
    of the past. Raises UnavailableError; what was written then may be written again.
    """
    log.create(own_topics(config))
    producer = log.producer()
    hide = privacy(config.privacy)
    counts: Counter[str] = Counter()
    options = compose.file_options(config, timezone)
    for item in in_order(read_files(paths, now_ms, options)):
        if not isinstance(item, TimedEvent):
            counts.update(error.reason for error in refused(item))
            continue
        partition = config.journal_partition(item.event.system)
        if isinstance(item.event, JobStarted) or partition is None:
            counts["start" if partition is not None else "unknown-system"] += 1
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
    return counts
