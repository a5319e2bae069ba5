"""Names of programs, out of job names, executables, modules and containers.

A job name is written by a person and counts its repeats: `run7`, `md_042`, `job-2026-01-03`. Its numbers become `#`,
so that repeats fall together, and its letters stay, so that programs stay apart:

- a part that is all digits, or begins with six of them, or is a date, a time, an identifier in hexadecimal (8
  characters or more), a size such as `64nodes` or `16x8`, becomes `#`, and neighbours of that kind share one:
  `md_2026-01-03_12` -> `md_#`;
- digits at the end of a part become `#`: `run7` -> `run#`, `lmp_n64` -> `lmp_n#`;
- digits before letters stay, for they belong to names: `cp2k`, `h5bench`, `3dfft`, and problem sizes such as `32k`.

Some names say nothing. A shell, an interpreter, a launcher or a session (`bash`, `python3`, `srun`, `interactive`)
gives no application at all. A word that any program may go by (`run#`, `test`, `job`) gives one of low confidence.
"""

import hashlib
import re
from typing import Final

TEXT_MAX: Final = 256
NAMELESS: Final = frozenset((
    "interactive", "wrap", "sbatch", "salloc", "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun",
    "aprun", "jsrun", "ibrun", "jobstep", "allocation", "sh", "bash", "dash", "zsh", "csh", "tcsh", "ksh", "fish",
    "env", "time", "nohup", "nice", "numactl", "taskset", "timeout", "sleep", "true", "hostname", "date", "echo",
    "cat", "ls", "python", "perl", "ruby", "julia", "rscript", "r", "java", "node", "matlab", "octave", "ipython",
    "lua", "tclsh", "stdin", "null", "none", "unknown", "jupyter", "jupyterhub", "jupyterlab", "jupyter-notebook",
    "jupyter-lab", "notebook", "spawner-jupyterhub", "rstudio", "rserver", "vscode", "code-server", "vnc",
    "desktop", "bc_desktop", "tmux", "screen", "ssh", "sshd", "sys-dashboard", "singularity", "apptainer", "docker",
    "podman", "charliecloud", "ch-run", "enroot", "shifter", "a.out", "slurm_script", "orted", "hydra_pmi_proxy",
    "slurmstepd", "pmi_proxy",
))  # fmt: skip
VAGUE: Final = frozenset((
    "run", "job", "test", "task", "batch", "submit", "script", "slurm", "pbs", "lsf", "main", "program", "prog",
    "exe", "app", "sim", "simulation", "calc", "calculation", "array", "mpi", "openmp", "omp", "hybrid", "parallel",
    "serial", "scaling", "strong", "weak", "bench", "benchmark", "my", "myjob", "my_job", "my-job", "testjob",
    "test_job", "runjob", "run_job", "tmp", "temp", "new", "foo", "bar", "example", "demo", "x", "y", "a", "b",
    "start", "launch",
))  # fmt: skip
_NOT_NAME = re.compile(r"[#\s_.,:;+=@~()\[\]{}-]+")
_EXTENSION = re.compile(r"\.(sh|bash|csh|slurm|sbatch|slm|job|sub|pbs|lsf|py|pl|r|jl|m|exe)$", re.IGNORECASE)
_IMAGE = re.compile(r"\.(sif|simg|img|sqsh|sqfs|squashfs)$", re.IGNORECASE)
_VERSION = re.compile(r"v?\d[\w.+-]*|latest|default|stable", re.IGNORECASE)
_MONTH = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_NUMBERS = re.compile(
    rf"""
    \[[\d,:%-]+\] |                                                # an array's tasks: [1-10%2]
    (?<![^\W_])(?:
        [0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}} |      # a UUID
        \d{{1,4}}-?(?:{_MONTH})[a-z]*-?\d{{1,4}} |                 # 3jan2026
        \d{{6,}}[^\W_]* |                                        # 20260103T120000, 20220404p17w03s5
        \d+(?:x\d+)+ |                                             # 16x8
        \d+-?(?:nodes?|cores?|cpus?|procs?|processes|ranks?|tasks?|threads?|gpus?|n|c|p) |
        (?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{8,}} |                   # a hash: letters and digits both
        \d+
    )(?![^\W_]) |
    (?<=[^\W\d_])\d+(?:x\d+)*(?![^\W_])                           # the end of a part: run7, grid16x8
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SAME_NUMBER = re.compile(r"#(?:[\s_.,:;+=~-]*#)+")
_ENDING_NUMBERS = re.compile(r"[\d.#-]+$")


def jobs_of(user: str) -> str:
    """Return the name that stands for all jobs of a user which nothing else names."""
    return f"jobs of {cleaned(user)}"


def cleaned(text: str) -> str:
    r"""Return the text in printable characters, single spaces, and at most 256 characters.

    A longer text ends in a hash of the whole, so that two long names never become one by being cut.
    """
    shown = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    plain = " ".join(shown.split())
    if len(plain) <= TEXT_MAX:
        return plain
    return f"{plain[: TEXT_MAX - 17]}~{hashlib.sha256(plain.encode()).hexdigest()[:16]}"


def normalised_job_name(name: str) -> str:
    """Return a job name with `#` where its repeats differ, as the module says; empty where nothing else is left."""
    plain = cleaned(_EXTENSION.sub("", name.strip().rpartition("/")[2][:TEXT_MAX]))
    counted = _SAME_NUMBER.sub("#", _NUMBERS.sub("#", plain))
    return counted if _NOT_NAME.sub("", counted) else ""


def program_of_executable(path: str) -> str:
    """Return the file name of an executable."""
    return cleaned(path.strip().rstrip("/").rpartition("/")[2])


def program_of_module(module: str) -> str:
    """Return the name in an environment module, without versions; empty for a list of modules, which is ambiguous."""
    parts = [part for part in module.strip().split("/") if part]
    while len(parts) > 1 and _VERSION.fullmatch(parts[-1]):
        parts.pop()
    name = cleaned(parts[-1]) if parts else ""
    return "" if re.search(r"[\s,:;]", name) else name


def program_of_container(image: str) -> str:
    """Return the name of a container's image, without registry, tag, digest and extension."""
    base = image.strip().rstrip("/").rpartition("/")[2].partition("@")[0].partition(":")[0]
    return normalised_job_name(_IMAGE.sub("", base))


def is_nameless(name: str) -> bool:
    """Return whether a name says nothing of the program: a shell, an interpreter, a launcher, a session."""
    lower = _EXTENSION.sub("", name.lower())
    if lower.startswith("ood "):  # sessions of Open OnDemand
        return True
    stems = {name.lower(), lower, _ENDING_NUMBERS.sub("", lower).rstrip("_- ")}
    return not _NOT_NAME.sub("", name) or bool(stems & NAMELESS)


def is_vague(name: str) -> bool:
    """Return whether a job name is a word that any program may go by."""
    return _ENDING_NUMBERS.sub("", name.lower()).rstrip("_- ") in VAGUE or len(_NOT_NAME.sub("", name)) < 2
