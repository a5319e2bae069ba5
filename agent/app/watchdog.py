"""The watchdog: it ends a role whose loop stands still. It only looks at the role's beats, so no lock of the role stops it."""

import faulthandler
import math
from typing import Final

from agent.clock import Clock
from agent.collector.recorder import Recorder

READING_MAX_S: Final = 60.0  # one slice or one record of the journal, the fits of a tick included
WAITING_MAX_S: Final = 300.0  # between records: a rebalance, a checkpoint, clients that are closed one after another
LOOK_MAX_S: Final = 1.0  # a look that comes later counts so much: the watchdog was stopped, and the role with it
ARM_S: Final = 1.0


class Watch:
    """How long a role's loop has stood still, as its parent sees it."""

    def __init__(self, recorder: Recorder, now_s: float) -> None:
        self._recorder = recorder
        self._beats, self._looked_s = 0, now_s
        self.still_s = 0.0

    def too_long(self, now_s: float) -> bool:
        """Look at the role; return whether it has stood still for too long. A role that still loads has no beats."""
        beats, passed_s = self._recorder.beats(), min(now_s - self._looked_s, LOOK_MAX_S)
        self.still_s = self.still_s + passed_s if beats == self._beats else 0.0
        self._beats, self._looked_s = beats, now_s
        return beats > 0 and self.still_s > (READING_MAX_S if self._recorder.reads() else WAITING_MAX_S)


class Fuse:
    """Ends a role without a parent: a thread below the interpreter prints where the role stands, and exits with code 1."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._armed_s, self._reading = -math.inf, False

    def __call__(self, reading: bool) -> None:  # noqa: FBT001 - as a recorder calls it
        """Burn anew. To arm it costs 80 µs, so in a steady flow of records this is done twice a second."""
        now_s = self._clock.monotonic_s()
        if (reading and not self._reading) or now_s - self._armed_s >= ARM_S:
            self._armed_s, self._reading = now_s, reading
            faulthandler.dump_traceback_later(READING_MAX_S if reading else WAITING_MAX_S, exit=True)
