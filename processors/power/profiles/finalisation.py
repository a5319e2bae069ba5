"""Finalisation of a minute: implausible readings of meters are rejected, and the other readings become amounts of hosts.

If only some hosts have power sensors, models fitted to these hosts estimate the power of the other hosts from counters.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.names import escaped
from processors.contracts.settings import ProfileSettings
from processors.contracts.telemetry import COMPONENTS, JOB
from processors.hosts.rows import NEVER_MS
from processors.models.numerics.arrays import Floats, Ints
from processors.models.numerics.statistics import six_digits
from processors.models.power import PowerModel, Step, increments
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
from processors.store import PlainProcessor, Store, digest64
from processors.windows.settings import MINUTE_MS

AMOUNT: Final = np.dtype([("host", "<i4"), ("quantity", "<i2"), ("reach", "<i2"), ("amount", "<f8")])
Amounts = npt.NDArray[np.void]
"""Amounts by host: row of the host, number of the quantity, number of minutes covered (`reach`), and the amount."""
# a key is the row of the host, shifted left by this number of bits, plus the number of the quantity
HOST_BITS: Final = 16
# most minutes that one difference of a counter may cover; after a longer gap, counting starts again
REACH_MAX: Final = 5
SLOWEST_WRAP_S: Final = 240.0  # shortest plausible time in which an energy counter runs through its whole range
ADAPTERS_MAX: Final = 1 << 20  # most names of adapters
PART_QUIET_MS: Final = REACH_MAX * MINUTE_MS  # a part of a host that is silent for this long is no longer expected


def _by_host(parts: Sequence[Amounts]) -> Amounts:
    amounts = np.concatenate(parts)
    return amounts[np.argsort(amounts["host"], kind="stable")]


def amounts_of(host: Ints, quantity: Ints | int, reach: Ints | int, amount: Floats | Ints) -> Amounts:
    amounts = np.zeros(len(host), AMOUNT)
    amounts["host"], amounts["quantity"], amounts["reach"], amounts["amount"] = host, quantity, reach, amount
    return amounts


class MeterReadings(NamedTuple):
    """Readings of m meters in one minute: row of the meter, number of samples, and the value computed by `Ingest`."""

    meter: Ints
    samples: Ints
    value: Floats

    def at(self, selected: npt.NDArray[np.bool_]) -> "MeterReadings":
        return MeterReadings(self.meter[selected], self.samples[selected], self.value[selected])


class Close:
    """Closes minutes, oldest first, and stores the last count of each meter."""

    def __init__(self, index: MeterIndex, settings: ProfileSettings) -> None:
        self._index, self._settings = index, settings

    def minute(self, minute_ms: int, readings: Readings) -> Amounts:
        """Close a minute: return the amounts of its hosts, ascending by host.

        The counts of covered minutes and of rejected readings are included as amounts.
        """
        reported = _readings_by_meter(last_word(readings), self._index.meters["kind"])
        learned_ms = self._index.series.rows["learned_ms"]
        reported = reported.at(learned_ms[reported.meter] < minute_ms)
        amount, reach, reason = self._read(minute_ms, reported)
        learned_ms[reported.meter] = minute_ms
        amounts, incomplete_hosts = self._whole(minute_ms, reported.meter, amount, reach)
        rejected = np.flatnonzero(reason >= 0)
        hosts = np.concatenate([self._index.meters["host"][reported.meter[rejected]], incomplete_hosts])
        reasons = np.concatenate([reason[rejected], np.full(len(incomplete_hosts), REASONS.index("part"))])
        counts = self._covered(minute_ms, amounts), self._left_out(hosts, reasons)
        return _by_host([amounts, *counts, self._busiest(reported.meter, amount, reach)])

    def _read(self, minute_ms: int, reported: MeterReadings) -> tuple[Floats, Ints, Ints]:
        """Return three values for each of m readings: its amount, the minutes it covers, and the reason why it was rejected.

        A rejected reading has the amount nan; the reason of any other reading is -1.
        """
        kind, last_values = self._index.meters["kind"][reported.meter], self._index.last_values
        before_ms = self._index.series.rows["learned_ms"][reported.meter]
        gap = np.where(before_ms == NEVER_MS, 0, (minute_ms - before_ms) // MINUTE_MS)
        recent = (gap >= 1) & (gap <= REACH_MAX)
        usual_reach = last_values.rows["reach"][reported.meter]
        # the meter is sampled every few minutes; any other gap means lost minutes
        slow = recent & (usual_reach > 1) & (reported.samples <= 1)
        reach = np.where(slow, np.minimum(gap, usual_reach), 1)
        reason = np.full(len(kind), -1)
        amount = reported.value.copy()
        counts = (kind >= ReadingKind.TOTAL) & (kind <= ReadingKind.MEMORY_ENERGY)
        power = (kind == ReadingKind.POWER) | (kind == ReadingKind.GPU_POWER)
        amount[power], reason[power] = self._power(reported.value[power], kind[power] == ReadingKind.GPU_POWER)
        rest = ~power & ~counts
        amount[rest], reason[rest] = _not_negative(reported.value[rest])
        holds = kind >= ReadingKind.POWER  # a level is assumed to hold in unreported minutes
        amount[holds] *= reach[holds]
        reach[counts] = np.where(recent[counts], gap[counts], 1)
        before = np.where(recent[counts], last_values.rows["last"][reported.meter[counts]], np.nan)
        amount[counts], reason[counts] = self._grown(kind[counts], before, reported.value[counts], gap[counts])
        last_values.rows["last"][reported.meter[counts]] = reported.value[counts]
        last_values.rows["reach"][reported.meter] = np.where(recent, gap, 1)
        return amount, reach, reason

    def _power(self, energy_j: Floats, may_be_off: npt.NDArray[np.bool_]) -> tuple[Floats, Ints]:
        watts, limit_w = energy_j / (MINUTE_MS / 1000), self._settings.host_power_max_w
        reasons = np.select([np.isnan(watts), watts < 0, watts == 0], [*map(REASONS.index, REASONS[:3])], 3)
        is_good = ((watts > 0) | (may_be_off & (watts == 0))) & (watts <= limit_w) & np.isfinite(watts)
        return np.where(is_good, energy_j, np.nan), np.where(is_good, -1, reasons)

    def _grown(self, kind: npt.NDArray[np.int8], before: Floats, now: Floats, gap: Ints) -> tuple[Floats, Ints]:
        settings = self._settings
        spans = {ReadingKind.ENERGY: settings.energy_range_j, ReadingKind.MEMORY_ENERGY: settings.memory_energy_range_j}
        span, rate_max = np.full(len(kind), np.inf), np.full(len(kind), np.inf)
        for counter, full_range in spans.items():
            span[kind == counter] = full_range
            rate_max[kind == counter] = min(settings.host_power_max_w, full_range / SLOWEST_WRAP_S)
        growth = increments(before, now, gap * (MINUTE_MS / 1000), span, rate_max)
        reasons = np.full(len(kind), -1)
        for step, reason in ((Step.RESET, "reset"), (Step.DOUBTFUL, "doubtful")):
            reasons[growth.step == step] = REASONS.index(reason)
        reasons[~(now >= 0)] = REASONS.index("negative")
        reasons[np.isnan(now)] = REASONS.index("missing")
        return growth.amount, reasons

    def _whole(self, minute_ms: int, meter: Ints, amount: Floats, reach: Ints) -> tuple[Amounts, Ints]:
        """Return the amounts of hosts, each combined from the readings of the parts of a host, such as sockets.

        An amount is complete if the whole host or all of its usual parts reported, over the same time; other amounts are left
        out. The second array has the hosts of the amounts left out.
        """
        meters = self._index.meters[meter]
        parts, place = np.unique((meters["host"] << HOST_BITS) + meters["quantity"], return_inverse=True)
        size, present, all_of_host = len(parts), np.isfinite(amount), ~meters["part"]
        has_whole = np.bincount(place[present & all_of_host], minlength=size) > 0
        present &= all_of_host | ~has_whole[place]
        count = np.bincount(place[present], minlength=size)
        total = np.bincount(place[present], amount[present], size)
        level = np.bincount(place[present], meters["kind"][present] == ReadingKind.LEVEL, size) > 0
        total = np.where(level, total / np.maximum(count, 1), total)
        longest, shortest = _extremes(place[present], reach[present], size)
        all_there = has_whole | level | (count >= self._parts_expected(minute_ms, parts))
        complete = (count > 0) & all_there & (longest == shortest)
        amounts = _of_keys(parts[complete], longest[complete], total[complete])
        return amounts, parts[(count > 0) & ~complete] >> HOST_BITS

    def _parts_expected(self, minute_ms: int, parts: Ints) -> Ints:
        """Return, for each host quantity in `parts`, the number of meters that recently reported it."""
        index = self._index
        late = index.meters[index.series.rows["learned_ms"][: len(index.meters)] > minute_ms - PART_QUIET_MS]
        key = (late["host"] << HOST_BITS) + late["quantity"]
        place = np.searchsorted(parts, key)
        listed = place < len(parts)
        listed[listed] = parts[place[listed]] == key[listed]
        return np.bincount(place[listed], minlength=len(parts))

    def _covered(self, minute_ms: int, amounts: Amounts) -> Amounts:
        """Return how many minutes each host newly covers, as amounts; no minute of a host counts twice.

        A reading may cover several minutes; the resource that is read most often decides.
        """
        index, end_ms = self._index, minute_ms + MINUTE_MS
        host, first, place = np.unique(amounts["host"], return_index=True, return_inverse=True)
        shortest = np.full(len(host), REACH_MAX)
        np.minimum.at(shortest, place, amounts["reach"])
        until_ms = index.covered.rows["until_ms"]
        new = np.where(until_ms[host] == NEVER_MS, shortest, (end_ms - until_ms[host]) // MINUTE_MS)
        until_ms[host] = end_ms
        of_one_job = index.own[amounts["quantity"][first]]
        quantity = np.where(of_one_job, *(index.names.number(name) for name in (JOB + COVERED, COVERED)))
        minutes = np.clip(new, 1, shortest)
        return amounts_of(host, quantity, minutes, minutes)

    def _busiest(self, meter: Ints, amount: Floats, reach: Ints) -> Amounts:
        """Return the amounts of the busiest network adapter of each host, after summing the counters of each adapter."""
        selected = np.flatnonzero((self._index.meters["busiest"][meter] >= 0) & np.isfinite(amount))
        meters = self._index.meters[meter[selected]]
        kinds = (meters["host"] << HOST_BITS) + meters["busiest"]
        adapters, place = np.unique(kinds * ADAPTERS_MAX + meters["adapter"], return_inverse=True)
        longest, shortest = _extremes(place, reach[selected], len(adapters))
        total = np.bincount(place, amount[selected] * meters["factor"], len(adapters))
        kind = adapters // ADAPTERS_MAX
        consistent = np.flatnonzero(longest == shortest)
        falling = consistent[np.lexsort((-total[consistent], kind[consistent]))]
        largest = falling[np.unique(kind[falling], return_index=True)[1]]
        return _of_keys(kind[largest], longest[largest], total[largest])

    def _left_out(self, hosts: Ints, reasons: Ints) -> Amounts:
        key, count = np.unique(hosts * len(REASONS) + reasons, return_counts=True)
        numbers = np.array([self._index.names.number(LEFT_OUT + name) for name in REASONS])
        return amounts_of(key // len(REASONS), numbers[key % len(REASONS)], 1, count)


def _of_keys(keys: Ints, reach: Ints, amount: Floats | Ints) -> Amounts:
    return amounts_of(keys >> HOST_BITS, keys & ((1 << HOST_BITS) - 1), reach, amount)


def _extremes(place: Ints, reach: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the largest and the smallest `reach` (in minutes) of the readings with each number 0 to `size` - 1 in `place`."""
    longest, shortest = np.zeros(size, np.int64), np.full(size, REACH_MAX + 1)
    np.maximum.at(longest, place, reach)
    np.minimum.at(shortest, place, reach)
    return longest, shortest


def _not_negative(value: Floats) -> tuple[Floats, Ints]:
    good = (value >= 0) & np.isfinite(value)
    reasons = np.where(np.isnan(value), REASONS.index("missing"), REASONS.index("negative"))
    return np.where(good, value, np.nan), np.where(good, -1, reasons)


def _readings_by_meter(readings: Readings, kinds: npt.NDArray[np.int8]) -> MeterReadings:
    """Combine the readings of several sources for a meter: the sum of increments, the mean power, or the largest count."""
    meters, value, count = readings["meter"].astype(np.int64), readings["value"], readings["count"].astype(np.int64)
    if (meters[1:] != meters[:-1]).all():
        return MeterReadings(meters, count, value)
    meter, first, place = np.unique(meters, return_index=True, return_inverse=True)
    samples = np.bincount(place, count).astype(np.int64)
    weighted = np.bincount(place, value * count) / np.maximum(samples, 1)
    largest = np.maximum.reduceat(value, first)
    kind = kinds[meter]
    combined = np.select(
        [kind == ReadingKind.DELTA, kind >= ReadingKind.POWER], [np.bincount(place, value), weighted], largest
    )
    return MeterReadings(meter, samples, combined)


EVENTS_MAX: Final = 8
MODELS_MAX: Final = 64
LEARNED_MAX: Final = 16  # most hosts of a kind whose power a model learns in one minute
HOSTS_MIN: Final = 3  # fewest hosts with sensors for a selection of counters
QUIET_MS: Final = 86_400_000
BEYOND: Final = 1.2  # upper limit of estimates, as a multiple of the largest measured power


class PowerSample(NamedTuple):
    """A sample for a power model: the rates of a host in events per second, in the order of `names`, and its measured power.

    `ln_level` is ln of the power of the host relative to a usual host of its kind.
    """

    names: tuple[str, ...]
    rates: tuple[float, ...]
    power_w: float
    minute_ms: int
    ln_level: float = 0.0


ERRORS_MAX: Final = 60


class HostPower(PlainProcessor):
    """A model that estimates the power of a component, for one kind of host, from the counters of a host.

    `learned_ms` is the time of the last sample. `errors` are the newest errors in W on measured hosts, without corrections by host levels.
    """

    name: ClassVar[str] = "profile_power"
    version: ClassVar[int] = 2

    model: PowerModel | None = None
    learned_ms: int = -1
    errors: list[float] = msgspec.field(default_factory=list)

    @property
    def events(self) -> tuple[str, ...]:
        """The counters that the model uses; empty before the first sample."""
        return () if self.model is None else self.model.events

    @property
    def error_w(self) -> float | None:
        """The recent median error for hosts of unknown level, in W; None before the first estimate."""
        return float(np.median(self.errors)) if self.errors else None

    def score(self, fact: Floats) -> Floats | None:
        """Return the estimated watts (m,) for rates (m, events), at most BEYOND times the largest measurement; None before the first fit."""
        estimates = None if self.model is None else self.model.estimates(fact)
        return None if self.model is None or estimates is None else estimates.clip(0.0, BEYOND * self.model.largest_w)

    def learn(self, fact: PowerSample) -> None:
        if self.model is None:
            self.model = PowerModel(fact.names)
        if fact.names == self.model.events:
            estimate = self.score(np.array([fact.rates]))
            if estimate is not None and math.isfinite(estimate[0]):
                self.errors = [*self.errors, six_digits(abs(float(estimate[0]) - fact.power_w))][-ERRORS_MAX:]
            self.model.learn(fact.rates, fact.power_w * math.exp(-fact.ln_level))
            self.learned_ms = max(self.learned_ms, fact.minute_ms)

    def due_ms(self) -> int | None:
        return self.learned_ms + QUIET_MS

    def snapshot(self) -> "HostPower":
        return msgspec.convert(msgspec.to_builtins(self), HostPower)  # a copy: learning changes the model in place


class PowersState(Protocol):
    """The part of the state of a shard that `HostPowers` uses: models, current time, and counts of refusals."""

    now_ms: int
    tally: Counter[tuple[str, str]]
    powers: Store[HostPower]


class _HostsOfKind(NamedTuple):
    """The hosts (k,) of one kind, ascending, the numbers of the counters that these hosts report, and a component with power."""

    system: str
    kind: str
    hosts: Ints
    counters: Ints
    component: str = ""


class HostPowers:
    """The power models of one shard. Hosts of a system that report the same counters are of one kind.

    Each kind has a model for each component. The model learns from hosts with a sensor and estimates the power of hosts without a sensor.
    """

    def __init__(self, state: PowersState, index: MeterIndex) -> None:
        self._state, self._index, self._names = state, index, index.names

    def estimated(self, minute_ms: int, amounts: Amounts) -> Amounts:
        """Add the estimated power of hosts without a sensor to the amounts."""
        modelled = {key.split("/")[1] for key in self._state.powers.keys()}  # noqa: SIM118  no mapping
        watts = {component: self._watts(amounts, component) for component in COMPONENTS}
        watts = {name: by_host for name, by_host in watts.items() if name in modelled or np.isfinite(by_host).any()}
        if not watts or not (modelled or self._lacks_sensor(amounts, watts.values())):
            return amounts
        estimates = [
            estimate
            for hosts_of_kind in self._alike(amounts)
            for component, by_host in watts.items()
            if (estimate := self._of_kind(minute_ms, amounts, hosts_of_kind, component, by_host)) is not None
        ]
        return _by_host([amounts, *estimates]) if estimates else amounts

    def _watts(self, amounts: Amounts, component: str) -> Floats:
        """Return the measured power of hosts (rows,); nan for hosts without a measurement."""
        by_sensor, by_counter = (self._per_second(amounts, name + component) for name in (POWER, ENERGY))
        return np.where(np.isnan(by_sensor), by_counter, by_sensor)

    def _per_second(self, amounts: Amounts, name: str) -> Floats:
        """Return the amount of a quantity per second, by row of the host; nan for hosts that did not report the quantity."""
        rates = np.full(self._index.hosts.ids.end, np.nan)
        reported = amounts[amounts["quantity"] == self._names.number(name)]
        rates[reported["host"]] = reported["amount"] / (reported["reach"] * (MINUTE_MS / 1000))
        return rates

    def _lacks_sensor(self, amounts: Amounts, watts: Iterable[Floats]) -> bool:
        """Return whether a host with counters lacks a sensor."""
        hosts = np.unique(amounts["host"][self._are_counters()[amounts["quantity"]]])
        return any(np.isnan(by_host[hosts]).any() for by_host in watts)

    def _are_counters(self) -> npt.NDArray[np.bool_]:
        return np.array([(name or "").startswith(COUNTER) for name in self._names.all], np.bool_)

    def _alike(self, amounts: Amounts) -> Iterator[_HostsOfKind]:
        """Yield the hosts of each kind, ascending by the key of the kind."""
        digests = np.array([digest64(name or "") for name in self._names.all], np.uint64)
        reported = amounts[self._are_counters()[amounts["quantity"]]]
        if not len(reported):
            return
        hosts, first = np.unique(reported["host"], return_index=True)
        kinds = np.bitwise_xor.reduceat(digests[reported["quantity"]], first)
        ids, rows_by_kind = self._index.hosts.ids, defaultdict[tuple[str, str], list[int]](list)
        for row, kind in zip(hosts.tolist(), kinds.tolist(), strict=True):
            rows_by_kind[(ids.key(row) or ("", ""))[0], f"{kind:016x}"].append(row)
        for (system, kind), rows in sorted(rows_by_kind.items()):
            counters = np.unique(reported["quantity"][reported["host"] == rows[0]]).astype(np.int64)
            yield _HostsOfKind(system, kind, np.array(rows, np.int64), counters)

    def _of_kind(
        self, minute_ms: int, amounts: Amounts, hosts_of_kind: _HostsOfKind, component: str, power_w: Floats
    ) -> Amounts | None:
        """Fit the model of a kind to its hosts with a sensor, and return the estimates of its hosts without a sensor."""
        key = f"{escaped(hosts_of_kind.system)}/{component}/{hosts_of_kind.kind}"
        watts = power_w[hosts_of_kind.hosts]
        without = hosts_of_kind.hosts[np.isnan(watts)]
        if key not in self._state.powers and not (len(without) and np.isfinite(watts).any() and self._room()):
            return None
        model = self._state.powers.open(key)
        hosts_of_kind = hosts_of_kind._replace(component=component)
        if self._learned(model, minute_ms, amounts, hosts_of_kind, watts):
            self._state.powers.changed(key, model, self._state.now_ms)
        return self._estimates(model, amounts, hosts_of_kind, without) if len(without) and model.events else None

    def _room(self) -> bool:
        room = len(self._state.powers) < MODELS_MAX
        self._state.tally["bound", "profile_power_models_max"] += not room
        return room

    def _learned(
        self, model: HostPower, minute_ms: int, amounts: Amounts, hosts_of_kind: _HostsOfKind, watts: Floats
    ) -> bool:
        """Teach a model the power of at most LEARNED_MAX hosts with a sensor, other hosts each minute, and update their levels.

        Return False if no host has a sensor.
        """
        measured = np.flatnonzero(np.isfinite(watts))
        events = model.events or self._chosen(amounts, hosts_of_kind, watts)
        if not len(measured) or not events:
            return False
        turn = (np.arange(LEARNED_MAX) * len(measured) // LEARNED_MAX + minute_ms // MINUTE_MS) % len(measured)
        chosen = measured[np.unique(turn)]
        rates = self._rates(amounts, hosts_of_kind.hosts[chosen], events)
        self._learn_levels(model, hosts_of_kind, chosen, rates, watts[chosen])
        levels = self._levels(hosts_of_kind)[chosen]
        for row, power_w, level in zip(rates.tolist(), watts[chosen].tolist(), levels.tolist(), strict=True):
            model.learn(PowerSample(events, tuple(row), power_w, minute_ms, level))
        return True

    def _levels(self, alike: _HostsOfKind) -> Floats:
        """Return the power of each host relative to a usual host of its kind, in ln."""
        return self._index.power_levels.of(alike.hosts, COMPONENTS.index(alike.component))

    def _learn_levels(self, model: HostPower, alike: _HostsOfKind, at: Ints, rates: Floats, watts: Floats) -> None:
        """Adjust the levels of the hosts at the positions `at` (k,) in `alike`, by the ratio of measured to estimated power."""
        expected = model.score(rates)
        if expected is None:
            return
        usable = np.isfinite(expected) & (expected > 0.0) & (watts > 0.0)
        errors = np.log(watts[usable] / expected[usable]) - self._levels(alike)[at[usable]]
        self._index.power_levels.learn(alike.hosts[at[usable]], COMPONENTS.index(alike.component), errors)

    def _chosen(self, amounts: Amounts, alike: _HostsOfKind, watts: Floats) -> tuple[str, ...]:
        """Return the counters with the strongest correlation with power, for a new model; empty if there are too few hosts."""
        measured = np.flatnonzero(np.isfinite(watts))
        names = sorted(self._names.of(number) for number in alike.counters.tolist())
        if len(names) <= EVENTS_MAX or len(measured) < HOSTS_MIN:
            return tuple(names) if len(names) <= EVENTS_MAX else ()
        rates = self._rates(amounts, alike.hosts[measured], tuple(names))
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled, power = rates - rates.mean(axis=0), watts[measured] - watts[measured].mean()
            correlation = np.abs(scaled.T @ power) / np.sqrt((scaled**2).sum(axis=0) * (power**2).sum())
        order = np.argsort(-np.nan_to_num(correlation), kind="stable")[:EVENTS_MAX]
        return tuple(sorted(names[place] for place in order))

    def _estimates(self, model: HostPower, amounts: Amounts, alike: _HostsOfKind, hosts: Ints) -> Amounts | None:
        """Return the estimated energy of those of `hosts` that report all counters of the model, as amounts.

        A host that once had a sensor keeps the level learned then.
        """
        rates = self._rates(amounts, hosts, model.events)
        reported = np.isfinite(rates).all(axis=1)
        watts = model.score(rates[reported])
        quantity = self._names.add(ESTIMATED + alike.component)
        if watts is None or quantity is None:
            return None
        places = np.searchsorted(alike.hosts, hosts[reported])
        watts = watts * np.exp(self._levels(alike)[places])
        return amounts_of(hosts[reported], quantity, 1, watts * (MINUTE_MS / 1000))

    def _rates(self, amounts: Amounts, hosts: Ints, events: tuple[str, ...]) -> Floats:
        """Return events per second of hosts (k, events); nan for an event that a host did not report."""
        return np.stack([self._per_second(amounts, name) for name in events], axis=1)[hosts]
