"""What was never seen before of each resource of each host: the record rule over its 10-second means."""

from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.hosts.batch import MinuteBatch
from processors.hosts.columns import NEVER_MS, Rows, RowTable
from processors.models.detect.record import WAYS, RecordRule, RecordStep
from processors.windows.settings import PART_MS

SWARM_MS: Final = 3_600_000  # a record that comes within this of the one before belongs to it

_MARK: Final = np.dtype(
    [("fired_ms", "<i8"), ("since_ms", "<i8"), ("observed", "<f8"), ("low", "<f8"), ("high", "<f8"),
     ("score", "<f4"), ("way", "u1")]
)  # fmt: skip


class Mark(NamedTuple):
    """The last record of a series: what was measured, the usual range, and when it came.

    `since_ms` is the first of those that came close together with it; `way` is the question that was answered strangely:
    value, step or hour.

    >>> Mark(since_ms=0, fired_ms=10_000, observed=0.1, low=0.6, high=1.0, way="value").way
    'value'
    """

    since_ms: int
    fired_ms: int
    observed: float
    low: float
    high: float
    way: str


class Records:
    """The record rule of all series; a row is one.

    >>> records = Records()
    >>> records.grow(1)
    >>> for minute in range(20):
    ...     means = np.full((1, 6), 0.1 if minute == 19 else 0.9 + minute % 2 / 100)
    ...     records.take(MinuteBatch(np.array([0]), np.array([0]), np.array([minute * 60_000]), means))
    >>> mark = records.mark(0)
    >>> mark.fired_ms, mark.observed, round(mark.low, 2), round(records.score(0), 2)
    (1140000, 0.1, 0.9, 0.4)
    """

    name: ClassVar[str] = "host_records"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        self._rule = RecordRule()
        self._marks = RowTable(_MARK, fired_ms=NEVER_MS, since_ms=NEVER_MS)

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        self._rule.grow(rows)
        self._marks.grow(rows)

    def clear(self, rows: Rows) -> None:
        """Let some rows start anew."""
        self._rule.clear(rows)
        self._marks.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows."""
        return self._marks.stored(first, last) + self._rule.stored(first, last)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where the bytes are of another form."""
        marks = (last - first) * _MARK.itemsize
        self._rule.restore(first, last, stored[marks:])
        self._marks.restore(first, last, stored[:marks])

    def take(self, batch: MinuteBatch) -> None:
        """Judge the 10-second means of a minute, one after the other, and learn each."""
        for k, means in enumerate(batch.means.T):
            at = np.flatnonzero(np.isfinite(means))
            if at.size:
                rows, time_ms = batch.row[at], batch.minute_ms[at] + k * PART_MS
                self._note(rows, means[at], time_ms, self._rule.step(rows, means[at], time_ms))

    def _note(
        self, rows: Rows, value: npt.NDArray[np.float64], time_ms: npt.NDArray[np.int64], step: RecordStep
    ) -> None:
        marks = self._marks
        marks["score"][rows] = step.score
        fired = np.flatnonzero(step.fired)
        at, when_ms = rows[fired], time_ms[fired]
        before_ms = marks["fired_ms"][at]
        apart = (before_ms == NEVER_MS) | (when_ms - before_ms > SWARM_MS)
        marks["since_ms"][at] = np.where(apart, when_ms, marks["since_ms"][at])
        marks["fired_ms"][at] = when_ms
        marks["observed"][at], marks["way"][at] = value[fired], step.way[fired]
        marks["low"][at], marks["high"][at] = step.low[fired], step.high[fired]

    @property
    def fired_ms(self) -> npt.NDArray[np.int64]:
        """When the last record came of each series, (rows,); NEVER_MS where there was none."""
        return self._marks["fired_ms"]

    def mark(self, row: int) -> Mark | None:
        """Return the last record of a series; None where there was none."""
        one = {name: self._marks[name][row].item() for name in ("since_ms", "fired_ms", "observed", "low", "high")}
        return None if one["fired_ms"] == NEVER_MS else Mark(**one, way=WAYS[int(self._marks["way"][row])])

    def score(self, row: int) -> float:
        """Return the score of the last value of a series, from 0 to 1."""
        return float(self._marks["score"][row])
