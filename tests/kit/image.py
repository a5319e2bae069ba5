"""The image as operators build and run it: buildah makes it, and a jail runs it as nobody, with a file system that is read-only.

Registries of images may be out of reach where tests run. So the base is Debian's own Python under the full name of the
real one, and the Dockerfile builds on it unchanged. Where pip finds packages follows from this machine's settings.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.kit.alone import alone

ROOT: Final = Path(__file__).resolve().parents[2]
DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"
NAME: Final = "localhost/scalewatch"
PACKAGES: Final = "python3,python3-venv,ca-certificates"
BUILD_S: Final = 600.0
JAIL: Final = """
set -e
root=$1; shift
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount -o remount,ro,bind "$root"
exec chroot "$@"
"""


class Image:
    """A built image: what it says of itself, and its file system at `root`."""

    def __init__(self, config: dict[str, Any], root: Path, store: list[str]) -> None:
        self.config, self.root, self.store = config, root, store

    def command(self, *arguments: str) -> list[str]:
        """Return how to run a program of the image as the image's user, with nothing to write to but /tmp."""
        unshared = ["unshare", "--mount", "--propagation", "private", "sh", "-c", JAIL, "jail", str(self.root)]
        user = [f"--userspec={self.config['User']}", str(self.root), "/usr/bin/env", "--ignore-environment"]
        return [*unshared, *user, *self.config["Env"], *arguments]

    def entry(self, *arguments: str) -> list[str]:
        """Return how to run the image with these arguments."""
        return self.command(*self.config["Entrypoint"], *arguments)

    def output(self, *arguments: str) -> str:
        """Return what the image prints with these arguments."""
        return subprocess.run(self.entry(*arguments), capture_output=True, text=True, check=True, timeout=60.0).stdout


@contextmanager
def built(folder: Path) -> Iterator[Image]:
    """Build the image into a store below a folder, and free it at the end."""
    (folder / "Base").write_text("FROM scratch\nADD base.tar /\n")
    shutil.copy(base_archive(), folder / "base.tar")
    _buildah(folder, "bud", "--quiet", "--tag", base_name(), "--file", str(folder / "Base"), str(folder))
    (folder / "base.tar").unlink()
    settings = pip_settings()
    secret = folder / "pip.conf"
    secret.write_text("".join(["[global]\n", *(f"{name} = {value}\n" for name, value in settings.items())]))
    mounts = [f"--volume={value}:{value}:ro" for value in settings.values() if Path(value).is_absolute()]
    requested = ["--secret", f"id=pip.conf,src={secret}", *mounts, "--format=docker", "--file", str(DOCKERFILE)]
    _buildah(folder, "bud", "--quiet", *requested, "--tag", NAME, str(ROOT))
    config = json.loads(_buildah(folder, "inspect", "--type", "image", NAME))["Docker"]["config"]
    container = _buildah(folder, "from", "--pull-never", NAME)
    try:
        yield Image(config, Path(_buildah(folder, "mount", container)), _store(folder))
    finally:
        _buildah(folder, "rm", container)
        shutil.rmtree(folder / "store")  # hundreds of megabytes


def base_name() -> str:
    """Return the full name of the base image of the Dockerfile."""
    found = re.search(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert found, "The Dockerfile names no base."
    return found.group(1)


def base_archive() -> Path:
    """Return Debian's own Python as the archive of a root; made once and kept (some 25 s)."""
    suite = base_name().rpartition("-")[2]
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    archive = Path(user, "scalewatch", f"python-{suite}.tar")
    with alone(archive):
        if not archive.exists():
            whole = archive.with_name(f"new-{archive.name}")
            _run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", suite, str(whole)])
            whole.rename(archive)
    return archive


def pip_settings() -> dict[str, str]:
    """Return this machine's settings of pip by name, from its files and from the environment."""
    output = _run([sys.executable, "-m", "pip", "config", "list"])
    lines = (line.partition("=") for line in output.splitlines() if "=" in line)
    settings = {name.rpartition(".")[2]: str(ast.literal_eval(value)) for name, _, value in lines}
    return {name: value for name, value in settings.items() if not value.startswith("/") or Path(value).exists()}


def _buildah(folder: Path, *arguments: str) -> str:
    """Run buildah as it also works inside a container, without namespaces of its own."""
    return _run(["buildah", *_store(folder), *arguments], BUILDAH_ISOLATION="chroot")


def _store(folder: Path) -> list[str]:
    return ["--root", str(folder / "store"), "--runroot", str(folder / "run")]


def _run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment},
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=BUILD_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command[0]}: {(done.stdout + done.stderr)[-3000:]}"
    return done.stdout.strip()
