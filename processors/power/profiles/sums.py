"""What runs got so far, summed by run and quantity."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.contracts.errors import ConfigError
from processors.contracts.hosts import Profile
from processors.contracts.settings import ProfileSettings
from processors.contracts.telemetry import COMPONENTS, JOB
from processors.hosts.rows import HEAL, Block, BlockCopy, decoded
from processors.models.statistics import to_digits
from processors.power.profiles.attribution import Given
from processors.power.profiles.finalisation import AMOUNT, KeptMinutes
from processors.power.profiles.ingest import READING, WaitingReadings
from processors.power.profiles.meters import (
    ALWAYS,
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
    MeterIndex,
    QuantityNames,
)
from processors.windows.settings import MINUTE_MS

# From what a run got to its profile.


DIGITS: Final = 9
NOTHING: Final = (0.0, 0.0)
Totals = Mapping[str, tuple[float, float]]
"""Amount and seconds by quantity."""


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
    return Profile(
        hosts=run.hosts,
        minutes=minutes,
        expected=expected,
        shared=min(round(whole.get(SHARED, NOTHING)[0]), max(expected - minutes, 0)),
        short=is_short and minutes > 0,
        retrospective=not run.started,
        counters=_rates(sums, COUNTER, names_max),
        nic=_rates(sums, NIC, names_max),
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
    """Return the sum of a quantity: what is told of the job alone, unless its hosts tell of far more time."""
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
    told = _of(sums, POWER + component)
    measured_j, measured_s = told if told[1] > 0 else _of(sums, ENERGY + component)
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


SUM: Final = np.dtype([("key", "<i8"), ("amount", "<f8"), ("seconds", "<f8")])
_PER_RUN: Final = 2 * NAMES_MAX

Sum = tuple[float, float]
"""Amount and seconds."""


class Sums:
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
        kept = new[: max(0, self.sums_max - len(self.rows))]
        if len(kept):
            self.rows = np.insert(self.rows, place[kept], found[kept])
        return len(new) - len(kept)

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


class Total:
    """Sums of one run, with what is added for it alone."""

    def __init__(self, sums: Sums, run: int) -> None:
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


# What profiles are made from, as it is kept: meters, readings that wait, closed minutes, sums of runs; and its stored form.


NAMES, WAITING, MINUTES, SUMS = "profile_names", "profile_readings", "profile_minutes", "profile_sums"
ARRAYS: Final = (NAMES, WAITING, MINUTES, SUMS)
DTYPES: Final = {WAITING: READING, MINUTES: AMOUNT, SUMS: SUM}
VERSION: Final = 1
CHUNK_BYTES_MAX: Final = 240_000
WAITING_MINUTES: Final = 8  # of all meters
KEPT_MINUTES: Final = 64


class ProfileStore:
    """All that profiles are made from but the runs."""

    def __init__(self, settings: ProfileSettings) -> None:
        self._meters_max = settings.resources_max
        self.names = QuantityNames()
        self.index = MeterIndex(settings.resources_max, self.names)
        self.waiting = WaitingReadings(WAITING_MINUTES * settings.resources_max)
        self.kept = KeptMinutes(KEPT_MINUTES * settings.resources_max)
        self.sums = Sums(settings.resources_max)

    def sizes(self) -> dict[str, int]:
        """Return the number of rows by kind of state."""
        counts = (len(self.names), len(self.waiting), len(self.kept), len(self.sums))
        return self.index.sizes() | dict(zip(ARRAYS, counts, strict=True))

    def copied(self) -> dict[str, BlockCopy]:
        """Return a copy of all that is to be stored, by key."""
        found = self.index.copied()
        if len(self.names) > len(ALWAYS):
            names = [None if name is None else ("", name) for name in self.names.all]
            found[f"{NAMES}/0"] = BlockCopy(VERSION, b"", 0, names)
        for key, array in self._arrays():
            rows = CHUNK_BYTES_MAX // array.itemsize
            for first in range(0, len(array), rows):
                found[f"{key}{first // rows}"] = BlockCopy(VERSION, array[first : first + rows].tobytes(), 0, ())
        return found

    def forget_names(self) -> None:
        """Let names of quantities go that nothing has any more, where there are many."""
        if len(self.index.series.ids) and len(self.names) <= NAMES_MAX * 3 // 4:
            return
        rows = [row for row, _ in self.index.series.ids]
        kept = [amounts["quantity"] for amounts in self.kept.minutes.values()]
        used = np.concatenate([self.index.quantity_of[rows], self.sums.quantities(), *kept, np.arange(len(ALWAYS))])
        self.names.keep(np.unique(used).tolist())

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Put stored states back; ConfigError where this agent can not read them. All begins anew where names are older."""
        arrays = {key: value for key, value in states.items() if key.partition("/")[0] in ARRAYS}
        found = decoded(arrays, dict.fromkeys(ARRAYS, VERSION))
        if f"{NAMES}/0" not in found:
            return
        self.index.restore({key: value for key, value in states.items() if key not in arrays})
        try:
            self.names.restore(_names(found.pop(f"{NAMES}/0")))
            self._put_back(found)
        except ValueError as error:
            raise ConfigError(f"The stored states of profiles are damaged ({error}): {HEAL}") from error
        self.index.noted()

    def _put_back(self, found: Mapping[str, Block]) -> None:
        parts: dict[tuple[str, int], list[bytes]] = {}
        for key in sorted(found, key=_place):
            kind, _, place = key.partition("/")
            parts.setdefault((kind, int(place.partition(".")[0]) if "." in place else 0), []).append(found[key].data)
        for (kind, minute_ms), data in parts.items():
            array = np.frombuffer(b"".join(data), DTYPES[kind]).copy()
            if kind == WAITING:
                self.waiting.add(minute_ms, _within(array, "meter", self.index.series.ids.end))
            elif kind == MINUTES:
                self.kept.add(minute_ms, _within(array, "host", self.index.hosts.ids.end))
            else:
                self.sums.rows = array

    def _arrays(self) -> Iterator[tuple[str, npt.NDArray[np.void]]]:
        yield from ((f"{WAITING}/{minute_ms}.", readings) for minute_ms, readings in self.waiting.by_minute())
        yield from ((f"{MINUTES}/{minute_ms}.", amounts) for minute_ms, amounts in sorted(self.kept.minutes.items()))
        yield f"{SUMS}/", self.sums.rows


def _place(key: str) -> tuple[int, ...]:
    """Return where a chunk stands: by minute, and in it by number."""
    return tuple(map(int, key.partition("/")[2].split(".")))


def _names(block: Block) -> list[str | None]:
    found = {row: name for row, _, name in block.names}
    return [found.get(number) for number in range(max(found, default=-1) + 1)]


def _within(array: npt.NDArray[np.void], field: str, end: int) -> npt.NDArray[np.void]:
    if len(array) and not 0 <= int(array[field].min()) <= int(array[field].max()) < end:
        raise ValueError(f"a {field} is none that is known")
    return array
