"""Slowdowns through the whole fold: how soon they are found, how often wrongly, and what predictions cost meanwhile.

    python -m tests.quality.drift [LOG.swf.gz ...]

In simulation an application of six sizes and 5 % noise becomes slower or faster at a known run. On logs of real jobs, in
the Standard Workload Format, nobody knows the truth: there the alerts are counted, and the errors of the published
predictions, strictly online.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agent.app.compose import make_shard
from agent.app.embedded import ticks
from agent.config.tree import Config
from processors.contracts.events import Attribute, Evidence, JobCompleted, JournalRecord, Tick
from processors.contracts.outputs import Alert, Prediction
from processors.contracts.settings import IdentifySettings
from processors.facts import RunFact, Scored
from processors.pipeline.shard import Shard
from tests.quality.job_logs import jobs

SIZES = (1, 2, 4, 8, 16, 32)
BEFORE, FIRST, LATER = 150, 30, 60
EVERY_MS = 600_000
START_MS = 1_795_132_800_000
TICK_MS = 10_000
NAMED_BY_USER = IdentifySettings(fallback=("application", "executable", "job_name", "user"))
JOBS_MAX = 4000  # of each log
SHIFT_ALERTS = ("Regression", "Improvement")


class Fold:
    """A shard fed with completions, its time passing with theirs."""

    def __init__(self, config: Config) -> None:
        self.shard: Shard = make_shard(config)
        self.fired: Counter[str] = Counter()
        self.published: list[Alert] = []
        self.latest: dict[str, Alert] = {}
        self.models: Counter[str] = Counter()

    def expected(self, event: JobCompleted) -> Scored | None:
        """Return how a run compares with what is published now."""
        state = self.shard.state
        found = state.identify(event.evidence, event.system, (), None)
        model = state.models.get(found.key.id) if found.key else None
        if model is None or found.n is None or event.state != "COMPLETED" or event.run_time_s <= 0:
            return None
        return model.score(RunFact(event.run_id, found.n, event.run_time_s, event.start_ms, event.end_ms, 0))

    def pass_time(self, time_ms: int) -> list[str]:
        """Make the ticks up to a time and return the names of the alerts that fire."""
        named: list[str] = []
        for tick_ms in ticks(self.shard.now_ms or None, time_ms - time_ms % TICK_MS):
            named += self._fold(Tick(system="", time_ms=tick_ms))
        return named

    def tick(self, time_ms: int) -> None:
        """Make a single tick: what is due is published."""
        self._fold(Tick(system="", time_ms=time_ms))

    def take(self, event: JobCompleted) -> list[str]:
        """Fold a completion and return the names of the alerts that fire."""
        return self._fold(event)

    def _fold(self, event: JobCompleted | Tick) -> list[str]:
        sent = self.shard.fold(JournalRecord(event))
        alerts = [message for message in sent if isinstance(message, Alert)]
        firing = [alert for alert in alerts if alert.status == "firing"]
        named = [alert.labels["alertname"] for alert in firing]
        self.fired.update(named)
        self.published += firing
        self.latest.update((alert.fingerprint, alert) for alert in alerts)
        self.models.update(message.model.name for message in sent if isinstance(message, Prediction))
        return named


class Story(NamedTuple):
    """Of one application: relative errors by run in %, and after which runs, counted from the change, a shift fired."""

    errors: tuple[float, ...]
    alarms: tuple[int, ...]


def story(
    seed: int,
    factor: float,
    *,
    noise: float = 0.05,
    before: int = BEFORE,
    after: int = FIRST + LATER,
    build: bool = True,
) -> Story:
    """Return what happens to an application whose run times are multiplied by `factor` from a run on, with a new build."""
    random, fold = np.random.default_rng(seed), Fold(Config())
    errors, alarms = [], []
    for i in range(before + after):
        changed, n = i >= before, float(random.choice(SIZES))
        run_time_s = 1000 * (1 / n + 0.02) * (factor if changed else 1.0) * math.exp(random.normal(0, noise))
        start_ms = START_MS + i * EVERY_MS
        attributes: dict[str, Attribute] = {"build": "2026.2" if changed and build else "2026.1"}
        reported = Evidence(application="lammps", sizes={"nodes": n}, attributes=attributes)
        end_ms = start_ms + round(run_time_s * 1000)
        event = JobCompleted("exa", str(i), f"exa/{i}@{start_ms}", start_ms, end_ms, run_time_s, "COMPLETED", reported)
        fold.tick(start_ms)
        scored = fold.expected(event)
        errors.append(100 * abs(scored.expected_s / run_time_s - 1) if scored else math.nan)
        alarms += [i - before + 1] * sum(name in SHIFT_ALERTS for name in fold.take(event))
    return Story(tuple(errors), tuple(alarms))


class Shifts(NamedTuple):
    """Over several stories: delays in runs, the share found, false alarms, and mean errors in %."""

    found: int
    stories: int
    delay: tuple[int, int, int]
    false_alarms: int
    quiet_runs: int
    before: float
    first: float
    later: float


def shifts(factor: float, seeds: Sequence[int], *, noise: float = 0.05) -> Shifts:
    """Return how well shifts by `factor` are found and learned."""
    stories = [story(seed, factor, noise=noise) for seed in seeds]
    delays = sorted(next((alarm for alarm in each.alarms if alarm > 0), 0) for each in stories)
    delays = [delay for delay in delays if delay]
    errors = np.array([each.errors for each in stories])
    return Shifts(
        found=len(delays),
        stories=len(stories),
        delay=(delays[0], delays[len(delays) // 2], delays[-1]) if delays else (0, 0, 0),
        false_alarms=sum(alarm <= 0 for each in stories for alarm in each.alarms),
        quiet_runs=BEFORE * len(stories),
        before=float(np.nanmean(errors[:, BEFORE - 90 : BEFORE])),
        first=float(np.nanmean(errors[:, BEFORE : BEFORE + FIRST])),
        later=float(np.nanmean(errors[:, BEFORE + FIRST :])),
    )


class OnLog(NamedTuple):
    """What the fold made of a log: alerts that fired by name, jobs, and the scored runs' |ln ratio|."""

    fired: Counter[str]
    jobs: int
    distances: tuple[float, ...]
    published: tuple[Alert, ...]


def on_log(path: Path, jobs_max: int | None = None) -> OnLog:
    """Fold a log strictly online; a user stands for the application where the log names none."""
    _, events = jobs(path)
    events = sorted(events, key=lambda event: (event.end_ms, event.run_id))[:jobs_max]
    fold, distances = Fold(Config(identify=NAMED_BY_USER)), []
    for event in events:
        fold.pass_time(event.end_ms)
        scored = fold.expected(event)
        distances += [abs(scored.ln_ratio)] if scored else []
        fold.take(event)
    return OnLog(fold.fired, len(events), tuple(distances), tuple(fold.published))


def table(seeds: Sequence[int] = range(12)) -> Iterator[str]:
    """Yield the lines of the table in simulation."""
    yield "| factor | found | delay in runs: least, median, most | false alarms | error % before | first 30 | later |"
    yield "|---|---|---|---|---|---|---|"
    for factor in (1.0, 1.1, 1.25, 1.5, 0.8):
        line = shifts(factor, seeds)
        yield (
            f"| {factor} | {line.found} of {line.stories} | {', '.join(map(str, line.delay))} | "
            f"{line.false_alarms} in {line.quiet_runs} | {line.before:.1f} | {line.first:.1f} | {line.later:.1f} |"
        )


def log_table(paths: Sequence[Path], jobs_max: int | None = None) -> Iterator[str]:
    """Yield the lines of the table on logs."""
    for path in paths:
        found = on_log(path, jobs_max)
        distances = np.array(found.distances)
        yield (
            f"{path.name}: {found.jobs} jobs, {distances.size} scored; |ln ratio| median {np.median(distances):.3f}, "
            f"mean {distances.mean():.3f}"
        )
        for name, count in sorted(found.fired.items()):
            yield f"  {name}: {count}, {1000 * count / found.jobs:.2f} per 1,000 jobs"


def report(paths: Sequence[Path], show: Callable[[str], object]) -> None:
    """Say both tables, line by line."""
    for line in chain(table(), log_table(paths, JOBS_MAX)):
        show(line)


if __name__ == "__main__":
    report([Path(path) for path in sys.argv[1:]], lambda line: sys.stdout.write(line + "\n"))
