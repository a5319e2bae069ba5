"""Comparison of hosts that do the same work: a host that differs stays marked until a later comparison finds it normal.

After the end of a job, the next group of hosts may not show the difference. A finding is therefore kept over jobs and idle
times. The finding ends only after enough minutes in which the host was compared and agreed with its peers.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.contracts.alerts import PeerDifference
from processors.contracts.hosts import HostCause
from processors.hosts.rows import NEVER_MS, Rows, RowTable
from processors.hosts.windows import MinuteBatch
from processors.models.detect.multivariate import PEERS_MIN, GroupDeviations, compared_with_peers
from processors.models.numerics.arrays import Bools, Floats, Ints
from processors.windows.settings import MINUTE_MS

DAY_MS: Final = 86_400_000.0
POOL_MS: Final = DAY_MS  # prior: one spell of difference per day of comparison of a host
# weight of the other hosts' rate of spells, in spells; small because the rates of hosts vary widely
OWN_RATE: Final = 0.5
OWN_LENGTH: Final = 2.0  # weight of the length of other hosts' spells, in spells
SHAPE: Final = 4.0  # weight of the prior length, in spells
SHAPE_MAX: Final = 24.0  # largest shape, because real lengths are not exponential far out in the tail


class Spells(NamedTuple):
    """The past spells of k series; a spell is a period in which a series differs from its peers.

    `number` and `length_ms` are the number and the total length of spells, `compared_ms` is the total time of comparison.
    """

    number: Floats
    length_ms: Floats
    compared_ms: Floats


def expected_per_day(spell_ms: Floats, own: Spells, others: Spells, usual_ms: float) -> Floats:
    """Return for each of m series the expected number of spells per day that last at least `spell_ms`.

    `own` are the spells of the series itself, `others` those of the same resource on all other hosts, `usual_ms` is the prior mean
    length of a spell. The learned mean length is uncertain, so the tail is a Lomax distribution: the predictive distribution of
    exponential lengths under a gamma prior.
    """
    pool_rate = (others.number + 1.0) / (others.compared_ms + POOL_MS)
    rate = (own.number + OWN_RATE) / (own.compared_ms + OWN_RATE / pool_rate)
    pool_ms = (others.length_ms + SHAPE * usual_ms) / (others.number + SHAPE)
    mean_ms = (own.length_ms + OWN_LENGTH * pool_ms) / (own.number + OWN_LENGTH)
    shape = np.minimum(SHAPE + own.number + others.number, SHAPE_MAX)
    return np.asarray(DAY_MS * rate * (1.0 + spell_ms / (shape * mean_ms)) ** -shape)


FRESH_MS: Final = 240_000  # an older minute is not compared
LIKE: Final = 0.5  # a host is like its peers below this share of the required difference
# longer spells count with this length, because a long fault says little about the length of ordinary spells
LONGEST_MS: Final = 14_400_000
COMPARED_MAX_MS: Final = 14 * 86_400_000  # compared time after which the counts of spells are halved

_PEER: Final = np.dtype(
    [("minute_ms", "<i8"), ("mean", "<f8"), ("since_ms", "<i8"), ("usual", "<f8"), ("observed", "<f8"), ("compared_ms", "<i8"),
     ("seen_ms", "<i8"), ("differing_ms", "<i8"), ("alike_ms", "<i8"), ("spells", "<f8"), ("spells_ms", "<f8"),
     ("compared_for_ms", "<f8"), ("known", "u1")]
)  # fmt: skip


Masks = tuple[Bools, Bools, Bools]
"""Masks of values (m,): different from the peers, similar to the peers, and compared with peers at all."""


class Difference(NamedTuple):
    """The difference of a host's resource from its peers: start time, value, and median of the peers."""

    since_ms: int
    observed: float
    usual: float


class PeerComparison(RowTable):
    """Compares each resource of each host with its peers, minute by minute; a row is a series.

    A host differs if its distance from the median of its peers exceeds `deviations` robust standard deviations and a
    share `difference` of the median. If more than `share_max` of a group differ, the group mixes two kinds of work, and
    no host of the group counts as different. A difference becomes a finding after `for_s` of comparison, once at most
    `false_per_day` spells of this length are expected per day on all hosts together. The finding ends after `clear_s`
    of comparison without a difference, or if the host could not be compared for `keep_firing_s`.

    `since_ms` is the start of the present spell, NEVER_MS without a spell, and `differing_ms` the time in this spell during which
    the series differed; `known` is 1 if the spell is a finding. `spells` and `spells_ms` are number and total length of the ended
    spells, `compared_for_ms` is the total time of comparison.
    """

    name: ClassVar[str] = "host_peers"
    version: ClassVar[int] = 3

    def __init__(self, settings: PeerDifference | None = None) -> None:
        self._settings = settings or PeerDifference()
        self._resources = re.compile(self._settings.resources)
        super().__init__(_PEER, minute_ms=NEVER_MS, since_ms=NEVER_MS, compared_ms=NEVER_MS, seen_ms=NEVER_MS)

    def take(self, batch: MinuteBatch) -> None:
        """Store the mean of the last reported minute of each resource."""
        measured = np.isfinite(batch.means)
        count = measured.sum(axis=1)
        chosen = np.flatnonzero((count > 0) & (batch.minute_ms >= self.rows["minute_ms"][batch.row]))
        rows = batch.row[chosen]
        with np.errstate(over="ignore"):
            self.rows["mean"][rows] = np.where(measured, batch.means, 0.0)[chosen].sum(axis=1) / count[chosen]
        self.rows["minute_ms"][rows] = batch.minute_ms[chosen]

    def judge(self, now_ms: int, names: Sequence[str], host: npt.NDArray[np.intp], group: Ints) -> None:
        """Compare the newest minute of every series with its peers.

        `names` are the resources and `host` (rows,) the hosts of the rows, negative for unused rows. `group` (hosts,) is the number of
        the group of hosts whose members are peers, negative for hosts without peers.
        """
        numbers: dict[str, int] = {}
        relevant = {name for name in set(names) if self._resources.search(name)}
        resource = np.array([numbers.setdefault(name, len(numbers)) if name in relevant else -1 for name in names], int)
        host, size = np.asarray(host), len(names)
        fresh = self.rows["minute_ms"][:size] >= now_ms - FRESH_MS
        chosen = np.flatnonzero((resource >= 0) & (host >= 0) & fresh & (self.rows["minute_ms"][:size] != NEVER_MS))
        chosen = chosen[group[host[chosen]] >= 0]
        joint = group[host[chosen]] * (len(numbers) + 1) + resource[chosen]
        peers = compared_with_peers(self.rows["mean"][chosen], joint)
        self._note(chosen, peers.usual, self._peer_comparison(self.rows["mean"][chosen], peers, joint), now_ms)
        self._know(resource)
        self._end_known(now_ms)

    def difference(self, row: int) -> Difference | None:
        """Return the present finding about a series; None if no difference has lasted long enough for a finding."""
        spell = self.rows[row]
        if not spell["known"]:
            return None
        return Difference(int(spell["since_ms"]), float(spell["observed"]), float(spell["usual"]))

    def differing_now(self, now_ms: int) -> Bools:
        """Return a mask of the series (rows,) that have a finding and also differ in the comparison at `now_ms`."""
        rows = self.rows
        return np.asarray((rows["known"] != 0) & (rows["seen_ms"] == now_ms))

    def _note(self, series: Ints, usual: Floats, masks: Masks, now_ms: int) -> None:
        rows = self.rows
        far, near, compared = (series[mask] for mask in masks)
        rows["compared_ms"][compared], rows["seen_ms"][far] = now_ms, now_ms
        rows["compared_for_ms"][compared] += MINUTE_MS
        rows["since_ms"][far] = np.where(rows["since_ms"][far] == NEVER_MS, now_ms, rows["since_ms"][far])
        rows["differing_ms"][far] += MINUTE_MS
        rows["observed"][far], rows["usual"][far] = rows["mean"][far], usual[masks[0]]
        rows["alike_ms"][far] = 0
        rows["alike_ms"][near] += MINUTE_MS
        # a value between similar and different does not end a known spell
        self._end(near[rows["known"][near] == 0])
        self._fade(compared)

    def _know(self, resource: Ints) -> None:
        """Turn spells that are long enough into findings (`known`); `resource` (rows,) numbers the resource of each row."""
        rows, settings = self.rows[: len(resource)], self._settings
        long = np.flatnonzero((resource >= 0) & (rows["known"] == 0) & (rows["differing_ms"] >= 1000 * settings.for_s))
        if not long.size:
            return
        use = np.flatnonzero((resource >= 0) & (rows["compared_for_ms"] > 0))
        going_on_ms = np.where(rows["known"] == 0, rows["differing_ms"], 0)
        spells = Spells(rows["spells"], rows["spells_ms"], rows["compared_for_ms"])
        pool = (spells.number, spells.length_ms + going_on_ms, spells.compared_ms)
        totals = [np.bincount(resource[use], each[use])[resource[long]] - each[long] for each in pool]
        spell_ms, mine = rows["differing_ms"][long].astype(np.float64), Spells(*(each[long] for each in spells))
        expected = expected_per_day(spell_ms, mine, Spells(*totals), 1000 * settings.usual_s)
        hosts = np.bincount(resource[use])[resource[long]]
        rows["known"][long] = expected * hosts <= settings.false_per_day

    def _end_known(self, now_ms: int) -> None:
        rows, settings = self.rows, self._settings
        quiet_ms = now_ms - 1000 * settings.keep_firing_s
        over = (rows["alike_ms"] >= 1000 * settings.clear_s) | (rows["compared_ms"] < quiet_ms)
        self._end(np.flatnonzero((rows["known"] != 0) & over))

    def _end(self, ended: Ints) -> None:
        """End the spells of the rows `ended`, and add the number and the length of these spells to the counts of the rows."""
        rows = self.rows
        rows["spells"][ended] += rows["differing_ms"][ended] > 0
        rows["spells_ms"][ended] += np.minimum(rows["differing_ms"][ended], LONGEST_MS)
        rows["since_ms"][ended] = NEVER_MS
        for name in ("differing_ms", "alike_ms", "known"):
            rows[name][ended] = 0

    def _fade(self, series: Ints) -> None:
        """Halve the counts of spells of each series compared for more than COMPARED_MAX_MS, because the work of hosts changes."""
        rows = self.rows
        long = series[rows["compared_for_ms"][series] > COMPARED_MAX_MS]
        for name in ("spells", "spells_ms", "compared_for_ms"):
            rows[name][long] /= 2.0

    def _peer_comparison(self, mean: Floats, peers: GroupDeviations, group: Ints) -> Masks:
        """Compare the values `mean` (m,) with their peers; no value of a group counts as compared if many values of the group differ."""
        settings, compared = self._settings, peers.peers >= PEERS_MIN
        far = np.abs(peers.deviations) >= settings.deviations
        with np.errstate(over="ignore", invalid="ignore"):
            off, margin = np.abs(mean - peers.usual), settings.difference * np.abs(peers.usual)
            far &= off >= margin
            near = compared & (off < LIKE * margin)
        if not far.any():
            return far, np.asarray(near), np.asarray(compared)
        of = np.unique(group, return_inverse=True)[1]
        many = np.bincount(of, far) > np.maximum(settings.share_max * np.bincount(of), 1.0)
        one_kind = ~many[of]
        return far & one_kind, np.asarray(near & one_kind), np.asarray(compared & one_kind)


# share of a host's anomalous resources that must still be outside their ranges for the host to stay anomalous
STILL_SHARE: Final = 0.5
_LEVEL: Final = np.dtype([("since_ms", "<i8"), ("low", "<f8"), ("high", "<f8")])
_CAUSE: Final = np.dtype(
    [("odd_ms", "<i8"), ("differing_ms", "<i8"), ("from_ms", "<i8"), ("until_ms", "<i8"), ("job", "<u8"), ("jobs", "<u4"),
     ("power_only", "u1")]
)  # fmt: skip


class HostLevels(RowTable):
    """The range of each resource before its host became anomalous; a row is a series. A normal series has no `since_ms`.

    Detectors learn the new level within minutes; the stored range does not change.
    """

    name: ClassVar[str] = "host_levels"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(_LEVEL, since_ms=NEVER_MS)

    def keep(self, row: int, since_ms: int, low: float, high: float) -> None:
        """Store the range `low` to `high` of a resource before the anomaly, unless a range is already stored."""
        if self.rows["since_ms"][row] == NEVER_MS:
            self.rows[row] = since_ms, low, high

    def since_ms(self, row: int) -> int | None:
        """Return the start of the anomaly for which a range is stored; None without a stored range."""
        since_ms = int(self.rows["since_ms"][row])
        return None if since_ms == NEVER_MS else since_ms

    def known(self, host: npt.NDArray[np.int64]) -> Rows:
        """Return the hosts with a stored range; `host` (rows,) is the host of each series."""
        retained = (self.rows["since_ms"][: len(host)] != NEVER_MS) & (host >= 0)
        return np.asarray(np.unique(host[retained]))

    def still_odd(self, mean: npt.NDArray[np.float64], host: npt.NDArray[np.int64]) -> Rows:
        """Return the hosts with enough resources still outside their stored ranges.

        `mean` (rows,) holds the newest minute of each series, nan if too old, and `host` (rows,) the host of each series.
        """
        retained = np.flatnonzero((self.rows["since_ms"][: len(host)] != NEVER_MS) & (host >= 0))
        if not retained.size:
            return retained
        outside = (mean[retained] < self.rows["low"][retained]) | (mean[retained] > self.rows["high"][retained])
        hosts, place = np.unique(host[retained], return_inverse=True)
        share = np.bincount(place, outside) / np.bincount(place)
        return np.asarray(hosts[share >= STILL_SHARE])


class HostCauses(RowTable):
    """The faults of each host; a row is a host.

    `odd_ms` is the time since which the host behaves unlike before, `differing_ms` the time since which it differs from its peers;
    NEVER_MS if it does not. The newest fault lasted from `from_ms` to `until_ms`. `jobs` counts the affected jobs, and `job` is the
    digest of the newest affected job.
    """

    name: ClassVar[str] = "host_causes"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(_CAUSE, odd_ms=NEVER_MS, differing_ms=NEVER_MS, from_ms=NEVER_MS, until_ms=NEVER_MS)

    def any(self) -> bool:
        """Return whether any host has a remembered fault."""
        return bool((self.rows["from_ms"] != NEVER_MS).any())

    def begin(self, row: int, field: str, since_ms: int, now_ms: int, *, power_only: bool = False) -> None:
        """Record a fault of a host since `since_ms`; `field` is odd_ms or differing_ms."""
        if not self._going_on(row):
            self.rows[row] = NEVER_MS, NEVER_MS, since_ms, now_ms, 0, 0, power_only
        if self.rows[field][row] == NEVER_MS:
            self.rows[field][row] = since_ms
        self.rows["from_ms"][row] = min(since_ms, int(self.rows["from_ms"][row]))
        self.rows["until_ms"][row] = now_ms
        self.rows["power_only"][row] &= power_only

    def met(self, row: int, job: int) -> int:
        """Count a job on a faulty host, unless it was the last one counted; return the number of jobs affected by the fault.

        `job` is the digest of the job.
        """
        if self.rows["job"][row] != job:
            self.rows["job"][row] = job
            self.rows["jobs"][row] += 1
        return int(self.rows["jobs"][row])

    def end(self, rows: Rows, field: str) -> None:
        """Record that a fault of hosts has ended."""
        self.rows[field][rows] = NEVER_MS

    def explains(self, row: int, host: str, start_ms: int, end_ms: int) -> HostCause | None:
        """Return the fault of a host that overlaps the run from `start_ms` to `end_ms`; None without such a fault."""
        fault = self.rows[row]
        if fault["from_ms"] == NEVER_MS or fault["from_ms"] > end_ms:
            return None
        # a fault without an end also counts while the host cannot be compared
        if fault["until_ms"] < start_ms and not self._going_on(row):
            return None
        return HostCause(host, int(fault["from_ms"]), int(fault["until_ms"]), bool(fault["power_only"]))

    def _going_on(self, row: int) -> bool:
        fault = self.rows[row]
        return bool(fault["odd_ms"] != NEVER_MS or fault["differing_ms"] != NEVER_MS)
