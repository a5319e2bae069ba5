"""The processor contract: score before learning, time as an argument, state as plain versioned data."""

from typing import ClassVar, Protocol, TypeVar

import msgspec

Fact = TypeVar("Fact", contravariant=True)
Finding = TypeVar("Finding", covariant=True)


class Processor(Protocol[Fact, Finding]):
    """A pure component about one thing (an application, a job, a host, an alert).

    `name` is the prefix of its state's keys; `version` numbers the form of its state. Its class has a `build`
    that takes settings and a state, or None for a new one, and `snapshot` returns a copy that `build` takes back.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def score(self, fact: Fact) -> Finding:
        """Judge a fact by what was known before it; changes nothing and works before any learning."""

    def learn(self, fact: Fact) -> None:
        """Take a fact in, wholly or (where it raises) not at all; a repeat changes nothing."""

    def due_ms(self) -> int | None:
        """Return when it next wants a tick; None while it only waits for facts."""

    def snapshot(self) -> msgspec.Struct:
        """Return the state as plain data, a copy."""
