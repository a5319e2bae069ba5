"""The agent as users run it: `scalewatch run` as real processes, from a configuration on disk.

    config = write_config(folder, kafka.bootstrap, fresh("run"), ["raw"])
    with AgentProcess(config) as agent:                      # both roles below their parent
        agent.wait_ready("learner")
        agent.get("learner", "/api/v1/applications")
        agent.kill_role("learner")                           # kill -9; the parent starts it again

Only processes that were started here are ever signalled, by their own ids. The agent's log is one JSON object a line.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from agent.cli.run import PARENT
from agent.config.load import load
from agent.config.tree import Config
from agent.log.kafka.client import ClientName
from tests.kit.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("learner", "collector")
READY_S = 180.0
SHIFT = """import time
real_s, real_ns = time.time, time.time_ns
time.time = lambda: real_s() + {shifted_s}
time.time_ns = lambda: real_ns() + int({shifted_s} * 1e9)
"""
LEAVE_S = 90.0  # the parent gives its roles 30
LOOK_S = 0.05
Result = TypeVar("Result")


def write_config(
    folder: Path,
    bootstrap: str,
    prefix: str,
    sources: Sequence[Mapping[str, Any]],
    client: ClientName = "kafka-python",
    /,
    **parts: Mapping[str, Any],
) -> Path:
    """Write an agent.yaml with names of its own and a free port; `parts` add to its sections."""
    settings: dict[str, Any] = {
        "kafka": {
            "bootstrap": bootstrap,
            **({} if client == "auto" else {"client": client}),
        },  # older versions know none
        "topics": {"prefix": prefix},
        "sources": [dict(source) for source in sources],
        "collector": {"tick_s": 1.0},
        "learner": {"checkpoint_interval_s": 1.0},
        "http": {"port": free_ports(2).start},  # of the learner; the collector has the next one
        "log": {"format": "json"},
    }
    for name, part in parts.items():
        settings[name] = {**settings.get(name, {}), **part}
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def until(look: Callable[[], Result | None], timeout_s: float, what: str | Callable[[], str]) -> Result:
    """Return the first result that is not empty; fail with what was waited for when it is too late."""
    deadline = time.monotonic() + timeout_s
    while not (result := look()):
        if time.monotonic() > deadline:
            reported = what if isinstance(what, str) else what()
            raise AssertionError(f"Not within {timeout_s:g} s: {reported}")
        time.sleep(LOOK_S)
    return result


class AgentProcess:
    """`scalewatch run` with one configuration: both roles, or one role alone.

    Every start adds to the same log, so that the lines of all lives stand in it, in order. `code` is the folder of the agent's
    packages; that of another version reads the same configuration. `folder` is the working directory, `entry` the module that is run.
    The host's clock is `shifted_s` ahead of that of the machine, as far as Python asks for the time.
    """

    def __init__(
        self,
        config: Path,
        role: str | None = None,
        *,
        watch: bool = False,
        code: Path = ROOT,
        folder: Path = ROOT,
        shifted_s: float = 0.0,
        entry: str = "agent.cli",
    ) -> None:
        self.config: Config = load(str(config))
        self.path, self.role, self._folder, self._entry = config, role, folder, entry
        self.log = config.with_name(f"{role or 'agent'}.log")
        self.starts = 0
        self._paths = str(code)
        if shifted_s:
            shift = config.parent / "shift"
            shift.mkdir(exist_ok=True)
            (shift / "sitecustomize.py").write_text(SHIFT.format(shifted_s=shifted_s))
            self._paths = f"{shift}:{code}"
        self._watch = ["--watch"] if watch else []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process; return at once."""
        assert not self.running(), "It runs already."
        role = ["--role", self.role] if self.role else []
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._entry, "run", "-c", str(self.path), *role, *self._watch],
                cwd=self._folder, env={**os.environ, PARENT: str(os.getpid()), "PYTHONPATH": self._paths}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.starts += 1
        return self

    @property
    def pid(self) -> int:
        """The process that was started last."""
        assert self._process is not None, "It was never started."
        return self._process.pid

    def running(self) -> bool:
        """Return whether the process lives, stopped or not."""
        return self._process is not None and self._process.poll() is None

    def ended(self) -> int | None:
        """Return the exit code of a process that has ended; -9 for a kill."""
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """End the process at once, as by a crash; a parent's roles are reported it by nobody."""
        self.send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def stop(self, timeout_s: float = LEAVE_S) -> int:
        """Ask it to leave in order and return its exit code."""
        assert self._process is not None
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        return self._process.wait(timeout_s)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it lives."""
        if self.running() and self._process is not None:
            self._process.send_signal(number)

    def role_pids(self) -> dict[str, int]:
        """Return the processes below the parent by their role."""
        found = {}
        for pid in _children(self.pid):
            arguments = _arguments(pid)
            if "--role" in arguments:
                found[arguments[arguments.index("--role") + 1]] = pid
        return found

    def signal_role(self, role: str, number: signal.Signals) -> int:
        """Send a signal to a role below the parent; return its process id."""
        pid = self.role_pids()[role]
        os.kill(pid, number)
        return pid

    def url(self, role: str, path: str = "") -> str:
        """Return an address of a role: the learner has the configured port, the collector the one after it."""
        return f"http://127.0.0.1:{self.config.http.port + ROLES.index(role)}{path}"

    def get(self, role: str, path: str) -> httpx.Response | None:
        """Ask a role; None while nothing answers."""
        try:
            return httpx.get(self.url(role, path), timeout=10.0)
        except httpx.TransportError:
            return None

    def rows(self, path: str) -> list[Any]:
        """Return the rows of a list that the learner serves; none while nothing answers."""
        answer = self.get("learner", path)
        rows: list[Any] = answer.json()["rows"] if answer is not None and answer.status_code == 200 else []
        return rows

    def ready(self, role: str) -> dict[str, Any] | None:
        """Return the state of a role that is ready, else None."""
        answer = self.get(role, "/readyz")
        return answer.json() if answer is not None and answer.status_code == 200 else None

    def wait_ready(self, *roles: str, timeout_s: float = READY_S) -> None:
        """Wait until these roles are ready."""
        for role in roles or (ROLES if self.role is None else (self.role,)):
            until(lambda role=role: self.ready(role), timeout_s, lambda role=role: f"{role} ready\n{self.output()}")  # type: ignore[misc] # bound to each role

    def metric(self, process: str, name: str, **labels: str) -> float:
        """Return a sample of a role's metrics; 0 where there is none."""
        answer = self.get(process, "/metrics")
        families = text_string_to_metric_families(answer.text) if answer is not None else ()
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of the log that report an event, oldest first."""
        return [line for line in map(_line, self.log.read_text().splitlines()) if line.get("event") == event]

    def output(self) -> str:
        """Return the end of the log, for the message of a test that fails."""
        return self.log.read_text()[-6000:] if self.log.exists() else "(it said nothing)"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        """End everything that was started, in order where that works."""
        if not self.running():
            return
        roles = self.role_pids().values() if self.role is None else ()
        for pid in roles:
            _signal(pid, signal.SIGCONT)
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            for pid in roles:
                _signal(pid, signal.SIGKILL)
            self.kill()


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    try:
        files = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it ends while we look
        return []
    return [int(child) for text in files for child in text.split()]


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _line(text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return line if isinstance(line, dict) else {}
