"""One application: its reservoir of runs, the learners that share it, and fits that go on a step at a time.

A fit may take longer than a fold should stand still. So it is made in steps, one per `tick`, while the models before it
go on answering; all learners change to the new ones at once. How many steps were made is state: one that is restored
in the middle of a fit answers, and goes on, as the one before did.
"""

from collections.abc import Generator, Mapping
from typing import Any, Final

from processors.models.training.learner import Kind, Learner
from processors.models.training.runs import RUNS_MAX, Reservoir, Run
from processors.models.training.tracking import Band

VERSION: Final = 1


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
    ) -> None:
        """Start empty, or from a snapshot: its models are fitted again, which takes as long as that takes.

        Raises ValueError where the snapshot is of another version.
        """
        if state is not None and state["version"] != VERSION:
            raise ValueError("The snapshot of a trainer is of another version.")
        told = state["learners"] if state is not None else {}
        self.learners = {name: Learner(name, kinds, told.get(name)) for name, kinds in targets.items()}
        self.reservoir = Reservoir(runs_max) if state is None else Reservoir.build(state["reservoir"])
        self._work: Generator[None, None, None] | None = None
        self._steps = 0
        if state is not None:
            self._restore(int(state["steps"]))

    def learn(self, run: Run) -> None:
        """Follow the models with what this run was, then take it in for the next fit."""
        for name, learner in self.learners.items():
            if name in run.targets:
                learner.learn(run.values, run.targets[name])
        self.reservoir.add(run)

    @property
    def wants(self) -> bool:
        """Whether a fit goes on, or enough is new for the next one."""
        return self._work is not None or self.reservoir.due

    def tick(self) -> bool:
        """Do a step of the next fit, which begins where enough is new; return whether there was anything to do."""
        if self._work is None:
            if not self.reservoir.due:
                return False
            self.reservoir.begin()
            self._work, self._steps = self._fitting(), 0
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
            "steps": self._steps,
        }

    def _fitting(self) -> Generator[None, None, None]:
        for learner in self.learners.values():
            yield from learner.fitting(self.reservoir.table(learner.target))

    def _step(self) -> None:
        """Do a step; after the last one all learners change to their new models."""
        if self._work is None:
            return
        self._steps += 1
        try:
            next(self._work)
        except StopIteration:
            self._work, self._steps = None, 0
            self.reservoir.advance()
            for learner in self.learners.values():
                learner.put()

    def _restore(self, steps: int) -> None:
        coming, self.reservoir.coming = self.reservoir.coming, None
        if self.reservoir.epoch:
            for _ in self._fitting():
                pass
            for learner in self.learners.values():
                learner.put(anew=False)
        self.reservoir.coming = coming
        if coming is not None:
            self._work = self._fitting()
            for _ in range(steps):
                self._step()
