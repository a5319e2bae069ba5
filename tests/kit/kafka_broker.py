"""A real Kafka broker as a child process: one KRaft node on 127.0.0.1 that tests can stop, kill and freeze."""

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.kit.kafka_jars import class_path
from tests.kit.ports import free_ports

USER, PASSWORD = "scalewatch", "correct horse"
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SSL", "CONTROLLER": "PLAINTEXT"}
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60
READY = b"Kafka Server started"
CLUSTER_ID = "c2NhbGV3YXRjaC10ZXN0cw"
HEAP = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class KafkaBroker:
    """Start with `start`, or as a context manager; data and ports stay the same until the end.

    `addresses` names one address per security protocol; `ca_file` is the certificate that signs the TLS one.
    """

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="scalewatch-kafka-"))
        self.log = self.folder / "server.log"
        self.ca_file = self.folder / "ca.pem"
        self._settings = settings or {}
        self._ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def addresses(self) -> dict[str, str]:
        """Return host and port by security protocol."""
        return {name: f"127.0.0.1:{port}" for name, port in self._ports.items() if name != "CONTROLLER"}

    @property
    def bootstrap(self) -> str:
        """Return the address that wants no login."""
        return self.addresses["PLAINTEXT"]

    def start(self) -> None:
        """Start, or start again after `stop` or `kill`, and wait until requests are served."""
        java = ["java", *HEAP, "-Dorg.apache.logging.log4j.level=INFO", "-cp", class_path()]
        config = self.folder / "server.properties"
        if not config.exists():
            self._prepare(java, config)
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [*java, "kafka.Kafka", str(config)], stdout=log, stderr=log, start_new_session=True
            )
        self._guard = _guard(self._process.pid)
        self._wait_ready()

    def stop(self) -> None:
        """Shut down in order."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        self._wait_end()

    def kill(self) -> None:
        """Crash. What the operating system took from the broker is still there at the next start."""
        self._signal(signal.SIGKILL)
        self._wait_end()

    def restart(self) -> None:
        """Crash and start again on the same data and ports."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Freeze: connections stay open and nothing answers until `resume`."""
        self._signal(signal.SIGSTOP)
        self._wait_frozen()

    def resume(self) -> None:
        """Go on; what clients wrote to the sockets meanwhile is still obeyed."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """Stop for good and delete the data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def running(self) -> bool:
        """Tell whether the process lives, frozen or not."""
        return self._process is not None and self._process.poll() is None

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

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while READY not in self._said():
            if not self.running() or time.monotonic() > deadline:
                raise RuntimeError(f"The broker did not start:\n{self._said()[-3000:].decode(errors='replace')}")
            time.sleep(0.05)

    def _said(self) -> bytes:
        return self.log.read_bytes()[self._log_start :]

    def _prepare(self, java: list[str], config: Path) -> None:
        store = self._certificate()
        config.write_text("".join(f"{name}={value}\n" for name, value in self._properties(store).items()))
        scram = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
        format_ = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config), "--add-scram", scram]
        _run([*java, *format_])

    def _certificate(self) -> Path:
        store = self.folder / "broker.p12"
        where = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "broker"]
        name = ["-dname", "CN=127.0.0.1", "-ext", "SAN=IP:127.0.0.1", "-keyalg", "EC"]
        _run(["keytool", "-genkeypair", *where, *name])
        _run(["keytool", "-exportcert", "-rfc", "-file", str(self.ca_file), *where])
        return store

    def _properties(self, store: Path) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._ports['CONTROLLER']}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": LOGIN_MODULE,
            "listener.name.ssl.ssl.keystore.location": str(store),
            "listener.name.ssl.ssl.keystore.password": PASSWORD,
            "listener.name.ssl.ssl.keystore.type": "PKCS12",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "500",
            "broker.session.timeout.ms": "2000",  # a killed broker waits this long before it may come back
            "broker.heartbeat.interval.ms": "500",
            "log.cleaner.dedupe.buffer.size": str(8 << 20),
        } | self._settings


def _moving(pid: int) -> bool:
    """Tell whether any thread of a process is not stopped, by what the kernel says of it: the letter after its name."""
    states = (task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat"))
    return any(state not in "TZX" for state in states)


def _guard(pid: int) -> subprocess.Popen[bytes]:
    """Start a process that kills the broker when this one dies and so closes the pipe; a line sends it home."""
    command = ["sh", "-c", f"read line || kill -9 {pid}"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")
