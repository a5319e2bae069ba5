"""A model's answers against what came, strictly in order: its error, its level, its band, and whom to believe.

Bands are conformal (`processors.models.conformal`): the share of runs they hold is that of the past, whatever the model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from processors.models.conformal import AggregatedRadius

ERROR_RATE: Final = 0.05  # how quickly an error is forgotten
LEVEL_RATE: Final = 0.05
LEVEL_STEP: Final = 0.1  # one answer moves the level as if it had been off by at most this, in ln
LEVEL_MAX: Final = 0.7  # beyond a factor of two it is no level but another application
ERROR_MAX: Final = 2.0  # one answer counts for at most this, in ln
DEVIATION_MIN: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Band:
    """What is expected, and between what most runs will lie.

    >>> Band(400.0, 380.0, 420.0).holds(419.0)
    True
    """

    value: float
    low: float
    high: float

    def holds(self, actual: float) -> bool:
        """Whether a value lies within."""
        return self.low <= actual <= self.high


@dataclass(slots=True)
class Tracked:
    """The answers of one model for one target. `error` is the mean |ln ratio| of late, `scored` how many there were.

    `level` follows where a model is off by the same factor all the time, such as a host that draws more than others.

    >>> tracked = Tracked()
    >>> for _ in range(100):
    ...     tracked.learn(400.0, 0.02, 408.0)
    >>> round(tracked.band(400.0, 0.02).value), tracked.scored
    (408, 100)
    """

    radius: AggregatedRadius = field(default_factory=AggregatedRadius)
    level: float = 0.0
    error: float = 0.0
    scored: int = 0

    def band(self, value: float, deviation: float, wider: Sequence[float] = ()) -> Band:
        """Return the band about a model's answer (> 0) with this deviation of its ln; `wider` are scores of others."""
        middle = value * math.exp(self.level)
        reach = min(self.radius.radius(wider) * max(deviation, DEVIATION_MIN), 50.0)
        return Band(middle, middle * math.exp(-reach), middle * math.exp(reach))

    def learn(self, value: float, deviation: float, actual: float) -> None:
        """Take in what came after an answer; ValueError unless both are positive and finite."""
        if not (0.0 < value < math.inf and 0.0 < actual < math.inf):
            raise ValueError("Answers and what came are positive and finite.")
        off = math.log(actual / value) - self.level
        self.radius.learn(abs(off) / max(deviation, DEVIATION_MIN))
        self.scored += 1
        rate = max(ERROR_RATE, 1.0 / self.scored)
        self.error += rate * (min(abs(off), ERROR_MAX) - self.error)
        moved = self.level + LEVEL_RATE * min(max(off, -LEVEL_STEP), LEVEL_STEP)
        self.level = min(max(moved, -LEVEL_MAX), LEVEL_MAX)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            "radius": self.radius.snapshot(),
            "level": self.level,
            "error": self.error,
            "scored": self.scored,
        }

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "Tracked":
        """Return what a snapshot was taken of."""
        radius = AggregatedRadius.build(state["radius"])
        return cls(radius, state["level"], state["error"], state["scored"])


def best(rivals: Mapping[str, Tracked], prior: Mapping[str, float], prior_count: float = 5.0) -> str | None:
    """Return the name of the model to believe: that with the least error, where each brings `prior` (its error when fitted).

    The prior counts as `prior_count` answers; of those alike the first name. None without any.

    >>> good, bad = Tracked(error=0.02, scored=50), Tracked(error=0.05, scored=50)
    >>> best({"a": bad, "b": good}, {"a": 0.01, "b": 0.04})
    'b'
    """

    def expected(name: str) -> tuple[float, str]:
        tracked = rivals.get(name, Tracked())
        count = min(tracked.scored, 1.0 / ERROR_RATE)
        return (prior[name] * prior_count + tracked.error * count) / (prior_count + count), name

    return min(prior, key=expected, default=None)
