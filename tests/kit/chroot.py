"""A Debian in a folder, to install packages in: the root of its own Python, unpacked for one test module."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kit.image import base_archive


class Chroot:
    """A Debian with the Python of the distribution, to install packages in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *command: str) -> str:
        """Run a command inside as root, without a network; return what it printed."""
        mounted = 'mount -t proc proc "$1/proc"; mount --bind /dev "$1/dev"; exec chroot "$@"'
        done = subprocess.run(
            ["unshare", "--mount", "--net", "--fork", "sh", "-ec", mounted, "chroot", str(self.folder), *command],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=300.0,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent", "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def as_agent(self, *command: str) -> str:
        """Run a command as the user of the package, who may write nothing."""
        return self.run("setpriv", "--reuid=scalewatch", "--regid=scalewatch", "--clear-groups", *command)


@contextmanager
def unpacked(folder: Path) -> Iterator[Path]:
    """Unpack the root of Debian's Python, and remove it at the end: it is large."""
    subprocess.run(["tar", "--numeric-owner", "-xpf", str(base_archive()), "-C", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
