"""Refits: from a new run to the published curve of its application, by the number of observed sizes."""

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from agent.app import compose
from processors.contracts.events import Evidence, JobCompleted, JournalRecord, Tick
from processors.contracts.outputs import Prediction
from processors.pipeline.shard import Shard
from tests.bench.result import Row, quantile
from tests.bench.workload import NOISE, START_MS, SYSTEM, config, geometric_sizes, run_time_s

SIZES: Final = (2, 4, 8, 12, 64)
GOALS_MS: Final = {8: 2.0, 64: 5.0}
RUNS_PER_SIZE: Final = 4
WAIT_MS: Final = 700_000  # longer than a model waits for more runs, and than a run needs to settle


def run(*, quick: bool) -> Iterator[Row]:
    """Yield the 99th percentile of processor time per refit; the median is in the details."""
    for count in SIZES:
        times_ms, points = _times_ms(count, 40 if quick else 300)
        p50, p99 = quantile(times_ms, 0.5), quantile(times_ms, 0.99)
        meaning = f"tick in which a new run is fitted, a curve of {points} points made and encoded; p50 {p50:.2f} ms"
        yield Row(
            f"refit at {count} sizes, p99",
            p99,
            "ms",
            meaning,
            GOALS_MS.get(count),
            details={"p50_ms": p50, "points": points, "refits": len(times_ms)},
        )


def _times_ms(count: int, repeats: int) -> tuple[list[float], int]:
    random = np.random.default_rng(count)
    shard, sizes = compose.make_shard(config()), geometric_sizes(count)
    for number in range(RUNS_PER_SIZE * count):
        shard.fold(JournalRecord(event=_run(number, sizes[number % count], random)))
    found_ms: list[float] = []
    points = 0
    for number in range(repeats + 1):
        shard.fold(JournalRecord(event=_run(10_000 + number, sizes[number % count], random)))
        tick = JournalRecord(event=Tick(system="", time_ms=START_MS + (number + 1) * WAIT_MS))
        began_s = time.process_time()
        prediction = [(message, compose.encode(message)) for message in shard.fold(tick)]
        found_ms.append((time.process_time() - began_s) * 1000)
        points = next(len(message.curve) for message, _ in prediction if isinstance(message, Prediction))
    return found_ms[1:], points


def _run(number: int, n: float, random: np.random.Generator) -> JobCompleted:
    seconds = run_time_s(1000.0, 200.0, n) * float(np.exp(random.normal(0.0, NOISE)))
    start_ms = START_MS + number * 1000
    return JobCompleted(
        system=SYSTEM,
        job_id=str(number),
        run_id=f"{SYSTEM}/{number}@{start_ms}",
        start_ms=start_ms,
        end_ms=start_ms + round(seconds * 1000),
        run_time_s=seconds,
        state="COMPLETED",
        evidence=Evidence(executable="/opt/app/app", sizes={"nodes": n}),
    )


def learned(count: int, runs_per_size: int) -> Shard:
    """Return a shard that knows one application at so many sizes, and has published its curve.

    >>> sorted(key for key in learned(2, 3).dirty() if key.startswith("run_time/"))
    ['run_time/bench/app//nodes']
    """
    random = np.random.default_rng(count)
    shard, sizes = compose.make_shard(config()), geometric_sizes(count)
    for half in range(2):
        for number in range(runs_per_size * count // 2):
            shard.fold(JournalRecord(event=_run(half * 10_000 + number, sizes[number % count], random)))
        shard.fold(JournalRecord(event=Tick(system="", time_ms=START_MS + (half + 1) * 24 * 3_600_000)))
    return shard
