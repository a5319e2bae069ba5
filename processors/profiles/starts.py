"""Whether a system tells the starts of its jobs: only then is a host of which no job is known an idle one."""

from typing import ClassVar, Final

import msgspec

TELLS_MS: Final = 86_400_000  # a system that told no start for so long does not tell them


class StartsToldState(msgspec.Struct):
    """Stored form: when a start was told last."""

    last_ms: int = -1


class StartsTold:
    """When a system told a start last.

    >>> told = StartsTold.build()
    >>> told.learn(60_000)
    >>> told.score(120_000), told.score(100_000_000)
    (True, False)
    """

    name: ClassVar[str] = "profile_starts"
    version: ClassVar[int] = 1

    def __init__(self, state: StartsToldState) -> None:
        self._last_ms = state.last_ms

    @classmethod
    def build(cls, state: StartsToldState | None = None) -> "StartsTold":
        """Return what a stored state tells, or a system of which nothing is known."""
        return cls(state or StartsToldState())

    def score(self, fact: int) -> bool:
        """Tell whether starts are told, as of a time in ms."""
        return self._last_ms >= 0 and fact - self._last_ms <= TELLS_MS

    def learn(self, fact: int) -> None:
        """Take note that a start was told at a time in ms."""
        self._last_ms = max(self._last_ms, fact)

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        return self._last_ms + TELLS_MS + 1

    def snapshot(self) -> StartsToldState:
        """Return the stored form."""
        return StartsToldState(self._last_ms)
