"""A kind of model: how it is fitted in steps that can be taken up again, and made anew of what was found."""

from collections.abc import Callable, Generator
from typing import Any, Protocol, runtime_checkable

from processors.models.training.table import Model, Table, finished

Found = dict[str, Any]
"""What the steps of a fit found, as plain data; once it is done `error` is that of the model."""

Kind = Callable[[Table], Generator[None, None, Model]]
"""What fits a model to a table, in steps; ValueError from it says that these runs are too few for it."""


@runtime_checkable
class Resumable(Protocol):
    """A kind whose fit goes on from what was found so far, and whose model is quickly made of what was found."""

    def __call__(self, table: Table) -> Generator[None, None, Model]:
        """Fit from the beginning, as any kind."""

    def fitting(self, table: Table, found: Found | None) -> Generator[Found, None, Model]:
        """Yield what was found after each step, the whole of it, and return the model that `model` makes of the last."""

    def model(self, table: Table, found: Found) -> Model:
        """Return the model of a table: always the same, to the bit."""


class Replayed:
    """Makes any kind resumable: its steps are done again, its model is fitted again.

    >>> class Same:
    ...     error = 0.1
    ...     def predict(self, values): return None
    >>> def kind(table):
    ...     yield
    ...     yield
    ...     return Same()
    >>> list(Replayed(kind).fitting(None, {"steps": 1}))
    [{'steps': 2}, {'steps': 3, 'error': 0.1}]
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def __call__(self, table: Table) -> Generator[None, None, Model]:
        """Fit from the beginning."""
        return self._kind(table)

    def fitting(self, table: Table, found: Found | None) -> Generator[Found, None, Model]:
        """Do the steps again that were done, then go on."""
        steps = self._kind(table)
        done = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                model: Model = end.value
                yield {"steps": done + 1, "error": float(model.error)}
                return model
            done += 1
            if found is None or done > found["steps"]:
                yield {"steps": done}

    def model(self, table: Table, found: Found) -> Model:
        """Fit all at once."""
        del found
        return finished(self._kind(table))


def resumable(kind: Kind) -> Resumable:
    """Return a kind as one that can be taken up again.

    >>> from processors.models.counters.model import KINDS
    >>> resumable(KINDS["linear"]) is KINDS["linear"], type(resumable(lambda table: iter(()))).__name__
    (True, 'Replayed')
    """
    return kind if isinstance(kind, Resumable) else Replayed(kind)
