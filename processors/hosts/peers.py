"""Hosts that do the same work, compared: one that is unlike the others stays so until it was seen to be like them again.

A job ends, and the next host group may say nothing of a host. So what was found once is kept over jobs and idle times: it
ends by minutes in which the host was compared and is as the others, not by silence.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.hosts.rows import NEVER_MS, RowTable
from processors.hosts.windows import MinuteBatch
from processors.models.detect.multivariate import PEERS_MIN, Peers, compared_with_peers
from processors.windows.settings import MINUTE_MS

FRESH_MS: Final = 240_000  # a minute that began longer ago says nothing of now
LIKE: Final = 0.5  # of the difference that makes a host unlike: below it, it is as the others
LONGER: Final = 1.5  # times its longest spell so far: bursts of load on shared nodes come again and end
LONGEST_MS: Final = 7_200_000  # a spell counts as this long at most, so that none waits for more than three hours
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_PEER: Final = np.dtype(
    [("minute_ms", "<i8"), ("mean", "<f8"), ("since_ms", "<i8"), ("usual", "<f8"), ("observed", "<f8"), ("compared_ms", "<i8"),
     ("seen_ms", "<i8"), ("differing_ms", "<i8"), ("alike_ms", "<i8"), ("longest_ms", "<i8"), ("known", "u1")]
)  # fmt: skip


class PeerRules(NamedTuple):
    """What counts as unlike, for how long it has to be so, and what ends it.

    `deviations` are robust ones, `difference` is the share of the peers' median by which a host has to be off as well.
    Where more than `share_max` of a group are unlike, it is a group of two kinds, and none of them is.
    What was so for `for_ms` of compared time, and for longer than ever before by LONGER, is known. It ends when the host
    was compared for `clear_ms` and was as the others, or could not be compared for `keep_ms`.
    """

    deviations: float = 6.0
    difference: float = 0.15
    share_max: float = 0.1
    for_ms: int = 300_000
    clear_ms: int = 1_800_000
    keep_ms: int = 7 * 86_400_000


class Compared(NamedTuple):
    """Which values (m,) are unlike those of their peers, which are like them, and which could be compared at all."""

    differing: Bools
    like: Bools
    compared: Bools


class Difference(NamedTuple):
    """A resource of a host that is unlike those of its peers: since when, what it was and the peers' median."""

    since_ms: int
    observed: float
    usual: float


class PeerComparison(RowTable):
    """Each resource of a host against the same of its peers, minute by minute; a row is a series.

    `since_ms` is since when it is unlike them, NEVER_MS where it is not, `differing_ms` for how long of the time in which it was
    compared; `known` where that was long enough. `longest_ms` is the longest spell before.
    """

    name: ClassVar[str] = "host_peers"
    version: ClassVar[int] = 2

    def __init__(self, resources: re.Pattern[str], rules: PeerRules | None = None) -> None:
        self._resources = resources
        self._rules = rules or PeerRules()
        super().__init__(_PEER, minute_ms=NEVER_MS, since_ms=NEVER_MS, compared_ms=NEVER_MS, seen_ms=NEVER_MS)

    def take(self, batch: MinuteBatch) -> None:
        """Keep the mean of a minute of each resource."""
        there = np.isfinite(batch.means)
        count = there.sum(axis=1)
        at = np.flatnonzero((count > 0) & (batch.minute_ms >= self.rows["minute_ms"][batch.row]))
        rows = batch.row[at]
        with np.errstate(over="ignore"):
            self.rows["mean"][rows] = np.where(there, batch.means, 0.0)[at].sum(axis=1) / count[at]
        self.rows["minute_ms"][rows] = batch.minute_ms[at]

    def judge(self, now_ms: int, names: Sequence[str], host: npt.NDArray[np.intp], group: Ints) -> None:
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
        joint = group[host[at]] * (len(numbers) + 1) + resource[at]
        peers = compared_with_peers(self.rows["mean"][at], joint)
        self._note(at, peers.usual, self._peer_comparison(self.rows["mean"][at], peers, joint), now_ms)

    def difference(self, row: int) -> Difference | None:
        """Return how a series is known to be unlike its peers; None where it is not."""
        one = self.rows[row]
        if not one["known"]:
            return None
        return Difference(int(one["since_ms"]), float(one["observed"]), float(one["usual"]))

    def differing_now(self, now_ms: int) -> Bools:
        """Return which series (rows,) are known to be unlike their peers, and were seen to be so in this minute."""
        rows = self.rows
        return np.asarray((rows["known"] != 0) & (rows["seen_ms"] == now_ms))

    def _note(self, at: Ints, usual: Floats, found: Compared, now_ms: int) -> None:
        rows, rules = self.rows, self._rules
        far, near, other = at[found.differing], at[found.like], at[found.compared & ~found.differing]
        rows["compared_ms"][at[found.compared]], rows["seen_ms"][far] = now_ms, now_ms
        rows["since_ms"][far] = np.where(rows["since_ms"][far] == NEVER_MS, now_ms, rows["since_ms"][far])
        rows["differing_ms"][far] += MINUTE_MS
        needed_ms = np.maximum(rules.for_ms, LONGER * rows["longest_ms"][far])
        rows["known"][far] |= rows["differing_ms"][far] >= needed_ms
        rows["observed"][far], rows["usual"][far] = rows["mean"][far], usual[found.differing]
        rows["alike_ms"][far] = 0
        rows["alike_ms"][near] += MINUTE_MS
        self._end(other[rows["known"][other] == 0])
        known = rows["known"] != 0
        over = (rows["alike_ms"] >= rules.clear_ms) | (rows["compared_ms"] < now_ms - rules.keep_ms)
        self._end(np.flatnonzero(known & over))

    def _end(self, at: Ints) -> None:
        """End spells, and remember how long they were."""
        rows = self.rows
        rows["longest_ms"][at] = np.maximum(rows["longest_ms"][at], np.minimum(rows["differing_ms"][at], LONGEST_MS))
        rows["since_ms"][at], rows["differing_ms"][at], rows["alike_ms"][at], rows["known"][at] = NEVER_MS, 0, 0, 0

    def _peer_comparison(self, mean: Floats, peers: Peers, group: Ints) -> Compared:
        """Return which are unlike the others, like them, and compared; nothing is said of a group in which many are differing."""
        rules, compared = self._rules, peers.peers >= PEERS_MIN
        far = np.abs(peers.deviations) >= rules.deviations
        with np.errstate(over="ignore", invalid="ignore"):
            off, margin = np.abs(mean - peers.usual), rules.difference * np.abs(peers.usual)
            far &= off >= margin
            near = compared & (off < LIKE * margin)
        if not far.any():
            return Compared(far, np.asarray(near), np.asarray(compared))
        of = np.unique(group, return_inverse=True)[1]
        many = np.bincount(of, far) > np.maximum(rules.share_max * np.bincount(of), 1.0)
        one_kind = ~many[of]
        return Compared(far & one_kind, np.asarray(near & one_kind), np.asarray(compared & one_kind))
