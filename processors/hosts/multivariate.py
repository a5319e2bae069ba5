"""All resources of each host together: what does not go with the others, minute by minute.

A fault that people should know of lasts for minutes, and the usual level is remembered by steps: so a step is a minute,
by the mean of each resource in it. Resources of a host may come from several sources, each in its own time: a minute is held until the next one of the host
comes, or until it ended `WAIT_MS` ago, and scored as a whole then.
"""

from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.hosts.rows import NEVER_MS, Rows, RowTable
from processors.hosts.windows import MinuteBatch
from processors.models.detect.multivariate import RESOURCES_MAX, CombinedRule, CombinedSettings
from processors.models.detect.record import MARK_BYTES, Column, Table
from processors.windows.settings import MINUTE_MS, PARTS

# Hosts in groups by how many resources they have: each group has one rule, and costs what its hosts need.


class Group:
    """Hosts of as many resources: their rule, and the 10-second means of the minute that is held."""

    def __init__(self, resources: int, settings: CombinedSettings | None) -> None:
        self.rule = CombinedRule(resources, settings)
        self.held = Table({"held": Column((resources, PARTS), "float64", np.nan)})
        self.free: list[int] = []

    @property
    def host_bytes(self) -> int:
        """What a host takes when it is stored."""
        return 2 * MARK_BYTES + self.held.row_bytes + self.rule.host_bytes

    def add(self) -> int:
        """Return the place of one more host."""
        if self.free:
            return self.free.pop()
        place = self.rule.size
        self.rule.grow(place + 1)
        self.held.grow(place + 1)
        return place

    def release(self, place: int) -> None:
        """Let a host go."""
        self.rule.clear(np.array([place]))
        self.held.clear(np.array([place]))
        self.free.append(place)

    def stored(self, place: int) -> bytes:
        """Return the state of a host."""
        return self.held.stored(place, place + 1) + self.rule.stored(place, place + 1)

    def restore(self, place: int, state: bytes) -> None:
        """Put a host back; ValueError where it is of another form."""
        held = MARK_BYTES + self.held.row_bytes
        self.held.restore(place, place + 1, state[:held])
        self.rule.restore(place, place + 1, state[held:])


WAIT_MS: Final = 60_000
RESOURCES_MIN: Final = 2  # of a host that is scored
NONE: Final = -1
RATIO_MAX: Final = 1e9

_HOST: Final = np.dtype(
    [("rows", "<i4", (RESOURCES_MAX,)), ("places", "u1"), ("held_ms", "<i8"), ("scored_ms", "<i8"), ("high_since_ms", "<i8"), ("high", "<i4"),
     ("score", "<f4"), ("ratio", "<f4"), ("worst", "i1"), ("observed", "<f8"), ("expected", "<f8")]
)  # fmt: skip
_SERIES: Final = np.dtype([("host", "<i4"), ("place", "i1"), ("left_out", "u1")])


class Contradiction(NamedTuple):
    """What went with the others the least in a host's last minute, if it is high, and since when it is.

    `row` is the series, None where it is gone; `ratio` is how many times the usual level the score was.
    """

    since_ms: int
    minute_ms: int
    row: int | None
    observed: float
    expected: float
    ratio: float


class Places(RowTable):
    """Which place among a host's resources each series has; a row is a series."""

    name: ClassVar[str] = "host_places"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(_SERIES, host=NONE, place=NONE)

    @property
    def hosts(self) -> npt.NDArray[np.int64]:
        """The host of each series, (rows,); NONE of what is not in use or left out."""
        return np.where(self.rows["left_out"] == 0, self.rows["host"], NONE)

    def leave_out(self, row: int, host: int) -> None:
        """Let a series be judged by nothing."""
        self.rows["host"][row], self.rows["left_out"][row] = host, 1


class Together:
    """The combined score of all hosts; a row is a host. `places` goes along with the rows of series.

    A minute is high where the score is `high_ratio` times its usual level. A host is scored by at
    most RESOURCES_MAX resources; one that gains a resource learns anew how they go together.
    """

    name: ClassVar[str] = "host_together"
    version: ClassVar[int] = 1

    def __init__(self, settings: CombinedSettings | None = None, high_ratio: float = 2.0) -> None:
        self.places = Places()
        self._settings, self._high_ratio = settings, high_ratio
        self._hosts = RowTable(_HOST, rows=NONE, held_ms=NEVER_MS, scored_ms=NEVER_MS, high_since_ms=NEVER_MS)
        self._at = np.zeros(0, np.intp)  # of each host in its group
        self._groups: dict[int, Group] = {}

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        self._hosts.grow(rows)
        self._at = np.concatenate([self._at, np.zeros(len(self._hosts) - self._at.size, np.intp)])

    def clear(self, rows: Rows) -> None:
        """Let some rows start anew."""
        for host in rows.tolist():
            self._release(host)
        self._hosts.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows: what each of them has, then what they learned, which grows with their resources."""
        learned = (
            self._groups[places].stored(int(self._at[host]))
            for host, places in enumerate(self.resources[first:last].tolist(), first)
            if places
        )
        return self._hosts.stored(first, last) + b"".join(learned)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where the bytes are of another form."""
        at = (last - first) * _HOST.itemsize
        hosts = RowTable(_HOST)
        hosts.grow(last - first)
        hosts.restore(0, last - first, stored[:at])
        sizes = [self._group(places).host_bytes if places else 0 for places in hosts.rows["places"].tolist()]
        if at + sum(sizes) != len(stored):
            message = "the stored hosts have other resources than they say"
            raise ValueError(message)
        self.clear(np.arange(first, last))
        for host, size in enumerate(sizes, first):
            if size:
                group = self._group(int(hosts.rows["places"][host - first]))
                self._at[host] = group.add()
                group.restore(int(self._at[host]), stored[at : at + size])
                at += size
        self._hosts.restore(first, last, stored[: (last - first) * _HOST.itemsize])

    def take(self, batch: MinuteBatch) -> None:
        """Hold a minute of many series, and score those that were held of their hosts before."""
        self._enter(batch)
        place, held_ms = self.places.rows["place"][batch.row], self._hosts.rows["held_ms"]
        new = (place >= 0) & (batch.minute_ms > self._hosts.rows["scored_ms"][batch.host])
        at = np.flatnonzero(new & (batch.minute_ms >= held_ms[batch.host]))
        host, minute_ms = batch.host[at], batch.minute_ms[at]
        before = (held_ms[host] != NEVER_MS) & (held_ms[host] < minute_ms)
        self._score(np.unique(host[before]))
        held_ms[host] = minute_ms
        for group, part in self._by_group(host):
            group.held["held"][self._at[host[part]], place[at[part]]] = batch.means[at[part]]

    def tick(self, now_ms: int) -> None:
        """Score the minutes that ended a while ago."""
        held_ms = self._hosts.rows["held_ms"]
        self._score(np.flatnonzero((held_ms != NEVER_MS) & (held_ms <= now_ms - MINUTE_MS - WAIT_MS)))

    @property
    def resources(self) -> npt.NDArray[np.uint8]:
        """By how many resources each host is scored, (rows,)."""
        return self._hosts.rows["places"]

    @property
    def high(self) -> npt.NDArray[np.int32]:
        """How many minutes in a row were high when the last one of each host was scored, (rows,)."""
        return self._hosts.rows["high"]

    @property
    def high_since_ms(self) -> npt.NDArray[np.int64]:
        """When the first of those minutes began, (rows,)."""
        return self._hosts.rows["high_since_ms"]

    @property
    def scored_ms(self) -> npt.NDArray[np.int64]:
        """When the last minute began that was scored of each host, (rows,)."""
        return self._hosts.rows["scored_ms"]

    def score(self, host: int) -> float:
        """Return the score of a host in its last step, from 0 to 1."""
        return float(self._hosts.rows["score"][host])

    def contradiction(self, host: int) -> Contradiction | None:
        """Return what contradicts the other resources of a host whose last minute was high, None of another."""
        one = {name: self._hosts.rows[name][host] for name in _HOST.names or ()}
        if one["high"] == 0:
            return None
        row, place = int(one["rows"][one["worst"]]), int(one["worst"])
        return Contradiction(
            int(one["high_since_ms"]), int(one["scored_ms"]), row if self._holds(host, row, place) else None,
            float(one["observed"]), float(one["expected"]), float(one["ratio"]),
        )  # fmt: skip

    def _by_group(self, hosts: Rows) -> Iterator[tuple[Group, Rows]]:
        """Yield groups, and which of the hosts are in them."""
        resources = self.resources[hosts]
        for places in np.unique(resources).tolist():
            yield self._group(places), np.flatnonzero(resources == places)

    def _score(self, hosts: Rows) -> None:
        """Score the minutes that are held of these hosts."""
        for group, part in self._by_group(hosts):
            at = self._at[hosts[part]]
            if group.rule.resources >= RESOURCES_MIN:
                self._score_group(group, hosts[part], group.held["held"][at])
            group.held["held"][at] = np.nan
        self._hosts.rows["scored_ms"][hosts] = self._hosts.rows["held_ms"][hosts]
        self._hosts.rows["held_ms"][hosts] = NEVER_MS

    def _score_group(self, group: Group, hosts: Rows, held: npt.NDArray[np.float64]) -> None:
        table, there = self._hosts, np.isfinite(held)
        count = there.sum(axis=2)
        some = np.flatnonzero(count.any(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            means = (np.where(there, held, 0.0).sum(axis=2) / count)[some]
        hosts = hosts[some]
        step = group.rule.step(self._at[hosts], means)
        table.rows["score"][hosts] = step.score
        is_high = step.ratio >= self._high_ratio
        first = is_high & (table.rows["high"][hosts] == 0)
        table.rows["high"][hosts] = np.where(is_high, table.rows["high"][hosts] + 1, 0)
        table.rows["high_since_ms"][hosts[first]] = table.rows["held_ms"][hosts[first]]
        each, up = np.flatnonzero(is_high), hosts[is_high]
        worst = np.argmax(np.abs(step.residual), axis=1)[each]
        table.rows["ratio"][up], table.rows["worst"][up] = np.minimum(step.ratio[each], RATIO_MAX), worst
        table.rows["observed"][up], table.rows["expected"][up] = means[each, worst], step.expected[each, worst]

    def _enter(self, batch: MinuteBatch) -> None:
        """Give series that are new a place among the resources of their hosts."""
        for i in np.flatnonzero(self.places.rows["host"][batch.row] != batch.host).tolist():
            row, host = int(batch.row[i]), int(batch.host[i])
            self.places.rows["host"][row], self.places.rows["place"][row] = host, self._place(host, row)

    def _place(self, host: int, row: int) -> int:
        """Return a place: one whose series is gone, the next, or none where there are too many."""
        resources = int(self.resources[host])
        rows = self._hosts.rows["rows"][host]
        gone = (place for place in range(resources) if not self._holds(host, int(rows[place]), place))
        place = next(gone, resources)
        if place == RESOURCES_MAX:
            return NONE
        if place == resources:
            self._widen(host, resources)
        else:
            self._groups[resources].rule.anew(int(self._at[host]), place)
        self._hosts.rows["rows"][host, place] = row
        return place

    def _holds(self, host: int, row: int, place: int) -> bool:
        """Whether a series is that of a host's place still."""
        return bool(self.places.rows["host"][row] == host and self.places.rows["place"][row] == place)

    def _widen(self, host: int, resources: int) -> None:
        """Move a host to those of one more resource, with what is held."""
        held = self._groups[resources].held["held"][self._at[host]].copy() if resources else np.zeros((0, PARTS))
        self._release(host)
        group = self._group(resources + 1)
        self._at[host] = group.add()
        group.held["held"][self._at[host], :resources] = held
        self._hosts.rows["places"][host] = resources + 1

    def _release(self, host: int) -> None:
        places = int(self.resources[host])
        if places:
            self._groups[places].release(int(self._at[host]))

    def _group(self, resources: int) -> Group:
        if resources not in self._groups:
            self._groups[resources] = Group(resources, self._settings)
        return self._groups[resources]
