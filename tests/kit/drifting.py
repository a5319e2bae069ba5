"""Runs of an application that keeps falling behind its own past."""

from processors.facts import RunFact, Scored
from processors.run_time.drift import ScoredRun
from tests.kit.scenario import DAY_MS, SYSTEM


def scored_run(i: int) -> ScoredRun:
    """Return the i-th run of an application that keeps falling behind its own past, with ever more builds."""
    ratio = 0.02 * (i % 7 - 3) + (0.4 if i % 60 > 50 else 0.0)
    run = RunFact(f"{SYSTEM}/{i}@{DAY_MS}", 4.0, 100 * 2.718281828459045**ratio, DAY_MS + i, DAY_MS + i, 0)
    reported = Scored(run, 100.0, 90.0, 110.0, ratio, 0.1, inside=abs(ratio) < 0.1, horizon="inside", observations=50)
    return ScoredRun(reported, {"build": f"2026.{i // 50}", "atoms": i})
