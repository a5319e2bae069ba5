"""The bounds of the resources that are known by name; values outside are refused."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agent.contracts.telemetry import PEER, POWER_W, PROFILED, SeriesIndex

SLACK: Final = 0.01  # by which producers' rounding may take a fraction out of 0 to 1; it is cut to it
VALUE_MAX: Final = 1e18
COUNT_MAX: Final = 1e20  # above what counters of 64 bits hold


class Bounds(NamedTuple):
    """The least and the greatest value of a resource, and by how much a value may miss them.

    `lenient` where a value outside is counted and left out, and the message that has it is not refused.
    """

    low: float
    high: float
    slack: float = 0.0
    lenient: bool = False


FRACTION: Final = Bounds(0.0, 1.0, SLACK)
AMOUNT: Final = Bounds(0.0, VALUE_MAX)
ANY: Final = Bounds(-VALUE_MAX, VALUE_MAX)
READING: Final = Bounds(0.0, COUNT_MAX, lenient=True)

KNOWN: Final[dict[str, Bounds]] = {
    "cpu_available": FRACTION,
    "cpu_current": FRACTION,
    "cpu_iowait": FRACTION,
    "memory_free": AMOUNT,
    "memory_available": AMOUNT,
    "disk_free": AMOUNT,
    "bandwidth": AMOUNT,
    "latency": AMOUNT,
    "connect_time": AMOUNT,
    "load1": AMOUNT,
    "load5": AMOUNT,
    "load15": AMOUNT,
    "runnable": AMOUNT,
    POWER_W: READING,
    **dict.fromkeys(PROFILED, READING),
}


def bounds_of(resource: str) -> Bounds:
    """Return the bounds of a resource, with or without its peer; what is cumulative is not below 0.

    >>> bounds_of("cpu_available").high, bounds_of("bandwidth>group3").low, bounds_of("inlet_temperature").low
    (1.0, 0.0, -1e+18)
    """
    name = resource.partition(PEER)[0]
    return KNOWN.get(name, AMOUNT if name.endswith("_total") else ANY)


class BoundsTable:
    """The bounds of all series of an index as columns, extended as series come.

    >>> from agent.contracts.telemetry import Series
    >>> index = SeriesIndex(10)
    >>> _ = index.number(Series("exa", "nid1", "cpu_available"))
    >>> BoundsTable().of(index)[:, 0].tolist()
    [0.0, 1.0, 0.01, 0.0]
    """

    def __init__(self) -> None:
        self._index: SeriesIndex | None = None
        self._table: npt.NDArray[np.float64] = np.empty((4, 0))

    def of(self, index: SeriesIndex) -> npt.NDArray[np.float64]:
        """Return low, high, slack, and 1 for lenient, (4, series or more)."""
        if index is not self._index:
            self._index, self._table = index, np.empty((4, 0))
        known = self._table.shape[1]
        if known < len(index):
            new = [bounds_of(index[number].resource) for number in range(known, len(index))]
            self._table = np.hstack((self._table, np.array(new).T))
        return self._table
