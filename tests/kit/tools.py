"""Programs of others that tests run: looked for by name, and missed loudly where they are required."""

import os
import shutil

import pytest

REQUIRED = "SCALEWATCH_REQUIRE_TOOLS"


def tool(*names: str) -> str:
    """Return the path of the first of these programs; without any the test is skipped, or fails if tools are required."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is not None:
        return found
    reason = f"{names[0]} is not installed"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(reason)
    pytest.skip(f"{reason} (set {REQUIRED}=1 to make this a failure)")
