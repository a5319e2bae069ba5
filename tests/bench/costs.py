"""From results of benchmarks to the file that `scalewatch plan` reckons with: which figure is what row, in seconds and bytes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from agent.describe.measurements import Measurement, encoded, read
from tests.bench import hosts

Rows = Mapping[str, Mapping[str, Any]]
SERIES: Final = hosts.HOSTS * len(hosts.RESOURCES)
EACH: Final = f"{hosts.HOSTS:,} hosts x {len(hosts.RESOURCES)}"
KIB, MB = 1024.0, 1e6


def _value(name: str, factor: float = 1.0) -> Callable[[Rows], float]:
    return lambda rows: rows[name]["value"] * factor


def _window(rows: Rows) -> tuple[float, float]:
    """Return the bytes of a window, and of each sample that it holds, from windows with few and with many."""
    few, many = rows["windows, memory, 10 s"], rows["windows, memory, 1 s"]
    held = [each["details"]["samples"] for each in (few, many)]
    each = (many["value"] - few["value"]) / (held[1] - held[0])
    return few["value"] - each * held[0], each


def _of_applications(what: str, factor: float = 1.0) -> Callable[[Rows], float]:
    """Return the dearest of all sizes."""

    def found(rows: Rows) -> float:
        sizes = [name for name in rows if name.startswith(f"{what}, ") and name.endswith(" applications")]
        if not sizes:
            raise KeyError(what)
        return factor * max(float(rows[name]["value"]) for name in sizes)

    return found


FROM: Final[dict[str, tuple[str, Callable[[Rows], float]]]] = {
    "sample_s": ("telemetry-kafka", lambda rows: 1 / rows["telemetry, kafka-python"]["value"]),
    "collected_job_s": (
        "kafka",
        lambda rows: rows["whole path, kafka-python"]["details"]["us_per_completion"]["collector"] / 1e6,
    ),
    "window_bytes": ("windows", lambda rows: _window(rows)[0]),
    "window_sample_bytes": ("windows", lambda rows: _window(rows)[1]),
    "job_event_s": ("growth", _of_applications("a completion", 1 / 2e6)),
    "resource_minute_s": ("hosts", _value(f"learner, a minute of {EACH}", 1 / SERIES)),
    "published_resource_s": ("host-reports", _value("resource of a published host", 1e-6)),
    "process_bytes": ("footprint", _value("process without hosts", MB)),
    "learned_resource_bytes": ("footprint", _value("resource of a host, learner")),
    "saved_resource_bytes": ("footprint", _value("resource of a host, learner, peak")),
    "application_in_use_bytes": ("state", _value("state of an application, in use", KIB)),
    "application_at_rest_bytes": ("growth", _of_applications("memory of an application at rest")),
    "remembered_run_bytes": ("state", _value("a remembered run, at rest")),
    "remembered_run_in_use_bytes": ("state", _value("a remembered run, in use")),
    "host_minute_bytes": ("footprint", _value("minute of a host")),
    "host_minute_resource_bytes": ("footprint", _value("minute of a resource")),
    "journalled_job_bytes": ("footprint", _value("job in the journal")),
    "tick_bytes": ("footprint", _value("tick")),
    "run_bytes": ("footprint", _value("runs, a message")),
    "prediction_bytes": ("footprint", _value("predictions, a message")),
    "job_prediction_bytes": ("footprint", _value("job_predictions, a message")),
    "written_predictions_bytes": ("footprint", _value("predictions, a job")),
    "written_job_predictions_bytes": ("footprint", _value("job_predictions, a job")),
    "host_report_bytes": ("host-reports", _value("published host")),
    "host_report_resource_bytes": ("host-reports", _value("published resource")),
    "state_resource_bytes": ("hosts", _value(f"checkpoint of {SERIES:,} series", MB / SERIES)),
    "state_application_bytes": ("state", _value("state of an application, encoded", KIB)),
}


def update(costs: Path, results: Path) -> list[str]:
    """Put the figures of a file of results into a file of costs; return the names of those that are in it now."""
    written = json.loads(results.read_text())
    machine, rows = written["machine"], {row["name"]: row for row in written["results"]}
    figures = dict(read(costs).figures) if costs.exists() else {}
    found = []
    for name, (bench, of) in FROM.items():
        try:
            value = float(f"{of(rows):.3g}")
        except KeyError:
            continue  # that benchmark was not run, or in its quick form
        figures[name] = Measurement(value, bench, machine["commit"], machine["time"], machine["processor"])
        found.append(name)
    costs.write_bytes(encoded(figures))
    return found
