"""Increments of energy counters between two readings, and the law of power by job size."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats

# Counters that only grow, wrap or restart. A counter that falls has either wrapped (if its range is known and the increment
# is possible in the time) or was reset by a restart or a new driver. The count lost in a reset is not made up. If the time
# between two readings suffices for a whole range at the largest possible rate, one wrap cannot be distinguished from two.


class Step(IntEnum):
    """The change of a counter between two readings."""

    GREW = 0
    WRAPPED = 1
    RESET = 2  # the increment is lost
    DOUBTFUL = 3  # the increment is impossible, or whole ranges may be missing
    UNKNOWN = 4  # a reading is missing or invalid, or the time did not advance


class Increments(NamedTuple):
    """Increments of counters (m,), nan if unknown, and the Step of each (m,)."""

    amount: Floats
    step: npt.NDArray[np.int8]

    def counts(self) -> dict[str, int]:
        """Return the number of counters with each step, by its name.

        >>> Increments(np.array([5.0, np.nan]), np.array([0, 2])).counts()
        {'grew': 1, 'wrapped': 0, 'reset': 1, 'doubtful': 0, 'unknown': 0}
        """
        numbers = np.bincount(self.step, minlength=len(Step)).tolist()
        return {step.name.lower(): numbers[step] for step in Step}


def increments(
    before: npt.ArrayLike,
    now: npt.ArrayLike,
    elapsed_s: npt.ArrayLike,
    span: npt.ArrayLike = np.inf,
    rate_max: npt.ArrayLike = np.inf,
) -> Increments:
    """Return the increments of counters between two readings, `elapsed_s` apart; arrays or numbers of one shape.

    `span` is the value at which a counter restarts at 0 (inf: never), `rate_max` its largest rate per second (inf: unknown).

    >>> found = increments([10.0, 262_140.0, 500.0], [25.0, 6.67115, 3.0], 1.0, 262_143.32885, 400.0)
    >>> found.amount.round(1).tolist(), [Step(argument).name for argument in found.step]
    ([15.0, 10.0, nan], ['GREW', 'WRAPPED', 'RESET'])
    """
    old, new, elapsed, full_range, largest_rate = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(argument, np.float64)) for argument in (before, now, elapsed_s, span, rate_max))
    )
    with np.errstate(invalid="ignore", over="ignore"):
        valid = (old >= 0) & (new >= 0) & (elapsed > 0) & np.isfinite(old + new + elapsed)
        possible = largest_rate * elapsed
        fell = new < old
        grown = np.where(fell, new + full_range - old, new - old)
        # without a known rate a counter that fell by less than half of its range did not wrap
        likely = np.minimum(possible, np.where(np.isfinite(largest_rate), np.inf, full_range / 2))
        wrapped = fell & np.isfinite(full_range) & (old <= full_range) & (grown <= likely)
        doubtful = ~(fell & ~wrapped) & (
            (grown > possible) | (grown + full_range <= possible) & np.isfinite(largest_rate)
        )
    step = np.select(
        [~valid, fell & ~wrapped, doubtful, wrapped],
        [Step.UNKNOWN, Step.RESET, Step.DOUBTFUL, Step.WRAPPED],
        Step.GREW,
    ).astype(np.int8)
    return Increments(np.where(step <= Step.WRAPPED, grown, np.nan), step)


# The power of a run by its size. ln of the power of all hosts together is a Gaussian process of ln n (C. Rasmussen,
# C. Williams, "Gaussian Processes for Machine Learning", 2006, 2.2 and 2.7): a straight line with a slope of about 1, because
# twice the nodes draw twice the power, plus a smooth deviation. At a size with many runs it predicts their mean; far from
# all sizes it returns to the line.

SLOPE: Final = 1.0
SLOPE_DEVIATION: Final = 0.15
LEVEL_DEVIATION: Final = 10.0  # prior deviation of a host's ln power, practically unknown
OFF_LINE: Final = 0.08  # prior deviation of a size's ln power from the line
REACH: Final = float(np.log(4.0))  # distance in ln n over which sizes are correlated
NOISE: Final = 0.05  # prior deviation of a run's ln power, with the weight of NOISE_RUNS runs
NOISE_RUNS: Final = 2.0
NOISE_MIN: Final = 0.002
SIZES_MAX: Final = 128  # of more sizes an even selection is used


class ExpectedPower(NamedTuple):
    """Power in W at sizes (m,), and the deviation of the ln of a run's power (m,)."""

    power_w: Floats
    deviation: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PowerLaw:
    """The process fitted to the ln of sizes (k,), ascending.

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
        """Return the expected power of runs of sizes (m,)."""
        requested = np.log(np.asarray(n, np.float64))
        near = _covariance(requested - self.centre, self.ln_n - self.centre)
        prior = LEVEL_DEVIATION**2 + (SLOPE_DEVIATION * (requested - self.centre)) ** 2 + OFF_LINE**2
        explained = (near @ self.inverse * near).sum(axis=1)
        ln_power = self.level + SLOPE * (requested - self.centre) + near @ self.answer
        return ExpectedPower(np.exp(ln_power), np.sqrt(np.maximum(prior - explained, 0.0) + self.noise**2))


def power_law(n: Floats, power_w: Floats, weight: Floats) -> PowerLaw:
    """Return the law of runs (k,) with their sizes, power and weights. ValueError without runs."""
    if not len(n):
        raise ValueError("A power law needs at least one run.")
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
    """Return the covariances of ln power at sizes (m,) and (k,), given as ln n relative to the centre."""
    line = LEVEL_DEVIATION**2 + SLOPE_DEVIATION**2 * a[:, None] * b
    return np.asarray(line + OFF_LINE**2 * np.exp(-np.abs(a[:, None] - b) / REACH))
