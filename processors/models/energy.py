"""Energy: what counters of it did between two readings, and the law of power by size."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats

# Counters that only grow: how much they did between two readings, where they wrap, and where they start anew.
# A counter that falls has either wrapped (its range is known, and what it must have done fits the time) or was reset, by a
# restart or a new driver. What a reset counter did before is lost, so nothing is made up for it. Where the time between
# two readings is enough for a whole range at the largest possible rate, one wrap cannot be told from two.


class Step(IntEnum):
    """What a counter did between two readings.

    >>> Step.WRAPPED.name
    'WRAPPED'
    """

    GREW = 0
    WRAPPED = 1
    RESET = 2  # nothing is known of it
    DOUBTFUL = 3  # more than is possible, or whole ranges may be missing
    UNKNOWN = 4  # a reading is missing, no count, or not later than the one before


class Increments(NamedTuple):
    """By how much counters grew (m,), nan where that is not known; and what they did (m,), a Step.

    >>> Increments(np.array([5.0]), np.array([0])).amount.tolist()
    [5.0]
    """

    amount: Floats
    step: npt.NDArray[np.int8]

    def counts(self) -> dict[str, int]:
        """Return how many did what.

        >>> Increments(np.array([5.0, np.nan]), np.array([0, 2])).counts()
        {'grew': 1, 'wrapped': 0, 'reset': 1, 'doubtful': 0, 'unknown': 0}
        """
        found = np.bincount(self.step, minlength=len(Step)).tolist()
        return {each.name.lower(): found[each] for each in Step}


def increments(
    before: npt.ArrayLike,
    now: npt.ArrayLike,
    elapsed_s: npt.ArrayLike,
    span: npt.ArrayLike = np.inf,
    rate_max: npt.ArrayLike = np.inf,
) -> Increments:
    """Return what counters did from one reading to the next, `elapsed_s` later; arrays or numbers, alike in shape.

    `span` is where a counter starts at 0 again (inf: never), `rate_max` the most it can do in a second (inf: not known).

    >>> found = increments([10.0, 262_140.0, 500.0], [25.0, 6.67115, 3.0], 1.0, 262_143.32885, 400.0)
    >>> found.amount.round(1).tolist(), [Step(each).name for each in found.step]
    ([15.0, 10.0, nan], ['GREW', 'WRAPPED', 'RESET'])
    """
    old, new, elapsed, whole, most = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(each, np.float64)) for each in (before, now, elapsed_s, span, rate_max))
    )
    with np.errstate(invalid="ignore", over="ignore"):
        known = (old >= 0) & (new >= 0) & (elapsed > 0) & np.isfinite(old + new + elapsed)
        possible = most * elapsed
        fell = new < old
        grown = np.where(fell, new + whole - old, new - old)
        # without a known rate a counter that fell by less than half of its range did not go round
        likely = np.minimum(possible, np.where(np.isfinite(most), np.inf, whole / 2))
        wrapped = fell & np.isfinite(whole) & (old <= whole) & (grown <= likely)
        doubtful = ~(fell & ~wrapped) & ((grown > possible) | (grown + whole <= possible) & np.isfinite(most))
    step = np.select(
        [~known, fell & ~wrapped, doubtful, wrapped],
        [Step.UNKNOWN, Step.RESET, Step.DOUBTFUL, Step.WRAPPED],
        Step.GREW,
    ).astype(np.int8)
    return Increments(np.where(step <= Step.WRAPPED, grown, np.nan), step)


# The power of a run by its size: what was drawn at each size, and a law between and beyond.
# ln of the power of all hosts together is a Gaussian process of ln n (C. Rasmussen, C. Williams, "Gaussian Processes for
# Machine Learning", 2006, 2.2 and 2.7): a straight line whose slope is about 1, for twice the nodes draw twice as much, and
# about it a smooth deviation. At a size that was run often it is the mean of its runs; further out it goes back to the line.

SLOPE: Final = 1.0
SLOPE_DEVIATION: Final = 0.15
LEVEL_DEVIATION: Final = 10.0  # of ln power of one host: as good as unknown
OFF_LINE: Final = 0.08  # deviation of a size's ln power from the line
REACH: Final = float(np.log(4.0))  # in ln n, by which sizes report one another
NOISE: Final = 0.05  # deviation of ln power of a run, believed as so many runs tell:
NOISE_RUNS: Final = 2.0
NOISE_MIN: Final = 0.002
SIZES_MAX: Final = 128  # spread evenly where there are more


class ExpectedPower(NamedTuple):
    """Power in W at sizes (m,), and the deviation of ln of a run's power there (m,).

    >>> ExpectedPower(np.array([400.0]), np.array([0.05])).power_w.tolist()
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

    def at(self, n: npt.ArrayLike) -> ExpectedPower:
        """Return what runs of sizes (m,) will draw."""
        requested = np.log(np.asarray(n, np.float64))
        near = self._alike(requested, self.ln_n)
        own = LEVEL_DEVIATION**2 + (SLOPE_DEVIATION * (requested - self.centre)) ** 2 + OFF_LINE**2
        known = (near @ self.inverse * near).sum(axis=1)
        ln_power = self.level + SLOPE * (requested - self.centre) + near @ self.answer
        return ExpectedPower(np.exp(ln_power), np.sqrt(np.maximum(own - known, 0.0) + self.noise**2))

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
        retained = np.arange(SIZES_MAX) * len(size) // SIZES_MAX
        size, heavy, mean = size[retained], heavy[retained], mean[retained]
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
