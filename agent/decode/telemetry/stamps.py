"""Numbers that stand for times, in a unit that is given or told by their size."""

from typing import Final

from agent.contracts.moments import EARLIEST_MS, LATEST_MS
from agent.decode.reasons import invalid
from agent.decode.telemetry.options import TimeUnit

KNOWN_MAX: Final = 16_384
_PER_MS: Final[dict[str, float]] = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}


class Stamps:
    """Time stamps already read; hosts that share a clock's seconds share them, and the bound is one of memory.

    >>> Stamps("auto").time_ms(1787217284)
    1787217284000
    """

    def __init__(self, unit: TimeUnit) -> None:
        self._unit = unit
        self._known: dict[float, int] = {}

    def time_ms(self, stamp: float) -> int:
        """Return the time in ms of a number; see `stamp_ms`."""
        known = self._known.get(stamp)
        if known is not None:
            return known
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        time_ms = self._known[stamp] = stamp_ms(stamp, self._unit)
        return time_ms


def stamp_ms(stamp: float, unit: TimeUnit) -> int:
    """Return the time of a number in ms; InvalidInputError (``time``) where no calendar has it.

    Between 1990 and 2100 the units cannot be taken for one another: a time in ms is at least 6e11, one in s at most
    5e9, and so on.

    >>> stamp_ms(1787217284, "auto"), stamp_ms(1787217284000000000, "auto"), stamp_ms(1787217284001, "ms")
    (1787217284000, 1787217284000, 1787217284001)
    """
    if unit == "auto":
        unit = "s" if stamp < 1e11 else "ms" if stamp < 1e14 else "us" if stamp < 1e17 else "ns"
    per_ms = _PER_MS[unit]
    if not EARLIEST_MS <= stamp / per_ms <= LATEST_MS:
        raise invalid("time", "The time is outside 1990 to 2100.")
    if isinstance(stamp, int) and per_ms >= 1.0:
        return stamp // int(per_ms)
    return round(stamp / per_ms)
