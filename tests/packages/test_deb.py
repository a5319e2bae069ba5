"""The .deb in a Debian 12: installed, used as its user, upgraded over a changed configuration, removed."""

import subprocess
from pathlib import Path

import pytest

from processors import __version__
from tests.kit.chroot import Chroot

pytestmark = [pytest.mark.tools, pytest.mark.slow, pytest.mark.thorough]
CONFIGURATION = "/etc/scalewatch/agent.yaml"


@pytest.fixture(scope="module")
def installed(debian: Chroot, release: Path) -> Chroot:
    (package,) = release.glob("*.deb")
    (debian.folder / "scalewatch.deb").write_bytes(package.read_bytes())
    debian.run("dpkg", "--install", "/scalewatch.deb")
    return debian


def test_the_command_works_for_the_user_of_the_package(installed: Chroot) -> None:
    assert __version__ in installed.as_agent("scalewatch", "--version")
    assert "KafkaSettings" not in installed.as_agent("scalewatch", "validate", "-c", CONFIGURATION)
    assert "scalewatch_events_total" in installed.as_agent("scalewatch", "describe", "metrics")


def test_it_brings_the_unit_the_rules_the_dashboards_and_the_plugins_of_slurm(installed: Chroot) -> None:
    listed = installed.run("dpkg", "--listfiles", "scalewatch").splitlines()
    assert {
        "/usr/lib/systemd/system/scalewatch.service",
        "/usr/lib/sysusers.d/scalewatch.conf",
        "/usr/share/scalewatch/rules/scalewatch.yaml",
        "/usr/share/scalewatch/dashboards/centre.json",
        "/usr/share/scalewatch/slurm/scalewatch.lua",
        f"/usr/share/doc/scalewatch/scalewatch-{__version__}.cdx.json",
        CONFIGURATION,
    } <= {*listed}


def test_nothing_of_it_belongs_to_anybody_but_root(installed: Chroot) -> None:
    found = installed.run(
        "find", "/opt/scalewatch", "/etc/scalewatch", "!", "-user", "root", "-o", "-perm", "-o+w", "!", "-type", "l"
    )
    assert found == ""


def test_what_depends_on_the_environment_is_the_python_of_the_distribution(release: Path) -> None:
    (package,) = release.glob("*.deb")
    depends = subprocess.run(
        ["dpkg-deb", "--field", str(package), "Depends"], capture_output=True, text=True, check=True
    )
    assert depends.stdout.strip() == "python3.11"


def test_an_upgrade_keeps_the_configuration_and_a_removal_leaves_it(installed: Chroot) -> None:
    path = installed.folder / CONFIGURATION.removeprefix("/")
    path.write_text(f"# ours\n{path.read_text()}")
    installed.run("dpkg", "--install", "/scalewatch.deb")
    assert path.read_text().startswith("# ours")
    installed.run("dpkg", "--remove", "scalewatch")
    assert path.read_text().startswith("# ours")
    assert not (installed.folder / "opt/scalewatch/bin/scalewatch").exists()
    installed.run("dpkg", "--purge", "scalewatch")
    assert not path.exists()
