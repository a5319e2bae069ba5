"""The demo at work, and a real Prometheus that scrapes it and evaluates the chart's rules."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from agent.app.demo import Demo
from agent.clock import SystemClock
from sinks.prometheus.registry import HealthCollector, HostCollector, JobCollector, PredictionCollector
from sinks.web.server import Server, create_app
from tests.kit.prometheus import Prometheus, prometheus

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "helm" / "scalewatch" / "files" / "rules" / "scalewatch.yaml"
HOSTS_MAX = 40
SEED = 5
HOUR_S, STEP_S = 3600.0, 360.0
SPEED = 60.0  # simulated seconds per second while Prometheus looks
# of one that ran on shared hosts a while, of one that something happened to, and of one whose bands twenty runs have judged
AWAITED = (
    "scalewatch_under_load_in_range_ratio{",
    "scalewatch_power_error_ratio{",
    'firing{alertname="StrangeRun"',
    "scalewatch_prediction_horizon_coverage_ratio{",
)
CONFIG = """
global: {{scrape_interval: 2s, evaluation_interval: 1s}}
rule_files: [{folder}/rules.yaml]
scrape_configs:
  - job_name: scalewatch
    static_configs: [{{targets: ["{target}"]}}]
"""
ALWAYS = {"alert": "ScalewatchOfTheTest", "expr": "vector(1)", "labels": {"severity": "info", "system": "simulated"}}


def quick_rules() -> dict[str, Any]:
    """Return the chart's rules, evaluated each second and without patience, and one more that always fires."""
    reported: dict[str, Any] = yaml.safe_load(RULES.read_text())
    for group in reported["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule.pop("for", None)
    reported["groups"].append({"name": "test", "rules": [ALWAYS]})
    return reported


@contextmanager
def scraped_demo(program: str, folder: Path) -> Iterator[Prometheus]:
    """Let the demo come to where there is something of everything, then go on while Prometheus scrapes it."""
    demo = Demo(seed=SEED, speed=1.0, clock=SystemClock())
    metrics = demo.agent.metrics
    metrics.register(HealthCollector(demo.service))
    metrics.register(PredictionCollector(demo.service, now_ms=lambda: demo.now_ms))
    metrics.register(JobCollector(demo.service, now_ms=lambda: demo.now_ms))
    metrics.register(HostCollector(demo.service, HOSTS_MAX))
    reached_s = _prepared(demo)
    stop = threading.Event()

    def go_on() -> None:
        at_s = reached_s
        while not stop.wait(0.5):
            at_s += SPEED / 2
            demo.machine.step()
            demo.advance(at_s)

    worker = threading.Thread(target=go_on, name="demo")
    (folder / "rules.yaml").write_text(yaml.safe_dump(quick_rules()))
    try:
        with Server(create_app(demo.service, metrics, demo.truth), "127.0.0.1", 0) as server:
            worker.start()
            config = CONFIG.format(folder=folder, target=server.url.removeprefix("http://"))
            with prometheus(program, folder, config) as scraping:
                yield scraping
    finally:
        stop.set()
        worker.join()
        demo.close()


def _prepared(demo: Demo) -> float:
    """Let hours pass until all that is awaited is there; return how many seconds that were."""
    at_s = HOUR_S
    while at_s < 3 * HOUR_S:
        demo.advance(at_s)
        text = demo.agent.metrics.exposition().decode()
        if all(each in text for each in AWAITED):
            return at_s
        at_s += STEP_S
    raise AssertionError(f"Not within three hours of the demo: {[each for each in AWAITED if each not in text]}")
