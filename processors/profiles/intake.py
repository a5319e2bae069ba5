"""From what a collector told of a host's minute to readings of its meters."""

from collections.abc import Iterable
from math import inf, nan
from typing import Final, NamedTuple

import numpy as np

from agent.contracts.events import HostMinute, ResourceMinute
from processors.digest import digest64
from processors.profiles.meters import MeterRoster
from processors.profiles.quantities import Kind, quantity
from processors.profiles.readings import READING, Readings
from processors.windows.settings import MINUTE_MS

COUNT_MAX: Final = 2**31 - 1
MINUTE_S: Final = MINUTE_MS / 1000
COUNTS: Final = frozenset({Kind.TOTAL, Kind.ENERGY, Kind.MEMORY_ENERGY})
POWERS: Final = frozenset({Kind.POWER, Kind.GPU_POWER})


class Layout(NamedTuple):
    """The resources of a host that are meters: their names in order, rows and kinds; and how many had no room.

    >>> Layout((), (), (), (), 0).refused
    0
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    rows: tuple[int, ...]
    kinds: tuple[Kind, ...]
    refused: int


class Intake:
    """Readings of hosts by minute. A host tells the same resources every minute, so their rows are looked up once.

    >>> from processors.profiles.names import QuantityNames
    >>> intake = Intake(MeterRoster(9, QuantityNames()), power_max_w=20_000.0)
    >>> told = ResourceMinute(6, 400.0, 390.0, 410.0, energy_j=24_000.0)
    >>> intake.take(HostMinute("exa", "load/0", "nid1", 60_000, {"power_w>system": told}))
    0
    >>> [(minute_ms, readings["value"].tolist()) for minute_ms, readings in intake.readings()]
    [(60000, [24000.0])]
    """

    def __init__(self, roster: MeterRoster, power_max_w: float) -> None:
        self._roster, self._power_max_w = roster, power_max_w
        self._layouts: dict[tuple[str, str, str], Layout] = {}
        self._rows: dict[int, list[tuple[int, int, int, int, float]]] = {}

    def take(self, event: HostMinute) -> int:
        """Take a minute of a host in; return how many of its resources there was no room for."""
        layout = self._layout(event)
        if layout.rows:
            source = digest64(event.source) & 0xFFFFFFFF
            told = tuple(event.resources.values())
            rows = self._rows.setdefault(event.minute_ms, [])
            for row, kind, place in zip(layout.rows, layout.kinds, layout.places, strict=True):
                minute = told[place]
                value = self._value(kind, minute)
                rows.append((row, source, event.revision, min(max(minute.count, 0), COUNT_MAX), value))
        return layout.refused

    def readings(self) -> Iterable[tuple[int, Readings]]:
        """Return what was taken in since the last call, by minute."""
        taken, self._rows = self._rows, {}
        for minute_ms, rows in taken.items():
            readings = np.array(rows, READING)
            meters = readings["meter"]
            self._roster.told(meters, self._roster.host_of[meters], minute_ms)
            yield minute_ms, readings

    def forget(self) -> None:
        """Look rows up anew: some were released."""
        self._layouts.clear()

    def _layout(self, event: HostMinute) -> Layout:
        key = event.system, event.host, event.source
        found = self._layouts.get(key)
        names = tuple(event.resources)
        if found is None or found.names != names:
            found = self._made(event, names)
            if not found.refused:  # else there may be room the next time
                self._layouts[key] = found
        return found

    def _made(self, event: HostMinute, names: tuple[str, ...]) -> Layout:
        system, host, minute_ms = event.system, event.host, event.minute_ms
        meters = [(place, name, found.kind) for place, name in enumerate(names) if (found := quantity(name))]
        rows = [self._roster.meter(system, host, name, minute_ms) for _, name, _ in meters]
        known = [(place, row, kind) for (place, _, kind), row in zip(meters, rows, strict=True) if row is not None]
        places, own, kinds = zip(*known, strict=True) if known else ((), (), ())
        return Layout(names, places, own, kinds, len(meters) - len(known))

    def _value(self, kind: Kind, minute: ResourceMinute) -> float:
        """Return what a meter did or shows: growth in all samples, the newest count, or the joules of the minute.

        One sample that can not be makes the minute one that can not be.
        """
        if kind in COUNTS:
            return nan if minute.last is None else minute.last
        if minute.low < 0:
            return -1.0
        if kind == Kind.DELTA:
            return minute.mean * minute.count
        power = kind in POWERS
        if power and (minute.high > self._power_max_w or (minute.low == 0 and kind == Kind.POWER)):
            return inf if minute.low else 0.0
        return minute.energy_j if power and minute.energy_j is not None else minute.mean * MINUTE_S
