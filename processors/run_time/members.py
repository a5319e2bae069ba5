"""Who is right: every law of an application as it was published, scored by the runs that followed.

The laws of the combination and the classic ones beside it are kept as the few numbers that a publication made them of.
Each later run is compared with all of them before it is learned, apart by how far its size lay from those known then.
"""

import math
from typing import ClassVar, Final

import msgspec

from processors.contracts.names import HORIZONS, Horizon
from processors.contracts.outputs import HorizonError
from processors.models.battery import MEMBERS, Battery
from processors.store import Untimed

PUBLISHED: Final = "published"  # what was told: the combination, or the study; beyond its curve what it would have told
ROWS: Final = (*MEMBERS, PUBLISHED)
WINDOW: Final = 64  # runs; older errors fade
ERROR_MAX: Final = 2.0  # |ln(observed / predicted)| counts no more, so that one wild forecast is not all there is
RETAINED_SIZES: Final = 32  # at which the laws' answers are remembered while they are published
_UNIT: Final = 100_000  # errors are stored as whole parts of this


class Fits(msgspec.Struct, frozen=True, array_like=True):
    """The laws of one publication; see `Battery`. `sizes` and `runs` are those that the laws beside were fitted to.

    `weights` are those of the combination's laws, empty where the study answers.
    """

    n_min: float
    n_max: float
    last_s: float
    sizes: int
    runs: int
    parameters: tuple[tuple[float, ...], ...]
    knots: tuple[float, ...]
    weights: tuple[float, ...] = ()

    def battery(self) -> Battery:
        """Return the laws, ready to be asked."""
        return Battery(self.n_min, self.n_max, self.last_s, self.parameters, self.knots)


class MemberFact(msgspec.Struct, frozen=True):
    """A run at a size: seconds, how far the size lay from those known, and ln(observed / published).

    `ln_ratio` is None where what was published says nothing about the size.
    """

    n: float
    run_time_s: float
    horizon: Horizon
    ln_ratio: float | None


class Record(msgspec.Struct, array_like=True):
    """Errors at one horizon: how many runs there were, and, in the order of ROWS, means of |ln(observed / predicted)|.

    `means` are whole numbers of a hundred thousandth; `missed` counts by row the runs of which a law said nothing.
    """

    scored: int
    missed: dict[int, int]
    means: list[int]


class MembersState(msgspec.Struct, omit_defaults=True):
    """Stored form: the laws as published, and their errors by the index of the horizon."""

    fits: Fits | None = None
    records: dict[int, Record] = {}


class Members(Untimed):
    """The laws of one application side by side."""

    name: ClassVar[str] = "members"
    version: ClassVar[int] = 1

    def __init__(self, state: MembersState) -> None:
        self._state = state
        self._reported: dict[float, list[float | None]] = {}

    @classmethod
    def build(cls, state: MembersState | None = None) -> "Members":
        """Return the laws of a stored state, or none."""
        return cls(_copy(state or MembersState()))

    @property
    def fits(self) -> Fits | None:
        """The laws as they were published last."""
        return self._state.fits

    def publish(self, fits: Fits | None) -> None:
        """Note the laws of a publication, None where they could not be fitted: later runs are scored against them."""
        self._state.fits, self._reported = fits, {}

    def errors(self) -> dict[str, tuple[HorizonError, ...]]:
        """Return the errors of each row of ROWS by horizon, only those with runs."""
        found: dict[str, tuple[HorizonError, ...]] = dict.fromkeys(ROWS, ())
        for index, record in sorted(self._state.records.items()):
            horizon, missed = HORIZONS[index], record.missed
            for row, name in enumerate(ROWS):
                scored = record.scored - missed.get(row, 0)
                if scored:
                    found[name] += (HorizonError(horizon, scored, record.means[row] / _UNIT),)
        return found

    def score(self, fact: MemberFact) -> list[float | None]:
        """Return |ln(observed / predicted)| of each row, None where it says nothing."""
        observed, members = math.log(fact.run_time_s), self._predicted(fact.n)
        known = self._beyond_the_curve(fact.n, members) if fact.ln_ratio is None else observed - fact.ln_ratio
        return [None if ln is None else min(abs(observed - ln), ERROR_MAX) for ln in (*members, known)]

    def learn(self, fact: MemberFact) -> None:
        """Take in how right each law was."""
        record = self._state.records.setdefault(HORIZONS.index(fact.horizon), Record(0, {}, [0] * len(ROWS)))
        record.scored += 1
        means, missed, scored = record.means, record.missed, record.scored
        for row, error in enumerate(self.score(fact)):
            if error is None:
                missed[row] = missed.get(row, 0) + 1
            else:
                count = scored - missed[row] if row in missed else scored
                means[row] += round((error * _UNIT - means[row]) / (min(WINDOW, count)))

    def snapshot(self) -> MembersState:
        """Return the stored form."""
        return _copy(self._state)

    def _predicted(self, n: float) -> list[float | None]:
        """Return ln of the run time by each law; most runs are at a few sizes, so the answers are remembered."""
        fits = self._state.fits
        if fits is None:
            return [None] * len(MEMBERS)
        if n not in self._reported:
            if len(self._reported) >= RETAINED_SIZES:
                self._reported.clear()
            self._reported[n] = fits.battery().ln_run_times(n)
        return self._reported[n]

    def _beyond_the_curve(self, n: float, members: list[float | None]) -> float | None:
        fits = self._state.fits
        return fits.battery().weighted(n, members, fits.weights) if fits is not None and n > fits.n_max else None


def _copy(state: MembersState) -> MembersState:
    records = {index: Record(each.scored, dict(each.missed), list(each.means)) for index, each in state.records.items()}
    return MembersState(state.fits, records)
