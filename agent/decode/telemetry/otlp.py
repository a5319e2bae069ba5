"""Metrics of OpenTelemetry (OTLP), as the Kafka exporter of its collector writes them: a batch per message, protobuf or JSON."""

from collections.abc import Iterator
from typing import Final

from agent.decode.fields import check_bounds
from agent.decode.message import TelemetryOptions, checked, invalid, sized
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, in_slices, stamp_ms
from agent.decode.telemetry.metric import Metric
from agent.decode.telemetry.otlp_messages import (
    DELTA,
    OTHER,
    Point,
    Resource,
    Series,
    is_row_of,
    read_json,
    read_protobuf,
)
from agent.decode.telemetry.plans import NOTHING, Plan, Planner, take
from agent.decode.telemetry.processor_time import IdleShares
from agent.decode.telemetry.prometheus import PROCESSOR_SECONDS, PROMETHEUS
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodeSamples

PROCESSOR_SHARES: Final = frozenset({"system.cpu.utilization", "system.cpu.time (delta)"})
"""Metrics of the share of each processor's time that was spent on something: the mean of a host's counts."""

_IDLE: Final = (("state", "idle"),), (("cpu.mode", "idle"),)  # as the hostmetrics receiver has it, and the conventions
_HARDWARE: Final = ("cpu", "gpu", "memory")

OTLP: Final = (
    Metric("system.cpu.load_average.1m", "value", "load1"),
    Metric("system.cpu.load_average.5m", "value", "load5"),
    Metric("system.cpu.load_average.15m", "value", "load15"),
    *(
        Metric(name, "value", "cpu_available", only=idle)
        for name in ("system.cpu.time", "system.cpu.time (delta)", "system.cpu.utilization")
        for idle in _IDLE
    ),
    Metric("system.processes.count", "value", "runnable", only=(("status", "running"),)),
    Metric("system.memory.usage", "value", "memory_free", only=(("state", "free"),)),
    Metric("system.memory.usage", "value", "memory_free", only=(("system.memory.state", "free"),)),
    Metric("system.linux.memory.available", "value", "memory_available"),
    Metric("system.filesystem.usage", "value", "disk_free", only=(("state", "free"),), instance="mountpoint"),
    Metric("system.network.io", "value", "network_received_total", only=(("direction", "receive"),), instance="device"),
    Metric("system.network.io", "value", "network_sent_total", only=(("direction", "transmit"),), instance="device"),
    Metric("hw.host.power", "value", "power_w", peer="system"),
    Metric("hw.host.energy", "value", "energy_total", peer="system"),
    Metric("hw.host.energy (delta)", "value", "power_w", peer="system"),
    *(
        Metric(name, "value", resource, peer=of, part="hw.id", only=(("hw.type", of),))
        for name, resource in (
            ("hw.power", "power_w"),
            ("hw.energy", "energy_total"),
            ("hw.energy (delta)", "power_w"),
        )
        for of in _HARDWARE
    ),
)
"""Metrics of the hostmetrics receiver, and of OpenTelemetry's conventions for hardware; a supply or a fan is none of the parts whose power adds up."""

FIELD: Final = "value"
CPUS: Final = ("cpu", "cpu.logical_number")
RATE: Final = " (delta)"
"""Follows the name of a metric that says what it grew by; its value is what it grew by a second."""


def otlp_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of OpenTelemetry metrics: of its hostmetrics receiver, and by its conventions for hardware.

    Two scrapes of the cumulative idle time of the processors give the available share. A delta becomes a rate, which is a power if it is
    energy. Histograms are counted and left out.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = otlp_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa"), host="nid1"))
    >>> metric = b'{"name": "hw.host.power", "gauge": {"dataPoints": [{"timeUnixNano": "1787217284000000000", "asDouble": 412.5}]}}'
    >>> message = b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [' + metric + b"]}]}]}"
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [412.5]
    """
    return in_slices(_Decoder(options).decode, options, sized)  # protobuf may end in zero bytes


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._planner = Planner((*OTLP, *PROMETHEUS), options)
        self._plans = Known[tuple[str, ...], Plan]()
        self.idle = IdleShares()
        own = {mapping.measurement for mapping in options.taken.metrics}
        self._seconds, self._shares = PROCESSOR_SECONDS.keys() - own, PROCESSOR_SHARES - own

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        resources = self._read(value)
        failures: list[InvalidInputError] = []
        for resource in resources:
            of_resource = _OfResource(self, resource, message, columns)
            for series in resource.series:
                failures += of_resource.take(series)
            of_resource.finish()
        for failure in failures:
            columns.refuse(message, failure)

    def _read(self, value: bytes) -> list[Resource]:
        is_json = not is_row_of(1, value) and value.lstrip()[:1] == b"{"
        elements_max = self._options.decode.elements_max
        if is_json:
            resources = read_json(checked(value, self._options.decode), elements_max)
        else:
            resources = read_protobuf(value, elements_max)
        if sum(max(len(series.points), 1) for resource in resources for series in resource.series) > elements_max:
            raise invalid("array-bomb", f"The message has more data points than {elements_max}.")
        return resources

    def plan(self, name: str, host: str | None, attributes: dict[str, str], columns: Columns) -> Plan:
        plans, key = self._plans.of(columns.index), (name, host or "", *attributes, *attributes.values())
        plan = plans.get(key)
        if plan is None:
            plan = self._planner.plan(name, self._options.host_in(attributes, host), attributes)
            if plan is not NOTHING and sum(map(len, key)) <= KEY_BYTES_MAX:
                plans[key] = plan
        return plan

    def is_of_processors(self, name: str) -> bool:
        """Return whether each point of a metric concerns one processor, so that all points make one value."""
        return name in self._seconds or name in self._shares

    def shares(self, name: str) -> bool:
        """Return whether the points of such a metric are shares already, whose mean counts."""
        return name in self._shares

    def host_of(self, resource: Resource) -> str | None:
        """Return the host of a resource; single points may name another host."""
        return self._options.host_in(resource.attributes)

    def time_ms(self, point: Point, message: int, columns: Columns) -> int:
        """Return the time of a point, cached."""
        time_ms = stamp_ms(point.time_ns, "ns")
        check_bounds(time_ms, time_ms, columns.received_ms[message], self._options.decode)
        return time_ms


class _OfResource:
    """The metrics of one resource of a message; values over all processors are emitted at its end."""

    def __init__(self, decoder: _Decoder, resource: Resource, message: int, columns: Columns) -> None:
        self._decoder, self._message, self._columns = decoder, message, columns
        self._host = decoder.host_of(resource)
        self._means: dict[tuple[int, int], tuple[Plan, list[float]]] = {}
        self._idled: dict[str, Plan] = {}  # by host

    def take(self, series: Series) -> Iterator[InvalidInputError]:
        """Add the points of a metric; yield the errors of bad points."""
        if series.kind == OTHER:
            self._columns.ignore("metric")
            return
        name = f"{series.name}{RATE}" if series.kind == DELTA else series.name
        for number, point in enumerate(series.points):
            try:
                self._take(name, point, is_rate=series.kind == DELTA)
            except InvalidInputError as error:
                yield error.at(f"{series.name[:80]!a}[{number}]")

    def finish(self) -> None:
        """Emit the values over all processors."""
        for (_, time_ms), (plan, shares) in self._means.items():
            take({FIELD: sum(shares) / len(shares)}, plan, time_ms, self._message, self._columns)
        for host, plan in self._idled.items():
            share = self._decoder.idle.finish(host)
            if share is not None:
                take({FIELD: share.value}, plan, share.time_ms, self._message, self._columns)

    def _take(self, name: str, point: Point, *, is_rate: bool) -> None:
        of_processors = self._decoder.is_of_processors(name)
        attributes = point.attributes
        if of_processors:
            attributes = {key: text for key, text in attributes.items() if key not in CPUS}
        plan = self._decoder.plan(name, self._host, attributes, self._columns)
        if plan is NOTHING:
            self._columns.ignore("metric")
            return
        value = _rate(point) if is_rate else point.value
        if value is None:
            self._columns.ignore("null")
            return
        time_ms = self._decoder.time_ms(point, self._message, self._columns)
        if of_processors:
            self._note(name, plan, point, time_ms, value)
        else:
            take({FIELD: value}, plan, time_ms, self._message, self._columns)

    def _note(self, name: str, plan: Plan, point: Point, time_ms: int, value: float) -> None:
        if not plan.host:
            raise invalid("missing-field", "The record names no host.")
        if self._decoder.shares(name):
            self._means.setdefault((id(plan), time_ms), (plan, []))[1].append(value)
            return
        cpu = next((point.attributes[key] for key in CPUS if key in point.attributes), "")
        self._idled[plan.host] = plan
        share = self._decoder.idle.note(plan.host, cpu, time_ms, value)
        if share is not None:
            take({FIELD: share.value}, plan, share.time_ms, self._message, self._columns)


def _rate(point: Point) -> float | None:
    """Return the increment of a point per second; None without a start time."""
    since_ns = point.time_ns - point.start_ns
    return None if point.value is None or not point.start_ns or since_ns <= 0 else 1e9 * point.value / since_ns
