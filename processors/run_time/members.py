"""The forecast errors of each law of an application, measured by the runs after each publication.

A publication stores each law of the combination, and each reference law, as a few parameters. Each later run is compared with all
laws before the laws learn the run, separately by horizon.
"""

import math
from typing import ClassVar, Final

import msgspec

from processors.contracts.names import HORIZONS, Horizon
from processors.contracts.outputs import HorizonError
from processors.models.battery import MEMBERS, Battery
from processors.store import Untimed

# row of the published prediction, which has no forecast beyond its curve
PUBLISHED: Final = "published"
ROWS: Final = (*MEMBERS, PUBLISHED)
WINDOW: Final = 64  # number of runs; older errors fade
ERROR_MAX: Final = 2.0  # limit of |ln(observed / predicted)|, so that one wild forecast does not outweigh all others
RETAINED_SIZES: Final = 32  # sizes for which the forecasts of the published laws are cached
_UNIT: Final = 100_000  # errors are stored in units of 1 / _UNIT


class Fits(msgspec.Struct, frozen=True, array_like=True):
    """The laws of one publication; see `Battery`. The reference laws were fitted to `sizes` sizes and `runs` runs."""

    n_min: float
    n_max: float
    last_s: float
    sizes: int
    runs: int
    parameters: tuple[tuple[float, ...], ...]
    knots: tuple[float, ...]

    def battery(self) -> Battery:
        return Battery(self.n_min, self.n_max, self.last_s, self.parameters, self.knots)


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
    """Stored form of `Members`: the published laws, and the errors of the laws by the index of the horizon."""

    fits: Fits | None = None
    records: dict[int, HorizonErrors] = {}


class Members(Untimed):
    """The published laws of one application and the errors of these laws."""

    name: ClassVar[str] = "members"
    version: ClassVar[int] = 3

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
        ln_published = None if fact.ln_ratio is None else observed - fact.ln_ratio
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
        for row, (error, mean) in enumerate(zip(self.score(fact), means, strict=True)):
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


def _error(ln_ratio: float) -> float:
    return min(ERROR_MAX, abs(ln_ratio))


def _copy(state: MembersState) -> MembersState:
    records = {
        index: HorizonErrors(each.scored, dict(each.missed), list(each.means)) for index, each in state.records.items()
    }
    return MembersState(state.fits, records)
