"""Carbon of energy: by one factor for all time, or by a series of intensities with its gaps."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from processors.contracts.nodes import Intensity

J_PER_KWH: Final = 3.6e6


class Carbon(NamedTuple):
    """Grams of CO2 equivalent, and the energy in J for whose time no intensity is known: it has no part in the grams."""

    grams: float = 0.0
    unknown_j: float = 0.0


class Factor:
    """One intensity for all time, in g CO2e per kWh."""

    def __init__(self, g_per_kwh: float) -> None:
        self.g_per_kwh = g_per_kwh

    def of(self, energy_j: float, from_ms: int, until_ms: int) -> Carbon:
        """Return the carbon of an energy, whenever it was used."""
        del from_ms, until_ms
        return Carbon(energy_j / J_PER_KWH * self.g_per_kwh)


class Series:
    """Intensities over time: each holds until the next one, but for `hold_s` at most; what comes after is unknown."""

    def __init__(self, rows: Sequence[Intensity], hold_s: float) -> None:
        self._hold_ms = round(hold_s * 1000)
        self._rows = rows
        self._times = [row.time_ms for row in rows]
        self._known_ms, self._grams = [0], [0.0]  # up to each row: how long an intensity was known, and its integral
        for row, after in pairwise(rows):
            held_ms = min(after.time_ms - row.time_ms, self._hold_ms)
            self._known_ms.append(self._known_ms[-1] + held_ms)
            self._grams.append(self._grams[-1] + held_ms * row.g_per_kwh)

    def of(self, energy_j: float, from_ms: int, until_ms: int) -> Carbon:
        """Return the carbon of an energy that was used evenly between two moments, the second of them the later one."""
        (known_from, grams_from), (known_until, grams_until) = self._until(from_ms), self._until(until_ms)
        kwh_per_ms = energy_j / J_PER_KWH / (until_ms - from_ms)
        known = (known_until - known_from) / (until_ms - from_ms)
        return Carbon((grams_until - grams_from) * kwh_per_ms, energy_j * (1.0 - known))

    def _until(self, time_ms: int) -> tuple[int, float]:
        """Return for how many ms an intensity was known up to a moment, and the integral of it over these."""
        place = bisect_right(self._times, time_ms) - 1
        if place < 0:
            return 0, 0.0
        held_ms = min(time_ms - self._times[place], self._hold_ms)
        return self._known_ms[place] + held_ms, self._grams[place] + held_ms * self._rows[place].g_per_kwh
