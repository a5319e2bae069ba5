"""Attribution of the minutes of hosts to runs, the sums of each run, and the profile that these sums give.

A minute belongs to a run that had the host alone for the whole minute.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.contracts.events import JobCompleted, JobStarted
from processors.contracts.hosts import Profile
from processors.contracts.telemetry import COMPONENTS, JOB
from processors.hosts.rows import discard
from processors.models.numerics.arrays import Floats, Ints
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
    QuantityNames,
)  # fmt: skip
from processors.power.profiles.splitting import NO_ROWS, NodeShare, SharedNumbers, Split, Stays, split_minute
from processors.store import PlainProcessor
from processors.windows.settings import MINUTE_MS

REPORTS_STARTS_MS: Final = 86_400_000  # without a start for this long, a system counts as not reporting starts
RUN_MAX_MS: Final = 30 * 86_400_000  # time from the start after which a run without a reported end is forgotten
LONG_AGO_MS: Final = -(1 << 62)
RUNNING_MS: Final = 1 << 62  # the end time that stands for "still running"
DIGITS: Final = 9
SUM: Final = np.dtype([("key", "<i8"), ("amount", "<f8"), ("seconds", "<f8")])
_PER_RUN: Final = 2 * NAMES_MAX

Sum = tuple[float, float]
"""The sum of a quantity: amount, and seconds over which it was measured."""
NOTHING: Final[Sum] = (0.0, 0.0)
Totals = Mapping[str, Sum]
"""The sums of a run, by name of the quantity."""


class ReportedStarts(PlainProcessor):
    """The time at which a system last reported the start of a job; -1 before the first start.

    If a system does not report starts, a host without a known job may not be idle.
    """

    name: ClassVar[str] = "profile_starts"
    version: ClassVar[int] = 1

    last_ms: int = -1

    def score(self, fact: int) -> bool:
        """Return whether the system reported a start within REPORTS_STARTS_MS before the time `fact` in ms."""
        return self.last_ms >= 0 and fact - self.last_ms <= REPORTS_STARTS_MS

    def learn(self, fact: int) -> None:
        self.last_ms = max(self.last_ms, fact)

    def due_ms(self) -> int | None:
        return self.last_ms + REPORTS_STARTS_MS + 1


class ProfileRun(PlainProcessor, omit_defaults=True):
    """One run of a job whose profile is computed. `hosts` are host lists as reported, `row` is the row of its sums.

    `replaced` is True if the end was assumed because a later run of the job started. `spoiled` is True if the end was reported so
    late that minutes after the end were already attributed to the run. `share` and `idle_w` are the fields of its `NodeShare`.
    """

    name: ClassVar[str] = "profile_run"
    version: ClassVar[int] = 1

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

    def score(self, fact: JobStarted | JobCompleted) -> bool:
        """Return whether `learn(fact)` would change the run."""
        after = self.snapshot()
        after.learn(fact)
        return after != self

    def learn(self, fact: JobStarted | JobCompleted) -> None:
        """Learn the start or the end of the run; the hosts of the last report count."""
        self.system, self.job_id, self.start_ms = fact.system, fact.job_id, fact.start_ms
        if isinstance(fact, JobStarted):
            self.started = True
            self.hosts = self.hosts or fact.evidence.hosts
            return
        self.end_ms, self.run_time_s, self.replaced = fact.end_ms, fact.run_time_s, False
        self.hosts = fact.evidence.hosts or self.hosts

    def allocate(self, node_share: NodeShare) -> None:
        if node_share.share > 0.0:
            self.share, self.idle_w = node_share

    def replace_at(self, end_ms: int) -> None:
        """End the run at the start of a later run of the same job, because the end of this run was not reported."""
        self.end_ms, self.replaced = end_ms, True
        self.run_time_s = (end_ms - self.start_ms) / 1000

    def due_ms(self) -> int | None:
        return self.start_ms + RUN_MAX_MS if self.keep_until_ms is None else self.keep_until_ms


class RetainedMinutes:
    """Closed minutes that are not attributed to runs yet, because starts and ends of runs may be reported late.

    A minute has amounts: the total of a quantity on one host. At most `amounts_max` amounts are kept, the oldest minutes are
    dropped first.
    """

    def __init__(self, amounts_max: int) -> None:
        self.amounts_max = amounts_max
        self.minutes: dict[int, Amounts] = {}
        self._hosts: dict[int, npt.NDArray[np.int32]] = {}  # rows of hosts as contiguous arrays for searching
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, minute_ms: int, amounts: Amounts) -> int:
        """Add a closed minute; return the number of old amounts that were dropped to make room."""
        self.minutes[minute_ms] = amounts
        self._hosts[minute_ms] = np.ascontiguousarray(amounts["host"])
        self._count += len(amounts)
        dropped = 0
        while self._count > self.amounts_max and len(self.minutes) > 1:
            dropped += len(self.take(min(self.minutes)))
        return dropped

    def take(self, minute_ms: int) -> Amounts:
        amounts = self.minutes.pop(minute_ms)
        del self._hosts[minute_ms]
        self._count -= len(amounts)
        return amounts

    def within(self, start_ms: int, end_ms: int, hosts: npt.NDArray[np.int64]) -> Iterator[tuple[int, Amounts]]:
        """Yield the minutes that overlap a period, ascending, with the amounts of `hosts` (k,).

        In the yielded amounts, a host is numbered by its position in `hosts`.
        """
        rows = hosts.astype(np.int32)
        for minute_ms in sorted(self.minutes):
            if start_ms - MINUTE_MS < minute_ms < end_ms:
                first, last = (np.searchsorted(self._hosts[minute_ms], rows, side) for side in ("left", "right"))
                count = last - first
                before = np.cumsum(count) - count
                selected = self.minutes[minute_ms][np.repeat(first - before, count) + np.arange(count.sum())]
                selected["host"] = np.repeat(np.arange(len(hosts)), count)
                yield minute_ms, selected


class Attributed(NamedTuple):
    """The parts of m amounts that belong to runs: row of the run, number of the quantity, amount, and the seconds that it covers.

    `short` is True if the run began or ended within the minute.
    """

    run: Ints
    quantity: Ints
    short: npt.NDArray[np.bool_]
    amount: Floats
    seconds: Floats


def given(minute_ms: int, amounts: Amounts, stays: Stays, hosts: int, numbers: SharedNumbers) -> Attributed:
    """Attribute the amounts of a minute to the runs on the hosts; `hosts` is the number of host rows.

    An amount that covers several minutes goes to a run that had the host alone in all of them. A run that began or ended within the
    minute gets the part of an amount for its time on the host, marked as `short`. If several runs were on a host, the minute is
    counted as shared for each of them, and each gets a part of the energy of the host.
    """
    end_ms = minute_ms + MINUTE_MS
    present = (stays.start_ms < end_ms) & (stays.end_ms > minute_ms)
    count = np.bincount(stays.host[present], minlength=hosts)
    run, start_ms, stop_ms = (np.full(hosts, -1, np.int64) for _ in range(3))
    for column, values in ((run, stays.run), (start_ms, stays.start_ms), (stop_ms, stays.end_ms)):
        column[stays.host[present]] = values[present]
    earlier, earlier_end_ms = stays.end_ms <= minute_ms, np.full(hosts, LONG_AGO_MS)
    np.maximum.at(earlier_end_ms, stays.host[earlier], stays.end_ms[earlier])
    host, reach = amounts["host"], amounts["reach"].astype(np.int64)
    from_ms, is_single = end_ms - reach * MINUTE_MS, count[host] == 1
    is_whole = is_single & (earlier_end_ms[host] <= from_ms) & (start_ms[host] <= from_ms) & (stop_ms[host] >= end_ms)
    is_part = is_single & ~is_whole & (reach == 1) & ((start_ms[host] > minute_ms) | (stop_ms[host] < end_ms))
    inside_ms = np.minimum(stop_ms[host], end_ms) - np.maximum(start_ms[host], minute_ms)
    share = np.where(is_part, inside_ms / MINUTE_MS, 1.0)
    is_count = amounts["quantity"] < len(ALWAYS)  # a count is never scaled
    columns = (
        run[host],
        amounts["quantity"].astype(np.int64),
        is_part,
        amounts["amount"] * np.where(is_count, 1.0, share),
        reach * share * (MINUTE_MS / 1000),
    )
    attributed = Attributed._make(column[is_whole | is_part] for column in columns)
    if numbers.busiest:
        attributed = _of_busiest_host(attributed, numbers.busiest)
    joint = present & (count[stays.host] > 1)
    if not joint.any():
        return attributed
    return Attributed(
        *map(np.concatenate, zip(attributed, *_of_shared(minute_ms, amounts, stays, joint, numbers), strict=True))
    )


def _keys(attributed: Attributed) -> Ints:
    return attributed.run * _PER_RUN + 2 * attributed.quantity + attributed.short


def _of_busiest_host(attributed: Attributed, quantities: tuple[int, ...]) -> Attributed:
    """Keep only the largest amount of any host for each run and each of `quantities`; keep all amounts of other quantities."""
    keys = _keys(attributed)
    falling = np.lexsort((-attributed.amount, keys))
    retained = ~np.isin(attributed.quantity, quantities)
    retained[falling[np.unique(keys[falling], return_index=True)[1]]] = True
    return Attributed._make(column[retained] for column in attributed)


def _of_shared(
    minute_ms: int, amounts: Amounts, stays: Stays, joint: npt.NDArray[np.bool_], numbers: SharedNumbers
) -> Iterator[Attributed]:
    """Yield for the runs on shared hosts first the counts of shared minutes, then their parts of the energy of the hosts."""
    runs = stays.run[joint & np.isin(stays.host, amounts["host"])]  # each shared run, once for each reporting host
    split_energy = split_minute(minute_ms, amounts, stays.at(joint), numbers)
    minutes = Split(runs, np.ones(len(runs)), np.full(len(runs), MINUTE_MS / 1000))
    for quantity, part in ((numbers.shared, minutes), (numbers.split or 0, split_energy)):
        count = len(part.run)
        yield Attributed(part.run, np.full(count, quantity), np.zeros(count, np.bool_), part.energy_j, part.seconds)


@dataclass(slots=True, eq=False)
class _Present:
    """A run in `Occupancy`. `names` are the host names in its host lists `lists`; `rows` are their rows in the index `version`."""

    state: ProfileRun
    lists: tuple[str, ...]
    names: tuple[str, ...]
    rows: Ints = field(default_factory=lambda: NO_ROWS)
    version: int = -1


class Occupancy:
    """The runs that are on each host, or were recently, as long as the runs are kept. Runs are identified by their ids."""

    def __init__(self, index: MeterIndex) -> None:
        self._index = index
        self.runs: dict[str, _Present] = {}
        self._on: dict[tuple[str, str], dict[str, None]] = {}
        self._of_job: dict[tuple[str, str], dict[str, None]] = {}
        self.retained = 0

    def enter(self, run_id: str, state: ProfileRun, names: tuple[str, ...]) -> None:
        present = self.runs.get(run_id)
        if present is not None and present.names == names:
            present.state, present.lists = state, state.hosts
            return
        self.leave(run_id)
        self.runs[run_id] = _Present(state, state.hosts, names)
        self._of_job.setdefault((state.system, state.job_id), {})[run_id] = None
        for name in names:
            self._on.setdefault((state.system, name), {})[run_id] = None
        self.retained += len(names)

    def names(self, run_id: str, lists: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the host names of a run; None if its host lists have changed or the run is unknown."""
        run = self.runs.get(run_id)
        return run.names if run is not None and run.lists == lists else None

    def leave(self, run_id: str) -> None:
        run = self.runs.pop(run_id, None)
        if run is None:
            return
        self.retained -= len(run.names)
        discard(self._of_job, (run.state.system, run.state.job_id), run_id)
        for name in run.names:
            discard(self._on, (run.state.system, name), run_id)

    def of_job(self, system: str, job_id: str) -> tuple[str, ...]:
        return tuple(self._of_job.get((system, job_id), ()))

    def of(self, run_id: str) -> tuple[int, Ints]:
        """Return the number of hosts of a run, and the rows (k,) of those hosts that have sent reports, ascending.

        If the host lists of the run are unknown, its hosts are those that reported for its job alone.
        """
        run = self.runs[run_id]
        rows = self._rows(run)
        return len(run.names) or len(rows), rows

    def stays(self, start_ms: int, end_ms: int) -> Stays:
        return _stays((run.state, self._rows(run)) for run in self.runs.values() if _touches(run, start_ms, end_ms))

    def stays_with(self, run_id: str) -> Stays:
        """Return the stays of a run and of the other runs on its hosts; hosts are numbered by position among this run's hosts.

        Runs are left out if they ended before the first amount of this run can begin, or began after its last minute.
        """
        run = self.runs[run_id]
        rows, state = self._rows(run), run.state
        first_ms, last_ms = state.start_ms - REACH_MAX * MINUTE_MS, _end_ms(state) + MINUTE_MS
        candidates = {run_id, *self._of_job[state.system, state.job_id]}
        candidates.update(*(self._on[state.system, name] for name in run.names))
        present = [self.runs[other] for other in sorted(candidates)]
        return _stays(
            (other.state, np.flatnonzero(np.isin(rows, self._rows(other))))
            for other in present
            if other is run or _touches(other, first_ms, last_ms)
        )

    def _rows(self, run: _Present) -> Ints:
        if run.version != self._index.version:
            hosts, system = self._index.hosts.ids, run.state.system
            rows = [row for name in run.names if (row := hosts.rows.get((system, name))) is not None]
            rows += self._index.marked(system, run.state.job_id)
            run.rows, run.version = np.array(sorted(rows), dtype=np.int64), self._index.version
        return run.rows


def _end_ms(run: ProfileRun) -> int:
    return RUNNING_MS if run.end_ms is None else run.end_ms


def _touches(run: _Present, start_ms: int, end_ms: int) -> bool:
    return run.state.start_ms < end_ms and _end_ms(run.state) > start_ms


def _stays(states: Iterable[tuple[ProfileRun, Ints]]) -> Stays:
    runs = [(state, rows) for state, rows in states if len(rows)]
    count = [len(rows) for _, rows in runs]
    host = np.concatenate([NO_ROWS, *(rows for _, rows in runs)])
    times = np.array([(state.row, state.start_ms, _end_ms(state)) for state, _ in runs], np.int64)
    allocated = np.array([(state.share, state.idle_w) for state, _ in runs], np.float64)
    run, start_ms, end_ms = np.repeat(times.reshape(-1, 3), count, axis=0).T
    share, idle_w = np.repeat(allocated.reshape(-1, 2), count, axis=0).T
    return Stays(host, run, start_ms, end_ms, share, idle_w)


class RunSums:
    """The sums of all runs, at most `sums_max`.

    A sum has a key: row of the run, number of the quantity, and whether it counts minutes in which the run began or ended.
    """

    def __init__(self, sums_max: int) -> None:
        self.sums_max = sums_max
        self.rows = np.zeros(0, SUM)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, attributed: Attributed) -> int:
        """Add amounts of runs; return the number of new sums that were refused for lack of room."""
        key, run_sum = np.unique(_keys(attributed), return_inverse=True)
        new_sums = np.zeros(len(key), SUM)
        new_sums["key"] = key
        for column, values in (("amount", attributed.amount), ("seconds", attributed.seconds)):
            new_sums[column] = np.bincount(run_sum, values, len(key))
        place = np.searchsorted(self.rows["key"], new_sums["key"])
        exists = place < len(self.rows)
        exists[exists] = self.rows["key"][place[exists]] == new_sums["key"][exists]
        for column in ("amount", "seconds"):
            self.rows[column][place[exists]] += new_sums[column][exists]
        new = np.flatnonzero(~exists)
        retained = new[: max(0, self.sums_max - len(self.rows))]
        if len(retained):
            self.rows = np.insert(self.rows, place[retained], new_sums[retained])
        return len(new) - len(retained)

    def of(self, run: int) -> npt.NDArray[np.void]:
        first, last = np.searchsorted(self.rows["key"], (run * _PER_RUN, (run + 1) * _PER_RUN))
        return self.rows[first:last]

    def drop(self, runs: npt.NDArray[np.int64]) -> None:
        self.rows = self.rows[~np.isin(self.rows["key"] // _PER_RUN, runs)]

    def quantities(self) -> npt.NDArray[np.int64]:
        return np.unique(self.rows["key"] % _PER_RUN // 2)


class RunTotals:
    """The sums of one run: the stored sums, and amounts of minutes that are not attributed yet."""

    def __init__(self, sums: RunSums, run: int) -> None:
        self._run = run
        self._amount, self._seconds = np.zeros(_PER_RUN), np.zeros(_PER_RUN)
        stored = sums.of(run)
        key = stored["key"] % _PER_RUN
        self._amount[key], self._seconds[key] = stored["amount"], stored["seconds"]

    def add(self, attributed: Attributed) -> None:
        positions = np.flatnonzero(attributed.run == self._run)
        key = _keys(attributed)[positions] % _PER_RUN
        self._amount += np.bincount(key, attributed.amount[positions], _PER_RUN)
        self._seconds += np.bincount(key, attributed.seconds[positions], _PER_RUN)

    def of(self, names: QuantityNames, *, short: bool) -> Totals:
        """Return the sums by name: of whole minutes, or if `short` is True, of minutes in which the run began or ended."""
        numbers = np.flatnonzero(self._seconds[short::2])
        sums = zip(self._amount[short::2][numbers].tolist(), self._seconds[short::2][numbers].tolist(), strict=True)
        return dict(zip(map(names.of, numbers.tolist()), sums, strict=True))


def profile(run: ProfileRun, hosts: int, total: RunTotals, names: QuantityNames, names_max: int) -> Profile:
    """Return the profile of a run from its whole minutes.

    A run without a whole minute gets a profile from the minutes in which it began and ended, marked as `short`.
    """
    end_ms = run.end_ms or run.start_ms
    whole_minutes = max(end_ms // MINUTE_MS + -run.start_ms // MINUTE_MS, 0)
    is_short, whole = not whole_minutes, total.of(names, short=False)
    sums = total.of(names, short=True) if is_short else whole
    covered, seconds = _of(sums, COVERED)
    minutes = round(covered)
    expected = hosts * (whole_minutes or -(-end_ms // MINUTE_MS) - run.start_ms // MINUTE_MS)
    power = {name: figure for name in COMPONENTS if (figure := _power(sums, name)).known_s > 0}
    power_w = {name: _significant(figure.energy_j / figure.known_s) for name, figure in power.items()}
    shared = min(round(whole.get(SHARED, NOTHING)[0]), max(expected - minutes, 0))
    split_j, split_s = whole.get(SPLIT, NOTHING)
    return Profile(
        hosts=hosts,
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
        energy_j={name: _significant(watts * hosts * run.run_time_s) for name, watts in power_w.items()},
        measured={name: _share(figure.measured_s, seconds) for name, figure in power.items()},
        estimated={name: _share(figure.estimated_s, seconds) for name, figure in power.items() if figure.estimated_s},
        left_out={name: round(count) for name in REASONS if (count := _of(sums, LEFT_OUT + name)[0])},
    )


def _of(sums: Totals, name: str) -> tuple[float, float]:
    """Return the sum of a quantity that was reported for the job alone.

    The sum reported for the whole hosts is used instead if it covers more than twice the time.
    """
    of_job, all_of_host = sums.get(JOB + name, NOTHING), sums.get(name, NOTHING)
    return of_job if 2 * of_job[1] >= all_of_host[1] else all_of_host


class _Power(NamedTuple):
    energy_j: float
    measured_s: float
    estimated_s: float

    @property
    def known_s(self) -> float:
        return self.measured_s + self.estimated_s


def _power(sums: Totals, component: str) -> _Power:
    """Return the measured and estimated energy of a component; without power readings, from energy counters."""
    reported = _of(sums, POWER + component)
    measured_j, measured_s = reported if reported[1] > 0 else _of(sums, ENERGY + component)
    estimated_j, estimated_s = sums.get(ESTIMATED + component, NOTHING)
    return _Power(measured_j + estimated_j, measured_s, estimated_s)


def _share(seconds: float, of_seconds: float) -> float:
    return _significant(min(seconds / of_seconds, 1.0)) if of_seconds > 0 else 1.0


def _rates(sums: Totals, begin: str, names_max: int) -> dict[str, float]:
    """Return the rates per second and host of the quantities whose names begin with `begin`.

    Of more than `names_max` quantities, those that were reported for the longest time are returned.
    """
    names = {name.removeprefix(JOB).removeprefix(begin) for name in sums if name.removeprefix(JOB).startswith(begin)}
    longest = sorted((-seconds, name, amount) for name in names for amount, seconds in [_of(sums, begin + name)])
    return {
        name: _significant(amount / -less_s)
        for less_s, name, amount in sorted(longest[:names_max], key=itemgetter(1))
        if less_s
    }


def _significant(value: float) -> float:
    """Round to DIGITS significant digits, so that the value does not depend on the order in which minutes arrived."""
    return to_digits(value, DIGITS)
