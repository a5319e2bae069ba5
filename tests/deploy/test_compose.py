"""The compose file: right by its schema, of one piece with what it mounts, and little exposed."""

import os
import re
import subprocess
import sys
from typing import Any

import click
import httpx
import pytest
import yaml
from click.testing import CliRunner

from agent.cli import main
from agent.config.load import load
from tests.kit import compose
from tests.kit.agent_process import until
from tests.kit.not_run import everything_is_required
from tests.kit.ports import free_ports

SERVICES = compose.services()
AGENT = {name: service for name, service in SERVICES.items() if "build" in service}
CONFIG = "/etc/scalewatch/agent.yaml"
SECRET = re.compile(r"(?i)password|passwd|secret|token|api_?key")
PORTS = ("PAGE_PORT", "GRAFANA_PORT", "PROMETHEUS_PORT", "ALERTMANAGER_PORT", "KAFKA_PORT")
UP_S = 900.0


@pytest.fixture(autouse=True)
def _agent_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SERVICES["learner"]["environment"].items():
        monkeypatch.setenv(name, value)


def test_it_is_a_compose_file_by_the_schema() -> None:
    checked = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*checked, compose.FOLDER / "compose.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_few_rights_and_limits_and_only_this_machine_reaches_it(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"] > 0
    assert service.get("read_only", False) == (name != "kafka")  # whose start writes into the image
    assert "healthcheck" in service
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert "privileged" not in service


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in AGENT])
def test_an_image_of_others_is_pinned_to_a_version(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9.]+/[a-z0-9/]+:v?\d+\.\d+\.\d+", SERVICES[name]["image"])


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_exists_and_cannot_be_changed(name: str) -> None:
    service = SERVICES[name]
    assert [str(path) for path in compose.mounts(service).values() if not path.exists()] == []
    assert all(volume.endswith(":ro") for volume in service.get("volumes", ()) if volume.startswith("."))
    retained = {volume.split(":")[0] for volume in service.get("volumes", ()) if not volume.startswith(".")}
    assert retained <= set(yaml.safe_load(compose.text())["volumes"])


def test_there_is_no_secret_in_it() -> None:
    settings = (line.split("#")[0] for line in compose.text().splitlines())
    assert [line for line in settings if SECRET.search(line)] == []


def test_the_example_of_variables_has_all_of_them_with_their_defaults() -> None:
    lines = (compose.FOLDER / ".env.example").read_text().splitlines()
    assert dict(line.split("=", 1) for line in lines if line and not line.startswith("#")) == compose.variables()


def test_a_service_waits_for_services_that_there_are_and_can_be_waited_for() -> None:
    for service in SERVICES.values():
        for name, wait in service.get("depends_on", {}).items():
            healthy = wait["condition"] == "service_healthy"
            assert healthy == ("disable" not in SERVICES[name]["healthcheck"])


@pytest.mark.parametrize("name", AGENT)
def test_the_agent_understands_its_command_and_its_configuration(name: str) -> None:
    config = str(compose.mounts(AGENT[name])[CONFIG])
    command, *arguments = [config if word == CONFIG else word for word in AGENT[name]["command"]]
    found = main.get_command(click.Context(main), command)
    assert found is not None
    found.make_context(command, list(arguments))
    checked = CliRunner().invoke(main, ["validate", "-c", config])
    assert checked.exit_code == 0, checked.output


def test_prometheus_scrapes_the_agent_and_reports_alertmanager_where_they_are() -> None:
    port = load(str(compose.mounts(AGENT["learner"])[CONFIG])).http.port
    config = yaml.safe_load(compose.mounts(SERVICES["prometheus"])["/etc/prometheus/prometheus.yaml"].read_text())
    jobs = {job["job_name"]: job["static_configs"][0]["targets"] for job in config["scrape_configs"]}
    assert set(jobs["scalewatch"]) == {f"learner:{port}", f"collector:{port + 1}"}
    reported = config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    assert {f"http://{target}" for target in reported} == {
        SERVICES["learner"]["environment"]["SCALEWATCH_ALERTMANAGER"]
    }
    assert config["rule_files"] == ["rules/*.yaml"]
    assert "/etc/prometheus/rules" in compose.mounts(SERVICES["prometheus"])


def test_grafana_asks_services_that_there_are_and_finds_its_dashboards() -> None:
    mounted = compose.mounts(SERVICES["grafana"])
    provisioning = mounted["/etc/grafana/provisioning"]
    sources = [
        each for path in provisioning.glob("datasources/*") for each in yaml.safe_load(path.read_text())["datasources"]
    ]
    assert {httpx.URL(each["url"]).host for each in sources} <= set(SERVICES)
    (provider,) = [
        each for path in provisioning.glob("dashboards/*") for each in yaml.safe_load(path.read_text())["providers"]
    ]
    assert list(mounted[provider["options"]["path"]].glob("*.json"))


def docker() -> bool:
    """Return whether Docker answers, with its compose."""
    requested = ("docker info", "docker compose version")
    try:
        return not any(
            subprocess.run(ask.split(), capture_output=True, timeout=20, check=False).returncode for ask in requested
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


if docker() or not everything_is_required():  # no package of the machine brings a Docker that works in a container

    @pytest.mark.tools
    @pytest.mark.slow
    def test_docker_brings_all_of_it_up() -> None:
        if not docker():
            pytest.skip("Docker does not answer: compose.yaml itself was not brought up, only played by hand")
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))

        def run(*arguments: str) -> Any:
            command = ["docker", "compose", "--project-name", "scalewatch-test", *arguments]
            return subprocess.run(
                command, cwd=compose.FOLDER, env={**os.environ, **ports, "CENTRE_SPEED": "3600"},
                capture_output=True, text=True, timeout=UP_S, check=False,
            )  # fmt: skip

        try:
            up = run("up", "--build", "--wait")
            assert up.returncode == 0, up.stderr[-3000:]
            page = f"http://127.0.0.1:{ports['PAGE_PORT']}/api/v1/applications"
            until(lambda: httpx.get(page, trust_env=False).json()["rows"], 120.0, "applications")
        finally:
            run("down", "--volumes", "--remove-orphans")
