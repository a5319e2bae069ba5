"""What a start does not load: it costs processor time that a person waits for."""

import subprocess
import sys

import pytest

from tests.kit.image import ROOT


@pytest.mark.parametrize("command", ["demo", "run", "predict"])
def test_a_command_loads_scipy_and_the_runbooks_reader_when_they_are_needed(command: str) -> None:
    code = f"import sys, agent.cli.{command}; print(sorted({{'scipy', 'markdown_it'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
