"""The forecast errors of each law of an application, measured by the runs after each publication.

A publication stores each law of the combination, and each reference law, as a few parameters. Each later run is compared with all
laws before the laws learn the run, separately by horizon.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np

from processors.contracts.names import HORIZONS, Horizon
from processors.contracts.outputs import HorizonError
from processors.models.battery import MEMBERS, Battery
from processors.run_time.earned import BEYOND, SEEDS, Duels, Record, Seeds, Shares
from processors.store import Untimed

# row of the published prediction; beyond its curve, of the prediction that would have been published
PUBLISHED: Final = "published"
ROWS: Final = (*MEMBERS, PUBLISHED)
WINDOW: Final = 64  # number of runs; older errors fade
ERROR_MAX: Final = 2.0  # limit of |ln(observed / predicted)|, so that one wild forecast does not outweigh all others
RETAINED_SIZES: Final = 32  # sizes for which the forecasts of the published laws are cached
AHEAD: Final = (0.5, 1.0, 2.0, 3.0, 4.0)  # doublings beyond the largest size
_UNIT: Final = 100_000  # errors are stored in units of 1 / _UNIT


def ahead(n_max: float) -> list[float]:
    """Return the sizes beyond the largest one at which the combination's forecast is kept."""
    return [n_max * 2.0**doublings for doublings in AHEAD]


class Fits(msgspec.Struct, frozen=True, array_like=True):
    """The laws of one publication; see `Battery`. The reference laws were fitted to `sizes` sizes and `runs` runs.

    `alone` is the forecast of the combination without the reference laws: ln of seconds at AHEAD doublings beyond the largest size;
    empty if ADEPT's study answers. `shares` are the shares that the reference laws had earned.
    """

    n_min: float
    n_max: float
    last_s: float
    sizes: int
    runs: int
    parameters: tuple[tuple[float, ...], ...]
    knots: tuple[float, ...]
    alone: tuple[float, ...] = ()
    shares: Shares = ()

    def battery(self) -> Battery:
        return Battery(self.n_min, self.n_max, self.last_s, self.parameters, self.knots)

    def ln_alone(self, n: float) -> float | None:
        """Return ln of the combination's forecast without the reference laws; None up to the largest size, and without a combination.

        The forecast is linear in ln n between the sizes of AHEAD, and beyond them.
        """
        if not self.alone or n <= self.n_max:
            return None
        doublings = math.log2(n / self.n_max)
        right = min(bisect_left(AHEAD, doublings), len(AHEAD) - 1)
        before, low = (AHEAD[right - 1], self.alone[right - 1]) if right else (0.0, math.log(self.last_s))
        return low + (doublings - before) / (AHEAD[right] - before) * (self.alone[right] - low)

    def ln_published(self, n: float) -> float | None:
        """Return ln of the forecast beyond the published curve; None in the same cases as `ln_alone`."""
        alone = self.ln_alone(n)
        if alone is None:
            return None
        return float(Seeds(self.battery(), self.shares).moved(np.array([n]), np.array([alone])).ln_t[0])


class MemberFact(msgspec.Struct, frozen=True):
    """A run at a size: run time in seconds, horizon, and ln(observed / published).

    `ln_ratio` is None if nothing was published for the size.
    """

    n: float
    run_time_s: float
    horizon: Horizon
    ln_ratio: float | None


class HorizonErrors(msgspec.Struct, array_like=True):
    """Errors at one horizon: number of runs, and means of |ln(observed / predicted)| in the order of ROWS.

    `means` are integers in units of 1e-5; `missed` counts, for each row, the runs without a forecast.
    """

    scored: int
    missed: dict[int, int]
    means: list[int]


class MembersState(msgspec.Struct, omit_defaults=True):
    """Stored form: the laws as published, and their errors by the index of the horizon.

    `duels` compare the reference laws with the combination alone, on sizes beyond the largest.
    """

    fits: Fits | None = None
    records: dict[int, HorizonErrors] = {}
    duels: dict[int, Duels] = {}


class Members(Untimed):
    """The laws of one application with their errors."""

    name: ClassVar[str] = "members"
    version: ClassVar[int] = 2

    def __init__(self, state: MembersState) -> None:
        self._state = state
        self._reported: dict[float, list[float | None]] = {}
        self._errors: dict[str, tuple[HorizonError, ...]] | None = None  # cached since the last run

    @classmethod
    def build(cls, state: MembersState | None = None) -> "Members":
        return cls(_copy(state or MembersState()))

    @property
    def fits(self) -> Fits | None:
        return self._state.fits

    def publish(self, fits: Fits | None) -> None:
        """Record the laws of a publication (None if the fit failed); later runs are scored against them."""
        self._state.fits, self._reported = fits, {}

    @property
    def duels(self) -> Record:
        return self._state.duels

    def errors(self) -> dict[str, tuple[HorizonError, ...]]:
        """Return the errors of each row of ROWS by horizon, without horizons that have no runs."""
        if self._errors is None:
            self._errors = self._by_row()
        return self._errors

    def _by_row(self) -> dict[str, tuple[HorizonError, ...]]:
        errors_by_row: list[list[HorizonError]] = [[] for _ in ROWS]
        for index, record in sorted(self._state.records.items()):
            horizon, scored, missed = HORIZONS[index], record.scored, record.missed
            for row, (errors, mean) in enumerate(zip(errors_by_row, record.means, strict=True)):
                runs = scored - missed[row] if row in missed else scored
                if runs:
                    errors.append(HorizonError(horizon, runs, mean / _UNIT))
        return dict(zip(ROWS, map(tuple, errors_by_row), strict=True))

    def score(self, fact: MemberFact) -> list[float | None]:
        """Return |ln(observed / predicted)| of each row; None for a row without a forecast."""
        observed, members = math.log(fact.run_time_s), self._predicted(fact.n)
        fits = self._state.fits
        beyond_the_curve = fits.ln_published(fact.n) if fits is not None and fact.ln_ratio is None else None
        ln_published = beyond_the_curve if fact.ln_ratio is None else observed - fact.ln_ratio
        return [None if ln is None else _error(observed - ln) for ln in (*members, ln_published)]

    def learn(self, fact: MemberFact) -> None:
        self._errors = None
        horizon = HORIZONS.index(fact.horizon)
        record = self._state.records.get(horizon)
        if record is None:
            record = self._state.records[horizon] = HorizonErrors(0, {}, [0] * len(ROWS))
        record.scored += 1
        means, missed, scored = record.means, record.missed, record.scored
        usual = min(WINDOW, scored)  # number of runs behind a mean; smaller if the law had no forecast for some runs
        errors = self.score(fact)
        if horizon in BEYOND:
            self._duel(fact, horizon, errors)
        for row, (error, mean) in enumerate(zip(errors, means, strict=True)):
            if error is None:
                missed[row] = missed.get(row, 0) + 1
            else:
                runs = min(WINDOW, scored - missed[row]) if row in missed else usual
                means[row] = mean + round((error * _UNIT - mean) / runs)

    def snapshot(self) -> MembersState:
        return _copy(self._state)

    def _predicted(self, n: float) -> list[float | None]:
        """Return ln of the run time by each law; cached, because most runs have one of a few sizes."""
        fits = self._state.fits
        if fits is None:
            return [None] * len(MEMBERS)
        if n not in self._reported:
            if len(self._reported) >= RETAINED_SIZES:
                self._reported.clear()
            self._reported[n] = fits.battery().ln_run_times(n)
        return self._reported[n]

    def _duel(self, fact: MemberFact, horizon: int, errors: Sequence[float | None]) -> None:
        """Compare the reference laws with the combination alone, if the combination has a forecast beyond the largest size."""
        fits = self._state.fits
        alone = fits.ln_alone(fact.n) if fits is not None else None
        if alone is not None:
            law_errors = [errors[ROWS.index(name)] for name in SEEDS]
            duels = self._state.duels.setdefault(horizon, Duels.none())
            duels.learn(fact.n, law_errors, _error(math.log(fact.run_time_s) - alone))


def _error(ln_ratio: float) -> float:
    return min(ERROR_MAX, abs(ln_ratio))


def _copy(state: MembersState) -> MembersState:
    records = {
        index: HorizonErrors(each.scored, dict(each.missed), list(each.means)) for index, each in state.records.items()
    }
    duels = {index: each.copy() for index, each in state.duels.items()}
    return MembersState(state.fits, records, duels)
