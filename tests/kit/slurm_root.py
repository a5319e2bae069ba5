"""The root folder of a real Slurm: Debian's own packages in a folder, built once and kept as one file.

Building needs root, mmdebstrap and a Debian mirror; unpacking needs root alone and takes two seconds. Each cluster
unpacks a root of its own, so that two of them, or two test runs, never meet.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final
from zlib import crc32

from tests.kit.alone import alone

SUITES: Final = {"trixie": (24, 11), "forky": (26, 5)}
NEWEST: Final = max(SUITES, key=lambda suite: SUITES[suite])
"""Debian suites and the oldest Slurm that each may hold; testing suites move on."""

_PACKAGES = "slurm-wlm,slurm-wlm-kafka-plugin,munge,curl"
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
_TOOLS = ("mmdebstrap", "setpriv", "unshare", "nsenter", "tar")
_BUILD_TIMEOUT_S = 600.0


def why_not() -> str | None:
    """Return the one sentence that says why no Slurm can run on this machine, None where it can."""
    if os.geteuid() != 0:
        return "A real Slurm needs root, to mount its own /proc and /dev."
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        return f"A real Slurm needs {', '.join(missing)}: apt-get install mmdebstrap util-linux tar"
    if subprocess.run(["unshare", "--mount", "--pid", "--uts", "--fork", "true"], capture_output=True).returncode:  # noqa: PLW1510  the return code is what is asked for
        return "A real Slurm needs namespaces of its own, and this machine (a container?) does not let root make them."
    return None


def cached_root(suite: str) -> Path:
    """Return the archive of a suite's root; build it when the cache does not hold it (20 to 40 s)."""
    archive = _cache() / f"slurm-{suite}-{crc32(_PACKAGES.encode()):08x}.tar"
    if not archive.exists():
        with alone(archive), tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            if not archive.exists():  # another test process may have been faster
                built = Path(folder, "root.tar")
                _build(suite, built)
                built.rename(archive)  # at once and whole
    return archive


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a root, with its owners and device files, into a folder."""
    folder.mkdir(parents=True)
    subprocess.run(["tar", "--numeric-owner", "-xpf", str(archive), "-C", str(folder)], check=True)


def _cache() -> Path:
    own = os.environ.get("SCALEWATCH_SLURM_CACHE")
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(user, "scalewatch")


def _build(suite: str, archive: Path) -> None:
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}"]
    # the index of a testing suite may be past its date on a mirror that lags; its signature is still checked
    command += ["--aptopt=Acquire::Check-Valid-Until false"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    done = subprocess.run(
        [*command, suite, str(archive)],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_BUILD_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"mmdebstrap could not build {suite}: {(done.stdout + done.stderr)[-2000:]}")
