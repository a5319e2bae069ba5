"""Mappings from metrics of producers to resources of hosts, including the built-in mappings."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.telemetry import PEER, POWER_W, PROFILED, SeriesIndex

# a producer's rounding may move a fraction this far outside 0 to 1; the fraction is then clipped
SLACK: Final = 0.01
VALUE_MAX: Final = 1e18
COUNT_MAX: Final = 1e20  # above the range of 64-bit counters


class Bounds(NamedTuple):
    """The minimum and maximum of a resource, and the slack by which values may exceed them.

    If `lenient` is set, a value outside the bounds is counted and skipped, and its message is not refused.
    """

    low: float
    high: float
    slack: float = 0.0
    lenient: bool = False


FRACTION: Final = Bounds(0.0, 1.0, SLACK)
AMOUNT: Final = Bounds(0.0, VALUE_MAX)
ANY: Final = Bounds(-VALUE_MAX, VALUE_MAX)
READING: Final = Bounds(0.0, COUNT_MAX, lenient=True)

LOADS: Final = ("load1", "load5", "load15")
"""The load averages over 1, 5 and 15 minutes."""
KNOWN: Final[dict[str, Bounds]] = {
    **dict.fromkeys(("cpu_available", "cpu_current", "cpu_iowait"), FRACTION),
    **dict.fromkeys(("memory_free", "memory_available", "disk_free", "bandwidth", "latency", "connect_time"), AMOUNT),
    **dict.fromkeys((*LOADS, "runnable"), AMOUNT),
    **dict.fromkeys((POWER_W, *PROFILED), READING),
}


def bounds_of(resource: str) -> Bounds:
    """Return the bounds of a resource, given with or without its peer; cumulative values are at least 0."""
    name = resource.partition(PEER)[0]
    return KNOWN.get(name, AMOUNT if name.endswith("_total") else ANY)


class BoundsTable:
    """The bounds of all series in an index; new series are added on demand."""

    def __init__(self) -> None:
        self._index: SeriesIndex | None = None
        self._table: npt.NDArray[np.float64] = np.empty((4, 0))

    def of(self, index: SeriesIndex, series: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """Return the bounds of the series `series` (m,) as an array (4, m): low, high, slack, and 1 if lenient."""
        if index is not self._index:
            self._index, self._table = index, np.empty((4, 0))
        known = self._table.shape[1]
        if known < len(index):
            new = [bounds_of(index[number].resource) for number in range(known, len(index))]
            self._table = np.concatenate((self._table, np.array(new, np.float64).T), axis=1)
        return np.take(self._table, series, axis=1)


REST: Final = "*"
FIELD: Final = "value"  # the field of metrics that have a single value

Convert = Callable[[float], float]
"""Converts a value from the producer's unit to the unit of the resource."""


class Metric(msgspec.Struct, frozen=True):
    """A mapping from field `field` of records with the measurement `measurement` to the resource `resource`.

    `only`: tags and the values they must have for a record to count.
    `instance`: the tag that distinguishes several instances (a mount point, the other end of a path); its value becomes the peer in
    the name of the series.
    `convert`: the unit conversion; None if producer and resource have the same unit.
    `peer`: a fixed peer. If `field` ends in ``*``, it stands for all fields with this prefix, and ``*`` in `peer` for the rest
    of the field's name.
    `part`: the tag that names the part of the host, which is appended to the peer after a colon (``*``: the rest of the field's name);
    records without the tag do not count.
    `counter`: replaces the value of the tag `part` if the record itself concerns a counter.

    A resource that ends in ``_total`` is cumulative: its values pass unchanged, and windows compute rates.

    >>> Metric("cpu", "usage_idle", "cpu_available", percent, only=(("cpu", "cpu-total"),)).convert(25.0)
    0.25
    >>> Metric("ldms", "power.cpu_watts", "power_w", peer="cpu", part="socket").peer_of("power.cpu_watts", {"socket": "1"})
    'cpu:1'
    """

    measurement: str
    field: str
    resource: str
    convert: Convert | None = None
    only: tuple[tuple[str, str], ...] = ()
    instance: str | None = None
    peer: str | None = None
    part: str | None = None
    counter: str | None = None

    @property
    def beginning(self) -> str | None:
        """The common prefix of the field names; None if the metric has a single field."""
        return self.field[:-1] if self.field.endswith(REST) else None

    def fits(self, tags: Mapping[str, str]) -> bool:
        """Return whether this mapping applies to records with these tags."""
        return self.part in {None, REST, *tags} and all(tags.get(tag) == value for tag, value in self.only)

    def of(self, field: str) -> bool:
        return field == self.field if self.beginning is None else field.startswith(self.beginning)

    def peer_of(self, field: str, tags: Mapping[str, str]) -> str | None:
        """Return the peer in the series name of a field; None if the series has no peer."""
        rest = "" if self.beginning is None else field[len(self.beginning) :]
        peer = self.peer.replace(REST, rest) if self.peer is not None else tags.get(self.instance or "") or None
        part = rest if self.part == REST else self.counter or tags.get(self.part or "", "")
        return f"{peer}:{part}" if part and peer else peer


def percent(value: float) -> float:
    return value / 100.0


def thousandths(value: float) -> float:
    return value / 1000.0


def kibibytes(value: float) -> float:
    """Convert KiB, which Linux calls kB, to bytes."""
    return value * 1024.0


def mebibytes(value: float) -> float:
    return value * 1048576.0


def megabits(value: float) -> float:
    """Convert Mbit/s to B/s."""
    return value * 125_000.0


def share_by_load(cpus: int) -> Convert:
    """Return the conversion from a load average to the share of a processor that a new process would get.

    The `load` running processes and the new process share the processors equally: cpus / (load + 1), at most
    1. With one processor this is the estimate of the CPU sensor of the NWS (Wolski, Spring, Hayes 1999).

    >>> share_by_load(1)(1.0), share_by_load(128)(63.97)
    (0.5, 1.0)
    """

    def convert(load: float) -> float:
        # a negative load stays negative, so that it is refused later as out of bounds
        return min(1.0, cpus / (load + 1.0)) if load >= 0 else load

    return convert
