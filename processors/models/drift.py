"""Did runs become slower or faster for good: a two-sided CUSUM of standardised ln ratios of observed to expected.

Source: Page, "Continuous inspection schemes" (1954). With z the ratio in standard deviations, cut at CLIP,

    up = max(0, up + z - SLACK),   down = max(0, down - z - SLACK),   alarm above THRESHOLD.

Under no drift an alarm comes once in about 8,700 runs if z is normal; shifts of one, two and three standard deviations
are found after about 15, 6 and 4 runs.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, TypeVar

Direction = Literal["regression", "improvement"]
Size = TypeVar("Size", bound=Hashable)
SLACK: Final = 0.5
THRESHOLD: Final = 8.0
CLIP: Final = 4.0
NOISE_MIN: Final = 0.01  # of ln run time: no clock and no machine repeats better
NOISE_MAX: Final = 1.0
NOISE_RATE: Final = 0.03
NOISE_OUTLIER: Final = 3.0  # a run counts for the noise with at most this many standard deviations
FACTOR_MIN: Final = 0.05
RATIOS_MAX: Final = 32
RUNS_MANY: Final = 1000


def clipped(ln_ratio: float, noise: float) -> float:
    """Return a ratio in standard deviations, cut at CLIP either way.

    >>> clipped(0.1, 0.05), clipped(-9.0, 0.05)
    (2.0, -4.0)
    """
    return min(max(ln_ratio / noise, -CLIP), CLIP)


def noise_after(noise: float, ln_ratio: float, runs: int = RUNS_MANY) -> float:
    """Return the standard deviation of ln ratios after one more; `runs` is how many were known before.

    An exponential mean of squares that outliers hardly move; of the first runs each weighs more.

    >>> round(noise_after(0.05, 0.05), 9), noise_after(0.01, 0.0), round(noise_after(0.1, 0.05, runs=1), 3)
    (0.05, 0.01, 0.09)
    """
    rate = max(NOISE_RATE, 1 / (runs + 3))
    square = min(ln_ratio**2, (NOISE_OUTLIER * noise) ** 2)
    return min(max(math.sqrt((1 - rate) * noise**2 + rate * square), NOISE_MIN), NOISE_MAX)


@dataclass(slots=True)
class Cusum:
    """Both sums.

    >>> cusum = Cusum()
    >>> [cusum.add(z) for z in (0.2, -0.5, 1, 2, 2.5, 3, 2, 2)][-2:]
    [None, 'regression']
    >>> cusum.up
    9.5
    """

    up: float = 0.0
    down: float = 0.0

    def add(self, z: float) -> Direction | None:
        """Take a standardised ratio in; return the direction once a sum is above THRESHOLD. ValueError for no number."""
        if math.isnan(z):
            raise ValueError("A standardised ratio must be a number.")
        self.up = max(0.0, self.up + z - SLACK)
        self.down = max(0.0, self.down - z - SLACK)
        if self.up > THRESHOLD:
            return "regression"
        return "improvement" if self.down > THRESHOLD else None


def beyond(ln_ratio: float, ln_factor: float, margin: float) -> float:
    """Return how far a ratio lies outside of what a known shift explains, 0 inside.

    After a shift by exp(ln_factor) was found, the model that expects is on its way from the old time to the new one, at
    its own pace: any ratio between both ends says nothing new. `margin` is added at the far end, whose place is
    estimated from a few runs.

    >>> beyond(0.1, ln_factor=0.2, margin=0.05), round(beyond(0.4, 0.2, 0.05), 9), round(beyond(-0.1, 0.2, 0.05), 9)
    (0.0, 0.15, -0.1)
    """
    far = ln_factor + math.copysign(margin, ln_factor) if ln_factor else 0.0
    low, high = min(far, 0.0), max(far, 0.0)
    return ln_ratio - min(max(ln_ratio, low), high)


def began(ln_ratios: Sequence[float], noise: float) -> int:
    """Return at which of the ratios since a sum was last 0 the shift most probably began; ValueError for none.

    With normal scatter a shift from 0 to any level is likeliest from where (sum to the end)^2 / count is the largest
    (Hinkley 1970). Ratios are cut at 2 CLIP standard deviations, so that one outlier is no shift; of equals the first.

    >>> began([0.01, 0.02, 0.2, 0.25, 0.22], noise=0.05)
    2
    """
    if not ln_ratios:
        raise ValueError("A shift begins with a run.")
    sums = accumulate(reversed(_cut(ln_ratios, noise)))
    gains = [total**2 / (count + 1) for count, total in enumerate(sums)]
    return max(range(len(gains)), key=lambda start: gains[len(gains) - 1 - start])


def explained_by_one(ln_ratios: Sequence[float], sizes: Sequence[Size], noise: float) -> Size | None:
    """Return the size whose runs alone explain ratios better than a shift of all sizes would; None where all moved.

    Both explanations have one number: the mean of all ratios with no ratio of 0, or that of one size where the others
    stayed at 0. The smaller sum of squares explains better; a single size explains what is its own. Ratios are cut as in
    `began`. ValueError for none.

    >>> explained_by_one([0.4, 0.01, 0.41, 0.38], [16, 8, 16, 16], noise=0.05)
    16
    >>> explained_by_one([0.2, 0.24, 0.22], [16, 8, 16], noise=0.05) is None
    True
    """
    cut = _cut(ln_ratios, noise)
    of_size: dict[Size, list[float]] = {}
    for ratio, size in zip(cut, sizes, strict=True):
        of_size.setdefault(size, []).append(ratio)
    gained = {size: sum(part) ** 2 / len(part) for size, part in of_size.items()}
    one = max(gained, key=lambda size: gained[size])
    return one if len(of_size) == 1 or gained[one] > sum(cut) ** 2 / len(cut) else None


def matters(ln_factor: float, noise: float) -> bool:
    """Tell whether a shift is worth a word: by more than FACTOR_MIN and more than one standard deviation of a run.

    >>> matters(0.2, 0.05), matters(-0.2, 0.05), matters(0.04, 0.01), matters(0.2, 0.5)
    (True, True, False, False)
    """
    return math.exp(abs(ln_factor)) > 1 + max(FACTOR_MIN, noise)


def _cut(ln_ratios: Sequence[float], noise: float) -> list[float]:
    most = 2 * CLIP * noise
    return [min(max(ratio, -most), most) for ratio in ln_ratios]
