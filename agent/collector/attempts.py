"""Failed attempts to read records: such records are read one by one, and a record that ended two processes is left out."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from agent.collector.recorder import Attempt
from processors.contracts.errors import DECODER, InvalidInputError
from processors.contracts.events import Decoded
from processors.contracts.log import Batch, TopicPartition

KEEP_MAX: Final = 4  # of a partition, in the metadata of its position: a broker allows 4,096 bytes
_MARK: Final = " attempts:"


class Attempts:
    """The failed attempts of one partition. They are committed with its position, so the next collector knows them, too."""

    def __init__(self, partition: TopicPartition, metadata: str, known: Iterable[Attempt]) -> None:
        self.windows, _, text = metadata.partition(_MARK)
        try:
            committed = msgspec.json.decode(text or "[]", type=list[Attempt])
        except msgspec.DecodeError:  # of another version
            committed = []
        unique = dict.fromkeys((*known, *committed))
        self._attempts = tuple(one for one in unique if (one.topic, one.partition) == partition)

    def metadata(self, windows: str, offset: int) -> str:
        """Return the metadata of a position: that of the windows, and the newest attempts at records not before `offset`."""
        ahead = [attempt for attempt in self._attempts if attempt.last >= offset][:KEEP_MAX]
        return windows + _MARK + msgspec.json.encode(ahead).decode() if ahead else windows

    def parts(self, batch: Batch) -> Iterator[tuple[Batch, Attempt]]:
        """Yield slices without failed attempts, and each record with one alone, together with the attempt to begin."""
        begin = 0
        for at in self._attempted(batch):
            if begin < at:
                yield _marked(batch, begin, at)
            alone, attempt = _marked(batch, at, at + 1)
            yield alone, self._continued(attempt)
            begin = at + 1
        if begin < len(batch.values):
            yield _marked(batch, begin, len(batch.values)) if begin else (batch, _attempt(batch))

    def any(self, batch: Batch) -> bool:
        """Return whether an attempt to read records of this batch has failed."""
        return bool(self._attempted(batch))

    def _attempted(self, batch: Batch) -> list[int]:
        if not self._attempts:  # as nearly always
            return []
        return [
            at
            for at, offset in enumerate(batch.offsets)
            if any(one.first <= offset <= one.last for one in self._attempts)
        ]

    def _continued(self, attempt: Attempt) -> Attempt:
        """Return the attempt to read a single record, with the counts of those that failed."""
        failed = [one for one in self._attempts if one.first <= attempt.first <= one.last]
        alone = [one.alone for one in failed if one.written_ms == attempt.written_ms]
        return msgspec.structs.replace(attempt, ends=max(one.ends for one in failed), alone=max(alone, default=0))


def left_out(attempt: Attempt) -> Decoded:
    """Return the refusal of a record whose attempts failed too often."""
    detail = (
        f"The record {attempt} ended {attempt.ends} collectors while it was read, so it was left out. Report it, and "
        "send it again with `scalewatch deadletter` when the cause is mended."
    )
    return Decoded(rejects=[InvalidInputError(DECODER, detail)])


def part_of(batch: Batch, begin: int, end: int) -> Batch:
    """Return the records of a batch from number `begin` to before number `end`."""
    return Batch(
        topic=batch.topic,
        partition=batch.partition,
        next_offset=batch.offsets[end] if end < len(batch.offsets) else batch.next_offset,
        offsets=batch.offsets[begin:end],
        values=batch.values[begin:end],
        keys=batch.keys[begin:end],
        timestamps_ms=batch.timestamps_ms[begin:end],
    )


def _marked(batch: Batch, begin: int, end: int) -> tuple[Batch, Attempt]:
    part = part_of(batch, begin, end)
    return part, _attempt(part)


def _attempt(batch: Batch) -> Attempt:
    return Attempt(batch.topic, batch.partition, batch.offsets[0], batch.offsets[-1], batch.timestamps_ms[0])
