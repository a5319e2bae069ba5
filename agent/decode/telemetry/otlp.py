"""Metrics of OpenTelemetry (OTLP) from the Kafka exporter of its collector: a batch per message, protobuf or JSON."""

from functools import partial
from typing import Final

from agent.decode.fields import check_bounds
from agent.decode.message import TelemetryOptions, checked, refusals, sized
from agent.decode.telemetry.columns import Columns, in_slices, stamp_ms
from agent.decode.telemetry.metric import FIELD, Metric
from agent.decode.telemetry.otlp_messages import OtlpSeries, Point, Resource, is_row_of, read_json, read_protobuf
from agent.decode.telemetry.plans import NOTHING, Plan, Plans, take
from agent.decode.telemetry.processor_time import IdleShares, Share
from agent.decode.telemetry.prometheus import PROCESSOR_SECONDS, PROMETHEUS
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodeSamples

PROCESSOR_SHARES: Final = frozenset({"system.cpu.utilization", "system.cpu.time (delta)"})
"""Metrics that report a share of each processor's time; their mean over the processors of a host is used."""

# the attribute's names in the hostmetrics receiver, and in the semantic conventions
_IDLE: Final = (("state", "idle"),), (("cpu.mode", "idle"),)
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
        for name, resource in (("hw.power", "power_w"), ("hw.energy", "energy_total"), ("hw.energy (delta)", "power_w"))
        for of in _HARDWARE
    ),
)
"""Metrics of the hostmetrics receiver and of OpenTelemetry's hardware conventions.

Power supplies and fans are ignored, because only processors, GPUs and memory add up to the power of a host.
"""

CPUS: Final = ("cpu", "cpu.logical_number")
RATE: Final = " (delta)"
"""Suffix for the name of a metric that reports increments, whose value becomes the increment per second."""


def otlp_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of OpenTelemetry metrics from the hostmetrics receiver and from the hardware conventions.

    Two scrapes of the cumulative idle time of the processors give the available share. Deltas are converted to rates, and an
    energy delta to a power. Histograms are counted and skipped.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = otlp_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa"), host="nid1"))
    >>> metric = b'{"name": "hw.host.power", "gauge": {"dataPoints": [{"timeUnixNano": "1787217284000000000", "asDouble": 412.5}]}}'
    >>> message = b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [' + metric + b"]}]}]}"
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [412.5]
    """
    # `sized` instead of the default check, because protobuf may end in zero bytes
    return in_slices(_Decoder(options).decode, options, sized)


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self.options = options
        self.plans = Plans((*OTLP, *PROMETHEUS), options)
        self.idle = IdleShares()
        own = {mapping.measurement for mapping in options.taken.metrics}
        self.seconds, self.shares = PROCESSOR_SECONDS.keys() - own, PROCESSOR_SHARES - own

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        failures: list[InvalidInputError] = []
        for resource in self._read(value):
            failures += _OfResource(self, resource, message, columns).take()
        for failure in failures:
            columns.refuse(message, failure)

    def _read(self, value: bytes) -> list[Resource]:
        options = self.options.decode
        if not is_row_of(1, value) and value.lstrip()[:1] == b"{":
            resources = read_json(checked(value, options), options.elements_max)
        else:
            resources = read_protobuf(value, options.elements_max)
        points = sum(max(len(series.points), 1) for resource in resources for series in resource.series)
        options.check_count(points, "data points")
        return resources


class _OfResource:
    """Decodes the metrics of one resource; means over all processors of a host are added after its last point."""

    def __init__(self, decoder: _Decoder, resource: Resource, message: int, columns: Columns) -> None:
        self._decoder, self._resource, self._message, self._columns = decoder, resource, message, columns
        self._host = decoder.options.host_in(resource.attributes)  # a single point may name a different host
        self._means: dict[tuple[int, int], tuple[Plan, list[float]]] = {}
        self._idled: dict[str, Plan] = {}  # plans for idle shares, by host

    def take(self) -> list[InvalidInputError]:
        """Add the points of all metrics, then the means over all processors; return the errors of bad points."""
        errors: list[InvalidInputError] = []
        for series in self._resource.series:
            if series.kind == "other":
                self._columns.ignore("metric")
                continue
            errors += refusals(series.points, partial(self._take, series), f"{series.name[:80]!a}[{{}}]")
        for (_, time_ms), (plan, shares) in self._means.items():
            self._add(sum(shares) / len(shares), plan, time_ms)
        for host, plan in self._idled.items():
            self._add_share(self._decoder.idle.finish(host), plan)
        return errors

    def _add(self, value: float, plan: Plan, time_ms: int) -> None:
        take({FIELD: value}, plan, time_ms, self._message, self._columns)

    def _add_share(self, share: Share | None, plan: Plan) -> None:
        if share is not None:
            self._add(share.value, plan, share.time_ms)

    def _take(self, series: OtlpSeries, point: Point) -> None:
        decoder, columns, attributes = self._decoder, self._columns, point.attributes
        name = f"{series.name}{RATE}" if series.kind == "delta" else series.name
        # points of single processors are combined into one value per host
        of_processor = name in decoder.seconds or name in decoder.shares
        if of_processor:
            attributes = {key: text for key, text in attributes.items() if key not in CPUS}
        key = name, self._host or "", *attributes, *attributes.values()
        plan = decoder.plans.of(columns.index).get(key)
        if plan is None:
            plan = decoder.plans.add(key, name, decoder.options.host_in(attributes, self._host), attributes)
        if plan is NOTHING:
            columns.ignore("metric")
            return
        value = _rate(point) if series.kind == "delta" else point.value
        if value is None:
            columns.ignore("null")
            return
        time_ms = stamp_ms(point.time_ns, "ns")
        check_bounds(time_ms, time_ms, columns.received_ms[self._message], decoder.options.decode)
        if not of_processor:
            self._add(value, plan, time_ms)
            return
        host = plan.needed_host()
        if name in decoder.shares:
            self._means.setdefault((id(plan), time_ms), (plan, []))[1].append(value)
            return
        cpu = next((point.attributes[key] for key in CPUS if key in point.attributes), "")
        self._idled[host] = plan
        self._add_share(decoder.idle.note(host, cpu, time_ms, value), plan)


def _rate(point: Point) -> float | None:
    """Return the increment of a point per second; None if the point has no start time."""
    since_ns = point.time_ns - point.start_ns
    return None if point.value is None or not point.start_ns or since_ns <= 0 else 1e9 * point.value / since_ns
