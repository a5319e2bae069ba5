"""The shares of the classic laws in forecasts beyond the largest size, by the forecast errors of each law there.

ADEPT's two-step fit, Downey's curves, the law of Kazmina and Antonov and those of Barnes get no share in the forecast until they
have predicted the application better than the combination. At each horizon, the mean error of a law is shrunk towards the
combination's error if few sizes were scored. A law whose error is smaller by more than MARGIN weighs the ratio of the errors to the
power POWER; the combination weighs 1. The laws divide the weight of the best law among them: otherwise three laws that agree would
earn three shares with a single run. Between the horizons, shares are linear in the doublings beyond the largest size.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from processors.contracts.names import HORIZONS
from processors.models.battery import Battery
from processors.models.numerics.arrays import Floats
from processors.models.numerics.statistics import Z95

SEEDS: Final = ("adept", "downey", "kazmina", "barnes_linear", "barnes_quadratic")
# The constants were chosen on synthetic curves whose sizes came one after another; powers of 2 to 4 and 1 to 4 sizes perform alike
# there.
MARGIN: Final = 0.1  # share of the combination's error by which a law has to be better
POWER: Final = 4
FLOOR: Final = 0.03  # in ln T; smaller errors count as equal
SIZES_HALF: Final = 2.0  # number of sizes whose record weighs as much as the prior
NEIGHBOUR: Final = 0.5  # weight of a size at the next horizon; its square at the one after
ELSEWHERE: Final = 0.5  # weight of a size on another curve of the application
WINDOW: Final = 64  # number of sizes; older errors fade
ERROR_UNIT: Final = 100_000  # errors are stored in units of 1 / ERROR_UNIT
SHARE_DIGITS: Final = 4
BEYOND: Final = range(1, len(HORIZONS))  # the horizons at which laws earn a share
# Typical distance in doublings of the runs of each horizon, because users usually double a size. At the largest size the share is
# 0: the forecast there is the observation.
CENTRES: Final = (0.0, 1.0, 2.0, 3.0)

Shares = tuple[
    tuple[float, ...], ...
]  # one tuple per law of SEEDS, with a share for each horizon of BEYOND; () if no law has a share


class Duels(msgspec.Struct, array_like=True):
    """The record of SEEDS at one horizon: number of scored sizes, mean error of each law, and mean error of the combination.

    Errors are |ln(observed / predicted)| in units of ERROR_UNIT. Both errors cover the same runs, because a law that needs three
    sizes did not have to forecast the hardest runs. `n` is the size that was scored last; a repeat of this size is not scored
    again.
    """

    n: float
    scored: list[int]
    seeds: list[int]
    alone: list[int]

    @classmethod
    def none(cls) -> "Duels":
        return cls(0.0, *([0] * len(SEEDS) for _ in range(3)))

    def copy(self) -> "Duels":
        return Duels(self.n, list(self.scored), list(self.seeds), list(self.alone))

    def learn(self, n: float, errors: Sequence[float | None], alone: float) -> None:
        """Add the errors of each law at a size (None if the law has no forecast) and the error of the combination alone.

        Laws are compared with the combination alone. Compared with the published forecast, a law would lose its share as soon as
        the forecast follows that law, and then earn the share again: forecasts would oscillate.
        """
        if n == self.n:
            return
        self.n = n
        for place, error in enumerate(errors):
            if error is not None:
                self.scored[place] += 1
                part = 1.0 / min(self.scored[place], WINDOW)
                self.seeds[place] += round((error * ERROR_UNIT - self.seeds[place]) * part)
                self.alone[place] += round((alone * ERROR_UNIT - self.alone[place]) * part)


Record = Mapping[int, Duels]  # by the index of the horizon


def shares(own_record: Record, elsewhere: Iterable[Record] = ()) -> Shares:
    """Return the share that each law has earned at each horizon, by its record on this curve and on other curves of the application."""
    weighed = [(own_record, 1.0), *((record, ELSEWHERE) for record in elsewhere)]
    if not any(record for record, _ in weighed):
        return ()
    by_horizon = tuple(_at_horizon(horizon, weighed) for horizon in BEYOND)
    return by_horizon if any(map(any, by_horizon)) else ()


def _at_horizon(horizon: int, weighed: Sequence[tuple[Record, float]]) -> tuple[float, ...]:
    strengths = []
    for place in range(len(SEEDS)):
        count = seed = alone = 0.0
        for record, weight in weighed:
            for other, duels in record.items():
                sizes = weight * NEIGHBOUR ** abs(horizon - other) * min(duels.scored[place], WINDOW)
                count += sizes
                seed += sizes * duels.seeds[place] / ERROR_UNIT
                alone += sizes * duels.alone[place] / ERROR_UNIT
        strengths.append(_strength(count, seed / count, alone / count) if count else 0.0)
    most, total = max(strengths), sum(strengths)
    if not total:
        return (0.0,) * len(SEEDS)
    return tuple(round(most / (1.0 + most) * strength / total, SHARE_DIGITS) for strength in strengths)


def _strength(count: float, error: float, alone: float) -> float:
    """Return the weight of a law against 1 for the combination: 0 unless the law's error is smaller by more than the margin."""
    drawn = (count * error + SIZES_HALF * alone) / (count + SIZES_HALF)
    better = (alone + FLOOR) / (drawn + FLOOR)
    return max(better**POWER - (1.0 - MARGIN) ** -POWER, 0.0)


class MovedForecasts(NamedTuple):
    """Forecasts (m,) moved towards the laws: ln T in seconds, the share of the laws, and the standard deviation of ln T over all laws."""

    ln_t: Floats
    share: Floats
    deviation: Floats


class Seeds(NamedTuple):
    """The classic laws with the shares they have earned. A law without a forecast at a size has no share there."""

    laws: Battery
    shares: Shares

    @property
    def weights(self) -> dict[str, float]:
        if not self.shares:
            return {}
        _, parts = self._parts(2.0 * self.laws.n_max)
        return {name: part for name, part in zip(SEEDS, parts, strict=True) if part}

    def moved(self, n: Floats, alone: Floats, left: Floats | float = 1.0) -> MovedForecasts:
        """Return the combination's forecasts at sizes, ln of seconds (m,), moved towards the laws; `alone` if no law has a share.

        `left` (m,) is the part of each forecast that the laws may move.
        """
        ln_t, share, deviation = alone.copy(), np.zeros(alone.size), np.zeros(alone.size)
        movable = np.broadcast_to(left, alone.shape)
        for i in np.flatnonzero(n > self.laws.n_max).tolist() if self.shares else ():
            forecasts, earned = self._parts(float(n[i]))
            parts = movable[i] * np.array(earned)
            apart = np.array(forecasts) - alone[i]
            share[i] = parts.sum()
            mean = float(np.dot(parts, apart))
            ln_t[i] += mean
            deviation[i] = math.sqrt(max(float(np.dot(parts, apart**2)) - mean**2, 0.0))
        return MovedForecasts(ln_t, share, deviation)

    def _parts(self, n: float) -> tuple[list[float], list[float]]:
        """Return ln of the run time by each law of SEEDS at a size beyond the largest, and the share of each law (0 without a forecast)."""
        doublings = math.log2(n / self.laws.n_max)
        forecasts, parts = [], []
        for place, name in enumerate(SEEDS):
            part = float(np.interp(doublings, CENTRES, (0.0, *(row[place] for row in self.shares))))
            ln = self.laws.ln_run_time(name, n) if part else None
            forecasts.append(ln or 0.0)
            parts.append(0.0 if ln is None else part)
        return forecasts, parts


def widened(half_width: Floats, deviation: Floats) -> Floats:
    """Return the half-width in ln T (m,) of a band, widened by the disagreement of the laws."""
    return np.asarray(np.hypot(half_width, Z95 * deviation))
