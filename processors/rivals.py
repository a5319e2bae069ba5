"""Does the run time of an application follow its size? Its curve and the distribution of its past runs, scored as rivals.

Each run is scored before it is learned: the pinball losses at .5 and .9, in seconds, of what both said. Losses are
kept by size, in steps of two, and forgotten slowly. Sizes are compared by the ratio of the losses, and count alike
however often they were run, so that a size that is run all day does not decide for the others.
"""

import math
from typing import ClassVar, Final

import msgspec

from processors.models.log_normal import pinball
from processors.pace import Pace, counted, due

SIZES_MAX: Final = 8
RUNS_MIN: Final = 12.0  # scored runs before anything is concluded
SAY_MAX: Final = 4.0  # a size counts as so many runs at most
BETTER: Final = 0.95  # the distribution takes over where its losses are this share of the curve's,
WORSE: Final = 1.0  # and leaves again where they are as large
FORGETTING: Final = 0.97
SCORED_PER_TICK: Final = 2  # runs of an application; the first RUNS_MIN are all scored
UPPER: Final = 0.9  # the quantile that is judged beside the median
_NOTHING_S: Final = 1e-6


class Bout(msgspec.Struct, frozen=True):
    """One run, at size `n`: the losses of what the curve and what the distribution had said, in seconds.

    `now_ms` is the time of the last tick.
    """

    n: float
    curve_s: float
    distribution_s: float
    now_ms: int = 0


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Losses at one size (log2 of it, rounded): the weight of the runs, and the losses of both in seconds, summed."""

    step: int
    runs: float
    curve_s: float
    distribution_s: float

    @property
    def ln_ratio(self) -> float:
        """Log of the distribution's losses over the curve's."""
        return math.log((self.distribution_s + _NOTHING_S) / (self.curve_s + _NOTHING_S))


class RivalsState(msgspec.Struct, omit_defaults=True):
    """Stored form; the records with the one used last at the end."""

    records: tuple[Record, ...] = ()
    chosen: bool = False
    pace: Pace = (0, 0)


class Rivals:
    """Which of the two tells more about the runs of one application.

    >>> rivals = Rivals.build()
    >>> for _ in range(20): rivals.learn(Bout(n=4, curve_s=100.0, distribution_s=20.0))
    >>> rivals.chosen, rivals.score(4.0), Rivals.build().score(4.0)
    (True, True, None)
    """

    name: ClassVar[str] = "rivals"
    version: ClassVar[int] = 1

    def __init__(self, state: RivalsState) -> None:
        self._records = state.records
        self._chosen = state.chosen
        self._pace = state.pace

    @classmethod
    def build(cls, state: RivalsState | None = None) -> "Rivals":
        """Return the rivals of a stored state, or without any score."""
        return cls(state or RivalsState())

    @property
    def chosen(self) -> bool:
        """Whether the run times do not follow the size: the distribution answers for the application."""
        return self._chosen

    def score(self, fact: float) -> bool | None:  # noqa: ARG002  # what is known holds for every size
        """Tell whether the distribution is to be asked about a job; None where too few runs were scored to say."""
        return self._chosen if sum(record.runs for record in self._records) >= RUNS_MIN else None

    def wants(self, now_ms: int) -> bool:
        """Tell whether one more run is to be scored; `now_ms` is the time of the last tick."""
        return due(self._pace, now_ms, SCORED_PER_TICK) or sum(record.runs for record in self._records) < RUNS_MIN

    def learn(self, fact: Bout) -> None:
        """Take in how both did on a run; each run once."""
        self._pace = counted(self._pace, fact.now_ms)
        step = _step(fact.n)
        old = next((record for record in self._records if record.step == step), Record(step, 0.0, 0.0, 0.0))
        others = [record for record in self._records if record.step != step]
        self._records = (*others[-(SIZES_MAX - 1) :], _added(old, fact))
        runs = sum(record.runs for record in self._records)
        if runs >= RUNS_MIN:
            self._chosen = _decided(self._ln_ratio(), before=self._chosen)

    def due_ms(self) -> int | None:
        """Return None: rivals change by runs only."""
        return None

    def snapshot(self) -> RivalsState:
        """Return the stored form."""
        return RivalsState(self._records, self._chosen, self._pace)

    def _ln_ratio(self) -> float:
        say = [min(record.runs, SAY_MAX) for record in self._records]
        return sum(w * record.ln_ratio for w, record in zip(say, self._records, strict=True)) / sum(say)


def loss_s(run_time_s: float, median_s: float, upper_s: float) -> float:
    """Return the pinball losses at .5 and .9 together, in seconds.

    >>> loss_s(110.0, 100.0, 120.0), loss_s(130.0, 100.0, 120.0)
    (6.0, 24.0)
    """
    return round(pinball(run_time_s, median_s, 0.5) + pinball(run_time_s, upper_s, UPPER), 6)


def _decided(ln_ratio: float, *, before: bool) -> bool:
    return ln_ratio < math.log(WORSE if before else BETTER)


def _step(n: float) -> int:
    return round(math.log2(n))


def _added(old: Record, bout: Bout) -> Record:
    curve_s, distribution_s = FORGETTING * old.curve_s + bout.curve_s, FORGETTING * old.distribution_s
    return Record(
        old.step,
        round(FORGETTING * old.runs + 1.0, 2),
        float(f"{curve_s:.5g}"),
        float(f"{distribution_s + bout.distribution_s:.5g}"),
    )
