"""The .rpm: installed below a root folder with its scriptlets, used, upgraded and erased; and whether Rocky 9 could load it."""

import re
import subprocess
from pathlib import Path

import pytest

from processors import __version__
from tests.kit.chroot import Chroot
from tests.kit.tools import tool

pytestmark = [pytest.mark.tools, pytest.mark.slow, pytest.mark.thorough]
GLIBC_OF_ROCKY_9 = (2, 34)
CONFIGURATION = "etc/scalewatch/agent.yaml"


def rpm(*arguments: str) -> str:
    return subprocess.run([tool("rpm"), *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def package(release: Path) -> str:
    (found,) = release.glob("*.rpm")
    return str(found)


@pytest.fixture(scope="module")
def installed(debian: Chroot, package: str) -> Chroot:
    # the root has the Python of Debian, of which rpm does not know
    rpm("--root", str(debian.folder), "--install", "--nodeps", package)
    return debian


def test_it_asks_for_the_python_that_rocky_offers_and_for_nothing_that_only_debian_has(package: str) -> None:
    required = {line for line in rpm("-qp", "--requires", package).splitlines() if not line.startswith("rpmlib(")}
    assert required == {"python3.11", "/bin/sh"}


def test_the_command_works_for_the_user_of_the_package(installed: Chroot) -> None:
    assert __version__ in installed.as_agent("scalewatch", "--version")
    installed.as_agent("scalewatch", "validate", "-c", f"/{CONFIGURATION}")


def test_the_configuration_is_one_that_an_upgrade_keeps(installed: Chroot, package: str) -> None:
    assert rpm("-qp", "--configfiles", package).split() == [f"/{CONFIGURATION}"]
    path = installed.folder / CONFIGURATION
    path.write_text(f"# ours\n{path.read_text()}")
    rpm("--root", str(installed.folder), "--upgrade", "--nodeps", "--replacepkgs", package)
    assert path.read_text().startswith("# ours")


def test_its_modules_need_no_newer_c_library_than_rocky_9_has(installed: Chroot) -> None:
    modules = list((installed.folder / "opt/scalewatch").rglob("*.so*"))
    needed = {
        (int(major), int(minor))
        for module in modules
        for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", module.read_bytes())
    }
    assert len(modules) > 50
    assert max(needed) <= GLIBC_OF_ROCKY_9


def test_it_goes_without_a_trace_but_a_changed_configuration(installed: Chroot) -> None:
    rpm("--root", str(installed.folder), "--erase", "scalewatch")
    assert not (installed.folder / "opt/scalewatch/bin").exists()
    assert not (installed.folder / "usr/bin/scalewatch").is_symlink()
