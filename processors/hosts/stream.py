"""Outlier scores of a stream of telemetry: the record rule scores each sample, and all resources of a host together score the host."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from processors.contracts.alerts import HostAnomaly
from processors.contracts.names import rfc3339
from processors.contracts.telemetry import Samples, SeriesIndex
from processors.hosts.detectors import RESOURCES_MIN, Group
from processors.hosts.rate import DailyMaxima, fired
from processors.hosts.rows import Host, rounds
from processors.models.detect.multivariate import RESOURCES_MAX
from processors.models.detect.record import RecordRule

INTERVAL_MS: Final = 10_000
ALL: Final = "*"


class ScoreLine(msgspec.Struct, frozen=True):
    """The outlier score of one sample, or of all resources of a host in one interval.

    For all resources, `resource` is ``*`` and `time` is the time of the first sample of the interval.
    """

    host: str
    resource: str
    time: str
    score: float
    fired: bool


class StreamScorer:
    """Scores samples in order of time; a sample that arrives after the end of its interval is counted in `late` and skipped.

    A single sample from the far future would make all later samples late. If clocks may be wrong, remove samples that are
    `far_ahead` (`processors.windows.partition`) first.

    An interval of `interval_ms` is scored when a sample of a later interval arrives, or at `end`. A host is scored by the mean of
    each resource in the interval, with at most RESOURCES_MAX resources. If a host gets a new resource, its detector forgets what it
    has learned.
    """

    def __init__(self, index: SeriesIndex) -> None:
        self._index = index
        self._record = RecordRule()
        self._maxima = DailyMaxima()
        self._groups: dict[int, Group] = {}  # by number of resources
        self._places: dict[Host, dict[int, int]] = {}  # place of each series among the resources of its host
        self._rows: dict[Host, int] = {}  # row of each host in its group
        self._waiting: list[Samples] = []
        self._interval: int | None = None
        self.late = 0

    def score(self, samples: Samples) -> Iterator[ScoreLine]:
        """Take samples, and yield the scores of the complete intervals in order of time."""
        interval = samples.time_ms // INTERVAL_MS
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
        """Score each sample by itself. If a series has several samples, they are scored one after the other."""
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
        measured: dict[Host, dict[int, float]] = {}
        for number, value in zip(numbers.tolist(), mean.tolist(), strict=True):
            measured.setdefault(self._index[number][:2], {})[number] = value
        groups: dict[int, list[Host]] = {}
        for host, values in measured.items():
            groups.setdefault(self._enter(host, values), []).append(host)
        time_ms = int(samples.time_ms.min())
        for resources, hosts in sorted(groups.items()):
            if resources >= RESOURCES_MIN:
                yield from self._group(resources, hosts, measured, time_ms)

    def _group(
        self, resources: int, hosts: Sequence[Host], measured: Mapping[Host, dict[int, float]], time_ms: int
    ) -> Iterator[ScoreLine]:
        """Score the hosts with the same number of resources in one step."""
        values = np.full((len(hosts), resources), np.nan)
        for i, host in enumerate(hosts):
            for number, value in measured[host].items():
                if number in self._places[host]:
                    values[i, self._places[host][number]] = value
        rows = np.array([self._rows[host] for host in hosts], np.intp)
        step, time = self._groups[resources].rule.step(rows, values, time_ms), rfc3339(time_ms)
        is_fired = fired(step, self._maxima, HostAnomaly().false_per_host_day)
        self._maxima.learn(step.ended)
        for (_, name), score, yes in zip(hosts, step.score.tolist(), is_fired.tolist(), strict=True):
            yield ScoreLine(name, ALL, time, score, yes)

    def _enter(self, host: Host, values: Iterable[int]) -> int:
        """Assign an index to each new series of a host and a row to the host; return the number of indexes of the host."""
        places = self._places.setdefault(host, {})
        before = len(places)
        for number in values:
            if len(places) < RESOURCES_MAX:
                places.setdefault(number, len(places))
        resources = len(places)
        if resources != before and resources >= RESOURCES_MIN:
            if host in self._rows:
                self._groups[before].release(self._rows[host])
            if resources not in self._groups:
                self._groups[resources] = Group(resources, None)
            self._rows[host] = self._groups[resources].add()
        return resources
