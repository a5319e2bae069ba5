"""Refits: from a new run to the published curve of its application, by the number of observed sizes."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from agent.app import compose
from processors.contracts.events import Evidence, JobCompleted, JournalRecord, Tick
from processors.contracts.outputs import Prediction
from processors.models.adept.study import Study
from processors.pipeline import fits
from processors.pipeline.fits import FitQueue
from processors.pipeline.predictor import Predictor
from processors.pipeline.shard import Shard
from processors.run_time import prediction
from processors.run_time.model import RunTime
from processors.run_time.verdict import Verdicts
from tests.bench.layers import Layers, described
from tests.bench.result import Row, quantile
from tests.bench.workload import NOISE, START_MS, SYSTEM, config, geometric_sizes, run_time_s

SIZES: Final = (2, 4, 8, 12, 64)
GOALS_MS: Final = {8: 2.0, 64: 5.0}
RUNS_PER_SIZE: Final = 4
RELATED: Final = 20  # other inputs of the application, at as many sizes
RELATED_SIZES: Final = 8
AT_ONCE: Final = 64  # applications that a tick fits
AT_ONCE_SIZES: Final = 8
AT_ONCE_GOAL_MS: Final = 0.6
WAIT_MS: Final = 700_000  # longer than a model waits for more runs, and than a run needs to settle


def run(*, quick: bool) -> Iterator[Row]:
    """Yield the 99th percentile of processor time per refit; the median is in the details."""
    repeats = 40 if quick else 300
    for count in SIZES:
        yield _row(f"refit at {count} sizes, p99", *_times_ms(count, repeats), GOALS_MS.get(count))
    name = f"refit at {RELATED_SIZES} sizes beside {RELATED} curves, p99"
    yield _row(name, *_times_ms(RELATED_SIZES, repeats, RELATED), None)
    yield _of_many(repeats=6 if quick else 40)


def _of_many(repeats: int) -> Row:
    """Return the time of a refit in ticks that fit many applications."""
    times_ms, points = _many_times_ms(repeats)
    spent_us = _layers_us(max(repeats // 2, 3))
    least, p50, p99 = min(times_ms), quantile(times_ms, 0.5), quantile(times_ms, 0.99)
    meaning = (
        f"a tick fits {AT_ONCE} applications with a new run each, with curves of {points} points made and encoded; least "
        f"{least:.2f} ms, p50 {p50:.2f} ms; of 10,000 that wait the last one is fitted after {10_000 * p50 / 1000:.0f} s of "
        f"processor time; {described(spent_us)}"
    )
    details = {
        "least_ms": least,
        "p50_ms": p50,
        "points": points,
        "refits": AT_ONCE * repeats,
        "layers_us": spent_us,
    }
    name = f"refit at {AT_ONCE_SIZES} sizes, {AT_ONCE} in a tick, p99 by tick"
    return Row(name, p99, "ms", meaning, AT_ONCE_GOAL_MS, details=details)


def _row(name: str, times_ms: list[float], points: int, goal_ms: float | None) -> Row:
    p50, p99 = quantile(times_ms, 0.5), quantile(times_ms, 0.99)
    meaning = f"tick in which a new run is fitted, a curve of {points} points made and encoded; p50 {p50:.2f} ms"
    details = {"p50_ms": p50, "points": points, "refits": len(times_ms)}
    return Row(name, p99, "ms", meaning, goal_ms, details=details)


def _times_ms(count: int, repeats: int, related: int = 0) -> tuple[list[float], int]:
    """Return the time of each refit, and of how many points the curve was; `related` other inputs are known as well."""
    random = np.random.default_rng(count)
    shard, sizes = compose.make_shard(config()), geometric_sizes(count)
    for curve in range(1, related + 1):
        for number in range(RUNS_PER_SIZE * count):
            run = _run(1000 * curve + number, sizes[number % count], random, f"other{curve}")
            shard.fold(JournalRecord(event=run))
    if related:
        shard.fold(JournalRecord(event=Tick(system="", time_ms=START_MS + WAIT_MS // 2)))
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


LAYERS: Final[dict[str, tuple[Any, str]]] = {
    "study": (FitQueue, "_unseen_curve"),
    "evidence": (FitQueue, "_gather"),
    "related": (FitQueue, "_prepare"),
    "laws": (FitQueue, "_foretell"),
    "bands": (prediction, "_final"),
    "calibration": (RunTime, "calibration"),
    "useful": (Study, "_ln_run_time"),
    "verdicts": (Verdicts, "of"),
    "curve": (Predictor, "fitted"),
    "members": (Predictor, "_fits"),
    "points": (Predictor, "points"),
    "model": (fits, "model_of"),
    "message": (fits, "prediction"),
    "alerts": (FitQueue, "_unusual_sizes"),
    "publish": (FitQueue, "_publish"),
    "encode": (compose, "encode"),
}
"""What does the work of each layer of a refit; of calls within calls each counts its own time only."""


def _layers_us(repeats: int) -> dict[str, float]:
    """Return the microseconds of each layer of a refit, in ticks of their own: to time the layers takes time itself."""
    layers = Layers()
    before = {layer: getattr(*place) for layer, place in LAYERS.items()}
    try:
        for layer, (of, name) in LAYERS.items():
            setattr(of, name, layers.timed(layer, before[layer]))
        times_ms, _ = _many_times_ms(repeats, layers.clear)
    finally:
        for layer, (of, name) in LAYERS.items():
            setattr(of, name, before[layer])
    found = {layer: layers.seconds.get(layer, 0.0) / (AT_ONCE * repeats) * 1e6 for layer in LAYERS}
    return found | {"rest": sum(times_ms) / repeats * 1e3 - sum(found.values())}


def _many_times_ms(repeats: int, began: Callable[[], None] = lambda: None) -> tuple[list[float], int]:
    """Return the time of a refit in each tick, and of how many points a curve was; `began` is told when ticks count."""
    random = np.random.default_rng(AT_ONCE)
    shard, sizes = compose.make_shard(config()), geometric_sizes(AT_ONCE_SIZES)
    number, found_ms, points = 0, [], 0
    for tick in range(-RUNS_PER_SIZE * AT_ONCE_SIZES, repeats + 1):
        for application in range(AT_ONCE):
            n, name = sizes[(tick + application) % AT_ONCE_SIZES], f"app{application}"
            shard.fold(JournalRecord(event=_run(number, n, random, program=name)))
            number += 1
        if tick < 0:
            continue
        if tick == 1:
            began()
        at_ms = START_MS + number * 1000 + (tick + 1) * WAIT_MS
        began_s = time.process_time()
        found = [(message, compose.encode(message)) for message in shard.fold(_tick(at_ms))]
        spent_s = time.process_time() - began_s
        curves = [message.curve for message, _ in found if isinstance(message, Prediction)]
        found_ms.append(spent_s * 1000 / len(curves))
        points = len(curves[0])
    return found_ms[1:], points


def _tick(time_ms: int) -> JournalRecord:
    return JournalRecord(event=Tick(system="", time_ms=time_ms))


def _run(number: int, n: float, random: np.random.Generator, given: str = "", program: str = "app") -> JobCompleted:
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
        evidence=Evidence(executable=f"/opt/{program}/{program}", sizes={"nodes": n}, input=given or None),
    )


def learned(count: int, runs_per_size: int) -> Shard:
    """Return a shard that knows one application at so many sizes, and has published its curve.

    >>> sorted(key for key in learned(2, 3).unsaved().states() if key.startswith("run_time/"))
    ['run_time/bench/app//nodes']
    """
    random = np.random.default_rng(count)
    shard, sizes = compose.make_shard(config()), geometric_sizes(count)
    for half in range(2):
        for number in range(runs_per_size * count // 2):
            shard.fold(JournalRecord(event=_run(half * 10_000 + number, sizes[number % count], random)))
        shard.fold(JournalRecord(event=Tick(system="", time_ms=START_MS + (half + 1) * 24 * 3_600_000)))
    return shard
