"""The package for Debian and Ubuntu."""

import platform
import subprocess
from pathlib import Path
from typing import Final

from deploy.packages.contents import CONFIGURATION, DESCRIPTION, INSTALLED, NAME, REMOVED, SUMMARY
from deploy.packages.tree import python_version

ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def build(tree: Path, version: str, out: Path) -> Path:
    """Make the package of a tree; what it is called says version and architecture."""
    control = tree / "DEBIAN"
    control.mkdir()
    architecture = ARCHITECTURES[platform.machine()]
    (control / "control").write_text(_control(version, architecture))
    (control / "conffiles").write_text(f"/{CONFIGURATION}\n")
    _script(control / "postinst", f'[ "$1" = configure ] || exit 0\n{INSTALLED}')
    _script(control / "prerm", f'[ "$1" = remove ] || exit 0\n{REMOVED}')
    path = out / f"{NAME}_{version}_{architecture}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zzstd", "-z9", "--build", str(tree), str(path)], check=True)
    return path


def _control(version: str, architecture: str) -> str:
    indented = DESCRIPTION.replace("\n", "\n ")
    return (
        f"Package: {NAME}\nVersion: {version}\nArchitecture: {architecture}\nSection: admin\nPriority: optional\n"
        f"Maintainer: The maintainers of Scalewatch <root@localhost>\nDepends: python{python_version()}\n"
        f"Recommends: systemd\nDescription: {SUMMARY}\n {indented}\n"
    )


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\nset -e\n{text}")
    path.chmod(0o755)
