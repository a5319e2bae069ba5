"""Finalisation of a minute of hosts: from what meters reported to amounts that hosts did, as far as that can be believed.

Where only some hosts have sensors of power, those with one teach what counters let expect of the others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.names import escaped
from processors.contracts.settings import ProfileSettings
from processors.contracts.telemetry import COMPONENTS, JOB
from processors.hosts.rows import NEVER_MS
from processors.models.energy import Step, increments
from processors.models.numerics.arrays import Floats
from processors.models.numerics.statistics import six_digits
from processors.models.power import PowerModel, believable
from processors.power.profiles.meters import (
    COUNTER,
    COVERED,
    ENERGY,
    ESTIMATED,
    LEFT_OUT,
    POWER,
    REASONS,
    MeterIndex,
    ReadingKind,
    Readings,
    last_word,
)  # fmt: skip
from processors.store import Store, digest64
from processors.windows.settings import MINUTE_MS

Ints = npt.NDArray[np.int64]

AMOUNT: Final = np.dtype([("host", "<i4"), ("quantity", "<i2"), ("reach", "<i2"), ("amount", "<f8")])
Amounts = npt.NDArray[np.void]
"""What hosts did, by host: row of the host, number of the quantity, how many minutes it took, and how much it was."""

REACH_MAX: Final = 5  # minutes; after a longer silence a count begins anew
SLOWEST_WRAP_S: Final = 240.0  # an energy counter goes round in this time at the most that is believed of its part
ADAPTERS_MAX: Final = 1 << 20  # names of them
PART_QUIET_MS: Final = REACH_MAX * MINUTE_MS  # a part that was silent for so long is no longer waited for


class MeterReadings(NamedTuple):
    """What m meters reported a minute, each once: its row, how many samples, a value as `Ingest` reads it."""

    meter: Ints
    samples: Ints
    value: Floats


class Close:
    """Closes minutes, the oldest first, and keeps in the columns of the meters what each told last."""

    def __init__(self, index: MeterIndex, settings: ProfileSettings) -> None:
        self._index, self._settings = index, settings

    def minute(self, minute_ms: int, readings: Readings) -> Amounts:
        """Return what hosts did in a minute, by host; with it, as quantities, what was covered and what was left out."""
        reported = _readings_by_meter(last_word(readings), self._index.kind_of)
        new = self._index.series.rows["learned_ms"][reported.meter] < minute_ms
        reported = MeterReadings(reported.meter[new], reported.samples[new], reported.value[new])
        amount, reach, reason = self._read(minute_ms, reported)
        self._index.series.rows["learned_ms"][reported.meter] = minute_ms
        amounts, in_part = self._whole(minute_ms, reported.meter, amount, reach)
        bad = np.flatnonzero(reason >= 0)
        hosts = np.concatenate([self._index.host_of[reported.meter[bad]], in_part])
        reasons = np.concatenate([reason[bad], np.full(len(in_part), REASONS.index("part"))])
        counted = [self._covered(minute_ms, amounts), self._left_out(hosts, reasons)]
        counted.append(self._busiest(reported.meter, amount, reach))
        found = np.concatenate([amounts, *counted])
        return found[np.argsort(found["host"], kind="stable")]

    def _read(self, minute_ms: int, reported: MeterReadings) -> tuple[Floats, Ints, Ints]:
        """Return amounts (m,), nan where there is none, over how many minutes each, and why one was left out (-1: not)."""
        kind, last_values = self._index.kind_of[reported.meter], self._index.last_values
        before_ms = self._index.series.rows["learned_ms"][reported.meter]
        gap = np.where(before_ms == NEVER_MS, 0, (minute_ms - before_ms) // MINUTE_MS)
        known = (gap >= 1) & (gap <= REACH_MAX)
        usual = last_values.rows["reach"][reported.meter]
        slow = known & (usual > 1) & (reported.samples <= 1)  # sampled every few minutes; else minutes got lost
        reach = np.where(slow, np.minimum(gap, usual), 1)
        reason = np.full(len(kind), -1)
        amount = reported.value.copy()
        counts = (kind == ReadingKind.TOTAL) | (kind == ReadingKind.ENERGY) | (kind == ReadingKind.MEMORY_ENERGY)
        power = (kind == ReadingKind.POWER) | (kind == ReadingKind.GPU_POWER)
        at = np.flatnonzero(power)
        amount[at], reason[at] = self._power(reported.value[at], kind[at] == ReadingKind.GPU_POWER)
        at = np.flatnonzero(~power & ~counts)
        amount[at], reason[at] = _not_negative(reported.value[at])
        amount[kind >= ReadingKind.POWER] *= reach[
            kind >= ReadingKind.POWER
        ]  # a level is the same in minutes that are not told
        at = np.flatnonzero(counts)
        reach[at] = np.where(known[at], gap[at], 1)
        before = np.where(known[at], last_values.rows["last"][reported.meter[at]], np.nan)
        amount[at], reason[at] = self._grown(kind[at], before, reported.value[at], gap[at])
        last_values.rows["last"][reported.meter[at]] = reported.value[at]
        last_values.rows["reach"][reported.meter] = np.where(known, gap, 1)
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
        spans = {ReadingKind.ENERGY: settings.energy_range_j, ReadingKind.MEMORY_ENERGY: settings.memory_energy_range_j}
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
        index = self._index
        host, quantity = index.host_of[meter].astype(np.int64), index.quantity_of[meter].astype(np.int64)
        parts, place = np.unique(host * (1 << 16) + quantity, return_inverse=True)
        size, there, all_of_host = len(parts), np.isfinite(amount), ~index.part_of[meter]
        has_whole = np.bincount(place[there & all_of_host], minlength=size) > 0
        there &= all_of_host | ~has_whole[place]
        count = np.bincount(place[there], minlength=size)
        total = np.bincount(place[there], amount[there], size)
        level = np.bincount(place[there], index.kind_of[meter[there]] == ReadingKind.LEVEL, size) > 0
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
        """Return how many meters told each of some quantities of hosts recently."""
        index = self._index
        late = np.flatnonzero(index.series.rows["learned_ms"][: len(index.kind_of)] > minute_ms - PART_QUIET_MS)
        key = index.host_of[late].astype(np.int64) * (1 << 16) + index.quantity_of[late]
        place = np.searchsorted(parts, key)
        known = place < len(parts)
        known[known] = parts[place[known]] == key[known]
        return np.bincount(place[known], minlength=len(parts))

    def _covered(self, minute_ms: int, amounts: Amounts) -> Amounts:
        """Return how many minutes each host covered with what takes it the least time, none of them twice."""
        index, end_ms = self._index, minute_ms + MINUTE_MS
        host, first, place = np.unique(amounts["host"], return_index=True, return_inverse=True)
        shortest = np.full(len(host), REACH_MAX)
        np.minimum.at(shortest, place, amounts["reach"])
        until_ms = index.covered.rows["until_ms"]
        new = np.where(until_ms[host] == NEVER_MS, shortest, (end_ms - until_ms[host]) // MINUTE_MS)
        until_ms[host] = end_ms
        found = np.zeros(len(host), AMOUNT)
        found["host"], found["reach"] = host, np.clip(new, 1, shortest)
        found["amount"] = found["reach"]
        own = index.own[amounts["quantity"][first]]
        found["quantity"] = np.where(own, *(self._index.names.number(name) for name in (JOB + COVERED, COVERED)))
        return found

    def _busiest(self, meter: Ints, amount: Floats, reach: Ints) -> Amounts:
        """Return what of each kind the adapter of each host did that did most; its counters over the same time add up."""
        index = self._index
        at = np.flatnonzero((index.busiest_of[meter] >= 0) & np.isfinite(amount))
        rows = meter[at]
        kinds = index.host_of[rows].astype(np.int64) * (1 << 16) + index.busiest_of[rows]
        adapters, place = np.unique(kinds * ADAPTERS_MAX + index.adapter_of[rows], return_inverse=True)
        longest, shortest = np.zeros(len(adapters), np.int64), np.full(len(adapters), REACH_MAX + 1)
        np.maximum.at(longest, place, reach[at])
        np.minimum.at(shortest, place, reach[at])
        total = np.bincount(place, amount[at] * index.factor_of[rows], len(adapters))
        good = np.flatnonzero(longest == shortest)
        good = good[np.lexsort((total[good], adapters[good] // ADAPTERS_MAX))]
        kind = adapters[good] // ADAPTERS_MAX
        most = good[np.append(kind[1:] != kind[:-1], True)] if len(good) else good
        found = np.zeros(len(most), AMOUNT)
        found["host"], found["quantity"] = (
            (adapters[most] // ADAPTERS_MAX) >> 16,
            (adapters[most] // ADAPTERS_MAX) & 0xFFFF,
        )
        found["reach"], found["amount"] = longest[most], total[most]
        return found

    def _left_out(self, hosts: Ints, reasons: Ints) -> Amounts:
        """Return how many readings of each host were left out, by reason."""
        key, count = np.unique(hosts * len(REASONS) + reasons, return_counts=True)
        numbers = np.array([self._index.names.number(LEFT_OUT + name) for name in REASONS])
        found = np.zeros(len(key), AMOUNT)
        found["host"], found["quantity"] = key // len(REASONS), numbers[key % len(REASONS)]
        found["reach"], found["amount"] = 1, count
        return found


def _not_negative(value: Floats) -> tuple[Floats, Ints]:
    good = (value >= 0) & np.isfinite(value)
    reasons = np.where(np.isnan(value), REASONS.index("missing"), REASONS.index("negative"))
    return np.where(good, value, np.nan), np.where(good, -1, reasons)


def _readings_by_meter(readings: Readings, kinds: npt.NDArray[np.int8]) -> MeterReadings:
    """Return what several sources reported one meter as one: samples add up, counts are the largest, power is the mean."""
    meter, value, count = readings["meter"].astype(np.int64), readings["value"], readings["count"].astype(np.int64)
    first = np.append(True, meter[1:] != meter[:-1])[: len(meter)]
    if first.all():
        return MeterReadings(meter, count, value)
    place = np.cumsum(first) - 1
    kind = kinds[meter[first]]
    total = np.bincount(place, value)
    samples = np.bincount(place, count).astype(np.int64)
    weighted = np.bincount(place, value * count) / np.maximum(samples, 1)
    largest = np.maximum.reduceat(value, np.flatnonzero(first))
    found = np.where(kind == ReadingKind.DELTA, total, np.where(kind >= ReadingKind.POWER, weighted, largest))
    return MeterReadings(meter[first], samples, found)


EVENTS_MAX: Final = 8
MODELS_MAX: Final = 64
LEARNED_MAX: Final = 16  # hosts of a kind in one minute
HOSTS_MIN: Final = 3  # with sensors, to tell which counters go with power
QUIET_MS: Final = 86_400_000
BEYOND: Final = 1.2  # times the largest power that was measured is the most that is estimated


class PowerSample(NamedTuple):
    """What a host of a kind did in a minute: events per second, by `names`, and the watts of a component.

    `ln_level` is how much more than a usual host of its kind it is known to draw, in ln.
    """

    names: tuple[str, ...]
    rates: tuple[float, ...]
    power_w: float
    minute_ms: int
    ln_level: float = 0.0


ERRORS_MAX: Final = 60


class HostPowerState(msgspec.Struct):
    """Stored form: the state of the model, when it was taught last, and how far off it was of hosts as if their levels were unknown."""

    model: dict[str, Any] | None = None
    learned_ms: int = -1
    errors: list[float] = []


class HostPower:
    """Power of one component of one kind of host, from its counters."""

    name: ClassVar[str] = "profile_power"
    version: ClassVar[int] = 1

    def __init__(self, state: HostPowerState) -> None:
        self._learned_ms = state.learned_ms
        self._errors = list(state.errors)
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
        """The median error recently about hosts whose level is not known, in W; None where it is not known yet."""
        return float(np.median(self._errors)) if self._errors else None

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
            found = self.score(np.array([fact.rates]))
            if found is not None and math.isfinite(found[0]):
                self._errors = [*self._errors, six_digits(abs(float(found[0]) - fact.power_w))][-ERRORS_MAX:]
            self._model.learn(fact.rates, fact.power_w * math.exp(-fact.ln_level))
            self._learned_ms = max(self._learned_ms, fact.minute_ms)

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        return self._learned_ms + QUIET_MS

    def snapshot(self) -> HostPowerState:
        """Return the stored form."""
        model = None if self._model is None else self._model.snapshot()
        return HostPowerState(model, self._learned_ms, list(self._errors))


class PowersState(Protocol):
    """The models that are kept, the present moment, and the counts of what there was no room for."""

    now_ms: int
    tally: Counter[tuple[str, str]]
    powers: Store[HostPower]


class _Alike(NamedTuple):
    """Hosts of one kind (k,), rising, the numbers of their counters, and what stands for the kind; which component is looked at."""

    system: str
    kind: str
    hosts: Ints
    counters: Ints
    component: str = ""


class HostPowers:
    """Models of power of the kinds of hosts of one shard: hosts of one system that report the same counters are of one kind.

    Each kind has a model for each component of power. Hosts with a sensor teach it, those without get an estimate.
    """

    def __init__(self, state: PowersState, index: MeterIndex) -> None:
        self._state, self._index, self._names = state, index, index.names

    def estimated(self, minute_ms: int, amounts: Amounts) -> Amounts:
        """Return what hosts did with the power of those without a sensor, as far as it can be told."""
        watts = {each: self._watts(amounts, each) for each in COMPONENTS}
        measured = {each: found for each, found in watts.items() if np.isfinite(found).any() or self._known(each)}
        if not measured:
            return amounts
        if not len(self._state.powers) and not self._wanted(amounts, measured.values()):
            return amounts
        new = [
            found
            for alike in self._alike(amounts)
            for component, power_w in measured.items()
            if (found := self._of_kind(minute_ms, amounts, alike, component, power_w)) is not None
        ]
        if not new:
            return amounts
        found = np.concatenate([amounts, *new])
        return found[np.argsort(found["host"], kind="stable")]

    def _known(self, component: str) -> bool:
        return any(key.split("/")[1] == component for key in self._state.powers.keys())  # noqa: SIM118  no mapping

    def _watts(self, amounts: Amounts, component: str) -> Floats:
        """Return the measured power of hosts (rows,), nan where there is none."""
        found = np.full(self._index.hosts.ids.end, np.nan)
        for name in (ENERGY + component, POWER + component):  # a sensor of power goes before a counter of energy
            reported = amounts[amounts["quantity"] == self._names.number(name)]
            found[reported["host"]] = reported["amount"] / (reported["reach"] * (MINUTE_MS / 1000))
        return found

    def _wanted(self, amounts: Amounts, measured: Iterable[Floats]) -> bool:
        """Return whether a host that told counters has no sensor."""
        hosts = np.unique(amounts["host"][self._are_counters()[amounts["quantity"]]])
        return any(np.isnan(power_w[hosts]).any() for power_w in measured)

    def _are_counters(self) -> npt.NDArray[np.bool_]:
        return np.array([(name or "").startswith(COUNTER) for name in self._names.all], np.bool_)

    def _alike(self, amounts: Amounts) -> Iterator[_Alike]:
        """Yield the kinds of hosts, in the order of what stands for them."""
        digests = np.array([digest64(name or "") for name in self._names.all], np.uint64)
        reported = amounts[self._are_counters()[amounts["quantity"]]]
        if not len(reported):
            return
        hosts, first = np.unique(reported["host"], return_index=True)
        kinds = np.bitwise_xor.reduceat(digests[reported["quantity"]], first)
        ids = self._index.hosts.ids
        systems = [(ids.key(row) or ("", ""))[0] for row in hosts.tolist()]
        every: dict[tuple[str, str], list[int]] = {}
        for row, system, kind in zip(hosts.tolist(), systems, kinds.tolist(), strict=True):
            every.setdefault((system, f"{kind:016x}"), []).append(row)
        for (system, kind), rows in sorted(every.items()):
            counters = np.unique(reported["quantity"][reported["host"] == rows[0]]).astype(np.int64)
            yield _Alike(system, kind, np.array(rows, np.int64), counters)

    def _of_kind(
        self, minute_ms: int, amounts: Amounts, alike: _Alike, component: str, power_w: Floats
    ) -> Amounts | None:
        """Teach the model of a kind and return the estimates of its hosts without a sensor."""
        key = f"{escaped(alike.system)}/{component}/{alike.kind}"
        watts = power_w[alike.hosts]
        without = alike.hosts[np.isnan(watts)]
        if key not in self._state.powers and not (len(without) and np.isfinite(watts).any() and self._room()):
            return None
        model = self._state.powers.open(key)
        alike = alike._replace(component=component)
        if self._learned(model, minute_ms, amounts, alike, watts):
            self._state.powers.changed(key, model, self._state.now_ms)
        return self._estimates(model, amounts, alike, without) if len(without) and model.events else None

    def _room(self) -> bool:
        room = len(self._state.powers) < MODELS_MAX
        self._state.tally["bound", "profile_power_models_max"] += not room
        return room

    def _learned(self, model: HostPower, minute_ms: int, amounts: Amounts, alike: _Alike, watts: Floats) -> bool:
        """Teach a model what some hosts with a sensor did, each time others, and their levels; tell whether there were some."""
        known = np.flatnonzero(np.isfinite(watts))
        events = model.events or self._chosen(amounts, alike, watts)
        if not len(known) or not events:
            return False
        turn = (np.arange(LEARNED_MAX) * len(known) // LEARNED_MAX + minute_ms // MINUTE_MS) % len(known)
        at = known[np.unique(turn)]
        rates = self._rates(amounts, alike.hosts[at], events)
        self._learn_levels(model, alike, at, rates, watts[at])
        levels = self._levels(alike)[at]
        for row, power_w, level in zip(rates.tolist(), watts[at].tolist(), levels.tolist(), strict=True):
            model.learn(PowerSample(events, tuple(row), power_w, minute_ms, level))
        return True

    def _levels(self, alike: _Alike) -> Floats:
        """Return how much more each host of a kind draws than a usual one of it, in ln."""
        return self._index.power_levels.of(alike.hosts, COMPONENTS.index(alike.component))

    def _learn_levels(self, model: HostPower, alike: _Alike, at: Ints, rates: Floats, watts: Floats) -> None:
        """Let the levels of some hosts (k,), by their places, follow how far off the model is on them."""
        expected = model.score(rates)
        if expected is None:
            return
        good = np.isfinite(expected) & (expected > 0.0) & (watts > 0.0)
        off = np.log(watts[good] / expected[good]) - self._levels(alike)[at[good]]
        self._index.power_levels.learn(alike.hosts[at[good]], COMPONENTS.index(alike.component), off)

    def _chosen(self, amounts: Amounts, alike: _Alike, watts: Floats) -> tuple[str, ...]:
        """Return the counters that go best with power, for a new model; none where that cannot be told."""
        at = np.flatnonzero(np.isfinite(watts))
        names = sorted(self._names.of(number) for number in alike.counters.tolist())
        if len(names) <= EVENTS_MAX:
            return tuple(names)
        if len(at) < HOSTS_MIN:
            return ()
        rates = self._rates(amounts, alike.hosts[at], tuple(names))
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled, power = rates - rates.mean(axis=0), watts[at] - watts[at].mean()
            alike_by = np.abs(scaled.T @ power) / np.sqrt((scaled**2).sum(axis=0) * (power**2).sum())
        order = np.argsort(-np.nan_to_num(alike_by), kind="stable")[:EVENTS_MAX]
        return tuple(sorted(names[place] for place in order))

    def _estimates(self, model: HostPower, amounts: Amounts, alike: _Alike, hosts: Ints) -> Amounts | None:
        """Return the estimated power of hosts that told all that it takes, as amounts; one that had a sensor before has its level."""
        rates = self._rates(amounts, hosts, model.events)
        reported = np.isfinite(rates).all(axis=1)
        watts = model.score(rates[reported])
        quantity = self._names.add(ESTIMATED + alike.component)
        if watts is None or quantity is None:
            return None
        places = np.searchsorted(alike.hosts, hosts[reported])
        watts = watts * np.exp(self._levels(alike)[places])
        found = np.zeros(len(watts), AMOUNT)
        found["host"], found["quantity"], found["reach"] = hosts[reported], quantity, 1
        found["amount"] = watts * (MINUTE_MS / 1000)
        return found

    def _rates(self, amounts: Amounts, hosts: Ints, events: tuple[str, ...]) -> Floats:
        """Return events per second of hosts (k, events), nan where a host did not tell one."""
        rates = np.full((len(hosts), len(events)), np.nan)
        for column, name in enumerate(events):
            reported = amounts[amounts["quantity"] == self._names.number(name)]
            place = np.minimum(np.searchsorted(hosts, reported["host"]), len(hosts) - 1)
            own = hosts[place] == reported["host"]
            rates[place[own], column] = (reported["amount"] / (reported["reach"] * (MINUTE_MS / 1000)))[own]
        return rates
