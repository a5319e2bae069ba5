"""Which counters of a run are not as they are in runs like it, and how much such a run should count.

A run that was disturbed by others shows it: more waiting, fewer instructions per cycle. Distances are in robust deviations
(median and median absolute deviation: F. Hampel, "The influence curve and its role in robust estimation", 1974), so that
disturbed runs among those compared do not hide the next one.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models.training.table import Floats, Table

RUNS_MIN: Final = 8
FAR: Final = 5.0  # robust deviations: less is a run like others
FLOOR: Final = 0.01  # of the median: counters are not more exact than this
WEIGHT_MIN: Final = 0.05
_NORMAL: Final = 1.4826  # from the median absolute deviation to that of a normal distribution


class Unusual(NamedTuple):
    """A counter that is far from what it is in runs like this one: its rate, the usual one, and how far, with its sign.

    >>> Unusual("PAPI_RES_STL", 0.8, 0.4, 9.0).counter
    'PAPI_RES_STL'
    """

    counter: str
    rate: float
    usual: float
    deviations: float


def unusual(table: Table, values: Mapping[str, float], far: float = FAR) -> list[Unusual]:
    """Return the unusual counters of a run among runs that should be like it (of its size), the farthest first.

    [] where fewer than RUNS_MIN runs have a counter, or the run does not have it, or it is 0 in all of them: then nobody
    can say how far is far.

    >>> rng = np.random.default_rng(1)
    >>> like = Table(("ipc",), 1.5 + 0.05 * rng.normal(size=(20, 1)), np.ones(20), np.ones(20), np.arange(20))
    >>> [each.counter for each in unusual(like, {"ipc": 0.7})], unusual(like, {"ipc": 1.52})
    (['ipc'], [])
    """
    found = []
    for name, column in zip(table.names, table.values.T, strict=True):
        known = column[np.isfinite(column)]
        rate = values.get(name, float("nan"))
        if len(known) < RUNS_MIN or not np.isfinite(rate):
            continue
        usual = float(np.median(known))
        deviation = _deviation(known, usual)
        if deviation > 0.0 and abs(rate - usual) >= far * deviation:
            found.append(Unusual(name, float(rate), usual, (rate - usual) / deviation))
    return sorted(found, key=lambda each: (-abs(each.deviations), each.counter))


def _deviation(known: Floats, usual: float) -> float:
    """Return the robust deviation of a counter; where most runs have the same, how far the farthest of them is."""
    off = np.abs(known - usual)
    spread = _NORMAL * float(np.median(off)) or float(off.max())
    return max(spread, FLOOR * abs(usual))


def weight(found: Sequence[Unusual], far: float = FAR) -> float:
    """Return how much a run with these unusual counters counts: 1 without any, less the farther the farthest is.

    >>> weight([]), weight([Unusual("ipc", 0.7, 1.5, -10.0)])
    (1.0, 0.25)
    """
    if not found:
        return 1.0
    return max((far / max(abs(each.deviations) for each in found)) ** 2, WEIGHT_MIN)
