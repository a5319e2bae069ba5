"""What the topics of a world hold."""

from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.events import JournalRecord, decode_record
from processors.contracts.log import Batch


def records(broker: MemoryBroker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return everything a topic holds, key and value, in order."""
    found: list[tuple[bytes | None, bytes | None]] = []
    log = MemoryLog(broker)

    def take(batch: Batch) -> None:
        found.extend(zip(batch.keys, batch.values, strict=True))

    for partition in range(log.partitions(topic) or 0):
        log.read(topic, partition, take)
    return found


def journal(broker: MemoryBroker, topic: str) -> list[JournalRecord]:
    """Return the journal, decoded."""
    return [decode_record(value) for _, value in records(broker, topic) if value is not None]
