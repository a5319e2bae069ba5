"""A real schema registry: Apicurio, which keeps schemas in memory and answers as Confluent's does. Fetched once through Maven."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from tests.kit.agent_process import until
from tests.kit.alone import alone
from tests.kit.kafka_jars import FETCH_TIMEOUT_S, NoKafkaError, cache_folder
from tests.kit.ports import free_ports

VERSION: Final = "2.6.13.Final"
ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
UNPACK: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"
API: Final = "/apis/ccompat/v7"
UP_S: Final = 180.0


def folder() -> Path:
    """Return where the program is, and fetch it first where it is not there. Raises NoKafkaError."""
    found = cache_folder() / f"apicurio-{VERSION}"
    with alone(found):
        if not found.is_dir():
            _fetch(found)
    return found


def _fetch(found: Path) -> None:
    with tempfile.TemporaryDirectory(dir=found.parent) as work:
        program = Path(work, "program")
        command = ["mvn", "--quiet", "--batch-mode", UNPACK, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={program}"]
        try:
            done = subprocess.run(
                command, cwd=work, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
            )
        except OSError:
            raise NoKafkaError("Maven is not installed.") from None
        if done.returncode:
            raise NoKafkaError(f"Maven could not fetch the registry: {done.stdout[-500:]}{done.stderr[-500:]}")
        program.rename(found)


class Apicurio:
    """A running registry; `url` is that of its answers as Confluent's."""

    def __init__(self, url: str) -> None:
        self.url = url

    def register(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """Take in a schema; return its number."""
        body = {"schema": text, "schemaType": kind}
        answer = httpx.post(f"{self.url}/subjects/{subject}/versions", json=body, timeout=20.0, trust_env=False)
        answer.raise_for_status()
        number: int = answer.json()["id"]
        return number

    def is_up(self) -> bool | None:
        try:
            return httpx.get(f"{self.url}/subjects", trust_env=False).is_success or None
        except httpx.TransportError:
            return None


@contextmanager
def apicurio(logs: Path) -> Iterator[Apicurio]:
    """Run a registry on this machine. Raises NoKafkaError where there is no Java or Maven."""
    program, port = folder(), free_ports(1)[0]
    options = ["-Xmx256m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    registry = Apicurio(f"http://127.0.0.1:{port}{API}")
    with (logs / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            ["java", *options, "-jar", f"apicurio-registry-app-{VERSION}-runner.jar"],
            cwd=program, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until(registry.is_up, UP_S, lambda: f"the registry is up: {(logs / 'registry.log').read_text()[-1000:]}")
        yield registry
    finally:
        process.terminate()
        process.wait(30)
