"""The loads of places as windows say them, worked out once for as long as the windows stay as they are.

Jobs of one partition ask for the same 128 hosts, at every start, and windows change only when a minute is taken in: a start
cost 5 ms, nearly all of it for what the start before had worked out. Every input of an answer is in its key, the number
of the windows' last change among them, so that it is the same whether it was remembered or not.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from processors.contracts.hosts import SHARES, Windows
from processors.contracts.load import LoadSource
from processors.load.prediction import Load, Place, TooLittleError, load, slowdown, waiting
from processors.models.histogram.arithmetic import quantiles
from processors.models.histogram.values import Histogram

REMEMBERED: Final = 256  # places; one of 128 hosts takes about 20 kB


class Slowdown(NamedTuple):
    """The factor by which the slowest host of a place stretches a run, its median, and the load that it follows from.

    Of what is no share of a whole, such as bandwidth, it is the inverse.
    """

    factor: Histogram
    median: float
    load: Load


class KnownLoads:
    """What windows say of places."""

    def __init__(self) -> None:
        self._loads = lru_cache(REMEMBERED)(_load)
        self._slowdowns = lru_cache(REMEMBERED)(self._slowdown)

    def load(self, windows: Windows, place: Place, resource: str, until_ms: int, source: LoadSource = "window") -> Load:
        """Return what the windows before a moment say of a resource; TooLittleError where too many are missing."""
        read = place._replace(hosts=0.0, text="")  # how many of these hosts a job gets changes nothing that is read
        found = self._loads(windows, windows.changes(), read, resource, windows.moment(until_ms), source)
        if isinstance(found, TooLittleError):
            raise TooLittleError(str(found), found.missing)
        return found if place.each else found._replace(counts=np.array([float(place.hosts)]))

    def slowdown(
        self, windows: Windows, place: Place, resource: str, until_ms: int, source: LoadSource = "window"
    ) -> Slowdown:
        """Return by what factor the hosts of a place stretch a run; errors as those of `load`."""
        return self._slowdowns(
            windows, windows.changes(), place._replace(text=""), resource, windows.moment(until_ms), source
        )

    def _slowdown(
        self, windows: Windows, _changes: int, place: Place, resource: str, until_ms: int, source: LoadSource
    ) -> Slowdown:
        found = self.load(windows, place, resource, until_ms, source)
        factor = slowdown(found) if resource in SHARES else waiting(found)
        return Slowdown(factor, float(quantiles(factor, [0.5])[0]), found)


def _load(
    windows: Windows, _changes: int, place: Place, resource: str, until_ms: int, source: LoadSource
) -> Load | TooLittleError:
    try:
        return load(windows, place, resource, until_ms, source)
    except TooLittleError as error:
        return error.with_traceback(None)  # as much of an answer as a load, and asked for as often
