"""One slow size through the whole fold: an alert about that size that stays, and none about the application.

    python -m tests.quality.slow_sizes

An application of six sizes and 5 % noise, of which one takes half as long again: from the first run on, met late, slow
from half-way on, or slow while the whole application becomes slower or faster half-way.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from agent.config.tree import Config
from processors.contracts.events import Evidence, JobCompleted
from tests.quality.drift import EVERY_MS, SHIFT_ALERTS, SIZES, START_MS, Fold

SLOW, SLOWER, NOISE = 8, 1.5, 0.05
ROUNDS, HALF = 20, 10  # of all sizes, each once
SIZE_ALERTS = ("SlowSize", "FastSize")


class Case(NamedTuple):
    """From which round on the slow size is run, and is slow, and by what all sizes change half-way."""

    name: str
    met: int = 0
    slow: int = 0
    factor: float = 1.0


CASES = (
    Case("slow from the start"),
    Case("slow, met late", met=8),
    Case("slow from half-way on", slow=HALF),
    Case("slow, and all 10 % slower half-way", factor=1.1),
    Case("slow, and all 25 % slower half-way", factor=1.25),
    Case("slow, and all 20 % faster half-way", factor=0.8),
)


class Reported(NamedTuple):
    """Of one story: after which runs, counted from half-way, a shift fired; how often the alert of the slow size and
    those of other sizes fired, and whether the first is still open; the share of predictions from the curve.
    """

    shifts: tuple[int, ...]
    slow: int
    stays: bool
    others: int
    by_size: float


def story(case: Case, seed: int, noise: float = NOISE) -> Reported:
    """Return what is reported an application."""
    random, fold = np.random.default_rng(seed), Fold(Config())
    runs = [
        (when, n) for when in range(ROUNDS) for n in random.permutation(SIZES).tolist() if n != SLOW or when >= case.met
    ]
    half = next(i for i, (when, _) in enumerate(runs) if when == HALF)
    shifts: list[int] = []
    for i, (when, n) in enumerate(runs):
        factor = (SLOWER if n == SLOW and when >= case.slow else 1.0) * (case.factor if i >= half else 1.0)
        run_time_s = 1000 * (1 / n + 0.02) * factor * math.exp(random.normal(0, noise))
        start_ms = START_MS + i * EVERY_MS
        end_ms = start_ms + round(run_time_s * 1000)
        fold.pass_time(start_ms)
        reported = Evidence(application="lammps", sizes={"nodes": float(n)})
        event = JobCompleted("exa", str(i), f"exa/{i}@{start_ms}", start_ms, end_ms, run_time_s, "COMPLETED", reported)
        shifts += [i - half + 1] * sum(name in SHIFT_ALERTS for name in fold.take(event))
    fold.pass_time(START_MS + len(runs) * EVERY_MS)
    of_sizes = [alert.labels["n"] for alert in fold.published if alert.labels["alertname"] in SIZE_ALERTS]
    open_now = {
        alert.labels["n"]
        for alert in fold.latest.values()
        if alert.labels["alertname"] in SIZE_ALERTS and alert.status == "firing"
    }
    return Reported(
        tuple(shifts),
        slow=of_sizes.count(f"{SLOW}"),
        stays=f"{SLOW}" in open_now,
        others=len(of_sizes) - of_sizes.count(f"{SLOW}"),
        by_size=1 - fold.models["similar_runs"] / fold.models.total(),
    )


def table(seeds: Sequence[int] = range(12)) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        "| case | shift found | after runs: least, median, most | false shifts | its alert stays | came back | "
        "other sizes | by size % |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for case in CASES:
        found = [story(case, seed) for seed in seeds]
        delays = [next((i for i in reported.shifts if i > 0), 0) for reported in found if case.factor != 1.0]
        late = sorted(delay for delay in delays if delay)
        false = sum(len(reported.shifts) for reported in found) - len(late)
        after = f"{late[0]}, {median(late):g}, {late[-1]}" if late else "-"
        yield (
            f"| {case.name} | {f'{len(late)} of {len(delays)}' if delays else '-'} | {after} | {false} | "
            f"{sum(reported.stays for reported in found)} of {len(found)} | {sum(max(reported.slow - 1, 0) for reported in found)} | "
            f"{sum(reported.others for reported in found)} | {100 * float(np.mean([reported.by_size for reported in found])):.0f} |"
        )


if __name__ == "__main__":
    for line in table():
        sys.stdout.write(line + "\n")
