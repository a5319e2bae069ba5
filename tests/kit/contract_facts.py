"""Facts about jobs, runs, alerts and inputs that the contract of processors is tried with."""

from processors.alerts.lifecycle import Condition
from processors.contracts.events import Identity, JobCompleted
from processors.facts import RunFact
from processors.inputs import KNOTS_MAX, InputFact, InputRecord, StoredKnot
from processors.jobs.lifecycle import Job, JobFact, Placement
from tests.kit.scenario import SYSTEM, completed, evidence

START_MS = 1_795_168_800_000


def job_fact(i: int) -> JobFact:
    """Return the i-th fact about a job that is requeued again and again: other evidence, or a run that ended."""
    if i % 5 == 1:
        return Identity(SYSTEM, job_id="1", source=f"s{i}", evidence=evidence(module=f"m/{i}"))
    return completed("1", START_MS + i * 100_000, 60.0, application="lammps", nodes=4)


def job_learns(job: Job, fact: JobFact) -> None:
    """Take a completion in as the fold does: by `end`, and what is too much settles."""
    if isinstance(fact, JobCompleted):
        job.end(fact, Placement("exa/lammps//nodes", 4.0, "application", 1.0), fact.end_ms + 180_000)
        job.settle_excess()
    else:
        job.learn(fact)


def run_fact(i: int) -> RunFact:
    n = 1.0 + i % 300
    return RunFact(f"{SYSTEM}/{i}@{START_MS}", n, 1000.0 / n + i % 7, START_MS, START_MS + i, START_MS + i)


def condition(i: int) -> Condition:
    return Condition(name="X", labels={"n": "4"}, holds=i % 3 != 2, time_ms=START_MS + i * 1000, for_ms=5000)


def input_fact(i: int) -> InputFact:
    knots = tuple(StoredKnot(2.0**step, 1000.5 + i, 3) for step in range(KNOTS_MAX))
    return InputFact(("atoms", "steps"), InputRecord(f"{SYSTEM}/atoms={i},steps=100", (1.0 + i, 100.0), 16.0, knots))
