"""Minutes of the resources of hosts: those that wait for a tick, the newest windows of each series, and its forecast.

A window is as its collectors told it; several of one minute are put together when it is asked for.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.events import ResourceMinute
from processors.contracts.hosts import ForecastHistogram, HostWindow, ResourceForecast
from processors.hosts.rows import Rows, RowTable, rounds
from processors.models.forecast import NONE, PREDICTORS, RETAINED, WIDTH, Forecasters, SeriesForecast, coded, quantiles
from processors.models.histogram.arithmetic import mixture
from processors.models.histogram.values import INTERVALS, even, in_common
from processors.models.numerics.arrays import Floats
from processors.models.numerics.statistics import six_digits
from processors.windows.settings import MINUTE_MS, PARTS

Ints = npt.NDArray[np.int64]

SLOTS: Final = 4  # minutes of a series that are kept; of two sources two minutes each
STALE_MS: Final = 2 * MINUTE_MS  # what is reported a minute comes before the end of the next
THIN_BELOW: Final = 5  # samples
READ_MAX: Final = 4096  # series of which windows are remembered
NONE_MS: Final = -1  # when a minute begins that was never told
EVEN: Final = 1e-4  # by how much shares may miss the sum of one
LEVELS: Final = np.array([0.0, 0.05, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 0.95, 1.0])  # edges of a forecast
REPORTED: Final = (1, 3, 5, 7, 9)  # those of them that readers see
_ITEM: Final = np.dtype("<f4")


class MinuteBatch(NamedTuple):
    """A minute each of m series, every series once: what came between two ticks, in the order of the rows.

    `row` (m,) numbers the series, `host` (m,) their hosts, `minute_ms` (m,) is when the minute begins, and `means`
    (m, 6) are its 10-second means, nan where there is none.
    """

    row: npt.NDArray[np.intp]
    host: npt.NDArray[np.intp]
    minute_ms: npt.NDArray[np.int64]
    means: npt.NDArray[np.float64]


class HostForecastErrors(RowTable):
    """The latest hundred scaled errors of each series' forecasts, in codes of one byte; the oldest makes room."""

    name: ClassVar[str] = "host_forecast_errors"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("errors", "i1", (RETAINED,)), ("next", "u1")]), errors=np.int8(NONE))

    def take(self, rows: Rows, scaled: npt.NDArray[np.float32]) -> None:
        """Take in one error each of some series, each named once; NaN is none."""
        there = ~np.isnan(scaled)
        at = rows[there]
        place = self.rows["next"][at]
        self.rows["errors"][at, place] = coded(scaled[there])
        self.rows["next"][at] = (place + 1) % RETAINED


class HostForecasts:
    """What each resource of each host will measure next: thirty forecasters, of which the one with the least recent error answers.

    Its tails are those of its latest errors, which are columns of their own, beside these.
    """

    name: ClassVar[str] = "host_forecasts"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        self.errors = HostForecastErrors()

    @cached_property
    def _forecasters(self) -> Forecasters:
        return Forecasters(0)

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        self._forecasters.grow(rows)

    def clear(self, rows: Rows) -> None:
        """Forget all of some rows."""
        self._forecasters.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows."""
        return self._forecasters.stored(first, last)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where the bytes are of another form."""
        if len(stored) != (last - first) * WIDTH * _ITEM.itemsize:
            raise ValueError(f"{last - first} rows of forecasts have other than {len(stored)} bytes.")
        self._forecasters.put(first, np.frombuffer(stored, _ITEM).reshape(-1, WIDTH))

    def take(self, batch: MinuteBatch) -> None:
        """Learn the 10-second means of a minute, one after the other."""
        for means in batch.means.T:
            self.errors.take(batch.row, self._forecasters.observe(batch.row, means))

    def of(self, rows: Sequence[int], shares: Sequence[bool]) -> list[ResourceForecast | None]:
        """Return what is expected next of each of some series; None before its first value.

        `shares` tells which of them are shares, from 0 to 1.
        """
        at = np.array(rows, dtype=np.intp)
        forecast, bounds = self._forecasters.forecast(at), self._bounds(at, shares)
        reported = self._quantiles(at, forecast, bounds)[:, REPORTED].tolist()
        value = np.clip(forecast.value, *bounds)
        columns = (value.tolist(), forecast.error.tolist(), forecast.predictor.tolist(), reported)
        return [_resource_forecast(*each) for each in zip(*columns, strict=True)]

    def histograms(self, rows: Sequence[int], shares: Sequence[bool]) -> list[ForecastHistogram | None]:
        """Return the same as histograms whose edges are quantiles; None until enough errors are known."""
        at = np.array(rows, dtype=np.intp)
        found = self._quantiles(at, self._forecasters.forecast(at), self._bounds(at, shares)).tolist()
        return [None if math.isnan(edges[0]) else ForecastHistogram(tuple(edges), _BETWEEN) for edges in found]

    def _quantiles(self, at: Rows, forecast: SeriesForecast, bounds: tuple[Floats, Floats]) -> Floats:
        """Return the quantiles of LEVELS (k, levels) of some series, NaN where they are not known."""
        scaled = quantiles(self.errors.rows["errors"][at], LEVELS).astype(np.float64)
        found = forecast.absolute_value[:, None] + forecast.absolute_error[:, None] * scaled
        return np.clip(found, *(bound[:, None] for bound in bounds))

    def _bounds(self, at: Rows, shares: Sequence[bool]) -> tuple[Floats, Floats]:
        """Return between which values (k,) a series stays: what has not been negative recently is not going to be."""
        least, largest = self._forecasters.range(at)
        is_share = np.array(shares, dtype=bool) & (largest <= 1)
        return np.where(least < 0, -np.inf, 0.0), np.where(is_share, 1.0, np.inf)


_BETWEEN: Final = tuple(np.diff(LEVELS).tolist())


def _resource_forecast(
    value: float, error: float, predictor: int, reported: Sequence[float]
) -> ResourceForecast | None:
    if predictor < 0:
        return None
    known = (None if math.isnan(each) else six_digits(each) for each in (error, *reported))
    return ResourceForecast(six_digits(value), next(known), PREDICTORS[predictor], *known)


_SLOT: Final = np.dtype(
    [
        ("minute_ms", "<i8"),
        ("source", "<u4"),
        ("window_samples", "<i4"),
        ("samples", "<i4"),
        ("parts", "<i4"),
        ("revision", "<i4"),
        ("numbers", "<f4", (3 + INTERVALS + 1 + INTERVALS,)),  # mean, least, largest; edges; shares
    ]
)


class ReportedWindows(NamedTuple):
    """What sources reported m series, every series once; the histograms as `edges` (m, 6) and `shares` (m, 5).

    `source` (m,) stands for who told it. `samples` (m,) and `figures` (m, 3), mean, least and largest, are of the minute,
    `window_samples` (m,) and the histogram of the five minutes that end with it. `parts` (m,) is how many intervals the
    histogram has: five, one of no width, or 0 where the window is empty. `revision` (m,) is 0 where a minute is told first.
    """

    row: Rows
    minute_ms: npt.NDArray[np.int64]
    source: npt.NDArray[np.uint32]
    samples: npt.NDArray[np.int64]
    figures: Floats
    window_samples: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int64]
    edges: Floats
    shares: Floats
    revision: npt.NDArray[np.int64]


class HostWindows(RowTable):
    """The last four minutes and windows of every resource of a host.

    A minute that is told again by its source takes the place of what it told before, unless that had a higher revision: a
    collector that starts again may tell the first one late. An older minute changes nothing.
    """

    name: ClassVar[str] = "host_windows"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("slots", _SLOT, (SLOTS,))]), slots=_empty())
        self._read: dict[
            tuple[int, int], HostWindow
        ] = {}  # cache by row and end: jobs of a partition read the same hosts

    def clear(self, rows: Rows) -> None:
        """Let some rows start anew."""
        self._read.clear()
        super().clear(rows)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; errors as those of all rows."""
        self._read.clear()
        super().restore(first, last, stored)

    def take(self, reported: ReportedWindows) -> Rows:
        """Take in what was reported some series, each named once, and return the places of what was new."""
        self._read.clear()
        slots = self.rows["slots"]
        minute_ms, source = slots["minute_ms"][reported.row], slots["source"][reported.row]
        own = (source == reported.source[:, None]) & (minute_ms != NONE_MS)
        again = own & (minute_ms == reported.minute_ms[:, None])
        newer = np.where(own, minute_ms, NONE_MS).max(axis=1) > reported.minute_ms
        repeated = again.any(axis=1)
        overtaken = (again & (slots["revision"][reported.row] > reported.revision[:, None])).any(axis=1)
        place = np.where(repeated, again.argmax(axis=1), minute_ms.argmin(axis=1))
        oldest = np.take_along_axis(minute_ms, place[:, None], axis=1)[:, 0]
        retained = np.flatnonzero((repeated & ~overtaken) | (~repeated & ~newer & (reported.minute_ms > oldest)))
        at = reported.row[retained], place[retained]
        for field in ("minute_ms", "source", "window_samples", "samples", "parts", "revision"):
            slots[field][at] = getattr(reported, field)[retained]
        numbers = np.concatenate(
            [reported.figures[retained], reported.edges[retained], reported.shares[retained]], axis=1
        )
        with np.errstate(over="ignore"):
            slots["numbers"][at] = numbers
        return retained

    def of(self, row: int, until_ms: int) -> HostWindow | None:
        """Return the newest window of a series that ended at `until_ms` or before; None without one."""
        slots = self.rows["slots"][row]
        ends_ms = np.where((slots["parts"] > 0) & (slots["minute_ms"] >= 0), slots["minute_ms"] + MINUTE_MS, NONE_MS)
        end_ms = int(ends_ms[ends_ms <= until_ms].max(initial=NONE_MS))
        if end_ms == NONE_MS:
            return None
        window = self._read.get((row, end_ms))
        if window is None:
            if len(self._read) >= READ_MAX:
                self._read.clear()
            window = self._read[row, end_ms] = _window(slots[ends_ms == end_ms], end_ms)
        late = until_ms - end_ms >= STALE_MS
        return msgspec.structs.replace(window, stale=True) if late and not window.stale else window


def _empty() -> npt.NDArray[np.void]:
    slots = np.zeros(SLOTS, _SLOT)
    slots["minute_ms"] = NONE_MS
    return slots


def _window(slots: npt.NDArray[np.void], end_ms: int) -> HostWindow:
    """Return the window of a series that its sources reported for one minute."""
    windows = [_reported(slot, end_ms) for slot in slots]
    samples = [int(slot["samples"]) for slot in slots]
    return windows[0] if len(windows) == 1 else _joined(windows, samples, [max(window.count, 1) for window in windows])


def _reported(slot: npt.NDArray[np.void], end_ms: int) -> HostWindow:
    """Return the window of one source, with the digits that were stored; shares become fractions of whole samples if possible."""
    parts, samples, window_samples = int(slot["parts"]), int(slot["samples"]), int(slot["window_samples"])
    mean, low, high, *numbers = (float(f"{number:.7g}") for number in slot["numbers"].tolist())
    edges, shares = numbers[: 1 + parts - (parts == 1)], numbers[-INTERVALS:][:parts]
    whole = [round(share * window_samples) for share in shares]
    if sum(whole) == window_samples > 0:
        shares = [count / window_samples for count in whole]
    return HostWindow(
        until_ms=end_ms,
        edges=tuple(edges),
        shares=tuple(shares),
        count=window_samples,
        mean=mean,
        low=low,
        high=high,
        stale=not samples,
        thin=window_samples < THIN_BELOW,
    )


def merged_window(windows: Sequence[HostWindow]) -> HostWindow | None:
    """Return one window of the measurements of a host towards several destinations, all with equal weight.

    Windows that ended before the newest one are left out. None without a window.
    """
    newest_ms = max((window.until_ms for window in windows), default=0)
    newest = [window for window in windows if window.until_ms == newest_ms and window.shares]
    if len(newest) < 2:
        return newest[0] if newest else None
    return _joined(newest, [1] * len(newest), [1] * len(newest))


def _joined(windows: Sequence[HostWindow], samples: Sequence[int], weights: Sequence[int]) -> HostWindow:
    """Return one window of several; `samples` weight the means, `weights` the histograms."""
    pool = mixture(
        in_common([window.edges for window in windows], [even(window.shares) for window in windows]), weights
    )
    alike = pool.edges[0] == pool.edges[-1]
    samples = samples if any(samples) else [1] * len(windows)
    count = sum(window.count for window in windows)
    return HostWindow(
        until_ms=windows[0].until_ms,
        edges=(float(pool.edges[0]),) if alike else tuple(pool.edges.tolist()),
        shares=(1.0,) if alike else tuple(pool.shares.tolist()),
        count=count,
        mean=sum(weight * window.mean for weight, window in zip(samples, windows, strict=True)) / sum(samples),
        low=min(window.low for window in windows),
        high=max(window.high for window in windows),
        stale=all(window.stale for window in windows),
        thin=count < THIN_BELOW,
    )


class WaitingMinute(NamedTuple):
    """A minute of a resource that waits for the next tick; `source` is the number of the source that reported it."""

    row: int
    host: int
    source: int
    minute_ms: int
    revision: int
    minute: ResourceMinute


class ReportedMinutes:
    """Minutes of m resources as columns, in the order in which they came; a series may stand several times in them."""

    def __init__(self, waiting: Sequence[WaitingMinute]) -> None:
        places = np.array([each[:5] for each in waiting], dtype=np.int64).reshape(-1, 5)
        minutes = [each.minute for each in waiting]
        self.row, self.host, self.minute_ms, self.revision = places[:, 0], places[:, 1], places[:, 3], places[:, 4]
        self.source = places[:, 2].astype(np.uint32)
        self.means = _filled([minute.means for minute in minutes], PARTS)
        figures = [(m.count, m.window_count, m.mean, m.low, m.high) for m in minutes]
        self._figures = np.array(figures, dtype=np.float64).reshape(-1, 5)
        self._edges = _filled([minute.edges for minute in minutes], INTERVALS + 1)
        self._shares = np.nan_to_num(_filled([minute.shares for minute in minutes], INTERVALS))
        self._parts = _parts(self._edges, self._shares, np.array([len(m.shares) for m in minutes], dtype=np.int64))

    def rounds(self) -> Iterator[ReportedWindows]:
        """Yield all of it in parts that hold every series once, in the order in which they came."""
        for at in rounds(self.row):
            count, window_count = self._figures[at, :2].clip(0, 2**31 - 1).astype(np.int64).T
            yield ReportedWindows(
                self.row[at], self.minute_ms[at], self.source[at], count, self._figures[at, 2:], window_count,
                self._parts[at], self._edges[at], self._shares[at], self.revision[at],
            )  # fmt: skip

    def batches(self, learned_ms: Ints) -> Iterator[MinuteBatch]:
        """Yield what is to be learned, a batch per minute: of each series what begins later than `learned_ms` (rows,).

        What several sources reported one minute of a series is one minute, each part the mean by their samples.
        """
        known = self.minute_ms > learned_ms[self.row]
        new = np.flatnonzero(known & np.isfinite(self.means).any(axis=1))
        for minute_ms in np.unique(self.minute_ms[new]).tolist():
            at = self._last_word(new[self.minute_ms[new] == minute_ms])
            rows, first, place = np.unique(self.row[at], return_index=True, return_inverse=True)
            reported_ms = np.full(len(rows), minute_ms, dtype=np.int64)
            means = self.means[at][first] if len(rows) == len(at) else self._joined(at, first, place)
            yield MinuteBatch(rows, self.host[at][first], reported_ms, means)

    def _last_word(self, at: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return of several minutes that a source reported a series the one of the highest revision, of these the last."""
        if len(np.unique(self.row[at])) == len(at):
            return at
        newest_first = at[np.argsort(self.revision[at], kind="stable")][::-1]
        reported = np.stack([self.row[newest_first], self.source[newest_first].astype(np.int64)])
        return np.sort(newest_first[np.unique(reported, axis=1, return_index=True)[1]])

    def _joined(self, at: npt.NDArray[np.intp], first: npt.NDArray[np.intp], place: npt.NDArray[np.intp]) -> Floats:
        means, rows = self.means[at], len(first)
        there = np.isfinite(means)
        weight = np.maximum(self._figures[at, :1], 1.0) * there
        total, value = np.zeros((rows, PARTS)), np.zeros((rows, PARTS))
        np.add.at(total, place, weight)
        np.add.at(value, place, weight * np.where(there, means, 0.0))
        mean = np.divide(value, total, out=np.full((rows, PARTS), np.nan), where=total > 0)
        alone = np.bincount(place) == 1
        mean[alone] = means[first[alone]]  # to the bit what it is without the others
        return np.asarray(mean)


def _filled(rows: list[tuple[float | None, ...]] | list[tuple[float, ...]], width: int) -> Floats:
    """Return rows of at most `width` numbers as one array, nan where there is none."""
    if all(len(row) == width for row in rows):
        return np.array(rows, dtype=np.float64).reshape(-1, width)
    filled = [(*row[:width], *(None,) * (width - len(row))) for row in rows]
    return np.array(filled, dtype=np.float64).reshape(-1, width)


def _parts(edges: Floats, shares: Floats, lengths: Ints) -> Ints:
    """Return how many intervals each histogram has: INTERVALS, one of no width, or 0 where it is none that can be used."""
    with np.errstate(over="ignore"):
        retained = np.isfinite(edges.astype(np.float32))
    right = abs(shares.sum(axis=1) - 1) <= EVEN
    right &= (shares >= 0).all(axis=1) & retained[:, 0]
    rising = retained.all(axis=1) & (np.diff(edges, axis=1) >= 0).all(axis=1)
    whole = right & (lengths == INTERVALS) & rising
    return np.where(whole, INTERVALS, np.where(right & (lengths == 1) & ~retained[:, 1:].any(axis=1), 1, 0))
