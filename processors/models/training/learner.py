"""Several models of one target, fitted to the same runs, followed, and the best of them believed."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from processors.models.training.table import Floats, Model, Predicted, Table
from processors.models.training.tracking import Band, Tracked, best

Kind = Callable[[Table], Generator[None, None, Model]]


class Learner:
    """The models of one target by name, each with how it did.

    A kind of model is what fits it to a table, in steps; ValueError from it says that these runs are too few for it.

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

    def __init__(self, target: str, kinds: Mapping[str, Kind], state: Mapping[str, Any] | None = None) -> None:
        self.target = target
        self.kinds = dict(kinds)
        self.tracked = {name: Tracked() for name in self.kinds}
        for name, kept in (state or {}).items():
            if name in self.tracked:
                self.tracked[name] = Tracked.build(kept)
        self.models: dict[str, Model] = {}
        self.table: Table | None = None
        self._next: tuple[Table, dict[str, Model]] | None = None

    @property
    def believed(self) -> str | None:
        """The name of the model that answers, None before the first fit."""
        return best(self.tracked, {name: model.error for name, model in self.models.items()})

    def fitting(self, table: Table) -> Generator[None, None, None]:
        """Yield after each part of the work of the next fit; `put` lets it answer when that is done."""
        found: dict[str, Model] = {}
        for name, kind in self.kinds.items() if len(table) else ():
            try:
                found[name] = yield from kind(table)
            except ValueError:
                continue  # too few runs for this kind
        self._next = table, found

    def put(self, *, anew: bool = True) -> None:
        """Let the models that were fitted last answer from now on; not `anew` where they did so before a restore."""
        if self._next is not None:
            self.table, self.models = self._next
            self._next = None
            for tracked in self.tracked.values() if anew else ():
                tracked.level = 0.0  # the new fit has seen what it stood for

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
        """Return how the models did, as plain data; the models themselves are fitted again."""
        return {name: tracked.snapshot() for name, tracked in self.tracked.items()}

    def _asked(self, name: str, row: Floats) -> tuple[float, float]:
        predicted: Predicted = self.models[name].predict(row)
        return float(predicted.value[0]), float(predicted.deviation[0])
