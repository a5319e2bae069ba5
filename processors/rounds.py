"""Columns in which something stands several times, in rounds in which it stands once."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def rounds(numbers: npt.NDArray[np.integer]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield places such that each round holds every number once, the first occurrence of each first; places rise.

    >>> [places.tolist() for places in rounds(np.array([7, 8, 7, 7]))]
    [[0, 1], [2], [3]]
    """
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    turn = np.empty(len(numbers), np.intp)
    turn[order] = np.arange(len(numbers)) - np.repeat(first, np.diff(np.r_[first, len(numbers)]))
    for k in range(int(turn.max()) + 1):
        yield np.flatnonzero(turn == k)
