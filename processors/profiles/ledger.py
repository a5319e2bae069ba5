"""What profiles are made from, as it is kept: meters, readings that wait, closed minutes, sums of runs; and its stored form."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from agent.contracts.errors import ConfigError
from agent.contracts.profile_settings import ProfileSettings
from processors.hosts import blocks
from processors.hosts.blocks import Block, BlockCopy
from processors.profiles.closing import AMOUNT
from processors.profiles.kept import KeptMinutes
from processors.profiles.meters import Covered, Lasts, MeterHosts, MeterRoster, Meters
from processors.profiles.names import NAMES_MAX, QuantityNames
from processors.profiles.quantities import ALWAYS
from processors.profiles.readings import READING, WaitingReadings
from processors.profiles.sums import SUM, Sums

COLUMNS: Final = (MeterHosts, Meters, Lasts, Covered)
NAMES, WAITING, MINUTES, SUMS = "profile_names", "profile_readings", "profile_minutes", "profile_sums"
ARRAYS: Final = (NAMES, WAITING, MINUTES, SUMS)
DTYPES: Final = {WAITING: READING, MINUTES: AMOUNT, SUMS: SUM}
VERSION: Final = 1
CHUNK_BYTES_MAX: Final = 240_000
WAITING_MINUTES: Final = 8  # of all meters
KEPT_MINUTES: Final = 64


class Ledger:
    """All that profiles are made from but the runs.

    >>> ledger = Ledger(ProfileSettings())
    >>> ledger.sums.rows = np.ones(1, SUM)
    >>> list(ledger.copied()), ledger.sizes()["profile_sums"]
    (['profile_sums/0'], 1)
    """

    def __init__(self, settings: ProfileSettings) -> None:
        self._meters_max = settings.resources_max
        self.names = QuantityNames()
        self.roster = MeterRoster(settings.resources_max, self.names)
        self.waiting = WaitingReadings(WAITING_MINUTES * settings.resources_max)
        self.kept = KeptMinutes(KEPT_MINUTES * settings.resources_max)
        self.sums = Sums(settings.resources_max)

    def sizes(self) -> dict[str, int]:
        """Return the number of rows by kind of state."""
        numbered = (self.roster.hosts, self.roster.series)
        rows = {kept.name: len(each.numbers) for each in numbered for kept in (each, *each.columns)}
        counts = (len(self.names), len(self.waiting), len(self.kept), len(self.sums))
        return rows | dict(zip(ARRAYS, counts, strict=True))

    def copied(self) -> dict[str, BlockCopy]:
        """Return a copy of all that is to be stored, by key."""
        found = blocks.copied(self.roster.hosts) | blocks.copied(self.roster.series)
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
        if len(self.roster.series.numbers) and len(self.names) <= NAMES_MAX * 3 // 4:
            return
        rows = [row for row, _ in self.roster.series.numbers]
        kept = [amounts["quantity"] for amounts in self.kept.minutes.values()]
        used = np.concatenate([self.roster.quantity_of[rows], self.sums.quantities(), *kept, np.arange(len(ALWAYS))])
        self.names.keep(np.unique(used).tolist())

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Put stored states back; ConfigError where this agent can not read them. All begins anew where names are older."""
        arrays = {key: value for key, value in states.items() if key.partition("/")[0] in ARRAYS}
        found = blocks.decoded(arrays, dict.fromkeys(ARRAYS, VERSION))
        if f"{NAMES}/0" not in found:
            return
        blocks.restore(self.roster, {key: value for key, value in states.items() if key not in arrays})
        try:
            self.names.restore(_names(found.pop(f"{NAMES}/0")))
            self._put_back(found)
        except ValueError as error:
            raise ConfigError(f"The stored states of profiles are damaged ({error}): {blocks.HEAL}") from error
        self.roster.noted()

    def _put_back(self, found: Mapping[str, Block]) -> None:
        parts: dict[tuple[str, int], list[bytes]] = {}
        for key in sorted(found, key=_place):
            kind, _, place = key.partition("/")
            parts.setdefault((kind, int(place.partition(".")[0]) if "." in place else 0), []).append(found[key].data)
        for (kind, minute_ms), data in parts.items():
            array = np.frombuffer(b"".join(data), DTYPES[kind]).copy()
            if kind == WAITING:
                self.waiting.add(minute_ms, _within(array, "meter", self.roster.series.numbers.end))
            elif kind == MINUTES:
                self.kept.add(minute_ms, _within(array, "host", self.roster.hosts.numbers.end))
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
