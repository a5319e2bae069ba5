"""Short curves of an application that has no others: the average of Downey's curves has a say.

With two or three forecasts to judge by, and nothing known of other curves, the laws follow the noise of single runs. The
average over Downey's curves carries knowledge of real jobs instead. It takes a seventh of the forecast at most, less with every
related curve and every size from the sixth on, and none far out, where it was worse than the laws. It has no say where
nothing is lost yet either: it expects every curve to bend soon.
"""

from typing import Final

import numpy as np

from processors.models.combination.evidence import LN2, Floats, Scaled
from processors.models.downey.bayes import posterior

SHARE: Final = 0.15
SIZES_FULL, SIZES_NONE = 5, 7
DISTANCE_FULL, DISTANCE_NONE = 2.0, 3.0  # doublings
DISTANCE_NEAR = 0.5  # below, it fades: a forecast starts at what was observed
LOST_FULL = 0.05  # of ln efficiency between the smallest and the largest size


def shares(data: Scaled, doubt: float, distance: Floats) -> Floats:
    """Return the share of the average in the forecast at each distance (m,) in doublings.

    `doubt` is how little the related curves say: 1 without any.

    >>> from processors.models.combination.evidence import Curve, scaled
    >>> data = scaled(Curve("a", "s", (4.0, 8.0, 16.0), (25.0, 13.0, 7.0)))
    >>> shares(data, 1.0, np.array([0.25, 1.0, 2.5, 4.0])).tolist()
    [0.075, 0.15, 0.075, 0.0]
    """
    near = np.clip((DISTANCE_NONE - distance) / (DISTANCE_NONE - DISTANCE_FULL), 0.0, 1.0)
    return np.asarray(share_most(data, doubt) * near * np.minimum(distance / DISTANCE_NEAR, 1.0))


def share_most(data: Scaled, doubt: float) -> float:
    """Return the most that the average has of any forecast.

    >>> from processors.models.combination.evidence import Curve, scaled
    >>> share_most(scaled(Curve("a", "s", (4.0, 8.0, 16.0), (25.0, 13.0, 7.0))), 1.0)
    0.15
    """
    few = min(max((SIZES_NONE - data.n.size) / (SIZES_NONE - SIZES_FULL), 0.0), 1.0)
    lost = -float(data.y[0] + data.x[0] * LN2)
    return SHARE * few * min(max(lost / LOST_FULL, 0.0), 1.0) * doubt


def ln_run_times(data: Scaled, n: Floats) -> Floats:
    """Return ln of the relative run time by the average of Downey's curves at relative sizes (m,).

    Sizes are counted in the smallest one, so that their unit does not matter.

    >>> from processors.models.combination.evidence import Curve, scaled
    >>> data = scaled(Curve("a", "s", (4.0, 8.0, 16.0), (25.0, 12.5, 6.25)))
    >>> bool(-0.7 < ln_run_times(data, np.array([2.0]))[0] < -0.5)
    True
    """
    belief = posterior(data.n / data.n[0], data.t)
    return belief.mean_ln_run_times(n / data.n[0])
