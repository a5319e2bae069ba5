"""Settings of windows: limits for late samples, and the number of hosts emitted at once."""

import math
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from processors.contracts.errors import InvalidInputError
from processors.models.numerics.arrays import Floats

MINUTE_MS: Final = 60_000
PART_MS: Final = 10_000
PARTS: Final = 6  # number of parts of a minute; each part has a mean
LATE_MAX_S: Final = 600.0
# the time of an event that has not happened; not -1, because samples may be older than the epoch
NEVER_MS: Final = -(2**62)
DIGITS: Final = 7  # significant digits of a 32-bit value


PLACES_MAX: Final = 300
# precomputed, because computing them takes as long as the rest of `significant`
_POWERS: Final = 10.0 ** np.arange(0.0, PLACES_MAX + 1.0)


def significant(value: Floats) -> Floats:
    """Return the values rounded to seven significant digits, the precision of 32 bits: 0.83, not 0.8299999833106995."""
    magnitude = np.abs(value)
    exponent = np.floor(np.log10(magnitude, out=np.zeros_like(magnitude), where=magnitude > 0))
    places = np.clip(DIGITS - 1 - np.nan_to_num(exponent, posinf=PLACES_MAX), -PLACES_MAX, PLACES_MAX).astype(np.int64)
    up, down = _POWERS[np.maximum(places, 0)], _POWERS[np.maximum(-places, 0)]
    rounded: Floats = np.rint(value * up / down) * down / up
    return rounded


class WindowSettings(msgspec.Struct, frozen=True):
    """A sample counts if its time is at most `late_max_s` behind the newest sample and at most `ahead_max_s` ahead of its arrival.

    A minute is emitted `emit_after_s` after its end. If the minute changed meanwhile, it is emitted again once settled.
    """

    late_max_s: float = 120.0
    ahead_max_s: float = 60.0
    emit_after_s: float = 10.0
    part_hosts: int = 1_000

    def __post_init__(self) -> None:
        """Raise ValueError if a setting is outside its range."""
        if not 0 <= self.late_max_s <= LATE_MAX_S:
            raise ValueError(f"late_max_s is {self.late_max_s}; it must be 0 to {LATE_MAX_S:.0f}.")
        if not 0 <= self.emit_after_s <= MINUTE_MS / 1000 or self.ahead_max_s < 0 or self.part_hosts < 1:
            raise ValueError("emit_after_s must be 0 to 60, ahead_max_s at least 0 and part_hosts at least 1.")

    @property
    def settle_minutes(self) -> int:
        """Return the number of minutes between the first emission of a minute and its last possible change."""
        return max(0, math.ceil((self.late_max_s - self.emit_after_s) * 1000 / MINUTE_MS))


class Resume(msgspec.Struct, frozen=True):
    """The metadata of a committed offset: the start of the first minute that is still open. Earlier minutes are never emitted again.

    The watermark need not be stored: at the first record to be read again, it was earlier than all samples that are still needed.
    """

    first_open_ms: int

    def text(self) -> str:
        return f"windows:1:{self.first_open_ms}"

    @classmethod
    def parse(cls, text: str) -> "Resume":
        """Parse commit metadata. Raise InvalidInputError if the text has another format."""
        start, _, first_open = text.rpartition(":")
        if start == "windows:1":
            with suppress(ValueError):
                return cls(int(first_open))
        raise InvalidInputError(
            "no-resume", f"The metadata {text[:60]!r} does not have the form windows:1:MILLISECONDS."
        )
