"""Detectors of anomalies of single hosts: values never seen before, and resources that contradict each other.

Each detector keeps columns by series or by host. The results of the detectors select the candidate hosts for alerts.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.contracts.alerts import HostAnomaly
from processors.hosts.rate import DailyMaxima, fired
from processors.hosts.rows import NEVER_MS, Rows, RowTable
from processors.hosts.windows import MinuteBatch
from processors.models.detect.multivariate import DAY_MS, RESOURCES_MAX, CombinedRule, CombinedSettings
from processors.models.detect.record import MARK_BYTES, WAYS, Column, RecordRule, RecordStep
from processors.models.numerics.arrays import Floats, Ints
from processors.store import go_on
from processors.windows.settings import MINUTE_MS, PART_MS, PARTS

RESOURCES_MIN: Final = 2  # fewest resources of a host whose resources are scored together
SWARM_MS: Final = 3_600_000  # records closer in time than this belong to one anomaly
WAIT_MS: Final = 60_000
SCORED_AT_ONCE: Final = 1_000  # hosts; scoring 10,000 hosts at once blocked the fold for 0.3 s
# a value must be back in its range for this long before a new departure counts as a new anomaly
BACK_MS: Final = 60_000
VALUE_WAY: Final = WAYS.index("value")
HOUR_WAY: Final = WAYS.index("hour")
NONE: Final = -1
RATIO_MAX: Final = 1e9
# least ratio of the energy (squared deviation of all resources) to the usual level at which the records of a host count
UNUSUAL_RATIO: Final = 1.5
SUSPECTED_RATIO: Final = 2.0
RECENT_MINUTES: Final = 30
SPAN_MINUTES: Final = 5  # a rarer measurement counts for at most this many minutes
LASTING_MINUTES: Final = 3  # high minutes of the last RECENT_MINUTES: nearly all short excursions last one minute
UNUSUAL_DAYS: Final = 7
SUSPECTED_MS: Final = 600_000  # suspicions closer in time than this count as one suspicion

_MARK: Final = np.dtype(
    [("fired_ms", "<i8"), ("since_ms", "<i8"), ("back_ms", "<i8"), ("observed", "<f8"), ("low", "<f8"), ("high", "<f8"),
     ("score", "<f4"), ("way", "u1")]
)  # fmt: skip


class Mark(NamedTuple):
    """The last record of a series: a value unlike all earlier values of the series.

    `way` is the test that fired: value, step or hour. `fired_ms` is the time of the record, `low` to `high` the usual range.
    For the test `value`, `since_ms` is the time at which the series left its range, `observed` is its most extreme value since then,
    and `over` is True if it has returned to its range. For the other tests, records of one test that are close in time count as one:
    `since_ms` is the time of the first, and `observed` the value at that time.
    """

    since_ms: int
    fired_ms: int
    observed: float
    low: float
    high: float
    way: str
    over: bool = False


class Records:
    """Tests each series for records: values unlike all earlier values of the series. A row is a series.

    In `marks`, `fired_ms` is the time of the last record, and `back_ms` the time at which the series returned to its range; NEVER_MS
    if there is no such time. Values right after a record are not tested. If a series returns to its range for at least BACK_MS and
    then leaves it again, the anomaly begins when the series leaves for the second time.
    """

    name: ClassVar[str] = "host_records"
    version: ClassVar[int] = 3

    def __init__(self) -> None:
        self._rule = RecordRule()
        self.marks = RowTable(_MARK, fired_ms=NEVER_MS, since_ms=NEVER_MS, back_ms=NEVER_MS)

    def grow(self, rows: int) -> None:
        self._rule.table.grow(rows)
        self.marks.grow(rows)

    def clear(self, rows: Rows) -> None:
        self._rule.table.clear(rows)
        self.marks.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        return self.marks.stored(first, last) + self._rule.table.stored(first, last)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Restore rows; raise ValueError if the bytes do not have the stored form."""
        marks = (last - first) * _MARK.itemsize
        self._rule.table.restore(first, last, stored[marks:])
        self.marks.restore(first, last, stored[:marks])

    def take(self, batch: MinuteBatch) -> None:
        """Score and learn the 10-second means of a minute, in order of time."""
        for k, means in enumerate(batch.means.T):
            finite = np.flatnonzero(np.isfinite(means))
            if finite.size:
                rows, time_ms = batch.row[finite], batch.minute_ms[finite] + k * PART_MS
                self._note(rows, means[finite], time_ms, self._rule.step(rows, means[finite], time_ms))

    def _note(self, rows: Rows, value: Floats, time_ms: Ints, step: RecordStep) -> None:
        marks = self.marks.rows
        marks["score"][rows] = step.score
        self._follow(rows, value, time_ms)
        fired = np.flatnonzero(step.fired)
        fired_rows, when_ms, way = rows[fired], time_ms[fired], step.way[fired]
        before = marks[fired_rows]
        near = (before["fired_ms"] != NEVER_MS) & (when_ms - before["fired_ms"] <= SWARM_MS)
        outside = near & (before["way"] == VALUE_WAY) & (before["back_ms"] == NEVER_MS)
        same = outside & (before["since_ms"] < when_ms) & (way != HOUR_WAY)
        repeated = near & (before["way"] == way) & (way != VALUE_WAY)
        marks["since_ms"][fired_rows] = np.where(same | repeated, before["since_ms"], when_ms)
        marks["fired_ms"][fired_rows] = when_ms
        new, fresh = fired_rows[~same], fired[~same]
        marks["observed"][new], marks["way"][new], marks["back_ms"][new] = value[fresh], step.way[fresh], NEVER_MS
        marks["low"][new], marks["high"][new] = step.low[fresh], step.high[fresh]

    def _follow(self, rows: Rows, value: Floats, time_ms: Ints) -> None:
        """Update the marks of the series in `rows` that have a recent record by value.

        The series may still be outside its range, outside again after a return, or back inside.
        """
        marks = self.marks.rows
        fired_ms = marks["fired_ms"][rows]
        recent = (fired_ms != NEVER_MS) & (time_ms - fired_ms <= SWARM_MS) & (marks["way"][rows] == VALUE_WAY)
        recent_rows, x, now_ms = rows[recent], value[recent], time_ms[recent]
        if not recent_rows.size:
            return
        marked = marks[recent_rows]
        outside = (x < marked["low"]) | (x > marked["high"])
        again = outside & (marked["back_ms"] != NEVER_MS) & (now_ms - marked["back_ms"] >= BACK_MS)
        middle = (marked["low"] + marked["high"]) / 2
        farther = outside & (again | (np.abs(x - middle) > np.abs(marked["observed"] - middle)))
        marks["since_ms"][recent_rows[again]] = now_ms[again]
        marks["observed"][recent_rows[farther]] = x[farther]
        back_ms = np.where(marked["back_ms"] == NEVER_MS, now_ms, marked["back_ms"])
        marks["back_ms"][recent_rows] = np.where(outside, NEVER_MS, back_ms)

    @property
    def times(self) -> "RecordTimes":
        """The last record of each series, without records of the test `hour`.

        `MultivariateDetector` decides from all resources of a host whether it is at its usual level for the hour.
        """
        marks = self.marks.rows
        fired_ms = np.where(marks["way"] == HOUR_WAY, NEVER_MS, marks["fired_ms"])
        return RecordTimes(fired_ms, marks["since_ms"], marks["back_ms"] != NEVER_MS)

    def mark(self, row: int) -> Mark | None:
        """Return the last record of a series; None without a record."""
        mark = self.marks.rows[row]
        if mark["fired_ms"] == NEVER_MS:
            return None
        figures = {name: mark[name].item() for name in ("since_ms", "fired_ms", "observed", "low", "high")}
        return Mark(**figures, way=WAYS[int(mark["way"])], over=bool(mark["back_ms"] != NEVER_MS))

    def score(self, row: int) -> float:
        """Return the score of the last value of a series, from 0 to 1."""
        return float(self.marks.rows["score"][row])


class Group:
    """The hosts with a certain number of resources, the detector that they share, and their 10-second means not scored yet."""

    def __init__(self, resources: int, settings: CombinedSettings | None) -> None:
        self.rule = CombinedRule(resources, settings, {"retained": Column((resources, PARTS), "float64", np.nan)})
        self.table = self.rule.table
        self.free: list[int] = []

    def add(self) -> int:
        """Add a host and return its index in this group."""
        if self.free:
            return self.free.pop()
        self.table.grow(self.table.size + 1)
        return self.table.size - 1

    def release(self, place: int) -> None:
        """Free the index `place`, so that another host can use it."""
        self.table.clear(np.array([place]))
        self.free.append(place)


_HOST: Final = np.dtype(
    [("rows", "<i4", (RESOURCES_MAX,)), ("places", "u1"), ("newest_ms", "<i8"), ("scored_ms", "<i8"), ("high_since_ms", "<i8"), ("recent", "<u4"), ("high", "u1"),
     ("unusual_ms", "<i8"), ("suspected_ms", "<i8"), ("suspected_since_ms", "<i8"), ("far", "<u8"), ("unusual_days", "u1"),
     ("score", "<f4"), ("ratio", "<f4"), ("worst", "i1"), ("by_hour", "u1"), ("young", "u1"), ("observed", "<f8"), ("expected", "<f8")]
)  # fmt: skip
_SERIES: Final = np.dtype([("host", "<i4"), ("place", "i1")])


class Contradiction(NamedTuple):
    """The resource that disagreed most with the other resources of a host in the first high minute of the last RECENT_MINUTES.

    This minute began at `since_ms`; `lasting` is True if the host was high for LASTING_MINUTES since then. Later minutes of a burst
    name other resources. `row` is the series of the resource; None if the host no longer has it.
    `ratio` is the energy (squared deviation of all resources) divided by its usual level. `far` are the series far from their
    means in this minute; empty if there are few. `by_hour` is True if the resources differ only from the same hour of other days.
    """

    since_ms: int
    row: int | None
    observed: float
    expected: float
    ratio: float
    lasting: bool
    far: tuple[int, ...] = ()
    by_hour: bool = False


class Places(RowTable):
    """The index of each series in the list of resources of its host. A row is a series."""

    name: ClassVar[str] = "host_places"
    version: ClassVar[int] = 7  # the version of `host_together`, because places mean nothing without that state

    def __init__(self) -> None:
        super().__init__(_SERIES, host=NONE, place=NONE)

    @property
    def hosts(self) -> Ints:
        """The host of each series (rows,); NONE for unused rows and cumulative resources."""
        return self.rows["host"]


class MultivariateDetector:
    """Scores all resources of a host together. A row of `hosts` is a host; a row of `places` is a series.

    A step is one minute and uses the mean of each resource: relevant faults last for minutes, and shorter steps would let the
    learned state decay sooner, because it decays by a fixed factor per step. The resources of a host may come from several
    sources at different times. A minute therefore waits until the next minute of the host arrives, or until WAIT_MS after its
    end, and is then scored as a whole.

    A minute is high if the detector fires. `recent` has a bit for each high minute of the last RECENT_MINUTES up to the last scored
    minute, which began at `scored_ms`; `high` is True if this minute is high, and the first one began at `high_since_ms`.
    `unusual_days` has a bit for each day of the last UNUSUAL_DAYS with a high minute.
    `unusual_ms` is the last minute with an energy of UNUSUAL_RATIO times its usual level, `suspected_ms` the last minute with
    SUSPECTED_RATIO, and `suspected_since_ms` the first of several suspected minutes close in time. On labelled servers 32 of 42
    faults are suspected, during 1 to 3 % of the time. A host is scored by at most RESOURCES_MAX resources; a host with a new
    resource learns again how its resources fit together.
    """

    name: ClassVar[str] = "host_together"
    version: ClassVar[int] = 7

    def __init__(
        self,
        settings: CombinedSettings | None = None,
        maxima: Callable[[], DailyMaxima] = DailyMaxima,
        false_per_host_day: float = HostAnomaly().false_per_host_day,
    ) -> None:
        self.places = Places()
        self.ended: list[Floats] = []  # maxima of host-days that ended, until they are learned
        self._maxima, self._rate, self._settings = maxima, false_per_host_day, settings
        times = ("newest_ms", "scored_ms", "high_since_ms", "unusual_ms", "suspected_ms", "suspected_since_ms")
        self.hosts = RowTable(_HOST, rows=NONE, **dict.fromkeys(times, NEVER_MS))
        self._at = np.zeros(0, np.intp)  # place of each host in its group
        self._groups: dict[int, Group] = {}

    def grow(self, rows: int) -> None:
        self.hosts.grow(rows)
        self._at = np.concatenate([self._at, np.zeros(len(self.hosts.rows) - self._at.size, np.intp)])

    def clear(self, rows: Rows) -> None:
        for host in rows.tolist():
            self._release(host)
        self.hosts.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of the rows `first` to `last` (exclusive), followed by the learned state of each of these hosts.

        The size of a learned state depends on the number of resources of the host.
        """
        hosts = np.flatnonzero(self.hosts.rows["places"][first:last]) + first
        learned = [b""] * len(hosts)
        for group, part in self._by_group(hosts):
            states = group.table.stored_each(self._at[hosts[part]])
            for place, state in zip(part.tolist(), states, strict=True):
                learned[place] = state.tobytes()
        return self.hosts.stored(first, last) + b"".join(learned)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Restore rows; raise ValueError if the bytes do not have the stored form."""
        offset = (last - first) * _HOST.itemsize
        if len(stored) < offset:
            raise ValueError(f"{last - first} hosts have at least {offset} bytes, not {len(stored)}.")
        places = np.frombuffer(stored[:offset], _HOST)["places"].tolist()
        sizes = [MARK_BYTES + self._group(count).table.row_bytes if count else 0 for count in places]
        if offset + sum(sizes) != len(stored):
            raise ValueError("the stored hosts have other resources than they say")
        self.clear(np.arange(first, last))
        for host, size in enumerate(sizes, first):
            if size:
                group = self._group(places[host - first])
                self._at[host] = place = group.add()
                group.table.restore(place, place + 1, stored[offset : offset + size])
                offset += size
        self.hosts.restore(first, last, stored[: (last - first) * _HOST.itemsize])

    def take(self, batch: MinuteBatch) -> None:
        """Store a minute of many series, and score the earlier waiting minutes of their hosts."""
        self._enter(batch)
        place, newest_ms = self.places.rows["place"][batch.row], self.hosts.rows["newest_ms"]
        new = (place >= 0) & (batch.minute_ms > self.hosts.rows["scored_ms"][batch.host])
        chosen = np.flatnonzero(new & (batch.minute_ms >= newest_ms[batch.host]))
        host, minute_ms = batch.host[chosen], batch.minute_ms[chosen]
        before = (newest_ms[host] != NEVER_MS) & (newest_ms[host] < minute_ms)
        self._score(np.unique(host[before]))
        newest_ms[host] = minute_ms
        for group, part in self._by_group(host):
            group.table["retained"][self._at[host[part]], place[chosen[part]]] = batch.means[chosen[part]]

    def tick(self, now_ms: int, give_way: Callable[[], None] = go_on) -> bool:
        """Score the minutes that waited long enough, and return whether any minute was scored; `give_way` is called between parts."""
        newest_ms = self.hosts.rows["newest_ms"]
        due = np.flatnonzero((newest_ms != NEVER_MS) & (newest_ms <= now_ms - MINUTE_MS - WAIT_MS))
        for first in range(0, due.size, SCORED_AT_ONCE):
            self._score(due[first : first + SCORED_AT_ONCE])
            give_way()
        return bool(due.size)

    @property
    def lasting(self) -> Rows:
        """The hosts that are high now and were high for LASTING_MINUTES of the last RECENT_MINUTES."""
        state = self.hosts.rows
        return np.flatnonzero((state["high"] != 0) & (np.bitwise_count(state["recent"]) >= LASTING_MINUTES))

    def unusual_days(self, hosts: Sequence[int]) -> Ints:
        """Return the number of the last UNUSUAL_DAYS on which each of `hosts` (m,) had a high minute."""
        return np.asarray(np.bitwise_count(self.hosts.rows["unusual_days"][hosts]), np.int64)

    def contradiction(self, host: int) -> Contradiction | None:
        """Return the resource of a host that contradicted the other resources; None without a high minute in the last RECENT_MINUTES."""
        state = self.hosts.rows[host]
        if not state["recent"]:
            return None
        rows, worst = state["rows"], int(state["worst"])
        far = [(int(rows[at]), at) for at in range(int(state["places"])) if int(state["far"]) >> at & 1]
        return Contradiction(
            int(state["high_since_ms"]), int(rows[worst]) if self._holds(host, int(rows[worst]), worst) else None,
            float(state["observed"]), float(state["expected"]), float(state["ratio"]),
            int(state["recent"]).bit_count() >= LASTING_MINUTES,
            tuple(row for row, at in far if self._holds(host, row, at)), bool(state["by_hour"]),
        )  # fmt: skip

    def suspected_since_ms(self, host: int, now_ms: int) -> int | None:
        """Return the time from which a host is suspected; None if the host is not suspected."""
        last_ms = self.hosts.rows["suspected_ms"][host]
        if last_ms == NEVER_MS or last_ms < now_ms - SUSPECTED_MS - WAIT_MS:
            return None
        return int(self.hosts.rows["suspected_since_ms"][host])

    def _by_group(self, hosts: Rows) -> Iterator[tuple[Group, Rows]]:
        """Yield each group with the indexes of its hosts in `hosts`."""
        resources = self.hosts.rows["places"][hosts]
        for places in np.unique(resources).tolist():
            yield self._group(places), np.flatnonzero(resources == places)

    def _score(self, hosts: Rows) -> None:
        """Score the waiting minutes of `hosts`."""
        for group, part in self._by_group(hosts):
            places = self._at[hosts[part]]
            if group.rule.resources >= RESOURCES_MIN:
                self._score_group(group, hosts[part], group.table["retained"][places])
            group.table["retained"][places] = np.nan
        self.hosts.rows["scored_ms"][hosts] = self.hosts.rows["newest_ms"][hosts]
        self.hosts.rows["newest_ms"][hosts] = NEVER_MS

    def _score_group(self, group: Group, hosts: Rows, retained: Floats) -> None:
        table, measured = self.hosts.rows, np.isfinite(retained)
        count = measured.sum(axis=2)
        some = np.flatnonzero(count.any(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            means = (np.where(measured, retained, 0.0).sum(axis=2) / count)[some]
        hosts = hosts[some]
        step = group.rule.step(self._at[hosts], means, table["newest_ms"][hosts])
        table["score"][hosts] = step.score
        self._note_unusual(hosts, step.ratio)
        if step.ended.size:
            self.ended.append(step.ended)
        is_high = fired(step, self._maxima(), self._rate)
        table["young"][hosts] = ~step.has_past
        self._note_days(hosts, is_high)
        recent = self._recent(hosts, is_high)
        first = is_high & (table["recent"][hosts] == 0)
        table["recent"][hosts], table["high"][hosts] = recent, is_high
        table["high_since_ms"][hosts[first]] = table["newest_ms"][hosts[first]]
        # the resources stay high for minutes after a burst, and the figures of these minutes name other resources
        high_index, up = np.flatnonzero(first), hosts[first]
        worst = np.argmax(np.abs(step.residual), axis=1)[high_index]
        table["ratio"][up], table["worst"][up] = np.minimum(step.ratio[high_index], RATIO_MAX), worst
        table["observed"][up], table["expected"][up] = means[high_index, worst], step.expected[high_index, worst]
        table["by_hour"][up] = step.by_hour[high_index]
        bits = (step.far[high_index] << np.arange(group.rule.resources, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
        table["far"][up] = np.where(step.many_far[high_index], bits, 0)

    def _recent(self, hosts: Rows, is_high: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
        """Return the high minutes of the last RECENT_MINUTES as bits, the newest lowest; a measurement also counts for the minutes before."""
        table = self.hosts.rows
        passed = np.clip((table["newest_ms"][hosts] - table["scored_ms"][hosts]) // MINUTE_MS, 1, RECENT_MINUTES)
        spanned = np.where(table["scored_ms"][hosts] == NEVER_MS, 1, np.minimum(passed, SPAN_MINUTES))
        new = np.where(is_high, (1 << spanned) - 1, 0)
        shifted = table["recent"][hosts].astype(np.int64) << passed
        return np.asarray((shifted | new) & ((1 << RECENT_MINUTES) - 1), np.uint32)

    def _note_days(self, hosts: Rows, is_high: npt.NDArray[np.bool_]) -> None:
        """Note the days (UTC) of the last UNUSUAL_DAYS with a high minute as bits, the newest day lowest."""
        table = self.hosts.rows
        passed = table["newest_ms"][hosts] // DAY_MS - table["scored_ms"][hosts] // DAY_MS
        days = table["unusual_days"][hosts].astype(np.int64) << np.clip(passed, 0, UNUSUAL_DAYS) | is_high
        table["unusual_days"][hosts] = days & ((1 << UNUSUAL_DAYS) - 1)

    def _note_unusual(self, hosts: Rows, ratio: Floats) -> None:
        """Store the time at which hosts were last unusual or suspected, and the start of each suspicion."""
        table = self.hosts.rows
        minute_ms = table["newest_ms"][hosts]
        unusual, suspected = ratio >= UNUSUAL_RATIO, ratio >= SUSPECTED_RATIO
        table["unusual_ms"][hosts[unusual]] = minute_ms[unusual]
        up, when_ms = hosts[suspected], minute_ms[suspected]
        before_ms = table["suspected_ms"][up]
        apart = (before_ms == NEVER_MS) | (when_ms - before_ms > SUSPECTED_MS)
        table["suspected_since_ms"][up] = np.where(apart, when_ms, table["suspected_since_ms"][up])
        table["suspected_ms"][up] = when_ms

    def _enter(self, batch: MinuteBatch) -> None:
        """Give each new series an index among the resources of its host."""
        for i in np.flatnonzero(self.places.rows["host"][batch.row] != batch.host).tolist():
            row, host = int(batch.row[i]), int(batch.host[i])
            self.places.rows["host"][row], self.places.rows["place"][row] = host, self._place(host, row)

    def _place(self, host: int, row: int) -> int:
        """Return the index of a new series in the list of resources of its host; NONE if the host has RESOURCES_MAX resources.

        The index of a forgotten series is used first.
        """
        resources = int(self.hosts.rows["places"][host])
        rows = self.hosts.rows["rows"][host]
        gone = (place for place in range(resources) if not self._holds(host, int(rows[place]), place))
        place = next(gone, resources)
        if place == RESOURCES_MAX:
            return NONE
        if place == resources:
            self._widen(host, resources)
        else:
            self._groups[resources].rule.anew(int(self._at[host]), place)
        self.hosts.rows["rows"][host, place] = row
        return place

    def _holds(self, host: int, row: int, place: int) -> bool:
        """Return whether the resource `place` of a host is still the series `row`; False if the series was forgotten and its row used again."""
        return bool(self.places.rows["host"][row] == host and self.places.rows["place"][row] == place)

    def _widen(self, host: int, resources: int) -> None:
        """Move a host and its waiting minute to the group of hosts with `resources` + 1 resources."""
        retained = (
            self._groups[resources].table["retained"][self._at[host]].copy() if resources else np.zeros((0, PARTS))
        )
        self._release(host)
        group = self._group(resources + 1)
        self._at[host] = group.add()
        group.table["retained"][self._at[host], :resources] = retained
        self.hosts.rows["places"][host] = resources + 1

    def _release(self, host: int) -> None:
        places = int(self.hosts.rows["places"][host])
        if places:
            self._groups[places].release(int(self._at[host]))

    def _group(self, resources: int) -> Group:
        if resources not in self._groups:
            self._groups[resources] = Group(resources, self._settings)
        return self._groups[resources]


_CANDIDATE: Final = np.dtype(
    [("first_ms", "<i8"), ("judged_ms", "<i8"), ("swarm_ms", "<i8"), ("swarm_since_ms", "<i8"), ("odd_ms", "<i8"),
     ("since_ms", "<i8"), ("news_ms", "<i8"), ("reported_ms", "<i8"), ("hushed_ms", "<i8"), ("muted", "u1")]
)  # fmt: skip


class Swarm(NamedTuple):
    """The thresholds of a swarm: records of enough resources of one host within `window_ms`.

    Records are needed of a share `resources_share` of the host's resources, and of at least `resources_min` resources; of all
    resources if the host has fewer.
    """

    window_ms: int
    resources_min: int
    resources_share: float

    def least(self, resources: Ints) -> Ints:
        """Return how many resources of each host (hosts,) must have records; `resources` (hosts,) is the number of resources of each host."""
        least = np.maximum(np.ceil(self.resources_share * resources), self.resources_min)
        return np.asarray(np.clip(least, RESOURCES_MIN, np.maximum(resources, RESOURCES_MIN)), np.int64)


class RecordTimes(NamedTuple):
    """The last record of each series (rows,): time of the record, start of its anomaly, and whether the series is back in its range."""

    fired_ms: Ints
    since_ms: Ints
    over: npt.NDArray[np.bool_]


class AnomalyCandidates(RowTable):
    """The times of each host that decide whether it may raise an alert. A row is a host.

    `first_ms` is the first observation, `odd_ms` the last anomalous time and `since_ms` the start of that anomaly. `news_ms` is the
    first finding that is not reported yet, `reported_ms` the last report, and `hushed_ms` the end of muting.
    """

    name: ClassVar[str] = "host_anomaly_candidates"
    version: ClassVar[int] = 2

    def __init__(self) -> None:
        times = dict.fromkeys((_CANDIDATE.names or ())[:-1], NEVER_MS)
        super().__init__(_CANDIDATE, **times)

    def observed(self, host: Rows, minute_ms: Ints) -> None:
        """Record a minute of each host (m,)."""
        new = self.rows["first_ms"][host] == NEVER_MS
        self.rows["first_ms"][host[new]] = minute_ms[new]

    def close(self, records: RecordTimes, host: Rows, unusual_ms: Ints, swarm: Swarm) -> Rows:
        """Return the hosts that have become anomalous: a new swarm of records, and an unusual minute of the whole host close to the swarm.

        A swarm alone is frequent, because a new job changes many resources at once. `host` (rows,) is the host of each series, negative
        for none; `unusual_ms` (hosts,) is the last unusual minute. On labelled servers this rule halves the false alerts and loses no
        fault, for any UNUSUAL_RATIO from 1.3 to 1.7.
        """
        self._note_swarms(records, host, swarm)
        rows = self.rows
        both = (rows["swarm_ms"] != NEVER_MS) & (unusual_ms != NEVER_MS)
        near = both & (np.abs(rows["swarm_ms"] - unusual_ms) <= swarm.window_ms)
        hosts = np.flatnonzero(near & (rows["swarm_ms"] > rows["odd_ms"]))
        self._odd(hosts, rows["swarm_since_ms"][hosts], rows["swarm_ms"][hosts], swarm.window_ms)
        return hosts

    def _note_swarms(self, times: RecordTimes, host: Rows, swarm: Swarm) -> None:
        """Find the hosts whose new records form a swarm, and store time and start of the swarm."""
        fired_ms = times.fired_ms
        mine = np.flatnonzero((host >= 0) & (fired_ms != NEVER_MS))
        new = mine[fired_ms[mine] > self.rows["judged_ms"][host[mine]]]
        if new.size == 0:
            return
        last_ms = np.full(len(self.rows), NEVER_MS, np.int64)
        np.maximum.at(last_ms, host[new], fired_ms[new])
        near = mine[last_ms[host[mine]] != NEVER_MS]
        near = near[fired_ms[near] >= last_ms[host[near]] - swarm.window_ms]
        least = swarm.least(np.bincount(host[host >= 0], minlength=len(self.rows)))
        records, lasting = (np.bincount(host[at], minlength=len(self.rows)) for at in (near, near[~times.over[near]]))
        hosts = np.flatnonzero((last_ms != NEVER_MS) & (records >= least))
        of_event = near[~times.over[near] | (lasting < least)[host[near]]]
        since_ms = np.maximum(times.since_ms[of_event], last_ms[host[of_event]] - swarm.window_ms)
        began_ms = np.full(len(self.rows), np.iinfo(np.int64).max)
        np.minimum.at(began_ms, host[of_event], since_ms)
        self.rows["judged_ms"][:] = np.maximum(self.rows["judged_ms"], last_ms)
        self.rows["swarm_ms"][hosts], self.rows["swarm_since_ms"][hosts] = last_ms[hosts], began_ms[hosts]

    def high(self, hosts: Rows, since_ms: Ints, end_ms: Ints, window_ms: int) -> Rows:
        """Record an anomaly of `hosts` (m,), whose score has been high since `since_ms` (m,); return the hosts for which it is new.

        `end_ms` (m,) is the end of the last scored minute.
        """
        new = end_ms > self.rows["odd_ms"][hosts]
        self._odd(hosts[new], since_ms[new], end_ms[new], window_ms)
        return hosts[new]

    def _odd(self, hosts: Rows, began_ms: Ints, last_ms: Ints, window_ms: int) -> None:
        """Record that `hosts` are anomalous; the anomaly keeps its earlier start if it follows the last anomaly within `window_ms`."""
        goes_on = (self.rows["odd_ms"][hosts] != NEVER_MS) & (began_ms - self.rows["odd_ms"][hosts] <= window_ms)
        since_ms = np.minimum(self.rows["since_ms"][hosts], began_ms)
        self.rows["since_ms"][hosts] = np.where(goes_on, since_ms, began_ms)
        self.rows["odd_ms"][hosts] = np.maximum(self.rows["odd_ms"][hosts], last_ms)
