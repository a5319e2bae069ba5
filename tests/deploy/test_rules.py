"""Prometheus' rules: right by its own tool, each alert seen to fire, about metrics that there are, with a runbook heading."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sinks.prometheus.table import METRICS
from tests.kit.tools import tool

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "helm" / "scalewatch" / "files" / "rules" / "scalewatch.yaml"
TESTS = ROOT / "tests" / "deploy" / "rules.test.yaml"
OWN_STATE = (ROOT / "deploy" / "RUNBOOK.md").read_text().split("# The agent's own state")[1]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


ALERTS = [rule for rule in rules() if "alert" in rule]


@pytest.mark.tools
@pytest.mark.parametrize("arguments", [("check", "rules", RULES), ("test", "rules", TESTS)], ids=["form", "behaviour"])
def test_promtool_finds_nothing_wrong(arguments: tuple[Any, ...]) -> None:
    done = subprocess.run([tool("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.tools
def test_promtool_finds_nothing_wrong_with_any_metric_that_is_declared() -> None:
    """Label `quantile` and `_minutes` in names made 437 lines of complaint about the demo."""
    made = CollectorRegistry()
    for entry in METRICS:
        kind = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}[entry.kind]
        metric = kind(entry.name, entry.help, entry.label_names, registry=made)
        if entry.labels:
            metric.labels(*(label.values[0] if label.values else "x" for label in entry.labels))
    done = subprocess.run(
        [tool("promtool"), "check", "metrics"], input=generate_latest(made), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_is_seen_to_fire_and_has_a_heading(alert: dict[str, Any]) -> None:
    assert re.search(rf"\b{alert['alert']}\b", TESTS.read_text())
    assert f"\n## {alert['annotations']['runbook']}\n" in OWN_STATE
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}


def test_rules_are_about_metrics_that_there_are() -> None:
    names = {entry.name for entry in METRICS}
    reported = {name for rule in rules() for name in re.findall(r"\bscalewatch_\w+", str(rule["expr"]))}
    assert reported
    assert {name for name in reported - names if name.removesuffix("_bucket") not in names} == set()
