"""Two forecasts of one run time as one, weighted by how both did and by how alike their errors were.

J. M. Bates, C. W. J. Granger, "The combination of forecasts", Operational Research Quarterly 20 (1969): the share of the
second that would have had the least squared error in ln t. A second forecast that tells nothing new gets a share that does
no harm; one that tells all gets all. The band is conformal: it holds as many runs as its own past bands say it has to be
wide for (`processors.models.conformal`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from processors.models.conformal import AggregatedRadius
from processors.models.digits import six_digits
from processors.models.log_normal import Z95

FORGETTING: Final = 0.98
RUNS_FULL: Final = 8.0  # scored runs before the second forecast may have the share that they say
ERROR_MAX: Final = 1.0  # of ln t, that one run counts for
ALIKE: Final = 0.03  # of ln t: forecasts that differ by less are alike, and the first is believed
DEVIATION_MIN: Final = 1e-3
LN_BAND_MAX: Final = math.log(1000.0)
SCORED_MAX: Final = 1_000_000
WINDOW: Final = 64  # runs, in means
WORST: Final = 2.0  # of ln t, that one run counts for in a mean


@dataclass(frozen=True, slots=True)
class Forecast:
    """A run time by its logarithm, and the standard deviation of that.

    >>> Forecast.of_band(100.0, 80.0, 125.0).deviation.__round__(3)
    0.136
    """

    ln_t: float
    deviation: float

    @classmethod
    def of_band(cls, run_time_s: float, low_s: float, high_s: float) -> "Forecast":
        """Return what a band of 90 % about a run time says, ends in any unit of time."""
        return cls(math.log(run_time_s), max(math.log(high_s / low_s) / (2 * Z95), DEVIATION_MIN))


@dataclass(slots=True)
class Blend:
    """What is known of a first and a second forecast: weighted sums of squared errors, of their product, and of runs.

    `errors` are means of |ln(observed / predicted)| of the first, the second and both, `inside` is the share of runs in the
    band of both: of the newest ones mostly, about WINDOW of them.

    >>> blend = Blend()
    >>> for i in range(60):
    ...     blend.learn(Forecast(5.0, 0.3), Forecast(5.3 if i % 2 else 4.7, 0.05), 5.3 if i % 2 else 4.7)
    >>> blend.share > 0.99, round(blend.said(Forecast(5.0, 0.3), Forecast(5.3, 0.05)).ln_t, 2)
    (True, 5.3)
    >>> Blend().share
    0.0
    """

    first: float = 0.0
    second: float = 0.0
    both: float = 0.0
    runs: float = 0.0
    scored: int = 0
    errors: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    inside: float = 0.0
    radius: AggregatedRadius = field(default_factory=AggregatedRadius)

    @property
    def share(self) -> float:
        """The share of the second forecast, from 0 to 1."""
        apart = self.first + self.second - 2.0 * self.both
        best = (self.first - self.both) / (apart + RUNS_FULL / 2 * ALIKE**2)
        return min(max(best, 0.0), 1.0) * min(self.runs / RUNS_FULL, 1.0)

    def said(self, first: Forecast, second: Forecast) -> Forecast:
        """Return the two as one; the deviation is not yet that of the past."""
        share = self.share
        return Forecast(
            (1.0 - share) * first.ln_t + share * second.ln_t,
            (1.0 - share) * first.deviation + share * second.deviation,
        )

    def band(self, said: Forecast) -> tuple[float, float, float]:
        """Return run time and band of what was `said`, in seconds."""
        reach = min(self.radius.radius() * max(said.deviation, DEVIATION_MIN), LN_BAND_MAX)
        return math.exp(said.ln_t), math.exp(said.ln_t - reach), math.exp(said.ln_t + reach)

    def learn(self, first: Forecast, second: Forecast, ln_t: float) -> None:
        """Take in what came after both."""
        said = self.said(first, second)
        self._note(said, [ln_t - each.ln_t for each in (first, second, said)])
        self.radius.learn(six_digits(abs(ln_t - said.ln_t) / max(said.deviation, DEVIATION_MIN)))
        a, b = (min(max(ln_t - each.ln_t, -ERROR_MAX), ERROR_MAX) for each in (first, second))
        self.first, self.second, self.both = (
            six_digits(FORGETTING * old + new)
            for old, new in ((self.first, a * a), (self.second, b * b), (self.both, a * b))
        )
        self.runs = six_digits(FORGETTING * self.runs + 1.0)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data.

        >>> Blend.build(Blend().snapshot()) == Blend()
        True
        """
        return {
            "sums": [self.first, self.second, self.both, self.runs],
            "scored": self.scored,
            "errors": list(self.errors),
            "inside": self.inside,
            "radius": self.radius.snapshot(),
        }

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "Blend":
        """Return what a snapshot was taken of."""
        first, second, both, runs = state["sums"]
        told = list(state["errors"]), state["inside"], AggregatedRadius.build(state["radius"])
        return cls(first, second, both, runs, state["scored"], *told)

    def _note(self, said: Forecast, off: list[float]) -> None:
        self.scored = min(self.scored + 1, SCORED_MAX)
        rate = 1.0 / min(self.scored, WINDOW)
        _, low, high = (math.log(each) for each in self.band(said))
        held = 1.0 if low <= said.ln_t + off[-1] <= high else 0.0
        self.inside = six_digits(self.inside + rate * (held - self.inside))
        self.errors = [
            six_digits(old + rate * (min(abs(new), WORST) - old)) for old, new in zip(self.errors, off, strict=True)
        ]
