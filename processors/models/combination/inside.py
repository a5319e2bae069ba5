"""Between the observed sizes: the law of universal scalability, plus what the observations deviate from it.

Real curves have features of their own that come again, so each observed size is met exactly and its deviation fades
towards its neighbours. How far off that is shows when each inner size is left out once.
"""

from typing import Final

import numpy as np

from processors.models.combination.curve import Floats, Scaled
from processors.models.combination.evidence import Evidence
from processors.models.members import usl

WIDTH: Final = 2.57
WIDTH_BASE: Final = 0.005
LEFT_OUT_UNKNOWN: Final = 0.03  # where there are too few sizes to leave one out


def ln_run_times(found: Evidence, n: Floats) -> Floats:
    """Return ln of the relative run time at relative sizes (m,) up to the largest, shape (m,).

    Below the smallest size its deviation goes along.

    >>> from processors.models.combination.curve import Curve
    >>> from processors.models.combination.evidence import evidence
    >>> found = evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0)))
    >>> (63 * np.exp(ln_run_times(found, np.array([12.0, 16.0]) / 32))).round(3).tolist()
    [97.314, 78.5]
    """
    law = found.laws.ln_run_times(n)[-1, 0]
    return np.asarray(law + np.interp(np.log2(n), found.data.x, found.data.y - found.ln_fits[-1, 0]))


def half_width(found: Evidence) -> float:
    """Return half the width of the 90 % band in ln t.

    >>> from processors.models.combination.curve import Curve
    >>> from processors.models.combination.evidence import evidence
    >>> round(half_width(evidence(Curve("a", "s", (1.0, 2.0), (2.0, 1.0)))), 3)
    0.051
    """
    rms = float(np.sqrt(np.mean((found.data.y - found.ln_fits[-1, 0]) ** 2)))
    return WIDTH * (0.5 * _left_out(found.data) + 0.5 * rms + WIDTH_BASE)


def _left_out(data: Scaled) -> float:
    """Return the mean |ln error| of predicting each inner size from all the others."""
    k = data.n.size
    if k < 3:
        return LEFT_OUT_UNKNOWN
    kept = np.array([[j for j in range(k) if j != i] for i in range(1, k - 1)])
    terms = usl.fit_each(data.n[kept], data.t[kept])
    laws = np.log(np.maximum(terms @ np.stack([1.0 / data.n, np.ones(k), data.n]), 1e-300))
    deviation = data.y - laws
    inner = np.arange(1, k - 1)
    left, right = deviation[inner - 1, inner - 1], deviation[inner - 1, inner + 1]
    share = (data.x[inner] - data.x[inner - 1]) / (data.x[inner + 1] - data.x[inner - 1])
    return float(np.abs(deviation[inner - 1, inner] - (left + share * (right - left))).mean())
