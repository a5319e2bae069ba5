"""Real Telegraf and collectd, as deploy/producers configures them, but for addresses, folders and more haste."""

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.kit.tools import tool

HOST = socket.gethostname().partition(".")[0]
PRODUCERS = Path(__file__).resolve().parents[2] / "deploy" / "producers"
LEAVE_S = 20.0


@contextmanager
def producer(folder: Path, bootstrap: str, topic: str, what: str) -> Iterator[None]:
    """Run one in a folder of its own: `collectd`, or Telegraf with the named format."""
    folder.mkdir()
    with collectd(folder, bootstrap, topic) if what == "collectd" else telegraf(folder, bootstrap, topic, what):
        yield


@contextmanager
def telegraf(folder: Path, bootstrap: str, topic: str, data_format: str) -> Iterator[None]:
    """Run Telegraf, which measures this machine each second; RuntimeError where it ends by itself."""
    program = tool("telegraf")
    config = written(
        PRODUCERS / "telegraf.conf", folder,
        {
            '"127.0.0.1:9092"': f'"{bootstrap}"', 'topic = "telegraf"': f'topic = "{topic}"', '"json"': f'"{data_format}"',
            '\n  interval = "10s"': '\n  interval = "1s"', 'flush_interval = "10s"': 'flush_interval = "1s"',
        },
    )  # fmt: skip
    with _running([program, "--config", str(config)], folder / "telegraf.log"):
        yield


@contextmanager
def collectd(folder: Path, bootstrap: str, topic: str) -> Iterator[None]:
    """Run collectd, which measures this machine each second; RuntimeError where it ends by itself."""
    program = tool("collectd")
    config = written(
        PRODUCERS / "collectd.conf", folder,
        {
            '"127.0.0.1:9092"': f'"{bootstrap}"', '<Topic "collectd">': f'<Topic "{topic}">',
            '"/var/lib/collectd"': f'"{folder}"', "Interval 10": "Interval 1", 'Key "n001"': f'Key "{HOST}"',
        },
    )  # fmt: skip
    with _running([program, "-f", "-C", str(config), "-P", str(folder / "pid")], folder / "collectd.log"):
        yield


def written(source: Path, folder: Path, instead: Mapping[str, str]) -> Path:
    """Write a configuration as it is shipped but for some texts; each must be there once."""
    text = source.read_text()
    for old, new in instead.items():
        assert text.count(old) == 1, f"{source.name} has {old!r} {text.count(old)} times"
        text = text.replace(old, new)
    path = folder / source.name
    path.write_text(text)
    return path


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} ended: {log.read_text()[-2000:]}")
    finally:
        process.terminate()
        try:
            process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
