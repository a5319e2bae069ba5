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
STRANGE_WEIGHT: Final = 0.25
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


def strange(p: float, ln_ratio: float, noise: float) -> bool:
    """Tell whether a run is strange: p below P_MAX, and off by 10 % and by three standard deviations of a run.

    P_MAX can only be reached once 100 runs were scored.

    >>> strange(0.005, 0.4, 0.05), strange(0.005, 0.4, 0.2), strange(0.02, 0.4, 0.05)
    (True, False, False)
    """
    return p < P_MAX and abs(ln_ratio) > max(LN_RATIO_MIN, NOISES_MIN * noise)


def learning_weight(strange_runs: Sequence[bool]) -> float:
    """Return how much a model should learn of the last of some runs, each told strange or not.

    Little of a strange one, unless 3 of the last 5 were strange: then it is no accident but drift.

    >>> learning_weight([False, True]), learning_weight([True, False, True, True]), learning_weight([])
    (0.25, 1.0, 1.0)
    """
    drifting = sum(strange_runs[-LAST_RUNS:]) >= AGREEING
    return STRANGE_WEIGHT if strange_runs and strange_runs[-1] and not drifting else 1.0
