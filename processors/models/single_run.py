"""Is a single run strange: how improbable it is under what was predicted, and how rare among the runs scored before.

The rule asks both that few earlier runs were as far off (a conformal p-value, Vovk, Gammerman, Shafer, "Algorithmic
Learning in a Random World", 2005: under no change it is below p in at most p of the runs, whatever their law) and that
the run was far off in time.
"""

import math
from collections.abc import Sequence
from typing import Final

P_MAX: Final = 0.01
LN_RATIO_MIN: Final = 0.1
NOISES_MIN: Final = 3.0
SCORES_MAX: Final = 200
FARTHEST: Final = 4  # the third of 200 is not rare any more
LAST_RUNS: Final = 5
AGREEING: Final = 3
_SQRT_2: Final = math.sqrt(2.0)


def two_sided(below: float) -> float:
    """Return the two-sided p-value of a run; `below` is the probability that was given to shorter ones.

    >>> two_sided(0.5), two_sided(0.995) < 0.011, two_sided(0.0)
    (1.0, True, 0.0)
    """
    if not 0 <= below <= 1:
        raise ValueError("A probability lies between 0 and 1.")
    return 2 * min(below, 1 - below)


def normal_p(z: float) -> float:
    """Return the two-sided p-value of a normal score.

    >>> round(normal_p(1.959964), 4)
    0.05
    """
    return math.erfc(abs(z) / _SQRT_2)


def conformal_p(scores: Sequence[float], score: float) -> float:
    """Return the share of scores, this one included, that are at least as large.

    >>> conformal_p([1.0, 2.0, 3.0], 2.5), conformal_p([], 1.0)
    (0.5, 1.0)
    """
    return (1 + sum(each >= score for each in scores)) / (len(scores) + 1)


def farthest_after(farthest: Sequence[tuple[int, float]], index: int, score: float) -> list[tuple[int, float]]:
    """Return those of the last SCORES_MAX scores that matter, with their numbers, after the score number `index`.

    A score that FARTHEST later ones reach is forgotten: it can not be among the farthest any more. So a window of 200
    takes the place of about twenty.

    >>> farthest_after([(0, 1.0), (1, 5.0)], 2, 3.0)
    [(0, 1.0), (1, 5.0), (2, 3.0)]
    >>> [(number, score) for number, score in farthest_after([(i, 1.0) for i in range(FARTHEST)], 9, 2.0)][0]
    (1, 1.0)
    """
    kept = [(number, each) for number, each in farthest if number > index - SCORES_MAX]
    entries = [*kept, (index, score)]
    reached = [sum(later >= each for _, later in entries[i + 1 :]) for i, (_, each) in enumerate(entries)]
    return [entry for entry, times in zip(entries, reached, strict=True) if times < FARTHEST]


def farthest_p(farthest: Sequence[tuple[int, float]], scored: int, score: float) -> float:
    """Return the conformal p-value among the last SCORES_MAX of `scored` scores: exact below FARTHEST / SCORES_MAX.

    Above that it is a lower bound, which no rule needs to know better.

    >>> round(farthest_p([(7, 3.0), (9, 2.0)], scored=199, score=2.5), 6)
    0.01
    """
    above = sum(each >= score for number, each in farthest if number >= scored - SCORES_MAX)
    return (1 + above) / (min(scored, SCORES_MAX) + 1)


def rare(p: float, scored: int) -> bool:
    """Tell whether few enough earlier runs were as far off: p below P_MAX; before 200 runs, one at most.

    >>> rare(0.005, 200), rare(0.02, 200), rare(2 / 21, 20), rare(3 / 21, 20)
    (True, False, True, False)
    """
    return p < P_MAX or (scored < SCORES_MAX and p * (scored + 1) < 2.5)


def far(ln_ratio: float, noise: float) -> bool:
    """Tell whether a run is off by 10 % and by three standard deviations of a run.

    >>> far(0.4, 0.05), far(0.4, 0.2), far(0.05, 0.01)
    (True, False, False)
    """
    return abs(ln_ratio) > max(LN_RATIO_MIN, NOISES_MIN * noise)


def agreeing(strange: int, at_size: Sequence[int]) -> bool:
    """Tell whether a strange run has to be believed: 3 of the last 5 runs at its size were strange in the same way.

    Runs are told as 1 (strangely slow), -1 (strangely fast) or 0, the newest last.

    >>> agreeing(1, [0, 1]), agreeing(1, [1, 0, 1, 1]), agreeing(1, [1, -1, 1])
    (False, True, False)
    """
    return sum(each == strange for each in at_size[-LAST_RUNS:]) >= AGREEING
