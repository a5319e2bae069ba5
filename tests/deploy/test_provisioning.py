"""What Prometheus and Grafana of the compose file are given: taken by promtool, and all of one piece."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config.roles import HttpSettings
from tests.kit.tools import tool

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "helm" / "scalewatch" / "files" / "rules"
PROMETHEUS = ROOT / "deploy" / "prometheus" / "prometheus.yaml"
PORT = HttpSettings().port
PROVISIONING = ROOT / "deploy" / "grafana" / "provisioning"


def provisioned(kind: str) -> Any:
    return yaml.safe_load((PROVISIONING / kind / "scalewatch.yaml").read_text())


@pytest.mark.tools
def test_promtool_takes_the_configuration_with_the_rules_beside_it(tmp_path: Path) -> None:
    shutil.copy(PROMETHEUS, tmp_path)
    shutil.copytree(RULES, tmp_path / "rules")
    checked = subprocess.run(
        [tool("promtool"), "check", "config", tmp_path / PROMETHEUS.name], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "rules found" in checked.stdout


def test_the_agents_job_has_a_name_that_the_rules_know() -> None:
    jobs = {each["job_name"] for each in yaml.safe_load(PROMETHEUS.read_text())["scrape_configs"]}
    assert any("scalewatch" in job for job in jobs)


def test_each_role_is_scraped_where_it_serves() -> None:
    (job,) = [
        each for each in yaml.safe_load(PROMETHEUS.read_text())["scrape_configs"] if each["job_name"] == "scalewatch"
    ]
    targets = [target for group in job["static_configs"] for target in group["targets"]]
    assert set(targets) == {f"learner:{PORT}", f"collector:{PORT + 1}"}


def test_grafana_asks_the_prometheus_and_the_alertmanager_that_prometheus_reports() -> None:
    sources = {each["type"]: each for each in provisioned("datasources")["datasources"]}
    reported = yaml.safe_load(PROMETHEUS.read_text())["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    assert sources["alertmanager"]["url"] == f"http://{reported[0]}"
    assert sources["prometheus"]["jsonData"]["alertmanagerUid"] == sources["alertmanager"]["uid"]
    interval = yaml.safe_load(PROMETHEUS.read_text())["global"]["scrape_interval"]
    assert sources["prometheus"]["jsonData"]["timeInterval"] == interval


def test_grafana_looks_for_dashboards_in_one_folder() -> None:
    (provider,) = provisioned("dashboards")["providers"]
    assert provider["options"]["path"].startswith("/var/lib/grafana/")
    assert not provider["allowUiUpdates"], "what is changed there would be lost with the next file"
