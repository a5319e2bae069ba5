"""A minute of hosts is closed: from what meters told to amounts that hosts did, as far as that can be believed."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.settings import ProfileSettings
from processors.contracts.telemetry import JOB
from processors.hosts.rows import NEVER_MS
from processors.models.energy import Step, increments
from processors.models.power import PowerModel, believable
from processors.power.profiles.ingest import Readings, last_word
from processors.power.profiles.meters import COVERED, LEFT_OUT, REASONS, Kind, MeterRoster
from processors.windows.settings import MINUTE_MS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


# The power of hosts without a sensor, from their counters: a model for each kind of host, learned where sensors are.


EVENTS_MAX: Final = 8
QUIET_MS: Final = 86_400_000
BEYOND: Final = 1.2  # times the largest power that was measured is the most that is estimated


class PowerSample(NamedTuple):
    """What a host of a kind did in a minute: events per second, by `names`, and the watts of a component."""

    names: tuple[str, ...]
    rates: tuple[float, ...]
    power_w: float
    minute_ms: int


class HostPowerState(msgspec.Struct):
    """Stored form: the state of the model, and when it was taught last."""

    model: dict[str, Any] | None = None
    taught_ms: int = -1


class HostPower:
    """Power of one component of one kind of host, from its counters."""

    name: ClassVar[str] = "profile_power"
    version: ClassVar[int] = 1

    def __init__(self, state: HostPowerState) -> None:
        self._taught_ms = state.taught_ms
        self._model: PowerModel | None = None
        if state.model is not None:
            self._model = PowerModel(state.model["events"], state=deepcopy(state.model))

    @classmethod
    def build(cls, state: HostPowerState | None = None) -> "HostPower":
        """Return the power of a stored state, or one of which nothing is known."""
        return cls(state or HostPowerState())

    @property
    def events(self) -> tuple[str, ...]:
        """The counters that it goes by; none before anything was learned."""
        return () if self._model is None else self._model.events

    @property
    def error_w(self) -> float | None:
        """The median error of late, in W; None where it is not known yet."""
        return None if self._model is None else self._model.error_w()

    def score(self, fact: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
        """Return the watts (m,) that rates of its events (m, events) let expect; None before a model was learned.

        They are never negative, and not far above what was measured.
        """
        found = None if self._model is None else self._model.estimates(fact)
        largest_w = None if self._model is None else self._model.largest_w()
        return None if found is None or largest_w is None else found.clip(0.0, BEYOND * largest_w)

    def learn(self, fact: PowerSample) -> None:
        """Take in what a host with a sensor did."""
        if self._model is None:
            self._model = PowerModel(fact.names)
        if fact.names == self._model.events:
            self._model.learn(fact.rates, fact.power_w)
            self._taught_ms = max(self._taught_ms, fact.minute_ms)

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        return self._taught_ms + QUIET_MS

    def snapshot(self) -> HostPowerState:
        """Return the stored form."""
        return HostPowerState(None if self._model is None else self._model.snapshot(), self._taught_ms)


AMOUNT: Final = np.dtype([("host", "<i4"), ("quantity", "<i2"), ("reach", "<i2"), ("amount", "<f8")])
Amounts = npt.NDArray[np.void]
"""What hosts did, by host: row of the host, number of the quantity, how many minutes it took, and how much it was."""

NO_NUMBER: Final = -1  # of a quantity of which there are too many
REACH_MAX: Final = 5  # minutes; after a longer silence a count begins anew
SLOWEST_WRAP_S: Final = 240.0  # an energy counter goes round in this time at the most that is believed of its part
PART_QUIET_MS: Final = REACH_MAX * MINUTE_MS  # a part that was silent for so long is no longer waited for


class Told(NamedTuple):
    """What m meters told of a minute, each once: its row, how many samples, a value as `processors.power.profiles.ingest` reads it."""

    meter: Ints
    samples: Ints
    value: Floats


class Close:
    """Closes minutes, the oldest first, and keeps in the columns of the meters what each told last."""

    def __init__(self, roster: MeterRoster, settings: ProfileSettings) -> None:
        self._roster, self._settings = roster, settings

    def minute(self, minute_ms: int, readings: Readings) -> Amounts:
        """Return what hosts did in a minute, by host; with it, as quantities, what was covered and what was left out."""
        told = _together(last_word(readings), self._roster.kind_of)
        new = self._roster.learned_ms()[told.meter] < minute_ms
        told = Told(told.meter[new], told.samples[new], told.value[new])
        amount, reach, reason = self._read(minute_ms, told)
        self._roster.learned_ms()[told.meter] = minute_ms
        amounts, in_part = self._whole(minute_ms, told.meter, amount, reach)
        bad = np.flatnonzero(reason >= 0)
        hosts = np.concatenate([self._roster.host_of[told.meter[bad]], in_part])
        reasons = np.concatenate([reason[bad], np.full(len(in_part), REASONS.index("part"))])
        counted = [self._covered(minute_ms, amounts), self._left_out(hosts, reasons)]
        found = np.concatenate([amounts, *counted])
        return found[np.argsort(found["host"], kind="stable")]

    def _read(self, minute_ms: int, told: Told) -> tuple[Floats, Ints, Ints]:
        """Return amounts (m,), nan where there is none, over how many minutes each, and why one was left out (-1: not)."""
        kind, lasts = self._roster.kind_of[told.meter], self._roster.lasts
        before_ms = self._roster.learned_ms()[told.meter]
        gap = np.where(before_ms == NEVER_MS, 0, (minute_ms - before_ms) // MINUTE_MS)
        known = (gap >= 1) & (gap <= REACH_MAX)
        usual = lasts["reach"][told.meter]
        slow = known & (usual > 1) & (told.samples <= 1)  # sampled every few minutes; else minutes got lost
        reach = np.where(slow, np.minimum(gap, usual), 1)
        reason = np.full(len(kind), -1)
        amount = told.value.copy()
        counts = (kind == Kind.TOTAL) | (kind == Kind.ENERGY) | (kind == Kind.MEMORY_ENERGY)
        power = (kind == Kind.POWER) | (kind == Kind.GPU_POWER)
        at = np.flatnonzero(power)
        amount[at], reason[at] = self._power(told.value[at], kind[at] == Kind.GPU_POWER)
        at = np.flatnonzero(~power & ~counts)
        amount[at], reason[at] = _not_negative(told.value[at])
        amount[kind >= Kind.POWER] *= reach[kind >= Kind.POWER]  # a level is the same in minutes that are not told
        at = np.flatnonzero(counts)
        reach[at] = np.where(known[at], gap[at], 1)
        before = np.where(known[at], lasts["last"][told.meter[at]], np.nan)
        amount[at], reason[at] = self._grown(kind[at], before, told.value[at], gap[at])
        lasts["last"][told.meter[at]] = told.value[at]
        lasts["reach"][told.meter] = np.where(known, gap, 1)
        return amount, reach, reason

    def _power(self, energy_j: Floats, may_be_off: npt.NDArray[np.bool_]) -> tuple[Floats, Ints]:
        watts = energy_j / (MINUTE_MS / 1000)
        off = may_be_off & (watts == 0)
        found = believable(np.where(off, 1.0, watts), most_w=self._settings.host_power_max_w)
        reasons = np.select([np.isnan(watts), watts < 0, watts == 0], [*map(REASONS.index, REASONS[:3])], 3)
        good = np.isfinite(found)
        return np.where(good, energy_j, np.nan), np.where(good, -1, reasons)

    def _grown(self, kind: npt.NDArray[np.int8], before: Floats, now: Floats, gap: Ints) -> tuple[Floats, Ints]:
        settings = self._settings
        spans = {Kind.ENERGY: settings.energy_range_j, Kind.MEMORY_ENERGY: settings.memory_energy_range_j}
        span, most = np.full(len(kind), np.inf), np.full(len(kind), np.inf)
        for each, whole in spans.items():
            span[kind == each] = whole
            most[kind == each] = min(settings.host_power_max_w, whole / SLOWEST_WRAP_S)
        found = increments(before, now, gap * (MINUTE_MS / 1000), span, most)
        reasons = np.full(len(kind), -1)
        for step, reason in ((Step.RESET, "reset"), (Step.DOUBTFUL, "doubtful")):
            reasons[found.step == step] = REASONS.index(reason)
        reasons[~(now >= 0)] = REASONS.index("negative")
        reasons[np.isnan(now)] = REASONS.index("missing")
        return found.amount, reasons

    def _whole(self, minute_ms: int, meter: Ints, amount: Floats, reach: Ints) -> tuple[Amounts, Ints]:
        """Return the amounts of hosts: those of parts together, where all that usually tell did, over the same time.

        With them the hosts of which only some parts told, once for each quantity.
        """
        roster = self._roster
        host, quantity = roster.host_of[meter].astype(np.int64), roster.quantity_of[meter].astype(np.int64)
        parts, place = np.unique(host * (1 << 16) + quantity, return_inverse=True)
        size, there, all_of_host = len(parts), np.isfinite(amount), ~roster.part_of[meter]
        has_whole = np.bincount(place[there & all_of_host], minlength=size) > 0
        there &= all_of_host | ~has_whole[place]
        count = np.bincount(place[there], minlength=size)
        total = np.bincount(place[there], amount[there], size)
        level = np.bincount(place[there], roster.kind_of[meter[there]] == Kind.LEVEL, size) > 0
        total = np.where(level, total / np.maximum(count, 1), total)
        longest, shortest = np.zeros(size, np.int64), np.full(size, REACH_MAX + 1)
        np.maximum.at(longest, place[there], reach[there])
        np.minimum.at(shortest, place[there], reach[there])
        all_there = has_whole | level | (count >= self._parts_expected(minute_ms, parts))
        good = (count > 0) & all_there & (longest == shortest)
        found = np.zeros(int(good.sum()), AMOUNT)
        found["host"], found["quantity"] = parts[good] >> 16, parts[good] & 0xFFFF
        found["reach"], found["amount"] = longest[good], total[good]
        return found, parts[(count > 0) & ~good] >> 16

    def _parts_expected(self, minute_ms: int, parts: Ints) -> Ints:
        """Return how many meters told each of some quantities of hosts of late."""
        roster = self._roster
        late = np.flatnonzero(roster.learned_ms()[: len(roster.kind_of)] > minute_ms - PART_QUIET_MS)
        key = roster.host_of[late].astype(np.int64) * (1 << 16) + roster.quantity_of[late]
        place = np.searchsorted(parts, key)
        known = place < len(parts)
        known[known] = parts[place[known]] == key[known]
        return np.bincount(place[known], minlength=len(parts))

    def _covered(self, minute_ms: int, amounts: Amounts) -> Amounts:
        """Return how many minutes each host covered with what takes it the least time, none of them twice."""
        roster, end_ms = self._roster, minute_ms + MINUTE_MS
        host, first, place = np.unique(amounts["host"], return_index=True, return_inverse=True)
        shortest = np.full(len(host), REACH_MAX)
        np.minimum.at(shortest, place, amounts["reach"])
        until_ms = roster.covered["until_ms"]
        new = np.where(until_ms[host] == NEVER_MS, shortest, (end_ms - until_ms[host]) // MINUTE_MS)
        until_ms[host] = end_ms
        found = np.zeros(len(host), AMOUNT)
        found["host"], found["reach"] = host, np.clip(new, 1, shortest)
        found["amount"] = found["reach"]
        own = roster.own[amounts["quantity"][first]]
        found["quantity"] = np.where(own, *(self._number(name) for name in (JOB + COVERED, COVERED)))
        return found

    def _left_out(self, hosts: Ints, reasons: Ints) -> Amounts:
        """Return how many readings of each host were left out, by reason."""
        key, count = np.unique(hosts * len(REASONS) + reasons, return_counts=True)
        numbers = np.array([self._number(LEFT_OUT + name) for name in REASONS])
        found = np.zeros(len(key), AMOUNT)
        found["host"], found["quantity"] = key // len(REASONS), numbers[key % len(REASONS)]
        found["reach"], found["amount"] = 1, count
        return found

    def _number(self, name: str) -> int:
        number = self._roster.names.number(name)
        return NO_NUMBER if number is None else number


def _not_negative(value: Floats) -> tuple[Floats, Ints]:
    good = (value >= 0) & np.isfinite(value)
    reasons = np.where(np.isnan(value), REASONS.index("missing"), REASONS.index("negative"))
    return np.where(good, value, np.nan), np.where(good, -1, reasons)


def _together(readings: Readings, kinds: npt.NDArray[np.int8]) -> Told:
    """Return what several sources told of one meter as one: samples add up, counts are the largest, power is the mean."""
    meter, value, count = readings["meter"].astype(np.int64), readings["value"], readings["count"].astype(np.int64)
    first = np.append(True, meter[1:] != meter[:-1])[: len(meter)]
    if first.all():
        return Told(meter, count, value)
    place = np.cumsum(first) - 1
    kind = kinds[meter[first]]
    total = np.bincount(place, value)
    samples = np.bincount(place, count).astype(np.int64)
    weighted = np.bincount(place, value * count) / np.maximum(samples, 1)
    largest = np.maximum.reduceat(value, np.flatnonzero(first))
    found = np.where(kind == Kind.DELTA, total, np.where(kind >= Kind.POWER, weighted, largest))
    return Told(meter[first], samples, found)


# Closed minutes that may still be given away: a start or an end of a run may be told late, or not at all before its end.


class KeptMinutes:
    """What hosts did, by minute and within it by host; at most `amounts_max`, the oldest minutes go first."""

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
