"""Lasting shifts and single outliers of run time.

A two-sided CUSUM of standardised ln ratios z of observed to expected run time raises an alarm (Page, "Continuous inspection schemes",
1954):

    up = max(0, up + z - SLACK),   down = max(0, down - z - SLACK),   alarm above THRESHOLD.

Rank tests decide whether the newest ratios differ from the older ones. After an alarm, and if the ratios scatter symmetrically, weak
evidence is enough; otherwise the ranks alone have to show the shift. In 5,760 unchanged runs, a quarter of which others slowed down by
up to 42 times, the CUSUM alone raised 24 alarms and the ranks none; a lasting slow-down by 10 % among such runs is found after 8 runs.
"""

import math
from bisect import insort
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist, fmean
from typing import Final, Literal, TypeVar

import numpy as np

# A single run is an outlier if few earlier runs were as far off and the run was far off in time. The first condition is a
# conformal p-value (Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005): without a change it is below p
# in at most a share p of the runs, for any distribution.

P_MAX: Final = 0.01
LN_RATIO_MIN: Final = 0.1
NOISES_MIN: Final = 3.0
SCORES_MAX: Final = 200
FARTHEST: Final = 4  # only the two farthest of 200 scores are rare
LAST_RUNS: Final = 5
AGREEING: Final = 3


def farthest_after(
    farthest: Sequence[tuple[int, float]], newest: Sequence[tuple[int, float]]
) -> list[tuple[int, float]]:
    """Return the (number, score) pairs that `farthest_p` may still need, after the scores `newest` were added.

    Only pairs among the last SCORES_MAX scores are retained, and a pair is dropped once FARTHEST later scores are at least as large.
    About twenty pairs thus replace a window of 200. The result does not depend on whether scores come together or one by one.

    >>> farthest_after([(0, 1.0), (1, 5.0)], [(2, 3.0)])
    [(0, 1.0), (1, 5.0), (2, 3.0)]
    """
    oldest = newest[-1][0] - SCORES_MAX
    entries = [entry for entry in (*farthest, *newest) if entry[0] > oldest]
    retained: list[tuple[int, float]] = []
    later: list[float] = []  # the FARTHEST largest scores among the later ones, ascending
    for entry in reversed(entries):
        if len(later) < FARTHEST:
            insort(later, entry[1])
        elif entry[1] > later[0]:
            insort(later, entry[1])
            del later[0]
        else:
            continue
        retained.append(entry)
    retained.reverse()
    return retained


def farthest_p(farthest: Sequence[tuple[int, float]], scored: int, score: float) -> float:
    """Return the conformal p-value of `score` among the last SCORES_MAX of `scored` scores, from the pairs of `farthest_after`.

    It is exact below FARTHEST / SCORES_MAX. A larger result is a lower bound of the p-value, which suffices for all rules.

    >>> round(farthest_p([(7, 3.0), (9, 2.0)], scored=199, score=2.5), 6)
    0.01
    """
    above = sum([earlier >= score for number, earlier in farthest if number >= scored - SCORES_MAX])
    return (1 + above) / (min(scored, SCORES_MAX) + 1)


def rare(p: float, scored: int) -> bool:
    """Return whether a score is rare enough for an outlier: `p` is below P_MAX.

    Before 200 scored runs, a score is also rare if at most one earlier score was as large.

    >>> rare(0.005, 200), rare(0.02, 200), rare(2 / 21, 20), rare(3 / 21, 20)
    (True, False, True, False)
    """
    return p < P_MAX or (scored < SCORES_MAX and p * (scored + 1) < 2.5)


def far(ln_ratio: float, noise: float) -> bool:
    """Return whether a run is off its prediction by more than LN_RATIO_MIN and by more than NOISES_MIN times the `noise` of single runs."""
    return abs(ln_ratio) > max(LN_RATIO_MIN, NOISES_MIN * noise)


def agreeing(outlier: int, at_size: Sequence[int]) -> bool:
    """Return whether an outlier must be accepted as real: 3 of the last 5 runs at its size were outliers in the same direction.

    Runs are 1 (much too slow), -1 (much too fast) or 0, the newest last.

    >>> agreeing(1, [0, 1]), agreeing(1, [1, 0, 1, 1]), agreeing(1, [1, -1, 1])
    (False, True, False)
    """
    return sum(each == outlier for each in at_size[-LAST_RUNS:]) >= AGREEING


Direction = Literal["regression", "improvement"]
Size = TypeVar("Size", bound=Hashable)
SLACK: Final = 0.5
THRESHOLD: Final = 8.0
CLIP: Final = 4.0
NOISE_MIN: Final = 0.01  # in ln run time: no clock and no machine is more precise
NOISE_MAX: Final = 1.0
NOISE_RATE: Final = 0.03
NOISE_OUTLIER: Final = 3.0  # limit of the contribution of a run to the noise, in standard deviations
FACTOR_MIN: Final = 0.05
LN_FACTOR_MIN: Final = math.log1p(FACTOR_MIN)
LEANING: Final = 2.0  # least ratio of the longer to the shorter tail of ratios that a normal law does not describe
# Limits of the probability that unchanged runs look like a shift: after an alarm of the CUSUM, and without one.
CHANCE_AFTER_ALARM: Final = 2e-3
CHANCE_ALONE: Final = 5e-6
OLDER_MIN: Final = 12  # fewest and most older runs with which the newest runs are compared
OLDER_MAX: Final = 64
NEWEST_MIN: Final = 3
NEWEST_MAX: Final = 16
# numbers of newest runs that are compared
_NEWEST: Final = np.array([NEWEST_MIN, 4, 5, 6, 7, 8, 10, 12, 14, NEWEST_MAX])
_NORMAL: Final = NormalDist()
RUNS_MANY: Final = 1000


def tails(ratios: Sequence[float]) -> tuple[float, float]:
    """Return how far the lower and the upper decile of `ratios` lie from their middle, at least NOISE_MIN each.

    The middle is the mean of the 40 % and 60 % quantiles. If other jobs slow runs down, the upper tail is much longer than the
    lower tail, because runs are hardly ever sped up.

    >>> [round(tail, 2) for tail in tails([0.0, 0.01, -0.01, 0.0, 0.4, 0.6] * 10)]
    [0.01, 0.59]
    """
    ascending = sorted(ratios)
    low, *centre, high = (ascending[round(level * (len(ascending) - 1))] for level in (0.1, 0.4, 0.6, 0.9))
    middle = fmean(centre)
    return max(middle - low, NOISE_MIN), max(high - middle, NOISE_MIN)


def shifted_runs(ln_ratios: Sequence[float], direction: Direction, chance_max: float) -> int:
    """Return the number of newest ratios that show a lasting shift in `direction`; 0 without a shift.

    The newest ratios must differ from the older ones so clearly that unchanged runs would do so with a probability below
    `chance_max`, by one of three rank tests. (1) The rank sum (Mann and Whitney, 1947) finds a shift if ratios scatter
    symmetrically. (2) The lowest rank of the newest ratios finds a slow-down among runs that other jobs disturb: even the fastest
    new run is slower than undisturbed old runs. (3) The number of newest ratios beyond all older ones (Rosenbaum, 1954) finds a
    speed-up among such runs. Several numbers of newest ratios are tried. Among those whose median differs by FACTOR_MIN, the one
    with the smallest probability is returned.

    >>> around_zero = [-0.02, -0.01, 0.0, 0.01, 0.02] * 12
    >>> [shifted_runs([*around_zero, *[0.3] * runs], "regression", 1e-6) for runs in (3, 4, 5)]
    [0, 4, 5]
    >>> slowed_by_others = [0.0, 0.01, 0.4] * 20
    >>> [shifted_runs([*slowed_by_others, *[0.3] * runs], "regression", 1e-5) for runs in (5, 12)]
    [0, 12]
    """
    sign, limit = (1.0 if direction == "regression" else -1.0), math.log(chance_max)
    newest = _NEWEST[len(ln_ratios) - OLDER_MIN >= _NEWEST]
    if not newest.size:
        return 0
    ratios = sign * np.array(ln_ratios)
    # ranks, the newest run first; of equal ratios, the newest has the lowest rank
    from_newest = ratios[::-1].argsort(kind="stable").argsort() + 1
    rank_sum, lowest = np.cumsum(from_newest)[newest - 1], np.minimum.accumulate(from_newest)[newest - 1]
    older = ratios.size - newest
    by_lowest = newest * np.log((older + 2 - lowest) / (older + 1))  # all newest ranks are at least the lowest
    larger = rank_sum - newest * (newest + 1) / 2  # pairs of a newest and an older ratio of which the newest is larger
    score = (larger - 0.5 - newest * older / 2) / np.sqrt(newest * older * (newest + older + 1) / 12)
    beyond_all = ratios.size - np.maximum.accumulate(from_newest[::-1])[older - 1]  # newest ratios above all older ones
    differs = (by_lowest < limit) | (score > -_NORMAL.inv_cdf(chance_max)) | (beyond_all >= NEWEST_MIN)
    best, runs = limit, 0
    for place in np.flatnonzero(differs).tolist():
        m, k, above = int(newest[place]), int(older[place]), int(beyond_all[place])
        by_number = _ln_binomial(m + k - above, k) - _ln_binomial(m + k, k)
        chance = min(float(by_lowest[place]), by_number, _ln_tail(float(score[place])) if above < m else 0.0)
        if chance < best and np.median(ratios[k:]) - np.median(ratios[:k]) >= LN_FACTOR_MIN:
            best, runs = chance, m
    return runs


def _ln_tail(score: float) -> float:
    return math.log(max(_NORMAL.cdf(-score), 1e-300))


def _ln_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def clipped(ln_ratio: float, noise: float) -> float:
    """Return `ln_ratio` in standard deviations `noise`, clipped to the range from -CLIP to CLIP."""
    return min(max(ln_ratio / noise, -CLIP), CLIP)


def noise_after(noise: float, ln_ratio: float, runs: int = RUNS_MANY) -> float:
    """Return the standard deviation of ln ratios after `ln_ratio` is added; `runs` is the number of earlier runs.

    The variance is an exponential mean of squares with limited outliers; the first runs weigh more.

    >>> round(noise_after(0.05, 0.05), 9), noise_after(0.01, 0.0), round(noise_after(0.1, 0.05, runs=1), 3)
    (0.05, 0.01, 0.09)
    """
    rate = max(NOISE_RATE, 1 / (runs + 3))
    square = min(ln_ratio**2, (NOISE_OUTLIER * noise) ** 2)
    return min(max(math.sqrt((1 - rate) * noise**2 + rate * square), NOISE_MIN), NOISE_MAX)


@dataclass(slots=True)
class Cusum:
    """The two CUSUM statistics of a series of standardised ln ratios: `up` grows if runs become slower, `down` if they become faster.

    >>> cusum = Cusum()
    >>> [cusum.add(z) for z in (0.2, -0.5, 1, 2, 2.5, 3, 2, 2)][-2:]
    [None, 'regression']
    >>> cusum.up
    9.5
    """

    up: float = 0.0
    down: float = 0.0

    def add(self, z: float) -> Direction | None:
        """Add a standardised ratio; return the direction if a sum is above THRESHOLD. ValueError for nan."""
        if math.isnan(z):
            raise ValueError("A standardised ratio must be a number.")
        self.up = max(0.0, self.up + z - SLACK)
        self.down = max(0.0, self.down - z - SLACK)
        if self.up > THRESHOLD:
            return "regression"
        return "improvement" if self.down > THRESHOLD else None


def risen(ln_ratios: Sequence[float], noise: float, direction: Direction) -> int:
    """Return for how many of the newest ratios the CUSUM of `direction` has been above 0, if it is above THRESHOLD now, else 0.

    >>> risen([0.0, 0.02, 0.3, 0.31, 0.3], 0.05, "regression"), risen([0.3, 0.0, 0.3], 0.05, "regression")
    (3, 0)
    """
    cusum, since = Cusum(), 0
    alarmed = False
    for ratio in ln_ratios:
        alarmed = cusum.add(clipped(ratio, noise)) == direction
        since = since + 1 if (cusum.up if direction == "regression" else cusum.down) else 0
    return since if alarmed else 0


def beyond(ln_ratio: float, ln_factor: float, margin: float) -> float:
    """Return the part of `ln_ratio` that a known shift by `ln_factor` (in ln) leaves unexplained; 0 if the shift explains all.

    After a shift, the model moves gradually from the old run time to the new one, so every ratio between both is explained. `margin`
    is added beyond the new run time, because the shift was estimated from a few runs.

    >>> beyond(0.1, ln_factor=0.2, margin=0.05), round(beyond(0.4, 0.2, 0.05), 9), round(beyond(-0.1, 0.2, 0.05), 9)
    (0.0, 0.15, -0.1)
    """
    if not ln_factor:
        return ln_ratio + 0.0  # no shift is known: the usual case
    far_end = ln_factor + math.copysign(margin, ln_factor)
    low, high = min(far_end, 0.0), max(far_end, 0.0)
    return ln_ratio - min(max(ln_ratio, low), high)


def began(ln_ratios: Sequence[float], noise: float) -> int:
    """Return the index of the ratio at which the shift most probably began; ValueError without ratios.

    `ln_ratios` are the ratios since a sum was last 0. With normal scatter the likeliest start of a shift to any level maximises
    (sum to the end)^2 / count (Hinkley 1970); on a tie the first. Ratios are clipped to 2 CLIP standard deviations, so that one
    outlier is no shift.

    >>> began([0.01, 0.02, 0.2, 0.25, 0.22], noise=0.05)
    2
    """
    if not ln_ratios:
        raise ValueError("A shift begins with a run.")
    sums = accumulate(reversed(_cut(ln_ratios, noise)))
    gains = [total**2 / (count + 1) for count, total in enumerate(sums)]
    return max(range(len(gains)), key=lambda start: gains[len(gains) - 1 - start])


def explained_by_one(ln_ratios: Sequence[float], sizes: Sequence[Size], noise: float) -> Size | None:
    """Return the size whose runs alone explain the ratios better than a shift of all sizes; None if all sizes shifted.

    Both explanations have one parameter: the mean of all ratios, or the mean of one size with the other sizes at 0. The smaller
    sum of squares wins; a single size always explains its own ratios. Ratios are clipped as in `began`. ValueError if empty.

    >>> explained_by_one([0.4, 0.01, 0.41, 0.38], [16, 8, 16, 16], noise=0.05)
    16
    >>> explained_by_one([0.2, 0.24, 0.22], [16, 8, 16], noise=0.05) is None
    True
    """
    ratios = _cut(ln_ratios, noise)
    of_size: dict[Size, list[float]] = {}
    for ratio, size in zip(ratios, sizes, strict=True):
        of_size.setdefault(size, []).append(ratio)
    gained = {size: sum(part) ** 2 / len(part) for size, part in of_size.items()}
    best = max(gained, key=lambda size: gained[size])
    return best if len(of_size) == 1 or gained[best] > sum(ratios) ** 2 / len(ratios) else None


def matters(ln_factor: float, noise: float) -> bool:
    """Return whether a shift is worth reporting: larger than FACTOR_MIN and larger than one standard deviation of single runs."""
    return math.exp(abs(ln_factor)) > 1 + max(FACTOR_MIN, noise)


def _cut(ln_ratios: Sequence[float], noise: float) -> list[float]:
    most = 2 * CLIP * noise
    return [min(max(ratio, -most), most) for ratio in ln_ratios]
