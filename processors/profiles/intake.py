"""From what a collector told of a host's minute to readings of its meters."""

from collections.abc import Callable, Iterable
from functools import partial
from math import inf, nan
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agent.contracts.events import HostMinute, ResourceMinute
from processors.digest import digest64
from processors.profiles.meters import MeterRoster
from processors.profiles.quantities import Kind, quantity
from processors.profiles.readings import READING, Readings
from processors.windows.settings import MINUTE_MS

WHOLE_MAX: Final = 2**31 - 1
MINUTE_S: Final = MINUTE_MS / 1000


class Layout(NamedTuple):
    """The resources of a host that are meters (k,): places among all, rows, and how each is read; how many had no room.

    >>> Layout((), (), np.zeros(0, np.int32), (), 0).refused
    0
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    rows: npt.NDArray[np.int32]
    read: tuple[Callable[[ResourceMinute], float], ...]
    refused: int


class _Taken:
    """What was taken in of one minute: a piece for each host, and the values of all of them."""

    __slots__ = ("counts", "pieces", "revisions", "sources", "values")

    def __init__(self) -> None:
        self.pieces: list[npt.NDArray[np.int32]] = []
        self.sources: list[int] = []
        self.revisions: list[int] = []
        self.counts: list[int] = []
        self.values: list[float] = []

    def readings(self) -> Readings:
        """Return all of it as columns."""
        length = [len(piece) for piece in self.pieces]
        found = np.zeros(len(self.values), READING)
        found["meter"], found["value"] = np.concatenate(self.pieces), self.values
        found["source"] = np.repeat(np.array(self.sources, np.uint32), length)
        found["revision"] = np.repeat(np.array(self.revisions, np.float64).clip(0, WHOLE_MAX), length)
        found["count"] = np.array(self.counts, np.float64).clip(0, WHOLE_MAX)
        return found


class Intake:
    """Readings of hosts by minute. A host tells the same resources every minute, so their rows are looked up once.

    One sample that can not be makes a minute of a meter one that can not be.

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
        self._taken: dict[int, _Taken] = {}
        self._read = dict.fromkeys(Kind, _mean) | {
            Kind.DELTA: _grown,
            Kind.TOTAL: _last,
            Kind.ENERGY: _last,
            Kind.MEMORY_ENERGY: _last,
            Kind.POWER: partial(_energy, power_max_w=power_max_w, may_be_off=False),
            Kind.GPU_POWER: partial(_energy, power_max_w=power_max_w, may_be_off=True),
        }

    def take(self, event: HostMinute) -> int:
        """Take a minute of a host in; return how many of its resources there was no room for."""
        layout = self._layout(event)
        if layout.places:
            told = list(event.resources.values())
            if len(layout.places) < len(told):
                told = [told[place] for place in layout.places]
            values = [read(minute) for read, minute in zip(layout.read, told, strict=True)]
            taken = self._taken.get(event.minute_ms)
            if taken is None:
                taken = self._taken[event.minute_ms] = _Taken()
            taken.pieces.append(layout.rows)
            taken.sources.append(digest64(event.source) & 0xFFFFFFFF)
            taken.revisions.append(event.revision)
            taken.counts += [minute.count for minute in told]
            taken.values += values
        return layout.refused

    def readings(self) -> Iterable[tuple[int, Readings]]:
        """Return what was taken in since the last call, by minute."""
        taken, self._taken = self._taken, {}
        for minute_ms, each in taken.items():
            readings = each.readings()
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
        return Layout(
            names,
            tuple(place for place, _, _ in known),
            np.array([row for _, row, _ in known], dtype=np.int32),
            tuple(self._read[kind] for _, _, kind in known),
            len(meters) - len(known),
        )


def _grown(minute: ResourceMinute) -> float:
    """Return what a counter grew in all samples."""
    return -1.0 if minute.low < 0 else minute.mean * minute.count


def _last(minute: ResourceMinute) -> float:
    """Return the newest count."""
    return nan if minute.last is None else minute.last


def _mean(minute: ResourceMinute) -> float:
    """Return a rate or a level times the seconds of the minute."""
    return -1.0 if minute.low < 0 else minute.mean * MINUTE_S


def _energy(minute: ResourceMinute, *, power_max_w: float, may_be_off: bool) -> float:
    """Return the joules of the minute."""
    if minute.low < 0:
        return -1.0
    if minute.high > power_max_w:
        return inf
    if minute.low == 0 and not may_be_off:
        return 0.0
    return minute.mean * MINUTE_S if minute.energy_j is None else minute.energy_j
