"""The windows of one source partition turn samples into minutes of hosts, and give the offset to resume from after a crash.

The result depends only on the records in offset order, not on the batches in which they are polled.
"""

from collections import Counter, deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.events import HostMinute
from processors.contracts.names import LATEST_MS
from processors.contracts.telemetry import Samples, SeriesIndex
from processors.models.numerics.arrays import Ints, run_starts
from processors.windows.minutes import WINDOW_MS, MinutePart, host_minutes, summarise
from processors.windows.rings import GroupedRings
from processors.windows.settings import MINUTE_MS, NEVER_MS, Resume, WindowSettings
from processors.windows.sums import SeriesTraits, Sums

BLOCK_MS: Final = 10_000
FOLLOWING: Final = 256
FOLLOWING_MIN: Final = 2  # fewest following samples that must be behind a sample from the future
OPEN_SLOTS: Final = 32  # minutes whose changes are tracked; more than can ever be open
LATE_SLOTS: Final = 16
WINDOW_MINUTES: Final = 5
NEVER: Final = NEVER_MS // MINUTE_MS  # earlier than every minute
LATE_COUNT_MAX: Final = 2**16 - 1


class OpenMinutes:
    """The open minutes (minutes since the epoch): they have begun and may still change.

    A bit for each series and minute marks that the series changed after the minute was emitted.
    """

    def __init__(self, settle_minutes: int) -> None:
        self._settle = settle_minutes
        self._clock = NEVER  # the minute being collected
        self._reported = NEVER  # the last minute that was emitted, or that must never be emitted
        self._settled = NEVER
        self._changed = np.zeros(0, np.uint32)
        self._late = np.zeros((0, LATE_SLOTS), np.uint16)

    def resume(self, first_open: int) -> None:
        """Skip all minutes before `first_open`, because they were emitted before the restart."""
        self._reported = self._settled = first_open - 1

    def first_open(self) -> int | None:
        """Return the first minute that may still change; None before the first sample."""
        return None if self._settled == NEVER else self._settled + 1

    def begin(self, clock: int) -> bool:
        """Make `clock` the minute being collected; return False if `clock` is already being collected."""
        if clock <= self._clock:
            return False
        settled = clock - 1 - self._settle
        if self._reported == NEVER:
            self._reported = settled
        elif self._clock != NEVER:
            self._reported = max(self._reported, clock - 1)
        self._settled = max(self._settled, settled)
        for minute in range(max(self._clock, clock - LATE_SLOTS) + 1, clock + 1):
            self._late[:, minute % LATE_SLOTS] = 0
        self._clock = clock
        return True

    def due_first(self, clock: int, newest: int) -> Iterator[int]:
        """Yield the minutes to emit for the first time when `clock` begins, up to minute `newest`."""
        if self._clock != NEVER and clock > self._clock:
            yield from range(self._reported + 1, min(clock - 1, newest) + 1)

    def due_again(self, clock: int) -> Iterator[tuple[int, Ints]]:
        """Yield the minutes that settle when `clock` begins, each with the series that changed after the minute was first emitted."""
        if self._clock == NEVER or clock <= self._clock:
            return
        for minute in range(self._settled + 1, min(self._reported, clock - 1 - self._settle) + 1):
            bit = np.uint32(1 << minute % OPEN_SLOTS)
            changed = np.flatnonzero(self._changed & bit)
            if len(changed):
                self._changed &= ~bit
                yield minute, changed

    def touch(self, series: Ints, minute: Ints, *, windows: int = WINDOW_MINUTES) -> None:
        """Mark the emitted minutes that late samples (m,) have changed, so that they are emitted again.

        A sample changes its own `minute` and the following minutes, `windows` minutes in all.
        """
        if not len(series):
            return
        self._reserve(int(series.max()) + 1)
        old = np.flatnonzero(minute <= self._reported)
        if not len(old):  # the usual case
            return
        series, minute = series[old], minute[old]
        for later in range(windows):
            reported = (minute + later <= self._reported) & (minute + later > self._settled)
            bits = np.left_shift(np.uint32(1), ((minute[reported] + later) % OPEN_SLOTS).astype(np.uint32))
            np.bitwise_or.at(self._changed, series[reported], bits)

    def note_late(self, series: Ints) -> None:
        """Count late samples in the minute being collected; `series` has the series number of each sample."""
        if len(series) and self._clock != NEVER:
            self._reserve(int(series.max()) + 1)
            slot = self._clock % LATE_SLOTS
            counts = self._late[:, slot] + np.bincount(series, minlength=len(self._late))
            self._late[:, slot] = np.minimum(counts, LATE_COUNT_MAX)

    def late(self, minute: int, series_count: int) -> Ints:
        """Return the number of late samples of each series, (series_count,), counted in `minute`."""
        self._reserve(series_count)
        if not self._clock - LATE_SLOTS < minute <= self._clock:
            return np.zeros(series_count, np.int64)
        return self._late[:series_count, minute % LATE_SLOTS].astype(np.int64)

    def numbers(self) -> Ints:
        """Return the series numbers with a changed minute or a late sample."""
        return np.flatnonzero((self._changed != 0) | self._late.any(axis=1))

    def renumber(self, retained: Ints) -> None:
        """Renumber the series `retained` to 0, 1, ...; all other series must have no changed minute and no late sample."""
        retained = retained[retained < len(self._changed)]
        self._changed, self._late = self._changed[retained], self._late[retained]

    def _reserve(self, count: int) -> None:
        have = len(self._changed)
        if count > have:
            more = max(count, have + have // 4, 64) - have
            self._changed = np.concatenate((self._changed, np.zeros(more, np.uint32)))
            self._late = np.concatenate((self._late, np.zeros((more, LATE_SLOTS), np.uint16)))


class SampleBlock(NamedTuple):
    """Consecutive records from `offset` on, with watermarks in the same ten seconds, and their newest accepted time."""

    offset: int
    number: int
    newest_ms: int


class ResumeOffset:
    """The offset from which a source partition must be read again to refill its open windows.

    Records are grouped into blocks, one for each ten seconds of the watermark. A block is dropped once no open window needs its
    records. Few blocks remain, because the watermark never goes back.
    """

    def __init__(self) -> None:
        self._blocks: deque[SampleBlock] = deque()

    def __len__(self) -> int:
        return len(self._blocks)

    def add(self, offsets: Ints, before_ms: Ints, newest_ms: Ints) -> None:
        """Add records in offset order, (m,) each: offset, watermark before the record, newest accepted time."""
        block = before_ms // BLOCK_MS
        starts = run_starts(block)
        newest = np.maximum.reduceat(newest_ms, starts)
        for sample_block in map(SampleBlock, offsets[starts].tolist(), block[starts].tolist(), newest.tolist()):
            last = self._blocks[-1] if self._blocks else None
            if last is not None and last.number == sample_block.number:
                self._blocks[-1] = last._replace(newest_ms=max(last.newest_ms, sample_block.newest_ms))
            else:
                self._blocks.append(sample_block)

    def start(self, needed_ms: int, next_offset: int) -> int:
        """Return an offset at or before the first record with a sample from `needed_ms` on, and drop all earlier blocks.

        Return `next_offset` if no record is needed any more.
        """
        while self._blocks and self._blocks[0].newest_ms < needed_ms:
            self._blocks.popleft()
        return self._blocks[0].offset if self._blocks else next_offset


class Runs:
    """Runs of adjacent samples with the same record and time; the samples of a run are late or ahead together."""

    def __init__(self, offsets: Ints, time_ms: Ints) -> None:
        starts = run_starts(offsets, time_ms)
        self._bounds = np.append(starts, len(offsets))
        self._starts = starts if len(starts) < len(offsets) else None  # None if every run is a single sample

    def of(self, column: Ints) -> Ints:
        """Return the value of `column` for each run; all samples of a run have the same value."""
        return column if self._starts is None else column[self._starts]

    def any(self, column: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return a mask of the runs that contain a marked sample."""
        return column if self._starts is None else np.logical_or.reduceat(column, self._starts)

    def spread(self, column: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return a mask of samples from a mask of runs."""
        return column if self._starts is None else np.repeat(column, np.diff(self._bounds))

    def samples(self, first: int, end: int) -> slice:
        """Return the slice of samples that belong to runs `first` to `end` (exclusive)."""
        return slice(int(self._bounds[first]), int(self._bounds[end]))


class ResumePosition(msgspec.Struct, frozen=True):
    """The offset to resume from, and the state to store with it (None before the first sample)."""

    offset: int
    resume: Resume | None


class PartitionWindows:
    """The windows of one source partition; drop the object when the partition is lost.

    A sample too late for the watermark, or more than a minute ahead of its arrival, is counted and dropped.
    The watermark is the newest accepted time. `index` belongs to this partition alone. `rings` holds the samples of series
    with windows, `sums` the sums of series that only appear in profiles. `counts` counts accepted, repeated,
    thinned and dropped samples; its key `cleared` counts series that stopped sending.
    """

    def __init__(self, source: str, index: SeriesIndex, settings: WindowSettings, resume: Resume | None = None) -> None:
        self.source = source
        self.counts: Counter[str] = Counter()
        self._index = index
        self._settings = settings
        self._traits = SeriesTraits(index)
        emit_after_ms = int(settings.emit_after_s * 1000)
        self.rings = GroupedRings(WINDOW_MS + settings.settle_minutes * MINUTE_MS + emit_after_ms, self.counts)
        self.sums = Sums(self._traits, settings.settle_minutes, self.counts)
        self._resume = ResumeOffset()
        self._minutes = OpenMinutes(settings.settle_minutes)
        self._watermark_ms = NEVER_MS
        self._earliest_ms = LATEST_MS
        self._folding = False
        if resume is not None:
            self._minutes.resume(resume.first_open_ms // MINUTE_MS)

    @property
    def watermark_ms(self) -> int | None:
        return None if self._watermark_ms == NEVER_MS else self._watermark_ms

    def fold(self, samples: Samples, offsets: Ints, received_ms: Ints) -> Iterator[MinutePart]:
        """Add samples in record order; yield the minutes that are due, in parts of a bounded number of hosts.

        `offsets` and `received_ms` (m,) belong to the record of each sample. The caller may do other work between two parts.
        Raise RuntimeError if the iterator of the previous fold was not exhausted.
        """
        if self._folding:
            raise RuntimeError("The fold before this one was not exhausted.")
        if not len(samples.series):
            return
        self._folding = True
        runs, finite = Runs(offsets, samples.time_ms), np.isfinite(samples.value)
        time_ms = runs.of(samples.time_ms)
        ahead = time_ms > runs.of(received_ms) + int(self._settings.ahead_max_s * 1000)
        usable = runs.any(finite) & ~ahead
        watermark = np.maximum(np.maximum.accumulate(np.where(usable, time_ms, NEVER_MS)), self._watermark_ms)
        late = usable & (time_ms < watermark - int(self._settings.late_max_s * 1000))
        offset, before_ms = runs.of(offsets), np.concatenate(([self._watermark_ms], watermark[:-1]))
        records, newest_ms = run_starts(offset), np.where(usable & ~late, time_ms, NEVER_MS)
        self._resume.add(offset[records], before_ms[records], np.maximum.reduceat(newest_ms, records))
        accepted, late, ahead = (runs.spread(mask) & finite for mask in (usable & ~late, late, ahead))
        for name, mask in {"taken": accepted, "late": late, "ahead": ahead, "not_finite": ~finite}.items():
            self.counts[name] += int(np.count_nonzero(mask))
        clock = np.where(watermark == NEVER_MS, NEVER_MS, self._clock(watermark))
        for first, end in pairwise((*run_starts(clock).tolist(), len(clock))):
            if clock[first] != NEVER_MS:
                part = runs.samples(first, end)
                yield from self._turn(int(clock[first]))
                self._append(samples.take(part), offsets[part], accepted[part], late[part])
            self._watermark_ms = int(watermark[end - 1])
        self._folding = False

    def pass_time(self, time_ms: int) -> Iterator[MinutePart]:
        """Advance time without a sample: yield the minutes that a sample of `time_ms` would make due."""
        if self._watermark_ms != NEVER_MS and time_ms > self._watermark_ms:
            yield from self._turn(int(self._clock(np.int64(time_ms))))
            self._watermark_ms = time_ms

    def end(self) -> Iterator[MinutePart]:
        """Yield all remaining changes of the minutes that have begun; no fold may follow."""
        if self._watermark_ms != NEVER_MS:
            yield from self._turn(self._watermark_ms // MINUTE_MS + 1 + self._settings.settle_minutes)

    def events(self, part: MinutePart) -> Iterator[HostMinute]:
        return host_minutes(part, self._index, self._traits.hosts(), self.source)

    def renumber(self, index: SeriesIndex) -> None:
        """Move the series still needed to an empty index. Raise RuntimeError during a fold.

        Only this method forgets series names, which arrive from outside. The decoder must use the new index.
        """
        if self._folding:
            raise RuntimeError("A fold is not exhausted.")
        needed = np.zeros(len(self._index), np.bool_)
        for numbers in (self.rings.numbers(), self.sums.numbers(), self._minutes.numbers()):
            needed[numbers] = True
        retained = np.flatnonzero(needed)
        for number in retained.tolist():
            index.number(self._index[number])
        self.rings.renumber(retained)
        self._minutes.renumber(retained)
        self._index, self._traits = index, SeriesTraits(index)
        self.sums.renumber(self._traits, retained)

    def position(self, next_offset: int) -> ResumePosition:
        """Return the position to commit: the offset of the first record that open windows still need.

        If the partition is read again from this offset with the `resume` state, all open minutes are rebuilt, and no settled
        minute is emitted again.
        """
        first_open = self._minutes.first_open()
        if first_open is None:
            return ResumePosition(next_offset, None)
        needed_ms = (first_open + 1) * MINUTE_MS - WINDOW_MS
        return ResumePosition(self._resume.start(needed_ms, next_offset), Resume(first_open * MINUTE_MS))

    def _clock(self, watermark_ms: Ints | np.int64) -> Ints:
        """Return the minute being collected at a watermark; a minute is first emitted after the clock has passed the minute."""
        return np.asarray((watermark_ms - int(self._settings.emit_after_s * 1000)) // MINUTE_MS)

    def _turn(self, clock: int) -> Iterator[MinutePart]:
        """Yield the minutes that become due when the collected minute changes to `clock`."""
        for minute in self._minutes.due_first(clock, self._watermark_ms // MINUTE_MS):
            if (minute + 1) * MINUTE_MS > self._earliest_ms:  # minutes before the very first sample are empty
                yield from self._emit(minute, self._retained(), revision=0)
        for minute, touched in self._minutes.due_again(clock):
            host = self._traits.hosts()
            yield from self._emit(minute, np.isin(host, host[touched]), revision=1)
        if self._minutes.begin(clock):
            floor_ms = self._floor_ms()
            self.counts["cleared"] += self.rings.clear_quiet(floor_ms) + self.sums.clear_quiet(floor_ms)

    def _emit(self, minute: int, chosen: npt.NDArray[np.bool_], revision: int) -> Iterator[MinutePart]:
        host = self._traits.hosts()
        of_chosen = np.unique(host[np.flatnonzero(chosen)])
        late = self._minutes.late(minute, len(chosen))
        sums = self.sums.of(chosen, minute, late).ordered_by(host)
        of_sums = host[sums.series]
        for first in range(0, len(of_chosen), self._settings.part_hosts):
            hosts = of_chosen[first : first + self._settings.part_hosts]
            among = chosen & (host >= hosts[0]) & (host <= hosts[-1])
            windows = summarise(self.rings, minute * MINUTE_MS, among, late, traits=self._traits, revision=revision)
            begin, end = np.searchsorted(of_sums, (hosts[0], hosts[-1] + 1)).tolist()
            part = MinutePart(windows.ordered_by(host), sums.take(slice(begin, end)))
            if len(part):
                yield part

    def _retained(self) -> npt.NDArray[np.bool_]:
        retained = np.zeros(len(self._index), np.bool_)
        retained[self.rings.numbers()] = True
        retained[self.sums.numbers()] = True
        return retained

    def _append(
        self, samples: Samples, offsets: Ints, accepted: npt.NDArray[np.bool_], late: npt.NDArray[np.bool_]
    ) -> None:
        if not accepted.all():
            self._minutes.note_late(samples.series[late].astype(np.int64))
            samples, offsets = samples.take(accepted), offsets[accepted]
        self._earliest_ms = int(samples.time_ms.min(initial=self._earliest_ms))
        series = samples.series.astype(np.int64)
        summed = self._traits.mask("summed")[series]
        if summed.any():
            self._sum_up(series[summed], samples.time_ms[summed], samples.value[summed])
            series, samples, offsets = series[~summed], samples.take(~summed), offsets[~summed]
        self.rings.append(series, samples.time_ms, samples.value, offsets, self._floor_ms())
        self._minutes.touch(series, samples.time_ms // MINUTE_MS)

    def _sum_up(self, series: Ints, time_ms: Ints, value: npt.NDArray[np.float64]) -> None:
        minute, first_open = time_ms // MINUTE_MS, self._minutes.first_open()
        # ignore minutes that were emitted before a restart
        if first_open is not None and int(minute.min()) < first_open:
            fresh = minute >= first_open
            series, time_ms, value, minute = series[fresh], time_ms[fresh], value[fresh], minute[fresh]
        self.sums.append(series, time_ms, value)
        self._minutes.touch(series, minute, windows=1)

    def _floor_ms(self) -> int:
        first_open = self._minutes.first_open()
        return NEVER_MS if first_open is None else (first_open + 1) * MINUTE_MS - WINDOW_MS


def far_ahead(time_ms: Ints, after_ms: Ints, ahead_ms: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the samples (m,) that come from the future, compared with the next FOLLOWING samples.

    That is, a sample is more than `ahead_ms` later than most of them. The test is for streams without arrival times, in which
    hosts with wrong clocks send such samples. `after_ms` are the times of the samples after the last sample, if any. In a stream
    sorted by time no sample is marked, however long its gaps are. A wrong clock costs only the samples of its own host.
    """
    is_ahead = np.zeros(len(time_ms), np.bool_)
    if not len(time_ms):
        return is_ahead
    every = np.concatenate((time_ms, after_ms[:FOLLOWING]))
    least_after_ms = np.minimum.accumulate(every[::-1])[::-1][: len(time_ms)]
    for place in np.flatnonzero(time_ms > least_after_ms + ahead_ms).tolist():
        following = every[place + 1 : place + 1 + FOLLOWING]
        behind = int(np.count_nonzero(following < every[place] - ahead_ms))
        is_ahead[place] = behind >= FOLLOWING_MIN and 2 * behind > len(following)
    return is_ahead
