"""Windows as one would write them without a thought of speed: every sample kept, every minute summed up from all."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from processors.contracts.events import HostMinute, ResourceMinute
from processors.contracts.telemetry import (
    Samples,
    Series,
    SeriesIndex,
    is_cumulative,
    is_power,
    is_profiled,
)
from processors.windows.partition import PartitionWindows
from processors.windows.settings import WindowSettings

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Record:
    """A record of a source partition: when it was received, and its samples (host, resource, time_ms, value)."""

    offset: int
    received_ms: int
    samples: tuple[tuple[str, str, int, float], ...]


@dataclass
class Oracle:
    """What windows must report minutes that are settled: `minutes` after `take` of every record."""

    settings: WindowSettings
    values: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    late: dict[tuple[str, str, int], int] = field(default_factory=dict)
    watermark_ms: int | None = None

    def take(self, record: Record) -> None:
        for host, resource, time_ms, value in record.samples:
            if not math.isfinite(value) or time_ms > record.received_ms + self.settings.ahead_max_s * 1000:
                continue
            self.watermark_ms = time_ms if self.watermark_ms is None else max(self.watermark_ms, time_ms)
            if time_ms < self.watermark_ms - self.settings.late_max_s * 1000:
                key = (host, resource, self.clock())
                self.late[key] = self.late.get(key, 0) + 1
            else:
                retained = self.values.setdefault((host, resource), {})
                moments = {newest_ms // 500 for newest_ms in retained} if is_profiled(resource) else set()
                if time_ms // 500 not in moments:
                    retained.setdefault(time_ms, value)

    def clock(self) -> int:
        assert self.watermark_ms is not None
        return int((self.watermark_ms - self.settings.emit_after_s * 1000) // MINUTE_MS)

    def settled(self) -> dict[tuple[str, int], dict[str, ResourceMinute]]:
        """Return resources by host and minute, of all minutes that can change no more."""
        last = self.clock() - 1 - self.settings.settle_minutes
        found: dict[tuple[str, int], dict[str, ResourceMinute]] = {}
        for (host, resource), values in self.values.items():
            for minute in sorted({time_ms // MINUTE_MS for time_ms in values if time_ms // MINUTE_MS <= last}):
                late = self.late.get((host, resource, minute), 0)
                summed = resource_minute(values, minute, late)
                now = [time_ms for time_ms in values if time_ms // MINUTE_MS == minute]
                newest = values[max(now)] if is_cumulative(resource) and is_profiled(resource) else None
                energy = energy_j(values, minute) if is_power(resource) else None
                if is_profiled(resource):
                    summed = replace(summed, means=(), edges=(), shares=(), window_count=0)
                found.setdefault((host, minute), {})[resource] = replace(summed, last=newest, energy_j=energy)
        return found


def resource_minute(values: dict[int, float], minute: int, late: int) -> ResourceMinute:
    """Sum up one series in one minute."""
    end_ms = (minute + 1) * MINUTE_MS
    retained = {time_ms: np.float32(value) for time_ms, value in values.items() if end_ms - 300_000 <= time_ms < end_ms}
    now = {time_ms: float(value) for time_ms, value in retained.items() if time_ms >= end_ms - MINUTE_MS}
    tens = [[value for time_ms, value in now.items() if (time_ms % MINUTE_MS) // 10_000 == part] for part in range(6)]
    low, high = min(retained.values()), max(retained.values())
    edges = [np.float32(float(low) * (1 - share) + float(high) * share) for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    counts = [*(sum(1 for value in retained.values() if value >= edge) for edge in edges[:-1]), 0]
    shares = tuple((a - b) / len(retained) for a, b in pairwise(counts))
    return ResourceMinute(
        len(now),
        sum(now.values()) / len(now),
        min(now.values()),
        max(now.values()),
        tuple(sum(ten) / len(ten) if ten else None for ten in tens),
        (float(low),) if low == high else tuple(map(float, edges)),
        (1.0,) if low == high else shares,
        len(retained),
        late,
    )


def energy_j(values: dict[int, float], minute: int) -> float:
    """Add up power, piece by piece; at the middle of a piece it is as if it was so in all of the piece."""
    begin, end = minute * MINUTE_MS, (minute + 1) * MINUTE_MS
    times = sorted(time_ms for time_ms in values if begin - 4 * MINUTE_MS <= time_ms < end)
    edges = sorted({begin, end, *(time_ms for time_ms in times if time_ms >= begin)})
    return sum((b - a) / 1000 * _power_w(values, times, (a + b) / 2) for a, b in pairwise(edges))


def _power_w(values: dict[int, float], times: list[int], at_ms: float) -> float:
    """Return the power at a moment: on the line between two samples that are near enough, else that of one of them."""
    before = max((time_ms for time_ms in times if time_ms <= at_ms), default=None)
    after = min((time_ms for time_ms in times if time_ms > at_ms), default=None)
    if after is None:
        assert before is not None
        return float(np.float32(values[before]))
    if before is None or after - before > 120_000:
        return float(np.float32(values[after]))
    share = (at_ms - before) / (after - before)
    return float((1 - share) * np.float32(values[before]) + share * np.float32(values[after]))


def alike(one: ResourceMinute, other: ResourceMinute) -> bool:
    """Return whether two summaries are the same to seven digits."""
    return all(_near(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)


def _near(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_near(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=6e-7, abs_tol=1e-12)
    return one == other


def fold(windows: PartitionWindows, index: SeriesIndex, records: list[Record]) -> Iterator[HostMinute]:
    """Fold records as one batch; yield the events."""
    rows = [(record, sample) for record in records for sample in record.samples]
    numbers = [index.number(Series("exa", host, resource)) for _, (host, resource, _, _) in rows]
    samples = Samples(
        np.array(numbers, np.int32),
        np.array([sample[2] for _, sample in rows], np.int64),
        np.array([sample[3] for _, sample in rows], np.float64),
    )
    offsets = np.array([record.offset for record, _ in rows], np.int64)
    received = np.array([record.received_ms for record, _ in rows], np.int64)
    for part in windows.fold(samples, offsets, received):
        yield from windows.events(part)
