"""Windows: samples a second into the rings, memory of a series, and how long the minutes of 10,000 hosts take."""

import time
from collections.abc import Iterator

import numpy as np

from processors.contracts.events import JournalRecord, encode_record
from processors.contracts.telemetry import Samples, Series, SeriesIndex
from processors.windows.partition import PartitionWindows
from processors.windows.settings import WindowSettings
from tests.bench.result import Row
from tests.kit.rings import memory_bytes
from tests.kit.rings import retained as retained_of

RESOURCES = 10
START_MS = 1_795_168_800_000
BATCH = 20_000  # samples folded at a time
FULL_HOSTS = 10_000


def run(*, quick: bool) -> Iterator[Row]:
    """Yield the figures at one sample every ten seconds, and at one a second."""
    yield from _at(10, FULL_HOSTS // (4 if quick else 1))
    yield from _at(1, FULL_HOSTS // (10 if quick else 4))


def _at(step_s: int, hosts: int) -> Iterator[Row]:
    index = SeriesIndex(hosts * RESOURCES)
    for number in range(hosts * RESOURCES):
        index.number(Series("bench", f"nid{number // RESOURCES:06d}", f"resource{number % RESOURCES}"))
    windows = PartitionWindows("bench/0", index, WindowSettings())
    fold_s, parts = _fold(windows, hosts, step_s)
    taken = windows.counts["taken"]
    named = f"one sample every {step_s} s, {hosts:,} hosts with {RESOURCES} resources"
    yield Row(
        f"windows, fold, {step_s} s",
        taken / fold_s,
        "samples/s",
        f"{named}; batches of {BATCH:,}",
        500_000,
        larger_is_better=True,
    )
    size = memory_bytes(windows.rings) / len(index)
    retained = len(retained_of(windows.rings, 0)[0])
    meaning, details = f"of a series with {retained} samples held", {"samples": retained}
    yield Row(f"windows, memory, {step_s} s", size, "bytes", meaning, 4_000, details=details)
    full = FULL_HOSTS / hosts
    worst, whole = max(seconds for seconds, _ in parts), sum(seconds for seconds, _ in parts[hosts // -1_000 :])
    yield Row(f"windows, stop, {step_s} s", worst * 1000, "ms", "sum up and write one part, 1,000 hosts", 250)
    yield Row(f"windows, minute, {step_s} s", whole * full * 1000, "ms", "the same for all 10,000 hosts of a minute")


def _fold(windows: PartitionWindows, hosts: int, step_s: int) -> tuple[float, list[tuple[float, int]]]:
    """Fold eight minutes; return the seconds that folding took, and (seconds, hosts) of each part that was told."""
    series, rng = np.arange(hosts * RESOURCES, dtype=np.int32), np.random.default_rng(1)
    fold_s, parts = 0.0, []
    for second in range(0, 480, step_s):
        value = rng.random(len(series))
        for first in range(0, len(series), BATCH):
            chosen = slice(first, first + BATCH)
            times = np.full(len(series[chosen]), START_MS + second * 1000)
            offsets = np.arange(len(times)) // RESOURCES + (second * len(series) + first)
            began_s = time.process_time()
            reported = list(_parts(windows, Samples(series[chosen], times, value[chosen]), offsets))
            fold_s += time.process_time() - began_s - sum(seconds for seconds, _ in reported)
            parts += reported
    return fold_s, parts


def _parts(windows: PartitionWindows, samples: Samples, offsets: np.ndarray) -> Iterator[tuple[float, int]]:
    began_s = time.process_time()
    for part in windows.fold(samples, offsets, samples.time_ms):
        events = [encode_record(JournalRecord(event=event)) for event in windows.events(part)]
        yield time.process_time() - began_s, len(events)
        began_s = time.process_time()
