"""Reading one partition without a group: to its end, or one record of it."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from agent.log.kafka.client import ClusterAdmin, KafkaSettings, client_of, translated
from processors.contracts.errors import UnavailableError
from processors.contracts.log import Batch, topic_pattern

POLL_S = 0.2


def ends(admin: ClusterAdmin, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return the ends of the partitions of each topic that is there, by name or regular expression."""
    names = list(filter(topic_pattern(topics).fullmatch, admin.topics()))
    counts = {name: one.partitions for name, one in admin.describe(names).items()}
    places = [(name, partition) for name in sorted(counts) for partition in range(counts[name])]
    found: dict[str, dict[int, int]] = {name: {} for name in sorted(counts)}
    for (name, partition), end in (admin.ends(places) if places else {}).items():
        found[name][partition] = end
    return found


class KafkaReader:
    """Reads one partition by hand. With `committed` off it also sees what open and aborted transactions wrote."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int, *, committed: bool = True) -> None:
        self._timeout_s = settings.read_timeout_s
        self._topic, self._place = topic, f"{topic}/{partition}"
        self._client = client_of(settings)
        with translated(self._client, f"Reading {topic}"):
            self._reader = self._client.partition_reader(topic, partition, committed=committed)

    def beginning(self) -> int:
        """Return the first offset that is still there."""
        with translated(self._client, f"Looking for the beginning of {self._topic}"):
            return self._reader.beginning()

    def end(self) -> int:
        """Return the offset after the last record that this reader may see."""
        with translated(self._client, f"Looking for the end of {self._topic}"):
            return self._reader.end()

    def read(self, on_batch: Callable[[Batch], None], newest: int | None = None) -> int:
        """Read from the beginning, or only the `newest` offsets, to the present end and return that end."""
        first, end = self.beginning(), self.end()
        with translated(self._client, f"Reading {self._topic}"):
            self._reader.seek(first if newest is None else max(first, end - newest))
            quiet_s = 0.0
            while self._reader.position() < end:
                self._client.settings.on_wait()
                batch = self._reader.poll(POLL_S)
                quiet_s = 0.0 if batch else quiet_s + POLL_S
                self._check_progress(quiet_s, end)
                if batch and batch.offsets[0] < end:
                    on_batch(_before(batch, end))
        return end

    def value_at(self, offset: int) -> tuple[bytes | None] | None:
        """Return the value at this offset, None where the reader gets past it without seeing a record."""
        with translated(self._client, f"Reading {self._topic}"):
            self._reader.seek(offset)
            quiet_s = 0.0
            while self._reader.position() <= offset:
                batch = self._reader.poll(POLL_S)
                quiet_s = 0.0 if batch else quiet_s + POLL_S
                self._check_progress(quiet_s, offset)
                if batch:
                    return (batch.values[0],) if batch.offsets[0] == offset else None
        return None

    def close(self) -> None:
        """Free the connections."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _check_progress(self, quiet_s: float, goal: int) -> None:
        if quiet_s > self._timeout_s:
            raise UnavailableError(f"Reading {self._place} to {goal} stopped for {self._timeout_s:g} s.")


def _before(batch: Batch, end: int) -> Batch:
    """Return what of a batch was there when the end was looked up."""
    if batch.next_offset <= end:
        return batch
    count = bisect_left(batch.offsets, end)
    return replace(
        batch,
        next_offset=end,
        offsets=batch.offsets[:count],
        values=batch.values[:count],
        keys=batch.keys[:count],
        timestamps_ms=batch.timestamps_ms[:count],
    )
