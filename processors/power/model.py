"""What profiles of an application's runs tell: models of run time and power from counters, and power by size.

Each settled run is scored against what was known before, then learned. Its counters are compared with those of runs like
it first: a run that others disturbed counts less. Runs are kept in one bounded reservoir that all models share; they are
fitted in steps, and answer as before until all are done.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from processors.contracts.events import Attribute
from processors.contracts.hosts import Profile
from processors.contracts.outputs import AddedByCounter, ExpectedFromCounters, Explained, PowerQuality, ProfileModel
from processors.contracts.settings import ProfileSettings
from processors.models.counters.given_size import GivenSize, GivenSizeKind
from processors.models.counters.model import (
    KINDS,
    POWER_KINDS,
    RUNS_MIN,
    AddedPart,
    Unusual,
    adds,
    explanation,
    unusual,
    weight,
)
from processors.models.counters.selection import ROWS_MAX
from processors.models.numerics.arrays import Floats
from processors.models.numerics.statistics import six_digits
from processors.models.training.retention import room_bytes
from processors.models.training.runs import LearnedRun
from processors.models.training.table import PredictedBand, RunTable
from processors.models.training.trainer import Kind, TargetLearner, Trainer, inverting
from processors.power.blame import MovedCounter, moved
from processors.power.by_size import (
    COLUMNS,
    COUNTER,
    LN_N,
    NIC,
    POWER,
    POWER_TARGETS,
    RATE,
    RUN_TIME,
    TARGETS,
    PowerBySize,
    PowerRecord,
    TargetScore,
    coverage,
    median_error,
    target_weights,
    targets_of,
    values_of,
)

EXPLAINED_COUNTERS_MAX: Final = 8  # that are told: the ones that move the target most
GIVEN_SIZE: Final = "given_size"
RUN_TIME_KINDS: Final[Mapping[str, Kind]] = {**KINDS, GIVEN_SIZE: GivenSizeKind(LN_N)}


def explained(learner: TargetLearner) -> tuple[Explained, ...]:
    """Return the counters that move a target, the one that does most first: of run time beside its size, where that answers."""
    model = learner.models.get(GIVEN_SIZE) if learner.trusted == GIVEN_SIZE else None
    table = learner.table
    found = model.explanation(table) if isinstance(model, GivenSize) and table is not None else explanation(learner)
    return tuple(
        Explained(
            each.counter.removeprefix(COUNTER),
            six_digits(each.coefficient),
            round(each.standardised, 4),
            round(each.rho, 4),
            six_digits(each.effect),
            round(each.share, 4),
        )
        for each in found[:EXPLAINED_COUNTERS_MAX]
    )


# Whether a run was disturbed: its counters against those of runs like it.
# Runs are alike that had the same size. Where these are too few all of them are, with their counters moved to this size by
# the power of n that each follows. Only the newest count, so that what has changed for good is soon nothing unusual.

NEWEST: Final = 32
ADJUSTED_MIN: Final = 2 * RUNS_MIN
SLOPE_RIDGE: Final = 1.0  # of ln n squared: a counter does not follow the size before some runs say so
SAME: Final = 1e-5  # of ln n
FAR_MIN: Final = 5.0  # robust deviations


class CounterDisturbance(NamedTuple):
    """The unusual counters of a run, the farthest first, and how much it counts for that (0 to 1)."""

    unusual: tuple[Unusual, ...] = ()
    weight: float = 1.0


def disturbance(runs: Sequence[LearnedRun], values: dict[str, float]) -> CounterDisturbance:
    """Return how a run was disturbed, as the other runs let it be seen; nothing where too few of them are known."""
    names = tuple(sorted(name for name in values if name.startswith((COUNTER, RATE, NIC))))
    newest = sorted(runs, key=lambda run: (-run.time_ms, run.id))
    ln_n = values[LN_N]
    same = [run for run in newest if abs(run.values.get(LN_N, np.inf) - ln_n) <= SAME][:NEWEST]
    near = [run for run in newest if LN_N in run.values][: 2 * NEWEST]
    if names and len(same) >= RUNS_MIN:
        return _judged(_table(names, _rows(same, names)), values)
    if names and len(near) >= ADJUSTED_MIN:
        return _judged(
            _table(names, _moved(_rows(near, names), np.array([run.values[LN_N] for run in near]), ln_n)), values
        )
    return CounterDisturbance()


def far(runs: int, counters: int) -> float:
    """Return how many robust deviations are unusual among so many runs, for so many counters together.

    About one undisturbed run in a hundred has a counter further out: measured on normal and log-normal counters and on some
    with heavy tails. Of few runs the median deviation is often much too small, hence the square.
    """
    return max((4.0 + 1.3 * math.log(max(counters, 1))) * (1.0 + (10.0 / runs) ** 2), FAR_MIN)


def _judged(table: RunTable, values: dict[str, float]) -> CounterDisturbance:
    least = far(len(table), len(table.names))
    found = unusual(table, values, least)
    return CounterDisturbance(tuple(found), weight(found, least))


def _rows(runs: Sequence[LearnedRun], names: tuple[str, ...]) -> Floats:
    return np.array([[run.values.get(name, np.nan) for name in names] for run in runs])


def _table(names: tuple[str, ...], rows: Floats) -> RunTable:
    return RunTable(names, rows, np.ones(len(rows)), np.ones(len(rows)), np.arange(len(rows)))


def _moved(rows: Floats, ln_n: Floats, to: float) -> Floats:
    """Return counters (k, p) of runs of sizes (k,) as they would be at another size."""
    found = rows.copy()
    off = ln_n - ln_n.mean()
    for j, column in enumerate(rows.T):
        known = np.isfinite(column) & (column > 0)
        if known.sum() < RUNS_MIN or not (column[np.isfinite(column)] > 0).all():
            continue
        ln_rate = np.log(column[known])
        slope = float(off[known] @ (ln_rate - ln_rate.mean()) / (off[known] @ off[known] + SLOPE_RIDGE))
        found[known, j] = np.exp(ln_rate + slope * (to - ln_n[known]))
    return found


SCORES_MAX: Final = 64


class ProfileFact(msgspec.Struct, frozen=True):
    """A settled run of an application at size `n`, with its profile; `attributes` are what else is known of it."""

    run_id: str
    n: float
    run_time_s: float
    end_ms: int
    profile: Profile
    attributes: Mapping[str, Attribute] = {}


class ProfileFinding(NamedTuple):
    """A run against what was expected of its counters before it was learned.

    `expected` has for each target that was known (TARGETS) what the run had and the band, `scored` how many runs had been
    scored for it before; `unusual` are counters that are not as in runs like it, the farthest first; `weight` is how much
    the run counts (0 to 1). `run_time` is what its counters, beside its size, let expect of a run that is new.
    """

    expected: Mapping[str, tuple[float, PredictedBand]] = {}
    unusual: tuple[Unusual, ...] = ()
    weight: float = 1.0
    scored: Mapping[str, int] = {}
    run_time: PredictedBand | None = None


class RunTimeByCounters(NamedTuple):
    """What counters let expect of a run's time, in s, at size `n`."""

    n: float
    band: PredictedBand


class PowerAt(msgspec.Struct, frozen=True):
    """The power of all hosts of a run of size `n` together, in W, and between what nine of ten runs will lie."""

    n: float
    power_w: float
    low_w: float
    high_w: float


class ProfileModelsState(msgspec.Struct, omit_defaults=True):
    """Stored form."""

    trainer: dict[str, Any] = {}
    power: PowerRecord = PowerRecord()
    scores: dict[str, list[TargetScore]] = {}
    waiting_ms: int | None = None


APPLICATION_BYTES_MAX: Final = 2**20  # of its runs: its stored state has to fit into a record of a broker


def step_cost(runs: int) -> int:
    """Return what a step of a fit to so many runs costs, in units of about a millisecond: matrices are of some of them."""
    return inverting(min(runs, ROWS_MAX))


class ProfileModels:
    """The models of the profiles of one application."""

    name: ClassVar[str] = "profile_models"
    version: ClassVar[int] = 1

    def __init__(self, settings: ProfileSettings, state: ProfileModelsState) -> None:
        kinds = {target: RUN_TIME_KINDS if target == RUN_TIME else POWER_KINDS for target in TARGETS}
        self._runs_max = settings.runs_max
        self._trainer = Trainer(kinds, settings.runs_max, state.trainer or None, COLUMNS, cost=step_cost)
        self._by_size = PowerBySize(state.power)
        self._scores = {target: list(state.scores.get(target, ())) for target in TARGETS}
        self._waiting_ms = state.waiting_ms
        self._judged: tuple[ProfileFact, ProfileFinding] | None = None

    @classmethod
    def build(cls, settings: ProfileSettings, state: ProfileModelsState | None = None) -> "ProfileModels":
        """Return the models of a stored state, or ones that know nothing."""
        return cls(settings, state or ProfileModelsState())

    def score(self, fact: ProfileFact) -> ProfileFinding:
        """Compare a run with what is expected of its counters, and its counters with those of runs like it."""
        if self._judged is None or self._judged[0] is not fact:
            self._judged = fact, self._finding(fact)
        return self._judged[1]

    def _finding(self, fact: ProfileFact) -> ProfileFinding:
        values = values_of(fact.n, fact.profile)
        targets = targets_of(fact.run_time_s, fact.profile)
        bands = {target: self._trainer.predict(target, values) for target in targets if target in TARGETS}
        expected = {target: (targets[target], band) for target, band in bands.items() if band is not None}
        others = [run for run in self._trainer.reservoir.runs() if run.id != fact.run_id]
        disturbed = disturbance(others, values)
        scored = {target: len(self._scores[target]) for target in expected}
        by_counters = self.run_time(fact.n, values) if self.run(fact.run_id) is None else None
        run_time = by_counters.band if by_counters is not None and by_counters.n == fact.n else None
        return ProfileFinding(expected, disturbed.unusual, disturbed.weight, scored, run_time)

    def run_time(self, n: float, values: Mapping[str, float]) -> RunTimeByCounters | None:
        """Return what counters let expect of a run's time at the size nearest to `n` that was run.

        None where none is known that run time follows, or these values do not have all of them.
        """
        model, table = self._by_size_and_counters, self._trainer.learners[RUN_TIME].table
        if model is None or table is None or self.missing(values):
            return None
        ln_n = table.values[:, table.names.index(LN_N)]
        near = min(max(math.log(n), float(ln_n.min())), float(ln_n.max()))
        near = math.log(n) if abs(near - math.log(n)) <= SAME else near
        found = model.predict(table.row({**values, LN_N: near}))
        tracked = self._trainer.learners[RUN_TIME].tracked[GIVEN_SIZE]
        band = tracked.band(float(found.value[0]), float(found.deviation[0]))
        return RunTimeByCounters(n if near == math.log(n) else math.exp(near), band)

    def missing(self, values: Mapping[str, float]) -> tuple[str, ...]:
        """Return the counters that run time follows and these values do not have."""
        model = self._by_size_and_counters
        names = [model.names[term.at] for term in model.terms] if model is not None else []
        return tuple(name.partition(":")[2] for name in names if name not in values)

    def followed(self) -> dict[str, float]:
        """Return the counters that run time follows at a given size, each with its share of what they explain together."""
        model, table = self._by_size_and_counters, self._trainer.learners[RUN_TIME].table
        if model is None or table is None:
            return {}
        return {each.counter.partition(":")[2]: six_digits(each.share) for each in model.explanation(table)}

    @property
    def _by_size_and_counters(self) -> GivenSize | None:
        """The model of run time by its size and counters; None where no counter is known that it follows."""
        model = self._trainer.learners[RUN_TIME].models.get(GIVEN_SIZE)
        return model if isinstance(model, GivenSize) and model.terms else None

    def learn(self, fact: ProfileFact) -> None:
        """Take a run in; one that is known by its id is replaced."""
        known = self.run(fact.run_id)
        finding = self.score(fact)
        values, targets = values_of(fact.n, fact.profile), targets_of(fact.run_time_s, fact.profile)
        weights = target_weights(fact.profile)
        run = LearnedRun(fact.run_id, fact.end_ms, values, targets, finding.weight, weights=weights)
        if known == run:
            return
        if known is None:
            self._note(fact, finding, targets)
            self._trainer.learn(run)
        else:
            self._trainer.reservoir.add(run)
        self._changed()
        if self._waiting_ms is None and self._trainer.wants:
            self._waiting_ms = fact.end_ms

    def bound(self, bytes_max: int) -> bool:
        """Retain no more runs than so many bytes hold, and at least RUNS_LEAST; return whether some had to go by that.

        To be called before each `learn` and `tick`.
        """
        reservoir = self._trainer.reservoir
        return reservoir.bound(
            bytes_max, min(APPLICATION_BYTES_MAX // room_bytes(len(reservoir.names)), self._runs_max)
        )

    @property
    def runs(self) -> int:
        """How many runs the models are fitted to."""
        return len(self._trainer.learners[RUN_TIME].table or ())

    def moved(self, since_ms: int) -> MovedCounter | None:
        """Return the counter that moved most clearly in runs since a moment; None where none did."""
        return moved(self._trainer.reservoir.runs(), since_ms)

    def run(self, run_id: str) -> LearnedRun | None:
        """Return a run that is held; None where it is not."""
        return self._trainer.reservoir.find(run_id)

    def corrected(self, run_id: str, n: float, run_time_s: float) -> bool:
        """Let a run that is held have been of another size or length; False where nothing changes, or it is not held."""
        run = self.run(run_id)
        if run is None:
            return False
        values, targets = dict(run.values) | {LN_N: math.log(n)}, dict(run.targets) | {RUN_TIME: run_time_s}
        other = replace(run, values=values, targets=targets)
        if other == run:
            return False
        self._trainer.reservoir.add(other)
        self._changed()
        return True

    def forget(self, run_id: str) -> bool:
        """Take a run away, as it was of another application; False where it is not held."""
        if not self._trainer.reservoir.drop(run_id):
            return False
        self._changed()
        return True

    @property
    def step_cost(self) -> int:
        """What a step of the fit that goes on costs, in units of about a millisecond."""
        return self._trainer.step_cost

    def tick(self) -> bool:
        """Do a step of the fit that is due; return whether there was anything to do."""
        before = self._trainer.reservoir.epoch
        done = self._trainer.tick()
        self._judged = None
        if not self._trainer.wants:
            self._waiting_ms = None
        elif self._trainer.reservoir.epoch > before:  # others wait, too: this one begins to wait anew
            self._waiting_ms = max((run.time_ms for run in self._trainer.reservoir.waiting.values()), default=None)
        return done

    def power(self, sizes: Sequence[float]) -> tuple[PowerAt | None, ...]:
        """Return the power of all hosts together at sizes, None before two runs with power."""
        found = self._by_size.bands(self._trainer.reservoir.runs(), sizes)
        return tuple(
            None if band is None else PowerAt(n, band.value, band.low, band.high)
            for n, band in zip(sizes, found, strict=True)
        )

    def added(self, target: str, fact: ProfileFact) -> list[AddedPart]:
        """Return what a run's counters add to a target beyond that of the mean run, those that add most first."""
        found = adds(self._trainer.learners[target], values_of(fact.n, fact.profile))[:EXPLAINED_COUNTERS_MAX]
        return [replace(each, counter=each.counter.removeprefix(COUNTER)) for each in found]

    def by_counters(self, fact: ProfileFact) -> tuple[ExpectedFromCounters, ...]:
        """Return what counters of a run let expect of each target before it is learned; nothing of one that is known."""
        if self.run(fact.run_id) is not None:
            return ()
        expected = self.score(fact).expected
        explained_power = next((target for target in POWER_TARGETS if target in expected), None)
        found = []
        for target, (observed, band) in expected.items():
            parts = self.added(target, fact) if target == explained_power else []
            found.append(
                ExpectedFromCounters(
                    target=target,
                    observed=six_digits(observed),
                    expected=six_digits(band.value),
                    low=six_digits(band.low),
                    high=six_digits(band.high),
                    added=tuple(
                        AddedByCounter(each.counter, six_digits(each.amount), round(each.share, 4)) for each in parts
                    ),
                )
            )
        return tuple(found)

    def power_quality(self) -> PowerQuality | None:
        """Return how good what was reported power by size has been; None where power was never measured."""
        return self._by_size.quality()

    def models(self) -> tuple[ProfileModel, ...]:
        """Return the model of each target that is known, with the counters that explain it."""
        found = []
        for target in TARGETS:
            learner = self._trainer.learners[target]
            if learner.trusted is None:
                continue
            scores = self._scores[target]
            found.append(
                ProfileModel(
                    target=target,
                    model=learner.trusted,
                    runs=len(learner.table or ()),
                    scored=len(scores),
                    median_error=median_error(scores),
                    coverage_90=coverage(scores),
                    explained=explained(learner),
                )
            )
        return tuple(found)

    def due_ms(self) -> int | None:
        """Return when models want to be fitted; None where nothing is new."""
        return self._waiting_ms

    def snapshot(self) -> ProfileModelsState:
        """Return the stored form."""
        return ProfileModelsState(
            self._trainer.snapshot(),
            self._by_size.snapshot(),
            {target: list(scores) for target, scores in self._scores.items() if scores},
            self._waiting_ms,
        )

    def _changed(self) -> None:
        self._by_size.changed()
        self._judged = None

    def _note(self, fact: ProfileFact, finding: ProfileFinding, targets: Mapping[str, float]) -> None:
        """Remember how the run compares with what was told before it."""
        for target, (observed, band) in finding.expected.items():
            self._scores[target] = [*self._scores[target], TargetScore.of(observed, band)][-SCORES_MAX:]
        total = targets.get(POWER)
        if total is not None:
            self._by_size.learn(self._trainer.reservoir.runs(), fact.n, total, fact.profile)
