"""Minutes of host resources: the minutes waiting for a tick, and the newest windows and the forecast of each series.

Windows are stored per source; windows of the same minute are merged when they are read.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.events import ResourceMinute
from processors.contracts.hosts import ForecastHistogram, HostWindow, ResourceForecast
from processors.hosts.rows import Rows, RowTable, rounds
from processors.models.forecast import NONE, PREDICTORS, RETAINED, WIDTH, Forecasters, SeriesForecast, coded, quantiles
from processors.models.histogram import INTERVALS, even, in_common, mixture
from processors.models.numerics.arrays import Floats, Ints
from processors.models.numerics.statistics import six_digits
from processors.store import go_on
from processors.windows.settings import MINUTE_MS, PARTS

SLOTS: Final = 4  # stored minutes of a series; two minutes for each of two sources
STALE_MS: Final = 2 * MINUTE_MS  # older windows are stale: each minute is reported before the next minute ends
THIN_BELOW: Final = 5  # a window with fewer samples is thin
READ_MAX: Final = 4096  # most cached windows
NONE_MS: Final = -1  # start of a minute that was never reported
EVEN: Final = 1e-4  # tolerance of the sum of shares
LEVELS: Final = np.array([0.0, 0.05, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 0.95, 1.0])  # edges of a forecast
REPORTED: Final = (1, 3, 5, 7, 9)  # indexes of the published LEVELS
_ITEM: Final = np.dtype("<f4")


class MinuteBatch(NamedTuple):
    """One minute of each of m series, each series once, sorted by row.

    `row` (m,) numbers the series, `host` (m,) their hosts, `minute_ms` (m,) is the start of the minute, and `means` (m, 6) its
    10-second means, nan if missing.
    """

    row: npt.NDArray[np.intp]
    host: npt.NDArray[np.intp]
    minute_ms: npt.NDArray[np.int64]
    means: npt.NDArray[np.float64]


class HostForecastErrors(RowTable):
    """The latest RETAINED forecast errors of each series, divided by the expected error of the forecast, as codes of one byte.

    A new error overwrites the oldest.
    """

    name: ClassVar[str] = "host_forecast_errors"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("errors", "i1", (RETAINED,)), ("next", "u1")]), errors=np.int8(NONE))

    def take(self, rows: Rows, scaled: npt.NDArray[np.float32]) -> None:
        """Add one error to each series in `rows`, which are distinct; a NaN is not added."""
        scored = ~np.isnan(scaled)
        scored_rows = rows[scored]
        place = self.rows["next"][scored_rows]
        self.rows["errors"][scored_rows, place] = coded(scaled[scored])
        self.rows["next"][scored_rows] = (place + 1) % RETAINED


class HostForecasts(Forecasters):
    """Forecasts of the next value of each resource of each host.

    For each series, thirty forecasters compete; the one with the smallest recent error makes the forecast. The quantiles of a
    forecast come from the latest errors, stored in `HostForecastErrors`.
    """

    name: ClassVar[str] = "host_forecasts"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(0)
        self.errors = HostForecastErrors()

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Restore rows; raise ValueError if the bytes do not have the stored form."""
        if len(stored) != (last - first) * WIDTH * _ITEM.itemsize:
            raise ValueError(f"{last - first} rows of forecasts have other than {len(stored)} bytes.")
        self.put(first, np.frombuffer(stored, _ITEM).reshape(-1, WIDTH))

    def take(self, batch: MinuteBatch, give_way: Callable[[], None] = go_on) -> None:
        """Learn the 10-second means of a minute, in order of time; `give_way` is called after each of them."""
        for means in batch.means.T:
            self.errors.take(batch.row, self.observe(batch.row, means))
            give_way()

    def of(self, rows: Sequence[int], shares: Sequence[bool]) -> list[ResourceForecast | None]:
        """Return the forecast of each series; None before its first value. `shares` says which series are shares from 0 to 1."""
        index = np.array(rows, dtype=np.intp)
        (forecast, by_absolute_error), bounds = self.forecast(index), self._bounds(index, shares)
        reported = self._quantiles(index, by_absolute_error, bounds)[:, REPORTED].tolist()
        value = np.clip(forecast.value, *bounds)
        columns = (value.tolist(), forecast.error.tolist(), forecast.predictor.tolist(), reported)
        return [_resource_forecast(*each) for each in zip(*columns, strict=True)]

    def histograms(self, rows: Sequence[int], shares: Sequence[bool]) -> list[ForecastHistogram | None]:
        """Return the forecasts as histograms whose edges are quantiles; None for a series with too few errors for quantiles."""
        index = np.array(rows, dtype=np.intp)
        levels = self._quantiles(index, self.forecast(index)[1], self._bounds(index, shares)).tolist()
        return [None if math.isnan(edges[0]) else ForecastHistogram(tuple(edges), _BETWEEN) for edges in levels]

    def _quantiles(self, index: Rows, forecast: SeriesForecast, bounds: tuple[Floats, Floats]) -> Floats:
        """Return the quantiles (k, levels) of the series `index` at LEVELS; NaN while unknown."""
        scaled = quantiles(self.errors.rows["errors"][index], LEVELS).astype(np.float64)
        values = forecast.value[:, None] + forecast.error[:, None] * scaled
        return np.clip(values, *(bound[:, None] for bound in bounds))

    def _bounds(self, index: Rows, shares: Sequence[bool]) -> tuple[Floats, Floats]:
        """Return the lower and the upper bounds (k,) of the forecasts.

        The lower bound is 0 if no recent value was negative, the upper bound is 1 if the series is a share; otherwise they are infinite.
        """
        least, largest = self.range(index)
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
    [("minute_ms", "<i8"), ("source", "<u4"), ("window_samples", "<i4"), ("samples", "<i4"), ("parts", "<i4"), ("revision", "<i4"),
     ("numbers", "<f4", (3 + INTERVALS + 1 + INTERVALS,))]  # mean, low, high; edges; shares
)  # fmt: skip


class ReportedWindows(NamedTuple):
    """Reported minutes of m distinct series, each with the histogram of its window: the five minutes that end with this minute.

    `source` (m,) is the number of the reporting source. `samples` (m,) and `figures` (m, 3: mean, low, high) describe the minute,
    `window_samples` (m,) and the histogram with `edges` (m, 6) and `shares` (m, 5) the window. `parts` (m,) is the number of
    intervals of the histogram: five, one (of width zero) if all samples are equal, or 0 if the window is empty. `revision` (m,) is 0
    for the first report of a minute.
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

    A later report of a minute by the same source replaces the earlier report, unless its revision is lower: a restarted collector
    may send revision 0 after revision 1. A minute older than the newest minute of its source is ignored.
    """

    name: ClassVar[str] = "host_windows"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("slots", _SLOT, (SLOTS,))]), slots=_empty())
        # cache by row and end: jobs of a partition read the same hosts
        self._read: dict[tuple[int, int], HostWindow] = {}

    def clear(self, rows: Rows) -> None:
        self._read.clear()
        super().clear(rows)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        self._read.clear()
        super().restore(first, last, stored)

    def take(self, reported: ReportedWindows) -> Rows:
        """Store reported windows of distinct series; return the indexes of those that were stored."""
        self._read.clear()
        slots = self.rows["slots"]
        minute_ms, source = slots["minute_ms"][reported.row], slots["source"][reported.row]
        same_source = (source == reported.source[:, None]) & (minute_ms != NONE_MS)
        again = same_source & (minute_ms == reported.minute_ms[:, None])
        newer = np.where(same_source, minute_ms, NONE_MS).max(axis=1) > reported.minute_ms
        repeated = again.any(axis=1)
        overtaken = (again & (slots["revision"][reported.row] > reported.revision[:, None])).any(axis=1)
        place = np.where(repeated, again.argmax(axis=1), minute_ms.argmin(axis=1))
        oldest = np.take_along_axis(minute_ms, place[:, None], axis=1)[:, 0]
        retained = np.flatnonzero((repeated & ~overtaken) | (~repeated & ~newer & (reported.minute_ms > oldest)))
        target = reported.row[retained], place[retained]
        for field in ("minute_ms", "source", "window_samples", "samples", "parts", "revision"):
            slots[field][target] = getattr(reported, field)[retained]
        numbers = np.concatenate(
            [reported.figures[retained], reported.edges[retained], reported.shares[retained]], axis=1
        )
        with np.errstate(over="ignore"):
            slots["numbers"][target] = numbers
        return retained

    def of(self, row: int, until_ms: int) -> HostWindow | None:
        """Return the newest window of a series that ended at `until_ms` or before; None without a window."""
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
    """Return the window of a series for one minute, merged from all sources."""
    windows = [_reported(slot, end_ms) for slot in slots]
    samples = [int(slot["samples"]) for slot in slots]
    return windows[0] if len(windows) == 1 else _joined(windows, samples, [max(window.count, 1) for window in windows])


def _reported(slot: npt.NDArray[np.void], end_ms: int) -> HostWindow:
    """Return the window of one source. Shares are restored to exact fractions of the number of samples, which 32 bits had rounded."""
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
    """Merge the windows of a host towards several destinations into one window; all destinations have equal weight.

    Only the windows with the newest end are merged. Return None if `windows` is empty or none of these has samples.
    """
    newest_ms = max((window.until_ms for window in windows), default=0)
    newest = [window for window in windows if window.until_ms == newest_ms and window.shares]
    if len(newest) < 2:
        return newest[0] if newest else None
    return _joined(newest, [1] * len(newest), [1] * len(newest))


def _joined(windows: Sequence[HostWindow], samples: Sequence[int], weights: Sequence[int]) -> HostWindow:
    """Return the merged window. Its mean is weighted by `samples`, its histogram by `weights`."""
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
    """A minute of k resources of a host that waits for the next tick; `row` (k,) numbers the resources.

    `source` is the number of the source that reported the minute.
    """

    row: Rows
    host: int
    source: int
    minute_ms: int
    revision: int
    minutes: list[ResourceMinute]


class ReportedMinutes:
    """Waiting minutes of m resources as columns, in order of arrival; a series may occur several times."""

    def __init__(self, waiting: Sequence[WaitingMinute]) -> None:
        places = np.array([each[1:5] for each in waiting], dtype=np.int64)
        places = np.repeat(places, [len(each.row) for each in waiting], axis=0)
        minutes = [minute for each in waiting for minute in each.minutes]
        self.row = np.concatenate([each.row for each in waiting])
        self.host, self.minute_ms, self.revision = places[:, 0], places[:, 2], places[:, 3]
        self.source = places[:, 1].astype(np.uint32)
        self.means = _filled([minute.means for minute in minutes], PARTS)
        figures = map(attrgetter("count", "window_count", "mean", "low", "high"), minutes)
        self._figures = np.fromiter(chain.from_iterable(figures), np.float64).reshape(-1, 5)
        self._edges = _filled([minute.edges for minute in minutes], INTERVALS + 1)
        self._shares = np.nan_to_num(_filled([minute.shares for minute in minutes], INTERVALS))
        self._parts = _parts(self._edges, self._shares, np.array([len(m.shares) for m in minutes], dtype=np.int64))

    def rounds(self) -> Iterator[ReportedWindows]:
        """Yield the minutes in order of arrival, in parts that contain each series at most once."""
        for chosen in rounds(self.row):
            count, window_count = self._figures[chosen, :2].clip(0, 2**31 - 1).astype(np.int64).T
            yield ReportedWindows(
                self.row[chosen], self.minute_ms[chosen], self.source[chosen], count, self._figures[chosen, 2:], window_count,
                self._parts[chosen], self._edges[chosen], self._shares[chosen], self.revision[chosen],
            )  # fmt: skip

    def batches(self, learned_ms: Ints) -> Iterator[MinuteBatch]:
        """Yield one batch for each minute, ascending, with the minutes of each series that are later than its `learned_ms` (rows,).

        Reports of several sources about one minute of a series are merged: the 10-second means are weighted by the number of samples.
        """
        later = self.minute_ms > learned_ms[self.row]
        new = np.flatnonzero(later & np.isfinite(self.means).any(axis=1))
        for minute_ms in np.unique(self.minute_ms[new]).tolist():
            reports = self._last_word(new[self.minute_ms[new] == minute_ms])
            rows, first, place = np.unique(self.row[reports], return_index=True, return_inverse=True)
            reported_ms = np.full(len(rows), minute_ms, dtype=np.int64)
            means = self.means[reports][first] if len(rows) == len(reports) else self._joined(reports, first, place)
            yield MinuteBatch(rows, self.host[reports][first], reported_ms, means)

    def _last_word(self, reports: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return the indexes of the valid reports of a minute: for each series and source the highest revision, the last of equal ones."""
        if len(np.unique(self.row[reports])) == len(reports):
            return reports
        newest_first = reports[np.argsort(self.revision[reports], kind="stable")][::-1]
        reported = np.stack([self.row[newest_first], self.source[newest_first].astype(np.int64)])
        return np.sort(newest_first[np.unique(reported, axis=1, return_index=True)[1]])

    def _joined(self, index: npt.NDArray[np.intp], first: npt.NDArray[np.intp], place: npt.NDArray[np.intp]) -> Floats:
        means, rows = self.means[index], len(first)
        measured = np.isfinite(means)
        weight = np.maximum(self._figures[index, :1], 1.0) * measured
        total, value = np.zeros((rows, PARTS)), np.zeros((rows, PARTS))
        np.add.at(total, place, weight)
        np.add.at(value, place, weight * np.where(measured, means, 0.0))
        mean = np.divide(value, total, out=np.full((rows, PARTS), np.nan), where=total > 0)
        alone = np.bincount(place) == 1
        mean[alone] = means[first[alone]]  # bit-identical to the result without other sources
        return np.asarray(mean)


def _filled(rows: list[tuple[float | None, ...]] | list[tuple[float, ...]], width: int) -> Floats:
    """Return rows of at most `width` numbers as one array, nan for missing numbers."""
    if {*map(len, rows)} != {width}:
        rows = [(*row[:width], *(None,) * (width - len(row))) for row in rows]
    try:
        return np.fromiter(chain.from_iterable(rows), np.float64, width * len(rows)).reshape(-1, width)
    except TypeError:  # some numbers are None; np.array of the tuples would take four times as long
        numbers = [math.nan if number is None else number for row in rows for number in row]
        return np.array(numbers, dtype=np.float64).reshape(-1, width)


def _parts(edges: Floats, shares: Floats, lengths: Ints) -> Ints:
    """Return the number of intervals of each histogram: INTERVALS, 1 for a single value, or 0 if edges or shares are invalid."""
    with np.errstate(over="ignore"):
        retained = np.isfinite(edges.astype(np.float32))
    right = abs(shares.sum(axis=1) - 1) <= EVEN
    right &= (shares >= 0).all(axis=1) & retained[:, 0]
    rising = retained.all(axis=1) & (np.diff(edges, axis=1) >= 0).all(axis=1)
    whole = right & (lengths == INTERVALS) & rising
    return np.where(whole, INTERVALS, np.where(right & (lengths == 1) & ~retained[:, 1:].any(axis=1), 1, 0))
