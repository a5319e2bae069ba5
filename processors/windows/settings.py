"""How windows are kept: what may come how late, and what is in one part of an emission."""

import math
from typing import Final

import msgspec
import numpy as np

from processors.contracts.errors import InvalidInputError
from processors.models.numerics.arrays import Floats

MINUTE_MS: Final = 60_000
PART_MS: Final = 10_000
PARTS: Final = 6  # of a minute, each with a mean
LATE_MAX_S: Final = 600.0
NEVER_MS: Final = -(2**62)  # the time of what did not happen yet; samples may be older than the epoch
DIGITS: Final = 7  # of a value held in 32 bits


PLACES_MAX: Final = 300
_POWERS: Final = 10.0 ** np.arange(0.0, PLACES_MAX + 1.0)  # to compute them anew takes as long as all the rest


def significant(value: Floats) -> Floats:
    """Return the values rounded to seven significant digits, which is what 32 bits hold: 0.83, not 0.8299999833106995."""
    magnitude = np.abs(value)
    exponent = np.floor(np.log10(magnitude, out=np.zeros_like(magnitude), where=magnitude > 0))
    places = np.clip(DIGITS - 1 - np.nan_to_num(exponent, posinf=PLACES_MAX), -PLACES_MAX, PLACES_MAX).astype(np.int64)
    up, down = _POWERS[np.maximum(places, 0)], _POWERS[np.maximum(-places, 0)]
    rounded: Floats = np.rint(value * up / down) * down / up
    return rounded


class WindowSettings(msgspec.Struct, frozen=True):
    """A sample counts where it is at most `late_max_s` behind the newest, and `ahead_max_s` ahead of its arrival.

    A minute is told first `emit_after_s` after its end, and again once nothing can change it where something did.
    """

    late_max_s: float = 120.0
    ahead_max_s: float = 60.0
    emit_after_s: float = 10.0
    part_hosts: int = 1_000

    def __post_init__(self) -> None:
        """Refuse what the windows could not hold; ValueError."""
        if not 0 <= self.late_max_s <= LATE_MAX_S:
            raise ValueError(f"late_max_s is {self.late_max_s}; it must be 0 to {LATE_MAX_S:.0f}.")
        if not 0 <= self.emit_after_s <= MINUTE_MS / 1000 or self.ahead_max_s < 0 or self.part_hosts < 1:
            raise ValueError("emit_after_s must be 0 to 60, ahead_max_s at least 0 and part_hosts at least 1.")

    @property
    def settle_minutes(self) -> int:
        """Return how many minutes after its first emission nothing can change a minute any more."""
        return max(0, math.ceil((self.late_max_s - self.emit_after_s) * 1000 / MINUTE_MS))


class Resume(msgspec.Struct, frozen=True):
    """What goes with a trailing offset: the first minute still open; those before it are never told again.

    The watermark need not be said: before the first record that is needed it was older than all that is needed.
    """

    first_open_ms: int

    def text(self) -> str:
        """Return it as the metadata of a commit."""
        return f"windows:1:{self.first_open_ms}"

    @classmethod
    def parse(cls, text: str) -> "Resume":
        """Read it back; InvalidInputError where the text is another."""
        start, _, first_open = text.rpartition(":")
        refusal = InvalidInputError("no-resume", f"The metadata {text[:60]!r} does not tell of windows.")
        if start != "windows:1":
            raise refusal
        try:
            return cls(int(first_open))
        except ValueError as error:
            raise refusal from error
