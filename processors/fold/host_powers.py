"""Power of hosts where only some have sensors: those with one teach what counters let expect, those without get an estimate.

Hosts of one system that tell the same counters are of one kind. Each kind has a model for each component of power.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agent.contracts.names import escaped
from agent.contracts.telemetry import COMPONENTS
from processors.digest import digest64
from processors.fold.host_desk import HostDesk
from processors.profiles.closing import AMOUNT, Amounts
from processors.profiles.host_power import EVENTS_MAX, HostPower, PowerSample
from processors.profiles.quantities import COUNTER, ENERGY, ESTIMATED, POWER
from processors.windows.settings import MINUTE_MS

MODELS_MAX: Final = 64
TAUGHT_MAX: Final = 16  # hosts of a kind in one minute
HOSTS_MIN: Final = 3  # with sensors, to tell which counters go with power
DUE_PER_TICK: Final = 100

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


class _Alike(NamedTuple):
    """Hosts of one kind (k,), rising, the numbers of their counters, and what stands for the kind."""

    system: str
    kind: str
    hosts: Rows
    counters: Rows


class HostPowers:
    """Models of power of the kinds of hosts of one shard.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> powers = HostPowers(make_shard(Config()).hosts.desk)
    >>> len(powers.estimated(0, np.zeros(0, AMOUNT))), powers.errors()
    (0, {})
    """

    def __init__(self, desk: HostDesk) -> None:
        self._desk, self._names = desk, desk.ledger.names

    def estimated(self, minute_ms: int, amounts: Amounts) -> Amounts:
        """Return what hosts did with the power of those without a sensor, as far as it can be told."""
        watts = {each: self._watts(amounts, each) for each in COMPONENTS}
        measured = {each: found for each, found in watts.items() if np.isfinite(found).any() or self._known(each)}
        if not measured:
            return amounts
        if not len(self._desk.powers) and not self._wanted(amounts, measured.values()):
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

    def errors(self) -> dict[str, float]:
        """Return the median error of late in W by component, of the worst of the models that have one."""
        found: dict[str, float] = {}
        for key in self._desk.powers.keys():  # noqa: SIM118  no mapping
            error_w, component = self._desk.powers.open(key).error_w, key.split("/")[1]
            if error_w is not None:
                found[component] = max(found.get(component, 0.0), error_w)
        return found

    def forget(self) -> None:
        """Forget models that nobody teaches any more."""
        for key in self._desk.powers.due(self._desk.now_ms, DUE_PER_TICK):
            self._desk.powers.remove(key)

    def _known(self, component: str) -> bool:
        return any(key.split("/")[1] == component for key in self._desk.powers.keys())  # noqa: SIM118  no mapping

    def _watts(self, amounts: Amounts, component: str) -> Floats:
        """Return the measured power of hosts (rows,), nan where there is none."""
        found = np.full(self._desk.ledger.roster.hosts.numbers.end, np.nan)
        for name in (ENERGY + component, POWER + component):  # a sensor of power goes before a counter of energy
            told = amounts[amounts["quantity"] == self._number(name)]
            found[told["host"]] = told["amount"] / (told["reach"] * (MINUTE_MS / 1000))
        return found

    def _wanted(self, amounts: Amounts, measured: Iterable[Floats]) -> bool:
        """Tell whether a host that told counters has no sensor."""
        hosts = np.unique(amounts["host"][self._are_counters()[amounts["quantity"]]])
        return any(np.isnan(power_w[hosts]).any() for power_w in measured)

    def _are_counters(self) -> npt.NDArray[np.bool_]:
        return np.array([(name or "").startswith(COUNTER) for name in self._names.all], np.bool_)

    def _number(self, name: str) -> int:
        number = self._names.number(name)
        return -1 if number is None else number

    def _alike(self, amounts: Amounts) -> Iterator[_Alike]:
        """Yield the kinds of hosts, in the order of what stands for them."""
        digests = np.array([digest64(name or "") for name in self._names.all], np.uint64)
        told = amounts[self._are_counters()[amounts["quantity"]]]
        if not len(told):
            return
        hosts, first = np.unique(told["host"], return_index=True)
        kinds = np.bitwise_xor.reduceat(digests[told["quantity"]], first)
        numbers = self._desk.ledger.roster.hosts.numbers
        systems = [(numbers.key(row) or ("", ""))[0] for row in hosts.tolist()]
        every: dict[tuple[str, str], list[int]] = {}
        for row, system, kind in zip(hosts.tolist(), systems, kinds.tolist(), strict=True):
            every.setdefault((system, f"{kind:016x}"), []).append(row)
        for (system, kind), rows in sorted(every.items()):
            counters = np.unique(told["quantity"][told["host"] == rows[0]]).astype(np.int64)
            yield _Alike(system, kind, np.array(rows, np.int64), counters)

    def _of_kind(
        self, minute_ms: int, amounts: Amounts, alike: _Alike, component: str, power_w: Floats
    ) -> Amounts | None:
        """Teach the model of a kind and return the estimates of its hosts without a sensor."""
        key = f"{escaped(alike.system)}/{component}/{alike.kind}"
        watts = power_w[alike.hosts]
        without = alike.hosts[np.isnan(watts)]
        if key not in self._desk.powers and not (len(without) and np.isfinite(watts).any() and self._room()):
            return None
        model = self._desk.powers.open(key)
        if self._taught(model, minute_ms, amounts, alike, watts):
            self._desk.powers.changed(key, model, self._desk.now_ms)
        return self._estimates(model, amounts, without, component) if len(without) and model.events else None

    def _room(self) -> bool:
        room = len(self._desk.powers) < MODELS_MAX
        self._desk.tally["bound", "profile_power_models_max"] += not room
        return room

    def _taught(self, model: HostPower, minute_ms: int, amounts: Amounts, alike: _Alike, watts: Floats) -> bool:
        """Teach a model what some hosts with a sensor did, each time others; tell whether there were some."""
        known = np.flatnonzero(np.isfinite(watts))
        events = model.events or self._chosen(amounts, alike, watts)
        if not len(known) or not events:
            return False
        turn = (np.arange(TAUGHT_MAX) * len(known) // TAUGHT_MAX + minute_ms // MINUTE_MS) % len(known)
        at = known[np.unique(turn)]
        rates = self._rates(amounts, alike.hosts[at], events)
        for row, power_w in zip(rates.tolist(), watts[at].tolist(), strict=True):
            model.learn(PowerSample(events, tuple(row), power_w, minute_ms))
        return True

    def _chosen(self, amounts: Amounts, alike: _Alike, watts: Floats) -> tuple[str, ...]:
        """Return the counters that go best with power, for a new model; none where that can not be told."""
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

    def _estimates(self, model: HostPower, amounts: Amounts, hosts: Rows, component: str) -> Amounts | None:
        """Return the estimated power of hosts that told all that it takes, as amounts."""
        rates = self._rates(amounts, hosts, model.events)
        told = np.isfinite(rates).all(axis=1)
        watts = model.score(rates[told])
        quantity = self._names.add(ESTIMATED + component)
        if watts is None or quantity is None:
            return None
        found = np.zeros(len(watts), AMOUNT)
        found["host"], found["quantity"], found["reach"] = hosts[told], quantity, 1
        found["amount"] = watts * (MINUTE_MS / 1000)
        return found

    def _rates(self, amounts: Amounts, hosts: Rows, events: tuple[str, ...]) -> Floats:
        """Return events per second of hosts (k, events), nan where a host did not tell one."""
        rates = np.full((len(hosts), len(events)), np.nan)
        for column, name in enumerate(events):
            told = amounts[amounts["quantity"] == self._number(name)]
            place = np.minimum(np.searchsorted(hosts, told["host"]), len(hosts) - 1)
            own = hosts[place] == told["host"]
            rates[place[own], column] = (told["amount"] / (told["reach"] * (MINUTE_MS / 1000)))[own]
        return rates
