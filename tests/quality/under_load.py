"""Run times under load through the whole fold, on a simulated centre whose truth is known.

    python -m tests.quality.under_load [SEED ...]

Hosts are as busy as an autoregressive process with bursts makes them. Jobs take some of them, and go on as fast as their
slowest host at each moment; besides, each run differs from its like by some noise. What is told at a start is compared with
the run that follows, against the band that is told without the load. Seeds from 1 to 9 were used to choose constants, those
from 10 on are for figures that are told.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from agent.app.compose import make_shard
from agent.app.embedded import ticks
from agent.config.tree import Config
from processors.contracts.events import (
    Evidence,
    JobCompleted,
    JobEvent,
    JobStarted,
    JournalRecord,
    Tick,
)
from processors.contracts.outputs import CurvePoint, JobPrediction, Prediction
from processors.facts import PublishedPoint
from processors.hosts.windows import HostForecasts, MinuteBatch
from processors.load.prediction import quiet_run_time
from processors.models.histogram import INTERVALS, crps, given, interval_index, pit
from tests.kit.host_windows import KnownWindows

Values = npt.NDArray[np.float64]
Hosts = npt.NDArray[np.int64]  # by their numbers
START_MS = 1_795_132_800_000
STEP_S = 10
WINDOW = 30  # steps
HOSTS = 32
SIZES = (2, 4, 8)
NOISE = 0.05
WARM_UP = 80  # runs that are not counted
SEEDS_REPORTED = (10, 11, 12, 13)


class Kind(NamedTuple):
    """A centre: how long runs take on free hosts, and how long the load of a host stays alike, in seconds.

    With `lasting_s` 0 each host meets a run with one value out of its window: the inputs are independent, and the window
    covers the run wholly.
    """

    about: str
    work_s: float
    lasting_s: float


KINDS = {
    "drawn": Kind("a run meets each host with a value out of its window", 600.0, 0.0),
    "covered": Kind("runs as long as the window, load that stays alike for an hour", 180.0, 3600.0),
    "long": Kind("runs of half an hour, load that stays alike for an hour", 1200.0, 3600.0),
    "fickle": Kind("runs of half an hour, load that stays alike for two minutes", 1200.0, 120.0),
}


class Outcome(NamedTuple):
    """A run: interval (-1 and 5 beyond all), whether in range, expected shares, PIT, CRPS of both over the run time.

    `width` is ln of the 95 % quantile over the 5 % one, `covered` whether the run lay between them.
    """

    interval: int
    inside: bool
    expected: tuple[float, ...]
    pit: float
    loaded: float
    plain: float
    width: float = 0.0
    covered: bool = True
    by_forecast: bool = False


class Score(NamedTuple):
    """Of many runs: how many, the share in range, how far hits are from their expectation in standard deviations at most,
    unevenness of the PIT (0 to 1), CRPS over that of the plain band, the share within the 90 % band and how wide that is in
    ln T on average, and the share that was predicted by forecasts of the load."""

    runs: int
    inside: float
    deviations: float
    uneven: float
    crps_ratio: float
    covered: float
    width: float
    by_forecast: float


def availability(random: np.random.Generator, steps: int, lasting_s: float) -> Values:
    """Return what hosts have left of their processors, (hosts, steps)."""
    keeps = math.exp(-STEP_S / lasting_s) if lasting_s else 0.0
    level = random.uniform(0.6, 0.95, (HOSTS, 1))
    shocks = random.normal(0, 0.12 * math.sqrt(1 - keeps**2), (HOSTS, steps))
    wander = np.empty_like(shocks)
    wander[:, 0] = random.normal(0, 0.12, HOSTS)
    for k in range(1, steps):
        wander[:, k] = keeps * wander[:, k - 1] + shocks[:, k]
    return np.clip(level + wander - _bursts(random, steps, max(lasting_s, STEP_S)), 0.05, 1.0)


def _bursts(random: np.random.Generator, steps: int, lasting_s: float) -> Values:
    """Return what others take at times: half as long as load stays alike, a tenth of the time, 0.2 to 0.5 each."""
    taken = np.zeros((HOSTS, steps))
    length = max(round(lasting_s / 2 / STEP_S), 1)
    for host in range(HOSTS):
        for start in np.flatnonzero(random.random(steps) < 0.1 / length):
            end = start + 1 + int(random.exponential(length))
            taken[host, start:end] = random.uniform(0.2, 0.5)
    return taken


class Centre:
    """A shard that is fed with jobs, one after the other, and with the windows of their hosts."""

    def __init__(self, kind: Kind, seed: int, runs: int) -> None:
        self.random = np.random.default_rng([seed, 5])
        self.kind = kind
        self.windows = KnownWindows()
        self.shard = make_shard(Config())
        self.shard.state.windows = self.windows
        self.curve: tuple[CurvePoint, ...] = ()
        self.now_ms = START_MS
        longest = int(runs * (4 * kind.work_s + 600) / STEP_S) + 1000
        self.left = availability(self.random, longest, kind.lasting_s)
        self.forecasts, self.forecast_steps = HostForecasts(), 0
        for columns in (self.forecasts, self.forecasts.errors):
            columns.grow(HOSTS)

    def outcomes(self, runs: int) -> Iterator[Outcome]:
        """Yield how each run compares with what was told at its start, where anything was."""
        for number in range(runs):
            self.now_ms += round(float(self.random.uniform(30, 600)) / STEP_S) * STEP_S * 1000
            size = int(self.random.choice(SIZES))
            hosts = np.sort(self.random.choice(HOSTS, size, replace=False))
            prediction, plain = self._start(number, size, hosts), self._curve_at(size)
            run_time_s = self._run_time_s(size, hosts)
            self._end(number, size, run_time_s)
            found = _compared(prediction, plain, run_time_s)
            if number >= WARM_UP and found is not None:
                yield found

    def _start(self, number: int, size: int, hosts: Hosts) -> JobPrediction | None:
        self._tick()
        step = (self.now_ms - START_MS) // 1000 // STEP_S + WINDOW
        names = tuple(f"h{host}" for host in hosts)
        for host, name in zip(hosts, names, strict=True):
            self.windows.report(name, self.left[host, step - WINDOW : step].tolist(), self.now_ms)
        self._forecast(step, hosts, names)
        evidence = Evidence(application="a", sizes={"nodes": float(size)}, hosts=names)
        start = JobStarted("exa", f"{number}", f"exa/{number}@{self.now_ms}", self.now_ms, evidence)
        reported = [message for message in self._fold(start) if isinstance(message, JobPrediction)]
        return reported[-1] if reported else None

    def _forecast(self, step: int, hosts: Hosts, names: Sequence[str]) -> None:
        """Let what is expected next follow from all steps before."""
        every, begun = np.arange(HOSTS), self.forecast_steps
        self.forecasts.take(MinuteBatch(every, every, every * 0, self.left[:, begun:step]))
        self.forecast_steps = step
        found = self.forecasts.histograms(hosts.tolist(), [True] * len(hosts))
        for name, forecast in zip(names, found, strict=True):
            self.windows.expect(name, forecast)

    def _curve_at(self, n: float) -> CurvePoint | None:
        """Return what is published without the load: the run time of a job prediction is that with the better record."""
        return next((point for point in self.curve if point.n == n), None)

    def _run_time_s(self, size: int, hosts: Hosts) -> float:
        work_s = self.kind.work_s * (0.2 + 1.6 / size) * math.exp(self.random.normal(0, NOISE))
        step = (self.now_ms - START_MS) // 1000 // STEP_S + WINDOW
        if not self.kind.lasting_s:
            met = [float(self.random.choice(self.left[host, step - WINDOW : step])) for host in hosts]
            return work_s / min(met)
        done = np.cumsum(self.left[hosts, step:].min(axis=0)) * STEP_S
        last = int(np.searchsorted(done, work_s))
        before = done[last - 1] if last else 0.0
        return float((last + (work_s - before) / (done[last] - before)) * STEP_S)

    def _end(self, number: int, size: int, run_time_s: float) -> None:
        start_ms, end_ms = self.now_ms, self.now_ms + round(run_time_s * 1000)
        self.now_ms = -(-end_ms // 10_000) * 10_000
        evidence = Evidence(application="a", sizes={"nodes": float(size)})
        run_id = f"exa/{number}@{start_ms}"
        self._fold(JobCompleted("exa", f"{number}", run_id, start_ms, end_ms, run_time_s, "COMPLETED", evidence))
        self._tick()

    def _tick(self) -> None:
        for tick_ms in ticks(self.shard.now_ms or None, self.now_ms):
            self._fold(Tick(system="", time_ms=tick_ms))

    def _fold(self, event: JobEvent | Tick) -> Sequence[object]:
        messages = list(self.shard.fold(JournalRecord(event)))
        curves = [message.curve for message in messages if isinstance(message, Prediction)]
        self.curve = curves[-1] if curves else self.curve
        return messages


def _compared(prediction: JobPrediction | None, curve: CurvePoint | None, run_time_s: float) -> Outcome | None:
    under = prediction.under_load if prediction else None
    if under is None or under.histogram is None or curve is None:
        return None
    histogram = given(under.histogram.edges_s, under.histogram.probabilities)
    plain = quiet_run_time(PublishedPoint(curve.n, curve.run_time_s, curve.low_s, curve.high_s), 25)
    return Outcome(
        int(interval_index(histogram, run_time_s)),
        bool(0 <= interval_index(histogram, run_time_s) < histogram.intervals),
        under.histogram.probabilities,
        float(pit(histogram, run_time_s)),
        float(crps(histogram, run_time_s)) / curve.run_time_s,
        float(crps(plain, run_time_s)) / curve.run_time_s,
        math.log((under.q95_s or 1.0) / (under.q05_s or 1.0)),
        (under.q05_s or 0.0) <= run_time_s <= (under.q95_s or 0.0),
        under.source == "forecast",
    )


def score(outcomes: Sequence[Outcome]) -> Score:
    """Return what many runs say of the histograms that were told."""
    expected = np.array([each.expected for each in outcomes])
    hits = np.array([each.interval for each in outcomes])[:, None] == np.arange(INTERVALS)
    deviation = np.sqrt((expected * (1 - expected)).sum(axis=0))
    parts = np.histogram([each.pit for each in outcomes], bins=10, range=(0, 1))[0] / len(outcomes)
    loaded, plain = (sum(values) for values in zip(*((each.loaded, each.plain) for each in outcomes), strict=True))
    return Score(
        len(outcomes),
        float(np.mean([each.inside for each in outcomes])),
        float(abs((hits - expected).sum(axis=0) / deviation).max()),
        float(abs(parts - 0.1).sum() / 2),
        loaded / plain,
        float(np.mean([each.covered for each in outcomes])),
        float(np.mean([each.width for each in outcomes])),
        float(np.mean([each.by_forecast for each in outcomes])),
    )


def simulated(name: str, seeds: Sequence[int], runs: int) -> Score:
    """Return the score of a kind of centre over some seeds."""
    found = [outcome for seed in seeds for outcome in Centre(KINDS[name], seed, runs).outcomes(runs)]
    return score(found)


def table(seeds: Sequence[int] = SEEDS_REPORTED, runs: int = 200) -> Iterator[str]:
    """Yield how histograms did in each kind of centre."""
    yield f"{len(seeds)} seeds of {runs} runs, the first {WARM_UP} not counted; noise {NOISE:.0%}"
    yield "runs | in range | hits off by, sd | PIT uneven | CRPS / plain band | in 90 % | ln width | by forecasts | centre"
    for name, kind in KINDS.items():
        found = simulated(name, seeds, runs)
        yield (
            f"{found.runs:4} | {found.inside:8.3f} | {found.deviations:15.1f} | {found.uneven:10.3f} | "
            f"{found.crps_ratio:17.3f} | {found.covered:7.3f} | {found.width:8.3f} | {found.by_forecast:12.2f} | {name}: {kind.about}"
        )


if __name__ == "__main__":
    for line in table([int(text) for text in sys.argv[1:]] or SEEDS_REPORTED):
        sys.stdout.write(f"{line}\n")
