"""What an equation is made of, once it is read."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

LENGTH_MAX = 4000  # characters
NODES_MAX = 200
DEPTH_MAX = 40  # parentheses and named parts within each other
FUNCTIONS = ("max", "min", "max_over", "min_over")
HOSTS = "hosts"
DEDICATED = "T(n)"
RESERVED = (*FUNCTIONS, HOSTS, "n")


class Place(NamedTuple):
    """Where in the text: line and column, both from 1."""

    line: int
    column: int


class EquationError(ValueError):
    """What is wrong with an equation, or with the values that it is given: the place and one sentence.

    >>> str(EquationError(Place(2, 7), "a name is missing."))
    'line 2, column 7: a name is missing.'
    """

    def __init__(self, place: Place, sentence: str) -> None:
        super().__init__(f"line {place.line}, column {place.column}: {sentence}")
        self.place = place
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float
    place: Place


@dataclass(frozen=True, slots=True)
class Name:
    """A parameter, a measured resource, a named part, `hosts`, `n`, or T(n)."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts joined by + and -, or by * and /, from left to right; the first has + or *."""

    parts: "tuple[tuple[Literal['+', '-', '*', '/'], Expression], ...]"
    place: Place


@dataclass(frozen=True, slots=True)
class Call:
    """A function of one or more parts; those over hosts have one."""

    function: str
    arguments: "tuple[Expression, ...]"
    place: Place


Expression = Number | Name | Chain | Call


@dataclass(frozen=True, slots=True)
class Model:
    """An equation: its named parts in the order in which they stand, the result, and the names that need a value."""

    definitions: dict[str, Expression]
    result: Expression
    names: frozenset[str]
