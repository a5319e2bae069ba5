"""History lines of host resources: one band per closed five minutes for some hours, and single minutes for the last hour.

Each number takes 16 bits. Points are kept in chunks of time. A checkpoint writes only changed chunks, and old chunks are
dropped whole.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.contracts.errors import ConfigError
from processors.contracts.hosts import HostLines, ResourceBand, ResourceLine
from processors.contracts.names import rfc3339
from processors.contracts.telemetry import is_cumulative
from processors.hosts.rows import BLOCK, HEAL, BlockCopy, RowIndex, Rows, decoded
from processors.hosts.windows import ReportedWindows
from processors.models.histogram import Histogram, quantiles
from processors.models.numerics.arrays import Floats, Ints
from processors.windows.minutes import WINDOW_MS
from processors.windows.settings import MINUTE_MS

Codes = npt.NDArray[np.uint16]

MINUTES, BANDS = "host_minute_lines", "host_lines"
LINE_KINDS: Final = (MINUTES, BANDS)
VERSION: Final = 1
HOUR_MS: Final = 3_600_000
MINUTES_CHUNK_MS: Final = 600_000  # so long that at most two chunks change between two checkpoints of hosts
FIGURES: Final = 3  # low, mean, high
POINT_BYTES: Final = 2 * FIGURES
NO_CODE: Final = 0x7FFF
LEVELS: Final = (0.05, 0.95)
DIGITS: Final = 4  # significant digits of a code
_RANGE: Final = 2.0**64  # largest absolute value of a code; the smallest positive value is the inverse
_LEAST: Final = 2.0**-62
_MOST: Final = _RANGE * (1 - 2.0**-8)


def retained_bytes(lines_h: float) -> tuple[float, float]:
    """Return two sizes in bytes for the lines of one resource: the largest size in memory, and the largest part that a checkpoint writes."""
    if not lines_h:
        return 0.0, 0.0
    of_hour, of_chunk = HOUR_MS // WINDOW_MS, MINUTES_CHUNK_MS // MINUTE_MS
    points = (ceil(lines_h) + 1) * of_hour + HOUR_MS // MINUTE_MS + of_chunk
    return float(points * POINT_BYTES), float((of_hour + 2 * of_chunk) * POINT_BYTES)


def coded(values: Floats) -> Codes:
    """Return numbers as 16-bit codes: a sign bit, 7 bits of exponent and 8 bits of fraction. The relative error is at most 0.2 %."""
    size = np.abs(values)
    inside = np.where(size < _LEAST, 0.0, np.copysign(np.minimum(size, _MOST), values)) / _RANGE
    bits = (np.nan_to_num(inside).astype("<f4").view("<u4") + np.uint32(1 << 14)) >> np.uint32(15)
    codes = (bits & np.uint32(0x7FFF)) | ((bits >> np.uint32(1)) & np.uint32(0x8000))
    return np.where(np.isnan(values), NO_CODE, codes).astype("<u2")


def decoded_values(codes: Codes) -> Floats:
    """Return the number of each code; nan for a missing number."""
    wide = codes.astype("<u4")
    bits = ((wide & np.uint32(0x7FFF)) << np.uint32(15)) | ((wide & np.uint32(0x8000)) << np.uint32(16))
    return np.where(codes == NO_CODE, np.nan, bits.view("<f4").astype(np.float64) * _RANGE)


class TimeChunks:
    """Points of many series, each with low, mean and high, in chunks of `chunk_ms`, kept for `retained_ms`."""

    def __init__(self, name: str, step_ms: int, chunk_ms: int, retained_ms: int) -> None:
        self.name, self.step_ms, self.retained_ms = name, step_ms, retained_ms
        self._chunk_ms, self._points = chunk_ms, chunk_ms // step_ms
        self._chunks: dict[int, Codes] = {}
        self._dirty: set[tuple[int, int]] = set()
        self._saving: set[tuple[int, int]] = set()  # blocks that were copied for a checkpoint that is not durable yet

    def __len__(self) -> int:
        """Return the number of stored blocks; a block has BLOCK rows of one chunk."""
        return sum(-(-len(codes) // BLOCK) for codes in self._chunks.values())

    def put(self, row: Rows, time_ms: Ints, figures: Floats, now_ms: int) -> None:
        """Store points (m, 3) of m series at their times; points that are too old are ignored."""
        codes = coded(figures)
        start_ms = time_ms // self._chunk_ms * self._chunk_ms
        for start in np.unique(start_ms).tolist():
            if start + self._chunk_ms <= now_ms - self.retained_ms:
                continue
            chosen = np.flatnonzero(start_ms == start)
            chunk = self._grown(start, int(row[chosen].max()) + 1)
            chunk[row[chosen], (time_ms[chosen] - start) // self.step_ms] = codes[chosen]
            self._dirty.update((start, block) for block in np.unique(row[chosen] // BLOCK).tolist())

    def mean(self, row: Rows, end_ms: int, steps: int) -> Floats:
        """Return the average (m,) of the means of the last `steps` points before `end_ms`; nan for rows without a mean.

        All these points must lie in one chunk.
        """
        start = (end_ms - 1) // self._chunk_ms * self._chunk_ms
        chunk, last = self._grown(start, int(row.max()) + 1), (end_ms - start) // self.step_ms
        values = decoded_values(chunk[row, last - steps : last, 1])
        measured = ~np.isnan(values)
        count = measured.sum(axis=1)
        total = np.where(measured, values, 0.0).sum(axis=1)
        return np.asarray(np.divide(total, count, out=np.full(len(row), np.nan), where=count > 0))

    def of(self, rows: Rows, now_ms: int) -> tuple[int, Floats]:
        """Return the time of the first retained point, and the points (k, points, 3) from then to `now_ms`; nan for missing points."""
        first = (now_ms - self.retained_ms) // self.step_ms * self.step_ms
        points = max((now_ms - first) // self.step_ms, 0)
        codes = np.full((len(rows), points, FIGURES), NO_CODE, "<u2")
        for start, chunk in self._chunks.items():
            stored, place = rows < len(chunk), (start - first) // self.step_ms
            begin, end = max(place, 0), min(place + self._points, points)
            if begin < end:
                codes[stored, begin:end] = chunk[rows[stored], begin - place : end - place]
        return first, decoded_values(codes)

    def clear(self, rows: Rows | None = None) -> None:
        """Forget the points of some rows, or of all rows; chunks stay until they expire."""
        for start, chunk in self._chunks.items():
            stored = np.arange(len(chunk)) if rows is None else rows[rows < len(chunk)]
            chunk[stored] = NO_CODE
            self._dirty.update((start, block) for block in np.unique(stored // BLOCK).tolist())

    def forget_before(self, time_ms: int) -> None:
        """Drop the chunks that ended before `time_ms`."""
        for start in [start for start in self._chunks if start + self._chunk_ms <= time_ms]:
            del self._chunks[start]

    def keys(self) -> Iterator[str]:
        """Return the keys of all blocks."""
        return (
            f"{self.name}/{start}.{block}"
            for start, chunk in self._chunks.items()
            for block in range(-(-len(chunk) // BLOCK))
        )

    def copied(self) -> dict[str, BlockCopy]:
        """Return a copy of the blocks that changed since the last confirmed checkpoint, by key."""
        self._saving = {key for key in self._dirty | self._saving if key[0] in self._chunks}
        self._dirty.clear()
        return {f"{self.name}/{start}.{block}": self._copy(start, block) for start, block in sorted(self._saving)}

    def confirm(self) -> None:
        """Record that the checkpoint of `copied` is durable."""
        self._saving.clear()

    def restore(self, key: str, data: bytes) -> None:
        """Restore a block; raise ValueError for an invalid key or size."""
        start, block = map(int, key.split("."))
        if start % self._chunk_ms or block < 0:
            raise ValueError(f"there is no block {key} of lines")
        points = np.frombuffer(data, "<u2").reshape(BLOCK, self._points, FIGURES)
        self._grown(start, (block + 1) * BLOCK)[block * BLOCK : (block + 1) * BLOCK] = points

    def _copy(self, start: int, block: int) -> BlockCopy:
        first = block * BLOCK
        return BlockCopy(VERSION, self._chunks[start][first : first + BLOCK].tobytes(), 0, ())

    def _grown(self, start: int, rows: int) -> Codes:
        """Return a chunk with room for at least `rows` rows."""
        chunk = self._chunks.get(start)
        if chunk is None or len(chunk) < rows:
            room = -(-rows // BLOCK) * BLOCK
            more = np.full((room - (0 if chunk is None else len(chunk)), self._points, FIGURES), NO_CODE, "<u2")
            chunk = self._chunks[start] = more if chunk is None else np.concatenate([chunk, more])
        return chunk


class LineStore:
    """The history lines of all resources except cumulative ones. If a minute is reported again, the new report replaces the old one."""

    def __init__(self, index: RowIndex, bands_h: float) -> None:
        self._index = index
        self._minutes = TimeChunks(MINUTES, MINUTE_MS, MINUTES_CHUNK_MS, HOUR_MS)
        self._bands = TimeChunks(BANDS, WINDOW_MS, HOUR_MS, round(bands_h * HOUR_MS))
        self.chunks = (self._minutes, self._bands)
        self._enabled = bands_h > 0
        index.series.on_clear(self.clear)

    def sizes(self) -> dict[str, int]:
        return {chunks.name: len(chunks) for chunks in self.chunks}

    def take(self, reported: ReportedWindows, new: Rows, now_ms: int) -> None:
        """Store reported minutes, at most one per series. Only the minutes at the indexes `new` are stored; the others are outdated."""
        if not self._enabled:
            return
        drawn = np.zeros(len(reported.row), np.bool_)
        drawn[new] = ~self._index.cumulative[reported.row[new]]
        chosen = np.flatnonzero(drawn & (reported.samples > 0))
        if chosen.size:
            figures = reported.figures[chosen][:, (1, 0, 2)]
            self._minutes.put(reported.row[chosen], reported.minute_ms[chosen], figures, now_ms)
        closes = (reported.minute_ms + MINUTE_MS) % WINDOW_MS == 0
        chosen = np.flatnonzero(drawn & closes & (reported.parts > 0))
        for minute_ms in np.unique(reported.minute_ms[chosen]).tolist():
            self._close(reported, chosen[reported.minute_ms[chosen] == minute_ms], minute_ms + MINUTE_MS, now_ms)

    def tick(self, now_ms: int) -> None:
        """Forget expired chunks."""
        for chunks in self.chunks:
            chunks.forget_before(now_ms - chunks.retained_ms)

    def of(self, system: str, host: str, resources: Mapping[str, int], now_ms: int) -> HostLines:
        """Return the lines of a host; `resources` maps its resources to their rows."""
        drawn = {name: row for name, row in resources.items() if not is_cumulative(name)}
        bands, minutes = (_line(chunks, drawn, now_ms) for chunks in (self._bands, self._minutes))
        return HostLines(system=system, host=host, as_of=rfc3339(now_ms), day=bands, hour=minutes)

    def keys(self) -> Iterator[str]:
        """Return the keys of all blocks."""
        return chain.from_iterable(chunks.keys() for chunks in self.chunks)

    def copied(self) -> Iterator[tuple[str, BlockCopy]]:
        """Yield a copy of every block that a checkpoint has to write, with its key."""
        return chain.from_iterable(chunks.copied().items() for chunks in self.chunks)

    def confirm(self) -> None:
        """Record that the checkpoint of `copied` is durable."""
        for chunks in self.chunks:
            chunks.confirm()

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Restore blocks by key. Raise ConfigError if blocks are damaged or written by a newer agent."""
        chunks = {each.name: each for each in self.chunks}
        try:
            for key, block in decoded(states, dict.fromkeys(LINE_KINDS, VERSION)).items():
                kind, _, place = key.partition("/")
                chunks[kind].restore(place, block.data)
        except ValueError as error:
            raise ConfigError(f"The stored lines of hosts are damaged ({error}): {HEAL}") from error

    def clear(self, rows: Rows | None = None) -> None:
        """Forget the lines of some rows, or of all rows."""
        for chunks in self.chunks:
            chunks.clear(rows)

    def _close(self, reported: ReportedWindows, chosen: Rows, end_ms: int, now_ms: int) -> None:
        """Compute and store low, mean and high over the five minutes that ended at `end_ms`."""
        row = reported.row[chosen]
        edges = np.where(reported.parts[chosen, None] == 1, reported.edges[chosen, :1], reported.edges[chosen])
        low, high = quantiles(Histogram(edges, reported.shares[chosen]), LEVELS).T
        mean = self._minutes.mean(row, end_ms, WINDOW_MS // MINUTE_MS)
        begin_ms = np.full(len(chosen), end_ms - WINDOW_MS, np.int64)
        self._bands.put(row, begin_ms, np.stack([low, mean, high], axis=1), now_ms)


def _line(chunks: TimeChunks, resources: Mapping[str, int], now_ms: int) -> ResourceLine:
    """Return the history lines of `resources`, cut to the time in which any of them has points."""
    first_ms, points = chunks.of(np.array(list(resources.values()), np.intp), now_ms)
    drawn = np.flatnonzero(~np.isnan(points[..., 1]).all(axis=0)) if points.size else np.zeros(0, np.intp)
    begin, end = (int(drawn[0]), int(drawn[-1]) + 1) if drawn.size else (0, 0)
    columns = _plain(points[:, begin:end])
    bands = {name: ResourceBand(*map(tuple, columns[i])) for i, name in enumerate(resources)}
    retained = {name: band for name, band in bands.items() if any(value is not None for value in band.mean)}
    return ResourceLine(start_ms=first_ms + begin * chunks.step_ms, step_s=chunks.step_ms // 1000, resources=retained)


def _plain(points: Floats) -> list[list[list[float | None]]]:
    """Return points (k, points, 3) as lists of low, mean and high per series, rounded to DIGITS digits; None for missing points."""
    size = np.where(np.isnan(points) | (points == 0), 1.0, np.abs(points))
    power = np.floor(np.log10(size)).astype(np.int64) + 1 - DIGITS
    scale = 10.0 ** np.abs(power)
    rounded = np.where(power < 0, np.round(points * scale) / scale, np.round(points / scale) * scale)
    plain: list[list[list[float | None]]] = np.where(np.isnan(points), None, rounded).transpose(0, 2, 1).tolist()  # type: ignore[call-overload]
    return plain
