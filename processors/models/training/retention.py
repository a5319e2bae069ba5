"""Rules for the runs that stay in a full reservoir, and a compact form of their numbers.

If future runs resemble past ones an even sample teaches most: on measured data, keeping runs with large errors or in sparse
regions was worse. An even sample only wastes room on similar runs and on old ones.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

RECENT: Final = 0.5  # share of room for the newest runs
REPEATS: Final = 4  # identical runs that stay before others get their turn
ROW_BYTES: Final = 560  # memory of a run without its numbers, measured
NUMBER_BYTES: Final = 6  # memory of each number


class Retained(Protocol):
    """The fields of a run that decide whether it stays."""

    @property
    def id(self) -> str: ...

    @property
    def time_ms(self) -> int: ...

    @property
    def values(self) -> Mapping[str, float]: ...

    @property
    def place(self) -> bytes:
        """The hash of the id."""


R = TypeVar("R", bound=Retained)


class NumberRow(Mapping[str, float]):
    """Named numbers of a run in little memory: 32 bits each, and one dict of names shared by all runs.

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
        for name in names:
            totals[name] += count
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
    than one run is worth. `refuses` returns True if a new run would certainly not stay. `packs` stores identities as blocks.
    """

    chosen: Callable[[Iterable[Any], int], dict[str, Any]]
    slack: float = 0.0
    refuses: Callable[[Retained, Iterable[Retained], int], bool] = lambda _run, _stay, _count: False
    packs: bool = False


def with_least_hashes(runs: Iterable[R], count: int) -> dict[str, R]:
    """Return the `count` runs with the smallest hashes, ascending: an even sample.

    >>> from processors.models.training.runs import LearnedRun
    >>> len(with_least_hashes([LearnedRun(f"r{i}", i, {}, {}) for i in range(9)], 4))
    4
    """
    return {run.id: run for run in sorted(runs, key=lambda run: (run.place, run.id))[:count]}


def beyond_least_hashes(run: Retained, stay: Iterable[Retained], count: int) -> bool:
    """Return whether `count` runs stay already, all with smaller hashes than this run."""
    places = [each.place for each in stay]
    return len(places) >= count and run.place >= max(places)


def that_add_most(runs: Iterable[R], count: int) -> dict[str, R]:
    """Return the newest runs for half of the room, and few identical ones of the others before more of them, by their hashes.

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
    for age, run in enumerate(newest):
        key = tuple(run.values.items())
        repeats = alike.get(key, 0)
        alike[key] = repeats + 1
        ranked.append((age >= RECENT * count, repeats // REPEATS, run.place, run.id, run))
    ranked.sort(key=lambda entry: entry[:-1])
    return with_least_hashes((entry[-1] for entry in ranked[:count]), count)


EVENLY: Final = Retention(with_least_hashes, refuses=beyond_least_hashes)
BY_WHAT_THEY_ADD: Final = Retention(that_add_most, slack=1 / 8, packs=True)
