"""The newest windows of each series, as its collectors told them, several of one minute put together when asked for."""

from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agent.contracts.hosts import HostWindow
from processors.hosts.columns import Rows, RowTable
from processors.models.histogram.pool import mixture
from processors.models.histogram.values import INTERVALS, in_common
from processors.windows.settings import MINUTE_MS

SLOTS: Final = 4  # minutes of a series that are kept; of two sources two minutes each
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
        ("parts", "<i4"),
        ("revision", "<i4"),
        ("numbers", "<f4", (3 + INTERVALS + 1 + INTERVALS,)),  # mean, least, largest; edges; shares
    ]
)


class Told(NamedTuple):
    """What sources told of m series, every series once; the histograms as `edges` (m, 6) and `shares` (m, 5).

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

    >>> windows = HostWindows()
    >>> windows.grow(1)
    >>> one, edges, even = np.ones(1, int), np.linspace(0.0, 0.5, 6)[None], np.full((1, 5), 0.2)
    >>> windows.take(Told(one * 0, one * 60_000, one, one * 6, np.ones((1, 3)), one * 30, one * 5, edges, even, one * 0))
    >>> windows.of(0, until_ms=120_000).edges
    (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    >>> windows.of(0, until_ms=119_999)
    """

    name: ClassVar[str] = "host_windows"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("slots", _SLOT, (SLOTS,))]), slots=_empty())

    def take(self, told: Told) -> None:
        """Take in what was told of some series, each named once."""
        slots = self["slots"]
        minute_ms, source = slots["minute_ms"][told.row], slots["source"][told.row]
        own = (source == told.source[:, None]) & (minute_ms != NONE_MS)
        again = own & (minute_ms == told.minute_ms[:, None])
        newer = np.where(own, minute_ms, NONE_MS).max(axis=1) > told.minute_ms
        repeated = again.any(axis=1)
        overtaken = (again & (slots["revision"][told.row] > told.revision[:, None])).any(axis=1)
        place = np.where(repeated, again.argmax(axis=1), minute_ms.argmin(axis=1))
        oldest = np.take_along_axis(minute_ms, place[:, None], axis=1)[:, 0]
        kept = np.flatnonzero((repeated & ~overtaken) | (~repeated & ~newer & (told.minute_ms > oldest)))
        at = told.row[kept], place[kept]
        for field in ("minute_ms", "source", "window_samples", "samples", "parts", "revision"):
            slots[field][at] = getattr(told, field)[kept]
        numbers = np.concatenate([told.figures[kept], told.edges[kept], told.shares[kept]], axis=1)
        with np.errstate(over="ignore"):
            slots["numbers"][at] = numbers

    def of(self, row: int, until_ms: int) -> HostWindow | None:
        """Return the newest window of a series that ended at `until_ms` or before; None where none is kept."""
        slots = self["slots"][row]
        told = zip(slots["minute_ms"].tolist(), slots["parts"].tolist(), strict=True)
        ends_ms = [minute_ms + MINUTE_MS if parts and minute_ms >= 0 else NONE_MS for minute_ms, parts in told]
        end_ms = max((end_ms for end_ms in ends_ms if end_ms <= until_ms), default=NONE_MS)
        if end_ms == NONE_MS:
            return None
        return _window([_slot(slots[k]) for k in range(SLOTS) if ends_ms[k] == end_ms], end_ms, until_ms)


def _empty() -> npt.NDArray[np.void]:
    slots = np.zeros(SLOTS, _SLOT)
    slots["minute_ms"] = NONE_MS
    return slots


class _Slot(NamedTuple):
    samples: int
    window_samples: int
    figures: list[float]
    edges: list[float]
    shares: list[float]


def _slot(slot: npt.NDArray[np.void]) -> _Slot:
    """Return what a source told, with the digits that were kept; shares as those of whole samples where they are."""
    parts, samples, window_samples = int(slot["parts"]), int(slot["samples"]), int(slot["window_samples"])
    numbers = [float(f"{number:.7g}") for number in slot["numbers"].tolist()]
    shares = numbers[-INTERVALS:][:parts]
    whole = [round(share * window_samples) for share in shares]
    if sum(whole) == window_samples > 0:
        shares = [held / window_samples for held in whole]
    return _Slot(samples, window_samples, numbers[:3], numbers[3 : 4 + parts - (parts == 1)], shares)


def _window(slots: list[_Slot], end_ms: int, until_ms: int) -> HostWindow:
    """Return what the sources told of one minute as one window."""
    if len(slots) == 1:
        (only,) = slots
        edges, shares, mean = tuple(only.edges), tuple(only.shares), only.figures[0]
    else:
        edges, shares = _pooled(slots)
        weight = [slot.samples for slot in slots] if any(slot.samples for slot in slots) else [1] * len(slots)
        mean = sum(of * slot.figures[0] for of, slot in zip(weight, slots, strict=True)) / sum(weight)
    count = sum(slot.window_samples for slot in slots)
    return HostWindow(
        until_ms=end_ms,
        edges=edges,
        shares=shares,
        count=count,
        mean=mean,
        low=min(slot.figures[1] for slot in slots),
        high=max(slot.figures[2] for slot in slots),
        stale=until_ms - end_ms >= STALE_MS or not any(slot.samples for slot in slots),
        thin=count < THIN_BELOW,
    )


def _pooled(slots: list[_Slot]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return one histogram of those of several sources, each by its samples."""
    found = mixture(
        in_common([slot.edges for slot in slots], [slot.shares for slot in slots]),
        [max(slot.window_samples, 1) for slot in slots],
    )
    if found.edges[0] == found.edges[-1]:
        return (float(found.edges[0]),), (1.0,)
    return tuple(found.edges.tolist()), tuple(found.shares.tolist())
