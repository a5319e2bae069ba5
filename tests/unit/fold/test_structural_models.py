"""The structural models that are shipped, from the configuration to what is reported a job and of its centre."""

from pathlib import Path
from typing import Any

import pytest

from agent.app.compose import make_shard
from agent.config.load import load
from agent.config.tree import Config
from tests.kit.host_windows import KnownWindows
from tests.kit.scenario import Scenario, moment_ms

MODELS = Path(__file__).parents[3] / "deploy" / "models"
HOSTS = ("nid1", "nid2", "nid3", "nid4")


def centre(name: str, windows: KnownWindows) -> Scenario:
    """Return a centre that has a shipped model and no runs."""
    config = load(MODELS / f"{name}.yaml", environment={})
    found = Scenario()
    found.shard = make_shard(config)
    found.shard.state.windows = windows
    return found.at("10:00")


def predicted(windows: KnownWindows, **each: tuple[float, float]) -> KnownWindows:
    """Tell the same window of each resource for all hosts, even between two ends."""
    for resource, (low, high) in each.items():
        for name in HOSTS:
            samples = [low + (high - low) * (k + 0.5) / 30 for k in range(30)]
            windows.report(name, [low, *samples, high], moment_ms("10:00"), resource)
    return windows


def loaded(found: Scenario, job: str = "1") -> dict[str, Any]:
    prediction: dict[str, Any] = found.topic("job_predictions")[f"exa/{job}"]["under_load"]
    return prediction


def test_over_relaxation_needs_no_run_to_be_distinguished_from_its_equation() -> None:
    windows = predicted(KnownWindows(), cpu_available=(0.5, 1.0), bandwidth=(6.25e6, 12.5e6), latency=(0.002, 0.002))
    found = centre("sor", windows)
    found.starts("1", "sor-2d", nodes=4, hosts=("nid[1-4]",))
    prediction = loaded(found)
    edges = prediction["histogram"]["edges_s"]
    assert edges[0] >= 100 * 2 * (1.0 + 0.01)
    assert edges[-1] == pytest.approx(100 * 2 * (2.0 + 0.018), rel=0.01)
    assert edges[0] < prediction["q05_s"] < prediction["q50_s"] < prediction["q95_s"] < edges[-1]
    median_cpu = 0.5 + 0.5 * (1 - 0.5**0.25)
    assert prediction["q50_s"] == pytest.approx(100 * 2 * (1 / median_cpu + 0.017), rel=0.04)
    assert (prediction["equation"], prediction["variation"], prediction["load"]) == ("^sor", "medium", None)
    assert abs(prediction["monte_carlo_gap"]) < 0.15


def test_over_relaxation_with_a_resource_that_nobody_measures_reports_it() -> None:
    found = centre("sor", predicted(KnownWindows(), cpu_available=(0.5, 1.0), latency=(0.002, 0.002)))
    found.starts("1", "sor-2d", nodes=4, hosts=("nid[1-4]",))
    assert "exa/1" in found.topic("job_predictions")
    assert found.topic("job_predictions")["exa/1"]["under_load"] is None, "nothing at all is known of bandwidth"
    windows = predicted(KnownWindows(), cpu_available=(0.5, 1.0), latency=(0.002, 0.002))
    windows.report("nid1", [1e7], moment_ms("10:00"), "bandwidth")
    found = centre("sor", windows)
    found.starts("1", "sor-2d", nodes=4, hosts=("nid[1-4]",))
    assert loaded(found)["reason"] == "3 of 4 hosts have no window of bandwidth."


def test_the_master_of_a_genetic_algorithm_is_the_first_host_of_its_job() -> None:
    windows = predicted(KnownWindows(), cpu_available=(1.0, 1.0))
    windows.report("nid1", [12.5e6], moment_ms("10:00"), "bandwidth")
    windows.report("nid2", [1e3], moment_ms("10:00"), "bandwidth")
    found = centre("ga", windows)
    found.starts("1", "genetic", nodes=4, hosts=("nid[1-4]",))
    assert loaded(found)["q50_s"] == pytest.approx(50 * (2 * 4 * 0.02 + 0.6 + 0.08))
    assert loaded(found)["histogram"]["edges_s"] == [42.0, 42.0]
    found.starts("2", "genetic", nodes=3, hosts=("nid[2-4]",))
    assert loaded(found, "2")["q50_s"] > 1e4


def test_a_run_time_that_was_reported_for_certain_is_scored_like_any_other() -> None:
    windows = predicted(KnownWindows(), cpu_available=(1.0, 1.0), master_bandwidth=(12.5e6, 12.5e6))
    found = centre("ga", windows)
    found.scales("genetic", 4, 4, 4)
    found.at("10:02")
    predicted(windows)
    for name in HOSTS:
        windows.report(name, [1.0], moment_ms("10:02"))
    found.starts("1", "genetic", nodes=4, hosts=("nid[1-4]",), partition="standard")
    found.at("10:02:50").ends("1")
    (scores,) = [value for key, value in found.state().items() if key == "load_scores/exa/genetic//nodes"]
    assert scores is not None
    assert b'"scored":1' in scores


def test_lu_follows_its_curve_the_slowest_host_and_the_slowest_link() -> None:
    windows = predicted(
        KnownWindows({"standard": HOSTS}), cpu_available=(0.8, 0.8), bandwidth=(1e7, 1e7), latency=(1e-4, 3e-4)
    )
    found = centre("lu", windows)
    found.scales("lu.C.64", *[1, 2, 4, 8] * 4)
    found.at("10:03")
    found.starts("1", "lu.C.64", nodes=4, hosts=("nid[1-4]",))
    plain = found.topic("job_predictions")["exa/1"]["run_time_s"]
    slowest_s = 1e-4 + 2e-4 * 0.5**0.25 + 4e-6
    prediction = loaded(found)
    assert prediction["q50_s"] == pytest.approx(0.9 * plain / 0.8 + 250 * 200 * slowest_s, rel=0.02)
    assert prediction["load"] == pytest.approx(prediction["q50_s"] / plain, rel=0.02)
    (point,) = found.asks("r1", 4, application="lu.C.64", partition="standard")["points"]
    assert point["under_load"]["q50_s"] == pytest.approx(prediction["q50_s"], rel=0.02)
    assert point["under_load"]["equation"] == "^lu[._-]"


def test_an_equation_that_does_not_fit_what_hosts_measure_gives_its_message() -> None:
    model = {"application": "^one", "equation": "60 / cpu_available", "resources": ["cpu_available"]}
    windows = predicted(KnownWindows({"standard": HOSTS}), cpu_available=(0.5, 1.0))
    found = Scenario()
    found.shard = make_shard(Config.model_validate({"under_load": {"models": [model]}}))
    found.shard.state.windows = windows
    found.at("10:00").starts("1", "one", nodes=4, hosts=("nid[1-4]",))
    assert loaded(found)["reason"] == (
        "The equation has no value: line 1, column 1: cpu_available is a host's own, and there are 4; use max_over(hosts, ...)."
    )
    found.starts("2", "one", nodes=1, hosts=("nid2",))
    assert loaded(found, "2")["q50_s"] == pytest.approx(60 / 0.75, rel=0.05)
