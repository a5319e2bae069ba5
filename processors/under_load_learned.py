"""What runs teach of load: the one that is usual at a size, how closely run times follow it, and how far they scatter.

A curve is measured under some load, and more hosts meet a higher one: the slowest of many is slower. Load of the minutes
before a start says much of a short run where load stays alike, and nothing where it changes quickly, or where a job has its
hosts for itself. What runs show decides; until they do, they are taken to follow it wholly.
"""

import math
from typing import Final

import msgspec

FORGETTING: Final = 0.98  # about the newest fifty
USUAL_MIN: Final = 3  # runs whose load was known before it is called usual
SLOPE_PRIOR: Final = 0.05  # variance of ln n that says nothing of how load grows with the size
FOLLOW_PRIOR: Final = 0.1  # sum of squares of ln load that says nothing of how run times follow it
SPREAD_PRIOR: Final = 5.0  # runs that say nothing of how far they scatter
LN_MAX: Final = 1.5  # what is farther off counts as so far
WIDTH_MIN: Final = 0.2
WIDTH_MAX: Final = 1.25  # the band of the curve itself grows where runs leave it
OFF_MAX: Final = 2.5  # deviations; what is farther off counts as so far
NORMAL_MEAN: Final = math.sqrt(2 / math.pi)  # distance from the middle in deviations


class Usual(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Loads that runs met: how many, means of ln n and ln load, variance of ln n, covariance of both; newer ones weigh more.

    >>> usual = Usual()
    >>> for n, load in ((1.0, 1.1), (4.0, 1.3), (16.0, 1.5), (4.0, 1.3)): usual = usual.met(n, load)
    >>> round(usual.at(4.0), 1), usual.at(1.0) < usual.at(4.0) < usual.at(16.0), Usual().at(4.0)
    (1.3, True, None)
    """

    runs: int = 0
    ln_n: float = 0.0
    ln_load: float = 0.0
    nn: float = 0.0
    nl: float = 0.0

    def met(self, n: float, load: float | None) -> "Usual":
        """Return it with one more load."""
        if load is None or not 0 < load < math.inf:
            return self
        runs = self.runs + 1
        weight = max(1 / runs, 1 - FORGETTING)
        off_n, off_load = math.log(n) - self.ln_n, math.log(load) - self.ln_load
        return Usual(
            runs,
            _digits(self.ln_n + weight * off_n),
            _digits(self.ln_load + weight * off_load),
            _digits((1 - weight) * (self.nn + weight * off_n * off_n)),
            _digits((1 - weight) * (self.nl + weight * off_n * off_load)),
        )

    def at(self, n: float) -> float | None:
        """Return the usual load at a size; None until enough runs told it."""
        if self.runs < USUAL_MIN:
            return None
        slope = min(max(self.nl / (self.nn + SLOPE_PRIOR), 0.0), 1.0)
        off_n = min(max(math.log(n) - self.ln_n, -LN_MAX), LN_MAX)
        return math.exp(max(self.ln_load + slope * off_n, 0.0))


class Followed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How runs followed the load: sums over runs, that fade, of x^2 and x y for x = ln(load / usual), y = ln(run / curve).

    `off` is the sum of distances |ln(run / told)| in the deviation that the equation alone would have told.

    >>> followed = Followed()
    >>> for _ in range(50): followed = followed.ran(x=0.5, y=0.1, distance=0.4)
    >>> round(followed.share(1.0), 1), followed.width(1.0) < 0.6
    (0.2, True)
    """

    runs: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    off: float = 0.0

    def ran(self, x: float, y: float, distance: float) -> "Followed":
        """Return it with one more run."""
        x, y = (min(max(value, -LN_MAX), LN_MAX) for value in (x, y))
        sums = (self.runs, 1.0), (self.xx, x * x), (self.xy, x * y), (self.off, min(distance, OFF_MAX))
        return Followed(*(_digits(FORGETTING * old + new) for old, new in sums))

    def share(self, prior: float) -> float:
        """Return how closely run times follow the load, from 0 to 1; `prior` until runs say otherwise."""
        return min(max((self.xy + FOLLOW_PRIOR * prior) / (self.xx + FOLLOW_PRIOR), 0.0), 1.0)

    def width(self, prior: float) -> float:
        """Return the factor by which the spread of what is told has to be scaled; `prior` until runs say otherwise."""
        told = NORMAL_MEAN * (self.runs + SPREAD_PRIOR)
        return min(max((self.off + SPREAD_PRIOR * NORMAL_MEAN * prior) / told, WIDTH_MIN), WIDTH_MAX)


def _digits(value: float) -> float:
    return float(f"{value:.5g}")
