"""Several models of one target, fitted to the same runs, followed, and the best of them believed."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from processors.models.training.kind import Found, resumable
from processors.models.training.kind import Kind as Kind  # noqa: PLC0414  asked for here, too
from processors.models.training.table import Floats, Model, Predicted, Table
from processors.models.training.tracking import Band, Tracked, best


class Learner:
    """The models of one target by name, each with how it did; they take the columns whose names begin with `columns`.

    A kind of model is what fits it to a table, in steps; ValueError from it says that these runs are too few for it. What
    steps found is state: after a restore the fit goes on from there, and models that answer are made of it when they are
    first asked.

    >>> class Mean:
    ...     error = 0.1
    ...     def __init__(self, table): self.mean = table.target.mean()
    ...     def predict(self, values): return Predicted(values[:, 0] * 0 + self.mean, values[:, 0] * 0 + 0.1)
    >>> def kind(table):
    ...     yield
    ...     return Mean(table)
    >>> import numpy as np
    >>> learner = Learner("power_w", {"mean": kind})
    >>> table = Table(("ipc",), np.ones((2, 1)), np.array([300.0, 500.0]), np.ones(2), np.arange(2))
    >>> steps = list(learner.fitting(table))
    >>> learner.put()
    >>> learner.predict({"ipc": 1.0}).value, learner.believed
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
        told = state or {"tracked": {}, "found": {}, "ready": {}, "part": None}
        self.tracked = {
            name: Tracked.build(told["tracked"][name]) if name in told["tracked"] else Tracked() for name in kinds
        }
        self.table: Table | None = None
        self._found: dict[str, Found] = {name: found for name, found in told["found"].items() if name in kinds}
        self._models: dict[str, Model] = {}
        self._ready: dict[str, Found | None] = {name: found for name, found in told["ready"].items() if name in kinds}
        self._part: Found | None = told["part"]
        self._made: dict[str, Model] = {}
        self._next: Table | None = None

    @property
    def models(self) -> dict[str, Model]:
        """The models that answer, by name."""
        if self.table is not None:
            for name, found in self._found.items():
                if name not in self._models:
                    self._models[name] = self.kinds[name].model(self.table, found)
        return self._models

    @property
    def believed(self) -> str | None:
        """The name of the model that answers, None before the first fit."""
        if self.table is None:
            return None
        return best(self.tracked, {name: float(found["error"]) for name, found in self._found.items()})

    def fitting(self, table: Table) -> Generator[None, None, None]:
        """Yield after each part of the work of the next fit, or of its rest; `put` lets it answer when that is done."""
        for name, kind in self.kinds.items() if len(table) else ():
            if name in self._ready:
                continue
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
            self.table, self._next = self._next, None
            self._found = {name: found for name, found in self._ready.items() if found is not None}
            self._models, self._made, self._ready = self._made, {}, {}
            for tracked in self.tracked.values():
                tracked.level = 0.0  # the new fit has seen what it stood for

    def put_back(self, table: Table) -> None:
        """Let the models answer that did so before a restore, of the table that they were fitted to."""
        self.table = table

    def predict(self, values: Mapping[str, float]) -> Band | None:
        """Return what the believed model expects; None before the first fit."""
        name = self.believed
        if name is None or self.table is None:
            return None
        value, deviation = self._asked(name, self.table.row(dict(values)))
        return self.tracked[name].band(value, deviation)

    def predict_rows(self, names: Sequence[str], values: Floats) -> Predicted | None:
        """Return what the believed model says of rows (m, len(names)), nan where one has no value; None before a fit.

        It is the model's bare answer, without level and band: for many hosts at once, each with a level of its own.
        """
        name = self.believed
        if name is None or self.table is None:
            return None
        place = {each: i for i, each in enumerate(names)}
        nothing = np.full(len(values), np.nan)
        columns = [values[:, place[each]] if each in place else nothing for each in self.table.names]
        rows = np.stack(columns, axis=1) if columns else np.empty((len(values), 0))
        return self.models[name].predict(self.table.filled(rows))

    def learn(self, values: Mapping[str, float], actual: float) -> None:
        """Follow each model: what it would have said of these values, against what came (> 0 and finite)."""
        if self.table is None:
            return
        row = self.table.row(dict(values))
        for name in self.models:
            self.tracked[name].learn(*self._asked(name, row), actual)

    def snapshot(self) -> dict[str, Any]:
        """Return how the models did, and what they are made of, as plain data."""
        return {
            "tracked": {name: tracked.snapshot() for name, tracked in self.tracked.items()},
            "found": dict(self._found),
            "ready": dict(self._ready),
            "part": self._part,
        }

    def _asked(self, name: str, row: Floats) -> tuple[float, float]:
        predicted: Predicted = self.models[name].predict(row)
        return float(predicted.value[0]), float(predicted.deviation[0])
