"""Samples far ahead of those around them, as a host with a wrong clock sends them; for streams without times of arrival."""

from typing import Final

import numpy as np
import numpy.typing as npt

from agent.contracts.telemetry import Samples

AHEAD_MS: Final = 3_600_000
MOMENTS: Final = 3  # that have to follow each other before time has really moved on
HELD_MAX: Final = 1_000_000
Ints = npt.NDArray[np.int64]


class FarAhead:
    """Passes samples on, but for those more than an hour ahead of both the ones before and the ones after them.

    A sample that is so far ahead, and all at the start of a stream, is held until samples of MOMENTS different times
    have come, or the end; then it counts unless a later one lies an hour behind it. So a stream may have gaps.

    >>> series, value = np.zeros(5, np.int32), np.zeros(5)
    >>> guard = FarAhead()
    >>> time_ms = np.array([0, 10_000, 99_000_000, 20_000, 30_000])
    >>> guard.take(Samples(series, time_ms, value)).time_ms, guard.end().time_ms, guard.passed_over
    (array([    0, 10000, 20000, 30000]), array([], dtype=int64), 1)
    """

    def __init__(self) -> None:
        self._newest_ms: int | None = None
        self._held: list[Samples] = []
        self.passed_over = 0

    def take(self, samples: Samples) -> Samples:
        """Take samples; return those that count, in the order in which they came."""
        if self._held:
            samples, self._held = joined([*self._held, samples]), []
        time_ms = samples.time_ms
        if not len(time_ms) or (self._newest_ms is not None and int(time_ms.max()) - self._newest_ms <= AHEAD_MS):
            self._move(time_ms)
            return samples
        return self._sift(samples, at_end=False)

    def end(self) -> Samples:
        """Return what is still held and counts; nothing more comes."""
        held, self._held = joined(self._held), []
        return self._sift(held, at_end=True)

    def _sift(self, samples: Samples, *, at_end: bool) -> Samples:
        time_ms = samples.time_ms
        counts = np.ones(len(time_ms), np.bool_)
        at = 0
        while (first := at + self._first_ahead(time_ms[at:])) < len(time_ms):
            self._move(time_ms[at:first])
            stop = _moments_end(time_ms, first)
            if stop is None and not at_end and len(time_ms) - first < HELD_MAX:
                self._held = [taken(samples, slice(first, None))]
                return taken(samples, np.flatnonzero(counts[:first]))
            least_ms = int(time_ms[first:stop].min())
            at = first + (self._newest_ms is not None)  # the start of a stream is judged by its least time
            if self._newest_ms is None:
                self._newest_ms = least_ms
            elif least_ms + AHEAD_MS >= time_ms[first]:
                self._move(time_ms[first:at])
            else:
                counts[first] = False
                self.passed_over += 1
        self._move(time_ms[at:])
        return taken(samples, counts)

    def _first_ahead(self, time_ms: Ints) -> int:
        """Return the first place that is far ahead of all before; the length where there is none."""
        if self._newest_ms is None:
            return 0
        newest = np.maximum.accumulate(np.concatenate(([self._newest_ms], time_ms)))
        ahead = np.flatnonzero(np.diff(newest) > AHEAD_MS)
        return int(ahead[0]) if len(ahead) else len(time_ms)

    def _move(self, time_ms: Ints) -> None:
        if len(time_ms):
            newest = int(time_ms.max())
            self._newest_ms = newest if self._newest_ms is None else max(self._newest_ms, newest)


def taken(samples: Samples, which: npt.NDArray[np.bool_] | Ints | slice) -> Samples:
    """Return some of the samples.

    >>> taken(Samples(np.zeros(2, np.int32), np.arange(2), np.ones(2)), slice(1, 2)).time_ms
    array([1])
    """
    return Samples(samples.series[which], samples.time_ms[which], samples.value[which])


def joined(parts: list[Samples]) -> Samples:
    """Return the samples of all parts, in order.

    >>> joined([]).time_ms
    array([], dtype=int64)
    """
    if len(parts) == 1:
        return parts[0]
    none = Samples(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64))
    every = [none, *parts]
    return Samples(
        np.concatenate([part.series for part in every]),
        np.concatenate([part.time_ms for part in every]),
        np.concatenate([part.value for part in every]),
    )


def _moments_end(time_ms: Ints, first: int) -> int | None:
    """Return where, from `first` on, MOMENTS different times have been seen; None where they have not."""
    other = np.ones(len(time_ms) - first, np.bool_)
    at = first
    for _ in range(MOMENTS):
        there = np.flatnonzero(other)
        if not len(there):
            return None
        at = first + int(there[0])
        other &= time_ms[first:] != time_ms[at]
    return at + 1
