"""Types and helpers of arrays that models and windows share: predictions, runs of equal values, and dataclasses that are stored unchanged."""

from collections.abc import Mapping
from copy import copy
from dataclasses import fields
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Indices = NDArray[np.intp]
Bools = NDArray[np.bool_]
Array = TypeVar("Array", bound=NDArray[Any])


def read_only(array: Array) -> Array:
    """Make an array read-only, so that several objects may share it, and return it."""
    array.flags.writeable = False
    return array


def run_starts(*columns: NDArray[np.integer[Any]]) -> Ints:
    """Return the indexes in columns (m,) at which a run of equal rows begins; 0 is always an index."""
    changes = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        changes |= column[1:] != column[:-1]
    return np.flatnonzero(np.concatenate(([True], changes)))


def ranks(sorted_keys: NDArray[np.integer[Any]]) -> Ints:
    """Return the position of each element within its run of equal keys."""
    if not (sorted_keys[1:] == sorted_keys[:-1]).any():
        return np.zeros(len(sorted_keys), np.int64)
    first = run_starts(sorted_keys)
    return np.arange(len(sorted_keys)) - np.repeat(first, np.diff(np.append(first, len(sorted_keys))))


class Interval(NamedTuple):
    """Predictions of m values with the ends of the band that holds 90 % of single runs; arrays of shape (m,).

    The function that returns an `Interval` says whether the values are seconds or ln of seconds.
    """

    middle: Floats
    low: Floats
    high: Floats


class RowPredictions(NamedTuple):
    """Predictions for m rows: the value (m,), and the standard deviation of its ln (m,).

    If the value is itself an ln, `deviation` is the standard deviation of the value.
    """

    value: Floats
    deviation: Floats


class PlainData:
    """Base of dataclasses that are stored as a plain dict of their fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Counted(PlainData):
    ...     runs: int = 0
    >>> Counted(3).snapshot(), Counted.build({})
    ({'runs': 3}, Counted(runs=0))
    """

    __slots__ = ()

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the fields as plain data for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # a dataclass
        return {
            name: value.snapshot() if isinstance(value, PlainData) else copy(value) for name, value in values.items()
        }

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> Self:
        """Return an object with the fields of a snapshot. A missing field gets its default."""
        built = cls()
        for name, value in state.items():
            default = getattr(built, name)
            setattr(built, name, default.build(value) if isinstance(default, PlainData) else copy(value))
        return built
