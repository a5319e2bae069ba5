"""`python -m tests.mutation [--seed 1] [--count 150]`: do tests notice small faults in what predicts run times?

Each mutant is one small change in a copy of the sources, and the tests that run the changed line are run until one fails. What
survives is either no fault (an equivalent mutant) or a test that is missing. Details go to mutation-results/ as JSON.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import click
import msgspec

from tests.mutation.covering import Covering, covering
from tests.mutation.mutants import Mutant, applied, mutants

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = Path("mutation-results")
RUN_TIME_PATH: Final = (
    "processors/facts.py",
    "processors/predict*.py",
    "processors/run_time/**/*.py",
    "processors/similar_runs*",
    "processors/similar_runs/**/*.py",
    "processors/jobs/lifecycle.py",
    "processors/models/adept/**/*.py",
    "processors/models/combination/**/*.py",
    "processors/models/downey/**/*.py",
    "processors/models/laws.py",
    *(f"processors/pipeline/{name}.py" for name in ("fits", "answers", "jobs", "completions", "predict*")),
)
TESTS: Final = (
    "tests/unit/fold", "tests/unit/models", "tests/unit/processors", "tests/unit/pipeline", "tests/unit/run_time",
    "tests/unit/jobs", "tests/unit/house/test_docs.py", "tests/contract/test_processors.py",
)  # fmt: skip
LEFT_OUT: Final = shutil.ignore_patterns(".*", "__pycache__", "*-results", "dist", "build", "htmlcov")


class Result(msgspec.Struct):
    """What became of a mutant: the test that failed, or that so many passed in so many seconds."""

    path: str
    line: int
    kind: str
    before: str
    after: str
    killed: bool
    by: str
    tests: int
    seconds: float


@click.command
@click.option("--seed", default=1, show_default=True, help="Which mutants: the same seed makes the same ones.")
@click.option("--count", default=150, show_default=True, help="How many mutants.")
@click.option("--only", multiple=True, help="Paths that begin so alone; may be repeated.")
@click.option(
    "--tests-s", default=90.0, show_default=True, help="Of the tests of a line the quickest, up to so many seconds."
)
def main(seed: int, count: int, only: tuple[str, ...], tests_s: float) -> None:
    """Make mutants, say of each whether a test noticed it, and end with the share that was."""
    FOLDER.mkdir(exist_ok=True)
    os.nice(5)
    paths = modules()
    click.echo(f"{len(paths)} modules; which tests run which line is recorded first, unless it is known", err=True)
    known = covering(paths, [path for path in TESTS if (ROOT / path).exists()], FOLDER, ROOT)
    chosen = choose(paths, seed, count, only)
    results, path = list[Result](), FOLDER / f"seed-{seed}-{count}.json"
    with tempfile.TemporaryDirectory(prefix="scalewatch-mutants-") as work:
        copy = shutil.copytree(ROOT, Path(work, "tree"), ignore=LEFT_OUT)
        # as old as its sources, so that what a change makes of one is never taken from here
        subprocess.run([sys.executable, "-m", "compileall", "-q", "agent", "processors", "sinks"], cwd=copy, check=True)
        for mutant in chosen:
            results.append(tried(mutant, known, copy, tests_s))
            click.echo(line(results[-1]))
            path.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    click.echo("\n" + table(results))
    click.echo(f"Details: {path}")


def modules() -> list[str]:
    """Return the modules of the run-time path, wherever files of its packages stand."""
    found = {path for pattern in RUN_TIME_PATH for path in ROOT.glob(pattern) if path.suffix == ".py"}
    return sorted(str(path.relative_to(ROOT)) for path in found)


def choose(paths: list[str], seed: int, count: int, only: tuple[str, ...] = ()) -> list[Mutant]:
    """Return mutants by chance, each as likely as any other, in any order: a run that is ended early is a sample, too."""
    every = [each for path in paths if path.startswith(only or "") for each in mutants(path, (ROOT / path).read_text())]
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311  the same choice every time


def tried(mutant: Mutant, known: Covering, copy: Path, tests_s: float) -> Result:
    """Make one change in the copy, run tests until one fails, and take the change back."""
    file = copy / mutant.path
    source = file.read_text()
    last = mutant.line + source.encode()[mutant.start : mutant.end].count(b"\n")
    tests: list[str] = []
    seconds = 0.0
    for each_s, test in known.of(mutant.path, mutant.line, last):
        if tests and seconds + each_s > tests_s:
            break
        tests.append(test)
        seconds += each_s
    began = time.monotonic()
    try:
        file.write_text(applied(source, mutant))
        by = failed(tests, copy, round(30 + 4 * seconds))
    finally:
        file.write_text(source)
    took = round(time.monotonic() - began, 1)
    return Result(mutant.path, mutant.line, mutant.kind, mutant.before, mutant.text, bool(by), by, len(tests), took)


def failed(tests: list[str], copy: Path, limit_s: int) -> str:
    """Return the test that fails first, an empty text where all pass; what takes too long fails, too.

    The limit is of processor time, for the machine may be busy.
    """
    if not tests:
        return ""
    pytest = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "--tb=no", "-n", "0", "-p", "no:cacheprovider", *tests]
    command = ["sh", "-c", 'ulimit -t "$0" && exec "$@"', str(limit_s), *pytest]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=20 * limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode < 0:
        return "no end"
    if done.returncode == 0:
        return ""
    prediction = [text for text in done.stdout.splitlines() if text.startswith(("FAILED", "ERROR"))]
    return prediction[0].split(" - ")[0].partition(" ")[2] if prediction else "does not start"


def line(result: Result) -> str:
    """Return what became of a mutant as one line."""
    how = f"by {result.by}" if result.killed else f"{result.tests} tests pass"
    became = "killed  " if result.killed else "SURVIVED"
    return f"{became} {result.path}:{result.line}  {result.kind}: {result.before} -> {result.after}  ({how}, {result.seconds} s)"


def table(results: list[Result]) -> str:
    """Return how many were killed, by module and in all, and each survivor once more."""
    made, killed = Counter(each.path for each in results), Counter(each.path for each in results if each.killed)
    results = sorted(results, key=lambda each: (each.path, each.line))
    rows = [f"{killed[path]:4} of {made[path]:4} killed  {path}" for path in sorted(made)]
    alive = [line(each) for each in results if not each.killed]
    share = f"{killed.total()} of {made.total()} killed, {100 * killed.total() / max(made.total(), 1):.0f} %"
    return "\n".join([*rows, "", *alive, "", share])


if __name__ == "__main__":
    main()
