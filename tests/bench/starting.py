"""What starts cost: processor seconds of whole processes, with byte code as an installation has it."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.result import Row
from tests.bench.workload import Load, messages

REPEATS: Final = 7
COMMAND: Final = "from agent.cli import Commands; Commands('scalewatch').get_command(None, 'run')"
ROLE: Final = f"{COMMAND}\nfrom agent.cli import lasting\nwith lasting(): import agent.app.roles"
STARTS: Final = {
    "parent of the roles": ("-c", COMMAND),
    "collector": ("-c", ROLE),
    "learner": ("-c", f"{ROLE}\nimport processors.pipeline.shard"),
}


def run(*, quick: bool) -> Iterator[Row]:
    """Yield the processor seconds of the modules of each process, and of a whole question about a file of 60 jobs."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder, "jobs.jsonl")
        jobs.write_bytes(b"".join(message.value + b"\n" for message in messages(Load(20, 60, hosts_max=1))))
        question = ("-m", "agent.cli", "predict", str(jobs), "app00001", "--n", "64")
        repeats = 3 if quick else REPEATS
        for name, arguments in STARTS.items():
            yield Row(f"start, {name}", _least_s(arguments, folder, repeats), "s", "what it loads", 0.7)
        yield Row("start, predict", _least_s(question, folder, repeats), "s", "the whole command, on 60 jobs", 1.0)


def _least_s(arguments: Sequence[str], folder: str, repeats: int) -> float:
    """Return the processor seconds of the quickest of several processes; one before them writes the byte code."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
    found = []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found[1:])
