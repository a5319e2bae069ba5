"""Which runs stay where there are too many, and how little room one takes.

An even sample of all runs is the best to learn from where the runs to come are like those that came: runs that a model was far
off, or that lie where few are, teach less on measured data. What it wastes room on is runs that are alike, and runs of long ago.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

RECENT: Final = 0.5  # the share of room that the newest runs have, whatever they are
REPEATS: Final = 4  # runs alike that stay before any other has as many
ROW_BYTES: Final = 560  # of a run in memory, measured,
NUMBER_BYTES: Final = 6  # and of each of its numbers


class Retained(Protocol):
    """What has to be known of a run to say whether it stays."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def time_ms(self) -> int:
        """When it ended."""

    @property
    def values(self) -> Mapping[str, float]:
        """What it had, names in order."""

    @property
    def place(self) -> bytes:
        """The hash of its name."""


R = TypeVar("R", bound=Retained)


class NumberRow(Mapping[str, float]):
    """Named numbers of a run in as little room as they need: 32 bits each, and names that runs share.

    >>> row = NumberRow({"ipc": 1.5, "clock": 2.0})
    >>> dict(row), row["ipc"], row == {"ipc": 1.5, "clock": 2.0}
    ({'ipc': 1.5, 'clock': 2.0}, 1.5, True)
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
    """Return where each name stands; runs of an application share what is returned."""
    return {name: at for at, name in enumerate(names)}


_NONE: Final = NumberRow({})


def row(values: Mapping[str, float]) -> NumberRow:
    """Return named numbers as a row; all that have none are one, and one that is a row stays.

    >>> row({}) is row({})
    True
    """
    if isinstance(values, NumberRow):
        return values
    return NumberRow(values) if values else _NONE


def counts(rows: Iterable[Mapping[str, float]]) -> dict[str, int]:
    """Return how many rows have each name.

    >>> counts([{"a": 1.0}, {"b": 2.0, "a": 3.0}])
    {'a': 2, 'b': 1}
    """
    found = Counter[str]()
    for names, count in Counter(tuple(each) for each in rows).items():
        for name in names:
            found[name] += count
    return dict(found)


def matrix(rows: Iterable[Mapping[str, float]], names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the numbers of these names, (rows, names), nan where a row has none.

    Rows with the same names are taken at once: one by one, 2,048 rows of forty names held the fold for a fifth of a second.

    >>> matrix([{"a": 1.0}, {"b": 2.0, "a": 3.0}], ("a", "b")).tolist()
    [[1.0, nan], [3.0, 2.0]]
    """
    every, alike = [row(each) for each in rows], defaultdict[int, list[int]](list)
    for at, each in enumerate(every):
        alike[id(each.places)].append(at)
    found = np.full((len(every), len(names)), np.nan)
    for ats in alike.values():
        places = every[ats[0]].places
        known = [column for column, name in enumerate(names) if name in places]
        block = np.array([every[at].numbers for at in ats], dtype=np.float64).reshape(len(ats), len(places))
        found[np.ix_(ats, known)] = block[:, [places[names[column]] for column in known]]
    return found


def room_bytes(names: int) -> int:
    """Return the bytes of memory that a run with so many numbers takes.

    >>> room_bytes(10)
    620
    """
    return ROW_BYTES + NUMBER_BYTES * names


@dataclass(frozen=True, slots=True)
class Retention:
    """A rule that says which runs stay; it follows from the runs alone, not from their order.

    `chosen` are those that stay, at most so many. `slack` is by which share too many may wait before some go, where a choice costs
    more than one run is worth. `refuses` says that a run would not stay beside those there, where that can be seen at once.
    `packs` says that identities are stored as blocks.
    """

    chosen: Callable[[Iterable[Any], int], dict[str, Any]]
    slack: float = 0.0
    refuses: Callable[[Retained, Iterable[Retained], int], bool] = lambda _run, _stay, _count: False
    packs: bool = False


def with_least_hashes(runs: Iterable[R], count: int) -> dict[str, R]:
    """Return the runs with the least hashes, in that order: an even sample of all.

    >>> from processors.models.training.runs import LearnedRun
    >>> len(with_least_hashes([LearnedRun(f"r{i}", i, {}, {}) for i in range(9)], 4))
    4
    """
    return {run.id: run for run in sorted(runs, key=lambda run: (run.place, run.id))[:count]}


def beyond_least_hashes(run: Retained, stay: Iterable[Retained], count: int) -> bool:
    """Return whether a run has a larger hash than all that stay, where these are as many as may.

    >>> from processors.models.training.runs import LearnedRun
    >>> first, last = sorted((LearnedRun(f"r{i}", i, {}, {}) for i in range(2)), key=lambda run: run.place)
    >>> beyond_least_hashes(last, [first], 1), beyond_least_hashes(first, [last], 1), beyond_least_hashes(last, [first], 2)
    (True, False, False)
    """
    places = [each.place for each in stay]
    return len(places) >= count and run.place >= max(places)


def that_add_most(runs: Iterable[R], count: int) -> dict[str, R]:
    """Return the newest runs, for half of the room, and of the others few of those alike before more of them, by their hashes.

    It depends on the runs alone, not on their order.

    >>> from processors.models.training.runs import LearnedRun
    >>> runs = [LearnedRun(f"r{i}", i, {"mesh": 1.0 if i else 2.0}, {}) for i in range(90)]
    >>> len(that_add_most(runs, 20)), "r0" in that_add_most(runs, 20)
    (20, True)
    """
    every = list(runs)
    if len(every) <= count:
        return with_least_hashes(every, count)
    newest = sorted(every, key=lambda run: (-run.time_ms, run.place, run.id))
    alike: dict[NumberRow | tuple[tuple[str, float], ...], int] = {}
    ranked = []
    for at, run in enumerate(newest):
        own = tuple(run.values.items())
        before = alike.get(own, 0)
        alike[own] = before + 1
        ranked.append((at >= RECENT * count, before // REPEATS, run.place, run.id, run))
    ranked.sort(key=lambda each: each[:-1])
    return with_least_hashes((each[-1] for each in ranked[:count]), count)


EVENLY: Final = Retention(with_least_hashes, refuses=beyond_least_hashes)
BY_WHAT_THEY_ADD: Final = Retention(that_add_most, slack=1 / 8, packs=True)
