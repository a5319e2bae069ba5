"""The measurements of one job of a ClusterCockpit archive, as columns from which samples are taken in order of time."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from agent.contracts.telemetry import SeriesIndex
from agent.decode.clustercockpit import Job
from agent.decode.message import JSON_ERRORS, json_error
from agent.decode.reasons import invalid
from agent.decode.telemetry.clustercockpit import NODE, SCOPES, Place, factor_of, place_of, told_unit
from agent.decode.telemetry.columns import Columns, number_of

Floats = npt.NDArray[np.float64]
Values = list[float | None]

STEP_MAX_S: Final = 86_400.0
LOAD: Final = ("cpu_load", NODE)
LOAD1: Final = "load1"  # which has windows as well, as that of lines


class _Unit(msgspec.Struct):
    base: str | None = None
    prefix: str | None = None


class _Series(msgspec.Struct):
    data: Values
    hostname: str
    id: int | str | None = None


class _Statistics(msgspec.Struct):
    mean: Values = []


class _Metric(msgspec.Struct, rename="camel"):
    timestep: float
    unit: _Unit | str | None = None
    series: list[_Series] | None = None
    statistics_series: _Statistics | None = None


_DATA: Final = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])
_METRIC: Final = msgspec.json.Decoder(_Metric)


class _Block(NamedTuple):
    """Series (k,) with the same times: values (k, n) from the start of the job on, `step_ms` apart, nan for none."""

    step_ms: int
    series: npt.NDArray[np.int64]
    values: Floats


class Measured(NamedTuple):
    """What was measured while a job ran; `nulls` values are missing, `left_out` metrics are of no use.

    >>> job = Job(69, "emmy", start_time=1738842000, duration=600)
    >>> data = b'{"ipc": {"node": {"timestep": 60, "series": [{"hostname": "e0102", "data": [1.5, null, 1.6]}]}}}'
    >>> index = SeriesIndex(9)
    >>> found = measured(job, data, "emmy", index)
    >>> columns = Columns([0], index)
    >>> found.add(job.start_ms, job.start_ms + 600_000, columns)
    >>> columns.values, found.nulls
    ([1.5, 1.6], 1)
    """

    first_ms: int
    last_ms: int
    blocks: tuple[_Block, ...]
    nulls: int
    left_out: int

    @property
    def size(self) -> int:
        """How many values there are."""
        return sum(block.values.size for block in self.blocks)

    @property
    def end_ms(self) -> int:
        """The time after the last value."""
        ends = [self.first_ms + block.values.shape[1] * block.step_ms for block in self.blocks]
        return min(max(ends, default=self.first_ms), self.last_ms + 1)

    def add(self, from_ms: int, to_ms: int, columns: Columns) -> None:
        """Add the samples from a time on, and before another."""
        for block in self.blocks:
            first, stop = (
                max(-((self.first_ms - time_ms) // block.step_ms), 0)
                for time_ms in (from_ms, min(to_ms, self.last_ms + 1))
            )
            for at in range(first, min(stop, block.values.shape[1])):
                values = block.values[:, at]
                good = np.isfinite(values)
                if good.any():
                    time_ms = self.first_ms + at * block.step_ms
                    columns.add(block.series[good].tolist(), values[good].tolist(), time_ms, 0)


def measured(job: Job, data: bytes, system: str, index: SeriesIndex, *, short_hosts: bool = False) -> Measured:
    """Return the measurements in a job's `data.json`; InvalidInputError where they are no such document.

    Of the scopes of a metric the coarsest counts. Where only statistics over the nodes are kept, their mean stands for each.

    >>> measured(Job(69, start_time=1738842000, duration=60), b"{}", "emmy", SeriesIndex(9)).size
    0
    """
    try:
        metrics = _DATA.decode(data)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    gathered = _Gathered(job, system, index, short_hosts=short_hosts)
    for name, scopes in metrics.items():
        scope = next((each for each in SCOPES if each in scopes and place_of(name, each, "0")), None)
        if scope is None:
            gathered.left_out += 1
        else:
            gathered.take(name, scope, _decoded(scopes[scope], name))
    return gathered.measured()


def _decoded(raw: msgspec.Raw, name: str) -> _Metric:
    try:
        metric = _METRIC.decode(raw)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if not 0.001 <= metric.timestep <= STEP_MAX_S:
        raise invalid("out-of-range", f"The metric {name[:40]!a} has a time step of {metric.timestep} s.")
    return metric


class _Gathered:
    """Rows of values by what they are of: sums and counts, for parts of a host may share a row."""

    def __init__(self, job: Job, system: str, index: SeriesIndex, *, short_hosts: bool) -> None:
        self._job, self._system, self._index, self._short_hosts = job, system, index, short_hosts
        self._rows: dict[int, dict[int, Floats]] = {}
        self.nulls = 0
        self.left_out = 0

    def take(self, name: str, scope: str, metric: _Metric) -> None:
        """Take the series of a metric, in base units."""
        unit = metric.unit
        factor = factor_of(name, told_unit(unit.prefix, unit.base) if isinstance(unit, _Unit) else unit)
        rows: dict[tuple[str, Place], list[Floats]] = {}
        for each in self._series(metric, scope):
            place = place_of(name, scope, "0" if each.id is None else str(each.id))
            if place is not None:
                rows.setdefault((each.hostname, place), []).append(self._values(each.data) * factor)
        step_ms = round(metric.timestep * 1000)
        for (host, place), values in rows.items():
            found = _mean(values)
            self._put(host, place.resource, place.peer, step_ms, found)
            if (name, scope) == LOAD:
                self._put(host, LOAD1, None, step_ms, found)

    def measured(self) -> Measured:
        """Return all that was taken."""
        blocks = [_block(step_ms, rows) for step_ms, rows in self._rows.items()]
        last_ms = 2**62 if self._job.unfinished else self._job.end_ms
        return Measured(self._job.start_ms, last_ms, tuple(blocks), self.nulls, self.left_out)

    def _put(self, host: str, resource: str, peer: str | None, step_ms: int, values: Floats) -> None:
        host_name = host.partition(".")[0] if self._short_hosts else host
        number = number_of(self._system, host_name, resource, peer, self._index)
        if number is None:
            self.left_out += 1
        else:
            self._rows.setdefault(step_ms, {})[number] = values

    def _series(self, metric: _Metric, scope: str) -> Sequence[_Series]:
        if metric.series or metric.statistics_series is None or scope != NODE:
            return metric.series or ()
        return [_Series(metric.statistics_series.mean, host.hostname) for host in self._job.resources]

    def _values(self, data: Values) -> Floats:
        missing = data.count(None)
        self.nulls += missing
        return np.array([math.nan if value is None else value for value in data] if missing else data, np.float64)


def _mean(rows: list[Floats]) -> Floats:
    """Return the mean of rows of any length, nan where none has a value."""
    if len(rows) == 1:
        return rows[0]
    length = max(map(len, rows))
    total, count = np.zeros(length), np.zeros(length)
    for row in rows:
        good = np.isfinite(row)
        total[: len(row)] += np.where(good, row, 0.0)
        count[: len(row)] += good
    mean = np.full(length, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def _block(step_ms: int, rows: dict[int, Floats]) -> _Block:
    values = np.full((len(rows), max(map(len, rows.values()))), np.nan)
    for at, row in enumerate(rows.values()):
        values[at, : len(row)] = row
    return _Block(step_ms, np.array([*rows], np.int64), values)
