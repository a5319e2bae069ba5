"""Prediction intervals with the promised coverage for any model: adaptive conformal radii.

A score is |ln t - ln prediction| in units of the model's own scale. Adaptive conformal inference (I. Gibbs, E. Candes,
"Adaptive conformal inference under distribution shift", 2021) takes a quantile of the last scores, at a level that moves by a
learning rate after every hit or miss. `ConformalRadius` mixes several learning rates (M. Zaffran et al., "Adaptive conformal
predictions for time series", 2022) by Bernstein online aggregation (O. Wintenberger, 2017), so that no rate has to be chosen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from processors.models.numerics.arrays import PlainData

WINDOW: Final = 200
RATES: Final = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
MISS_RATE: Final = 0.1  # promised share of runs outside the band
CAP: Final = 1.5  # an infinite radius becomes this multiple of the largest score
SCORES_MIN: Final = 20
NORMAL_90: Final = 1.645
DEVIATION_MIN: Final = 1e-3
LN_MAX: Final = 50.0  # largest half-width of a band, in ln
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class PredictedBand:
    """A predicted value and the band that should hold nine of ten runs, in the unit of the target."""

    value: float
    low: float
    high: float

    def holds(self, actual: float) -> bool:
        return self.low <= actual <= self.high


def conformal_quantile(ordered: Sequence[float], miss_rate: float) -> float:
    """Return the ceil((1 - miss_rate)(W + 1))-th smallest of W ordered scores.

    The quantile is infinite if this rank exceeds W, and 0 for a miss rate of 1.

    >>> conformal_quantile([1.0, 2.0, 3.0], 0.5), conformal_quantile([1.0], 0.1)
    (2.0, inf)
    """
    if miss_rate >= 1.0:
        return 0.0
    rank = math.ceil(round((1.0 - miss_rate) * (len(ordered) + 1), 9))
    return math.inf if miss_rate <= 0.0 or rank > len(ordered) else ordered[rank - 1]


@dataclass(slots=True)
class ConformalRadius(PlainData):
    """The half-width of the band of one key, for example one application, in units of the model's standard deviation.

    `scores` are the last WINDOW scores. Each of RATES has a current miss rate and a weight (`trust`); the other fields are sums from
    which the weights follow.

    >>> radius = ConformalRadius()
    >>> radius.radius(), radius.radius([0.5] * 18 + [2.0] * 2)
    (1.645, 2.0)
    """

    scores: list[float] = field(default_factory=list)
    miss_rates: list[float] = field(default_factory=lambda: [MISS_RATE] * len(RATES))
    trust: list[float] = field(default_factory=lambda: [1.0 / len(RATES)] * len(RATES))
    regret: list[float] = field(default_factory=lambda: [0.0] * len(RATES))
    largest: list[float] = field(default_factory=lambda: [0.0] * len(RATES))
    squares: list[float] = field(default_factory=lambda: [0.0] * len(RATES))

    def radius(self, wider: Sequence[float] = ()) -> float:
        """Return the half-width of the band in units of the model's standard deviation.

        It comes from the key's own scores; with fewer than SCORES_MIN, from the scores `wider` of all keys; with fewer of these as
        well, it is the normal quantile.
        """
        if len(self.scores) >= SCORES_MIN:
            return sum(weight * each for weight, each in zip(self.trust, self._radii(sorted(self.scores)), strict=True))
        if len(wider) >= SCORES_MIN:
            return min(conformal_quantile(sorted(wider), MISS_RATE), max(wider) * CAP)
        return NORMAL_90

    def band(
        self, value: float, deviation: float, wider: Sequence[float] = (), ln_max: float = LN_MAX
    ) -> PredictedBand:
        """Return the band about a prediction `value` (> 0) whose ln has the standard deviation `deviation`; at most `ln_max` to each side."""
        reach = min(self.radius(wider) * max(deviation, DEVIATION_MIN), ln_max)
        return PredictedBand(value, value * math.exp(-reach), value * math.exp(reach))

    def learn(self, score: float) -> None:
        """Add the score of a prediction whose radius was already read. Raise ValueError for a negative or infinite score."""
        if not 0.0 <= score < math.inf:
            raise ValueError("A score must be finite and not negative.")
        if self.scores:
            ordered = sorted(self.scores)
            self._aggregate(score, self._radii(ordered))
            misses = [score > conformal_quantile(ordered, miss_rate) for miss_rate in self.miss_rates]
            pairs = zip(self.miss_rates, RATES, misses, strict=True)
            self.miss_rates = [miss_rate + rate * (MISS_RATE - missed) for miss_rate, rate, missed in pairs]
        self.scores.append(score)
        del self.scores[:-WINDOW]

    def _radii(self, ordered: Sequence[float]) -> list[float]:
        cap = CAP * ordered[-1]
        return [min(conformal_quantile(ordered, miss_rate), cap) for miss_rate in self.miss_rates]

    def _aggregate(self, score: float, radii: Sequence[float]) -> None:
        """Update the weights of the learning rates by their pinball losses, linearised at the weighted mean radius."""
        mixed = sum(weight * radius for weight, radius in zip(self.trust, radii, strict=True))
        slope = (1.0 if score <= mixed else 0.0) - (1.0 - MISS_RATE)
        rates = []
        for i, radius in enumerate(radii):
            regret = slope * (radius - mixed)
            self.largest[i] = max(self.largest[i], abs(regret))
            self.squares[i] += regret * regret
            by_squares = math.sqrt(math.log(len(radii)) / max(self.squares[i], _TINY))
            rate = min(1.0 / (2.0 * max(self.largest[i], _TINY)), by_squares)
            self.regret[i] += regret * (1.0 + rate * regret)
            rates.append(rate)
        least = min(rate * regret for rate, regret in zip(rates, self.regret, strict=True))
        mass = [rate * math.exp(least - rate * regret) for rate, regret in zip(rates, self.regret, strict=True)]
        total = sum(mass)
        self.trust = [each / total for each in mass]
