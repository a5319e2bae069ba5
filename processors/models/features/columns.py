"""Models of run time on columns of their own: those of attributes, and those of sets of communication features.

Columns of communication begin with `network.`; a model of attributes does not look at them, one of a set of features
(`processors.models.communication.hybrids`) looks at those of its set and at the attributes.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from processors.models.communication.hybrids import HYBRIDS
from processors.models.features.forest import Grown, fitting
from processors.models.features.model import KINDS as OF_ATTRIBUTES
from processors.models.features.model import Measured, measured
from processors.models.training.learner import Kind
from processors.models.training.table import Answering, Floats, Model, Predicted, Table
from processors.models.trees.grow import Growth

NETWORK: Final = "network."
TREES: Final = Growth(trees=10, leaf_rows=1)  # as in Jain et al.
Choose = Callable[[Sequence[str]], tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A model of some columns of a table: their names, and where they are.

    >>> import numpy as np
    >>> class Same:
    ...     error = 0.0
    ...     def predict(self, values): return Predicted(values[:, 0], values[:, 0] * 0)
    >>> Chosen(("b",), (1,), Same()).predict(np.array([[3.0, 4.0]])).value.tolist()
    [4.0]
    """

    names: tuple[str, ...]
    at: tuple[int, ...]
    model: Model

    @property
    def error(self) -> float:
        """The error of runs that were left out."""
        return self.model.error

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p) of the whole table."""
        return self.model.predict(values[:, list(self.at)])

    def importances(self) -> dict[str, float]:
        """Return the share of each column in what the trees explain beyond the law; {} where there are no trees."""
        grown = self.model.model if isinstance(self.model, Measured) else None
        found = grown.forest.importances().tolist() if isinstance(grown, Grown) else [0.0] * len(self.names)
        return dict(zip(self.names, found, strict=True)) if any(found) else {}


def of_attributes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are not of communication.

    >>> of_attributes(("atoms", "n", "network.max_bytes"))
    ('atoms', 'n')
    """
    return tuple(name for name in names if not name.startswith(NETWORK))


def of_set(features: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the attributes and these features; ValueError where a table has not all of them.

    >>> of_set(("max_bytes",), ("n", "network.avg_bytes", "network.max_bytes"))
    ('n', 'network.max_bytes')
    """
    wanted = tuple(NETWORK + name for name in features)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"No run tells {', '.join(missing)}.")
    return (*of_attributes(names), *wanted)


def _fitted(choose: Choose, kind: Kind, table: Table) -> Generator[None, None, Model]:
    names = choose(table.names)
    model = yield from kind(table.only(names))
    return Chosen(names, tuple(table.names.index(name) for name in names), model)


def _trees(table: Table) -> Generator[None, None, Answering]:
    found = yield from fitting(table, TREES)
    return found


ATTRIBUTE_KINDS: Final[Mapping[str, Kind]] = {
    name: partial(_fitted, of_attributes, kind) for name, kind in OF_ATTRIBUTES.items()
}
NETWORK_KINDS: Final[Mapping[str, Kind]] = {
    name: partial(_fitted, partial(of_set, features), partial(measured, _trees)) for name, features in HYBRIDS.items()
}
