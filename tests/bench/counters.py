"""Counters of hosts: what a native record of sixteen costs, to decode and after that, on one core."""

import json
import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from agent.decode.formats import TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from processors.contracts.events import JournalRecord, encode_record
from processors.contracts.names import rfc3339
from processors.contracts.telemetry import SeriesIndex
from processors.windows.partition import PartitionWindows
from processors.windows.settings import WindowSettings
from tests.bench.result import Row

COUNTERS: Final = tuple(f"PAPI_CTR_{i:02d}" for i in range(16))
START_MS: Final = 1_795_168_800_000
SLICE: Final = 2_000  # records decoded and folded at a time
MINUTES: Final = 8
WARM_S: Final = 120
BEYOND_US: Final = 10.0


def run(*, quick: bool) -> Iterator[Row]:
    """Yield the microseconds of a record: decoded, and folded, summed up and written."""
    hosts = 500 if quick else 2_000
    for step_s, kind, goal in ((10, "delta", BEYOND_US), (10, "cumulative", BEYOND_US), (60, "delta", None)):
        decode_us, fold_us, report_us = _measure(hosts, step_s, cumulative=kind == "cumulative")
        named = f"record of 16 {kind} counters, one every {step_s} s"
        yield Row(f"counters, decode, {kind}, {step_s} s", decode_us, "us", named)
        yield Row(f"counters, fold, {kind}, {step_s} s", fold_us, "us", f"samples of a {named}")
        whole = "the same, and its share of the minute that is summed up and written"
        yield Row(f"counters, beyond decoding, {kind}, {step_s} s", fold_us + report_us, "us", whole, goal)


def record(host: int, second: int, *, step_s: int, cumulative: bool) -> bytes:
    """Return a message as a producer writes it."""
    grew = {name: 1.2e11 + host * 1e6 + i + (second * 1e9 if cumulative else 0.0) for i, name in enumerate(COUNTERS)}
    message: dict[str, object] = {
        "type": "counters", "system": "bench", "host": f"nid{host:06d}", "job_id": "812",
        "time": rfc3339(START_MS + second * 1000), "interval_s": float(step_s), "counters": grew,
    }  # fmt: skip
    if cumulative:
        message["cumulative"] = True
    return json.dumps(message, separators=(",", ":")).encode()


def _measure(hosts: int, step_s: int, *, cumulative: bool) -> tuple[float, float, float]:
    """Return the microseconds of a record in its three parts; the first minutes are not counted."""
    path, records = _Path(hosts * len(COUNTERS)), 0
    for second in range(0, MINUTES * 60, step_s):
        if second == WARM_S:  # windows are full, and names are known
            path.decode_s = path.fold_s = path.report_s = 0.0
            records = 0
        values = [record(host, second, step_s=step_s, cumulative=cumulative) for host in range(hosts)]
        for first in range(0, hosts, SLICE):
            path.take(values[first : first + SLICE], START_MS + second * 1000)
        records += hosts
    decode_s, fold_s, report_s = (seconds / records * 1e6 for seconds in (path.decode_s, path.fold_s, path.report_s))
    return decode_s, fold_s, report_s


class _Path:
    """From messages to records of the journal, with the processor seconds of each part."""

    def __init__(self, series_max: int) -> None:
        self.decode_s = self.fold_s = self.report_s = 0.0
        self._index = SeriesIndex(series_max)
        self._windows = PartitionWindows("bench/0", self._index, WindowSettings())
        self._decode = TELEMETRY["native"](TelemetryOptions(decode=DecodeOptions()))
        self._offset = 0

    def take(self, values: list[bytes], now_ms: int) -> None:
        began_s = time.process_time()
        batch = self._decode(values, [now_ms] * len(values), self._index)
        self.decode_s += time.process_time() - began_s
        if batch.others or len(batch.samples.series) != len(values) * len(COUNTERS):
            raise AssertionError(batch.others[:1])
        offsets = self._offset + batch.sample_message.astype(np.int64)
        self._offset += len(values)
        began_s = time.process_time()
        for part in self._windows.fold(batch.samples, offsets, np.full(len(offsets), now_ms)):
            self.fold_s += time.process_time() - began_s
            began_s = time.process_time()
            for event in self._windows.events(part):
                encode_record(JournalRecord(event=event))
            self.report_s += time.process_time() - began_s
            began_s = time.process_time()
        self.fold_s += time.process_time() - began_s
