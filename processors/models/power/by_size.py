"""The power of a run by its size: what was drawn at each size, and a law between and beyond.

ln of the power of all hosts together is a Gaussian process of ln n (C. Rasmussen, C. Williams, "Gaussian Processes for
Machine Learning", 2006, 2.2 and 2.7): a straight line whose slope is about 1, for twice the nodes draw twice as much, and
about it a smooth deviation. At a size that was run often it is the mean of its runs; further out it goes back to the line.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SLOPE: Final = 1.0
SLOPE_DEVIATION: Final = 0.15
LEVEL_DEVIATION: Final = 10.0  # of ln power of one host: as good as unknown
OFF_LINE: Final = 0.08  # deviation of a size's ln power from the line
REACH: Final = float(np.log(4.0))  # in ln n, by which sizes tell of one another
NOISE: Final = 0.05  # deviation of ln power of a run, believed as so many runs tell:
NOISE_RUNS: Final = 2.0
NOISE_MIN: Final = 0.002
SIZES_MAX: Final = 128  # spread evenly where there are more


class Expected(NamedTuple):
    """Power in W at sizes (m,), and the deviation of ln of a run's power there (m,).

    >>> Expected(np.array([400.0]), np.array([0.05])).power_w.tolist()
    [400.0]
    """

    power_w: Floats
    deviation: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PowerLaw:
    """The process, fitted to sizes (k,) by their ln, rising.

    >>> found = power_law(np.array([1.0, 2.0, 4.0]), np.array([300.0, 600.0, 1200.0]), np.ones(3))
    >>> found.at([2.0, 8.0]).power_w.round(-1).tolist()
    [600.0, 2400.0]
    """

    ln_n: Floats
    centre: float
    level: float
    answer: Floats
    inverse: Floats
    noise: float

    def at(self, n: npt.ArrayLike) -> Expected:
        """Return what runs of sizes (m,) will draw."""
        asked = np.log(np.asarray(n, np.float64))
        near = self._alike(asked, self.ln_n)
        own = LEVEL_DEVIATION**2 + (SLOPE_DEVIATION * (asked - self.centre)) ** 2 + OFF_LINE**2
        known = (near @ self.inverse * near).sum(axis=1)
        ln_power = self.level + SLOPE * (asked - self.centre) + near @ self.answer
        return Expected(np.exp(ln_power), np.sqrt(np.maximum(own - known, 0.0) + self.noise**2))

    def _alike(self, a: Floats, b: Floats) -> Floats:
        return _covariance(a - self.centre, b - self.centre)


def power_law(n: Floats, power_w: Floats, weight: Floats) -> PowerLaw:
    """Return the law of runs (k,): their sizes, their power and how much each counts. ValueError without runs.

    >>> power_law(np.zeros(0), np.zeros(0), np.zeros(0))
    Traceback (most recent call last):
    ValueError: A law of power needs a run.
    """
    if not len(n):
        raise ValueError("A law of power needs a run.")
    size, place = np.unique(n, return_inverse=True)
    heavy = np.bincount(place, weight)
    mean = np.bincount(place, weight * np.log(power_w)) / heavy
    squares = float((weight * (np.log(power_w) - mean[place]) ** 2).sum())
    free = max(float(heavy.sum()) - len(size), 0.0)
    noise = max(float(np.sqrt((NOISE_RUNS * NOISE**2 + squares) / (NOISE_RUNS + free))), NOISE_MIN)
    if len(size) > SIZES_MAX:
        kept = np.arange(SIZES_MAX) * len(size) // SIZES_MAX
        size, heavy, mean = size[kept], heavy[kept], mean[kept]
    ln_n = np.log(size)
    share = heavy / heavy.sum()
    centre, level = float(share @ ln_n), float(share @ mean)
    inverse = np.asarray(
        np.linalg.inv(_covariance(ln_n - centre, ln_n - centre) + np.diag(noise**2 / heavy)), np.float64
    )
    answer = inverse @ (mean - level - SLOPE * (ln_n - centre))
    return PowerLaw(ln_n, centre, level, answer, inverse, noise)


def _covariance(a: Floats, b: Floats) -> Floats:
    """Return the covariances of ln power at sizes (m,) and (k,), by their ln from the centre."""
    line = LEVEL_DEVIATION**2 + SLOPE_DEVIATION**2 * a[:, None] * b
    return np.asarray(line + OFF_LINE**2 * np.exp(-np.abs(a[:, None] - b) / REACH))
