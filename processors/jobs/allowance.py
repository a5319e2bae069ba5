"""How many forecasts of starting jobs a user gets at once: a start costs more than any other record, and users start floods.

This is the generic cell rate algorithm (ITU-T I.371): each forecast moves a virtual time on by its cost, and a start
whose virtual time lies further ahead than the tolerance waits for the rest. Nothing is refused.
"""

from typing import ClassVar, Final

import msgspec

COST_MS: Final = 20  # fifty forecasts a second in the long run
BURST: Final = 500  # at once, as when an array starts
WAIT_MAX_MS: Final = 3_600_000


class ForecastAllowanceState(msgspec.Struct):
    """Stored form: the virtual time."""

    virtual_ms: int = 0


class ForecastAllowance:
    """The forecasts of one user."""

    name: ClassVar[str] = "forecast_allowance"
    version: ClassVar[int] = 1

    def __init__(self, state: ForecastAllowanceState) -> None:
        self._virtual_ms = state.virtual_ms

    @classmethod
    def build(cls, state: ForecastAllowanceState | None = None) -> "ForecastAllowance":
        """Return the allowance of a stored state, or an unspent one."""
        return cls(state or ForecastAllowanceState())

    def score(self, fact: int) -> int:
        """Return how many ms a job that starts now has to wait for its forecast."""
        ahead_ms = max(self._virtual_ms - fact, 0) + COST_MS
        return min(max(ahead_ms - BURST * COST_MS, 0), WAIT_MAX_MS)

    def learn(self, fact: int) -> None:
        """Spend one forecast now."""
        self._virtual_ms = min(max(self._virtual_ms, fact) + COST_MS, fact + BURST * COST_MS + WAIT_MAX_MS)

    def due_ms(self) -> int | None:
        """Return when nothing of it is spent any more, so that it may be forgotten."""
        return self._virtual_ms

    def snapshot(self) -> ForecastAllowanceState:
        """Return the stored form."""
        return ForecastAllowanceState(self._virtual_ms)
