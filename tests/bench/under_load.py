"""Run times under load: a structural model over many hosts, and the windows that it needs."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np

from processors.contracts.load import UnderLoadSettings
from processors.facts import PublishedPoint
from processors.load.messages import LoadPredictor, LoadQuestion
from processors.load.prediction import of_hosts, of_partition
from processors.models.histogram import Histogram, from_samples
from processors.models.structure.evaluate import evaluate
from processors.models.structure.form import Alike, Value
from processors.models.structure.parse import parse
from tests.bench.result import Row, quantile
from tests.kit.host_windows import KnownWindows

HOSTS: Final = 64
GOAL_MS: Final = 20.0
DEFAULT_GOAL_MS: Final = 5.0
SAMPLES: Final = 30  # of five minutes, one in ten seconds
NUMBERS: Final = {"points": 1e6, "point_s": 2e-6, "row_mbit": 0.8, "latency_s": 0.002, "iterations": 1000.0}
MODEL: Final = parse(
    """
    compute  = points / 2 * point_s / cpu_available
    exchange = latency_s + row_mbit / bandwidth
    red   = max_over(hosts, compute) + max_over(hosts, exchange)
    black = max_over(hosts, compute) + max_over(hosts, exchange)
    T = iterations * (red + black)
    """,
    (*NUMBERS, "cpu_available", "bandwidth"),
)


def run(*, quick: bool) -> Iterator[Row]:
    """Yield the median processor time of an evaluation, with and without the check by draws, and of 10,000 windows."""
    repeats = 10 if quick else 100
    cpu, bandwidth = _windows(HOSTS, 0.4, 1.0), _windows(HOSTS, 20.0, 40.0)
    each: dict[str, Value] = {**NUMBERS, "cpu_available": cpu, "bandwidth": bandwidth}
    pooled: dict[str, Value] = {**NUMBERS, "cpu_available": Alike(cpu.host(0)), "bandwidth": Alike(bandwidth.host(0))}
    pooled["hosts"] = HOSTS
    for name, values in (("windows of their own", each), ("a pooled window", pooled)):
        for check, prediction in ((True, "checked by 4096 draws"), (False, "arithmetic alone")):
            took_ms = _median_ms(partial(evaluate, MODEL, values, check=check), repeats)
            yield Row(f"SOR over {HOSTS} hosts, {name}", took_ms, "ms", f"red-black SOR, {prediction}", GOAL_MS)
    windows = KnownWindows({"standard": [f"h{host}" for host in range(HOSTS)]})
    for host, row in enumerate(np.random.default_rng(2).uniform(0.4, 1.0, (HOSTS, SAMPLES))):
        windows.report(f"h{host}", row.tolist(), until_ms=0)
    band, predictor = PublishedPoint(HOSTS, 100.0, 80.0, 120.0), LoadPredictor(UnderLoadSettings())
    own, pool = of_hosts("exa", [f"h[0-{HOSTS - 1}]"]), of_partition(windows, "exa", "standard", HOSTS)
    for name, place in (("windows of their own", own), ("a pooled window", pool)):
        question = LoadQuestion("lammps", place, HOSTS, band, until_ms=0)
        took_ms = _median_ms(partial(predictor.predict, windows, question), repeats)
        yield Row(
            f"curve over {HOSTS} hosts, {name}", took_ms, "ms", "default equation, all that is told", DEFAULT_GOAL_MS
        )
    samples = np.random.default_rng(1).random((10_000, SAMPLES))
    took_ms = _median_ms(lambda: from_samples(samples), 3 if quick else 10)
    yield Row("10 000 windows", took_ms, "ms", f"five intervals of {SAMPLES} samples each, all at once")


def _windows(hosts: int, low: float, high: float) -> Histogram:
    return from_samples(np.random.default_rng(hosts).uniform(low, high, (hosts, SAMPLES)))


def _median_ms(work: Callable[[], object], repeats: int) -> float:
    took_ms = []
    for _ in range(repeats):
        began_s = time.process_time()
        work()
        took_ms.append((time.process_time() - began_s) * 1000)
    return quantile(took_ms, 0.5)
