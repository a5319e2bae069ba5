"""ADEPT's two steps on a few candidates: the curve through the largest size, then freed by a few per cent.

The exact search (`processors.models.two_step`) takes milliseconds for each target. Here the candidates are the curves
that the Bayes average has kept anyway, and the one target is twice the largest size, so this member answers beyond it.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.bayes import Grid, Posterior
from processors.models.downey import curvature_of_sigma
from processors.models.envelope import Envelope
from processors.models.members import Ability
from processors.models.two_step import EXTENSION, NOISE_FLOOR, STEP, prior_penalty, target_weights

Floats = NDArray[np.float64]

ABILITY: Final = Ability("adept", sizes_min=3, extrapolates=True)
CANDIDATES_MAX: Final = 256
TARGET: Final = 2.0  # times the largest size


class DowneyCurve(NamedTuple):
    """Average parallelism, variance of parallelism and T(1) in seconds.

    >>> DowneyCurve(16.0, 0.5, 100.0).sigma
    0.5
    """

    parallelism: float
    sigma: float
    t1_s: float


def fit_adept(n: Floats, run_time_s: Floats, belief: Posterior, bounds: Envelope, noise: float) -> DowneyCurve:
    """Return the curve for twice the largest size; `n` (rising, distinct, at least 1) and `run_time_s` have shape (k,).

    `belief` is the posterior over Downey's curves and `bounds` the envelope of the same sizes, `noise` the standard
    deviation of ln t.

    >>> from processors.models.adept import study
    >>> n, t = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])
    >>> found = study(n, t)
    >>> round(fit_adept(n, t, found.posterior, found.envelope, found.noise).parallelism)
    15
    """
    cells = _candidates(belief)
    inverse = cells.inverse_speedups(n)
    parallelism, curvature = np.exp(cells.ln_parallelism), curvature_of_sigma(cells.sigma)
    weights = target_weights(n, TARGET * float(n[-1]))
    variance = max(NOISE_FLOOR, noise) ** 2
    prior = prior_penalty(parallelism, cells.sigma, float(n[-1]))
    relative = inverse / run_time_s[:, None]
    through = run_time_s[-1] / inverse[-1]
    first = int((weights @ (through * relative - 1.0) ** 2 / variance + prior).argmin())
    near = (np.abs(cells.ln_parallelism - cells.ln_parallelism[first]) <= np.log1p(EXTENSION)) & (
        np.abs(curvature - curvature[first]) <= EXTENSION / 2.0
    )
    free = (weights @ relative) / (weights @ relative**2)
    inside = np.clip(free, bounds.t1_low_s, bounds.t1_high_s)
    t1_s = np.clip(inside, through * (1.0 - STEP), through * (1.0 + STEP))
    cost = weights @ (t1_s * relative - 1.0) ** 2 / variance + prior
    best = int(np.where(near, cost, np.inf).argmin())
    return DowneyCurve(float(parallelism[best]), float(cells.sigma[best]), float(t1_s[best]))


def _candidates(belief: Posterior) -> Grid:
    if belief.mass.size <= CANDIDATES_MAX:
        return belief.cells
    kept = np.sort(np.argpartition(belief.mass, -CANDIDATES_MAX)[-CANDIDATES_MAX:])
    return Grid(*(field[kept] for field in belief.cells))
