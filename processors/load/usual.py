"""The usual load of an application's hosts by size, and how closely its run times follow the load.

A curve is measured under some load, and more hosts meet a higher load, because the slowest of many is slower. The load in the minutes
before a start predicts a short run under steady load well. It predicts nothing if load changes quickly, or if a job has its hosts for
itself. The runs decide; until then run times are assumed to follow the load fully.
"""

import math
from typing import Final

import msgspec

FORGETTING: Final = 0.98  # about the newest fifty
RUNS_MIN: Final = 12  # scored runs before an application's own figures are used
USUAL_MIN: Final = 3  # runs with a known load before a load is called usual
SLOPE_PRIOR: Final = 0.05  # prior variance of ln n for the growth of load with the size
LN_MAX: Final = 1.5  # limit of distances in ln
FOLLOW_PRIOR: Final = 0.1  # prior sum of squares of ln load for the slope of run times
SPREAD_PRIOR: Final = 5.0  # prior number of runs for their scatter
WIDTH_MIN: Final = 0.2
WIDTH_MAX: Final = 1.25  # the band of the curve itself grows where runs leave it
OFF_MAX: Final = 2.5  # limit in deviations
NORMAL_MEAN: Final = math.sqrt(2 / math.pi)  # distance from the middle in deviations


def digits(value: float) -> float:
    """Return a number in the five significant digits of the stored form."""
    return float(f"{value:.5g}")


class Usual(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Loads of past runs: number, means of ln n and ln load, variance of ln n, covariance of both; newer runs weigh more."""

    runs: int = 0
    ln_n: float = 0.0
    ln_load: float = 0.0
    nn: float = 0.0
    nl: float = 0.0

    def met(self, n: float, load: float | None) -> "Usual":
        if load is None or not 0 < load < math.inf:
            return self
        runs = self.runs + 1
        weight = max(1 / runs, 1 - FORGETTING)
        off_n, off_load = math.log(n) - self.ln_n, math.log(load) - self.ln_load
        return Usual(
            runs,
            digits(self.ln_n + weight * off_n),
            digits(self.ln_load + weight * off_load),
            digits((1 - weight) * (self.nn + weight * off_n * off_n)),
            digits((1 - weight) * (self.nl + weight * off_n * off_load)),
        )

    def at(self, n: float, least: float = 1.0) -> float | None:
        """Return the usual load at a size, at least `least`; None before there are enough runs."""
        if self.runs < USUAL_MIN:
            return None
        slope = min(max(self.nl / (self.nn + SLOPE_PRIOR), 0.0), 1.0)
        off_n = min(max(math.log(n) - self.ln_n, -LN_MAX), LN_MAX)
        return max(math.exp(self.ln_load + slope * off_n), least)


class Followed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How runs followed the load: fading sums over runs of x^2 and x y for x = ln(load / usual), y = ln(run / curve).

    `off` is the sum of |ln(run / prediction)| in deviations of the equation's own prediction.
    """

    runs: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    off: float = 0.0

    def ran(self, x: float, y: float, distance: float) -> "Followed":
        x, y = (min(max(value, -LN_MAX), LN_MAX) for value in (x, y))
        sums = (self.runs, 1.0), (self.xx, x * x), (self.xy, x * y), (self.off, min(distance, OFF_MAX))
        return Followed(*(digits(FORGETTING * old + new) for old, new in sums))

    def share(self, prior: float, computes: float = 1.0, besides: float = 0.0) -> float:
        """Return how closely run times follow the load, from 0 to 1; `prior` until runs decide.

        If only a part `computes`, `besides` is the contribution of the rest to the sum of x y.
        """
        follows = (self.xy - besides + FOLLOW_PRIOR * prior * computes) / (computes * (self.xx + FOLLOW_PRIOR))
        return min(max(follows, 0.0), 1.0)

    def width(self, prior: float) -> float:
        """Return the factor for the spread of predictions; `prior` until runs decide."""
        weighted_runs = NORMAL_MEAN * (self.runs + SPREAD_PRIOR)
        return min(max((self.off + SPREAD_PRIOR * NORMAL_MEAN * prior) / weighted_runs, WIDTH_MIN), WIDTH_MAX)
