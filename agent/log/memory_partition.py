"""One partition of the log in memory: records in order of their offsets, with compaction and retention."""

from array import array
from bisect import bisect_left

from processors.contracts.log import Batch

COMPACTION_SLACK = 1024  # superseded records are let pile up to the live ones plus these
RETENTION_SLACK = 1.25  # cutting the front off a list costs its length, so it is done in large steps


class MemoryPartition:
    """Records in order of their offsets.

    A compacted partition keeps the last record of each key; a tombstone outlives one compaction, so that a reader who
    is less than one compaction behind sees it. Otherwise the oldest records go when there are more than `records_max`,
    or when they are more than `retention_ms` older than the newest timestamp seen. Offsets are never used twice.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        compacted: bool = False,
        records_max: int | None = None,
        retention_ms: int | None = None,
    ) -> None:
        self.topic, self.partition, self.compacted = topic, partition, compacted
        self.first_offset = self.next_offset = 0
        self._records_max, self._retention_ms = records_max, retention_ms
        self._newest_ms = self._tombstones_until = 0
        self._compact_at = COMPACTION_SLACK
        self._offsets: array[int] = array("q")
        self._timestamps_ms: array[int] = array("q")
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []

    def append(self, value: bytes | None, key: bytes | None, timestamp_ms: int) -> int:
        """Add a record and return its offset. A compacted partition needs a key: ValueError without one."""
        if self.compacted and key is None:
            raise ValueError(f"The topic {self.topic} is compacted, so a record needs a key.")
        offset = self.next_offset
        self._offsets.append(offset)
        self._values.append(value)
        self._keys.append(key)
        self._timestamps_ms.append(timestamp_ms)
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        self.next_offset = offset + 1
        if not offset % COMPACTION_SLACK:
            self._shorten()
        return offset

    def mark(self) -> None:
        """Take an offset without a record, as the end of a transaction does."""
        self.next_offset += 1

    def read(self, offset: int, records_max: int) -> Batch | None:
        """Return the records from `offset` on, at most so many; None when there is nothing left."""
        if offset >= self.next_offset:
            return None
        start = bisect_left(self._offsets, offset)
        stop = min(start + records_max, len(self._offsets))
        if start == stop:
            return None
        return Batch(
            topic=self.topic,
            partition=self.partition,
            next_offset=self.next_offset if stop == len(self._offsets) else self._offsets[stop - 1] + 1,
            offsets=self._offsets[start:stop].tolist(),
            values=self._values[start:stop],
            keys=self._keys[start:stop],
            timestamps_ms=self._timestamps_ms[start:stop].tolist(),
        )

    def compact(self) -> None:
        """Keep the last record of each key, without the tombstones that an earlier compaction has kept."""
        last = sorted({key: index for index, key in enumerate(self._keys)}.values())
        retained = [
            index for index in last if self._values[index] is not None or self._offsets[index] >= self._tombstones_until
        ]
        self._offsets = array("q", [self._offsets[index] for index in retained])
        self._timestamps_ms = array("q", [self._timestamps_ms[index] for index in retained])
        self._values = [self._values[index] for index in retained]
        self._keys = [self._keys[index] for index in retained]
        self._tombstones_until = self.next_offset
        self._compact_at = 2 * len(self._offsets) + COMPACTION_SLACK

    def _shorten(self) -> None:
        if self.compacted:
            if len(self._offsets) > self._compact_at:
                self.compact()
            return
        cut = max(self._over_records_max(), self._over_retention())
        if cut:
            for column in (self._offsets, self._timestamps_ms, self._values, self._keys):
                del column[:cut]
            self.first_offset = self._offsets[0]

    def _over_records_max(self) -> int:
        if self._records_max is None or len(self._offsets) <= RETENTION_SLACK * self._records_max:
            return 0
        return len(self._offsets) - self._records_max

    def _over_retention(self) -> int:
        if self._retention_ms is None:
            return 0
        oldest_ms = self._newest_ms - self._retention_ms
        newer = (index for index, time_ms in enumerate(self._timestamps_ms) if time_ms >= oldest_ms)
        return next(newer, len(self._offsets) - 1)  # the newest record stays, it names the first offset
