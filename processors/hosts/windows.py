"""The newest windows of each series, as its collectors told them, several of one minute put together when asked for."""

from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agent.contracts.hosts import HostWindow
from processors.hosts.columns import Rows, RowTable
from processors.models.histogram.pool import mixture
from processors.models.histogram.values import INTERVALS, Histogram

SLOTS: Final = 4  # minutes of a series that are kept; of two sources two minutes each
MINUTE_MS: Final = 60_000
STALE_MS: Final = 2 * MINUTE_MS  # what is told of a minute comes before the end of the next
THIN_BELOW: Final = 5  # samples
NONE_MS: Final = -1  # when a minute begins that was never told
EVEN: Final = 1e-4  # by how much shares may miss the sum of one

Floats = npt.NDArray[np.float64]
_SLOT: Final = np.dtype(
    [
        ("minute_ms", "<i8"),
        ("source", "<u4"),
        ("window_samples", "<i4"),
        ("samples", "<i4"),
        ("figures", "<f4", (3,)),
        ("parts", "<i4"),
        ("edges", "<f4", (INTERVALS + 1,)),
        ("shares", "<f4", (INTERVALS,)),
    ]
)


class Told(NamedTuple):
    """What sources told of m series, every series once; the histograms as `edges` (m, 6) and `shares` (m, 5).

    `source` (m,) stands for who told it. `samples` (m,) and `figures` (m, 3), mean, least and largest, are of the minute,
    `window_samples` (m,) and the histogram of the five minutes that end with it. `parts` (m,) is how many intervals the
    histogram has: five, one of no width, or 0 where the window is empty.
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


class HostWindows:
    """The last four minutes and windows of every resource of a host.

    A minute that is told again by its source takes the place of what it told before; an older one changes nothing.

    >>> windows = HostWindows()
    >>> windows.grow(1)
    >>> one, edges = np.ones((1,), int), np.linspace(0.0, 0.5, 6)[None]
    >>> windows.take(Told(one * 0, one * 60_000, one, one * 6, np.ones((1, 3)), one * 30, one * 5, edges, edges[:, :1] + 0.2))
    >>> windows.of(0, until_ms=120_000).edges
    (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    >>> windows.of(0, until_ms=119_999)
    """

    name: ClassVar[str] = "host_windows"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        self._table = RowTable(np.dtype([("slots", _SLOT, (SLOTS,))]))
        self._table = RowTable(self._table.dtype, slots=_empty())

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        self._table.grow(rows)

    def clear(self, rows: Rows) -> None:
        """Forget the windows of some rows."""
        self._table.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows."""
        return self._table.stored(first, last)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where the bytes are of another form."""
        self._table.restore(first, last, stored)

    def take(self, told: Told) -> None:
        """Take in what was told of some series, each named once."""
        slots = self._table["slots"]
        minute_ms, source = slots["minute_ms"][told.row], slots["source"][told.row]
        own = (source == told.source[:, None]) & (minute_ms != NONE_MS)
        again = own & (minute_ms == told.minute_ms[:, None])
        newer = np.where(own, minute_ms, NONE_MS).max(axis=1) > told.minute_ms
        repeated = again.any(axis=1)
        place = np.where(repeated, again.argmax(axis=1), minute_ms.argmin(axis=1))
        oldest = np.take_along_axis(minute_ms, place[:, None], axis=1)[:, 0]
        kept = np.flatnonzero(repeated | (~newer & (told.minute_ms > oldest)))
        at = told.row[kept], place[kept]
        for field in ("minute_ms", "source", "window_samples", "samples", "figures", "parts", "edges", "shares"):
            slots[field][at] = getattr(told, field)[kept]

    def of(self, row: int, until_ms: int) -> HostWindow | None:
        """Return the newest window of a series that ended at `until_ms` or before; None where none is kept."""
        slots = self._table["slots"][row]
        ends_ms = slots["minute_ms"] + MINUTE_MS
        known = (slots["parts"] > 0) & (slots["minute_ms"] != NONE_MS) & (ends_ms <= until_ms)
        if not known.any():
            return None
        end_ms = int(ends_ms[known].max())
        return _window(slots[known & (ends_ms == end_ms)], end_ms, until_ms)

    def newest(self, row: int) -> HostWindow | None:
        """Return the newest window of a series, stale or not for those who ask when it ended."""
        slots = self._table["slots"][row]
        return self.of(row, int(slots["minute_ms"].max()) + MINUTE_MS)


def _empty() -> npt.NDArray[np.void]:
    slots = np.zeros(SLOTS, _SLOT)
    slots["minute_ms"] = NONE_MS
    return slots


def _window(slots: npt.NDArray[np.void], end_ms: int, until_ms: int) -> HostWindow:
    """Return what the sources told of one minute as one window."""
    if len(slots) == 1:
        parts = int(slots["parts"][0])
        edges, shares = _plain(slots["edges"][0][: parts + (parts > 1)]), _plain(slots["shares"][0][:parts])
    else:
        edges, shares = _pooled(slots)
    mean, low, high = (slots["figures"][:, k] for k in range(3))
    count = int(slots["window_samples"].sum())
    weight = slots["samples"] if slots["samples"].any() else np.ones(len(slots))
    return HostWindow(
        until_ms=end_ms,
        edges=edges,
        shares=shares,
        count=count,
        mean=_figure((mean * weight).sum() / weight.sum()),
        low=_figure(low.min()),
        high=_figure(high.max()),
        stale=until_ms - end_ms >= STALE_MS or not slots["samples"].any(),
        thin=count < THIN_BELOW,
    )


def _pooled(slots: npt.NDArray[np.void]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return one histogram of those of several sources, each by its samples."""
    edges, shares = slots["edges"].astype(np.float64), slots["shares"].astype(np.float64)
    one = slots["parts"] == 1
    edges[one], shares[one] = edges[one][:, :1], np.eye(1, INTERVALS)
    shares /= shares.sum(axis=1, keepdims=True)
    found = mixture(Histogram(edges, shares), np.maximum(slots["window_samples"], 1))
    if found.edges[0] == found.edges[-1]:
        return (_figure(found.edges[0]),), (1.0,)
    return tuple(map(_figure, found.edges.tolist())), tuple(found.shares.tolist())


def _plain(values: npt.NDArray[np.float32]) -> tuple[float, ...]:
    return tuple(float(str(value)) for value in values)


def _figure(value: float) -> float:
    """Return a number with the digits that it was kept with."""
    return float(f"{value:.7g}")
