"""`scalewatch run` as a process, without a broker."""

import os
import signal
from pathlib import Path

import pytest

from tests.kit.agent_process import ROLES, AgentProcess, until, write_config

SOON_S = 60.0
NAMES = ("http.py", "numpy.py", "msgspec.py", "agent/__init__.py", "processors/__init__.py", "sitecustomize.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds a file for each of some modules which the agent imports; each file leaves a mark."""
    mark = f"open({str(tmp_path / 'executed')!r}, 'a').write(__file__)\n"
    for name in NAMES:
        path = tmp_path / "start" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(mark)
    return tmp_path / "start"


def test_no_file_of_the_working_directory_is_executed_at_a_start_or_a_restart(folder: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, "127.0.0.1:1", "none", [{"topics": ["jobs"]}])
    with AgentProcess(config, folder=folder) as both:
        until(lambda: len(both.lines("role starts")) == len(ROLES), SOON_S, both.output)
        both.signal_role("collector", signal.SIGKILL)
        until(lambda: len(both.lines("role starts")) > len(ROLES), SOON_S, both.output)
        roles = both.role_pids()
        both.kill()  # a role that waits for its broker takes ten seconds to leave in order
        for pid in roles.values():
            os.kill(pid, signal.SIGKILL)
    assert not (tmp_path / "executed").exists()
