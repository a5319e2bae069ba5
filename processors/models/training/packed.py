"""Runs as they are stored: the names once, and all numbers as one block of 32-bit floats, base64 in JSON.

A number of a run is one that 32 bits hold exactly (`singles`), so nothing is lost.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np

STORED: Final = np.dtype("<f4")


def singles(values: Mapping[str, float]) -> dict[str, float]:
    """Return each number as the nearest that 32 bits hold (seven digits), names in order, without what is not finite.

    >>> singles({"b": 1.5, "a": 0.1, "c": 1e300})
    {'a': 0.10000000149011612, 'b': 1.5}
    """
    names = sorted(values)
    with np.errstate(over="ignore"):
        found = np.array([values[name] for name in names], np.float64).astype(STORED).astype(np.float64).tolist()
    return {name: value for name, value in zip(names, found, strict=True) if isfinite(value)}


def packed(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return rows of named numbers as plain data.

    >>> unpacked(packed([{"a": 1.5}, {"b": 2.0, "a": 3.0}]))
    [{'a': 1.5}, {'a': 3.0, 'b': 2.0}]
    """
    names = sorted({name for row in rows for name in row})
    values = np.array([[row.get(name, np.nan) for name in names] for row in rows], dtype=STORED)
    return {"names": names, "rows": len(rows), "values": b64encode(values.tobytes()).decode()}


def unpacked(state: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the rows of what `packed` made, names in order; ValueError where their number is another.

    >>> unpacked({"names": ["a"], "rows": 2, "values": ""})
    Traceback (most recent call last):
    ValueError: cannot reshape array of size 0 into shape (2,1)
    """
    names = list(state["names"])
    values = np.frombuffer(b64decode(state["values"]), STORED).reshape(state["rows"], len(names)).astype(np.float64)
    known = np.isfinite(values)
    if known.all():
        return [dict(zip(names, row, strict=True)) for row in values.tolist()]
    return [
        {name: value for name, value, there in zip(names, row, mask, strict=True) if there}
        for row, mask in zip(values.tolist(), known.tolist(), strict=True)
    ]


def bounded(names: Iterable[str], known: set[str], names_max: int) -> set[str]:
    """Return which of the names there is room for besides those known, in their order.

    >>> sorted(bounded(["c", "b", "a"], {"c"}, 2))
    ['a', 'c']
    """
    found, room = set(), names_max - len(known)
    for name in sorted(names):
        if name in known:
            found.add(name)
        elif room > 0:
            found.add(name)
            room -= 1
    return found
