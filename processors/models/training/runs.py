"""A bounded reservoir of runs: what all models of an application learn from.

Which runs stay follows from their ids alone: those with the least hashes (a bottom-k sample, E. Cohen, H. Kaplan,
"Summarizing data using bottom-k sketches", 2007). It is an even sample of all runs, whatever their order, and a run
that is reported again takes its own place.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from processors.models.digits import six_digits
from processors.models.training.table import CHOICE, Table

VERSION: Final = 1
RUNS_MAX: Final = 512
NAMES_MAX: Final = 64  # of values and of targets of a run, each
ADVANCE_SHARE: Final = 0.05  # so many new runs, and it is worth to fit again
NAMED_SHARE: Final = 0.5  # a column is one that this share of runs has
WAITING_MAX: Final = 1.25  # times what stays, of runs that wait
CHOSEN_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class Run:
    """What a run had (`values`: rates, features, attributes by name) and what came of it (`targets`: watts, seconds).

    `weight` is how much it counts, 1 for an undisturbed run. `group` names runs that are repeats of one another, ""
    for a run alone. What is not finite is left out, targets must be positive too; of more than NAMES_MAX names the first
    in their order stay. Raises ValueError for a weight that is not above 0 and at most 1.

    >>> Run("r1", 0, {"ipc": 1.5, "lost": float("nan")}, {"power_w": 400.0}).values
    {'ipc': 1.5}
    """

    id: str
    time_ms: int
    values: Mapping[str, float]
    targets: Mapping[str, float]
    weight: float = 1.0
    group: str = ""
    place: bytes = field(init=False, repr=False, compare=False)  # the hash of its id, which says whether it stays

    def __post_init__(self) -> None:
        """Keep what can be learned from, to six digits."""
        if not 0.0 < self.weight <= 1.0:
            raise ValueError("The weight of a run is above 0 and at most 1.")
        object.__setattr__(self, "values", _finite(self.values))
        positive = {name: value for name, value in self.targets.items() if value > 0}
        object.__setattr__(self, "targets", _finite(positive))
        object.__setattr__(self, "place", blake2b(self.id.encode(), digest_size=8).digest())


@dataclass(slots=True)
class Reservoir:
    """At most `runs_max` runs that models are fitted to (`kept`), and those that came since (`waiting`).

    A fit takes its time: `begin` says to which runs the next one is made (`coming`), `advance` that it is made.

    >>> reservoir = Reservoir(runs_max=2)
    >>> for number in range(5):
    ...     reservoir.add(Run(f"r{number}", number, {"x": float(number)}, {"run_time_s": 10.0}))
    >>> len(reservoir.table("run_time_s")), reservoir.due
    (0, True)
    >>> reservoir.advance()
    >>> len(reservoir.table("run_time_s")), reservoir.epoch
    (2, 1)
    """

    runs_max: int = RUNS_MAX
    kept: dict[str, Run] = field(default_factory=dict)
    waiting: dict[str, Run] = field(default_factory=dict)
    coming: dict[str, Run] | None = None
    epoch: int = 0
    seen: int = 0
    gone: set[str] = field(default_factory=set)

    @property
    def due(self) -> bool:
        """Whether enough is new that models should be fitted again."""
        return len(self.waiting) + len(self.gone) >= max(1.0, ADVANCE_SHARE * len(self.kept))

    def add(self, run: Run) -> None:
        """Take a run in, to be fitted to after the next `advance`; one with a known id replaces that."""
        self.seen += 1
        self.gone.discard(run.id)
        self.waiting[run.id] = run
        if len(self.waiting) > WAITING_MAX * self.runs_max:  # not at each run: sorting them takes a while
            self.waiting = _least(self.waiting, self.runs_max)

    def begin(self) -> None:
        """Let the next fit be to what came since as well; nothing where one has begun already."""
        if self.coming is None:
            stays = {name: run for name, run in self.kept.items() if name not in self.gone}
            self.coming = _least({**stays, **self.waiting}, self.runs_max)
            self.waiting = {}

    def advance(self) -> None:
        """Let the next fit be made: a new epoch, even where nothing stayed of what was new."""
        self.begin()
        self.kept, self.coming = self.coming or {}, None
        self.gone &= self.kept.keys()
        self.epoch += 1

    def runs(self) -> list[Run]:
        """Return all runs that are known, each as it was told last, in the order of their ids."""
        fitted = {**self.kept, **(self.coming or {})}
        known = {name: run for name, run in fitted.items() if name not in self.gone} | self.waiting
        return [known[name] for name in sorted(known)]

    def find(self, run_id: str) -> Run | None:
        """Return a run as it was told last; None where it is not known."""
        if run_id in self.gone:
            return self.waiting.get(run_id)
        return self.waiting.get(run_id) or (self.coming or {}).get(run_id) or self.kept.get(run_id)

    def drop(self, run_id: str) -> bool:
        """Take a run away; the models of now are still made of it, the next ones not. False where it is not known."""
        if self.find(run_id) is None:
            return False
        self.waiting.pop(run_id, None)
        if run_id in self.kept or run_id in (self.coming or {}):
            self.gone.add(run_id)
        return True

    def forget(self, before_ms: int) -> None:
        """Take away runs that are older: after a change they tell what is no more."""
        for run in self.runs():
            if run.time_ms < before_ms:
                self.drop(run.id)

    def table(self, target: str) -> Table:
        """Return the runs of the coming fit, or of the last one, that have the target, sorted by id.

        Its columns are those that most of these runs have, sorted by name; of choices (`name=word`) those that
        two runs or more made.
        """
        known = self.kept if self.coming is None else self.coming
        runs = [known[name] for name in sorted(known) if target in known[name].targets]
        counts: dict[str, int] = {}
        for run in runs:
            for name in run.values:
                counts[name] = counts.get(name, 0) + 1
        names = tuple(sorted(name for name, count in counts.items() if count >= _wanted(name, len(runs))))
        rows = [[run.values.get(name, math.nan) for name in names] for run in runs]
        groups = {name: i for i, name in enumerate(sorted({run.group or run.id for run in runs}))}
        return Table(
            names,
            np.array(rows, dtype=np.float64).reshape(len(runs), len(names)),
            np.array([run.targets[target] for run in runs], dtype=np.float64),
            np.array([run.weight for run in runs], dtype=np.float64),
            np.array([groups[run.group or run.id] for run in runs], dtype=np.int64),
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data.

        >>> reservoir = Reservoir()
        >>> reservoir.add(Run("r1", 0, {"x": 1.0}, {"power_w": 300.0}))
        >>> Reservoir.build(reservoir.snapshot()) == reservoir
        True
        """
        return {
            "version": VERSION,
            "runs_max": self.runs_max,
            "epoch": self.epoch,
            "seen": self.seen,
            "kept": [_plain(run) for run in self.kept.values()],
            "waiting": [_plain(run) for run in self.waiting.values()],
            "gone": sorted(self.gone),
            "coming": None if self.coming is None else [_plain(run) for run in self.coming.values()],
        }

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "Reservoir":
        """Return the reservoir of a snapshot; ValueError where that is of another version."""
        if state["version"] != VERSION:
            raise ValueError("The snapshot of a reservoir is of another version.")
        kept, waiting = _runs(state["kept"]), _runs(state["waiting"])
        coming = None if state["coming"] is None else _runs(state["coming"])
        return cls(state["runs_max"], kept, waiting, coming, state["epoch"], state["seen"], set(state["gone"]))


def _wanted(name: str, runs: int) -> float:
    """Return how many of the runs must have a name for it to be a column."""
    return CHOSEN_MIN if CHOICE in name else NAMED_SHARE * runs


def _least(runs: dict[str, Run], count: int) -> dict[str, Run]:
    """Return the runs with the least hashes, in that order."""
    ordered = sorted(runs.values(), key=lambda run: (run.place, run.id))
    return {run.id: run for run in ordered[:count]}


def _plain(run: Run) -> list[Any]:
    return [run.id, run.time_ms, dict(run.values), dict(run.targets), run.weight, run.group]


def _runs(plain: Sequence[Sequence[Any]]) -> dict[str, Run]:
    return {run.id: run for run in (Run(*each) for each in plain)}


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    known = sorted((name, six_digits(value)) for name, value in values.items() if math.isfinite(value))
    return dict(known[:NAMES_MAX])
