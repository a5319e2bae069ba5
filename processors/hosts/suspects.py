"""Which hosts have an anomaly, and since when: what the alerts about hosts rest on, a row per host."""

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from processors.hosts.columns import NEVER_MS, Rows, RowTable

RESOURCES_MIN: Final = 2  # records of a host with one resource say nothing

_HOST: Final = np.dtype(
    [("first_ms", "<i8"), ("judged_ms", "<i8"), ("odd_ms", "<i8"), ("since_ms", "<i8"), ("news_ms", "<i8"),
     ("told_ms", "<i8"), ("hushed_ms", "<i8"), ("muted", "u1")]
)  # fmt: skip


class Suspects(RowTable):
    """When each host was first seen, was last odd, has news that were not told, was told of, and may not be told of.

    >>> suspects = Suspects()
    >>> suspects.grow(1)
    >>> suspects.seen(np.array([0]), np.array([60_000]))
    >>> fired_ms, host = np.array([120_000, 130_000, -1]), np.array([0, 0, 0])
    >>> suspects.close(fired_ms, host, window_ms=600_000, most=2).tolist(), suspects["since_ms"][0]
    ([0], np.int64(120000))
    """

    name: ClassVar[str] = "host_suspects"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        times = dict.fromkeys((_HOST.names or ())[:-1], NEVER_MS)
        super().__init__(_HOST, **times)

    def seen(self, host: Rows, minute_ms: npt.NDArray[np.int64]) -> None:
        """Note a minute of each of these hosts (m,)."""
        new = self["first_ms"][host] == NEVER_MS
        self["first_ms"][host[new]] = minute_ms[new]

    def close(self, fired_ms: npt.NDArray[np.int64], host: Rows, window_ms: int, most: int) -> Rows:
        """Return hosts of which new records came close together, at least `most` or of all their resources.

        `fired_ms` (rows,) is the last record of each series and `host` (rows,) is its host, less than 0 for none.
        """
        mine = np.flatnonzero((host >= 0) & (fired_ms != NEVER_MS))
        new = mine[fired_ms[mine] > self["judged_ms"][host[mine]]]
        if new.size == 0:
            return new
        last_ms = np.full(len(self), NEVER_MS, np.int64)
        np.maximum.at(last_ms, host[new], fired_ms[new])
        near = mine[last_ms[host[mine]] != NEVER_MS]
        near = near[fired_ms[near] >= last_ms[host[near]] - window_ms]
        records = np.bincount(host[near], minlength=len(self))
        resources = np.bincount(host[host >= 0], minlength=len(self))
        found = np.flatnonzero((last_ms != NEVER_MS) & (records >= np.clip(resources, RESOURCES_MIN, most)))
        began_ms = np.full(len(self), np.iinfo(np.int64).max)
        np.minimum.at(began_ms, host[near], fired_ms[near])
        self["judged_ms"][:] = np.maximum(self["judged_ms"], last_ms)
        self._odd(found, began_ms[found], last_ms[found], window_ms)
        return found

    def high(self, hosts: Rows, since_ms: npt.NDArray[np.int64], end_ms: npt.NDArray[np.int64], window_ms: int) -> Rows:
        """Note hosts (m,) whose score has been high for long, and return those of which that is new.

        `since_ms` (m,) is since when, and `end_ms` (m,) when the last minute ended that was scored.

        >>> suspects = Suspects()
        >>> suspects.grow(2)
        >>> one = np.array([1]), np.array([60_000]), np.array([660_000])
        >>> [suspects.high(*one, window_ms=0).tolist() for _ in range(2)], suspects["since_ms"][1]
        ([[1], []], np.int64(60000))
        """
        new = end_ms > self["odd_ms"][hosts]
        self._odd(hosts[new], since_ms[new], end_ms[new], window_ms)
        return hosts[new]

    def _odd(
        self, hosts: Rows, began_ms: npt.NDArray[np.int64], last_ms: npt.NDArray[np.int64], window_ms: int
    ) -> None:
        """Note that hosts are odd; what is close to what was odd before goes on from there."""
        goes_on = (self["odd_ms"][hosts] != NEVER_MS) & (began_ms - self["odd_ms"][hosts] <= window_ms)
        since_ms = np.minimum(self["since_ms"][hosts], began_ms)
        self["since_ms"][hosts] = np.where(goes_on, since_ms, began_ms)
        self["odd_ms"][hosts] = np.maximum(self["odd_ms"][hosts], last_ms)
