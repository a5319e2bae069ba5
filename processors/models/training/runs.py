"""A bounded reservoir of runs that all models of an application are fitted to.

By default the runs with the smallest hashes of their ids are retained (a bottom-k sample, E. Cohen, H. Kaplan, "Summarizing
data using bottom-k sketches", 2007). The sample is even over all runs and does not depend on their order, and a corrected run
replaces its earlier report. If future runs resemble past runs, an even sample gives the best models: on measured data, keeping
runs with large errors or in sparse regions was worse. An even sample also keeps many similar and old runs. Applications with
features therefore use the rule `BY_WHAT_THEY_ADD`.
"""

import math
from array import array
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from statistics import median
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.drift import Cusum, began, clipped, explained_by_one, matters, noise_after, risen
from processors.models.numerics.statistics import six_digits
from processors.models.training.table import CHOICE, RunTable

RECENT: Final = 0.5  # share of the capacity for the newest runs
REPEATS: Final = 4  # this many runs of the same values precede further runs with these values
SLACK: Final = 1 / 8  # share of surplus runs that may wait, because choosing by novelty for each new run costs too much
ROW_BYTES: Final = 560  # measured memory of a run without its numbers
NUMBER_BYTES: Final = 6  # memory of each number


class NumberRow(Mapping[str, float]):
    """Named numbers of a run in little memory: 32 bits each, and one dict of names shared by all runs.

    >>> dict(NumberRow({"ipc": 1.5, "clock": 2.0}))
    {'ipc': 1.5, 'clock': 2.0}
    """

    __slots__ = ("numbers", "places")

    def __init__(self, values: Mapping[str, float]) -> None:
        self.places = _places(tuple(values))
        self.numbers = array("f", values.values())

    def __getitem__(self, name: str) -> float:
        return self.numbers[self.places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return repr(dict(self))


@lru_cache(maxsize=4096)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    """Return the position of each name. The result is cached, so that the runs of an application share one dict."""
    return {name: at for at, name in enumerate(names)}


_NONE: Final = NumberRow({})


def row(values: Mapping[str, float]) -> NumberRow:
    """Return named numbers as a NumberRow; all empty rows are the same object."""
    if isinstance(values, NumberRow):
        return values
    return NumberRow(values) if values else _NONE


def matrix(rows: Iterable[Mapping[str, float]], names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the numbers with the `names` as an array (rows, names); nan if a row lacks a name.

    Rows with the same names are converted together, because converting 2,048 rows of forty names singly took 0.2 s.

    >>> matrix([{"a": 1.0}, {"b": 2.0, "a": 3.0}], ("a", "b")).tolist()
    [[1.0, nan], [3.0, 2.0]]
    """
    number_rows, alike = [row(number_row) for number_row in rows], defaultdict[int, list[int]](list)
    for position, number_row in enumerate(number_rows):
        alike[id(number_row.places)].append(position)
    values = np.full((len(number_rows), len(names)), np.nan)
    for positions in alike.values():
        places = number_rows[positions[0]].places
        columns = [column for column, name in enumerate(names) if name in places]
        block = np.array([number_rows[position].numbers for position in positions], dtype=np.float64)
        if columns:
            values[np.ix_(positions, columns)] = block[:, [places[names[column]] for column in columns]]
    return values


def room_bytes(names: int) -> int:
    """Return the memory in bytes that a run with `names` named numbers takes."""
    return ROW_BYTES + NUMBER_BYTES * names


Retention = Literal["evenly", "by_what_they_add"]
"""Rule that selects the retained runs: an even sample, or the newest runs and few older runs with the same values."""
EVENLY: Final = "evenly"
BY_WHAT_THEY_ADD: Final = "by_what_they_add"


def chosen(runs: "Iterable[LearnedRun]", count: int, retention: Retention) -> "dict[str, LearnedRun]":
    """Return the runs to retain, at most `count`, ascending by the hash of their id; the order of `runs` does not matter.

    By default these are the runs with the smallest hashes. With `BY_WHAT_THEY_ADD`, the newest runs get half of `count`. In the
    other half, only REPEATS runs with the same values are retained as long as there are runs with other values.
    """
    by_hash = sorted(runs, key=lambda run: (run.place, run.id))
    if retention == BY_WHAT_THEY_ADD and len(by_hash) > count:
        repeats = Counter[tuple[tuple[str, float], ...]]()
        ranks: dict[str, tuple[bool, int]] = {}
        for age, run in enumerate(sorted(by_hash, key=lambda run: -run.time_ms)):
            key = tuple(run.values.items())
            ranks[run.id] = age >= RECENT * count, repeats[key] // REPEATS
            repeats[key] += 1
        stays = {run.id for run in sorted(by_hash, key=lambda run: ranks[run.id])[:count]}
        by_hash = [run for run in by_hash if run.id in stays]
    return {run.id: run for run in by_hash[:count]}


RATIOS_MAX: Final = 32  # number of newest ratios among which the start of a shift is searched
RUNS_MIN: Final = 10  # fewest runs since a shift that make the shift certain
# A shift must exceed this multiple of the noise, because models of few runs have smaller errors in whole regions.
NOISES_MIN: Final = 1.5
AGREEING: Final = 0.9  # least share of the runs since a shift that deviate in the direction of the shift
CONFIGURATIONS_MIN: Final = 3  # fewest configurations among the runs since a shift
NOISE: Final = 0.2  # assumed standard deviation of ln ratios before the first run


class LevelShift(NamedTuple):
    """A lasting change of run times: runs that ended before `before_ms` would now take exp(`ln_factor`) times as long."""

    before_ms: int
    ln_factor: float


class Ratio(NamedTuple):
    """A scored run: time of its end, number of its configuration, and ln(actual / predicted)."""

    time_ms: int
    configuration: int
    ln_ratio: float


@dataclass(slots=True)
class LevelWatch:
    """Detects lasting shifts of the run times of an application by a CUSUM test on ln(actual / predicted).

    `noise` is the standard deviation of these ln ratios, learned from `runs` runs (at most 1000 are counted); `ratios` are the
    newest ln ratios, at most RATIOS_MAX.
    """

    noise: float = NOISE
    runs: int = 0
    cusum: Cusum = field(default_factory=Cusum)
    ratios: list[Ratio] = field(default_factory=list)

    def learn(self, ratio: Ratio, deviation: float) -> LevelShift | None:
        """Add a ratio whose predicted ln has the standard deviation `deviation`; return a shift once it is certain, else None."""
        scatter = max(self.noise, deviation)
        self.ratios = [*self.ratios, ratio._replace(ln_ratio=six_digits(ratio.ln_ratio * self.noise / scatter))]
        del self.ratios[:-RATIOS_MAX]
        self.runs = min(self.runs + 1, 1000)
        direction = self.cusum.add(clipped(ratio.ln_ratio, scatter))
        if direction is None:
            self.noise = six_digits(noise_after(self.noise, ratio.ln_ratio, self.runs))
            return None
        ln_ratios = [each.ln_ratio for each in self.ratios]
        since = self.ratios[len(ln_ratios) - max(risen(ln_ratios, self.noise, direction), 1) :]
        newest = since[began([each.ln_ratio for each in since], self.noise) :]
        if len(newest) < RUNS_MIN:
            return None
        self.cusum, self.ratios = Cusum(), []
        return _shift(newest, self.noise)

    def snapshot(self) -> dict[str, Any]:
        sums = [six_digits(self.cusum.up), six_digits(self.cusum.down)]
        return {"noise": self.noise, "runs": self.runs, "sums": sums, "ratios": [list(each) for each in self.ratios]}

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "LevelWatch":
        return cls(state["noise"], state["runs"], Cusum(*state["sums"]), [Ratio(*ratio) for ratio in state["ratios"]])


def _shift(newest: list[Ratio], noise: float) -> LevelShift | None:
    ratios, configurations = [each.ln_ratio for each in newest], [each.configuration for each in newest]
    several = len(set(configurations)) >= CONFIGURATIONS_MIN
    factor = six_digits(median(ratios))
    agreeing = sum(each * factor > 0 for each in ratios) >= AGREEING * len(ratios)
    large = matters(factor, noise) and abs(factor) > NOISES_MIN * noise
    if not (several and agreeing and large) or explained_by_one(ratios, configurations, noise) is not None:
        return None
    return LevelShift(newest[0].time_ms, factor)


# Stored runs have each name once, and all numbers as one block of 32-bit floats, base64 in JSON.
# The numbers of a run are rounded to 32 bits when the run is built (`singles`), so storing loses nothing.

STORED: Final = np.dtype("<f4")


def singles(values: Mapping[str, float]) -> dict[str, float]:
    """Round each number to 32 bits (seven digits) and sort by name; numbers that are not finite are left out.

    >>> singles({"b": 1.5, "a": 0.1, "c": 1e300})
    {'a': 0.10000000149011612, 'b': 1.5}
    """
    names = sorted(values)
    with np.errstate(over="ignore"):
        rounded = np.array([values[name] for name in names], np.float64).astype(STORED).astype(np.float64).tolist()
    return {name: value for name, value in zip(names, rounded, strict=True) if isfinite(value)}


def packed(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return rows of named numbers as plain data for JSON."""
    names = sorted({name for row in rows for name in row})
    values = matrix(rows, names).astype(STORED)
    return {"names": names, "rows": len(rows), "values": b64encode(values.tobytes()).decode()}


def unpacked(state: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the rows that `packed` stored, each with its names ascending. Raise ValueError if `state` has too few or too many values."""
    names = list(state["names"])
    values = np.frombuffer(b64decode(state["values"]), STORED).reshape(state["rows"], len(names)).astype(np.float64)
    return [{name: value for name, value in zip(names, row, strict=True) if isfinite(value)} for row in values.tolist()]


def bounded(names: Iterable[str], known: set[str], names_max: int) -> set[str]:
    """Return the names in `names` that may be used: those in `known`, and new names in alphabetical order up to `names_max` in all.

    >>> sorted(bounded(["c", "b", "a"], {"c"}, 2))
    ['a', 'c']
    """
    new = sorted(name for name in names if name not in known)
    return known.intersection(names) | set(new[: max(names_max - len(known), 0)])


RUNS_MAX: Final = 512
RUNS_LEAST: Final = 64  # fewest runs that each application retains, even with many applications
NAMES_MAX: Final = 96  # most values of one run, and most targets of one run
ALL_NAMES_MAX: Final = 128  # most different names among the values of all runs
WEIGHT_MIN: Final = 1e-6
ADVANCE_SHARE: Final = 0.05  # share of new runs from which the models are fitted again
NAMED_SHARE: Final = 0.5  # share of runs that must have a name before the name becomes a column
WAITING_MAX: Final = 0.5  # most waiting runs, as a share of the retained runs
CHOSEN_MIN: Final = 2  # runs that must have made a choice before the choice becomes a column
SHIFTS_MAX: Final = 8  # most stored level shifts, the newest ones


@dataclass(frozen=True, slots=True)
class LearnedRun:
    """The inputs of a run (`values`: rates, features, attributes by name) and its outcome (`targets`: watts, seconds).

    `weight` is 1 for an undisturbed run and less for a disturbed run; `weights` has further factors for single targets. Numbers
    that are not finite, targets that are not positive and names beyond NAMES_MAX are dropped. Raise ValueError unless each
    weight is above 0 and at most 1.
    """

    id: str
    time_ms: int
    values: Mapping[str, float]
    targets: Mapping[str, float]
    weight: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)
    place: bytes = field(init=False, repr=False, compare=False)  # hash of the id, which decides about retention

    def __post_init__(self) -> None:
        if not all(0.0 < weight <= 1.0 for weight in (self.weight, *self.weights.values())):
            raise ValueError("The weight of a run is above 0 and at most 1.")
        targets = {name: value for name, value in singles(self.targets).items() if value > 0}
        weights = {name: max(weight, WEIGHT_MIN) for name, weight in self.weights.items()}
        object.__setattr__(self, "values", row(_first(singles(self.values))))
        object.__setattr__(self, "targets", row(_first(targets)))
        object.__setattr__(self, "weights", row(singles(weights)))
        object.__setattr__(self, "place", _place(self.id))


@dataclass(slots=True)
class Reservoir:
    """The runs of an application that models are fitted to, at most `runs_max` (`retained`), and newer runs (`waiting`).

    A fit takes many ticks: `begin` chooses the runs of the next fit (`coming`), and `advance` ends the fit and makes them the
    retained runs. `gone` are the ids of retained or coming runs that were dropped since. `shifts` are the newest level shifts;
    `coming_shifts` and `retained_shifts` are those already applied to the runs of the running fit and of the current models.

    >>> reservoir = Reservoir(runs_max=2)
    >>> for number in range(5):
    ...     reservoir.add(LearnedRun(f"r{number}", number, {"x": float(number)}, {"run_time_s": 10.0}))
    >>> len(reservoir.table("run_time_s")), reservoir.due
    (0, True)
    >>> reservoir.advance()
    >>> len(reservoir.table("run_time_s")), reservoir.epoch
    (2, 1)
    """

    runs_max: int = RUNS_MAX
    retained: dict[str, LearnedRun] = field(default_factory=dict)
    waiting: dict[str, LearnedRun] = field(default_factory=dict)
    coming: dict[str, LearnedRun] | None = None
    epoch: int = 0
    gone: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    retention: Retention = EVENLY
    shifts: list[LevelShift] = field(default_factory=list)
    coming_shifts: list[LevelShift] = field(default_factory=list)
    retained_shifts: list[LevelShift] = field(default_factory=list)

    @property
    def due(self) -> bool:
        """Whether enough runs or shifts are new to fit the models again."""
        new = len(self.waiting) + len(self.gone)
        return new >= max(1.0, ADVANCE_SHARE * len(self.retained)) or self.shifts != self.retained_shifts

    @property
    def level(self) -> float:
        """The sum of the level shifts, in ln, recorded since the fit of the current models began."""
        return sum(shift.ln_factor for shift in self.shifts if shift not in self.retained_shifts)

    def shift(self, shift: LevelShift) -> None:
        """Record a level shift: from the next fit on, the targets of older runs are scaled to the new level."""
        self.shifts = [*self.shifts, shift][-SHIFTS_MAX:]

    def bound(self, bytes_max: int, runs_max: int) -> bool:
        """Retain at most `runs_max` runs and `bytes_max` bytes, but at least RUNS_LEAST runs.

        Return whether the limit in bytes removes runs.
        """
        room = max(bytes_max // room_bytes(len(self.names)), RUNS_LEAST)
        self.runs_max = min(room, runs_max)
        return room < min(len(self.retained) + len(self.waiting), runs_max)

    def add(self, run: LearnedRun) -> None:
        """Add a run for the next fit, in place of any run with the same id.

        A run that would certainly not be chosen is ignored. Values are removed if they would raise the number of different names above
        ALL_NAMES_MAX.
        """
        if self.find(run.id) is None and self._refuses(run):
            return
        room = bounded(run.values, self.names, ALL_NAMES_MAX)
        if len(room) < len(run.values):
            run = replace(run, values={name: value for name, value in run.values.items() if name in room})
        self.names |= room
        self.gone.discard(run.id)
        self.waiting[run.id] = run
        most = self.runs_max if not self.retained and self.coming is None else math.ceil(WAITING_MAX * self.runs_max)
        slack = SLACK if self.retention == BY_WHAT_THEY_ADD else 0.0
        if len(self.waiting) > most + int(slack * most):
            self.waiting = chosen(self.waiting.values(), most, self.retention)

    def begin(self) -> None:
        """Choose the runs of the next fit from retained and waiting runs. Do nothing during a fit."""
        if self.coming is None:
            stays = {name: run for name, run in self.retained.items() if name not in self.gone}
            self.coming = chosen({**stays, **self.waiting}.values(), self.runs_max, self.retention)
            self.waiting = {}
            self.coming_shifts = self.shifts
            self.names = {name for run in self.runs() for name in run.values}

    def advance(self) -> None:
        """End the current fit: retain its runs, and count the fit in `epoch` even if no new run was retained."""
        self.begin()
        self.retained, self.coming = self.coming or {}, None
        self.retained_shifts = self.coming_shifts
        self.gone &= self.retained.keys()
        self.epoch += 1

    def runs(self) -> list[LearnedRun]:
        """Return the newest version of each run, ascending by id."""
        fitted = {**self.retained, **(self.coming or {})}
        known = {name: run for name, run in fitted.items() if name not in self.gone} | self.waiting
        return [known[name] for name in sorted(known)]

    def find(self, run_id: str) -> LearnedRun | None:
        """Return the newest version of a run; None for an unknown run."""
        if run_id in self.waiting or run_id in self.gone:
            return self.waiting.get(run_id)
        return (self.coming or {}).get(run_id) or self.retained.get(run_id)

    def drop(self, run_id: str) -> bool:
        """Leave a run out of the next fit and all later fits; return False if the run is unknown."""
        if self.find(run_id) is None:
            return False
        self.waiting.pop(run_id, None)
        if run_id in self.retained or run_id in (self.coming or {}):
            self.gone.add(run_id)
        return True

    def table(self, target: str, *, now: bool = False) -> RunTable:
        """Return the runs that have `target`, ascending by id: those of the running fit or, with `now` or if no fit runs, of the last fit.

        A name is a column if at least half of the runs have it; a choice (`name=word`) needs two runs. The targets are scaled to the
        current level.
        """
        last = self.coming is None or now
        runs_by_id, shifts = (self.retained, self.retained_shifts) if last else (self.coming or {}, self.coming_shifts)
        runs = [runs_by_id[name] for name in sorted(runs_by_id) if target in runs_by_id[name].targets]
        names = _columns(runs)
        later = [sum(shift.ln_factor for shift in shifts if run.time_ms < shift.before_ms) for run in runs]
        return RunTable(
            names,
            matrix([run.values for run in runs], names),
            np.array([run.targets[target] * math.exp(ln) for run, ln in zip(runs, later, strict=True)], np.float64),
            np.array([run.weight * run.weights.get(target, 1.0) for run in runs], np.float64),
            np.arange(len(runs)),
        )

    def snapshot(self) -> dict[str, Any]:
        parts = [self.retained.values(), self.waiting.values(), (self.coming or {}).values()]
        by_object = {id(run): run for part in parts for run in part}  # each run once, even if a run is in two parts
        runs, number = list(by_object.values()), {key: i for i, key in enumerate(by_object)}
        retained, waiting, coming = ([number[id(run)] for run in part] for part in parts)
        levels = (self.shifts, self.coming_shifts, self.retained_shifts)
        return {
            "epoch": self.epoch,
            "gone": sorted(self.gone),
            "names": sorted(self.names),
            "kept": retained,
            "waiting": waiting,
            "coming": None if self.coming is None else coming,
            "ids": [run.id for run in runs],
            "times_ms": [run.time_ms for run in runs],
            "weight": [run.weight for run in runs],
            "values": packed([run.values for run in runs]),
            "targets": packed([run.targets for run in runs]),
            "weights": packed([run.weights for run in runs]),
            **({"shifts": [[list(shift) for shift in shifts] for shifts in levels]} if self.shifts else {}),
        }

    @classmethod
    def build(cls, state: Mapping[str, Any], runs_max: int = RUNS_MAX, retention: Retention = EVENLY) -> "Reservoir":
        """Rebuild the reservoir of a snapshot."""
        columns = [state[name] for name in ("ids", "times_ms", "weight")]
        rows = [unpacked(state[name]) for name in ("values", "targets", "weights")]
        runs = [_restored(*stored) for stored in zip(*columns, *rows, strict=True)]
        parts = (state["kept"], state["waiting"], state["coming"] or ())
        retained, waiting, coming = ({runs[i].id: runs[i] for i in part} for part in parts)
        counts = (state["epoch"], set(state["gone"]), set(state["names"]))
        shifts = [[LevelShift(*shift) for shift in shifts] for shifts in state.get("shifts", ((), (), ()))]
        running = None if state["coming"] is None else coming
        return cls(runs_max, retained, waiting, running, *counts, retention, *shifts)

    def _refuses(self, run: LearnedRun) -> bool:
        """Return whether `run` cannot enter an even sample: it is full, and all hashes in it are smaller."""
        stay = self.retained if self.coming is None else self.coming
        hashes = [other.place for name, other in stay.items() if name not in self.gone]
        return self.retention == EVENLY and len(hashes) >= self.runs_max and run.place >= max(hashes)


def _columns(runs: list[LearnedRun]) -> tuple[str, ...]:
    counted = Counter[str]()
    for names, count in Counter(tuple(run.values) for run in runs).items():
        counted.update(dict.fromkeys(names, count))
    least = NAMED_SHARE * len(runs)
    return tuple(sorted(name for name, count in counted.items() if count >= (CHOSEN_MIN if CHOICE in name else least)))


def _first(values: dict[str, float]) -> dict[str, float]:
    return values if len(values) <= NAMES_MAX else dict(list(values.items())[:NAMES_MAX])


def _place(run_id: str) -> bytes:
    return blake2b(run_id.encode(), digest_size=8).digest()


def _restored(name: str, time_ms: int, weight: float, *rows: Mapping[str, float]) -> LearnedRun:
    """Rebuild a stored run without `__post_init__`, because its numbers are already rounded."""
    run = object.__new__(LearnedRun)
    values, targets, weights = map(row, rows)
    stored = name, time_ms, values, targets, weight, weights, _place(name)
    for field_name, value in zip(LearnedRun.__slots__, stored, strict=True):
        object.__setattr__(run, field_name, value)
    return run
