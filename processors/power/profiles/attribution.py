"""From minutes of hosts to profiles of runs: whose a minute is, what each run got in all, and the profile that it makes.

A minute is of the one run that was there from its beginning to its end, and nobody's else.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.events import JobCompleted, JobStarted
from processors.contracts.hosts import Profile
from processors.contracts.telemetry import COMPONENTS, JOB
from processors.models.numerics.arrays import Floats
from processors.models.numerics.statistics import to_digits
from processors.power.profiles.finalisation import REACH_MAX, Amounts
from processors.power.profiles.meters import (
    ALWAYS,
    BUSIEST,
    COUNTER,
    COVERED,
    ENERGY,
    ESTIMATED,
    LEFT_OUT,
    NAMES_MAX,
    NIC,
    POWER,
    REASONS,
    SHARED,
    SPLIT,
    MeterIndex,
)  # fmt: skip
from processors.power.profiles.splitting import NodeShare, SharedNumbers, Split, Stays, split_minute
from processors.windows.settings import MINUTE_MS

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

REPORTS_STARTS_MS: Final = 86_400_000  # a system that told no start for so long does not tell them
RUN_MAX_MS: Final = 30 * 86_400_000  # a run of which no end was told is forgotten after this
LONG_AGO_MS: Final = -(1 << 62)
RUNNING_MS: Final = 1 << 62  # the end of what has not ended
DIGITS: Final = 9
SUM: Final = np.dtype([("key", "<i8"), ("amount", "<f8"), ("seconds", "<f8")])
_PER_RUN: Final = 2 * NAMES_MAX

Sum = tuple[float, float]
"""Amount and seconds."""
NOTHING: Final[Sum] = (0.0, 0.0)
Totals = Mapping[str, Sum]
"""Amount and seconds by quantity."""


class ReportedStartsState(msgspec.Struct):
    """Stored form: when a start was told last."""

    last_ms: int = -1


class ReportedStarts:
    """When a system told a start last: only where it tells them is a host of which no job is known an idle one."""

    name: ClassVar[str] = "profile_starts"
    version: ClassVar[int] = 1

    def __init__(self, state: ReportedStartsState) -> None:
        self._last_ms = state.last_ms

    @classmethod
    def build(cls, state: ReportedStartsState | None = None) -> "ReportedStarts":
        """Return what a stored state tells, or a system of which nothing is known."""
        return cls(state or ReportedStartsState())

    @property
    def last_ms(self) -> int:
        """When a start was told last, in ms."""
        return self._last_ms

    def score(self, fact: int) -> bool:
        """Return whether starts are told, as of a time in ms."""
        return self._last_ms >= 0 and fact - self._last_ms <= REPORTS_STARTS_MS

    def learn(self, fact: int) -> None:
        """Take note that a start was told at a time in ms."""
        self._last_ms = max(self._last_ms, fact)

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        return self._last_ms + REPORTS_STARTS_MS + 1

    def snapshot(self) -> ReportedStartsState:
        """Return the stored form."""
        return ReportedStartsState(self._last_ms)


class ProfileRunState(msgspec.Struct, omit_defaults=True):
    """Stored form: the job, host lists as they were sent, times, and the row of its sums.

    `spoiled` tells that its end was told so late that minutes after it were taken to be the run's. `share` and `idle_w` are its
    `NodeShare`.
    """

    system: str = ""
    job_id: str = ""
    hosts: tuple[str, ...] = ()
    start_ms: int = -1
    end_ms: int | None = None
    run_time_s: float = 0.0
    started: bool = False
    replaced: bool = False
    spoiled: bool = False
    keep_until_ms: int | None = None
    row: int = -1
    share: float = 0.0
    idle_w: float = 0.0


class ProfileRun:
    """One run of a job, as profiles need it: when it was there, and on which hosts."""

    name: ClassVar[str] = "profile_run"
    version: ClassVar[int] = 1

    def __init__(self, state: ProfileRunState) -> None:
        self.state = msgspec.structs.replace(state)

    @classmethod
    def build(cls, state: ProfileRunState | None = None) -> "ProfileRun":
        """Return the run of a stored state, or one of which nothing is known."""
        return cls(state or ProfileRunState())

    def score(self, fact: JobStarted | JobCompleted) -> bool:
        """Return whether the fact would change anything."""
        state, hosts = self.state, fact.evidence.hosts
        if (state.system, state.job_id, state.start_ms) != (fact.system, fact.job_id, fact.start_ms):
            return True
        if isinstance(fact, JobStarted):
            return not state.started or (bool(hosts) and not state.hosts)
        ended = (state.end_ms, state.run_time_s, state.replaced) == (fact.end_ms, fact.run_time_s, False)
        return not ended or (bool(hosts) and hosts != state.hosts)

    def learn(self, fact: JobStarted | JobCompleted) -> None:
        """Take its start or its end in; what is reported hosts last counts."""
        state = self.state
        state.system, state.job_id, state.start_ms = fact.system, fact.job_id, fact.start_ms
        if isinstance(fact, JobStarted):
            state.started = True
            state.hosts = state.hosts or fact.evidence.hosts
            return
        state.end_ms, state.run_time_s, state.replaced = fact.end_ms, fact.run_time_s, False
        state.hosts = fact.evidence.hosts or state.hosts

    def allocate(self, found: NodeShare) -> None:
        """Take what it was allocated of its nodes, where that is known."""
        if found.share > 0.0:
            self.state.share, self.state.idle_w = found

    def replace_at(self, end_ms: int) -> None:
        """Let it end when a later run of its job began: its own end was not told."""
        self.state.end_ms, self.state.replaced = end_ms, True
        self.state.run_time_s = (end_ms - self.state.start_ms) / 1000

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        state = self.state
        return state.start_ms + RUN_MAX_MS if state.keep_until_ms is None else state.keep_until_ms

    def snapshot(self) -> ProfileRunState:
        """Return the stored form."""
        return msgspec.structs.replace(self.state)


class RetainedMinutes:
    """Closed minutes that may still be given away: a start or an end of a run may be told late, or not before its end.

    They hold what hosts did, by minute and within it by host; at most `amounts_max`, the oldest minutes go first.
    """

    def __init__(self, amounts_max: int) -> None:
        self.amounts_max = amounts_max
        self.minutes: dict[int, Amounts] = {}
        self._hosts: dict[int, npt.NDArray[np.int32]] = {}  # rows of hosts again, side by side: they are searched
        self._count = 0

    def __len__(self) -> int:
        """Return how many amounts are kept."""
        return self._count

    def add(self, minute_ms: int, amounts: Amounts) -> int:
        """Keep a closed minute that is not kept; return how many amounts of old ones had to go for it."""
        self.minutes[minute_ms] = amounts
        self._hosts[minute_ms] = np.ascontiguousarray(amounts["host"])
        self._count += len(amounts)
        gone = 0
        while self._count > self.amounts_max and len(self.minutes) > 1:
            gone += len(self.take(min(self.minutes)))
        return gone

    def take(self, minute_ms: int) -> Amounts:
        """Return a minute, which is no longer kept."""
        amounts = self.minutes.pop(minute_ms)
        del self._hosts[minute_ms]
        self._count -= len(amounts)
        return amounts

    def within(self, start_ms: int, end_ms: int, hosts: npt.NDArray[np.int64]) -> Iterator[tuple[int, Amounts]]:
        """Yield the minutes that touch a time, with what some hosts (k,) did; hosts are numbered by their place in `hosts`.

        `hosts` rise.
        """
        rows = hosts.astype(np.int32)
        for minute_ms in sorted(self.minutes):
            if minute_ms >= end_ms or minute_ms + MINUTE_MS <= start_ms:
                continue
            amounts = self.minutes[minute_ms]
            first = np.searchsorted(self._hosts[minute_ms], rows)
            count = np.searchsorted(self._hosts[minute_ms], rows, side="right") - first
            before = np.cumsum(count) - count
            at = np.repeat(first - before, count) + np.arange(count.sum())
            found = amounts[at]
            found["host"] = np.repeat(np.arange(len(hosts)), count)
            yield minute_ms, found


class Given(NamedTuple):
    """What runs get (m,): row of the run, number of the quantity, whether the minute is only in part the run's, and sums."""

    run: Ints
    quantity: Ints
    short: npt.NDArray[np.bool_]
    amount: Floats
    seconds: Floats


def given(minute_ms: int, amounts: Amounts, stays: Stays, hosts: int, numbers: SharedNumbers) -> Given:
    """Return what runs get of what some of `hosts` rows did in a minute.

    An amount that took several minutes is a run's that was there in all of them. Of a minute in which a run began or ended
    it gets the share of the time, as a short one. Where several runs were, each is told that it was not alone, and what is split
    of the power of the host.
    """
    end_ms = minute_ms + MINUTE_MS
    here = (stays.start_ms < end_ms) & (stays.end_ms > minute_ms)
    count = np.bincount(stays.host[here], minlength=hosts)
    run, start_ms, stop_ms = (np.full(hosts, -1, np.int64) for _ in range(3))
    for column, of in ((run, stays.run), (start_ms, stays.start_ms), (stop_ms, stays.end_ms)):
        column[stays.host[here]] = of[here]
    others_ms = np.full(hosts, LONG_AGO_MS)
    np.maximum.at(
        others_ms, stays.host[~here & (stays.end_ms <= minute_ms)], stays.end_ms[~here & (stays.end_ms <= minute_ms)]
    )
    host = amounts["host"]
    from_ms = end_ms - amounts["reach"].astype(np.int64) * MINUTE_MS
    alone = (count[host] == 1) & (others_ms[host] <= from_ms)
    whole = alone & (start_ms[host] <= from_ms) & (stop_ms[host] >= end_ms)
    part = (count[host] == 1) & ~whole & (amounts["reach"] == 1)
    part &= (start_ms[host] > minute_ms) | (stop_ms[host] < end_ms)
    inside_ms = np.minimum(stop_ms[host], end_ms) - np.maximum(start_ms[host], minute_ms)
    share = np.where(part, inside_ms / MINUTE_MS, 1.0)
    at = np.flatnonzero(whole | part)
    counts = amounts["quantity"][at] < len(ALWAYS)  # a count is what it is
    own = Given(
        run[host[at]],
        amounts["quantity"][at].astype(np.int64),
        part[at],
        amounts["amount"][at] * np.where(counts, 1.0, share[at]),
        amounts["reach"][at] * share[at] * (MINUTE_MS / 1000),
    )
    if numbers.busiest:
        own = _of_busiest_host(own, numbers.busiest)
    joint = here & (count[stays.host] > 1)
    if not joint.any():
        return own
    return Given(*map(np.concatenate, zip(own, *_of_shared(minute_ms, amounts, stays, joint, numbers), strict=True)))


def _of_busiest_host(own: Given, quantities: tuple[int, ...]) -> Given:
    """Return what runs get, of some quantities only that of the host that did most."""
    of_one = np.isin(own.quantity, quantities)
    at = np.flatnonzero(of_one)
    at = at[np.lexsort((own.amount[at], own.short[at], own.quantity[at], own.run[at]))]
    same = (own.run[at[1:]] == own.run[at[:-1]]) & (own.quantity[at[1:]] == own.quantity[at[:-1]])
    same &= own.short[at[1:]] == own.short[at[:-1]]
    retained = ~of_one
    retained[at[~np.append(same, False)[: len(at)]]] = True
    return Given(*(column[retained] for column in own))  # type: ignore[arg-type]  # each is as it was


def _of_shared(
    minute_ms: int, amounts: Amounts, stays: Stays, joint: npt.NDArray[np.bool_], numbers: SharedNumbers
) -> Iterator[Given]:
    """Yield what runs get of a minute in which others were on the host: that they were not alone, and what is split."""
    single = _shared(stays, joint, amounts["host"])
    found = split_minute(minute_ms, amounts, stays.at(joint), numbers)
    alone = Split(single, np.ones(len(single)), np.full(len(single), MINUTE_MS / 1000))
    for quantity, each in ((numbers.shared, alone), (numbers.split or 0, found)):
        count = len(each.run)
        yield Given(each.run, np.full(count, quantity), np.zeros(count, np.bool_), each.energy_j, each.seconds)


def _shared(stays: Stays, joint: npt.NDArray[np.bool_], reported: npt.NDArray[np.int32]) -> Ints:
    """Return the runs that were with others on hosts that told something, once for each host."""
    return stays.run[joint & np.isin(stays.host, reported)] if joint.any() else np.zeros(0, np.int64)


class _Present:
    """A run: its state, its host lists and the names in them, and their rows as of one numbering."""

    __slots__ = ("lists", "names", "rows", "state", "version")

    def __init__(self, state: ProfileRunState, names: tuple[str, ...]) -> None:
        self.state, self.lists, self.names = state, state.hosts, names
        self.rows, self.version = np.zeros(0, np.int64), -1


class ReportedHosts(NamedTuple):
    """A run's hosts: how many, and the rows (k,) of those that told something, rising."""

    hosts: int
    rows: Rows


class Occupancy:
    """Which runs are or were lately on which hosts: all of it follows from the runs that are kept, here by their ids."""

    def __init__(self, index: MeterIndex) -> None:
        self._index = index
        self.runs: dict[str, _Present] = {}
        self._on: dict[tuple[str, str], dict[str, None]] = {}
        self._of_job: dict[tuple[str, str], dict[str, None]] = {}
        self.retained = 0

    def enter(self, run_id: str, state: ProfileRunState, names: tuple[str, ...]) -> None:
        """Take a run in, or what else became known of it."""
        present = self.runs.get(run_id)
        if present is not None and present.names == names:
            present.state, present.lists = state, state.hosts
            return
        self.leave(run_id)
        self.runs[run_id] = _Present(state, names)
        self._of_job.setdefault((state.system, state.job_id), {})[run_id] = None
        for name in names:
            self._on.setdefault((state.system, name), {})[run_id] = None
        self.retained += len(names)

    def names(self, run_id: str, lists: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the names in the host lists of a run; None where they were others when it was taken in, or it was not."""
        run = self.runs.get(run_id)
        return run.names if run is not None and run.lists == lists else None

    def leave(self, run_id: str) -> None:
        """Forget a run."""
        run = self.runs.pop(run_id, None)
        if run is None:
            return
        self.retained -= len(run.names)
        _remove(self._of_job, (run.state.system, run.state.job_id), run_id)
        for name in run.names:
            _remove(self._on, (run.state.system, name), run_id)

    def of_job(self, system: str, job_id: str) -> tuple[str, ...]:
        """Return the runs of a job."""
        return tuple(self._of_job.get((system, job_id), ()))

    def of(self, run_id: str) -> ReportedHosts:
        """Return the hosts of a run. Those that only the job itself reports count where no others are known."""
        run = self.runs[run_id]
        rows = self._rows(run)
        return ReportedHosts(len(run.names) or len(rows), rows)

    def stays(self, start_ms: int, end_ms: int) -> Stays:
        """Return all runs on hosts that touch a time."""
        return _stays((run.state, self._rows(run)) for run in self.runs.values() if _touches(run, start_ms, end_ms))

    def stays_with(self, run_id: str) -> Stays:
        """Return a run and the others on its hosts, of which each is numbered by its place among the rows of this run.

        Runs that were over before the first of its amounts began, or came after its last minute, have nothing to do with it.
        """
        run = self.runs[run_id]
        rows, state = self._rows(run), run.state
        first_ms = state.start_ms - REACH_MAX * MINUTE_MS
        last_ms = (RUNNING_MS if state.end_ms is None else state.end_ms) + MINUTE_MS
        near = {other for name in run.names for other in self._on[state.system, name]}
        near |= set(self._of_job[state.system, state.job_id])
        others = {run_id, *(other for other in near if _touches(self.runs[other], first_ms, last_ms))}
        return _stays((self.runs[other].state, _places(rows, self._rows(self.runs[other]))) for other in sorted(others))

    def _rows(self, run: _Present) -> Rows:
        if run.version != self._index.version:
            hosts, system = self._index.hosts.ids, run.state.system
            found = [row for name in run.names if (row := hosts.rows.get((system, name))) is not None]
            found += self._index.marked(system, run.state.job_id)
            run.rows, run.version = np.array(sorted(found), dtype=np.int64), self._index.version
        return run.rows


def _touches(run: _Present, start_ms: int, end_ms: int) -> bool:
    state = run.state
    return state.start_ms < end_ms and (state.end_ms is None or state.end_ms > start_ms)


def _stays(found: Iterable[tuple[ProfileRunState, Rows]]) -> Stays:
    runs = [(state, rows) for state, rows in found if len(rows)]
    count = [len(rows) for _, rows in runs]
    ends = (RUNNING_MS if state.end_ms is None else state.end_ms for state, _ in runs)
    host = np.concatenate([rows for _, rows in runs]) if runs else np.zeros(0, np.int64)
    columns: Iterator[Iterable[int]] = iter(
        ((state.row for state, _ in runs), (state.start_ms for state, _ in runs), ends)
    )
    allocated = np.array([(state.share, state.idle_w) for state, _ in runs], dtype=np.float64).reshape(-1, 2)
    run, start_ms, end_ms = (np.repeat(np.array(list(column), dtype=np.int64), count) for column in columns)
    share, idle_w = (np.repeat(column, count) for column in allocated.T)
    return Stays(host, run, start_ms, end_ms, share, idle_w)


def _places(rows: Rows, of: Rows) -> Rows:
    """Return where in `rows` those of some rows stand that are among them."""
    return np.flatnonzero(np.isin(rows, of))


def _remove(index: dict[tuple[str, str], dict[str, None]], key: tuple[str, str], run_id: str) -> None:
    found = index.get(key, {})
    found.pop(run_id, None)
    if not found:
        index.pop(key, None)


class RunSums:
    """Sums by row of the run, number of the quantity, and whether minutes were short; at most `sums_max`."""

    def __init__(self, sums_max: int) -> None:
        self.sums_max = sums_max
        self.rows = np.zeros(0, SUM)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    def add(self, given: Given) -> int:
        """Add what runs got; return how many new sums there was no room for."""
        found = added(given)
        place = np.searchsorted(self.rows["key"], found["key"])
        known = place < len(self.rows)
        known[known] = self.rows["key"][place[known]] == found["key"][known]
        for field in ("amount", "seconds"):
            self.rows[field][place[known]] += found[field][known]
        new = np.flatnonzero(~known)
        retained = new[: max(0, self.sums_max - len(self.rows))]
        if len(retained):
            self.rows = np.insert(self.rows, place[retained], found[retained])
        return len(new) - len(retained)

    def of(self, run: int) -> dict[tuple[int, bool], Sum]:
        """Return the sums of a run by quantity, and whether its minutes were short."""
        first, last = np.searchsorted(self.rows["key"], (run * _PER_RUN, (run + 1) * _PER_RUN))
        return read(self.rows[first:last])

    def drop(self, runs: npt.NDArray[np.int64]) -> None:
        """Let the sums of some runs go."""
        self.rows = self.rows[~np.isin(self.rows["key"] // _PER_RUN, runs)]

    def quantities(self) -> npt.NDArray[np.int64]:
        """Return the numbers of all quantities of which there are sums."""
        return np.unique(self.rows["key"] % _PER_RUN // 2)


def added(given: Given) -> npt.NDArray[np.void]:
    """Return what runs got as sums, by key."""
    key, place = np.unique(given.run * _PER_RUN + 2 * given.quantity + given.short, return_inverse=True)
    found = np.zeros(len(key), SUM)
    found["key"] = key
    found["amount"] = np.bincount(place, given.amount, len(key))
    found["seconds"] = np.bincount(place, given.seconds, len(key))
    return found


def read(rows: npt.NDArray[np.void]) -> dict[tuple[int, bool], Sum]:
    """Return sums of one run by quantity, and whether its minutes were short."""
    return {(key % _PER_RUN // 2, bool(key % 2)): (amount, seconds) for key, amount, seconds in rows.tolist()}


class RunTotals:
    """Sums of one run, with what is added for it alone."""

    def __init__(self, sums: RunSums, run: int) -> None:
        self._run = run
        self._amount, self._seconds = np.zeros(_PER_RUN), np.zeros(_PER_RUN)
        for (quantity, short), (amount, seconds) in sums.of(run).items():
            self._amount[2 * quantity + short], self._seconds[2 * quantity + short] = amount, seconds

    def add(self, given: Given) -> None:
        """Add what runs got, as far as it is this one's."""
        at = np.flatnonzero(given.run == self._run)
        key = 2 * given.quantity[at] + given.short[at]
        self._amount += np.bincount(key, given.amount[at], _PER_RUN)
        self._seconds += np.bincount(key, given.seconds[at], _PER_RUN)

    def of(self) -> dict[tuple[int, bool], Sum]:
        """Return the sums by quantity, and whether minutes were short."""
        there = np.flatnonzero(self._seconds)
        found = zip(there.tolist(), self._amount[there].tolist(), self._seconds[there].tolist(), strict=True)
        return {(key // 2, bool(key % 2)): (amount, seconds) for key, amount, seconds in found}


class Stayed(NamedTuple):
    """A run on so many hosts, from start to end, and how long it computed; `started` tells that its start was known."""

    hosts: int
    start_ms: int
    end_ms: int
    run_time_s: float
    started: bool


def profile(run: Stayed, whole: Totals, short: Totals, names_max: int) -> Profile:
    """Return a run's profile from the sums of whole minutes; where there is none, from minutes that were in part its own."""
    is_short = not _whole_minutes(run)
    sums = short if is_short else whole
    minutes, seconds = round(_of(sums, COVERED)[0]), _of(sums, COVERED)[1]
    expected = run.hosts * (_minutes_touched(run) if is_short else _whole_minutes(run))
    power = {each: found for each in COMPONENTS if (found := _power(sums, each)).seconds > 0}
    power_w = {each: _significant(found.energy_j / found.seconds) for each, found in power.items()}
    shared = min(round(whole.get(SHARED, NOTHING)[0]), max(expected - minutes, 0))
    split_j, split_s = whole.get(SPLIT, NOTHING)
    return Profile(
        hosts=run.hosts,
        minutes=minutes,
        expected=expected,
        shared=shared,
        split=_significant(min(split_s / (MINUTE_MS / 1000), shared)),
        split_j=_significant(split_j),
        short=is_short and minutes > 0,
        retrospective=not run.started,
        counters=_rates(sums, COUNTER, names_max),
        nic=_rates(sums, NIC, names_max),
        nic_busiest=_rates(sums, BUSIEST, names_max),
        power_w=power_w,
        energy_j={each: _significant(watts * run.hosts * run.run_time_s) for each, watts in power_w.items()},
        measured={each: _share(found.measured_s, seconds) for each, found in power.items()},
        estimated={each: _share(found.estimated_s, seconds) for each, found in power.items() if found.estimated_s},
        left_out={each: round(count) for each in REASONS if (count := _of(sums, LEFT_OUT + each)[0])},
    )


def _whole_minutes(run: Stayed) -> int:
    return max(run.end_ms // MINUTE_MS + -run.start_ms // MINUTE_MS, 0)


def _minutes_touched(run: Stayed) -> int:
    return -(-run.end_ms // MINUTE_MS) - run.start_ms // MINUTE_MS


def _of(sums: Totals, name: str) -> tuple[float, float]:
    """Return the sum of a quantity: what is reported the job alone, unless its hosts report far more time."""
    own, all_of_host = sums.get(JOB + name, NOTHING), sums.get(name, NOTHING)
    return own if 2 * own[1] >= all_of_host[1] else all_of_host


class _Power(NamedTuple):
    energy_j: float
    measured_s: float
    estimated_s: float

    @property
    def seconds(self) -> float:
        return self.measured_s + self.estimated_s


def _power(sums: Totals, component: str) -> _Power:
    """Return the energy of a component, from energy counters where no power is told, with what was estimated."""
    reported = _of(sums, POWER + component)
    measured_j, measured_s = reported if reported[1] > 0 else _of(sums, ENERGY + component)
    estimated_j, estimated_s = sums.get(ESTIMATED + component, NOTHING)
    return _Power(measured_j + estimated_j, measured_s, estimated_s)


def _share(seconds: float, of_seconds: float) -> float:
    return _significant(min(seconds / of_seconds, 1.0)) if of_seconds > 0 else 1.0


def _rates(sums: Totals, begin: str, names_max: int) -> dict[str, float]:
    """Return rates per second and host, of the quantities that were told longest; by their names."""
    names = {name.removeprefix(JOB).removeprefix(begin) for name in sums if name.removeprefix(JOB).startswith(begin)}
    found = {name: _of(sums, begin + name) for name in names}
    first = sorted(found, key=lambda name: (-found[name][1], name))[:names_max]
    return {name: _significant(found[name][0] / found[name][1]) for name in sorted(first) if found[name][1] > 0}


def _significant(value: float) -> float:
    """Return a value with as many digits as do not depend on the order in which minutes came."""
    return to_digits(value, DIGITS)
