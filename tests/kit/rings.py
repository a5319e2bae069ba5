"""What rings hold of one series."""

from typing import Any

import numpy as np
import numpy.typing as npt

from processors.contracts.telemetry import Series, SeriesIndex
from processors.windows.rings import GroupedRings, Rings
from processors.windows.sums import SeriesTraits


def retained(rings: Rings | GroupedRings, series: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return times (ms modulo 2**32) and values of a series by time, with expired samples that were not overwritten yet."""
    chosen = np.zeros(max(int(rings.numbers().max(initial=0)), series) + 1, np.bool_)
    chosen[series] = True
    for strip in rings.strips(chosen, 4_096):
        time_ms, value = strip.time[0, : strip.filled[0]].astype(np.int64), strip.value[0, : strip.filled[0]]
        order = np.argsort(time_ms, kind="stable")
        return time_ms[order], value[order]
    return np.zeros(0, np.int64), np.zeros(0, np.float32)


def memory_bytes(part: object) -> int:
    """Return the bytes of all arrays in an object and in the objects that it holds."""
    if isinstance(part, np.ndarray):
        return part.nbytes
    parts = part if isinstance(part, tuple) else vars(part).values() if hasattr(part, "__dict__") else ()
    return sum(map(memory_bytes, parts))


def plain_traits(count: int) -> SeriesTraits:
    """Return the traits of `count` series that are neither power nor counters."""
    index = SeriesIndex(count)
    for host in range(count):
        index.number(Series("exa", f"n{host}", "memory_free"))
    return SeriesTraits(index)
