"""From results of benchmarks to what plans reckon with."""

import json
from pathlib import Path

import pytest

from agent.describe.measurements import read, shipped
from tests.bench.costs import update


def result(name: str, value: float, **details: object) -> dict[str, object]:
    return {"name": name, "value": value, "unit": "", "meaning": "", "goal": None, "details": details}


def test_figures_of_a_run_are_put_into_the_file_and_the_others_stay(tmp_path: Path) -> None:
    rows = [
        result("telemetry, kafka-python", 200_000.0),
        result("windows, memory, 10 s", 600.0, samples=60),
        result("windows, memory, 1 s", 4_920.0, samples=600),
        result("a completion, 1,000 applications", 2_000.0),
        result("a completion, 10,000 applications", 2_200.0),
        result("a completion, 16 shards over 4 processes", 9_000.0),
    ]
    results, costs = tmp_path / "results.json", tmp_path / "costs.json"
    machine = {"commit": "abc", "time": "2026-11-23T20:00:00+00:00", "processor": "A processor"}
    results.write_text(json.dumps({"machine": machine, "results": rows}))
    assert update(costs, results) == ["sample_s", "window_bytes", "window_sample_bytes", "job_event_s"]
    found = read(costs).figures
    assert {name: each.value for name, each in found.items()} == pytest.approx(
        {"sample_s": 5e-6, "window_bytes": 120.0, "window_sample_bytes": 8.0, "job_event_s": 1.1e-3}
    )
    assert (found["sample_s"].commit, found["sample_s"].processor) == ("abc", "A processor")
    results.write_text(json.dumps({"machine": machine | {"commit": "def"}, "results": rows[:1]}))
    assert update(costs, results) == ["sample_s"]
    assert [read(costs).figures[name].commit for name in ("sample_s", "window_bytes")] == ["def", "abc"]


def test_the_shipped_file_is_written_by_benchmarks_alone() -> None:
    assert all(len(figure.commit) >= 7 for figure in shipped().figures.values())
