"""Outlier scores of a stream of telemetry: of each sample by the record rule, of each host by all its resources together."""

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from processors.contracts.names import rfc3339
from processors.contracts.telemetry import Samples, SeriesIndex
from processors.hosts.rows import rounds
from processors.models.detect.multivariate import RESOURCES_MAX, CombinedRule, CombinedSettings
from processors.models.detect.record import RecordRule, RecordSettings

ALL: Final = "*"
RESOURCES_MIN: Final = 2  # fewest resources of a host that is scored by all of them together


class ScoreLine(msgspec.Struct, frozen=True):
    """One score: of a sample, or of all resources of a host (resource ``*``) in an interval, at its first sample."""

    host: str
    resource: str
    time: str
    score: float
    fired: bool


class _Host:
    """The places of a host's resources by series, and its row among the hosts with the same number of resources."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.row = -1  # no row yet


class StreamScorer:
    """Scores samples in order of time; a sample later than its interval is counted and skipped.

    A single sample from the far future would make all later samples late. If clocks may be wrong, remove samples that are
    `far_ahead` (`processors.windows.partition`) first.

    An interval of `interval_ms` waits until a sample of a later interval or `end`. A host is scored by the mean of each resource
    in the interval, with at most RESOURCES_MAX resources; the detector of a host with a new resource starts again.
    """

    def __init__(
        self,
        index: SeriesIndex,
        record: RecordSettings | None = None,
        combined: CombinedSettings | None = None,
        interval_ms: int = 10_000,
    ) -> None:
        self._index = index
        self._record = RecordRule(record)
        self._settings = combined
        self._interval_ms = interval_ms
        self._rules: dict[int, CombinedRule] = {}
        self._free: dict[int, list[int]] = {}
        self._hosts: dict[tuple[str, str], _Host] = {}
        self._waiting: list[Samples] = []
        self._interval: int | None = None
        self.late = 0

    def score(self, samples: Samples) -> Iterator[ScoreLine]:
        """Take samples, and yield the scores of the complete intervals in order of time."""
        interval = samples.time_ms // self._interval_ms
        latest = np.maximum.accumulate(interval) if interval.size else interval
        begun = self._interval
        keep = interval >= (latest if begun is None else np.maximum(latest, begun))
        self.late += int(keep.size - keep.sum())
        retained, interval = samples.take(keep), interval[keep]
        bounds = np.flatnonzero(np.diff(interval)) + 1
        for start, stop in zip([0, *bounds.tolist()], [*bounds.tolist(), interval.size], strict=True):
            if start == stop:
                return
            if self._interval is not None and interval[start] != self._interval:
                yield from self.end()
            self._interval = int(interval[start])
            self._waiting.append(retained.take(slice(start, stop)))

    def end(self) -> Iterator[ScoreLine]:
        """Yield the scores of the waiting interval: of each sample, then of each host."""
        retained, self._waiting = self._waiting, []
        if not retained:
            return
        samples = Samples(
            *(np.concatenate([getattr(each, name) for each in retained]) for name in Samples.__struct_fields__)
        )
        yield from self._each(samples)
        yield from self._joined(samples)

    def _each(self, samples: Samples) -> Iterator[ScoreLine]:
        """Score each sample; a series with several samples in the interval takes several rounds."""
        score, fired = np.zeros(samples.value.size), np.zeros(samples.value.size, bool)
        for at in rounds(samples.series):
            step = self._record.step(samples.series[at].astype(np.intp), samples.value[at], samples.time_ms[at])
            score[at], fired[at] = step.score, step.fired
        for number, time_ms, one, yes in zip(
            samples.series.tolist(), samples.time_ms.tolist(), score.tolist(), fired.tolist(), strict=True
        ):
            series = self._index[number]
            yield ScoreLine(series.host, series.resource, rfc3339(time_ms), one, yes)

    def _joined(self, samples: Samples) -> Iterator[ScoreLine]:
        """Score each host by the means of its resources in the interval."""
        finite = samples.take(np.isfinite(samples.value))
        numbers, place = np.unique(finite.series, return_inverse=True)
        mean = np.bincount(place, finite.value) / np.bincount(place) if numbers.size else np.zeros(0)
        measured: dict[tuple[str, str], dict[int, float]] = {}
        for number, value in zip(numbers.tolist(), mean.tolist(), strict=True):
            measured.setdefault(self._index[number][:2], {})[number] = value
        groups: dict[int, list[tuple[tuple[str, str], dict[int, float]]]] = {}
        for key, values in measured.items():
            resources = self._enter(key, values)
            if resources >= RESOURCES_MIN:
                groups.setdefault(resources, []).append((key, values))
        time_ms = int(samples.time_ms.min())
        for resources, group in sorted(groups.items()):
            yield from self._group(resources, group, time_ms)

    def _group(
        self, resources: int, group: list[tuple[tuple[str, str], dict[int, float]]], time_ms: int
    ) -> Iterator[ScoreLine]:
        """Score the hosts with the same number of resources in one step."""
        rows, values = np.zeros(len(group), np.intp), np.full((len(group), resources), np.nan)
        for i, (key, measured) in enumerate(group):
            host = self._hosts[key]
            rows[i] = host.row
            for number, value in measured.items():
                if number in host.places:
                    values[i, host.places[number]] = value
        step, time = self._rules[resources].step(rows, values, time_ms), rfc3339(time_ms)
        for (key, _), score, fired in zip(group, step.score.tolist(), step.fired.tolist(), strict=True):
            yield ScoreLine(key[1], ALL, time, score, fired)

    def _enter(self, key: tuple[str, str], values: dict[int, float]) -> int:
        """Give each resource a place and the host a row; return the number of its places."""
        host = self._hosts.setdefault(key, _Host())
        before = len(host.places)
        for number in values:
            if number not in host.places and len(host.places) < RESOURCES_MAX:
                host.places[number] = len(host.places)
        now = len(host.places)
        if now != before and now >= RESOURCES_MIN:
            if host.row >= 0:
                self._rules[before].table.clear(np.array([host.row]))
                self._free[before].append(host.row)
            host.row = self._new_row(now)
        return now

    def _new_row(self, resources: int) -> int:
        """Return a free row among the hosts with the same number of resources."""
        rule = self._rules.setdefault(resources, CombinedRule(resources, self._settings))
        free = self._free.setdefault(resources, [])
        if not free:
            rule.table.grow(rule.table.size + 1)
            return rule.table.size - 1
        return free.pop()
