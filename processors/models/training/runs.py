"""A bounded reservoir of runs that all models of an application learn from.

By default the runs with the smallest hashes of their ids stay (a bottom-k sample, E. Cohen, H. Kaplan, "Summarizing data using
bottom-k sketches", 2007). The result is an even sample of all runs in any order, and a corrected run replaces itself. If future
runs resemble past runs, an even sample teaches most: on measured data, keeping runs with large errors or in sparse regions was
worse. The disadvantage of an even sample is that it keeps many similar and old runs, so `BY_WHAT_THEY_ADD` is another rule.
"""

import math
from array import array
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.drift import Cusum, began, clipped, explained_by_one, matters, noise_after, risen
from processors.models.numerics.statistics import six_digits
from processors.models.training.table import CHOICE, RunTable

RECENT: Final = 0.5  # share of the capacity for the newest runs
REPEATS: Final = 4  # identical runs that stay before other runs are chosen
ROW_BYTES: Final = 560  # memory of a run without its numbers, measured
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

    def __hash__(self) -> int:
        return hash((tuple(self.places), self.numbers.tobytes()))


@lru_cache(maxsize=4096)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    """Return the position of each name, cached so that the runs of an application share the dict."""
    return {name: at for at, name in enumerate(names)}


_NONE: Final = NumberRow({})


def row(values: Mapping[str, float]) -> NumberRow:
    """Return named numbers as a NumberRow; all empty ones are the same object."""
    if isinstance(values, NumberRow):
        return values
    return NumberRow(values) if values else _NONE


def counts(rows: Iterable[Mapping[str, float]]) -> dict[str, int]:
    """Return the number of rows that have each name.

    >>> counts([{"a": 1.0}, {"b": 2.0, "a": 3.0}])
    {'a': 2, 'b': 1}
    """
    totals = Counter[str]()
    for names, count in Counter(tuple(row) for row in rows).items():
        totals.update(dict.fromkeys(names, count))
    return dict(totals)


def matrix(rows: Iterable[Mapping[str, float]], names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the numbers of these names, (rows, names), nan if a row lacks one.

    Rows with the same names are converted together: one by one, 2,048 rows of forty names took a fifth of a second.

    >>> matrix([{"a": 1.0}, {"b": 2.0, "a": 3.0}], ("a", "b")).tolist()
    [[1.0, nan], [3.0, 2.0]]
    """
    every, alike = [row(number_row) for number_row in rows], defaultdict[int, list[int]](list)
    for position, number_row in enumerate(every):
        alike[id(number_row.places)].append(position)
    values = np.full((len(every), len(names)), np.nan)
    for positions in alike.values():
        places = every[positions[0]].places
        columns = [column for column, name in enumerate(names) if name in places]
        block = np.array([every[position].numbers for position in positions], dtype=np.float64).reshape(
            len(positions), len(places)
        )
        values[np.ix_(positions, columns)] = block[:, [places[names[column]] for column in columns]]
    return values


def room_bytes(names: int) -> int:
    """Return the memory of a run with `names` numbers, in bytes."""
    return ROW_BYTES + NUMBER_BYTES * names


@dataclass(frozen=True, slots=True)
class Retention:
    """A rule for the runs that stay; it depends on the runs alone, not on their order.

    `chosen` returns at most a number of runs that stay. `slack` is the share of surplus runs that may wait, if choosing costs more
    than one run is worth. `refuses` returns True if a new run would certainly not stay.
    """

    chosen: "Callable[[Iterable[LearnedRun], int], dict[str, LearnedRun]]"
    slack: float = 0.0
    refuses: "Callable[[LearnedRun, Iterable[LearnedRun], int], bool]" = lambda _run, _stay, _count: False


def with_least_hashes(runs: "Iterable[LearnedRun]", count: int) -> "dict[str, LearnedRun]":
    """Return the `count` runs with the smallest hashes, ascending: an even sample."""
    return {run.id: run for run in sorted(runs, key=lambda run: (run.place, run.id))[:count]}


def beyond_least_hashes(run: "LearnedRun", stay: "Iterable[LearnedRun]", count: int) -> bool:
    """Return whether the reservoir has `count` runs already, all with smaller hashes than `run`."""
    places = [each.place for each in stay]
    return len(places) >= count and run.place >= max(places)


def that_add_most(runs: "Iterable[LearnedRun]", count: int) -> "dict[str, LearnedRun]":
    """Return the newest runs for half of the room, and few identical ones of the others before more of them, by their hashes."""
    every = list(runs)
    if len(every) <= count:
        return with_least_hashes(every, count)
    newest = sorted(every, key=lambda run: (-run.time_ms, run.place, run.id))
    repeats = Counter[tuple[tuple[str, float], ...]]()
    ranks: dict[str, tuple[bool, int, bytes, str]] = {}
    for age, run in enumerate(newest):
        key = tuple(run.values.items())
        ranks[run.id] = age >= RECENT * count, repeats[key] // REPEATS, run.place, run.id
        repeats[key] += 1
    return with_least_hashes(sorted(every, key=lambda run: ranks[run.id])[:count], count)


EVENLY: Final = Retention(with_least_hashes, refuses=beyond_least_hashes)
BY_WHAT_THEY_ADD: Final = Retention(that_add_most, slack=1 / 8)


RATIOS_MAX: Final = 32  # newest ratios, among which a shift began
RUNS_MIN: Final = 10  # runs since a shift before it is certain
# a shift has to exceed this multiple of the noise, because models of few runs are off by less in whole regions
NOISES_MIN: Final = 1.5
AGREEING: Final = 0.9  # share of these runs that deviate in the direction of the shift
CONFIGURATIONS_MIN: Final = 3  # configurations among these runs
NOISE: Final = 0.2  # deviation of ln ratios before the first run


class LevelShift(NamedTuple):
    """A lasting change: runs that ended before `before_ms` would take exp(`ln_factor`) times as long now."""

    before_ms: int
    ln_factor: float


class Ratio(NamedTuple):
    """A scored run: when it ended, the number of its configuration, and ln(actual / predicted)."""

    time_ms: int
    configuration: int
    ln_ratio: float


@dataclass(slots=True)
class LevelWatch:
    """Detects lasting shifts from the newest ratios of an application, their usual scatter, and two cumulative sums."""

    noise: float = NOISE
    runs: int = 0
    cusum: Cusum = field(default_factory=Cusum)
    ratios: list[Ratio] = field(default_factory=list)

    def learn(self, ratio: Ratio, deviation: float) -> LevelShift | None:
        """Add a ratio whose prediction had this deviation; return the shift that it makes certain, if any."""
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
        ratios = [Ratio(int(time_ms), int(of), float(ratio)) for time_ms, of, ratio in state["ratios"]]
        return cls(state["noise"], state["runs"], Cusum(*state["sums"]), ratios)


def _shift(newest: list[Ratio], noise: float) -> LevelShift | None:
    ratios, configurations = [each.ln_ratio for each in newest], [each.configuration for each in newest]
    several = len(set(configurations)) >= CONFIGURATIONS_MIN
    factor = six_digits(median(ratios))
    agreeing = sum(each * factor > 0 for each in ratios) >= AGREEING * len(ratios)
    large = matters(factor, noise) and abs(factor) > NOISES_MIN * noise
    if not (several and agreeing and large) or explained_by_one(ratios, configurations, noise) is not None:
        return None
    return LevelShift(newest[0].time_ms, factor)


def at_level_of_now(time_ms: int, shifts: list[LevelShift]) -> float:
    """Return the factor from the run time of a run at `time_ms` to the run time of the same run now."""
    return math.exp(sum(shift.ln_factor for shift in shifts if time_ms < shift.before_ms))


# Stored runs: the names once, and all numbers as one block of 32-bit floats, base64 in JSON.
# The numbers of a run are rounded to 32 bits when it is built (`singles`), so storing loses nothing.

STORED: Final = np.dtype("<f4")


def singles(values: Mapping[str, float]) -> dict[str, float]:
    """Return each number rounded to 32 bits (seven digits), names ascending, without numbers that are not finite.

    >>> singles({"b": 1.5, "a": 0.1, "c": 1e300})
    {'a': 0.10000000149011612, 'b': 1.5}
    """
    names = sorted(values)
    with np.errstate(over="ignore"):
        found = np.array([values[name] for name in names], np.float64).astype(STORED).astype(np.float64).tolist()
    return {name: value for name, value in zip(names, found, strict=True) if isfinite(value)}


def packed(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return rows of named numbers as plain data for JSON."""
    names = sorted({name for row in rows for name in row})
    values = matrix(rows, names).astype(STORED)
    return {"names": names, "rows": len(rows), "values": b64encode(values.tobytes()).decode()}


def unpacked(state: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the rows that `packed` stored, names ascending; ValueError if the number of values does not fit."""
    names = list(state["names"])
    values = np.frombuffer(b64decode(state["values"]), STORED).reshape(state["rows"], len(names)).astype(np.float64)
    if np.isfinite(values).all():
        return [dict(zip(names, row, strict=True)) for row in values.tolist()]
    return [{name: value for name, value in zip(names, row, strict=True) if isfinite(value)} for row in values.tolist()]


def bounded(names: Iterable[str], known: set[str], names_max: int) -> set[str]:
    """Return the names that are known, and as many of the new names as `names_max` allows, in ascending order.

    >>> sorted(bounded(["c", "b", "a"], {"c"}, 2))
    ['a', 'c']
    """
    new = sorted(name for name in names if name not in known)
    return known.intersection(names) | set(new[: max(names_max - len(known), 0)])


VERSION: Final = 1
RUNS_MAX: Final = 512
RUNS_LEAST: Final = 64  # runs that each application retains, however many applications there are
NAMES_MAX: Final = 96  # names of values of one run, and of its targets
ALL_NAMES_MAX: Final = 128  # names of values of all runs together
WEIGHT_MIN: Final = 1e-6
ADVANCE_SHARE: Final = 0.05  # share of new runs that makes a new fit worthwhile
NAMED_SHARE: Final = 0.5  # share of runs that must have a name before it is a column
WAITING_MAX: Final = 0.5  # waiting runs, as a share of the retained ones
CHOSEN_MIN: Final = 2
SHIFTS_MAX: Final = 8  # newest level shifts


@dataclass(frozen=True, slots=True)
class LearnedRun:
    """The inputs of a run (`values`: rates, features, attributes by name) and its outcome (`targets`: watts, seconds).

    `weight` is 1 for an undisturbed run and less for others; `weights` multiplies it for single targets. `group` names runs
    that repeat one another, "" for a run alone. Numbers that are not finite and targets that are not positive are dropped;
    of more than NAMES_MAX names the first stay. Raises ValueError unless weights are above 0 and at most 1.
    """

    id: str
    time_ms: int
    values: Mapping[str, float]
    targets: Mapping[str, float]
    weight: float = 1.0
    group: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    place: bytes = field(init=False, repr=False, compare=False)  # hash of the id, which decides whether the run stays

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
    """At most `runs_max` runs that models are fitted to (`retained`), and the runs that ended since (`waiting`).

    A fit takes time: `begin` fixes the runs of the next fit (`coming`), `advance` ends it. `gone` are dropped runs, which the
    current models still contain until the next fit.

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
    seen: int = 0
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
        """The shift in ln since the last fit that the models do not know yet."""
        return sum(shift.ln_factor for shift in self.shifts if shift not in self.retained_shifts)

    def shift(self, shift: LevelShift) -> None:
        """Correct older runs to a new level in each target, from the next fit on."""
        self.shifts = [*self.shifts, shift][-SHIFTS_MAX:]

    def bound(self, bytes_max: int, runs_max: int) -> bool:
        """Retain at most `runs_max` runs and `bytes_max` bytes, but at least RUNS_LEAST runs.

        Return whether the limit in bytes removes runs.
        """
        room = max(bytes_max // room_bytes(len(self.names)), RUNS_LEAST)
        self.runs_max = min(room, runs_max)
        return room < min(len(self.retained) + len(self.waiting), runs_max)

    def add(self, run: LearnedRun) -> None:
        """Add a run for the fit after the next `advance`; it replaces a run with the same id.

        A run that the retention refuses is ignored. Names beyond ALL_NAMES_MAX are removed from the run.
        """
        self.seen += 1
        if self.find(run.id) is None and not self._room(run):
            return
        room = bounded(run.values, self.names, ALL_NAMES_MAX)
        if len(room) < len(run.values):
            run = replace(run, values={name: value for name, value in run.values.items() if name in room})
        self.names |= room
        self.gone.discard(run.id)
        self.waiting[run.id] = run
        most = self.runs_max if not self.retained and self.coming is None else math.ceil(WAITING_MAX * self.runs_max)
        if len(self.waiting) > most + int(self.retention.slack * most):
            self.waiting = self.retention.chosen(self.waiting.values(), most)

    def begin(self) -> None:
        """Fix the runs of the next fit: retained and waiting ones. Does nothing while a fit is under way."""
        if self.coming is None:
            stays = {name: run for name, run in self.retained.items() if name not in self.gone}
            self.coming = self.retention.chosen({**stays, **self.waiting}.values(), self.runs_max)
            self.waiting = {}
            self.coming_shifts = self.shifts
            self.names = {name for run in self.runs() for name in run.values}

    def advance(self) -> None:
        """End the current fit: its runs are the retained ones now, and `epoch` grows even if no new run stayed."""
        self.begin()
        self.retained, self.coming = self.coming or {}, None
        self.retained_shifts = self.coming_shifts
        self.gone &= self.retained.keys()
        self.epoch += 1

    def runs(self) -> list[LearnedRun]:
        """Return all runs in their newest version, ascending by id."""
        fitted = {**self.retained, **(self.coming or {})}
        known = {name: run for name, run in fitted.items() if name not in self.gone} | self.waiting
        return [known[name] for name in sorted(known)]

    def find(self, run_id: str) -> LearnedRun | None:
        """Return the newest version of a run; None if it is unknown."""
        if run_id in self.waiting or run_id in self.gone:
            return self.waiting.get(run_id)
        return (self.coming or {}).get(run_id) or self.retained.get(run_id)

    def drop(self, run_id: str) -> bool:
        """Remove a run from the next fit on; return False if it is unknown."""
        if self.find(run_id) is None:
            return False
        self.waiting.pop(run_id, None)
        if run_id in self.retained or run_id in (self.coming or {}):
            self.gone.add(run_id)
        return True

    def forget(self, before_ms: int) -> None:
        """Remove runs that ended before a moment, because a change made them obsolete."""
        for run in self.runs():
            if run.time_ms < before_ms:
                self.drop(run.id)

    def table(self, target: str, columns: tuple[str, ...] = ("",), *, now: bool = False) -> RunTable:
        """Return the runs that have the target, ascending by id: those of the coming fit if any, unless `now`, else of the last fit.

        A column is a name that begins with one of `columns` and that most of these runs have; a choice (`name=word`) needs two
        runs.
        """
        last = self.coming is None or now
        runs_by_id, shifts = (self.retained, self.retained_shifts) if last else (self.coming or {}, self.coming_shifts)
        runs = [runs_by_id[name] for name in sorted(runs_by_id) if target in runs_by_id[name].targets]
        names = _columns(runs, columns)
        groups = {name: i for i, name in enumerate(sorted({run.group or run.id for run in runs}))}
        return RunTable(
            names,
            matrix([run.values for run in runs], names),
            np.array([run.targets[target] * at_level_of_now(run.time_ms, shifts) for run in runs], dtype=np.float64),
            np.array([run.weight * run.weights.get(target, 1.0) for run in runs], dtype=np.float64),
            np.array([groups[run.group or run.id] for run in runs], dtype=np.int64),
        )

    def snapshot(self) -> dict[str, Any]:
        places = [self.retained.values(), self.waiting.values(), (self.coming or {}).values()]
        by_object = {
            id(run): run for place in places for run in place
        }  # each run once, even if it is in two parts of the reservoir
        runs, number = list(by_object.values()), {key: i for i, key in enumerate(by_object)}
        retained, waiting, coming = ([number[id(run)] for run in place] for place in places)
        levels = (self.shifts, self.coming_shifts, self.retained_shifts)
        return {
            "version": VERSION,
            "runs_max": self.runs_max,
            "epoch": self.epoch,
            "seen": self.seen,
            "gone": sorted(self.gone),
            "names": sorted(self.names),
            "kept": retained,
            "waiting": waiting,
            "coming": None if self.coming is None else coming,
            "runs": _identities(runs),
            "values": packed([run.values for run in runs]),
            "targets": packed([run.targets for run in runs]),
            "weights": packed([run.weights for run in runs]),
            **({"shifts": [[list(key) for key in place] for place in levels]} if self.shifts else {}),
        }

    @classmethod
    def build(cls, state: Mapping[str, Any], runs_max: int | None = None, retention: Retention = EVENLY) -> "Reservoir":
        """Rebuild the reservoir of a snapshot, with a new `runs_max` if given; ValueError for another version."""
        if state["version"] != VERSION:
            raise ValueError("The snapshot of a reservoir is of another version.")
        columns = zip(
            _identified(state["runs"]),
            *(unpacked(state[name]) for name in ("values", "targets", "weights")),
            strict=True,
        )
        runs = [_restored(each, values, targets, weights) for each, values, targets, weights in columns]
        retained, waiting = ({runs[i].id: runs[i] for i in state[place]} for place in ("kept", "waiting"))
        coming = None if state["coming"] is None else {runs[i].id: runs[i] for i in state["coming"]}
        counts = (state["epoch"], state["seen"], set(state["gone"]), set(state["names"]))
        shifts = [[LevelShift(*each) for each in place] for place in state.get("shifts", ((), (), ()))]
        return cls(runs_max or state["runs_max"], retained, waiting, coming, *counts, retention, *shifts)

    def _room(self, run: LearnedRun) -> bool:
        stay = self.retained if self.coming is None else self.coming
        others = (other for name, other in stay.items() if name not in self.gone)
        return not self.retention.refuses(run, others, self.runs_max)


def _columns(runs: list[LearnedRun], prefixes: tuple[str, ...]) -> tuple[str, ...]:
    counted = counts(run.values for run in runs)
    least = NAMED_SHARE * len(runs)
    frequent = (name for name, count in counted.items() if count >= (CHOSEN_MIN if CHOICE in name else least))
    return tuple(sorted(name for name in frequent if name.startswith(prefixes)))


def _first(values: dict[str, float]) -> dict[str, float]:
    return values if len(values) <= NAMES_MAX else dict(list(values.items())[:NAMES_MAX])


def _place(run_id: str) -> bytes:
    return blake2b(run_id.encode(), digest_size=8).digest()


def _identities(runs: Sequence[LearnedRun]) -> Any:
    """Return ids, times, weights and groups in stored form; packed if weights and groups are the default."""
    if any(run.weight < 1.0 or run.group for run in runs):
        return [[run.id, run.time_ms, run.weight, run.group] for run in runs]
    times = np.array([run.time_ms for run in runs], "<i8")
    return {"ids": [run.id for run in runs], "times_ms": b64encode(times.tobytes()).decode()}


def _identified(stored: Any) -> list[Sequence[Any]]:
    if isinstance(stored, list):
        return stored
    times = np.frombuffer(b64decode(stored["times_ms"]), "<i8").tolist()
    return [(name, time_ms, 1.0, "") for name, time_ms in zip(stored["ids"], times, strict=True)]


def _restored(identity: Sequence[Any], *rows: Mapping[str, float]) -> LearnedRun:
    """Rebuild a stored run without `__post_init__`: its numbers are rounded already."""
    run = object.__new__(LearnedRun)
    name, time_ms, weight, group = identity
    values, targets, weights = (row(numbers) for numbers in rows)
    fields = {"id": name, "time_ms": time_ms, "values": values, "targets": targets, "weight": weight, "group": group}
    for field_name, value in (fields | {"weights": weights, "place": _place(name)}).items():
        object.__setattr__(run, field_name, value)
    return run
