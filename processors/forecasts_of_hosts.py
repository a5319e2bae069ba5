"""What each resource of each host will measure next: forecasts that run beside the telemetry, minute by minute.

The 10-second means of a minute are taken in together for many hosts, whenever somebody asks or enough have come: that
order changes nothing, for a series depends on its own values alone.
"""

import heapq
from typing import ClassVar, Final

import msgspec
import numpy as np

from agent.contracts.events import HostMinute
from agent.contracts.names import job_key
from processors.models.forecast.battery import Forecasters
from processors.models.forecast.layout import PREDICTORS, WIDTH

STEPS: Final = 6  # 10-second means in a minute
BLOCK: Final = 256  # rows stored together
WAITING_MAX: Final = 8192  # series whose minute is not taken in yet
QUIET_MS: Final = 3_600_000  # a host that says nothing for so long is forgotten
SERIES_MAX: Final = 100_000
_STORED: Final = np.dtype("<f4")


class Series(msgspec.Struct, array_like=True, gc=False):
    """One resource of a host: its row, and the last minute that was taken in."""

    row: int
    minute_ms: int


class HostForecast(msgspec.Struct, frozen=True):
    """The next 10-second mean of a resource, its standard error (None after one value), and who says so.

    The `absolute_` ones are of the predictor with the least absolute error: it minds spikes less.
    """

    value: float
    error: float | None
    predictor: str
    absolute_value: float
    absolute_error: float | None
    absolute_predictor: str


class HostForecastsState(msgspec.Struct):
    """Stored form: series by host and resource, rows of the forecasters in blocks of BLOCK by number.

    `due_ms` is when to look for quiet hosts, `refused` how many minutes of a resource found no place.
    """

    hosts: dict[str, dict[str, Series]] = {}
    blocks: dict[int, bytes] = {}
    due_ms: int | None = None
    refused: int = 0


class HostForecasts:
    """The forecasts of all hosts of one shard, at most `series_max` series.

    >>> from agent.contracts.events import ResourceMinute
    >>> forecasts = HostForecasts.build()
    >>> cpu = ResourceMinute(6, 0.8, 0.7, 0.9, (0.8, 0.8, 0.8, 0.8, None, None))
    >>> forecasts.learn(HostMinute("exa", source="load-0", host="nid1", minute_ms=0, resources={"cpu_available": cpu}))
    >>> round(forecasts.of("exa", "nid1")["cpu_available"].value, 3)
    0.8
    """

    name: ClassVar[str] = "host_forecasts"
    version: ClassVar[int] = 1

    def __init__(self, state: HostForecastsState, series_max: int = SERIES_MAX) -> None:
        self._hosts = {host: dict(series) for host, series in _copied(state.hosts).items()}
        self._series_max, self.refused = series_max, state.refused
        self._forecasters = _restored(state.blocks)
        used = {series.row for resources in self._hosts.values() for series in resources.values()}
        if used and max(used) >= len(self._forecasters):
            raise ValueError("A series has no row in the stored blocks.")
        self._used = len(used)
        self._free = [row for row in range(len(self._forecasters)) if row not in used]
        self._waiting: dict[int, tuple[float, ...]] = {}
        self._due_ms = state.due_ms

    @classmethod
    def build(cls, state: HostForecastsState | None = None, series_max: int = SERIES_MAX) -> "HostForecasts":
        """Return the forecasts of a stored state, or none; ValueError where its blocks are not of this layout."""
        return cls(state or HostForecastsState(), series_max)

    def __len__(self) -> int:
        """Return how many series there are."""
        return self._used

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return len(self._hosts)

    def of(self, system: str, host: str) -> dict[str, HostForecast]:
        """Return the forecasts of a host by resource; none of a host that is not known."""
        found = self._hosts.get(job_key(system, host), {})
        self._take_in()
        forecast = self._forecasters.forecast(np.array([series.row for series in found.values()], dtype=np.intp))
        return {
            resource: HostForecast(value, _known(error), PREDICTORS[by], absolute, _known(deviation), PREDICTORS[who])
            for resource, value, error, by, absolute, deviation, who in zip(
                found, *(column.tolist() for column in forecast), strict=True
            )
            if by >= 0
        }

    def answering(self) -> dict[str, int]:
        """Return of how many series each predictor answers, by the names of PREDICTORS."""
        self._take_in()
        rows = [series.row for resources in self._hosts.values() for series in resources.values()]
        chosen = self._forecasters.forecast(np.array(rows, dtype=np.intp)).predictor
        counts = np.bincount(chosen[chosen >= 0], minlength=len(PREDICTORS)).tolist()
        return dict(zip(PREDICTORS, counts, strict=True))

    def score(self, fact: HostMinute) -> dict[str, HostForecast]:
        """Return what was expected of the resources of a minute before it came, only those known."""
        known = self.of(fact.system, fact.host)
        return {resource: known[resource] for resource in fact.resources if resource in known}

    def learn(self, fact: HostMinute) -> None:
        """Take a minute in: of each resource, if it is later than what was known of it."""
        key = job_key(fact.system, fact.host)
        for resource, minute in fact.resources.items():
            if any(mean is not None for mean in minute.means):
                self._learn_means(key, resource, fact.minute_ms, minute.means)

    def due_ms(self) -> int | None:
        """Return when to look for hosts that are quiet: no later than the first of them is; None without hosts."""
        return self._due_ms

    def forget_quiet(self, now_ms: int) -> int:
        """Forget the hosts that have been quiet for QUIET_MS and return how many they were."""
        quiet = [host for host, found in self._hosts.items() if _last_ms(found) + QUIET_MS <= now_ms]
        if quiet:
            self._take_in()
            rows = [series.row for host in quiet for series in self._hosts.pop(host).values()]
            self._forecasters.clear(np.array(rows, dtype=np.intp))
            self._used -= len(rows)
            for row in rows:
                heapq.heappush(self._free, row)
        last_ms = [_last_ms(found) for found in self._hosts.values()]
        self._due_ms = min(last_ms) + QUIET_MS if last_ms else None
        return len(quiet)

    def snapshot(self) -> HostForecastsState:
        """Return the stored form: blocks in which no row is used are left out."""
        self._take_in()
        numbers = {series.row // BLOCK for found in self._hosts.values() for series in found.values()}
        blocks = {number: self._stored(number) for number in sorted(numbers)}
        return HostForecastsState(_copied(self._hosts), blocks, self._due_ms, self.refused)

    def _learn_means(self, key: str, resource: str, minute_ms: int, means: tuple[float | None, ...]) -> None:
        series = self._series(key, resource, minute_ms)
        if series is None or minute_ms <= series.minute_ms:
            return
        if series.row in self._waiting or len(self._waiting) >= WAITING_MAX:
            self._take_in()
        series.minute_ms = minute_ms
        present = [np.nan if mean is None else mean for mean in means[:STEPS]]
        self._waiting[series.row] = (*present, *(np.nan,) * (STEPS - len(present)))

    def _series(self, key: str, resource: str, minute_ms: int) -> Series | None:
        """Return a series, a new one for a new resource; None where there are too many."""
        found = self._hosts.get(key, {}).get(resource)
        if found is not None:
            return found
        if self._used >= self._series_max:
            self.refused += 1
            return None
        if not self._free:
            first = len(self._forecasters)
            last = first + BLOCK * (1 + first // BLOCK // 4)  # in growing steps, for each one copies all rows
            self._forecasters.grow(last)
            self._free = list(range(first, last))
        self._used += 1
        due_ms = minute_ms + QUIET_MS
        self._due_ms = due_ms if self._due_ms is None else min(self._due_ms, due_ms)
        series = Series(heapq.heappop(self._free), minute_ms - 1)
        return self._hosts.setdefault(key, {}).setdefault(resource, series)

    def _take_in(self) -> None:
        if self._waiting:
            rows = np.fromiter(self._waiting, dtype=np.intp, count=len(self._waiting))
            for means in np.array(list(self._waiting.values())).T:
                self._forecasters.observe(rows, means)
            self._waiting.clear()

    def _stored(self, number: int) -> bytes:
        return self._forecasters.rows(number * BLOCK, (number + 1) * BLOCK).astype(_STORED).tobytes()


def _known(error: float) -> float | None:
    return None if np.isnan(error) else error


def _last_ms(found: dict[str, Series]) -> int:
    return max(series.minute_ms for series in found.values())


def _copied(hosts: dict[str, dict[str, Series]]) -> dict[str, dict[str, Series]]:
    return {
        host: {resource: Series(series.row, series.minute_ms) for resource, series in resources.items()}
        for host, resources in hosts.items()
    }


def _restored(blocks: dict[int, bytes]) -> Forecasters:
    forecasters = Forecasters(0)
    forecasters.grow((max(blocks, default=-1) + 1) * BLOCK)
    rows = forecasters.rows(0, len(forecasters))
    for number, stored in blocks.items():
        if len(stored) != BLOCK * WIDTH * _STORED.itemsize or number < 0:
            raise ValueError("A stored block of forecasts has another layout.")
        rows[number * BLOCK : (number + 1) * BLOCK] = np.frombuffer(stored, _STORED).reshape(BLOCK, WIDTH)
    return Forecasters(len(forecasters), rows)
