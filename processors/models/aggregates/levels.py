"""Run times of an application whose level moves: it became slower or faster for good, at all sizes by one factor.

A level is where ln run time lies against the first one, an integer on the scale of the sketches. What a run tells is
stored as it was, with the level of its time; only an aggregate moves it to the present level. So runs of one level may
come in any order, an application that is back finds its old runs as they were, and a corrected report still replaces
its run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from processors.models.aggregates.sizes import (
    SIZES_MAX,
    Derived,
    Sizes,
    SizeStat,
    SizeTable,
    aggregate,
    rounded_size,
    sizes_of,
)
from processors.models.aggregates.sketch import LogSketch, positions_of

FULL: Final = 20  # weights of runs, in twentieths
STRANGE: Final = 5
EARLIER: Final = 2
OWN_ENOUGH: Final = 16  # runs of the present level from which a size needs no earlier ones
LEVELS_MAX: Final = 8


class PlacedRun(NamedTuple):
    """A run that is in no table yet: size, seconds, when it started, and whether it counts for little."""

    n: float
    run_time_s: float
    start_ms: int
    strange: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """Where the application is since a time, in positions of the sketches."""

    since_ms: int
    position: int


class LevelTable:
    """Run times by size at the present level, and those of the level before at sizes that have few of their own.

    >>> table = LevelTable()
    >>> for i in range(9): table.add(PlacedRun(4, 100.0, start_ms=i), end_ms=i)
    >>> table.move(since_ms=10, ln_factor=0.2231, margin=0.05)  # 25 % slower
    False
    >>> aggregate_levels(table, []).median_s.round(1).tolist()
    [125.0]
    >>> table.move(since_ms=20, ln_factor=-0.21, margin=0.05)  # it is back
    True
    >>> aggregate_levels(table, []).median_s.round(1).tolist()
    [100.0]
    """

    __slots__ = ("earlier", "levels", "own")

    def __init__(self) -> None:
        self.own = SizeTable()
        self.earlier: dict[float, tuple[int, SizeStat]] = {}
        self.levels: list[Level] = []

    @property
    def since_ms(self) -> int | None:
        """When the present level began; None for the first."""
        return self.levels[-1].since_ms if self.levels else None

    def sizes(self) -> set[float]:
        """Return all sizes."""
        return {*self.own.stats, *self.earlier}

    def count(self, size: float) -> int:
        """Return how many runs of a size are held, whatever their level."""
        held = [self.own.stats.get(size), self.earlier[size][1] if size in self.earlier else None]
        return sum(stat.sketch.count for stat in held if stat is not None)

    def position(self, start_ms: int) -> int:
        """Return the level of a time; what began before all that is remembered counts as the oldest."""
        known = [level.position for level in self.levels if level.since_ms <= start_ms]
        return known[-1] if known else 0

    @property
    def present(self) -> int:
        """The present level."""
        return self.levels[-1].position if self.levels else 0

    def add(self, run: PlacedRun, end_ms: int) -> None:
        """Count a run at the level of its time. ValueError unless size and time are positive and finite."""
        size, position = rounded_size(run.n), self.position(run.start_ms)
        if position == self.present:
            self.own.add(size, run.run_time_s, end_ms)
            if size in self.own.stats and self.own.stats[size].sketch.count >= OWN_ENOUGH:
                self.earlier.pop(size, None)
            return
        held = self.earlier.get(size)
        enough = size in self.own.stats and self.own.stats[size].sketch.count >= OWN_ENOUGH
        if enough or (held is None and len(self.earlier) >= SIZES_MAX):
            return
        if held is None or (held[0] != position and self._age(held[0]) > self._age(position)):
            held = self.earlier[size] = (position, SizeStat())
        if held[0] == position:
            held[1].add(run.run_time_s, end_ms)

    def move(self, since_ms: int, ln_factor: float, margin: float) -> bool:
        """Begin a level that lies `ln_factor` above the present one; True where it is one from before, within `margin`."""
        before, found = self.present, self.present + positions_of(ln_factor)
        known = {0, *(level.position for level in self.levels)} - {before}
        nearest = min(known, key=lambda position: (abs(position - found), position), default=None)
        back = nearest is not None and abs(nearest - found) <= positions_of(margin)
        position = nearest if back and nearest is not None else found
        self.levels = [*self.levels, Level(since_ms, position)][-LEVELS_MAX:]
        again = {n: stat for n, (level, stat) in self.earlier.items() if level == position}
        kept = {n: held for n, held in self.earlier.items() if n not in again}
        self.earlier = kept | {n: (before, stat) for n, stat in self.own.stats.items()}
        self.earlier = dict(sorted(self.earlier.items())[:SIZES_MAX])
        self.own.stats = again
        return back

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        rows = [[self.earlier[n][0], n, self.earlier[n][1].last_ms, *self.earlier[n][1].sketch.snapshot()]
                for n in sorted(self.earlier)]  # fmt: skip
        levels = [[level.since_ms, level.position] for level in self.levels]
        return self.own.snapshot() | ({"levels": levels, "earlier": rows} if levels else {})

    @classmethod
    def build(cls, state: dict[str, Any] | None = None) -> "LevelTable":
        """Return the table of a snapshot, or an empty one."""
        table = cls()
        table.own = SizeTable.build(state)
        if state is not None:
            table.levels = [Level(since_ms, position) for since_ms, position in state.get("levels", ())]
            table.earlier = {
                float(n): (position, SizeStat(LogSketch.build(sketch), last_ms))
                for position, n, last_ms, *sketch in state.get("earlier", ())
            }
        return table

    def _age(self, position: int) -> int:
        """Return how many levels ago a level was left."""
        positions = [0, *(level.position for level in self.levels)]
        return positions[::-1].index(position) if position in positions else len(positions)


@dataclass(slots=True)
class _Size:
    """What is known of one size: of the present level, strange runs of it, and by earlier level."""

    own: LogSketch
    strange: LogSketch
    earlier: dict[int, LogSketch]


def aggregate_levels(table: LevelTable, runs: Iterable[PlacedRun], known: dict[float, Derived] | None = None) -> Sizes:
    """Return the observations of a table and of further runs at the present level; both stay as they are.

    A strange run counts a quarter. Runs of earlier levels are moved by what the level moved and count a tenth, at sizes
    with less than OWN_ENOUGH runs of the present level. `known` is as in `aggregate`, and is emptied where it is of no use.

    >>> table = LevelTable()
    >>> aggregate_levels(table, [PlacedRun(2, 10.0, 0), PlacedRun(2, 10.2, 1), PlacedRun(2, 99.0, 2, strange=True)]).count
    array([2.25])
    """
    runs = list(runs)
    if not table.levels and not any(run.strange for run in runs):
        return aggregate(table.own, [(run.n, run.run_time_s) for run in runs], known)
    if known is not None:
        known.clear()
    sizes = _gathered(table, runs)
    rows, repeats, squares = [], 0.0, 0.0
    for n in sorted(sizes):
        size = sizes[n]
        here = _weighted([(size.own, 0, FULL), (size.strange, 0, STRANGE)])
        enough = size.own.count >= OWN_ENOUGH
        earlier = sorted(size.earlier.items())  # by level, for sums of floats depend on their order
        moved = [(sketch, table.present - position, EARLIER) for position, sketch in earlier]
        whole = here if enough else _weighted([(here, 0, 1), *moved])
        rows.append((n, whole.count / FULL, whole.quantile(0.5), (size.own if size.own.count else whole).min))
        groups = [(here, FULL), *((sketch, 1) for _, sketch in earlier)]
        for sketch, unit in groups:
            repeats += max(sketch.count / unit - 1, 0.0)
            squares += sketch.squares() / unit
    sizes_n, count, median_s, min_s = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    return sizes_of(sizes_n, median_s, min_s, count, repeats=repeats, squares=squares)


def _gathered(table: LevelTable, runs: Iterable[PlacedRun]) -> dict[float, _Size]:
    sizes: dict[float, _Size] = {}

    def size(n: float) -> _Size:
        return sizes.setdefault(n, _Size(LogSketch(), LogSketch(), {}))

    for n, stat in table.own.stats.items():
        size(n).own.merge(stat.sketch)
    for n, (position, stat) in table.earlier.items():
        size(n).earlier.setdefault(position, LogSketch()).merge(stat.sketch)
    for run in runs:
        held, position = size(rounded_size(run.n)), table.position(run.start_ms)
        if position != table.present:
            held.earlier.setdefault(position, LogSketch()).add(run.run_time_s)
        else:
            (held.strange if run.strange else held.own).add(run.run_time_s)
    return sizes


def _weighted(parts: Iterable[tuple[LogSketch, int, int]]) -> LogSketch:
    """Return the sketch of several, each moved by positions and every value counted so many times."""
    whole = LogSketch()
    for sketch, positions, times in parts:
        if sketch.count:
            whole.merge(sketch.moved(positions, times))
    return whole
