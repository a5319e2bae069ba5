"""How a metric is declared."""

from typing import Final, Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram"]
ListName = Literal["formats", "reasons", "processors"]


class Label(msgspec.Struct, frozen=True):
    """A label: its closed list of values, the name of the list that the wiring hands in, or neither.

    A label with neither takes names of users; only collectors with a bound of their own may have one.

    >>> Label("role", values=("collector", "learner")).values
    ('collector', 'learner')
    """

    name: str
    values: tuple[str, ...] = ()
    given_as: ListName | None = None


class Declaration(msgspec.Struct, frozen=True):
    """A metric: name, kind, help and labels. `at_scrape` ones are read from the service when Prometheus asks.

    >>> Declaration("scalewatch_ready", "gauge", "One while ready.").label_names
    ()
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    at_scrape: bool = False
    buckets: tuple[float, ...] = ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, in order."""
        return tuple(label.name for label in self.labels)


APPLICATION: Final = (Label("application"), Label("system"), Label("input"), Label("unit"))
