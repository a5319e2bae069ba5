"""The forecast errors of each law of an application, measured by the runs after each publication.

A publication stores each law of the combination, and each reference law, as a few parameters. Each later run is compared with all
laws before the laws learn the run, separately by horizon.
"""

import math
from functools import cached_property
from typing import ClassVar, Final

import msgspec

from processors.contracts.names import HORIZONS, Horizon
from processors.contracts.outputs import HorizonError
from processors.models.battery import MEMBERS, Battery
from processors.store import PlainProcessor

# row of the published prediction, which has no forecast beyond its curve
PUBLISHED: Final = "published"
ROWS: Final = (*MEMBERS, PUBLISHED)
WINDOW: Final = 64  # number of runs; older errors fade
ERROR_MAX: Final = 2.0  # limit of |ln(observed / predicted)|, so that one wild forecast does not outweigh all others
RETAINED_SIZES: Final = 32  # sizes for which the forecasts of the published laws are cached
_UNIT: Final = 100_000  # errors are stored in units of 1 / _UNIT


class Fits(msgspec.Struct, frozen=True, array_like=True):
    """The fitted laws of one publication, as the arguments of `Battery`.

    The laws outside the ensemble, which are refitted more rarely, were fitted to `runs` runs at `sizes` sizes.
    """

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


class HorizonErrors(msgspec.Struct, frozen=True, array_like=True):
    """Errors at one horizon: number of runs, and means of |ln(observed / predicted)| in the order of ROWS.

    `means` are integers in units of 1e-5; `missed` counts, for each row, the runs without a forecast.
    """

    scored: int
    missed: dict[int, int]
    means: list[int]


class Members(PlainProcessor, omit_defaults=True, dict=True):
    """The published laws of one application, and the errors of these laws by the index of the horizon."""

    name: ClassVar[str] = "members"
    version: ClassVar[int] = 3

    fits: Fits | None = None
    records: dict[int, HorizonErrors] = msgspec.field(default_factory=dict)

    def publish(self, fits: Fits | None) -> None:
        """Record the laws of a publication (None if the fit failed); later runs are scored against them."""
        self.fits = fits
        self._forecasts.clear()

    @cached_property
    def errors(self) -> dict[str, tuple[HorizonError, ...]]:
        """The errors of each row of ROWS by horizon, without horizons that have no runs."""
        errors_by_row: list[list[HorizonError]] = [[] for _ in ROWS]
        for index, record in sorted(self.records.items()):
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
        vars(self).pop("errors", None)  # the cached errors are out of date
        horizon = HORIZONS.index(fact.horizon)
        record = self.records.get(horizon) or HorizonErrors(0, {}, [0] * len(ROWS))
        means, missed, scored = list(record.means), dict(record.missed), record.scored + 1
        usual = min(WINDOW, scored)  # number of runs behind a mean; smaller if the law had no forecast for some runs
        for row, (error, mean) in enumerate(zip(self.score(fact), record.means, strict=True)):
            if error is None:
                missed[row] = missed.get(row, 0) + 1
            else:
                runs = min(WINDOW, scored - missed[row]) if row in missed else usual
                means[row] = mean + round((error * _UNIT - mean) / runs)
        self.records = {**self.records, horizon: HorizonErrors(scored, missed, means)}

    @cached_property
    def _forecasts(self) -> dict[float, list[float | None]]:
        """Ln of the run time by each law, by size."""
        return {}

    def _predicted(self, n: float) -> list[float | None]:
        """Return ln of the run time by each law; cached, because most runs have one of a few sizes."""
        if self.fits is None:
            return [None] * len(MEMBERS)
        if n not in self._forecasts:
            if len(self._forecasts) >= RETAINED_SIZES:
                self._forecasts.clear()
            self._forecasts[n] = self.fits.battery().ln_run_times(n)
        return self._forecasts[n]


def _error(ln_ratio: float) -> float:
    return min(ERROR_MAX, abs(ln_ratio))
