"""A centre that runs a story of `counted_runs`: each run is asked for before it ends, without its counters and with them."""

from statistics import fmean
from typing import Final, NamedTuple

from processors.contracts.events import Evidence, JobProfile, PredictionRequested
from processors.contracts.outputs import Answer
from tests.kit.counted_runs import CountedRun, counted_runs
from tests.kit.scenario import SYSTEM, Scenario

EVERY_MS: Final = 600_000
LEARNED: Final = 80  # runs, before answers are scored


class Answered(NamedTuple):
    """Mean error in %, and the share of runs in the band."""

    error: float
    coverage: float


def requested(centre: Scenario, run: CountedRun, *, counters: bool, n: float | None = None) -> Answer:
    """Ask for a run, with its counters per cycle or without."""
    features = dict(run.rates) if counters else {}
    evidence = Evidence(application="lammps")
    return centre.shard.answer(PredictionRequested(SYSTEM, "r", (n or run.n,), evidence, "nodes", features))


def ends(centre: Scenario, job_id: str, run: CountedRun) -> None:
    """Let a run end, with its profile."""
    event = centre.ran(job_id, "lammps", run.n, run.run_time_s)
    centre.fold(JobProfile(SYSTEM, job_id, event.run_id, run.profile))


def story_of(centre: Scenario, story: str, seed: int, scored: int = 60) -> dict[bool, Answered]:
    """Let a story happen; return how answers with counters (True) and without did, of runs after the first LEARNED ones."""
    off: dict[bool, list[float]] = {True: [], False: []}
    inside: dict[bool, list[bool]] = {True: [], False: []}
    for i, run in enumerate(counted_runs(story, LEARNED + scored, seed)):
        centre.at_ms((centre.now_ms or 1_795_132_800_000) + EVERY_MS)
        for counters in (True, False) if i >= LEARNED else ():
            point = requested(centre, run, counters=counters).points[0]
            off[counters].append(abs(point.run_time_s / run.run_time_s - 1.0))
            inside[counters].append(point.low_s <= run.run_time_s <= point.high_s)
        ends(centre, f"j{i}", run)
    return {counters: Answered(100.0 * fmean(off[counters]), fmean(inside[counters])) for counters in off}
