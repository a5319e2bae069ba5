"""Prediction intervals with the promised coverage, whatever the model: adaptive conformal radii.

A score is |ln t - ln prediction| in units of the model's own scale. `AdaptiveRadius` is adaptive conformal inference
(I. Gibbs, E. Candes, "Adaptive conformal inference under distribution shift", 2021): the quantile of the last scores,
at a level that moves after every hit or miss. `AggregatedRadius` mixes several of its learning rates (M. Zaffran et al.,
"Adaptive conformal predictions for time series", 2022) by Bernstein online aggregation (O. Wintenberger, 2017), so that
none has to be chosen.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

WINDOW: Final = 200
RATES: Final = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
CAP: Final = 1.5  # multiple of the largest score that replaces an infinite radius
SCORES_MIN: Final = 20
NORMAL_90: Final = 1.645
_TINY = 1e-12


def conformal_quantile(ordered: Sequence[float], miss_rate: float) -> float:
    """Return the ceil((1 - miss_rate)(W + 1))-th smallest of W ordered scores; infinite beyond them, 0 for a rate of 1.

    >>> conformal_quantile([1.0, 2.0, 3.0], 0.5), conformal_quantile([1.0], 0.1)
    (2.0, inf)
    """
    if miss_rate >= 1.0:
        return 0.0
    rank = math.ceil(round((1.0 - miss_rate) * (len(ordered) + 1), 9))
    return math.inf if miss_rate <= 0.0 or rank > len(ordered) else ordered[rank - 1]


@dataclass
class AdaptiveRadius:
    """The radius with one learning rate: its current miss rate, and the promised one.

    >>> radius = AdaptiveRadius(0.1, 0.05)
    >>> for score in range(1, 8):
    ...     radius.learn([float(each) for each in range(1, score)], float(score))
    >>> round(radius.miss_rate, 3)
    0.135
    """

    wanted: float
    rate: float
    miss_rate: float = -1.0

    def __post_init__(self) -> None:
        if self.miss_rate == -1.0:
            self.miss_rate = self.wanted

    def radius(self, ordered: Sequence[float]) -> float:
        """Return the radius for the next score from all scores so far, ascending."""
        return conformal_quantile(ordered, self.miss_rate)

    def learn(self, ordered: Sequence[float], score: float) -> None:
        """Move the miss rate after a score; `ordered` are the earlier scores."""
        missed = 1.0 if score > self.radius(ordered) else 0.0
        self.miss_rate += self.rate * (self.wanted - missed)


@dataclass
class AggregatedRadius:
    """The radius of one key: its last WINDOW scores, experts with different learning rates, and the weights of the experts.

    Before SCORES_MIN scores `radius` uses the scores of a wider set (the application, then all of them); if these are too
    few as well it returns the normal quantile, never 0.

    >>> radius = AggregatedRadius()
    >>> radius.radius(), radius.radius([0.5] * 18 + [2.0] * 2)
    (1.645, 2.0)
    """

    wanted: float = 0.1
    scores: list[float] = field(default_factory=list)
    experts: list[AdaptiveRadius] = field(default_factory=list)
    trust: list[float] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)
    largest: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.experts = self.experts or [AdaptiveRadius(self.wanted, rate) for rate in RATES]
        count = len(self.experts)
        self.trust = self.trust or [1.0 / count] * count
        self.regret, self.largest, self.squares = (
            each or [0.0] * count for each in (self.regret, self.largest, self.squares)
        )
        self._ordered = sorted(self.scores)

    def radius(self, wider: Sequence[float] = ()) -> float:
        """Return the radius in units of the scale; `wider` are scores of other keys for the time before SCORES_MIN."""
        if len(self.scores) >= SCORES_MIN:
            return sum(weight * each for weight, each in zip(self.trust, self._radii(), strict=True))
        if len(wider) >= SCORES_MIN:
            return min(conformal_quantile(sorted(wider), self.wanted), max(wider) * CAP)
        return NORMAL_90

    def learn(self, score: float) -> None:
        """Add a score after `radius` was used; ValueError unless it is finite and not negative."""
        if not 0.0 <= score < math.inf:
            raise ValueError("A score must be finite and not negative.")
        if self._ordered:
            self._aggregate(score)
            for expert in self.experts:
                expert.learn(self._ordered, score)
        self.scores.append(score)
        insort(self._ordered, score)
        if len(self.scores) > WINDOW:
            oldest = self.scores.pop(0)
            del self._ordered[bisect_left(self._ordered, oldest)]

    def snapshot(self) -> dict[str, Any]:
        return {
            "wanted": self.wanted,
            "scores": list(self.scores),
            "miss_rates": [expert.miss_rate for expert in self.experts],
            "trust": list(self.trust),
            "regret": list(self.regret),
            "largest": list(self.largest),
            "squares": list(self.squares),
        }

    @classmethod
    def build(cls, state: dict[str, Any]) -> "AggregatedRadius":
        lists = {name: list(state[name]) for name in ("scores", "trust", "regret", "largest", "squares")}
        pairs = zip(RATES, state["miss_rates"], strict=True)
        experts = [AdaptiveRadius(state["wanted"], rate, miss_rate) for rate, miss_rate in pairs]
        return cls(wanted=state["wanted"], experts=experts, **lists)

    def _radii(self) -> list[float]:
        cap = CAP * self._ordered[-1]
        return [min(expert.radius(self._ordered), cap) for expert in self.experts]

    def _aggregate(self, score: float) -> None:
        """Move the weights by the pinball loss, linearised at the aggregated radius."""
        radii = self._radii()
        mixed = sum(weight * radius for weight, radius in zip(self.trust, radii, strict=True))
        slope = (1.0 if score <= mixed else 0.0) - (1.0 - self.wanted)
        rates = []
        for i, radius in enumerate(radii):
            regret = slope * (radius - mixed)
            self.largest[i] = max(self.largest[i], abs(regret))
            self.squares[i] += regret * regret
            rate = min(
                1.0 / (2.0 * max(self.largest[i], _TINY)),
                math.sqrt(math.log(len(radii)) / max(self.squares[i], _TINY)),
            )
            self.regret[i] += regret * (1.0 + rate * regret)
            rates.append(rate)
        least = min(rate * regret for rate, regret in zip(rates, self.regret, strict=True))
        mass = [rate * math.exp(least - rate * regret) for rate, regret in zip(rates, self.regret, strict=True)]
        total = sum(mass)
        self.trust = [each / total for each in mass]
