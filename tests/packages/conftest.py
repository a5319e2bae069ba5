"""The packages of a release, made once for all tests of this folder from the wheel of these sources."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.chroot import Chroot, unpacked
from tests.kit.image import ROOT
from tests.kit.tools import REQUIRED, tool


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, the .deb, the .rpm, the chart and the lists."""
    helm = tool("helm3")
    tool("dpkg-deb"), tool("rpmbuild")
    out = tmp_path_factory.mktemp("release")
    wheel = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out)]
    parts = [word for part in ("deb", "rpm", "chart", "bill") for word in ("--only", part)]
    for command in (wheel, [sys.executable, "-m", "deploy.packages", str(out), "--helm", helm, *parts]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return out


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chroot]:
    """A root folder of Debian 12."""
    tool("mmdebstrap")
    if os.geteuid() != 0:
        pytest.fail("needs root") if os.environ.get(REQUIRED) == "1" else pytest.skip("Only root may install.")
    with unpacked(tmp_path_factory.mktemp("root")) as folder:
        yield Chroot(folder)
