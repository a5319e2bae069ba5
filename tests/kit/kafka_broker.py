"""A real Kafka broker: one KRaft node on 127.0.0.1 that tests can stop, kill and freeze."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.kit.kafka_server import Server, server
from tests.kit.ports import free_ports

USER, PASSWORD = "scalewatch", "correct horse"
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SSL", "CONTROLLER": "PLAINTEXT"}
START_TIMEOUT_S = 180
READY = b"Kafka Server started"
CLUSTER_ID = "c2NhbGV3YXRjaC10ZXN0cw"
HEAP = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class KafkaBroker:
    """Start with `start`, or as a context manager; data and ports stay the same until the end.

    `addresses` names one address per security protocol; `ca_file` is the certificate that signs the TLS one.
    """

    def __init__(self, settings: dict[str, str] | None = None, runs_in: Callable[[Path], Server] = server) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="scalewatch-kafka-"))
        self.ca_file = self.folder / "ca.pem"
        self.server = runs_in(self.folder)
        self._settings = settings or {}
        self._ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))

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
        java = ["java", *HEAP, "-Dorg.apache.logging.log4j.level=INFO", "-cp", self.server.class_path()]
        config = self.folder / "server.properties"
        if not config.exists():
            self._prepare(java, config)
        self.server.start([*java, "kafka.Kafka", str(config)])
        self._wait_ready()

    def stop(self) -> None:
        """Shut down in order."""
        self.server.stop()

    def kill(self) -> None:
        """Crash. What the operating system took from the broker is still there at the next start."""
        self.server.kill()

    def restart(self) -> None:
        """Crash and start again on the same data and ports."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Freeze: connections stay open and nothing answers until `resume`."""
        self.server.pause()

    def resume(self) -> None:
        """Go on; what clients wrote to the sockets meanwhile is still obeyed."""
        self.server.resume()

    def remove(self) -> None:
        """Stop for good and delete the data."""
        self.server.remove()
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
        """Return whether the process lives, frozen or not."""
        return self.server.running()

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while READY not in self.server.log():
            if not self.running() or time.monotonic() > deadline:
                raise RuntimeError(f"The broker did not start:\n{self.server.log()[-3000:].decode(errors='replace')}")
            time.sleep(0.05)

    def _prepare(self, java: list[str], config: Path) -> None:
        store = self._certificate()
        config.write_text("".join(f"{name}={value}\n" for name, value in self._properties(store).items()))
        scram = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
        format_ = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config), "--add-scram", scram]
        self.server.once([*java, *format_])

    def _certificate(self) -> Path:
        store = self.folder / "broker.p12"
        where = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "broker"]
        name = ["-dname", "CN=127.0.0.1", "-ext", "SAN=IP:127.0.0.1", "-keyalg", "EC"]
        self.server.once(["keytool", "-genkeypair", *where, *name])
        self.server.once(["keytool", "-exportcert", "-rfc", "-file", str(self.ca_file), *where])
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
            # stories have fixed times: once these were a week old, the broker deleted their records before they were read
            "log.retention.ms": "-1",
        } | self._settings
