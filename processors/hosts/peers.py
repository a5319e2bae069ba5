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
from processors.models.detect.multivariate import PEERS_MIN, GroupDeviations, compared_with_peers
from processors.models.numerics.arrays import Floats
from processors.windows.settings import MINUTE_MS

DAY_MS: Final = 86_400_000.0
POOL_MS: Final = DAY_MS  # of comparison of one host in which one spell is presumed, until more is known
OWN_RATE: Final = 0.5  # spells for which the rate of the others counts: hosts are calm or bursty, so little
OWN_LENGTH: Final = 2.0  # spells for which their length counts
SHAPE: Final = 4.0  # spells that the length presumed of all counts for
SHAPE_MAX: Final = 24.0  # spells that are ever relied on: real ones are not exponential to the end of their tail


class Spells(NamedTuple):
    """Of some series: how many spells ended, how long all of them were together, and for how long they were compared, in ms."""

    number: Floats
    length_ms: Floats
    compared_ms: Floats


def expected_per_day(spell_ms: Floats, own: Spells, others: Spells, usual_ms: float) -> Floats:
    """Return how many spells a day are to be expected of each series (m,) that last at least `spell_ms`.

    `usual_ms` is the mean length that is presumed before spells are known. What the spells tell of the length is uncertain, so the tail
    is that of the Lomax distribution, the predictive one of exponential lengths under a gamma prior.
    """
    pool_rate = (others.number + 1.0) / (others.compared_ms + POOL_MS)
    rate = (own.number + OWN_RATE) / (own.compared_ms + OWN_RATE / pool_rate)
    pool_ms = (others.length_ms + SHAPE * usual_ms) / (others.number + SHAPE)
    mean_ms = (own.length_ms + OWN_LENGTH * pool_ms) / (own.number + OWN_LENGTH)
    shape = np.minimum(SHAPE + own.number + others.number, SHAPE_MAX)
    return np.asarray(DAY_MS * rate * (1.0 + spell_ms / (shape * mean_ms)) ** -shape)


FRESH_MS: Final = 240_000  # a minute that began longer ago says nothing of now
LIKE: Final = 0.5  # of the difference that makes a host unlike: below it, it is as the others
LONGEST_MS: Final = 14_400_000  # a spell counts as this long at most: a fault says little of those that are none
COMPARED_MAX_MS: Final = 14 * 86_400_000  # beyond this of compared time, what is known of spells counts for half
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_PEER: Final = np.dtype(
    [("minute_ms", "<i8"), ("mean", "<f8"), ("since_ms", "<i8"), ("usual", "<f8"), ("observed", "<f8"), ("compared_ms", "<i8"),
     ("seen_ms", "<i8"), ("differing_ms", "<i8"), ("alike_ms", "<i8"), ("spells", "<f8"), ("spells_ms", "<f8"),
     ("compared_for_ms", "<f8"), ("known", "u1")]
)  # fmt: skip


class PeerRules(NamedTuple):
    """What counts as unlike, for how long it has to be so, and what ends it.

    `deviations` are robust ones, `difference` is the share of the peers' median by which a host has to be off as well.
    Where more than `share_max` of a group are unlike, it is a group of two kinds, and none of them is.
    What was so for `for_ms` of compared time, and for so long that of all hosts together no more than `false_per_day` such spells a
    day are to be expected, is known. Spells are presumed to last `usual_ms` until they are known. It ends when the host was
    compared for `clear_ms` and was as the others, or could not be compared for `keep_ms`.
    """

    deviations: float = 6.0
    difference: float = 0.15
    share_max: float = 0.1
    for_ms: int = 300_000
    clear_ms: int = 1_800_000
    keep_ms: int = 7 * 86_400_000
    usual_ms: int = 600_000
    false_per_day: float = 0.05


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
    compared; `known` where that was long enough. It had `spells` before, that lasted `spells_ms` in all, in the `compared_for_ms` for
    which it was compared.
    """

    name: ClassVar[str] = "host_peers"
    version: ClassVar[int] = 3

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
        self._know(resource)
        self._end_known(now_ms)

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
        rows = self.rows
        far, near = at[found.differing], at[found.like]
        compared = at[found.compared]
        rows["compared_ms"][compared], rows["seen_ms"][far] = now_ms, now_ms
        rows["compared_for_ms"][compared] += MINUTE_MS
        rows["since_ms"][far] = np.where(rows["since_ms"][far] == NEVER_MS, now_ms, rows["since_ms"][far])
        rows["differing_ms"][far] += MINUTE_MS
        rows["observed"][far], rows["usual"][far] = rows["mean"][far], usual[found.differing]
        rows["alike_ms"][far] = 0
        rows["alike_ms"][near] += MINUTE_MS
        self._end(near[rows["known"][near] == 0])  # what is between alike and different ends nothing
        self._fade(compared)

    def _know(self, resource: Ints) -> None:
        """Note which series are unlike their peers for longer than is to be expected of them; `resource` numbers those of the rows."""
        rows, rules = self.rows[: len(resource)], self._rules
        at = np.flatnonzero((resource >= 0) & (rows["known"] == 0) & (rows["differing_ms"] >= rules.for_ms))
        if not at.size:
            return
        use = np.flatnonzero((resource >= 0) & (rows["compared_for_ms"] > 0))
        going_on_ms = np.where(rows["known"] == 0, rows["differing_ms"], 0)
        own = Spells(rows["spells"], rows["spells_ms"], rows["compared_for_ms"])
        pool = (own.number, own.length_ms + going_on_ms, own.compared_ms)
        totals = [np.bincount(resource[use], each[use])[resource[at]] - each[at] for each in pool]
        spell_ms, mine = rows["differing_ms"][at].astype(np.float64), Spells(*(each[at] for each in own))
        expected = expected_per_day(spell_ms, mine, Spells(*totals), rules.usual_ms)
        hosts = np.bincount(resource[use])[resource[at]]
        rows["known"][at] = expected * hosts <= rules.false_per_day

    def _end_known(self, now_ms: int) -> None:
        rows, rules = self.rows, self._rules
        over = (rows["alike_ms"] >= rules.clear_ms) | (rows["compared_ms"] < now_ms - rules.keep_ms)
        self._end(np.flatnonzero((rows["known"] != 0) & over))

    def _end(self, at: Ints) -> None:
        """End spells, and count them and their time."""
        rows = self.rows
        rows["spells"][at] += rows["differing_ms"][at] > 0
        rows["spells_ms"][at] += np.minimum(rows["differing_ms"][at], LONGEST_MS)
        rows["since_ms"][at], rows["differing_ms"][at], rows["alike_ms"][at], rows["known"][at] = NEVER_MS, 0, 0, 0

    def _fade(self, at: Ints) -> None:
        """Let what is known of spells count for half where it is of a long time: hosts get other work."""
        rows = self.rows
        long = at[rows["compared_for_ms"][at] > COMPARED_MAX_MS]
        for name in ("spells", "spells_ms", "compared_for_ms"):
            rows[name][long] /= 2.0

    def _peer_comparison(self, mean: Floats, peers: GroupDeviations, group: Ints) -> Compared:
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
