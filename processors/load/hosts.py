"""The hosts whose load tells: which they are, what their windows say, and what is missing of it.

A job that runs has hosts of its own, and each of them counts with its own window. A job that is to run on some hosts of a
partition, or of a list that is longer than it needs, meets each as likely as any other: their windows are pooled. Where
there are too many hosts to look at each, those looked at are spread evenly over their order, the same ones each time.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import HostWindow, Windows
from processors.contracts.nodes import spread
from processors.models.histogram.arithmetic import mixture
from processors.models.histogram.values import Floats, Histogram, in_common

LOOKED_AT_MAX: Final = 128
AGE_MAX_MS: Final = 900_000  # a window that ended longer before says nothing of the moment
KNOWN_MIN: Final = 0.5  # of the hosts looked at
WORDS_MAX: Final = 60


View = Literal["own", "pool"]


class Place(NamedTuple):
    """Where a job runs or may run: `names` are the hosts looked at, `hosts` is how many it has.

    `view` tells whether these are a job's own hosts, or a pool of which it gets some; `each` whether all of its own are
    looked at. `first` is the host that leads it, where that is known.
    """

    system: str
    names: tuple[str, ...]
    hosts: float
    view: View
    each: bool
    words: str
    first: str | None = None


class Load(NamedTuple):
    """What windows say of one resource: `rows` (k, m) of histograms, and how many hosts each stands for, `counts` (k,).

    `missing`, `stale` and `thin` are counts of hosts among those looked at. `range_max` is the longest range of a window.
    """

    rows: Histogram
    counts: Floats
    missing: int
    stale: int
    thin: int
    range_max: float


class TooLittleError(Exception):
    """Too little is known for a figure; the text is a sentence that says what, `missing` how many hosts have no window."""

    def __init__(self, sentence: str, missing: int = 0) -> None:
        super().__init__(sentence)
        self.missing = missing


def of_hosts(system: str, texts: Sequence[str], count: float | None = None) -> Place:
    """Return the place of some host lists; a job that needs `count` of them gets any. TooLittleError for no hosts."""
    try:
        named, names = spread(texts, LOOKED_AT_MAX)
    except InvalidInputError as error:
        raise TooLittleError(str(error)) from error
    if not named:
        raise TooLittleError("No host is named.")
    needed = named if count is None else count
    if needed > named:
        raise TooLittleError(f"{needed:g} hosts are needed, {named} are named.")
    text = ",".join(texts)
    words = text if len(text) <= WORDS_MAX else f"{named} hosts"
    if needed < named:
        return Place(system, names, needed, "pool", each=False, words=f"{needed:g} of {words}")
    return Place(system, names, needed, "own", each=len(names) == named, words=words, first=names[0])


def of_partition(windows: Windows, system: str, partition: str, count: float) -> Place:
    """Return the place of a job that needs `count` hosts of a partition. TooLittleError where none of them is known."""
    known = windows.hosts_of(system, partition)
    if not known:
        raise TooLittleError(f"No host of partition {partition} is known.")
    step = max(len(known) / LOOKED_AT_MAX, 1.0)
    names = tuple(known[int(i * step)] for i in range(min(len(known), LOOKED_AT_MAX)))
    return Place(system, names, count, "pool", each=False, words=f"partition {partition}")


def load(windows: Windows, place: Place, resource: str, until_ms: int) -> Load:
    """Return what the windows before a moment say of a resource; TooLittleError where too many are missing.

    Hosts of its own without a window are taken to be like the others.
    """
    found = [_window(windows, place, name, resource, until_ms) for name in place.names]
    held = [window for window in found if window is not None]
    missing = len(found) - len(held)
    if len(held) < KNOWN_MIN * len(found):
        raise TooLittleError(f"{missing} of {len(found)} hosts have no window of {resource}.", missing)
    each = in_common([window.edges for window in held], [_even(window.shares) for window in held])
    rows, counts = _rows(found, each, place)
    stale, thin = sum(window.stale for window in held), sum(window.thin for window in held)
    return Load(rows, counts, missing, stale, thin, float((each.edges[:, -1] - each.edges[:, 0]).max()))


def first_window(windows: Windows, place: Place, resource: str, until_ms: int) -> Histogram | None:
    """Return the window of the host that leads a job; None where it has none, or is not known."""
    window = _window(windows, place, place.first, resource, until_ms) if place.first else None
    return in_common([window.edges], [_even(window.shares)]).host(0) if window else None


def pooled(found: Load) -> Histogram:
    """Return the window of a host picked from all."""
    return mixture(found.rows, found.counts)


def _rows(found: Sequence[HostWindow | None], each: Histogram, place: Place) -> tuple[Histogram, Floats]:
    """Return a row for each host in their order, the pool in the place of a window that is missing; or the pool alone."""
    if place.each and None not in found:
        return each, np.ones(each.hosts)
    pool = mixture(each)
    if not place.each:
        return Histogram(pool.edges[None], pool.shares[None]), np.array([float(place.hosts)])
    edges = [pool.edges.tolist() if window is None else window.edges for window in found]
    shares = [pool.shares.tolist() if window is None else _even(window.shares) for window in found]
    return in_common(edges, shares), np.ones(len(found))


def _window(windows: Windows, place: Place, name: str, resource: str, until_ms: int) -> HostWindow | None:
    window = windows.window(place.system, name, resource, until_ms)
    recent = window is not None and until_ms - window.until_ms <= AGE_MAX_MS and bool(window.shares)
    return window if recent else None


def _even(shares: Sequence[float]) -> list[float]:
    """Return shares that sum to one: windows are kept in few digits."""
    total = sum(shares)
    return [share / total for share in shares]
