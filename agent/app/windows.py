"""The windows of a source partition as the collector uses them: in the terms of the log, with names that are forgotten."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from agent.contracts.errors import InvalidInputError
from agent.contracts.log import Position
from agent.contracts.telemetry import MakeWindows, Part, Samples, SeriesIndex
from processors.windows.partition import PartitionWindows
from processors.windows.settings import Resume, WindowSettings

FORGOTTEN_MIN: Final = 1_000  # names that are worth forgetting
FULL: Final = 7 / 8  # share of an index that counts as full
FREED: Final = 1 / 16  # share that a full index must get free


class SourceWindows:
    """Implements `agent.contracts.telemetry.SampleWindows` on `PartitionWindows`.

    >>> windows = SourceWindows("load/0", "", WindowSettings(), series_max=10)
    >>> windows.position(7), windows.counts()["taken"]
    (Position(offset=7, metadata=''), 0)
    """

    def __init__(self, source: str, metadata: str, settings: WindowSettings, series_max: int) -> None:
        self._series_max = series_max
        self.index = SeriesIndex(series_max)
        self._windows = PartitionWindows(source, self.index, settings, _resume(metadata))
        self._told: dict[str, int] = {}

    def fold(
        self, samples: Samples, offsets: npt.NDArray[np.int64], received_ms: npt.NDArray[np.int64]
    ) -> Iterator[Part]:
        """Take samples; yield what is due."""
        for columns in self._windows.fold(samples, offsets, received_ms):
            yield partial(self._windows.events, columns)

    def position(self, next_offset: int) -> Position:
        """Return where to read again."""
        at = self._windows.position(next_offset)
        return Position(at.offset, "" if at.resume is None else at.resume.text())

    def counts(self) -> Mapping[str, int]:
        """Return what became of samples since the last call; those `repeated` and `thinned` were taken."""
        counts, rings = self._windows.counts, self._windows.rings
        now = {
            "taken": counts.taken,
            "late": counts.late,
            "ahead": counts.ahead,
            "not_finite": counts.not_finite,
            "repeated": rings.repeated + self._windows.sums.repeated,
            "thinned": rings.thinned_away,
        }
        since = {name: count - self._told.get(name, 0) for name, count in now.items()}
        self._told = now
        return since

    def series_held(self) -> int:
        """Return how many series have samples."""
        return self._windows.rings.series_held() + len(self._windows.sums)

    def forget(self) -> None:
        """Forget unused names where they are more than the used ones, or where a full index would get room."""
        unused = len(self.index) - self.series_held()
        full = len(self.index) > self._series_max * FULL and unused > self._series_max * FREED
        if full or unused > max(FORGOTTEN_MIN, self.series_held()):
            self.index = SeriesIndex(self._series_max)
            self._windows.renumber(self.index)


def make_windows(settings: WindowSettings, series_max: int) -> MakeWindows:
    """Return what makes the windows of a source.

    >>> make_windows(WindowSettings(), 10)("load/0", "windows:1:60000").position(7).metadata
    'windows:1:60000'
    """
    return partial(SourceWindows, settings=settings, series_max=series_max)


def _resume(metadata: str) -> Resume | None:
    with suppress(InvalidInputError):  # of another version, or none: the first minutes may be told again
        return Resume.parse(metadata)
    return None
