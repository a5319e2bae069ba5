"""Power and energy: increments of energy counters, power without a sensor, and power by job size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.numerics.scipy_functions import least_squares_not_negative

# Counters grow, wrap or restart. If a counter falls, it has either wrapped (if its range is known and the increment is possible
# in the time), or a restart or a new driver has reset it. The increment before a reset is lost. If the counter can run through
# its whole range between two readings, one wrap cannot be distinguished from two.


class Step(IntEnum):
    """The kind of change of a counter between two readings."""

    GREW = 0
    WRAPPED = 1
    RESET = 2  # the increment is lost
    DOUBTFUL = 3  # the increment is impossible, or the counter may have wrapped more than once
    UNKNOWN = 4  # a reading is missing or invalid, or the time did not advance


class Increments(NamedTuple):
    """Increments of counters (m,), nan if unknown, and the Step of each (m,)."""

    amount: Floats
    step: npt.NDArray[np.int8]


def increments(
    before: npt.ArrayLike,
    now: npt.ArrayLike,
    elapsed_s: npt.ArrayLike,
    span: npt.ArrayLike = np.inf,
    rate_max: npt.ArrayLike = np.inf,
) -> Increments:
    """Return the increments of counters between two readings, `elapsed_s` apart. All arguments are numbers, or arrays of one shape.

    `span` is the value at which a counter wraps to 0 (inf: never), `rate_max` its largest rate per second (inf: unknown).
    """
    old, new, elapsed, full_range, largest_rate = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(argument, np.float64)) for argument in (before, now, elapsed_s, span, rate_max))
    )
    with np.errstate(invalid="ignore", over="ignore"):
        valid = (old >= 0) & (new >= 0) & (elapsed > 0) & np.isfinite(old + new + elapsed)
        possible = largest_rate * elapsed
        fell = new < old
        grown = np.where(fell, new + full_range - old, new - old)
        # without a known rate, a fall of less than half the range is no wrap
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


# Power from the events of counters, after SmartWatts (G. Fieni, R. Rouvoy, L. Seinturier, CCGRID 2020): the power of a host, or of
# a socket, is a sum of events with weights >= 0. The weights are fitted to hosts with a sensor, and again whenever the error grows.
# The model estimates the power of hosts of the same kind without a sensor.

WINDOW: Final = 60
SAMPLES_MIN: Final = 10
ERROR_MAX_W: Final = 2.0
_RIDGE: Final = 1e-6  # ridge as a share of the squared length of a column, so that redundant events share their weight


@dataclass(slots=True)
class PowerModel:
    """The power of one kind of host as a weighted sum of the numbers of `events`.

    `samples` are the newest measurements: power in W, then the numbers of events. `errors` are the absolute errors in W of the newest
    estimates since the last fit. `weights` (p,) are watts per event, empty before the first fit; `idle_w` is the power without
    events.

    >>> model = PowerModel(("instructions", "misses"))
    >>> for tick in range(70):
    ...     model.learn((tick % 7, tick % 5), 90.0 + 10.0 * (tick % 7) + 4.0 * (tick % 5))
    >>> model.estimates(np.array([[3.0, 2.0]])).round().tolist()
    [128.0]
    """

    events: tuple[str, ...]
    samples: list[list[float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    idle_w: float = 0.0

    def learn(self, events: Sequence[float], power_w: float) -> None:
        """Learn the measured power of a host with these numbers of events; fit again if the recent median error exceeds ERROR_MAX_W.

        Negative or infinite values are ignored.
        """
        possible = len(events) == len(self.events) and all(0.0 <= event < math.inf for event in events)
        if not (possible and 0.0 < power_w < math.inf):
            return
        self.samples.append([power_w, *events])
        if self.weights:
            self.errors.append(abs(power_w - self.idle_w - float(np.dot(self.weights, events))))
        del self.samples[:-WINDOW], self.errors[:-WINDOW]
        if len(self.samples) < SAMPLES_MIN:
            return
        if not self.weights or (len(self.errors) >= SAMPLES_MIN and float(np.median(self.errors)) > ERROR_MAX_W):
            self._fit()

    def estimates(self, events: Floats) -> Floats | None:
        """Return the power in W of hosts with numbers of events (k, p), all >= 0; None before the first fit."""
        return self.idle_w + events @ np.array(self.weights) if self.weights else None

    @property
    def largest_w(self) -> float:
        """The largest of the recently measured powers in W."""
        return max(sample[0] for sample in self.samples)

    def _fit(self) -> None:
        """Fit the weights to the samples; the idle power is fitted only to a full window."""
        data = np.array(self.samples)
        power, events = data[:, 0], data[:, 1:]
        full = len(data) == WINDOW
        columns = np.concatenate([events, np.ones((len(data), 1))], axis=1) if full else events
        length = np.sqrt((columns**2).sum(axis=0))
        unit = np.divide(1.0, length, out=np.zeros(len(length)), where=length > 0)
        rows = np.concatenate([columns * unit, np.sqrt(_RIDGE) * np.eye(len(unit))])
        solution = (least_squares_not_negative(rows, np.concatenate([power, np.zeros(len(unit))])) * unit).tolist()
        self.errors.clear()
        self.weights, self.idle_w = (solution[:-1], solution[-1]) if full else (solution, 0.0)


# The power of a run by its size. ln of the power of all hosts together is a Gaussian process over ln n (C. Rasmussen,
# C. Williams, "Gaussian Processes for Machine Learning", 2006, 2.2 and 2.7): a straight line with a slope of about 1, because
# twice the nodes draw twice the power, plus a smooth deviation. At a size with many runs the prediction is the mean of the runs;
# far from all observed sizes it follows the line.

SLOPE: Final = 1.0
SLOPE_DEVIATION: Final = 0.15
LEVEL_DEVIATION: Final = 10.0  # prior standard deviation of a host's ln power: practically unknown
OFF_LINE: Final = 0.08  # prior standard deviation of ln of the power at a size from the line
REACH: Final = float(np.log(4.0))  # correlation length in ln n
NOISE: Final = 0.05  # prior standard deviation of ln of the power of a run, with the weight of NOISE_RUNS runs
NOISE_RUNS: Final = 2.0
NOISE_MIN: Final = 0.002
SIZES_MAX: Final = 128  # with more sizes an even selection is used


@dataclass(frozen=True, slots=True, eq=False)
class PowerLaw:
    """A Gaussian process of ln of the power of all hosts of a run over ln of its size, fitted to `ln_n` (k,), ascending.

    >>> law = power_law(np.array([1.0, 2.0, 4.0]), np.array([300.0, 600.0, 1200.0]), np.ones(3))
    >>> law.at([2.0, 8.0]).value.round(-1).tolist()
    [600.0, 2400.0]
    """

    ln_n: Floats
    centre: float
    level: float
    answer: Floats
    inverse: Floats
    noise: float

    def at(self, n: npt.ArrayLike) -> RowPredictions:
        """Return the expected power in W, of all hosts together, at sizes (m,)."""
        requested = np.log(np.asarray(n, np.float64))
        near = _covariance(requested - self.centre, self.ln_n - self.centre)
        prior = LEVEL_DEVIATION**2 + (SLOPE_DEVIATION * (requested - self.centre)) ** 2 + OFF_LINE**2
        explained = (near @ self.inverse * near).sum(axis=1)
        ln_power = self.level + SLOPE * (requested - self.centre) + near @ self.answer
        return RowPredictions(np.exp(ln_power), np.sqrt(np.maximum(prior - explained, 0.0) + self.noise**2))


def power_law(n: Floats, power_w: Floats, weight: Floats) -> PowerLaw:
    """Fit a `PowerLaw` to the sizes, powers in W and weights of runs, (k,) each. Raise ValueError without runs."""
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
    covariance = _covariance(ln_n - centre, ln_n - centre) + np.diag(noise**2 / heavy)
    inverse = np.asarray(np.linalg.inv(covariance), np.float64)
    answer = inverse @ (mean - level - SLOPE * (ln_n - centre))
    return PowerLaw(ln_n, centre, level, answer, inverse, noise)


def _covariance(a: Floats, b: Floats) -> Floats:
    """Return the covariances (m, k) of ln of the power at sizes `a` (m,) and `b` (k,), given as ln n relative to the centre."""
    line = LEVEL_DEVIATION**2 + SLOPE_DEVIATION**2 * a[:, None] * b
    return np.asarray(line + OFF_LINE**2 * np.exp(-np.abs(a[:, None] - b) / REACH))
