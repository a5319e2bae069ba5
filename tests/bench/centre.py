"""A centre on a real Kafka: a broker, `scalewatch run` with both roles as processes, and a producer process."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.app.kafka import kafka_settings
from agent.log.kafka.client import ClientName
from agent.log.kafka.log import KafkaLog
from processors.contracts.log import TopicSettings
from tests.kit.agent_process import ROOT, AgentProcess, write_config
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_server import ChildProcess

TOPIC: Final = "jobs"
QUESTIONS: Final = "questions"
SETTLE_S: Final = 10.0  # not 180 as by default: so the settling of runs is inside the measured time
RHYTHM_S: Final = 10.0  # of checkpoints, as by default; ticks come as by default


@dataclass(frozen=True)
class Centre:
    """What runs: the agent's process and the broker."""

    agent: AgentProcess
    kafka: KafkaBroker

    def pids(self) -> dict[str, int]:
        """Return the processes by what they are."""
        server = self.kafka.server
        assert isinstance(server, ChildProcess), "its processor time is that of a process of this machine"
        return {**self.agent.role_pids(), "broker": server.pid}

    def processed(self) -> float:
        """Return how many journal records the learner has folded."""
        return self.agent.metric("learner", "scalewatch_events_total", format="journal", outcome="processed")

    def mean_s(self, role: str, name: str) -> float:
        """Return the mean of a role's histogram."""
        return self.agent.metric(role, f"{name}_sum") / max(self.agent.metric(role, f"{name}_count"), 1.0)

    def times(self) -> dict[str, float]:
        """Return the mean times that the roles measure of themselves, in seconds."""
        return {
            "checkpoint": self.mean_s("learner", "scalewatch_checkpoint_duration_seconds"),
            "fit": self.mean_s("learner", "scalewatch_fit_duration_seconds"),
            "learner_batch": self.mean_s("learner", "scalewatch_batch_duration_seconds"),
            "collector_batch": self.mean_s("collector", "scalewatch_batch_duration_seconds"),
        }


@contextmanager
def centre(rhythm_s: float = RHYTHM_S, client: ClientName = "kafka-python") -> Iterator[Centre]:
    """Start everything, and end it afterwards.

    `rhythm_s` is the time between checkpoints.
    """
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaBroker())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sources = [{"topics": [TOPIC], "format": "native"}, {"topics": [QUESTIONS], "format": "native"}]
        path = write_config(
            folder,
            kafka.bootstrap,
            "bench",
            sources,
            client,
            jobs={"settle_max_s": SETTLE_S},
            learner={"checkpoint_interval_s": rhythm_s},
        )
        agent = AgentProcess(path)
        _create(agent)
        stack.enter_context(agent)
        agent.wait_ready()
        yield Centre(agent, kafka)


def _create(agent: AgentProcess) -> None:
    log = KafkaLog(kafka_settings(agent.config))
    log.create([TopicSettings(topic, 1, compacted=False) for topic in (TOPIC, QUESTIONS)])
    log.close()


@contextmanager
def producing(
    kafka: KafkaBroker, rate_per_s: float, seconds: float, applications: int
) -> Iterator["subprocess.Popen[str]"]:
    """Start a producer and wait until it sends its first message."""
    arguments = [kafka.bootstrap, TOPIC, str(rate_per_s), str(seconds), str(applications)]
    command = [sys.executable, "-m", "tests.bench.producer", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first_ms = int(process.stdout.readline())
        time.sleep(max(0.0, first_ms / 1000 - time.time()))
        try:
            yield process
        finally:
            process.terminate()


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
