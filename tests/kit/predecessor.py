"""The agent before this one, as its users have it: a wheel of its commit, in a folder of its own.

    code = installed(before(), folder)
    AgentProcess(config, code=code)

It is built from the history of this clone, with the tools and the dependencies of today, and without a network.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = r'(version: ClassVar\[int\]|VERSION: Final|__version__) = .*|"scalewatch\.[a-z-]+/[0-9]+"'
PACKAGES = ("agent", "processors", "sinks")
BUILD_S = 300
TRIED_MAX = 5  # commits: in the middle of some work one may not even predict
JOBS = "".join(
    f'{{"type": "job.completed", "system": "exa", "job_id": "{n}", "application": "lammps", "n": {n}, "unit": "nodes", '
    f'"start": "2026-11-20T1{n}:00:00Z", "end": "2026-11-20T1{n}:0{8 // n}:00Z", "run_time_s": {480 // n}}}\n'
    for n in (1, 2, 4)
)


class NoHistoryError(Exception):
    """The agent before this one cannot be made from this clone; the text says why."""


def before() -> Iterator[str]:
    """Yield commits of the version before this one, the best first.

    That is the last tag; until there is one, the last commit on the main line that changed version numbers. It may be in the
    middle of some work, so those that came after it are as good.
    """
    tag = _git("describe", "--tags", "--abbrev=0", "HEAD^", may_fail=True).strip()
    if tag:
        yield tag
    else:
        yield from _git("rev-list", "--first-parent", "--reverse", f"{_last_change()}^..HEAD^").split()


def with_other_numbers() -> Iterator[str]:
    """Yield commits from before the last change of version numbers, the newest first."""
    yield from _git("rev-list", "--first-parent", f"{_last_change()}^").split()


def _last_change() -> str:
    for commit in _touching_numbers():
        if numbers(commit) != numbers(f"{commit}^"):  # else a line has only moved
            return commit
    raise NoHistoryError("No commit before this one has changed a version number.")


def numbers(commit: str) -> list[str]:
    """Return the version numbers of a commit: of states as often as they stand there, of schemas once."""
    lines = _git("grep", "-hoE", NUMBERS, commit, "--", *PACKAGES, may_fail=True).splitlines()
    return sorted([line for line in lines if not line.startswith('"')] + [*{line for line in lines if line[0] == '"'}])


def installed(commits: Iterable[str], folder: Path) -> Path:
    """Build the wheel of the first commit that works, and return the folder that it is installed in, without dependencies."""
    _check_history()
    for commit in islice(commits, TRIED_MAX):
        sources = _unpacked(commit, folder / commit)
        if _works(sources):
            wheels, code = folder / "wheels", folder / "code"
            _pip("wheel", "--no-build-isolation", "--wheel-dir", str(wheels), str(sources))
            _pip("install", "--no-compile", "--target", str(code), *map(str, wheels.glob("*.whl")))
            return code
    raise NoHistoryError(f"None of {TRIED_MAX} commits of the version before this one predicts anything.")


def _unpacked(commit: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    packed = folder.with_suffix(".tar")
    _git("archive", "--format=tar", f"--output={packed}", commit, "--", ".", ":!tests")
    subprocess.run(["tar", "-xf", packed, "-C", folder], check=True)
    return folder


def _works(sources: Path) -> bool:
    """Return whether the agent in a folder of sources predicts anything."""
    command = [sys.executable, "-m", "agent.cli", "predict", "-", "lammps", "--n", "2"]
    return not subprocess.run(command, cwd=sources, check=False, capture_output=True, input=JOBS, text=True).returncode


def _touching_numbers() -> Iterator[str]:
    """Yield commits of the main line that have such a line in their difference, the newest first: each takes a while to find."""
    looks = ("--first-parent", "--diff-merges=first-parent", "--extended-regexp", f"-G{NUMBERS}")
    command = ["git", "log", "--format=%H", *looks, "HEAD^", "--", *PACKAGES]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as log:
        assert log.stdout is not None
        try:
            yield from map(str.strip, log.stdout)
        finally:
            log.kill()


def _is_shallow() -> bool:
    return _git("rev-parse", "--is-shallow-repository").strip() != "false"


def _check_history() -> None:
    if _is_shallow():  # where the origin can be reached, it has what this clone lacks
        _git("fetch", "--unshallow", "--tags", may_fail=True)
    if _is_shallow():
        raise NoHistoryError(
            "This clone is shallow, and the agent before this one is in the history that it lacks: run "
            "`git fetch --unshallow --tags`."
        )


def _git(*arguments: str, may_fail: bool = False) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise NoHistoryError("Git is not installed, and the agent before this one is in its history.") from None
    if done.returncode and not may_fail:
        raise NoHistoryError(f"The agent before this one is in no history here: {done.stderr.strip()}")
    return done.stdout


def _pip(command: str, *arguments: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    whole = [sys.executable, "-m", "pip", command, *quiet, *arguments]
    done = subprocess.run(whole, check=False, capture_output=True, text=True, timeout=BUILD_S)
    assert done.returncode == 0, done.stderr
