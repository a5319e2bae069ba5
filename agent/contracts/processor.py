"""The processor contract: score before learning, time as an argument, state as plain versioned data."""

from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

State = TypeVar("State", bound=msgspec.Struct)
Fact = TypeVar("Fact", contravariant=True)
Finding = TypeVar("Finding", covariant=True)


class Versioned(msgspec.Struct, Generic[State], frozen=True):
    """A state as it is stored: its version and its data."""

    version: int
    data: State


class Processor(Protocol[Fact, Finding]):
    """A pure component about one thing (an application, a job, a host).

    `name` is the prefix of its state keys; `version` numbers the form of its state. Built by
    `build(config, state or None)`; `snapshot` returns a copy that `build` takes back.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def score(self, fact: Fact) -> Finding:
        """Judge a fact by what was known before it; changes nothing and works before any learning."""

    def learn(self, fact: Fact) -> None:
        """Take a fact in; a repeat changes nothing."""

    def tick(self, now_ms: int) -> Finding:
        """Let time pass."""

    def snapshot(self) -> msgspec.Struct:
        """Return the state as plain data, a copy."""
