"""Apache Kafka's jars, fetched once through Maven into a cache folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.kit.alone import alone

KAFKA = "4.3.1"
LOG4J = "2.25.4"
Coordinate = tuple[str, str, str]
COORDINATES: list[Coordinate] = [
    ("org.apache.kafka", "kafka_2.13", KAFKA),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),  # without it the broker logs nothing to wait for
]
TOOLS = [("org.apache.kafka", "kafka-tools", KAFKA), *COORDINATES[1:]]  # what kafka-topics.sh and the like start
FETCH_TIMEOUT_S = 600
JAVA_MIN = 17


class NoKafkaError(Exception):
    """No broker can be started on this machine; the text says why."""


def cache_folder() -> Path:
    """Return where the jars are kept: KAFKA_BROKER_CACHE, else the user's cache folder."""
    chosen = os.environ.get("KAFKA_BROKER_CACHE")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else user / "scalewatch-kafka"


@cache
def class_path() -> str:
    """Return the class path of the broker, and fetch it first where it is not there. Raises NoKafkaError."""
    return _fetched(KAFKA, COORDINATES)


@cache
def tools_class_path() -> str:
    """Return the class path of Kafka's own command-line tools, as that of the broker."""
    return _fetched(f"{KAFKA}-tools", TOOLS)


def _fetched(name: str, coordinates: Sequence[Coordinate]) -> str:
    _check_java()
    folder = cache_folder() / name
    if not folder.is_dir():
        with alone(folder):  # Maven's own cache takes no two of them
            _fetch(folder, coordinates)
    return f"{folder}/*"


def _check_java() -> None:
    if shutil.which("java") is None:
        raise NoKafkaError("Java is not installed.")
    output = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    digits = output.partition('"')[2].partition(".")[0]
    if not digits.isdigit() or int(digits) < JAVA_MIN:
        raise NoKafkaError(
            f"Java {JAVA_MIN} or newer is needed; this is {output.splitlines()[0] if output else 'unknown'}."
        )


def _fetch(folder: Path, coordinates: Sequence[Coordinate]) -> None:
    if shutil.which("mvn") is None:
        raise NoKafkaError(f"Maven is not installed, and {folder} holds no jars.")
    if folder.is_dir():  # another test process was faster
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        Path(work, "pom.xml").write_text(_pom(coordinates))
        goal = ["org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies", "-DoutputDirectory=jars"]
        done = subprocess.run(
            ["mvn", "--quiet", "--batch-mode", *goal],
            cwd=work, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise NoKafkaError(f"Maven could not fetch the broker: {done.stdout[-500:]}{done.stderr[-500:]}")
        Path(work, "jars").rename(folder)


def _pom(coordinates: Sequence[Coordinate]) -> str:
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in coordinates
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>scalewatch</groupId><artifactId>test-broker</artifactId>"
        f"<version>0</version><packaging>pom</packaging><dependencies>{wanted}</dependencies></project>"
    )
