"""One application: its reservoir of runs, the learners that share it, and fits that go on a step at a time.

A fit may take longer than a fold should stand still. So it is made in steps, one per `tick`, while the models before it
go on answering; all learners change to the new ones at once. What the steps found is state: one that is restored in the
middle of a fit answers, and goes on, as the one before did.
"""

from collections.abc import Generator, Mapping
from typing import Any, Final

from processors.models.training.kind import Kind
from processors.models.training.learner import Learner
from processors.models.training.runs import RUNS_MAX, Reservoir, Run
from processors.models.training.table import Table
from processors.models.training.tracking import Band

VERSION: Final = 1
EVERYTHING: Final = ("",)  # each name begins with that
RUNS_PER_UNIT: Final = 100.0  # a matrix of so many rows is inverted in about a millisecond


class Trainer:
    """The learners of an application: for each target the kinds of model that are tried.

    >>> from processors.models.counters.model import KINDS
    >>> trainer = Trainer({"power_w": KINDS})
    >>> for number in range(20):
    ...     trainer.learn(Run(f"r{number}", number, {"ipc": 1 + number % 5}, {"power_w": 300.0 + 20.0 * (number % 5)}))
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
    ) -> None:
        """Start empty, or from a snapshot. A learner takes the values whose names begin with one of its `columns`.

        Raises ValueError where the snapshot is of another version.
        """
        if state is not None and state["version"] != VERSION:
            raise ValueError("The snapshot of a trainer is of another version.")
        told = state["learners"] if state is not None else {}
        self.learners = {
            name: Learner(name, kinds, told.get(name), (columns or {}).get(name, EVERYTHING))
            for name, kinds in targets.items()
        }
        self.reservoir = Reservoir(runs_max) if state is None else Reservoir.build(state["reservoir"])
        self._work: dict[str, Generator[None, None, None]] = {}
        self._turn = 0
        if state is not None:
            self._restore(state)

    def learn(self, run: Run) -> None:
        """Follow the models with what this run was, then take it in for the next fit."""
        for name, learner in self.learners.items():
            if name in run.targets:
                learner.learn(run.values, run.targets[name])
        self.reservoir.add(run)

    @property
    def wants(self) -> bool:
        """Whether a fit goes on, or enough is new for the next one."""
        return self.reservoir.coming is not None or self.reservoir.due

    @property
    def step_cost(self) -> int:
        """What a step of the fit that goes on costs, in units of about a millisecond: it follows from how many runs are fitted to."""
        runs = len(self.reservoir.coming or {})
        return 1 + round((runs / RUNS_PER_UNIT) ** 3)

    def tick(self) -> bool:
        """Do a step of the next fit, which begins where enough is new; return whether there was anything to do."""
        if self.reservoir.coming is None:
            if not self.reservoir.due:
                return False
            self.reservoir.begin()
            self._begin(list(self.learners))
        self._step()
        return True

    def predict(self, target: str, values: Mapping[str, float]) -> Band | None:
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

    def _tables(self, *, now: bool = False) -> dict[str, Table]:
        """Return the table of each learner; those of the same runs share what is worked out of their values."""
        found: dict[str, Table] = {}
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
