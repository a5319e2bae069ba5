"""What compose.yaml puts together, put together by hand: a real broker, the agent, the simulated centre, Alertmanager."""

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from math import log
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.app import compose
from agent.app.simulate import last_place
from agent.log.kafka import KafkaLog
from agent.simulation.living import LivingCentre
from tests.kit import compose as compose_file
from tests.kit.agent_process import ROOT, AgentProcess, until
from tests.kit.alertmanager import Alertmanager, alertmanager
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_jars import NoKafkaError
from tests.kit.ports import free_ports
from tests.kit.tools import tool

pytestmark = [pytest.mark.kafka, pytest.mark.tools, pytest.mark.slow]

COMPOSE = compose_file.FOLDER
REQUIRED = "SCALEWATCH_REQUIRE_KAFKA"
SPEED = 3600.0  # of the past: a day in 24 seconds
SOON_S = 90.0
NEAR = 0.1  # of ln run time


class Played:
    """Everything at work, and what is known of the centre."""

    def __init__(self, agent: AgentProcess, centre: subprocess.Popen[bytes], told: Alertmanager) -> None:
        self.agent, self.centre, self.alertmanager = agent, centre, told


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """The broker of the compose file, its settings and all."""
    try:
        with compose_file.broker() as running:
            yield running
    except NoKafkaError as error:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(str(error))
        pytest.skip(f"no Kafka broker: {error}")


@pytest.fixture(scope="module")
def played(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("played")
    program = tool("prometheus-alertmanager", "alertmanager")
    with ExitStack() as opened, pytest.MonkeyPatch.context() as environment:
        told = opened.enter_context(alertmanager(program, folder, (COMPOSE / "alertmanager.yaml").read_text()))
        environment.setenv("SCALEWATCH_KAFKA", broker.bootstrap)
        environment.setenv("SCALEWATCH_ALERTMANAGER", told.url)
        config = written(folder)
        arguments = [sys.executable, "-m", "agent.cli", "simulate", "-c", str(config), "--speed", str(SPEED)]
        with (folder / "centre.log").open("wb") as said:
            centre = subprocess.Popen(arguments, cwd=ROOT, stdout=said, stderr=said)
        opened.callback(_end, centre)
        agent = opened.enter_context(AgentProcess(config))
        yield Played(agent, centre, told)


def written(folder: Path) -> Path:
    """Write the configuration of compose.yaml with ports that are free here."""
    settings = yaml.safe_load((COMPOSE / "agent.yaml").read_text())
    settings["http"] = {"host": "127.0.0.1", "port": free_ports(2).start}
    config = folder / "agent.yaml"
    config.write_text(yaml.safe_dump(settings))
    return config


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        process.wait(30)


def centre_of(agent: AgentProcess) -> LivingCentre:
    """Return the centre that tells, by what it left in its topic."""
    kafka = KafkaLog(compose.kafka_settings(agent.config))
    try:
        place = last_place(kafka, "simulated.jobs", 1, "simulated")
    finally:
        kafka.close()
    assert place is not None
    return place.centre


def errors(agent: AgentProcess) -> dict[str, list[float]]:
    """Return how far predictions are from the truth of today, in ln run time, by application."""
    centre = centre_of(agent)
    now_ms = centre.opened_ms
    found: dict[str, list[float]] = {}
    for row in agent.rows("/api/v1/applications"):
        answer = agent.get("learner", f"/api/v1/predictions?application={row['application']}&input={row['input']}")
        assert answer is not None
        for point in answer.json()["points"]:
            truth = centre.truth(row["id"], point["n"], now_ms)
            if truth is not None and point["run_time_s"]:
                found.setdefault(row["id"], []).append(log(point["run_time_s"] / truth))
    return found


def test_predictions_come_near_the_truth_that_only_the_centre_knows(played: Played) -> None:
    agent = played.agent
    until(lambda: len(agent.rows("/api/v1/applications")) >= 12 or None, SOON_S, agent.said)

    def learned() -> dict[str, Any] | None:
        rows = agent.rows("/api/v1/applications")
        return {row["id"]: row for row in rows} if min(row["observations"] for row in rows) >= 60 else None

    until(learned, SOON_S, agent.said)
    off = {name: statistics.median(map(abs, values)) for name, values in errors(agent).items()}
    assert len(off) >= 12
    assert statistics.median(off.values()) < NEAR, off


def test_alerts_reach_alertmanager(played: Played) -> None:
    def firing() -> set[str] | None:
        found = {each["labels"]["alertname"] for each in played.alertmanager.alerts()}
        return found if "Regression" in found else None

    until(firing, SOON_S, played.agent.said)


def test_the_centre_stops_when_it_is_told_to(played: Played) -> None:
    played.centre.send_signal(signal.SIGTERM)
    assert played.centre.wait(30) == 0
