"""What was never seen before of each resource of each host: the record rule over its 10-second means."""

import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.hosts.rows import NEVER_MS, Rows, RowTable
from processors.hosts.windows import MinuteBatch
from processors.models.detect.multivariate import Peers, unlike_peers
from processors.models.detect.record import WAYS, RecordRule, RecordStep
from processors.windows.settings import PART_MS

# Hosts unlike their peers: the slow node of a job, and what runs on an idle host of a partition.


FRESH_MS: Final = 240_000  # a minute that began longer ago says nothing of now

_ROW: Final = np.dtype([("minute_ms", "<i8"), ("mean", "<f8"), ("since_ms", "<i8"), ("usual", "<f8")])


class UnlikeRules(NamedTuple):
    """What counts as unlike: robust deviations, and share of the peers' median, by which it has to be off.

    Where more than a share of the hosts of a group are unlike, it is a group of two kinds, and none of them is.
    """

    deviations: float = 6.0
    difference: float = 0.15
    share_max: float = 0.1


class Difference(NamedTuple):
    """A resource of a host that is unlike those of its peers: since when, what it is and the peers' median."""

    since_ms: int
    observed: float
    usual: float


class Unlike(RowTable):
    """Each resource of a host against the same of its peers, minute by minute; a row is a series."""

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
        at = np.flatnonzero((count > 0) & (batch.minute_ms >= self.rows["minute_ms"][batch.row]))
        rows = batch.row[at]
        with np.errstate(over="ignore"):
            self.rows["mean"][rows] = np.where(there, batch.means, 0.0)[at].sum(axis=1) / count[at]
        self.rows["minute_ms"][rows] = batch.minute_ms[at]

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
        fresh = self.rows["minute_ms"][:size] >= now_ms - FRESH_MS
        at = np.flatnonzero((resource >= 0) & (host >= 0) & fresh & (self.rows["minute_ms"][:size] != NEVER_MS))
        at = at[group[host[at]] >= 0]
        together = group[host[at]] * (len(numbers) + 1) + resource[at]
        peers = unlike_peers(self.rows["mean"][at], together)
        unlike = at[self._told(self.rows["mean"][at], peers, together)]
        since_ms = self.rows["since_ms"][unlike]
        self.rows["usual"][at] = peers.usual
        self.rows["since_ms"][:] = _since(len(self), unlike, np.where(since_ms == NEVER_MS, now_ms, since_ms))

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
        return self.rows["since_ms"]

    def difference(self, row: int) -> Difference | None:
        """Return how a series is unlike its peers; None where it is not."""
        since_ms = int(self.rows["since_ms"][row])
        if since_ms == NEVER_MS:
            return None
        return Difference(since_ms, float(self.rows["mean"][row]), float(self.rows["usual"][row]))


def _since(rows: int, unlike: Rows, since_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    found = np.full(rows, NEVER_MS, np.int64)
    found[unlike] = since_ms
    return found


# Which hosts have an anomaly, and since when: what the alerts about hosts rest on, a row per host.


RESOURCES_MIN: Final = 2  # records of a host with one resource say nothing

_HOST: Final = np.dtype(
    [("first_ms", "<i8"), ("judged_ms", "<i8"), ("odd_ms", "<i8"), ("since_ms", "<i8"), ("news_ms", "<i8"),
     ("told_ms", "<i8"), ("hushed_ms", "<i8"), ("muted", "u1")]
)  # fmt: skip


class Suspects(RowTable):
    """When each host was first seen, was last odd, has news that were not told, was told of, and may not be told of."""

    name: ClassVar[str] = "host_suspects"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        times = dict.fromkeys((_HOST.names or ())[:-1], NEVER_MS)
        super().__init__(_HOST, **times)

    def seen(self, host: Rows, minute_ms: npt.NDArray[np.int64]) -> None:
        """Note a minute of each of these hosts (m,)."""
        new = self.rows["first_ms"][host] == NEVER_MS
        self.rows["first_ms"][host[new]] = minute_ms[new]

    def close(self, fired_ms: npt.NDArray[np.int64], host: Rows, window_ms: int, most: int) -> Rows:
        """Return hosts of which new records came close together, at least `most` or of all their resources.

        `fired_ms` (rows,) is the last record of each series and `host` (rows,) is its host, less than 0 for none.
        """
        mine = np.flatnonzero((host >= 0) & (fired_ms != NEVER_MS))
        new = mine[fired_ms[mine] > self.rows["judged_ms"][host[mine]]]
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
        self.rows["judged_ms"][:] = np.maximum(self.rows["judged_ms"], last_ms)
        self._odd(found, began_ms[found], last_ms[found], window_ms)
        return found

    def high(self, hosts: Rows, since_ms: npt.NDArray[np.int64], end_ms: npt.NDArray[np.int64], window_ms: int) -> Rows:
        """Note hosts (m,) whose score has been high for long, and return those of which that is new.

        `since_ms` (m,) is since when, and `end_ms` (m,) when the last minute ended that was scored.
        """
        new = end_ms > self.rows["odd_ms"][hosts]
        self._odd(hosts[new], since_ms[new], end_ms[new], window_ms)
        return hosts[new]

    def _odd(
        self, hosts: Rows, began_ms: npt.NDArray[np.int64], last_ms: npt.NDArray[np.int64], window_ms: int
    ) -> None:
        """Note that hosts are odd; what is close to what was odd before goes on from there."""
        goes_on = (self.rows["odd_ms"][hosts] != NEVER_MS) & (began_ms - self.rows["odd_ms"][hosts] <= window_ms)
        since_ms = np.minimum(self.rows["since_ms"][hosts], began_ms)
        self.rows["since_ms"][hosts] = np.where(goes_on, since_ms, began_ms)
        self.rows["odd_ms"][hosts] = np.maximum(self.rows["odd_ms"][hosts], last_ms)


SWARM_MS: Final = 3_600_000  # a record that comes within this of the one before belongs to it

_MARK: Final = np.dtype(
    [("fired_ms", "<i8"), ("since_ms", "<i8"), ("observed", "<f8"), ("low", "<f8"), ("high", "<f8"),
     ("score", "<f4"), ("way", "u1")]
)  # fmt: skip


class Mark(NamedTuple):
    """The last record of a series: what was measured, the usual range, and when it came.

    `since_ms` is the first of those that came close together with it; `way` is the question that was answered strangely:
    value, step or hour.
    """

    since_ms: int
    fired_ms: int
    observed: float
    low: float
    high: float
    way: str


class Records:
    """The record rule of all series; a row is one."""

    name: ClassVar[str] = "host_records"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        self._rule = RecordRule()
        self._marks = RowTable(_MARK, fired_ms=NEVER_MS, since_ms=NEVER_MS)

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        self._rule.grow(rows)
        self._marks.grow(rows)

    def clear(self, rows: Rows) -> None:
        """Let some rows start anew."""
        self._rule.clear(rows)
        self._marks.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows."""
        return self._marks.stored(first, last) + self._rule.stored(first, last)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where the bytes are of another form."""
        marks = (last - first) * _MARK.itemsize
        self._rule.restore(first, last, stored[marks:])
        self._marks.restore(first, last, stored[:marks])

    def take(self, batch: MinuteBatch) -> None:
        """Judge the 10-second means of a minute, one after the other, and learn each."""
        for k, means in enumerate(batch.means.T):
            at = np.flatnonzero(np.isfinite(means))
            if at.size:
                rows, time_ms = batch.row[at], batch.minute_ms[at] + k * PART_MS
                self._note(rows, means[at], time_ms, self._rule.step(rows, means[at], time_ms))

    def _note(
        self, rows: Rows, value: npt.NDArray[np.float64], time_ms: npt.NDArray[np.int64], step: RecordStep
    ) -> None:
        marks = self._marks
        marks.rows["score"][rows] = step.score
        fired = np.flatnonzero(step.fired)
        at, when_ms = rows[fired], time_ms[fired]
        before_ms = marks.rows["fired_ms"][at]
        apart = (before_ms == NEVER_MS) | (when_ms - before_ms > SWARM_MS)
        marks.rows["since_ms"][at] = np.where(apart, when_ms, marks.rows["since_ms"][at])
        marks.rows["fired_ms"][at] = when_ms
        marks.rows["observed"][at], marks.rows["way"][at] = value[fired], step.way[fired]
        marks.rows["low"][at], marks.rows["high"][at] = step.low[fired], step.high[fired]

    @property
    def fired_ms(self) -> npt.NDArray[np.int64]:
        """When the last record came of each series, (rows,); NEVER_MS where there was none."""
        return self._marks.rows["fired_ms"]

    def mark(self, row: int) -> Mark | None:
        """Return the last record of a series; None where there was none."""
        one = {name: self._marks.rows[name][row].item() for name in ("since_ms", "fired_ms", "observed", "low", "high")}
        return None if one["fired_ms"] == NEVER_MS else Mark(**one, way=WAYS[int(self._marks.rows["way"][row])])

    def score(self, row: int) -> float:
        """Return the score of the last value of a series, from 0 to 1."""
        return float(self._marks.rows["score"][row])
