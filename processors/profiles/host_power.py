"""The power of hosts without a sensor, from their counters: a model for each kind of host, learned where sensors are."""

from copy import deepcopy
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from processors.models.power.recalibrated import PowerModel

EVENTS_MAX: Final = 8
QUIET_MS: Final = 86_400_000
BEYOND: Final = 1.2  # times the largest power that was measured is the most that is estimated


class PowerSample(NamedTuple):
    """What a host of a kind did in a minute: events per second, by `names`, and the watts of a component.

    >>> PowerSample(("counter/cycles",), (1e9,), 240.0, 60_000).power_w
    240.0
    """

    names: tuple[str, ...]
    rates: tuple[float, ...]
    power_w: float
    minute_ms: int


class HostPowerState(msgspec.Struct):
    """Stored form: the state of the model, and when it was taught last."""

    model: dict[str, Any] | None = None
    taught_ms: int = -1


class HostPower:
    """Power of one component of one kind of host, from its counters.

    >>> power = HostPower.build()
    >>> for load in range(70):
    ...     power.learn(PowerSample(("counter/cycles",), (1e9 * (load % 9),), 100.0 + 20.0 * (load % 9), load * 60_000))
    >>> round(power.score(np.array([[4e9]]))[0]), power.error_w < 0.01
    (180, True)
    """

    name: ClassVar[str] = "profile_power"
    version: ClassVar[int] = 1

    def __init__(self, state: HostPowerState) -> None:
        self._taught_ms = state.taught_ms
        self._model: PowerModel | None = None
        if state.model is not None:
            self._model = PowerModel(state.model["events"], state=deepcopy(state.model))

    @classmethod
    def build(cls, state: HostPowerState | None = None) -> "HostPower":
        """Return the power of a stored state, or one of which nothing is known."""
        return cls(state or HostPowerState())

    @property
    def events(self) -> tuple[str, ...]:
        """The counters that it goes by; none before anything was learned."""
        return () if self._model is None else self._model.events

    @property
    def error_w(self) -> float | None:
        """The median error of late, in W; None where it is not known yet."""
        return None if self._model is None else self._model.error_w()

    def score(self, fact: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
        """Return the watts (m,) that rates of its events (m, events) let expect; None before a model was learned.

        They are never negative, and not far above what was measured.
        """
        found = None if self._model is None else self._model.estimates(fact)
        largest_w = None if self._model is None else self._model.largest_w()
        return None if found is None or largest_w is None else found.clip(0.0, BEYOND * largest_w)

    def learn(self, fact: PowerSample) -> None:
        """Take in what a host with a sensor did."""
        if self._model is None:
            self._model = PowerModel(fact.names)
        if fact.names == self._model.events:
            self._model.learn(fact.rates, fact.power_w)
            self._taught_ms = max(self._taught_ms, fact.minute_ms)

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        return self._taught_ms + QUIET_MS

    def snapshot(self) -> HostPowerState:
        """Return the stored form."""
        return HostPowerState(None if self._model is None else self._model.snapshot(), self._taught_ms)
