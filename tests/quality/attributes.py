"""Run times of jobs whose attributes decide them, as the product answers: by how many runs of an application it retains.

Runs come in as events of jobs that ended, in a random order, a second apart as at a busy centre; then configurations that never ran are
requested. kripke and bcast are measured (the file of tests that belongs to each; a run of bcast is taken to be ten thousand
broadcasts, for times of jobs are in milliseconds). hybrid is made: a solver of particles
and cells with six attributes that act on each other, whose truth is known, with a deviation of 3 % of each run.
Constants of the models were chosen on kripke and hybrid: bcast tells what others may expect.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from agent.config.tree import Config
from processors.contracts.events import Evidence, PredictionRequested
from processors.models.numerics.statistics import spearman
from tests.quality.product import Centre
from tests.quality.profiles import stampede2

if TYPE_CHECKING:
    from tests.quality.tables import Sources

SYSTEM: Final = "measured"
RUNS: Final = 6000  # that come in
REQUESTS_MAX: Final = 500
RUNS_MAX: Final = (256, 2048, 6000)  # that are retained
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
NOISE: Final = 0.03
REPEATS: Final = {"kripke": 1, "bcast": 10_000}  # that are a run


class Job(NamedTuple):
    """A run over so many processes."""

    n: float
    attributes: Mapping[str, Any]
    run_time_s: float


class Scored(NamedTuple):
    """Errors over configurations that were requested: mean and median of |ln ratio|, rank correlation, share in the band."""

    mean: float
    median: float
    rank: float
    inside: float


def lines(sources: "Sources") -> Iterator[str]:
    """Yield the errors of each application, by how many runs are retained."""
    yield f"{'application':12} {'runs':>6} {'retained':>8} | mean |ln| median   rank  in band % of 90"
    folder = sources.data / "telemetry" / "stampede2"
    names = (*(("kripke", "bcast") if folder.is_dir() else ()), "hybrid")
    for name in names:
        seen, requested = jobs(folder, name)
        for runs_max in RUNS_MAX:
            sources.folds.check_time()
            found = scored(name, seen[:RUNS], requested[:REQUESTS_MAX], runs_max)
            yield (
                f"{name:12} {len(seen[:RUNS]):6} {runs_max:8} | "
                f"{found.mean:9.3f} {found.median:6.3f} {found.rank:6.3f} {100 * found.inside:16.1f}"
            )


def scored(name: str, seen: list[Job], requested: list[Job], runs_max: int) -> Scored:
    """Return how the product answers after these runs, where it retains so many."""
    began_s = time.monotonic()
    given = {"attributes": sorted(seen[0].attributes), "runs_max": runs_max}
    centre = Centre(config=Config.model_validate({"features": given})).learn(events(name, seen))
    off, predicted, inside = [], [], []
    for job in requested:
        evidence = Evidence(application=name, attributes=dict(job.attributes))
        point = centre.requested(PredictionRequested(SYSTEM, "r", (job.n,), evidence, "processes"))
        assert point is not None
        off.append(abs(np.log(point.run_time_s / job.run_time_s)))
        predicted.append(point.run_time_s)
        inside.append(point.low_s <= job.run_time_s <= point.high_s)
    if faults := centre.faults():
        raise RuntimeError(f"The product failed on {name}: {faults}.")
    sys.stderr.write(f"{name}, {runs_max} retained: {time.monotonic() - began_s:.0f} s\n")
    order = spearman(np.array(predicted)[:, None], np.array([job.run_time_s for job in requested])).item()
    return Scored(float(np.mean(off)), float(np.median(off)), order, float(np.mean(inside)))


def events(name: str, jobs_: list[Job]) -> Iterator[bytes]:
    """Yield runs as native events, one ends each second."""
    for i, job in enumerate(jobs_):
        end = BEGIN + timedelta(seconds=i)
        yield msgspec.json.encode(
            {
                "type": "job.completed",
                "system": SYSTEM,
                "application": name,
                "job_id": str(i + 1),
                "unit": "processes",
                "n": job.n,
                "start": (end - timedelta(seconds=job.run_time_s)).isoformat(),
                "end": end.isoformat(),
                "run_time_s": job.run_time_s,
                "attributes": dict(job.attributes),
            }
        )


def jobs(folder: Path, name: str) -> tuple[list[Job], list[Job]]:
    """Return the runs of an application and those that are requested, in a random order each."""
    if name == "hybrid":
        made = hybrid(np.random.default_rng(1))
        requested = list(islice(made, REQUESTS_MAX))
        return list(islice(made, RUNS)), requested
    return _measured(folder, name, ""), _measured(folder, name, "_test")


def _measured(folder: Path, name: str, suffix: str) -> list[Job]:
    table = stampede2(folder, name, suffix)
    sizes = [at for at, column in enumerate(table.names) if column in {"ppn", "nnodes"}]
    return [
        Job(float(row[sizes].prod()), dict(zip(table.names, row.tolist(), strict=True)), REPEATS[name] * float(time_s))
        for row, time_s in zip(table.values, table.target, strict=True)
    ]


def hybrid(chance: np.random.Generator) -> Iterator[Job]:
    """Yield runs of a solver of near and far interactions, over processes and threads.

    The near part goes with the particles of a leaf, the far one against it and with the order to the fourth; a solver takes
    steps by its tolerance; threads share what processes leave of the cores, and one solver sends more.
    """
    steps = {"sweep": 5.0, "jacobi": 12.5, "multigrid": 3.5, "direct": 20.0}
    while True:
        cells, leaf, order = (
            float(2 ** chance.integers(10, 22)),
            float(chance.integers(16, 400)),
            int(chance.integers(2, 9)),
        )
        processes, threads = float(2 ** chance.integers(0, 7)), int(2 ** chance.integers(0, 5))
        solver, digits = str(chance.choice(list(steps))), int(chance.integers(3, 10))
        work = cells * leaf * 2.7e-7 + cells / leaf * order**4 * 2e-6
        count = steps[solver] * (5 + digits) / 5
        spread = processes * min(threads, 16.0 / processes**0.5 + 1.0) ** 0.8
        sent = 2e-3 * np.log2(processes + 1.0) * (3.0 if solver == "multigrid" else 1.0)
        run_time_s = (work / spread + sent) * count + 0.05
        attributes = {
            "cells": cells,
            "leaf": leaf,
            "order": order,
            "threads": threads,
            "solver": solver,
            "digits": digits,
        }
        yield Job(processes, attributes, float(run_time_s * np.exp(NOISE * chance.normal())))
