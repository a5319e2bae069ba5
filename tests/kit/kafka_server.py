"""What a broker's server runs in: a container where a Docker engine of this machine answers, else a child process.

Both run the same command on the same file of properties, and share the network and the folder of this machine. The container is of
Apache's image of the version that the jars have, made by testcontainers, which also removes it when this process is gone.
`SCALEWATCH_KAFKA=jars` takes the child process all the same.
"""

import gc
import os
import signal
import socket
import subprocess
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tests.kit.kafka_jars import KAFKA, class_path

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

IMAGE = f"apache/kafka:{KAFKA}"
JARS_IN_IMAGE = "/opt/kafka/libs/*"
CHOICE = "SCALEWATCH_KAFKA"
ASK_TIMEOUT_S = 10
STOP_TIMEOUT_S = 60


class Server(Protocol):
    """A process that can be ended in order or not, frozen, and started again."""

    def class_path(self) -> str: ...  # where the broker's jars are
    def once(self, command: list[str]) -> None: ...  # run another program of Java to its end
    def start(self, command: list[str]) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def remove(self) -> None: ...
    def running(self) -> bool: ...  # frozen or not
    def log(self) -> bytes: ...  # since its last start


def server(folder: Path) -> Server:
    """Return what the server of a broker with this folder runs in. Raises NoKafkaError later where that cannot be."""
    return Container(folder) if engine_serves() else ChildProcess(folder)


def engine_serves() -> bool:
    """Return whether a Docker engine answers that shares the network of this machine, and has the images or gets them."""
    if os.environ.get(CHOICE) == "jars":
        return False
    try:
        return _requested()
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()  # Docker's client leaves the connection of a download that failed to it


def _requested() -> bool:
    import docker
    from docker.errors import DockerException

    try:
        with closing(docker.from_env(timeout=ASK_TIMEOUT_S)) as client:
            if client.info()["Name"] != socket.gethostname():  # a virtual machine, or another one
                return False
            for image in _images():
                if not client.images.list(name=image):
                    client.images.pull(image)
    except (DockerException, OSError):  # nobody answers, or the registry does not
        return False
    return True


def _images() -> list[str]:
    """Return the broker's image, and the one that removes what this process leaves behind."""
    from testcontainers.core.config import testcontainers_config

    return [IMAGE] if testcontainers_config.ryuk_disabled else [IMAGE, testcontainers_config.ryuk_image]


class Container:
    """Runs in a container of the broker's image."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: DockerContainer | None = None
        self._start = 0

    def class_path(self) -> str:
        return JARS_IN_IMAGE

    def container(self, command: list[str]) -> "DockerContainer":
        """Return a container that runs a command as this user: what it writes into the folder can be removed."""
        from testcontainers.core.container import DockerContainer

        folder = str(self._folder)
        user = f"{os.getuid()}:{os.getgid()}"
        return DockerContainer(
            IMAGE,
            volumes=[(folder, folder, "rw")],
            network_mode="host",
            user=user,
            entrypoint=command,
            working_dir=folder,
        )

    def once(self, command: list[str]) -> None:
        made = self.container(command)
        try:
            wrapped = made.start().get_wrapped_container()
            if wrapped.wait()["StatusCode"]:
                raise RuntimeError(f"{command[0]} failed: {wrapped.logs()[-2000:].decode(errors='replace')}")
        finally:
            made.stop()

    def start(self, command: list[str]) -> None:
        if self._made is None:
            self._made = self.container(command)
            self._made.start()
        else:
            self._start = len(self._wrapped().logs())
            self._wrapped().start()

    def stop(self) -> None:
        self.resume()
        if self.running():
            self._wrapped().stop(timeout=STOP_TIMEOUT_S)

    def kill(self) -> None:
        if self.running():
            self._wrapped().kill()
            self._wrapped().wait()

    def pause(self) -> None:
        if self._status() == "running":
            self._wrapped().pause()

    def resume(self) -> None:
        if self._status() == "paused":
            self._wrapped().unpause()

    def remove(self) -> None:
        self.stop()
        if self._made is not None:
            self._made.stop()
            self._made = None

    def running(self) -> bool:
        return self._status() in {"running", "paused"}

    def log(self) -> bytes:
        return b"" if self._made is None else self._wrapped().logs()[self._start :]

    def _status(self) -> str:
        if self._made is None:
            return "none"
        self._wrapped().reload()
        return str(self._wrapped().status)

    def _wrapped(self) -> Any:
        assert self._made is not None
        return self._made.get_wrapped_container()


class ChildProcess:
    """Runs in a process of its own, with the jars that Maven fetched; it ends when this one does."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._start = 0

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        assert self._process is not None
        return self._process.pid

    def class_path(self) -> str:
        return class_path()

    def once(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")

    def start(self, command: list[str]) -> None:
        with self._log.open("ab") as log:
            self._start = log.tell()
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._guard = _guard(self._process.pid)

    def stop(self) -> None:
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        self._wait_end()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._wait_end()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self._wait_frozen()

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        self.stop()

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> bytes:
        return self._log.read_bytes()[self._start :] if self._log.exists() else b""

    def _signal(self, number: signal.Signals) -> None:
        if self.running() and self._process is not None:
            self._process.send_signal(number)

    def _wait_end(self) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)
        if self._guard is not None:
            self._guard.communicate(b"ended\n")
            self._guard = None

    def _wait_frozen(self) -> None:
        """Wait until every thread stands still: on a busy machine some go on after the signal, and answer."""
        if self._process is None:
            return
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self.running() and _moving(self._process.pid):
            if time.monotonic() > deadline:
                raise RuntimeError("The broker does not freeze.")
            time.sleep(0.005)


def _moving(pid: int) -> bool:
    """Return whether any thread of a process is not stopped, by what the kernel says of it: the letter after its name."""
    states = (task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat"))
    return any(state not in "TZX" for state in states)


def _guard(pid: int) -> subprocess.Popen[bytes]:
    """Start a process that kills the broker when this one dies and so closes the pipe; a line sends it home."""
    command = ["sh", "-c", f"read line || kill -9 {pid}"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
