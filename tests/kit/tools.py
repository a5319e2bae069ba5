"""Programs of others that tests run: looked for by name, and missed loudly where they are required."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

REQUIRED = "SCALEWATCH_REQUIRE_TOOLS"
LIST = Path(__file__).resolve().parents[2] / ".ci" / "tools.txt"
SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")  # not on everyone's path


def tool(*names: str) -> str:
    """Return the path of the first of these programs; without any the test is skipped, or fails if tools are required."""
    found = next((path for name in names if (path := find(name))), None)
    if found is not None:
        return found
    reason = f"{names[0]} is missing: {how_to_get(names[0])}"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def find(name: str) -> str | None:
    """Return the path of a program: one of the machine, or one that was built from source."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    return shutil.which(name, path=f"{built}{os.pathsep}{path}" if (built := _built(name)) else path)


def how_to_get(name: str) -> str:
    """Return what to do where a program is missing."""
    line = listed().get(name, "")
    if line.startswith("deb "):
        return f"apt-get install {line.split(maxsplit=2)[2]}"
    return "with Go, .ci/provide tools builds it" if line else "install it"


def listed() -> dict[str, str]:
    """Return the lines of the list by the names of their programs."""
    lines = [line for line in LIST.read_text().splitlines() if line.startswith(("deb ", "go "))]
    return {name: line for line in lines for name in line.split()[1].split("|")}


def _built(name: str) -> Path | None:
    """Return the folder where .ci/build keeps a program of this version; None where it builds none of that name."""
    line = listed().get(name, "")
    if not line.startswith("go "):
        return None
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("SCALEWATCH_TOOLS_CACHE") or Path(user, "scalewatch", "tools"))
    version = line.split()[3]
    return cache / f"{name}-{version}-{hashlib.sha256(line.encode()).hexdigest()[:12]}"
