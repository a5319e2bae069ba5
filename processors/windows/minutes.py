"""Summaries of one minute of event time for many series at once: means, range, and the histogram of the last five minutes."""

from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.events import HostMinute, ResourceMinute
from processors.contracts.telemetry import SeriesIndex
from processors.models.histogram import INTERVALS
from processors.models.numerics.arrays import Floats, Ints
from processors.windows.rings import GroupedRings, Rings, Strip
from processors.windows.settings import MINUTE_MS, PART_MS, PARTS, significant
from processors.windows.sums import SeriesTraits, SumColumns, or_none

WINDOW_MS: Final = 300_000
GAP_MAX_MS: Final = 120_000  # largest gap between two samples over which power is interpolated
STRIP: Final = 1024  # number of rings summarised at a time, so that they stay in the processor cache


def energy_j(row: Ints, after_ms: Ints, power_w: Floats, rows: int) -> Floats:
    """Return the energy of the minute for each row (rows,) in J; nan for rows without a sample in the minute.

    `row`, `after_ms` and `power_w` (m,) are the row, the time since the start of the minute (negative if earlier) and the power
    of each sample, in any order. Between two samples at most GAP_MAX_MS apart power is interpolated (trapezoidal rule), also from
    the last sample before the minute. Before a sample that follows a longer gap, the power of this sample is used; after the last
    sample, its power is held. The energy therefore never depends on samples after the minute.
    """
    near = np.flatnonzero((after_ms >= -GAP_MAX_MS) & (after_ms < MINUTE_MS))
    order = near[np.lexsort((after_ms[near], row[near]))]
    row, at_s, power = row[order], after_ms[order] / 1000.0, power_w[order]
    minute = at_s >= 0.0
    same = np.concatenate(([False], row[1:] == row[:-1])) if len(row) else np.zeros(0, np.bool_)
    before_s, before = np.concatenate(([0.0], at_s))[: len(row)], np.concatenate(([0.0], power))[: len(row)]
    step_s = np.where(same, at_s - before_s, np.inf)
    linked = step_s * 1000.0 <= GAP_MAX_MS
    start_s = np.where(linked, np.maximum(before_s, 0.0), 0.0)  # start of the counted part of the step to this sample
    share = np.where(linked & (step_s > 0.0), (at_s - start_s) / np.where(step_s > 0.0, step_s, 1.0), 0.0)
    at_start = np.where(linked, power + share * (before - power), power)
    of_step = np.where(minute, (at_s - start_s) * (at_start + power) / 2.0, 0.0)
    last = minute & np.concatenate((~same[1:], np.ones(min(1, len(row)), np.bool_)))
    of_rest = np.where(last, (MINUTE_MS / 1000.0 - at_s) * power, 0.0)
    total = np.bincount(row, of_step + of_rest, minlength=rows)
    return np.where(np.bincount(row, minute, minlength=rows) > 0, total, np.nan)


class MinuteColumns(msgspec.Struct, frozen=True):
    """The values of m series in one minute; the series of a host are adjacent. Each series has at least one sample in the minute.

    `count`, `mean`, `low` and `high` (m,) describe the minute, `means` (m, 6) its six parts (nan: no sample). `edges` (m, 6),
    `shares` (m, 5) and `window_count` (m,) are the histogram of the window, the five minutes that end with this minute, in five
    equal intervals. `late` (m,) counts late samples. Values have seven significant digits; shares are exact and sum to one.
    `revision` is 1 if the minute is emitted again. `energy_j` (m,) is the energy of series that measure power, nan for others.
    Series that only profiles use have no window: `means` and `edges` are nan, and the other window columns 0.
    """

    minute_ms: int
    series: Ints
    count: Ints
    mean: Floats
    low: Floats
    high: Floats
    means: Floats
    edges: Floats
    shares: Floats
    window_count: Ints
    late: Ints
    energy_j: Floats
    revision: int = 0

    def take(self, rows: Ints) -> "MinuteColumns":
        columns = {name: getattr(self, name)[rows] for name in self.__struct_fields__[1:-1]}
        return MinuteColumns(self.minute_ms, **columns, revision=self.revision)

    def ordered_by(self, host: npt.NDArray[np.integer]) -> "MinuteColumns":
        return self.take(np.lexsort((self.series, host[self.series])))


def summarise(
    rings: Rings | GroupedRings,
    minute_ms: int,
    chosen: npt.NDArray[np.bool_],
    late: Ints,
    *,
    traits: SeriesTraits,
    revision: int = 0,
) -> MinuteColumns:
    """Return the values of the chosen series (mask by number) that have a sample in the minute; `late` is indexed by series number.

    Without `traits`, no series counts as power or as used only in profiles. The intervals of a histogram include their lower
    edge, the last interval also its upper edge. Samples are compared with the edges in 32 bits.
    """
    masks = traits.mask("power", len(chosen)), traits.mask("profiled", len(chosen))
    strips = [_strip(strip, minute_ms, masks) for strip in rings.strips(chosen, STRIP)] or [
        _strip(_NO_RINGS, minute_ms, masks)
    ]
    columns = {name: np.concatenate([strip[name] for strip in strips]) for name in strips[0]}
    return MinuteColumns(minute_ms, late=late[columns["series"]], **columns, revision=revision)


class MinutePart(msgspec.Struct, frozen=True):
    """The minutes of some hosts. `windows` are series with a histogram of five minutes, `sums` are series with sums alone."""

    windows: MinuteColumns
    sums: SumColumns

    def __len__(self) -> int:
        return len(self.windows.series) + len(self.sums.series)


def host_minutes(
    part: MinutePart, index: SeriesIndex, host: npt.NDArray[np.integer], source: str
) -> Iterator[HostMinute]:
    """Yield one event per host. Pass the hosts of a minute in several parts if all hosts at once take too long.

    `host` maps each series number to its host number; the rows of `part` are sorted by host.
    """
    hosts: dict[tuple[str, str], dict[str, ResourceMinute]] = {}
    columns, sums = part.windows, part.sums
    _note(hosts, columns.series, index, host, _resources(columns))
    _note(hosts, sums.series, index, host, sums.resources())
    for (system, name), resources in hosts.items():
        yield HostMinute(system, source, name, columns.minute_ms, resources, columns.revision)


def _note(
    hosts: dict[tuple[str, str], dict[str, ResourceMinute]],
    series: Ints,
    index: SeriesIndex,
    host: npt.NDArray[np.integer],
    minutes: Iterable[ResourceMinute],
) -> None:
    """Add the minutes of series to `hosts`. One lookup per host is made, because a lookup per series takes twice as long."""
    of_row, identities, every = host[series], index.named(series.tolist()), list(minutes)
    ends = [*np.flatnonzero(of_row[1:] != of_row[:-1]) + 1, len(identities)] if identities else []
    for first, end in pairwise((0, *ends)):
        system, name, _ = identities[first]
        resources = [one.resource for one in identities[first:end]]
        hosts.setdefault((system, name), {}).update(zip(resources, every[first:end], strict=True))


def _resources(columns: MinuteColumns) -> Iterator[ResourceMinute]:
    parts = [or_none(part) for part in columns.means.T], columns.edges.T.tolist(), columns.shares.T.tolist()
    means, edges, shares = ([*zip(*part, strict=True)] for part in parts)
    for row in np.flatnonzero(columns.edges[:, 0] == columns.edges[:, -1]).tolist():  # all samples are equal
        edges[row], shares[row] = edges[row][:1], (1.0,)
    for row in np.flatnonzero(columns.window_count == 0).tolist():  # a series used only in profiles has no window
        means[row] = edges[row] = shares[row] = ()
    figures = [part.tolist() for part in (columns.count, columns.mean, columns.low, columns.high)]
    counts = columns.window_count.tolist(), columns.late.tolist()
    return map(ResourceMinute, *figures, means, edges, shares, *counts, repeat(None), or_none(columns.energy_j))


def _strip(
    strip: Strip, minute_ms: int, kinds: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
) -> dict[str, npt.NDArray[Any]]:
    power, profiled = kinds
    owner, time, value, filled = strip
    # ms since the start of the window, modulo 2**32
    age = time - np.uint32((minute_ms + MINUTE_MS - WINDOW_MS) & 0xFFFFFFFF)
    window = age < WINDOW_MS
    capacity = time.shape[1]
    if filled.min(initial=capacity) < capacity:
        window &= np.arange(capacity) < filled[:, None]
    row, column = np.nonzero(window & (age >= WINDOW_MS - MINUTE_MS))
    minute = _minute(row, age[row, column], value[row, column], len(owner))
    some = np.flatnonzero(minute["count"])
    histogram = _histogram(value, window)
    without = profiled[owner]
    minute["means"][without] = histogram["edges"][without] = np.nan
    histogram["shares"][without], histogram["window_count"][without] = 0.0, 0
    energy = _energy(age, value, window, power[owner])
    columns = {"series": owner, **minute, **histogram, "energy_j": energy}
    return {name: part[some] for name, part in columns.items()}


def _minute(
    row: Ints, age: npt.NDArray[np.uint32], value: npt.NDArray[np.float32], rows: int
) -> dict[str, npt.NDArray[Any]]:
    """Return the columns (rows,) of the minute from its samples, sorted by row."""
    count = np.bincount(row, minlength=rows)
    part = row * PARTS + (age.astype(np.int64) - (WINDOW_MS - MINUTE_MS)) // PART_MS
    counts = np.bincount(part, minlength=rows * PARTS).reshape(rows, PARTS)
    sums = np.bincount(part, weights=value, minlength=rows * PARTS).reshape(rows, PARTS)
    starts = (np.cumsum(count) - count)[count > 0]
    low, high = np.zeros(rows), np.zeros(rows)
    if len(value):
        low[count > 0], high[count > 0] = np.minimum.reduceat(value, starts), np.maximum.reduceat(value, starts)
    return {
        "count": count,
        "mean": significant(sums.sum(axis=1) / np.maximum(count, 1)),
        "low": significant(low),
        "high": significant(high),
        "means": significant(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)),
    }


def _energy(
    age: npt.NDArray[np.uint32],
    value: npt.NDArray[np.float32],
    window: npt.NDArray[np.bool_],
    power: npt.NDArray[np.bool_],
) -> Floats:
    """Return the energy of the minute in J for each power series; nan for all other rows."""
    if not power.any():
        return np.full(len(window), np.nan)
    row, column = np.nonzero(window & power[:, None])
    after_ms = age[row, column].astype(np.int64) - (WINDOW_MS - MINUTE_MS)
    return significant(energy_j(row, after_ms, value[row, column].astype(np.float64), len(window)))


def _histogram(value: npt.NDArray[np.float32], window: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
    low = np.where(window, value, np.float32(np.inf)).min(axis=1)
    shown = np.where(window, value, np.float32(-np.inf))  # samples outside the window count in no interval
    high = shown.max(axis=1)
    none = ~window.any(axis=1)
    low, high = np.where(none, np.float32(0), low), np.where(none, np.float32(0), high)
    share = np.arange(INTERVALS + 1) / INTERVALS
    low_64, high_64 = low.astype(np.float64)[:, None], high.astype(np.float64)[:, None]
    edges = (low_64 * (1 - share) + high_64 * share).astype(np.float32)
    edges[:, 0], edges[:, -1] = low, high
    total = np.count_nonzero(window, axis=1)
    above = [total, *(np.count_nonzero(shown >= edges[:, j, None], axis=1) for j in range(1, INTERVALS))]
    counts = -np.diff(np.stack([*above, np.zeros_like(total)], axis=1), axis=1)
    return {
        "window_count": total,
        "edges": significant(edges.astype(np.float64)),
        "shares": counts / np.maximum(total, 1)[:, None],
    }


_NO_RINGS: Final = Strip(
    np.zeros(0, np.int64), np.zeros((0, 1), np.uint32), np.zeros((0, 1), np.float32), np.zeros(0, np.int64)
)
