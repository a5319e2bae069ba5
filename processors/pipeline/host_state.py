"""The state of the hosts of one shard: tables of rows, stores by key, and the data of profiles.

Every kind of state is declared once, in `HostShardState.__init__`. Checkpoint, restore, sizes and the list of kinds are
derived from this declaration.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from processors.alerts.lifecycle import HostAlertLife
from processors.contracts.alerts import AlertSettings, HostAnomaly
from processors.contracts.errors import ConfigError
from processors.contracts.settings import JobSettings, ProfileSettings, RunTimeSettings
from processors.hosts.detectors import AnomalyCandidates, MultivariateDetector, Records
from processors.hosts.jobs import (
    HostCondition,
    HostJob,
    PartitionHosts,
    PartitionHostsState,
)
from processors.hosts.lines import LINE_KINDS, LineStore
from processors.hosts.peers import HostCauses, HostLevels, PeerComparison
from processors.hosts.rate import DailyMaxima
from processors.hosts.rows import HEAL, Block, BlockCopy, MeasuredProcessors, RowIndex, decoded
from processors.hosts.windows import HostForecasts, HostWindows
from processors.models.detect.multivariate import CombinedSettings
from processors.pipeline.state import FoldSettings, ProcessorStores
from processors.power.profiles.attribution import (
    SUM,
    ProfileRun,
    ReportedStarts,
    RetainedMinutes,
    RunSums,
)  # fmt: skip
from processors.power.profiles.finalisation import AMOUNT, HostPower
from processors.power.profiles.meters import ALWAYS, NAMES_MAX, READING, MeterIndex, QuantityNames, WaitingReadings
from processors.run_time.machine import HostNodeShapes
from processors.store import Store

FOLLOWED_MAX: Final = 100_000  # jobs and runs whose state stays decoded in memory
NAMES, WAITING, MINUTES, SUMS = "profile_names", "profile_readings", "profile_minutes", "profile_sums"
ARRAYS: Final = (NAMES, WAITING, MINUTES, SUMS)
DTYPES: Final = {WAITING: READING, MINUTES: AMOUNT, SUMS: SUM}
VERSION: Final = 1
CHUNK_BYTES_MAX: Final = 240_000
SLICE_BYTES: Final = 2_000_000  # bytes copied before giving way to other work: about 3 ms
FAR_SHARE: Final = 2.0 / 3.0  # factor on `resources_share`, because a resource far from its mean is rarer than a record
FLEET: Final = "fleet"  # the key of the daily maxima of all hosts of the shard
WAITING_MINUTES: Final = 8  # readings may wait for this many minutes of all meters
RETAINED_MINUTES: Final = 64
Copy = dict[str, BlockCopy | None]


class ProfileStore:
    """The data from which profiles are computed, except the runs: meters, waiting readings, closed minutes, and sums of each run."""

    def __init__(self, settings: ProfileSettings) -> None:
        self.names = QuantityNames()
        self.index = MeterIndex(settings.resources_max, self.names)
        self.waiting = WaitingReadings(WAITING_MINUTES * settings.resources_max)
        self.retained = RetainedMinutes(RETAINED_MINUTES * settings.resources_max)
        self.sums = RunSums(settings.resources_max)

    def sizes(self) -> dict[str, int]:
        counts = (len(self.names), len(self.waiting), len(self.retained), len(self.sums))
        return self.index.sizes() | dict(zip(ARRAYS, counts, strict=True))

    def copied(self) -> Iterator[tuple[str, BlockCopy]]:
        """Yield a copy of each block of rows to store, with its key."""
        yield from self.index.copied()
        if len(self.names) > len(ALWAYS):
            names = [None if name is None else ("", name) for name in self.names.all]
            yield f"{NAMES}/0", BlockCopy(VERSION, b"", 0, names)
        for key, array in self._arrays():
            rows = CHUNK_BYTES_MAX // array.itemsize
            for first in range(0, len(array), rows):
                yield f"{key}{first // rows}", BlockCopy(VERSION, array[first : first + rows].tobytes(), 0, ())

    def forget_names(self) -> None:
        """Forget unused names of quantities if there are many."""
        if len(self.index.series.ids) and len(self.names) <= NAMES_MAX * 3 // 4:
            return
        rows = [row for row, _ in self.index.series.ids]
        retained = [amounts["quantity"] for amounts in self.retained.minutes.values()]
        meters = [self.index.meters["quantity"][rows], self.index.meters["busiest"][rows]]
        used = np.concatenate([*meters, self.sums.quantities(), *retained, np.arange(len(ALWAYS))])
        self.names.keep(np.unique(used).tolist())

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Restore stored states; start empty if the stored names are of an older version.

        Raise ConfigError if this agent cannot read a state.
        """
        arrays = {key: value for key, value in states.items() if key.partition("/")[0] in ARRAYS}
        blocks = decoded(arrays, dict.fromkeys(ARRAYS, VERSION))
        if f"{NAMES}/0" not in blocks:
            return
        self.index.restore({key: value for key, value in states.items() if key not in arrays})
        try:
            names = {row: name for row, _, name in blocks.pop(f"{NAMES}/0").names}
            self.names.restore([names.get(number) for number in range(max(names, default=-1) + 1)])
            self._put_back(blocks)
        except ValueError as error:
            raise ConfigError(f"The stored states of profiles are damaged ({error}): {HEAL}") from error
        self.index.restore_meanings()

    def _put_back(self, blocks: Mapping[str, Block]) -> None:
        parts: dict[tuple[str, int], list[bytes]] = {}
        for key in sorted(blocks, key=_place):
            kind, _, place = key.partition("/")
            parts.setdefault((kind, int(place.partition(".")[0]) if "." in place else 0), []).append(blocks[key].data)
        for (kind, minute_ms), data in parts.items():
            array = np.frombuffer(b"".join(data), DTYPES[kind]).copy()
            if kind == WAITING:
                self.waiting.add(minute_ms, _within(array, "meter", self.index.series.ids.end))
            elif kind == MINUTES:
                self.retained.add(minute_ms, _within(array, "host", self.index.hosts.ids.end))
            else:
                self.sums.rows = array

    def _arrays(self) -> Iterator[tuple[str, npt.NDArray[np.void]]]:
        yield from ((f"{WAITING}/{minute_ms}.", readings) for minute_ms, readings in self.waiting.by_minute())
        yield from (
            (f"{MINUTES}/{minute_ms}.", amounts) for minute_ms, amounts in sorted(self.retained.minutes.items())
        )
        yield f"{SUMS}/", self.sums.rows


def _place(key: str) -> tuple[int, ...]:
    """Return the sort key of a chunk: its minute, then its number within the minute."""
    return tuple(map(int, key.partition("/")[2].split(".")))


def _within(array: npt.NDArray[np.void], field: str, end: int) -> npt.NDArray[np.void]:
    if len(array) and not 0 <= int(array[field].min()) <= int(array[field].max()) < end:
        raise ValueError(f"a {field} is none that is known")
    return array


def combined(anomaly: HostAnomaly) -> CombinedSettings:
    """Return the settings of the detector that scores all resources of a host together."""
    return CombinedSettings(far_share=FAR_SHARE * anomaly.resources_share, learn_h=anomaly.learn_s / 3600.0)


class HostShardState(ProcessorStores):
    """The state of the hosts of one shard, and the present time."""

    def __init__(self, settings: FoldSettings) -> None:
        super().__init__(settings)
        self._written: set[str] = set()
        self._saving: set[str] = set()

        anomaly, difference = settings.alerts.host_anomaly, settings.alerts.peer_difference
        self.index = RowIndex(settings.hosts.series_max)
        series, hosts = self.index.series, self.index.hosts
        self.windows = series.join(HostWindows())
        self.forecasts = series.join(HostForecasts())
        series.join(self.forecasts.errors)
        self.records = series.join(Records())
        self.peers = series.join(PeerComparison(difference))
        self.daily_maxima = self._store(DailyMaxima)
        self.multivariate = hosts.join(
            MultivariateDetector(combined(anomaly), lambda: self.daily_maxima.open(FLEET), anomaly.false_per_host_day)
        )
        self.places = series.join(self.multivariate.places)
        self.candidates = hosts.join(AnomalyCandidates())
        self.levels = series.join(HostLevels())
        self.causes = hosts.join(HostCauses())
        self.measured = hosts.join(MeasuredProcessors())
        self.lines = LineStore(self.index, settings.hosts.lines_h)

        self.jobs = self._store(HostJob, live_max=FOLLOWED_MAX)
        self.partitions = self._store(PartitionHosts, PartitionHostsState)
        self.conditions = self._store(HostCondition)
        self.alerts: Store[Any] = self._store(HostAlertLife)
        self.runs = self._store(ProfileRun, live_max=FOLLOWED_MAX)
        self.starts = self._store(ReportedStarts)
        self.shapes = self._store(HostNodeShapes)
        self.powers = self._store(HostPower)

        self.profiles = ProfileStore(settings.profiles)

    def sizes(self) -> dict[str, int]:
        stores = {kind: len(store) for kind, store in self._stores.items()}
        return self.index.sizes() | self.lines.sizes() | self.profiles.sizes() | stores

    def copied(self) -> Copy:
        """Return a copy of the rows and lines for a checkpoint; `encoded` turns the copy into bytes in any thread.

        The fold gives way to other work between parts of the copy, because the copy of 10,000 hosts (240 MB) takes 0.3 s.
        """
        blocks = self._in_slices(chain(self.lines.copied(), self.index.copied(), self.profiles.copied()))
        self._saving = {*blocks, *self.lines.keys()}
        gone: Copy = dict.fromkeys(self._written - self._saving)
        self._written |= blocks.keys()
        return gone | blocks

    def confirm(self) -> None:
        self._written = set(self._saving)
        self.lines.confirm()
        super().confirm()

    def restore(self, states: Mapping[str, bytes], now_ms: int) -> None:
        """Restore stored states. Raise ConfigError if this agent cannot read a state."""
        self.now_ms = now_ms
        of_profiles = frozenset(self.profiles.sizes())
        rows: dict[str, bytes] = {}
        lines: dict[str, bytes] = {}
        profiles: dict[str, bytes] = {}
        for key, value in states.items():
            kind, _, subkey = key.partition("/")
            if kind in self._stores:
                self._stores[kind].restore(subkey, value)
            else:
                (profiles if kind in of_profiles else lines if kind in LINE_KINDS else rows)[key] = value
        self._written = {*rows, *lines, *profiles}
        self.index.restore(rows)
        self.lines.restore(lines)
        if not len(self.index.series.ids):  # without ids all rows start empty, so the lines of rows are dropped
            self.lines.clear()
        self.profiles.restore(profiles)

    def forget(self, keys: Iterable[str]) -> None:
        """Make the next checkpoint delete the states of `keys`, which were not restored."""
        self._written.update(keys)

    def _in_slices(self, copies: Iterable[tuple[str, BlockCopy]]) -> dict[str, BlockCopy]:
        blocks: dict[str, BlockCopy] = {}
        copied_bytes = 0
        for key, block in copies:
            blocks[key] = block
            copied_bytes += len(block.data)
            if copied_bytes >= SLICE_BYTES:
                copied_bytes = 0
                self.give_way()
        return blocks


_EMPTY: Final = HostShardState(FoldSettings(JobSettings(), RunTimeSettings(), AlertSettings(), agent_version=""))
COLUMNS: Final = tuple(type(rows) for index in (_EMPTY.index, _EMPTY.profiles.index) for rows in index.retained())
"""All kinds of state that are kept as rows and stored in blocks."""
STORED: Final = tuple(type(store.open("")) for store in _EMPTY.stores())
"""All kinds of processors of hosts that are stored by key."""
KINDS: Final = frozenset(_EMPTY.sizes())


def of_hosts(key: str) -> bool:
    """Return whether `key` is the key of a host state."""
    return key.partition("/")[0] in KINDS


def encoded(copy: Copy) -> dict[str, bytes | None]:
    """Return the states in `copy`, encoded for a checkpoint."""
    return {key: None if block is None else block.encoded() for key, block in copy.items()}
