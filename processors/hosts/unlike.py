"""Hosts unlike their peers: the slow node of a job, and what runs on an idle host of a partition."""

import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.hosts.batch import MinuteBatch
from processors.hosts.columns import NEVER_MS, Rows, RowTable
from processors.models.detect.peers import Peers, unlike_peers

FRESH_MS: Final = 240_000  # a minute that began longer ago says nothing of now

_ROW: Final = np.dtype([("minute_ms", "<i8"), ("mean", "<f8"), ("since_ms", "<i8"), ("usual", "<f8")])


class UnlikeRules(NamedTuple):
    """What counts as unlike: robust deviations, and share of the peers' median, by which it has to be off.

    Where more than a share of the hosts of a group are unlike, it is a group of two kinds, and none of them is.

    >>> UnlikeRules().deviations
    6.0
    """

    deviations: float = 6.0
    difference: float = 0.15
    share_max: float = 0.1


class Difference(NamedTuple):
    """A resource of a host that is unlike those of its peers: since when, what it is and the peers' median.

    >>> Difference(0, 0.31, 0.98).usual
    0.98
    """

    since_ms: int
    observed: float
    usual: float


class Unlike(RowTable):
    """Each resource of a host against the same of its peers, minute by minute; a row is a series.

    >>> unlike = Unlike(re.compile("cpu"))
    >>> unlike.grow(8)
    >>> rows = np.arange(8)
    >>> cpu = np.where(rows == 3, 0.25, 0.75)
    >>> unlike.take(MinuteBatch(rows, rows, np.zeros(8, int), np.repeat(cpu[:, None], 6, axis=1)))
    >>> unlike.judge(60_000, ["cpu_available"] * 8, rows, np.zeros(8, int))
    >>> np.flatnonzero(unlike.since_ms >= 0).tolist(), unlike.difference(3)
    ([3], Difference(since_ms=60000, observed=0.25, usual=0.75))
    """

    name: ClassVar[str] = "host_peers"
    version: ClassVar[int] = 1

    def __init__(self, resources: re.Pattern[str], rules: UnlikeRules | None = None) -> None:
        self._resources = resources
        self._rules = rules or UnlikeRules()
        super().__init__(_ROW, minute_ms=NEVER_MS, since_ms=NEVER_MS)

    def take(self, batch: MinuteBatch) -> None:
        """Keep the mean of a minute of each resource."""
        there = np.isfinite(batch.means)
        count = there.sum(axis=1)
        at = np.flatnonzero((count > 0) & (batch.minute_ms >= self["minute_ms"][batch.row]))
        rows = batch.row[at]
        with np.errstate(over="ignore"):
            self["mean"][rows] = np.where(there, batch.means, 0.0)[at].sum(axis=1) / count[at]
        self["minute_ms"][rows] = batch.minute_ms[at]

    def judge(
        self, now_ms: int, names: Sequence[str], host: npt.NDArray[np.intp], group: npt.NDArray[np.int64]
    ) -> None:
        """Compare the newest minutes of all series.

        `names` are the resources of the rows and `host` (rows,) are their hosts (less than 0 for a row that is not in
        use); `group` (hosts,) numbers the peers of each host, less than 0 for none.
        """
        numbers: dict[str, int] = {}
        wanted = {name for name in set(names) if self._resources.search(name)}
        resource = np.array([numbers.setdefault(name, len(numbers)) if name in wanted else -1 for name in names], int)
        host, size = np.asarray(host), len(names)
        fresh = self["minute_ms"][:size] >= now_ms - FRESH_MS
        at = np.flatnonzero((resource >= 0) & (host >= 0) & fresh & (self["minute_ms"][:size] != NEVER_MS))
        at = at[group[host[at]] >= 0]
        together = group[host[at]] * (len(numbers) + 1) + resource[at]
        peers = unlike_peers(self["mean"][at], together)
        unlike = at[self._told(self["mean"][at], peers, together)]
        since_ms = self["since_ms"][unlike]
        self["usual"][at] = peers.usual
        self["since_ms"][:] = _since(len(self), unlike, np.where(since_ms == NEVER_MS, now_ms, since_ms))

    def _told(self, mean: npt.NDArray[np.float64], peers: Peers, group: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which are unlike; none of a group in which many are."""
        rules = self._rules
        far = np.abs(peers.deviations) >= rules.deviations
        with np.errstate(over="ignore", invalid="ignore"):
            far &= np.abs(mean - peers.usual) >= rules.difference * np.abs(peers.usual)
        if not far.any():
            return far
        of = np.unique(group, return_inverse=True)[1]
        many = np.bincount(of, far) > np.maximum(rules.share_max * np.bincount(of), 1.0)
        return np.asarray(far & ~many[of])

    @property
    def since_ms(self) -> npt.NDArray[np.int64]:
        """Since when each series is unlike its peers, (rows,); NEVER_MS where it is not."""
        return self["since_ms"]

    def difference(self, row: int) -> Difference | None:
        """Return how a series is unlike its peers; None where it is not."""
        since_ms = int(self["since_ms"][row])
        if since_ms == NEVER_MS:
            return None
        return Difference(since_ms, float(self["mean"][row]), float(self["usual"][row]))


def _since(rows: int, unlike: Rows, since_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    found = np.full(rows, NEVER_MS, np.int64)
    found[unlike] = since_ms
    return found
