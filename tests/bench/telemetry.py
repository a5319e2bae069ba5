"""Decoding of telemetry: slices of messages into columns of samples, on one core."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Final

from agent.decode.formats import TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from processors.contracts.names import rfc3339
from processors.contracts.nodes import Node, Nodes
from processors.contracts.telemetry import DecodeSamples, MetricMapping, SeriesIndex, Telemetry
from tests.bench.result import Row, median_rate

REPEATS: Final = 5
SLICE: Final = 2_000
HOSTS: Final = 2_000
METRICS: Final = 40
START_MS: Final = 1_795_168_800_000
FIELDS: Final = tuple(f"metric_{i:02d}" for i in range(METRICS))
OPTIONS: Final = TelemetryOptions(
    decode=DecodeOptions(default_system="bench"),
    taken=Telemetry(
        metrics=tuple(
            MetricMapping(measurement=kind, field=field, resource=field)
            for kind in ("wide", "ldms")
            for field in FIELDS
        )
    ),
    nodes=Nodes(Node(f"nid{host:06d}", xname=f"x{1000 + host}c0s0b0n0") for host in range(HOSTS)),
)

Make = Callable[[int], bytes]


def _load(host: int, resource: str, time_ms: int, value: float) -> dict[str, object]:
    name, moment = f"nid{host:06d}", rfc3339(time_ms)
    return {"type": "load", "system": "bench", "host": name, "resource": resource, "time": moment, "value": value}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def load_one(i: int) -> bytes:
    return _json(_load(i % HOSTS, "cpu_available", START_MS + i // HOSTS * 1000, i % 100 / 100))


def _one_ms(i: int) -> bytes:
    return _json(_load(i % HOSTS, "cpu_available", START_MS + i, i % 100 / 100))


def _array(i: int) -> bytes:
    return _json([_load(i % HOSTS, field, START_MS + i // HOSTS * 1000, i + 0.5) for field in FIELDS])


def _telegraf_one(i: int) -> bytes:
    tags = {"cpu": "cpu-total", "host": f"nid{i % HOSTS:06d}"}
    return _json({"fields": {"usage_idle": 2.5}, "name": "cpu", "tags": tags, "timestamp": 1_795_168_800 + i // HOSTS})


def _telegraf_wide(i: int) -> bytes:
    fields = dict.fromkeys(FIELDS, i + 0.5)
    tags = {"host": f"nid{i % HOSTS:06d}"}
    return _json({"fields": fields, "name": "wide", "tags": tags, "timestamp": 1_795_168_800 + i // HOSTS})


def _line_one(i: int) -> bytes:
    return f"cpu,cpu=cpu-total,host=nid{i % HOSTS:06d} usage_idle=2.5 {1_795_168_800 + i // HOSTS}000000000".encode()


def line_wide(i: int) -> bytes:
    fields = ",".join(f"{field}={i}.5" for field in FIELDS)
    return f"wide,host=nid{i % HOSTS:06d} {fields} {1_795_168_800 + i // HOSTS}000000000".encode()


def _ldms_wide(i: int) -> bytes:
    row = {"timestamp": 1_795_168_800.5 + i // HOSTS, "producer": f"nid{i % HOSTS:06d}", "component_id": i % HOSTS}
    return _json(row | dict.fromkeys(FIELDS, i + 0.5))


def _cray(i: int) -> bytes:
    """Return what the controller of a node tells every five seconds: four powers a second."""
    common: dict[str, str | int] = {
        "Location": f"x{1000 + i % HOSTS}c0s0b0n0",
        "PhysicalContext": "VoltageRegulator",
        "Index": 0,
    }
    parents: list[dict[str, str | int]] = [{"ParentalContext": "Chassis"}]
    parents += [{"ParentalContext": "CPU", "ParentalIndex": cpu} for cpu in range(3)]
    sensors = [
        {
            "Timestamp": rfc3339(time_ms)[:-1] + "742109Z",
            **common,
            **of,
            "PhysicalSubContext": "Input",
            "Value": f"{i % 700}.250",
        }
        for time_ms in range(START_MS + 123 + i // HOSTS * 5000, START_MS + 5123 + i // HOSTS * 5000, 1000)
        for of in parents
    ]
    event = {"MessageId": "CrayTelemetry.Power", "Oem": {"Sensors": sensors, "TelemetrySource": "nC"}}
    return _json({"Context": f"x{1000 + i % HOSTS}c0s0b0", "Events": [event]})


CASES: Final[dict[str, tuple[str, Make, int, float, str]]] = {  # format, messages, samples in each, goal, meaning
    "native": ("native", load_one, 1, 400_000, "one load sample per message, whole seconds"),
    "native ms": ("native", _one_ms, 1, 400_000, "the same, each message with a time of its own"),
    "native x40": ("native", _array, METRICS, 1_500_000, "arrays of 40 load samples"),
    "telegraf": ("telegraf", _telegraf_one, 1, 400_000, "Telegraf JSON with one field"),
    "telegraf x40": ("telegraf", _telegraf_wide, METRICS, 1_500_000, "Telegraf JSON with 40 fields, all taken"),
    "line": ("line-protocol", _line_one, 1, 400_000, "line protocol with one field"),
    "line x40": ("line-protocol", line_wide, METRICS, 1_500_000, "line protocol with 40 fields, all taken"),
    "ldms x40": ("ldms", _ldms_wide, METRICS, 1_500_000, "LDMS rows with 40 metrics, all taken"),
    "cray x20": ("cray", _cray, 20, 300_000, "events of Cray EX with 20 readings, all taken"),
}


def run(*, quick: bool) -> Iterator[Row]:
    """Yield samples per processor second of each format; 400,000 one by one leave 110,000 with consuming and windows."""
    slices = 2 if quick else 10
    for name, (format_name, make, width, goal, meaning) in CASES.items():
        count = SLICE * slices if width == 1 else SLICE * slices // 10
        values = [make(i) for i in range(count)]
        decode, index = TELEMETRY[format_name](OPTIONS), SeriesIndex(HOSTS * METRICS)
        _pass(decode, values, index)
        seconds = [_pass(decode, values, index) for _ in range(REPEATS)]
        rate = median_rate(count * width, seconds)
        yield Row(f"telemetry {name}", rate, "samples/s per core", meaning, goal, larger_is_better=True)


def _pass(decode: DecodeSamples, values: list[bytes], index: SeriesIndex) -> float:
    received_ms = [START_MS + 60_000] * SLICE
    began_s = time.process_time()
    for at in range(0, len(values), SLICE):
        part = values[at : at + SLICE]
        batch = decode(part, received_ms[: len(part)], index)
        if batch.others:
            raise AssertionError(batch.others[0])
    return time.process_time() - began_s
