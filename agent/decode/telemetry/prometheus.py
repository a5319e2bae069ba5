"""Samples of Prometheus in JSON, from prometheus-kafka-adapter, a receiver of remote write: one sample per message."""

from typing import Final

import msgspec

from agent.decode.fields import check_bounds, number_in
from agent.decode.message import TelemetryOptions, check_keys, decode_json, invalid
from agent.decode.telemetry.columns import Columns, Stamps, in_slices
from agent.decode.telemetry.metric import FIELD, LOADS, Metric, thousandths
from agent.decode.telemetry.plans import NOTHING, Plans, take
from agent.decode.telemetry.processor_time import IdleShares
from processors.contracts.telemetry import DecodeSamples

PROCESSOR_SECONDS: Final = {"node_cpu_seconds_total": "mode", "system.cpu.time": "state"}
"""Metrics of each processor's time by mode, with the label that names the mode; idle time gives the available share."""

PROMETHEUS: Final = (
    *(Metric(f"node_{load}", "value", load) for load in LOADS),
    Metric("node_procs_running", "value", "runnable"),
    Metric("node_cpu_seconds_total", "value", "cpu_available", only=(("mode", "idle"),)),
    Metric("node_memory_MemFree_bytes", "value", "memory_free"),
    Metric("node_memory_MemAvailable_bytes", "value", "memory_available"),
    Metric("node_filesystem_free_bytes", "value", "disk_free", instance="mountpoint"),
    Metric("node_network_receive_bytes_total", "value", "network_received_total", instance="device"),
    Metric("node_network_transmit_bytes_total", "value", "network_sent_total", instance="device"),
    *(
        Metric(f"node_infiniband_port_{name}_total", "value", "nic_total", instance="device", counter=counter)
        for name, counter in (
            ("data_transmitted_bytes", "xmit_bytes"),
            ("packets_transmitted", "xmit_packets"),
            ("transmit_wait", "xmit_wait"),
        )
    ),
    Metric("node_rapl_package_joules_total", "value", "energy_total", peer="cpu", part="index"),
    Metric("node_rapl_dram_joules_total", "value", "energy_total", peer="memory", part="index"),
    Metric("ipmi_dcmi_power_consumption_watts", "value", "power_w", peer="system"),
    Metric("DCGM_FI_DEV_POWER_USAGE", "value", "power_w", peer="gpu", part="gpu"),
    Metric("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "value", "energy_total", thousandths, peer="gpu", part="gpu"),
    Metric("kepler_node_cpu_joules_total", "value", "energy_total", peer="cpu", only=(("zone", "package"),)),
    Metric("kepler_node_cpu_joules_total", "value", "energy_total", peer="memory", only=(("zone", "dram"),)),
    Metric("kepler_node_cpu_watts", "value", "power_w", peer="cpu", only=(("zone", "package"),)),
    Metric("kepler_node_cpu_watts", "value", "power_w", peer="memory", only=(("zone", "dram"),)),
)
"""Metrics of node_exporter, ipmi_exporter, dcgm-exporter and Kepler by metric name."""

CPU: Final = "cpu"
_NO_NUMBER: Final = frozenset({"NaN", "+Inf", "-Inf", "Inf"})


class _Sample(msgspec.Struct, gc=False):
    labels: dict[str, str]
    name: str
    timestamp: str | float
    value: str | float


_SAMPLE = msgspec.json.Decoder(_Sample)


def prometheus_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of Prometheus samples: node_exporter, ipmi_exporter, dcgm-exporter, Kepler.

    The host comes from the labels, see `TelemetryOptions.host_in`, without its port. Two scrapes of the cumulative idle time of
    the processors give the available share. NaN values, which mark the end of a series, are counted.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = prometheus_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> message = b'{"labels":{"instance":"nid1:9100"},"name":"node_load1","timestamp":"2026-08-20T09:14:44Z","value":"3.5"}'
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [3.5]
    """
    return in_slices(_Decoder(options).decode, options)


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._plans = Plans(PROMETHEUS, options)
        self._stamps = Stamps("auto")
        self._shares = IdleShares()
        self._seconds = PROCESSOR_SECONDS.keys() - {mapping.measurement for mapping in options.taken.metrics}

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        sample = decode_json(_SAMPLE, value)
        check_keys(value, 4 + len(sample.labels))
        name, labels = sample.name, sample.labels
        of_processor = name in self._seconds
        if of_processor:  # one plan for all processors of a host
            labels = {label: text for label, text in labels.items() if label != CPU}
        key = name, *labels, *labels.values()
        plan = self._plans.of(columns.index).get(key)
        plan = plan or self._plans.add(key, name, self._options.host_in(labels), labels)
        if plan is NOTHING:
            columns.ignore("metric")
            return
        number = number_in(sample.value)
        if number is None and sample.value not in _NO_NUMBER:
            raise invalid("wrong-type", "The value of the sample is not a number.")
        if number is None:
            columns.ignore("null")
            return
        time_ms = self._stamps.time_ms(sample.timestamp)
        if not of_processor:
            take({FIELD: number}, plan, time_ms, message, columns)
            return
        # checked before the time is stored
        check_bounds(time_ms, time_ms, columns.received_ms[message], self._options.decode)
        share = self._shares.note(plan.needed_host(), sample.labels.get(CPU, ""), time_ms, number)
        if share is not None:
            take({FIELD: share.value}, plan, share.time_ms, message, columns)
