"""When a process looks for garbage: after a restore and while it waits, never between two records.

A full collection looks at every object. With 10,000 applications and as many hosts it took .37 s, and nobody was answered
meanwhile. The fold makes no cycles, so all that it drops is freed at once; a test says so. What the servers of pages leave
is little, and can wait.
"""

import gc
from typing import Final

YOUNG_MAX: Final = 5_000  # new objects between two looks at these alone: an object costs up to a microsecond
MIDDLE_MAX: Final = (
    2  # such looks between two at what survived them: ten times as many took .1 s where state is decoded
)
NEVER: Final = 1_000_000_000  # the collector is not to decide itself when it looks at everything
IDLE_S: Final = 600.0  # between two full collections while there is nothing to do
BUSY_S: Final = 7200.0  # and where there always is: then it must not be put off for ever


class Garbage:
    """Full collections of this process, at moments of its choice. One may last as long as a tick of a busy centre.

    What survives is frozen, so that the next one looks only at what is new since. `now_s` is of a clock that only grows.
    """

    def __init__(self, now_s: float) -> None:
        self._collected_s = now_s

    def restrain(self) -> None:
        """Leave full collections to `collect`."""
        gc.set_threshold(YOUNG_MAX, MIDDLE_MAX, NEVER)

    def is_due(self, now_s: float, *, idle: bool) -> bool:
        """Return whether the next moment is one for a full collection."""
        return now_s - self._collected_s >= (IDLE_S if idle else BUSY_S)

    def collect(self, now_s: float) -> None:
        """Free cycles, and take all that is left for lasting."""
        gc.collect()
        gc.freeze()
        self._collected_s = now_s
