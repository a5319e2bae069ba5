"""One application: its reservoir of runs, the learners that share it, and fits that go on a step at a time.

A fit may take longer than a fold should stand still. So it is made in steps, one per `tick`, while the models before it
go on answering; all learners change to the new ones at once. What the steps found is state: one that is restored in the
middle of a fit answers, and goes on, as the one before did.
"""

import math
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from processors.models.numerics.arrays import Floats
from processors.models.training.retention import EVENLY, Retention
from processors.models.training.runs import RUNS_MAX, LearnedRun, Reservoir
from processors.models.training.table import (
    FittedModel,
    PredictedBand,
    RowPredictions,
    RunTable,
    TrackRecord,
    best,
    finished,
)

FitState = dict[str, Any]
"""What the steps of a fit found, as plain data; once it is done `error` is that of the model."""

Kind = Callable[[RunTable], Generator[None, None, FittedModel]]
"""What fits a model to a table, in steps; ValueError from it says that these runs are too few for it."""


@runtime_checkable
class Resumable(Protocol):
    """A kind whose fit goes on from what was found so far, and whose model is quickly made of what was found."""

    def __call__(self, table: RunTable) -> Generator[None, None, FittedModel]:
        """Fit from the beginning, as any kind."""

    def fitting(self, table: RunTable, found: FitState | None) -> Generator[FitState, None, FittedModel]:
        """Yield what was found after each step, the whole of it, and return the model that `model` makes of the last."""

    def model(self, table: RunTable, found: FitState) -> FittedModel:
        """Return the model of a table: always the same, to the bit."""


@runtime_checkable
class Continued(Resumable, Protocol):
    """A kind whose fits go on from what was found of other runs before."""

    def again(self, found: FitState) -> FitState | None:
        """Return what the next fit begins with, where this was found last; None: with nothing."""


class ReplayedKind:
    """Makes any kind resumable: its steps are done again, its model is fitted again.

    >>> class Same:
    ...     error = 0.1
    ...     def predict(self, values): return None
    >>> def kind(table):
    ...     yield
    ...     yield
    ...     return Same()
    >>> list(ReplayedKind(kind).fitting(None, {"steps": 1}))
    [{'steps': 2}, {'steps': 3, 'error': 0.1}]
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def __call__(self, table: RunTable) -> Generator[None, None, FittedModel]:
        """Fit from the beginning."""
        return self._kind(table)

    def fitting(self, table: RunTable, found: FitState | None) -> Generator[FitState, None, FittedModel]:
        """Do the steps again that were done, then go on."""
        steps = self._kind(table)
        done = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                model: FittedModel = end.value
                yield {"steps": done + 1, **self.found(model)}
                return model
            done += 1
            if found is None or done > found["steps"]:
                yield {"steps": done}

    def found(self, model: FittedModel) -> FitState:
        """Return what is retained of a model that was fitted: its error."""
        return {"error": float(model.error)}

    def model(self, table: RunTable, found: FitState) -> FittedModel:
        """Fit all at once."""
        del found
        return finished(self._kind(table))


def resumable(kind: Kind) -> Resumable:
    """Return a kind as one that can be taken up again.

    >>> from processors.models.counters.model import KINDS
    >>> resumable(KINDS["blend"]) is KINDS["blend"], type(resumable(lambda table: iter(()))).__name__
    (True, 'ReplayedKind')
    """
    return kind if isinstance(kind, Resumable) else ReplayedKind(kind)


class TargetLearner:
    """The models of one target by name, each with how it did; they take the columns whose names begin with `columns`.

    A kind of model is what fits it to a table, in steps; ValueError from it says that these runs are too few for it. What
    steps found is state: after a restore the fit goes on from there, and models that answer are made of it when they are
    first asked.

    >>> class Mean:
    ...     error = 0.1
    ...     def __init__(self, table): self.mean = table.target.mean()
    ...     def predict(self, values): return RowPredictions(values[:, 0] * 0 + self.mean, values[:, 0] * 0 + 0.1)
    >>> def kind(table):
    ...     yield
    ...     return Mean(table)
    >>> import numpy as np
    >>> learner = TargetLearner("power_w", {"mean": kind})
    >>> table = RunTable(("ipc",), np.ones((2, 1)), np.array([300.0, 500.0]), np.ones(2), np.arange(2))
    >>> steps = list(learner.fitting(table))
    >>> learner.put()
    >>> learner.predict({"ipc": 1.0}).value, learner.trusted
    (400.0, 'mean')
    """

    def __init__(
        self,
        target: str,
        kinds: Mapping[str, Kind],
        state: Mapping[str, Any] | None = None,
        columns: tuple[str, ...] = ("",),
    ) -> None:
        self.target = target
        self.columns = columns
        self.kinds = {name: resumable(kind) for name, kind in kinds.items()}
        given = state or {"tracked": {}, "found": {}, "ready": {}, "part": None}
        self.tracked = {
            name: TrackRecord.build(given["tracked"][name]) if name in given["tracked"] else TrackRecord()
            for name in kinds
        }
        self.table: RunTable | None = None
        self.replaced = not given["found"].keys() <= kinds.keys()  # models that answered are tried no more
        self._found: dict[str, FitState] = {name: found for name, found in given["found"].items() if name in kinds}
        self._models: dict[str, FittedModel] = {}
        self._ready: dict[str, FitState | None] = {
            name: found for name, found in given["ready"].items() if name in kinds
        }
        self._part: FitState | None = given["part"]
        self._made: dict[str, FittedModel] = {}
        self._next: RunTable | None = None

    @property
    def models(self) -> dict[str, FittedModel]:
        """The models that answer, by name."""
        if self.table is not None:
            for name, found in self._found.items():
                if name not in self._models:
                    self._models[name] = self.kinds[name].model(self.table, found)
        return self._models

    @property
    def trusted(self) -> str | None:
        """The name of the model that answers, None before the first fit."""
        if self.table is None:
            return None
        return best(self.tracked, {name: float(found["error"]) for name, found in self._found.items()})

    def fitting(self, table: RunTable) -> Generator[None, None, None]:
        """Yield after each part of the work of the next fit, or of its rest; `put` lets it answer when that is done."""
        for name, kind in self.kinds.items() if len(table) else ():
            if name in self._ready:
                continue
            if self._part is None and name in self._found and isinstance(kind, Continued):
                self._part = kind.again(self._found[name])
            try:
                steps = kind.fitting(table, self._part)
                while True:
                    try:
                        self._part = next(steps)
                    except StopIteration as end:
                        self._made[name] = end.value
                        break
                    yield
            except ValueError:
                self._part = None  # too few runs for this kind
            self._ready[name], self._part = self._part, None
        self._next = table

    def put(self) -> None:
        """Let the models that were fitted last answer from now on."""
        if self._next is not None:
            self.table, self._next, self.replaced = self._next, None, False
            self._found = {name: found for name, found in self._ready.items() if found is not None}
            self._models, self._made, self._ready = self._made, {}, {}
            for tracked in self.tracked.values():
                tracked.level = 0.0  # the new fit has seen what it stood for

    def put_back(self, table: RunTable) -> None:
        """Let the models answer that did so before a restore, of the table that they were fitted to."""
        self.table = table

    def predict(self, values: Mapping[str, float]) -> PredictedBand | None:
        """Return what the believed model expects; None before the first fit."""
        name, answered = self.trusted, self.answered(values)
        return self.tracked[name].band(*answered) if name is not None and answered is not None else None

    def answered(self, values: Mapping[str, float]) -> tuple[float, float] | None:
        """Return what the believed model itself says, and the deviation of its ln; None before the first fit."""
        name = self.trusted
        return None if name is None or self.table is None else self._requested(name, self.table.row(dict(values)))

    def levelled(self, values: Mapping[str, float]) -> tuple[float, float] | None:
        """Return the same with the level that the believed model was off by recently: for who makes a band of it.

        >>> TargetLearner("power_w", {}).levelled({"ipc": 1.0})
        """
        name, answered = self.trusted, self.answered(values)
        if name is None or answered is None:
            return None
        value, deviation = answered
        return self.tracked[name].levelled(value), deviation

    def learn(self, values: Mapping[str, float], actual: float) -> None:
        """Follow each model: what it would have said of these values, against what came (> 0 and finite)."""
        if self.table is None:
            return
        row = self.table.row(dict(values))
        for name in self.models:
            self.tracked[name].learn(*self._requested(name, row), actual)

    def snapshot(self) -> dict[str, Any]:
        """Return how the models did, and what they are made of, as plain data."""
        return {
            "tracked": {name: tracked.snapshot() for name, tracked in self.tracked.items()},
            "found": dict(self._found),
            "ready": dict(self._ready),
            "part": self._part,
        }

    def _requested(self, name: str, row: Floats) -> tuple[float, float]:
        predicted: RowPredictions = self.models[name].predict(row)
        return float(predicted.value[0]), float(predicted.deviation[0])


VERSION: Final = 1
EVERYTHING: Final = ("",)  # each name begins with that
RUNS_PER_UNIT: Final = 100.0  # a matrix of so many rows is inverted in about a millisecond


def inverting(runs: int) -> int:
    """Return what a step costs that inverts a matrix of so many runs, in units of about a millisecond.

    >>> inverting(10), inverting(300)
    (1, 28)
    """
    return 1 + round((runs / RUNS_PER_UNIT) ** 3)


class Trainer:
    """The learners of an application: for each target the kinds of model that are tried.

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
        targets: Mapping[str, Mapping[str, Kind]],
        runs_max: int = RUNS_MAX,
        state: Mapping[str, Any] | None = None,
        columns: Mapping[str, tuple[str, ...]] | None = None,
        *,
        cost: Callable[[int], int] = inverting,
        retention: Retention = EVENLY,
    ) -> None:
        """Start empty, or from a snapshot. A learner takes the values whose names begin with one of its `columns`.

        `cost` is what a step of a fit to so many runs costs, in units of about a millisecond, `retention` says which runs stay.

        Raises ValueError where the snapshot is of another version.
        """
        if state is not None and state["version"] != VERSION:
            raise ValueError("The snapshot of a trainer is of another version.")
        given = state["learners"] if state is not None else {}
        self.learners = {
            name: TargetLearner(name, kinds, given.get(name), (columns or {}).get(name, EVERYTHING))
            for name, kinds in targets.items()
        }
        self.reservoir = (
            Reservoir(runs_max, retention=retention)
            if state is None
            else Reservoir.build(state["reservoir"], runs_max, retention)
        )
        self._cost = cost
        self._work: dict[str, Generator[None, None, None]] = {}
        self._turn = 0
        if state is not None:
            self._restore(state)

    def learn(self, run: LearnedRun) -> None:
        """Follow the models with what this run was, then take it in for the next fit."""
        level = math.exp(-self.reservoir.level)  # a shift that they have not seen is no fault of theirs
        for name, learner in self.learners.items():
            if name in run.targets:
                learner.learn(run.values, run.targets[name] * level)
        self.reservoir.add(run)

    @property
    def wants(self) -> bool:
        """Whether a fit goes on, or enough is new for the next one, or a state had models of kinds that are no more."""
        return self.reservoir.coming is not None or self.reservoir.due or self._replaced

    @property
    def _replaced(self) -> bool:
        return any(learner.replaced for learner in self.learners.values())

    @property
    def step_cost(self) -> int:
        """What a step of the fit that goes on costs, in units of about a millisecond: it follows from how many runs are fitted to."""
        return self._cost(len(self.reservoir.coming or {}))

    def tick(self) -> bool:
        """Do a step of the next fit, which begins where enough is new; return whether there was anything to do."""
        if self.reservoir.coming is None:
            if not self.wants:
                return False
            self.reservoir.begin()
            self._begin(list(self.learners))
        self._step()
        return True

    def predict(self, target: str, values: Mapping[str, float]) -> PredictedBand | None:
        """Return what is expected of a run with these values; None where nothing is known yet. KeyError for no target."""
        return self.learners[target].predict(values)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            "version": VERSION,
            "reservoir": self.reservoir.snapshot(),
            "learners": {name: learner.snapshot() for name, learner in self.learners.items()},
            "going": list(self._work),
            "turn": self._turn,
        }

    def _tables(self, *, now: bool = False) -> dict[str, RunTable]:
        """Return the table of each learner; those of the same runs share what is worked out of their values."""
        found: dict[str, RunTable] = {}
        for name, learner in self.learners.items():
            table = self.reservoir.table(name, learner.columns, now=now)
            twin = next((each for each in found.values() if table.like(each)), None)
            found[name] = table if twin is None else table.sharing(twin)
        return found

    def _begin(self, going: list[str]) -> None:
        tables = self._tables()
        self._work = {name: self.learners[name].fitting(tables[name]) for name in going}

    def _step(self) -> None:
        """Do a step of the learner whose turn it is; after the last step of all they change to their new models.

        They take turns, for those of the same runs share matrices.
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
                    learner.table.shared.clear()  # matrices that only fits need

    def _restore(self, state: Mapping[str, Any]) -> None:
        if self.reservoir.epoch:
            for name, table in self._tables(now=True).items():
                self.learners[name].put_back(table)
        if self.reservoir.coming is None:
            return
        for name, table in self._tables().items():
            if name not in state["going"]:
                for _ in self.learners[name].fitting(table):
                    pass  # all of it was done
        self._begin(list(state["going"]))
        self._turn = state["turn"]
