"""The models of one application, fitted to a shared reservoir of runs one small step at a time.

A fit can take longer than the agent may block. Each `tick` therefore does one step, and the previous models keep predicting
until all new models are ready. The state of a fit is stored after each step, so a restart in the middle of a fit resumes it.
"""

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.numerics.conformal import PredictedBand
from processors.models.training.runs import EVENLY, RUNS_MAX, LearnedRun, Reservoir, Retention
from processors.models.training.table import (
    FittedModel,
    RowModel,
    RunTable,
    Steps,
    TrackRecord,
    best,
    finished,
    left_out,
)

FitState = dict[str, Any]
"""The state of a fit as plain data; a finished fit has the error of its model under `error`."""

Fitting = Callable[[RunTable], Generator[None, None, FittedModel]]
"""A function that fits a model in steps; it raises ValueError if the table has too few runs."""


class ModelKind(Protocol):
    """A kind of model that can be fitted in steps: a fit resumes from a stored state, and its last state rebuilds the fitted model."""

    def fitting(self, table: RunTable, state: FitState | None) -> Generator[FitState, None, FittedModel]:
        """Fit a model: yield the complete state after each step. Raise ValueError if the table has too few runs."""

    def model(self, table: RunTable, state: FitState) -> FittedModel:
        """Rebuild the model of a finished fit, identical to the bit."""

    def again(self, state: FitState) -> FitState | None:  # noqa: ARG002  kinds that resume use it
        """Return the start state of the next fit to changed runs, given the last `state`; None if the next fit starts from scratch."""
        return None


class ReplayedKind(ModelKind):
    """Makes a fitting function resumable: after a restart it repeats the finished steps without yielding them.

    A model is rebuilt by fitting again.
    """

    def __init__(self, fit: Fitting) -> None:
        self._fit = fit

    def fitting(self, table: RunTable, state: FitState | None) -> Generator[FitState, None, FittedModel]:
        steps, count = Steps(self._fit(table)), 0
        for count, _ in enumerate(steps, 1):
            if state is None or count > state["steps"]:
                yield {"steps": count}
        yield {"steps": count + 1, **self.measured(steps.result)}
        return steps.result

    def measured(self, model: FittedModel) -> FitState:
        """Return the values of a fitted model to store, because a rebuild does not compute them; `error` for every kind."""
        return {"error": float(model.error)}

    def model(self, table: RunTable, state: FitState) -> FittedModel:
        del state
        return finished(self._fit(table))


@dataclass(frozen=True, slots=True, eq=False)
class ScoredModel(RowModel):
    """A fitted model with its mean error and its standard deviation in ln, both measured on left-out runs."""

    fitted: RowModel
    error: float
    deviation: float

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p).

        The deviation of a prediction is the root mean square of the model's own deviation and the deviation of left-out runs.
        """
        prediction = self.fitted.predict(values)
        spread = np.where(prediction.deviation > 0, prediction.deviation, self.deviation)
        return RowPredictions(prediction.value, np.sqrt((self.deviation**2 + spread**2) / 2))

    def besides(self, values: Floats) -> Floats:
        return self.fitted.besides(values)

    def importances(self) -> Floats:
        return self.fitted.importances()


LEFT_OUT: Final = 256  # left-out runs that suffice to estimate an error; one fold of a large table is enough
FitRows = Callable[[RunTable], Generator[None, None, RowModel]]


def scored(fit: FitRows, table: RunTable, deviation_min: float) -> Generator[None, None, ScoredModel]:
    """Fit a model to the whole table, then measure its errors on left-out runs. Yield between the steps of the fits."""
    model = yield from fit(table)
    errors = yield from left_out(table, fit, enough=LEFT_OUT)
    return ScoredModel(model, errors.error, max(errors.deviation, deviation_min))


class LeftOutKind(ReplayedKind):
    """A kind of model whose errors are measured on left-out runs; the errors are stored in the state, so that a rebuild is quick."""

    def __init__(self, fit: FitRows, deviation_min: float) -> None:
        super().__init__(partial(scored, fit, deviation_min=deviation_min))
        self._fit_rows = fit

    def measured(self, model: FittedModel) -> FitState:
        return {"error": model.error, "deviation": model.deviation} if isinstance(model, ScoredModel) else {}

    def model(self, table: RunTable, state: FitState) -> FittedModel:
        return ScoredModel(finished(self._fit_rows(table)), float(state["error"]), float(state["deviation"]))


class ModelAnswer(NamedTuple):
    """The prediction of a model, the standard deviation of its ln, and the track record that corrects it."""

    record: TrackRecord
    value: float
    deviation: float


class TargetLearner:
    """The models of one target by name, the track record of each, and their fits.

    After a restart a fit continues from its stored state, and a model is rebuilt when it is first used.
    """

    def __init__(self, kinds: Mapping[str, ModelKind], state: Mapping[str, Any] | None = None) -> None:
        self.kinds = kinds
        stored = state or {"tracked": {}, "found": {}, "ready": {}, "part": None}
        self.tracked = {name: TrackRecord.build(stored["tracked"].get(name, {})) for name in kinds}
        self.table: RunTable | None = None
        # the trusted model may be of a kind that no longer exists
        self.replaced = not stored["found"].keys() <= kinds.keys()
        self._found: dict[str, FitState] = {name: fit for name, fit in stored["found"].items() if name in kinds}
        self._models: dict[str, FittedModel] = {}
        self._ready: dict[str, FitState | None] = {name: fit for name, fit in stored["ready"].items() if name in kinds}
        self._part: FitState | None = stored["part"]
        self._made: dict[str, FittedModel] = {}
        self._next: RunTable | None = None

    @property
    def models(self) -> dict[str, FittedModel]:
        if self.table is not None:
            for name, state in self._found.items():
                if name not in self._models:
                    self._models[name] = self.kinds[name].model(self.table, state)
        return self._models

    @property
    def trusted(self) -> str | None:
        """The name of the model with the least expected error; None before the first fit."""
        if self.table is None:
            return None
        return best(self.tracked, {name: float(state["error"]) for name, state in self._found.items()})

    def fitting(self, table: RunTable) -> Generator[None, None, None]:
        """Fit all kinds of model to `table`, and yield after each step; a restored fit continues. Call `put` to use the new models."""
        for name, kind in self.kinds.items() if len(table) else ():
            if name in self._ready:
                continue
            if self._part is None and name in self._found:
                self._part = kind.again(self._found[name])
            try:
                steps = Steps(kind.fitting(table, self._part))
                for self._part in steps:
                    yield
                self._made[name] = steps.result
            except ValueError:
                self._part = None  # too few runs for this kind of model
            self._ready[name], self._part = self._part, None
        self._next = table

    def put(self) -> None:
        """Replace the current models by those of the last finished fit, and reset the levels of their track records."""
        if self._next is not None:
            self.table, self._next, self.replaced = self._next, None, False
            self._found = {name: state for name, state in self._ready.items() if state is not None}
            self._models, self._made, self._ready = self._made, {}, {}
            for tracked in self.tracked.values():
                tracked.level = 0.0  # the new fit has learned the runs that caused this level

    def answered(self, values: Mapping[str, float]) -> ModelAnswer | None:
        """Return the prediction of the trusted model; None before the first fit."""
        name = self.trusted
        if name is None or self.table is None:
            return None
        return ModelAnswer(self.tracked[name], *self._requested(name, self.table.row(dict(values))))

    def learn(self, values: Mapping[str, float], actual: float) -> None:
        """Score the prediction of each model for `values` against the actual target, which is positive and finite."""
        if self.table is None:
            return
        row = self.table.row(dict(values))
        for name in self.models:
            self.tracked[name].learn(*self._requested(name, row), actual)

    def snapshot(self) -> dict[str, Any]:
        return {
            "tracked": {name: tracked.snapshot() for name, tracked in self.tracked.items()},
            "found": dict(self._found),
            "ready": dict(self._ready),
            "part": self._part,
        }

    def _requested(self, name: str, row: Floats) -> tuple[float, float]:
        predicted: RowPredictions = self.models[name].predict(row)
        return float(predicted.value[0]), float(predicted.deviation[0])


RUNS_PER_UNIT: Final = 100.0  # inverting a matrix of this size takes about a millisecond


def inverting(runs: int) -> int:
    """Return the cost of a step that inverts a matrix of `runs` rows, in units of about a millisecond."""
    return 1 + round((runs / RUNS_PER_UNIT) ** 3)


class Trainer:
    """The models of an application: one learner for each target, which fits and compares several kinds of model.

    >>> from processors.models.counters.model import KINDS
    >>> trainer = Trainer({"power_w": KINDS})
    >>> for number in range(20):
    ...     trainer.learn(LearnedRun(f"r{number}", number, {"ipc": 1 + number % 5}, {"power_w": 300.0 + 20.0 * (number % 5)}))
    >>> while trainer.tick():
    ...     pass
    >>> round(trainer.predict("power_w", {"ipc": 3.0}).value)
    340
    """

    def __init__(
        self,
        targets: Mapping[str, Mapping[str, ModelKind]],
        runs_max: int = RUNS_MAX,
        state: Mapping[str, Any] | None = None,
        *,
        cost: Callable[[int], int] = inverting,
        retention: Retention = EVENLY,
    ) -> None:
        """Start empty or from a snapshot.

        `cost` maps the number of runs to the cost of one step of a fit, in units of about a millisecond.
        """
        stored = state["learners"] if state is not None else {}
        self.learners = {name: TargetLearner(kinds, stored.get(name)) for name, kinds in targets.items()}
        self.reservoir = Reservoir(runs_max, retention=retention)
        self._cost = cost
        self._work: dict[str, Generator[None, None, None]] = {}
        self._turn = 0
        if state is not None:
            self.reservoir = Reservoir.build(state["reservoir"], runs_max, retention)
            self._restore(state)

    def learn(self, run: LearnedRun) -> None:
        """Score the models on a run, then add the run for the next fit."""
        level = math.exp(-self.reservoir.level)  # a level shift since the fit is not an error of the models
        for name, learner in self.learners.items():
            if name in run.targets:
                learner.learn(run.values, run.targets[name] * level)
        self.reservoir.add(run)

    @property
    def wants(self) -> bool:
        replaced = any(learner.replaced for learner in self.learners.values())
        return self.reservoir.coming is not None or self.reservoir.due or replaced

    @property
    def step_cost(self) -> int:
        return self._cost(len(self.reservoir.coming or {}))

    def tick(self) -> bool:
        """Do one step of the current fit, or start a fit if a fit is due; return False if there was nothing to do."""
        if self.reservoir.coming is None:
            if not self.wants:
                return False
            self.reservoir.begin()
            self._begin(list(self.learners))
        self._step()
        return True

    def predict(self, target: str, values: Mapping[str, float]) -> PredictedBand | None:
        answer = self.learners[target].answered(values)
        return None if answer is None else answer.record.band(answer.value, answer.deviation)

    def snapshot(self) -> dict[str, Any]:
        return {
            "reservoir": self.reservoir.snapshot(),
            "learners": {name: learner.snapshot() for name, learner in self.learners.items()},
            "going": list(self._work),
            "turn": self._turn,
        }

    def _tables(self, *, now: bool = False) -> dict[str, RunTable]:
        """Return the table of each learner; tables of the same runs share matrices that depend only on the values."""
        tables: dict[str, RunTable] = {}
        for name in self.learners:
            table = self.reservoir.table(name, now=now)
            twin = next((other for other in tables.values() if table.like(other)), None)
            tables[name] = table if twin is None else replace(table, shared=twin.shared)
        return tables

    def _begin(self, going: list[str]) -> None:
        tables = self._tables()
        self._work = {name: self.learners[name].fitting(tables[name]) for name in going}

    def _step(self) -> None:
        """Do one step of fitting for the next learner; once all learners have finished, replace their models.

        The learners take turns step by step, because learners of the same runs share matrices.
        """
        names = list(self._work)
        if names:
            self._turn %= len(names)
            name = names[self._turn]
            try:
                next(self._work[name])
                self._turn += 1
            except StopIteration:
                del self._work[name]
        if not self._work:
            self._turn = 0
            self.reservoir.advance()
            for learner in self.learners.values():
                learner.put()
                if learner.table is not None:
                    learner.table.shared.clear()  # only fits need these matrices

    def _restore(self, state: Mapping[str, Any]) -> None:
        if self.reservoir.epoch:
            for name, table in self._tables(now=True).items():
                self.learners[name].table = table
        if self.reservoir.coming is None:
            return
        for name, table in self._tables().items():
            if name not in state["going"]:
                for _ in self.learners[name].fitting(table):
                    pass  # this fit was finished before the restart
        self._begin(list(state["going"]))
        self._turn = state["turn"]
