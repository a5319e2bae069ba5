"""The guide from Slurm to Grafana, as a reader follows it: its files are written, and its commands are typed in their order.

Only two things differ from a reader's machine: ports, for several tests run on this one, and systemd, whose part the test takes.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.kit.agent_process import AgentProcess, until
from tests.kit.alertmanager import Alertmanager, alertmanager
from tests.kit.docs import DOCS, Step, blocks, missing, steps
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_jars import NoKafkaError, tools_class_path
from tests.kit.ports import free_ports
from tests.kit.prometheus import Prometheus, prometheus
from tests.kit.slurm import SlurmCluster
from tests.kit.slurm_root import why_not
from tests.kit.tools import tool

pytestmark = [pytest.mark.kafka, pytest.mark.slurm, pytest.mark.tools, pytest.mark.slow]

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (DOCS / "slurm-to-grafana.md").read_text()
SUITE: Final = "forky"
INSTALLED: Final = "## 2. "  # what stands above it is tried by the tests of the packages
OF_SLURM: Final = ("sbatch", "scontrol", "squeue", "sinfo")
LOOKS: Final = ("curl", "promtool query", "amtool", "scontrol show", "kafka-topics.sh")  # may be asked again
PATIENCE_S: Final = 90.0
QUICKER: Final = {"scrape_interval: 15s": "scrape_interval: 1s"}
TOOL: Final = '#!/bin/sh\nexec java -cp "{jars}" org.apache.kafka.tools.{name} "$@"\n'
FORWARDED: Final = '#!/bin/sh\nexec {command} "$@"\n'


class Machine:
    """A reader's machine: where files of the page lie, what its commands are, and which services were started."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.folder, self._opened = folder, opened
        self.broker = opened.enter_context(KafkaBroker())
        self.alertmanager: Alertmanager = opened.enter_context(
            alertmanager(tool("prometheus-alertmanager", "alertmanager"), made(folder / "alertmanager"))
        )
        config = made(folder / "prometheus")
        self.prometheus: Prometheus = opened.enter_context(
            prometheus(tool("prometheus"), config, "global: {scrape_interval: 1s}\n")
        )
        first = free_ports(2).start
        self.ports = {
            "9092": self.broker.bootstrap.rpartition(":")[2],
            "9093": self.alertmanager.url.rpartition(":")[2],
            "9090": self.prometheus.url.rpartition(":")[2],
            "8080": str(first),
            "8081": str(first + 1),
        }
        self.texts: dict[str, str] = {}
        self.slurm: SlurmCluster | None = None
        self.agent: AgentProcess | None = None
        self._services: dict[str, Callable[[], None]] = {
            "restart slurmctld": self._restart_slurm,
            "enable --now scalewatch": self._start_agent,
            "reload prometheus": self._reload_prometheus,
        }
        self._bin = made(folder / "bin")
        for program in ("promtool", "amtool", "curl"):
            self._command(program, FORWARDED.format(command=tool(program)))
        self._command("kafka-topics.sh", TOOL.format(jars=tools_class_path(), name="TopicCommand"))
        self._command("scalewatch", FORWARDED.format(command=f"{sys.executable} -m agent.cli"))
        shutil.copytree(ROOT / "helm/scalewatch/files", folder / "usr/share/scalewatch")

    def own(self, text: str) -> str:
        """Return a text of the page as it is for this machine: other ports, and folders below that of the test."""
        text = re.sub(r"\b(?:9092|9093|9090|8080|8081)\b", lambda found: self.ports[found[0]], text)
        for page, quicker in QUICKER.items():
            text = text.replace(page, quicker)
        return re.sub(r"(?<![\w.])/(?=etc/|usr/share/)", f"{self.folder}/", text)

    def write(self, path: str, text: str) -> None:
        """Write a file of the page; those of Slurm go into its root when it starts."""
        self.texts[path] = self.own(text).replace(str(self.folder), "") if "/slurm/" in path else self.own(text)
        place = self.folder / path.removeprefix("/")
        made(place.parent)
        place.write_text(self.texts[path])

    def type(self, step: Step) -> None:
        """Type a command; where it only looks, until it shows what the page does."""
        if step.command.startswith("systemctl "):
            self._services[step.command.removeprefix("systemctl ")]()
            return
        shown = Step(step.command, tuple(self.own(line) for line in step.output))
        printed = self._run(step.command)

        def as_shown() -> bool:
            nonlocal printed
            if not missing(shown, printed):
                return True
            if not step.command.startswith(LOOKS):
                return False
            printed = self._run(step.command)
            return not missing(shown, printed)

        until(as_shown, PATIENCE_S if step.command.startswith(LOOKS) else 0.0, lambda: f"{step}\n{printed}{self.log()}")

    def log(self) -> str:
        """Return the end of the agent's log."""
        return self.agent.output()[-1500:] if self.agent else ""

    def _run(self, command: str) -> str:
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", self.own(command)], cwd=ROOT, env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or command.startswith(LOOKS), f"{command}: {done.stdout}{done.stderr}{self.log()}"
        return done.stdout + done.stderr

    def _command(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)

    def _restart_slurm(self) -> None:
        lines, kafka = self.texts["/etc/slurm/slurm.conf"], self.texts["/etc/slurm/kafka.conf"]
        self.slurm = SlurmCluster(SUITE, self.broker.bootstrap, reporting=lines, files={"etc/slurm/kafka.conf": kafka})
        self._opened.enter_context(self.slurm)
        for name in OF_SLURM:
            entered = " ".join(self.slurm.entered(name))
            self._command(name, FORWARDED.format(command=entered))

    def _start_agent(self) -> None:
        self.agent = AgentProcess(self.folder / "etc/scalewatch/agent.yaml")
        self._opened.enter_context(self.agent)

    def _reload_prometheus(self) -> None:
        (self.prometheus.config).write_text(self.texts["/etc/prometheus/prometheus.yml"])
        self.prometheus.reload()


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    if reason := why_not():
        if os.environ.get("SCALEWATCH_REQUIRE_SLURM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with ExitStack() as opened:
        try:
            yield Machine(tmp_path, opened)
        except NoKafkaError as error:
            if os.environ.get("SCALEWATCH_REQUIRE_KAFKA") == "1":
                pytest.fail(str(error))
            pytest.skip(str(error))


def test_whoever_follows_the_guide_sees_what_it_shows(machine: Machine) -> None:
    tried = 0
    for block in blocks(PAGE[PAGE.index(INSTALLED) :]):
        if block.title:
            machine.write(block.title, block.text)
        elif block.language == "console":
            for step in steps(block):
                machine.type(step)
                tried += 1
    assert tried > 12
    alerts = {each["labels"]["alertname"] for each in machine.alertmanager.alerts()}
    assert "ApplicationFailureRate" in alerts
