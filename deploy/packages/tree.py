"""The tree that the .deb and the .rpm install: an environment with every dependency, the unit, the user, the configuration.

The interpreter is that of the distribution, for it gets its security updates there. The environment holds compiled modules, so it is
made for the one version of Python that makes it: 3.11, which Debian 12 has and Rocky 9 offers.
"""

import compileall
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from deploy.packages import contents

ROOT: Final = Path(__file__).resolve().parents[2]
HOME: Final = "opt/scalewatch"
SCRIPT: Final = """\
#!/{home}/bin/python
import sys

from agent.cli import main

sys.exit(main())
"""
SYSUSERS: Final = 'u scalewatch - "Scalewatch" /nonexistent\n'
COPIED: Final = {
    "deploy/agent.yaml": contents.CONFIGURATION,
    "deploy/systemd/scalewatch.service": "usr/lib/systemd/system/scalewatch.service",
    "helm/scalewatch/files/rules": "usr/share/scalewatch/rules",
    "helm/scalewatch/files/dashboards": "usr/share/scalewatch/dashboards",
    "deploy/slurm": "usr/share/scalewatch/slurm",
    "deploy/samples": "usr/share/scalewatch/samples",
    "deploy/producers": "usr/share/scalewatch/producers",
    "LICENSE": "usr/share/doc/scalewatch/copyright",
}


def build(folder: Path, wheel: Path) -> None:
    """Make the tree in an empty folder; packages come from where pip is configured to find them, with the hashes of the lock."""
    home = folder / HOME
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "install", "--quiet", "--no-compile"]
    locked = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / "requirements.lock")]
    subprocess.run([*pip, *locked], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    _settle(home)
    for source, place in COPIED.items():
        _copy(ROOT / source, folder / place)
    _write(folder / "usr/lib/sysusers.d/scalewatch.conf", SYSUSERS)
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/scalewatch").symlink_to(f"/{HOME}/bin/scalewatch")


def python_version() -> str:
    """Return the version of Python that the tree is for, such as 3.11."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def site_packages(folder: Path) -> Path:
    """Return where the packages of Python lie in a tree."""
    return folder / HOME / "lib" / f"python{python_version()}" / "site-packages"


def _settle(home: Path) -> None:
    """Make an environment that was built here one of the place where it will lie, with byte code and without tests of others."""
    shutil.rmtree(home / "bin")
    (home / "bin").mkdir()
    for name in ("python", "python3"):
        (home / "bin" / name).symlink_to(f"/usr/bin/python{python_version()}")
    _write(home / "bin/scalewatch", SCRIPT.format(home=HOME), mode=0o755)
    version = f"version = {python_version()}\n"
    _write(home / "pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = false\n{version}")
    for tests in [path for path in home.rglob("tests") if path.is_dir()]:
        shutil.rmtree(tests)
    modules = home / "lib" / f"python{python_version()}" / "site-packages"
    # never checked against its source, so nothing is ever written beside it
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(modules, quiet=1, stripdir=str(modules), prependdir=f"/{HOME}", invalidation_mode=mode)


def _copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, place)
        place.chmod(0o644)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
