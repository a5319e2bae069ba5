"""Minutes of hosts between two ticks: gathered one by one, taken in as columns."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from agent.contracts.events import ResourceMinute
from processors.hosts.batch import MinuteBatch
from processors.hosts.windows import EVEN, Told
from processors.models.histogram.values import INTERVALS
from processors.rounds import rounds
from processors.windows.settings import PARTS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Waiting:
    """Minutes of resources in the order in which they came.

    >>> waiting = Waiting()
    >>> cpu = ResourceMinute(6, 0.8, 0.7, 0.9, (0.8,) * 6, (0.7, 0.9), (1.0,), 30)
    >>> waiting.add(row=0, host=0, source=1, minute_ms=60_000, revision=0, minute=cpu)
    >>> len(waiting), waiting.columns().means[0, 0]
    (1, np.float64(0.8))
    """

    def __init__(self) -> None:
        self._places: list[tuple[int, int, int, int, int]] = []
        self._minutes: list[ResourceMinute] = []

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._places)

    def add(self, row: int, host: int, source: int, minute_ms: int, *, revision: int, minute: ResourceMinute) -> None:
        """Let a minute wait; `source` is a number that stands for who told it."""
        self._places.append((row, host, source, minute_ms, revision))
        self._minutes.append(minute)

    def columns(self) -> "MinutesTold":
        """Return what waits, (m,) in its order, and wait for the next."""
        places = np.array(self._places, dtype=np.int64).reshape(-1, 5)
        minutes = self._minutes
        self._places, self._minutes = [], []
        return MinutesTold(places, minutes)


class MinutesTold:
    """Minutes of m resources as columns, in the order in which they came; a series may stand several times in them.

    >>> cpu = ResourceMinute(6, 0.8, 0.7, 0.9, (0.8, None), (0.7,), (1.0,), 30)
    >>> told = MinutesTold(np.array([[0, 0, 1, 60_000, 0]]), [cpu])
    >>> [batch.means[0, :2].tolist() for batch in told.batches(np.array([0]))], [each.parts.tolist() for each in told.rounds()]
    ([[0.8, nan]], [[1]])
    """

    def __init__(self, places: Ints, minutes: list[ResourceMinute]) -> None:
        """Take (m, 5) places: row of the series, of the host, source, minute and revision."""
        self.row, self.host, self.minute_ms, self.revision = places[:, 0], places[:, 1], places[:, 3], places[:, 4]
        self.source = places[:, 2].astype(np.uint32)
        self.means = _filled([minute.means for minute in minutes], PARTS)
        figures = [(m.count, m.window_count, m.mean, m.low, m.high) for m in minutes]
        self._figures = np.array(figures, dtype=np.float64).reshape(-1, 5)
        self._edges = _filled([minute.edges for minute in minutes], INTERVALS + 1)
        self._shares = np.nan_to_num(_filled([minute.shares for minute in minutes], INTERVALS))
        self._parts = _parts(self._edges, self._shares, np.array([len(m.shares) for m in minutes], dtype=np.int64))

    def rounds(self) -> Iterator[Told]:
        """Yield all of it in parts that hold every series once, in the order in which they came."""
        for at in rounds(self.row):
            count, window_count = self._figures[at, :2].clip(0, 2**31 - 1).astype(np.int64).T
            yield Told(
                self.row[at], self.minute_ms[at], self.source[at], count, self._figures[at, 2:], window_count,
                self._parts[at], self._edges[at], self._shares[at], self.revision[at],
            )  # fmt: skip

    def batches(self, learned_ms: Ints) -> Iterator[MinuteBatch]:
        """Yield what is to be learned, a batch per minute: of each series what begins later than `learned_ms` (rows,).

        What several sources told of one minute of a series is one minute, each part the mean by their samples.
        """
        known = self.minute_ms > learned_ms[self.row]
        new = np.flatnonzero(known & np.isfinite(self.means).any(axis=1))
        for minute_ms in np.unique(self.minute_ms[new]).tolist():
            at = self._last_word(new[self.minute_ms[new] == minute_ms])
            rows, first, place = np.unique(self.row[at], return_index=True, return_inverse=True)
            told_ms = np.full(len(rows), minute_ms, dtype=np.int64)
            means = self.means[at][first] if len(rows) == len(at) else self._together(at, first, place)
            yield MinuteBatch(rows, self.host[at][first], told_ms, means)

    def _last_word(self, at: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return of several minutes that a source told of a series the one of the highest revision, of these the last."""
        if len(np.unique(self.row[at])) == len(at):
            return at
        newest_first = at[np.argsort(self.revision[at], kind="stable")][::-1]
        told = np.stack([self.row[newest_first], self.source[newest_first].astype(np.int64)])
        return np.sort(newest_first[np.unique(told, axis=1, return_index=True)[1]])

    def _together(self, at: npt.NDArray[np.intp], first: npt.NDArray[np.intp], place: npt.NDArray[np.intp]) -> Floats:
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
        held = np.isfinite(edges.astype(np.float32))
    right = abs(shares.sum(axis=1) - 1) <= EVEN
    right &= (shares >= 0).all(axis=1) & held[:, 0]
    rising = held.all(axis=1) & (np.diff(edges, axis=1) >= 0).all(axis=1)
    whole = right & (lengths == INTERVALS) & rising
    return np.where(whole, INTERVALS, np.where(right & (lengths == 1) & ~held[:, 1:].any(axis=1), 1, 0))
