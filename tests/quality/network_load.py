"""Run times under the load of the network through the whole fold, on a simulated centre whose truth is known.

    python -m tests.quality.network_load [SEED ...]

Hosts are as in `under_load.py`, and each has some bandwidth left that changes on its own. A part of each run waits for the
host that has least of it, the rest for the slowest processor, at each moment. The same runs are predicted with bandwidth
taken into account and with `under_load.bandwidth: null`. Seeds from 1 to 9 were used to choose constants, those from 10 on are
for figures that are reported.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from agent.app.compose import make_shard
from agent.config.tree import Config
from processors.contracts.load import UnderLoadSettings
from processors.contracts.outputs import JobPrediction
from processors.models.histogram import crps, given
from tests.quality.under_load import (
    HOSTS,
    NOISE,
    SEEDS_REPORTED,
    START_MS,
    STEP_S,
    WARM_UP,
    WINDOW,
    Centre,
    Hosts,
    Kind,
)
from tests.quality.under_load import availability as left_over

BANDWIDTH_B_S = 1e10
CALM = 0.4  # of what others take of processors in `under_load.py`: nodes are a job's own, mostly, and the network is shared
LOOK_MS = 300_000  # between windows of a run that goes on


class NetworkKind(NamedTuple):
    """A centre: its runs and the load of processors, the part of a run that waits, and how long bandwidth stays alike, in seconds."""

    about: str
    runs: Kind
    waits: float
    lasting_s: float


LONG = Kind("", 1200.0, 3600.0)
NETWORKS = {
    "none waits": NetworkKind("bandwidth changes, and no run waits for it", LONG, 0.0, 3600.0),
    "a third waits": NetworkKind("runs of half an hour, bandwidth stays alike for an hour", LONG, 0.3, 3600.0),
    "most waits": NetworkKind("the same of runs that mostly wait", LONG, 0.7, 3600.0),
    "fickle": NetworkKind("bandwidth stays alike for two minutes", LONG, 0.5, 120.0),
    "steady": NetworkKind("bandwidth hardly changes", LONG, 0.5, 0.0),
}


class Outcome(NamedTuple):
    """A run: CRPS of what was predicted over its run time, the error of the median as a part of it, the share that was reported."""

    crps: float
    error: float
    share: float


class NetworkCentre(Centre):
    """A shard that is fed with jobs, the windows of their hosts' processors and, too, those of their bandwidth."""

    def __init__(self, kind: NetworkKind, seed: int, runs: int, *, learns: bool = True) -> None:
        super().__init__(kind.runs, seed, runs)
        bandwidth = "bandwidth" if learns else None
        self.shard = make_shard(Config(under_load=UnderLoadSettings(bandwidth=bandwidth)))
        self.shard.state.windows = self.windows
        self.waits = kind.waits
        random, steps = np.random.default_rng([seed, 6]), self.left.shape[1]
        steady = random.uniform(0.49, 0.51, (HOSTS, steps))
        self.free = left_over(random, steps, kind.lasting_s) if kind.lasting_s else steady
        self.left = 1 - CALM * (1 - self.left)
        self.hosts: Hosts = np.empty(0, np.int64)

    def run(self, runs: int) -> Iterator[Outcome]:
        """Yield how each run compares with what was predicted under load at its start, where anything was."""
        for number in range(runs):
            self.now_ms += round(float(self.random.uniform(30, 600)) / STEP_S) * STEP_S * 1000
            size = int(self.random.choice((2, 4, 8)))
            hosts = np.sort(self.random.choice(HOSTS, size, replace=False))
            prediction = self._start(number, size, hosts)
            run_time_s = self._run_time_s(size, hosts)
            self._end(number, size, run_time_s)
            found = _compared(prediction, run_time_s)
            if number >= WARM_UP and found is not None:
                yield found

    def _start(self, number: int, size: int, hosts: Hosts) -> JobPrediction | None:
        self.hosts = hosts
        self._measure(self.now_ms)
        return super()._start(number, size, hosts)

    def _measure(self, time_ms: int) -> None:
        """Let the windows of the hosts of a job be known that end at a time."""
        step = (time_ms - START_MS) // 1000 // STEP_S + WINDOW
        for host in self.hosts:
            cpu, free = (values[host, step - WINDOW : step] for values in (self.left, self.free))
            self.windows.report(f"h{host}", cpu.tolist(), time_ms)
            self.windows.report(f"h{host}", (BANDWIDTH_B_S * free).tolist(), time_ms, "bandwidth")

    def _forecast(self, step: int, hosts: Hosts, names: Sequence[str]) -> None:
        """Forecast nothing: windows answer."""

    def _end(self, number: int, size: int, run_time_s: float) -> None:
        """Let windows of the time that the run took be known, as they are while it runs, and end it."""
        start_ms = self.now_ms
        for look_ms in range(start_ms + LOOK_MS, start_ms + round(run_time_s * 1000), LOOK_MS):
            self._measure(look_ms)
            self.now_ms = look_ms
            self._tick()
        self.now_ms = start_ms
        super()._end(number, size, run_time_s)

    def _run_time_s(self, size: int, hosts: Hosts) -> float:
        work_s = self.kind.work_s * (0.2 + 1.6 / size) * math.exp(self.random.normal(0, NOISE))
        step = (self.now_ms - START_MS) // 1000 // STEP_S + WINDOW
        cpu, free = self.left[hosts, step:].min(axis=0), self.free[hosts, step:].min(axis=0)
        done = np.cumsum(1 / ((1 - self.waits) / cpu + self.waits / free)) * STEP_S
        last = int(np.searchsorted(done, work_s))
        before = done[last - 1] if last else 0.0
        return float((last + (work_s - before) / (done[last] - before)) * STEP_S)


def _compared(prediction: JobPrediction | None, run_time_s: float) -> Outcome | None:
    under = prediction.under_load if prediction else None
    if under is None or under.histogram is None or under.q50_s is None:
        return None
    histogram = given(under.histogram.edges_s, under.histogram.probabilities)
    return Outcome(
        float(crps(histogram, run_time_s)) / run_time_s,
        abs(under.q50_s / run_time_s - 1),
        under.communication_share,
    )


class Comparison(NamedTuple):
    """Of many runs: mean CRPS and mean error of the median without the network and with it, and the share that was reported last."""

    runs: int
    plain_crps: float
    crps: float
    plain_error: float
    error: float
    share: float


def compared(name: str, seeds: Sequence[int], runs: int) -> Comparison:
    """Return how much better the same runs of a kind of centre are predicted with the network than without."""
    without, counted = (
        [list(NetworkCentre(NETWORKS[name], seed, runs, learns=learns).run(runs)) for seed in seeds]
        for learns in (False, True)
    )
    plain, found = ([outcome for of_seed in each for outcome in of_seed] for each in (without, counted))
    return Comparison(
        len(found),
        float(np.mean([each.crps for each in plain])),
        float(np.mean([each.crps for each in found])),
        float(np.mean([each.error for each in plain])),
        float(np.mean([each.error for each in found])),
        float(np.mean([of_seed[-1].share for of_seed in counted])),
    )


def table(seeds: Sequence[int] = SEEDS_REPORTED, runs: int = 200) -> Iterator[str]:
    """Yield what bandwidth adds in each kind of centre."""
    yield f"{len(seeds)} seeds of {runs} runs, the first {WARM_UP} not counted; noise {NOISE:.0%}"
    yield "runs | CRPS without | with | ratio | error without | with | share reported | waits | centre"
    for name, kind in NETWORKS.items():
        found = compared(name, seeds, runs)
        yield (
            f"{found.runs:4} | {found.plain_crps:12.4f} | {found.crps:.4f} | {found.crps / found.plain_crps:5.3f} | "
            f"{found.plain_error:13.3f} | {found.error:.3f} | {found.share:14.2f} | {kind.waits:5.1f} | {name}: {kind.about}"
        )


if __name__ == "__main__":
    for line in table([int(text) for text in sys.argv[1:]] or SEEDS_REPORTED):
        sys.stdout.write(f"{line}\n")
