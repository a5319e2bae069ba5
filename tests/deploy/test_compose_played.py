"""What compose.yaml puts together, put together by hand: broker, agent, simulated centre, Alertmanager and Prometheus."""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from math import log
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from agent.app.kafka import kafka_settings
from agent.cli.simulate import last_place
from agent.log.kafka.log import KafkaLog
from agent.simulation.load import LivingCentre
from processors.contracts.names import parse_rfc3339
from tests.kit import compose as compose_file
from tests.kit.agent_process import ROOT, AgentProcess, until
from tests.kit.alertmanager import Alertmanager, alertmanager
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_jars import NoKafkaError
from tests.kit.ports import free_ports
from tests.kit.prometheus import Prometheus, prometheus
from tests.kit.tools import tool

pytestmark = [pytest.mark.kafka, pytest.mark.tools, pytest.mark.slow]

COMPOSE = compose_file.FOLDER
REQUIRED = "SCALEWATCH_REQUIRE_KAFKA"
SPEED = "3600"  # of the past: a day in 24 seconds
SOON_S = 90.0
QUIET_MS = 600_000  # between two things that happen to jobs
NEAR = 0.1  # of ln run time


class Played:
    """Everything at work, and what is known of the centre."""

    def __init__(
        self, agent: AgentProcess, centre: subprocess.Popen[bytes], reported: Alertmanager, scraping: Prometheus
    ) -> None:
        self.agent, self.centre, self.alertmanager, self.prometheus = agent, centre, reported, scraping
        self.centre_log = agent.path.with_name("centre.log")


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
        reported = opened.enter_context(alertmanager(program, folder, (COMPOSE / "alertmanager.yaml").read_text()))
        environment.setenv("SCALEWATCH_KAFKA", broker.bootstrap)
        environment.setenv("SCALEWATCH_ALERTMANAGER", reported.url)
        config = written(folder)
        subprocess.run(command("topics", config), cwd=ROOT, check=True, timeout=SOON_S)
        with (folder / "centre.log").open("wb") as output:
            centre = subprocess.Popen(command("centre", config), cwd=ROOT, stdout=output, stderr=output)
        opened.callback(_end, centre)
        agent = opened.enter_context(AgentProcess(config))
        watching = prometheus_config(agent.config.http.port, reported.url)
        scraping = opened.enter_context(prometheus(tool("prometheus"), folder, watching))
        yield Played(agent, centre, reported, scraping)


def written(folder: Path) -> Path:
    """Write the configuration of compose.yaml with ports that are free here."""
    settings = yaml.safe_load((COMPOSE / "agent.yaml").read_text())
    settings["http"] = {"host": "127.0.0.1", "port": free_ports(2).start}
    config = folder / "agent.yaml"
    config.write_text(yaml.safe_dump(settings))
    return config


def command(service: str, config: Path) -> list[str]:
    """Return the command of a service as compose.yaml has it, with a quick centre."""
    text = compose_file.services({"CENTRE_SPEED": SPEED})[service]["command"]
    return [
        sys.executable,
        "-m",
        "agent.cli",
        *(str(config) if word.endswith("agent.yaml") else word for word in text),
    ]


def prometheus_config(port: int, alertmanager_url: str) -> str:
    """Return the configuration of compose.yaml's Prometheus with the addresses of this machine and no time to wait."""
    mounted = compose_file.mounts(compose_file.services()["prometheus"])
    text = mounted["/etc/prometheus/prometheus.yaml"].read_text()
    rules, reported = mounted["/etc/prometheus/rules"], alertmanager_url.removeprefix("http://")
    here = {"learner:8080": f"127.0.0.1:{port}", "collector:8081": f"127.0.0.1:{port + 1}", "alertmanager:9093": reported,
            "rules/*.yaml": f"{rules}/*.yaml", "interval: 15s": "interval: 1s"}  # fmt: skip
    for there, replaced in here.items():
        assert there in text
        text = text.replace(there, replaced)
    return text


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        process.wait(30)


def centre_of(agent: AgentProcess) -> LivingCentre:
    """Return the centre that tells, by what it left in its topic."""
    kafka = KafkaLog(kafka_settings(agent.config))
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
    until(lambda: len(agent.rows("/api/v1/applications")) >= 12 or None, SOON_S, agent.output)

    def learned() -> dict[str, Any] | None:
        rows = agent.rows("/api/v1/applications")
        return {row["id"]: row for row in rows} if min(row["observations"] for row in rows) >= 60 else None

    until(learned, SOON_S, agent.output)
    off = {name: statistics.median(map(abs, values)) for name, values in errors(agent).items()}
    assert len(off) >= 12
    assert statistics.median(off.values()) < NEAR, off


def test_alerts_reach_alertmanager(played: Played) -> None:
    def firing() -> set[str] | None:
        found = {each["labels"]["alertname"] for each in played.alertmanager.alerts()}
        return found if "Regression" in found else None

    until(firing, SOON_S, played.agent.output)


def test_prometheus_has_the_predictions_and_no_rule_fails(played: Played) -> None:
    requested = played.prometheus

    def applications() -> set[str] | None:
        found = requested.query('scalewatch_predicted_run_time_seconds{level="0.5"}')
        names = {each["metric"]["application"] for each in found}
        return names if len(names) >= 12 else None

    until(applications, SOON_S, "predictions in Prometheus")
    until(lambda: len(requested.query('up{job="scalewatch"} == 1')) == 2 or None, SOON_S, "both roles scraped")
    until(
        lambda: all(rule["health"] == "ok" for rule in requested.rules()) or None,
        SOON_S,
        lambda: str(requested.rules()),
    )
    answer = httpx.get(f"{requested.url}/api/v1/alertmanagers", trust_env=False).json()["data"]
    assert [each["url"] for each in answer["activeAlertmanagers"]] == [f"{played.alertmanager.url}/api/v2/alerts"]


def test_the_centre_stops_when_it_is_asked_to_and_goes_on_where_it_was(played: Played) -> None:
    reported = played.centre_log
    _end(played.centre)
    assert played.centre.returncode == 0
    last = (
        reported.read_text().splitlines()[-1].removeprefix("Stopped. All events until ").removesuffix(" are written.")
    )

    def begun() -> str:
        return reported.read_text().partition(f"{last} are written.")[2].strip()

    with reported.open("ab") as output:
        again = subprocess.Popen(command("centre", played.agent.path), cwd=ROOT, stdout=output, stderr=output)
    try:
        line = until(begun, SOON_S, "the centre tells again")
    finally:
        _end(again)
    since = parse_rfc3339(line.splitlines()[0].split()[-1].removesuffix("."))
    assert 0 <= parse_rfc3339(last) - since < QUIET_MS
