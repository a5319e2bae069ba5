"""The demo from the command line: it begins with a word, and Ctrl-C ends it at any time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STOP_S = 2.0
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """Return what a process has taken of the processor, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


@pytest.mark.slow  # a process of its own, with all that it imports
@pytest.mark.parametrize("speed", [(), ("--speed", "100000"), ("--speed", "2")], ids=["the past", "too fast", "slow"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_within_two_seconds_also_while_the_past_is_caught_up(
    speed: tuple[str, ...], number: signal.Signals
) -> None:
    command = [sys.executable, "-u", "-m", "agent.cli", "demo", "--port", "0", *speed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(
            "The simulated centre starts; its web pages are at http://127.0.0.1:"
        )
        assert "simulated centre, 20" in process.stdout.readline()
        before_s = processor_s(process.pid)
        process.send_signal(number)
        rest = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest
    # of its own time, for this machine may be busy with other tests
    assert used.ru_utime + used.ru_stime - before_s < STOP_S
