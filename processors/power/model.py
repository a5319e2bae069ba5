"""Models learned from the profiles of one application: run time and power from counters, and power by size.

A settled run is first compared with earlier predictions, then learned. Unusual counters show that other jobs disturbed
a run, and a disturbed run has less weight. All models share one bounded reservoir of runs. Models are fitted in small steps,
and the previous models predict until all new models are ready.
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
from processors.models.numerics.conformal import PredictedBand
from processors.models.numerics.statistics import six_digits
from processors.models.training.runs import LearnedRun, matrix, room_bytes
from processors.models.training.trainer import ModelKind, TargetLearner, Trainer, inverting
from processors.power.blame import MovedCounter, moved
from processors.power.by_size import (
    COUNTER,
    LN_N,
    NIC,
    POWER,
    POWER_TARGETS,
    RATE,
    RUN_TIME,
    SAME,
    SCORES_MAX,
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

EXPLAINED_COUNTERS_MAX: Final = 8  # most published counters; those with the largest effect are chosen
GIVEN_SIZE: Final = "given_size"
RUN_TIME_KINDS: Final[Mapping[str, ModelKind]] = {**KINDS, GIVEN_SIZE: GivenSizeKind(LN_N)}


def explained(learner: TargetLearner) -> tuple[Explained, ...]:
    """Return the counters with the largest effect on a target; if the model GIVEN_SIZE is trusted, their effect at a given size."""
    model = learner.models.get(GIVEN_SIZE) if learner.trusted == GIVEN_SIZE else None
    table = learner.table
    explanations = (
        model.explanation(table) if isinstance(model, GivenSize) and table is not None else explanation(learner)
    )
    return tuple(
        Explained(
            effect.counter.removeprefix(COUNTER),
            six_digits(effect.coefficient),
            round(effect.standardised, 4),
            round(effect.rho, 4),
            six_digits(effect.effect),
            round(effect.share, 4),
        )
        for effect in explanations[:EXPLAINED_COUNTERS_MAX]
    )


# A run is disturbed if its counters differ from those of similar runs. Runs of the same size are similar. If there are too few,
# the counters of runs of all sizes are scaled to this size by a power of n. Only the newest runs count, so that a permanent
# change soon stops being unusual.

NEWEST: Final = 32
ADJUSTED_MIN: Final = 2 * RUNS_MIN
SLOPE_RIDGE: Final = 1.0  # ridge in squared ln n, because a few runs do not prove that a counter depends on the size
FAR_MIN: Final = 5.0  # least distance of an unusual counter, in robust standard deviations


class CounterDisturbance(NamedTuple):
    """The unusual counters of a run, largest distance from usual first, and the weight that the run gets as a result (0 to 1)."""

    unusual: tuple[Unusual, ...] = ()
    weight: float = 1.0


def disturbance(runs: Sequence[LearnedRun], values: dict[str, float]) -> CounterDisturbance:
    """Return the unusual counters of a run relative to `runs`; no counter is unusual if there are too few runs."""
    names = tuple(sorted(name for name in values if name.startswith((COUNTER, RATE, NIC))))
    newest = sorted(runs, key=lambda run: (-run.time_ms, run.id))
    ln_n = values[LN_N]
    same = [run for run in newest if abs(run.values.get(LN_N, np.inf) - ln_n) <= SAME][:NEWEST]
    near = [run for run in newest if LN_N in run.values][: 2 * NEWEST]
    if not names or (len(same) < RUNS_MIN and len(near) < ADJUSTED_MIN):
        return CounterDisturbance()
    like = same if len(same) >= RUNS_MIN else near
    rows = matrix([run.values for run in like], names)
    if like is near:
        rows = _at_size(rows, np.array([run.values[LN_N] for run in near]), ln_n)
    threshold = far(len(rows), len(names))
    unusual_counters = unusual(names, rows, values, threshold)
    return CounterDisturbance(tuple(unusual_counters), weight(unusual_counters, threshold))


def far(runs: int, counters: int) -> float:
    """Return the least distance, in robust standard deviations, at which a counter is unusual.

    `runs` is the number of runs that it is compared with, `counters` the number of compared counters. One in a hundred undisturbed
    runs has any counter beyond this distance, as measured on normal, log-normal and heavy-tailed counters. The distance grows with
    the square of 10 / `runs`, because the median deviation of few runs is often much too small.
    """
    return max((4.0 + 1.3 * math.log(max(counters, 1))) * (1.0 + (10.0 / runs) ** 2), FAR_MIN)


def _at_size(rows: Floats, ln_n: Floats, to: float) -> Floats:
    """Return the counters (k, p) of runs of the sizes `ln_n` (k,), scaled to the size `to` by a power of n; both sizes are ln n."""
    scaled = rows.copy()
    offset = ln_n - ln_n.mean()
    for j, column in enumerate(rows.T):
        positive = np.isfinite(column) & (column > 0)
        if positive.sum() < RUNS_MIN or not (column[np.isfinite(column)] > 0).all():
            continue
        ln_rate = np.log(column[positive])
        slope = float(
            offset[positive] @ (ln_rate - ln_rate.mean()) / (offset[positive] @ offset[positive] + SLOPE_RIDGE)
        )
        scaled[positive, j] = np.exp(ln_rate + slope * (to - ln_n[positive]))
    return scaled


class ProfileFact(msgspec.Struct, frozen=True):
    """A settled run of an application at size `n`, with its profile and its attributes."""

    run_id: str
    n: float
    run_time_s: float
    end_ms: int
    profile: Profile
    attributes: Mapping[str, Attribute] = {}


class ProfileFinding(NamedTuple):
    """A run compared with the predictions from its counters, before the run is learned.

    `expected` has the observed value and the predicted band of each target, `scored` the number of earlier runs scored for the
    target. `unusual` are the unusual counters, largest distance first, and `weight` is the resulting weight of the run (0 to 1).
    `run_time` is the run time in s predicted from the counters; None if the run is already learned, or its size is not observed.
    """

    expected: Mapping[str, tuple[float, PredictedBand]] = {}
    unusual: tuple[Unusual, ...] = ()
    weight: float = 1.0
    scored: Mapping[str, int] = {}
    run_time: PredictedBand | None = None


class RunTimeByCounters(NamedTuple):
    """The run time in s predicted from counters, at size `n`."""

    n: float
    band: PredictedBand


class ProfileModelsState(msgspec.Struct, omit_defaults=True):
    """Stored form of `ProfileModels`."""

    trainer: dict[str, Any] = {}
    power: PowerRecord = PowerRecord()
    scores: dict[str, list[TargetScore]] = {}
    waiting_ms: int | None = None


# memory for the runs of an application; the stored state must fit into a Kafka record
APPLICATION_BYTES_MAX: Final = 2**20


def step_cost(runs: int) -> int:
    """Return the cost of one step of a fit, in units of about a millisecond; matrices have at most ROWS_MAX rows."""
    return inverting(min(runs, ROWS_MAX))


class ProfileModels:
    """The models learned from the profiles of one application."""

    name: ClassVar[str] = "profile_models"
    version: ClassVar[int] = 2

    def __init__(self, settings: ProfileSettings, state: ProfileModelsState) -> None:
        kinds = {target: RUN_TIME_KINDS if target == RUN_TIME else POWER_KINDS for target in TARGETS}
        self._runs_max = settings.runs_max
        self._trainer = Trainer(kinds, settings.runs_max, state.trainer or None, cost=step_cost)
        self._by_size = PowerBySize(state.power)
        self._scores = {target: list(state.scores.get(target, ())) for target in TARGETS}
        self._waiting_ms = state.waiting_ms
        self._judged: tuple[ProfileFact, ProfileFinding] | None = None

    def score(self, fact: ProfileFact) -> ProfileFinding:
        """Compare a run with the predictions from its counters, and its counters with those of similar runs."""
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
        return ProfileFinding(expected, *disturbed, scored, run_time)

    def run_time(self, n: float, values: Mapping[str, float]) -> RunTimeByCounters | None:
        """Return the run time predicted from counters at the observed size nearest to `n`.

        None if no counter explains the run time, or if `values` lacks a counter that the model uses.
        """
        learner, model = self._trainer.learners[RUN_TIME], self._by_size_and_counters
        if model is None or learner.table is None or self.missing(values):
            return None
        ln_n, column = math.log(n), learner.table.values[:, learner.table.names.index(LN_N)]
        nearest = float(np.clip(ln_n, column.min(), column.max()))
        is_observed = abs(nearest - ln_n) <= SAME
        prediction = model.predict(learner.table.row({**values, LN_N: ln_n if is_observed else nearest}))
        band = learner.tracked[GIVEN_SIZE].band(float(prediction.value[0]), float(prediction.deviation[0]))
        return RunTimeByCounters(n if is_observed else math.exp(nearest), band)

    def missing(self, values: Mapping[str, float]) -> tuple[str, ...]:
        """Return the counters that the run-time model uses and `values` lacks."""
        model = self._by_size_and_counters
        names = [model.names[term.at] for term in model.terms] if model is not None else []
        return tuple(name.partition(":")[2] for name in names if name not in values)

    def followed(self) -> dict[str, float]:
        """Return the counters that explain the run time at a given size, each with its share of the explained effect."""
        model, table = self._by_size_and_counters, self._trainer.learners[RUN_TIME].table
        if model is None or table is None:
            return {}
        return {effect.counter.partition(":")[2]: six_digits(effect.share) for effect in model.explanation(table)}

    @property
    def _by_size_and_counters(self) -> GivenSize | None:
        """The model of run time by size and counters; None if no counter explains the run time."""
        model = self._trainer.learners[RUN_TIME].models.get(GIVEN_SIZE)
        return model if isinstance(model, GivenSize) and model.terms else None

    def learn(self, fact: ProfileFact) -> None:
        """Add a run, or replace the retained run with the same id."""
        finding = self.score(fact)
        values, targets = values_of(fact.n, fact.profile), targets_of(fact.run_time_s, fact.profile)
        weights = target_weights(fact.profile)
        run = LearnedRun(fact.run_id, fact.end_ms, values, targets, finding.weight, weights=weights)
        if self.run(fact.run_id) is None:
            self._note(fact, finding, targets)
            self._trainer.learn(run)
            self._changed()
        elif not self._replaced(run):
            return
        if self._waiting_ms is None and self._trainer.wants:
            self._waiting_ms = fact.end_ms

    def _replaced(self, run: LearnedRun) -> bool:
        """Replace the retained run with the same id; return False if nothing changes."""
        if self.run(run.id) == run:
            return False
        self._trainer.reservoir.add(run)
        self._changed()
        return True

    def bound(self, bytes_max: int) -> bool:
        """Retain only as many runs as fit in `bytes_max`, but at least RUNS_LEAST; return whether runs were removed.

        Call this method before each `learn` and `tick`.
        """
        reservoir = self._trainer.reservoir
        runs_max = min(APPLICATION_BYTES_MAX // room_bytes(len(reservoir.names)), self._runs_max)
        return reservoir.bound(bytes_max, runs_max)

    @property
    def runs(self) -> int:
        """The number of runs that the models are fitted to."""
        return len(self._trainer.learners[RUN_TIME].table or ())

    def moved(self, since_ms: int) -> MovedCounter | None:
        """Return the counter that changed most clearly in runs since `since_ms`; None if no counter changed."""
        return moved(self._trainer.reservoir.runs(), since_ms)

    def run(self, run_id: str) -> LearnedRun | None:
        return self._trainer.reservoir.find(run_id)

    def corrected(self, run_id: str, n: float, run_time_s: float) -> bool:
        """Correct size and run time of a retained run; return False if nothing changes or the run is not retained."""
        run = self.run(run_id)
        if run is None:
            return False
        values, targets = dict(run.values) | {LN_N: math.log(n)}, dict(run.targets) | {RUN_TIME: run_time_s}
        return self._replaced(replace(run, values=values, targets=targets))

    def forget(self, run_id: str) -> bool:
        """Remove a run that belongs to another application; return False if the run is not retained."""
        dropped = self._trainer.reservoir.drop(run_id)
        if dropped:
            self._changed()
        return dropped

    @property
    def step_cost(self) -> int:
        return self._trainer.step_cost

    def tick(self) -> bool:
        """Do one step of the running fit, or start a fit that is due; return False if no fit is due."""
        before = self._trainer.reservoir.epoch
        worked = self._trainer.tick()
        self._judged = None
        if not self._trainer.wants:
            self._waiting_ms = None
        elif self._trainer.reservoir.epoch > before:  # a finished fit moves the model to the end of the queue
            self._waiting_ms = max((run.time_ms for run in self._trainer.reservoir.waiting.values()), default=None)
        return worked

    def power_w(self, sizes: Sequence[float]) -> list[PredictedBand | None]:
        """Return the total power of all hosts in W at each size; None before two runs with power."""
        return self._by_size.bands(self._trainer.reservoir.runs(), sizes)

    def added(self, target: str, fact: ProfileFact) -> list[AddedPart]:
        """Return how much each counter of a run adds to the prediction of `target`, compared with a mean run; largest first."""
        parts = adds(self._trainer.learners[target], values_of(fact.n, fact.profile))[:EXPLAINED_COUNTERS_MAX]
        return [replace(part, counter=part.counter.removeprefix(COUNTER)) for part in parts]

    def by_counters(self, fact: ProfileFact) -> tuple[ExpectedFromCounters, ...]:
        """Return the prediction of each target of a new run from its counters; empty for a run that is already learned."""
        if self.run(fact.run_id) is not None:
            return ()
        expected = self.score(fact).expected
        explained_power = next((target for target in POWER_TARGETS if target in expected), None)
        parts = self.added(explained_power, fact) if explained_power is not None else []
        added = tuple(AddedByCounter(part.counter, six_digits(part.amount), round(part.share, 4)) for part in parts)
        return tuple(
            ExpectedFromCounters(
                target=target,
                observed=six_digits(observed),
                expected=six_digits(band.value),
                low=six_digits(band.low),
                high=six_digits(band.high),
                added=added if target == explained_power else (),
            )
            for target, (observed, band) in expected.items()
        )

    def power_quality(self) -> PowerQuality | None:
        return self._by_size.quality()

    def models(self) -> tuple[ProfileModel, ...]:
        """Return the fitted model of each target with the counters that explain it."""
        return tuple(
            ProfileModel(
                target=target,
                model=learner.trusted,
                runs=len(learner.table or ()),
                scored=len(self._scores[target]),
                median_error=median_error(self._scores[target]),
                coverage_90=coverage(self._scores[target]),
                explained=explained(learner),
            )
            for target, learner in self._trainer.learners.items()
            if learner.trusted is not None
        )

    def due_ms(self) -> int | None:
        return self._waiting_ms

    def snapshot(self) -> ProfileModelsState:
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
        for target, (observed, band) in finding.expected.items():
            self._scores[target] = [*self._scores[target], TargetScore.of(observed, band)][-SCORES_MAX:]
        total = targets.get(POWER)
        if total is not None:
            self._by_size.learn(self._trainer.reservoir.runs(), fact.n, total, fact.profile)
