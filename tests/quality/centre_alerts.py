"""Alerts of the simulated centre by what is really the matter: `python -m tests.quality.centre_alerts HOURS SEED [SEED ...]`.

The centre writes its events into files, `scalewatch alerts --replay` is asked what it would have raised, with the demo's alert settings, and
each alert is held against what the simulation knows: a slow host, one that draws too much, a rack that is held up, an application that becomes
slower and one that fails, runs with a neighbour, and what three applications are by nature. An alert without any of these is false.
"""

import heapq
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.app.demo import ALERTS, RAPL, START_MS
from agent.simulation.centre import SYSTEM, Centre
from agent.simulation.load import HOUR_MS, SharedNodes
from agent.simulation.meters import job_meters

DAY_S: Final = 86_400.0
BY_NATURE: Final = frozenset({"spectral-solver", "turbulence", "climate-coupler"})
SOURCES: Final = [
    {"topics": ["simulated.jobs", "simulated.load"], "format": "native"},
    {
        "topics": ["simulated.energy"],
        "format": "line-protocol",
        "system": SYSTEM,
        "telemetry": RAPL.model_dump(mode="json"),
    },
]


class Truth(NamedTuple):
    """What is the matter with a centre: its hosts by name, and the jobs that had a neighbour."""

    shared: SharedNodes
    disturbed: frozenset[str]

    def cause(self, alert: dict[str, Any]) -> str:
        """Return what an alert is about, "" where nothing is the matter."""
        labels, nodes = alert["labels"], self.shared
        host, application = labels.get("host"), str(labels.get("application", ""))
        disturbed = [run for run in alert["runs"] if run.partition("/")[2].partition("@")[0] in self.disturbed]
        if disturbed:
            return f"neighbour of {disturbed[0]}"
        if host == nodes.hosts[nodes.slow_host].name and alert["from_ms"] >= nodes.slow_ms:
            return "slow host"
        if host == nodes.hosts[nodes.hungry_host].name and alert["from_ms"] >= nodes.hungry_ms:
            return "hungry host"
        if labels.get("rack") == "r3" and alert["from_ms"] >= nodes.rack_ms:
            return "rack held up"
        if application in {"crash-test", "galaxy-merger"} | BY_NATURE:
            return application
        return ""


def written(folder: Path, seed: int, hours: float) -> tuple[list[Path], Truth]:
    """Write the events of a centre of so many hours; return the files, and what is the matter."""
    centre, shared = Centre(seed=seed, start_ms=START_MS), SharedNodes(seed=seed, start_ms=START_MS)
    until_ms = START_MS + round(hours * HOUR_MS)
    disturbed = set()
    paths = [folder / name for name in ("jobs.jsonl", "load.jsonl", "meters.jsonl", "energy.lp")]
    with paths[0].open("wb") as file:
        for event in heapq.merge(centre.events(), shared.events(), key=lambda one: one.time_ms):
            if event.time_ms > until_ms:
                break
            file.write(event.value + b"\n")
            if event.job is not None and event.job.slowed > 1:
                disturbed.add(event.job.job_id)
    with paths[1].open("wb") as file:
        for time_ms, value in shared.samples():
            if time_ms > until_ms:
                break
            file.write(value + b"\n")
    measured = heapq.merge(
        shared.meters().messages(shared.events()),
        job_meters(centre).messages(centre.events()),
        key=lambda one: one.time_ms,
    )
    with paths[2].open("wb") as counters, paths[3].open("wb") as energy:
        for reported in measured:
            if reported.time_ms > until_ms:
                break
            counters.write(reported.events + b"\n")
            energy.write(reported.lines + b"\n" if reported.lines else b"")
    return paths, Truth(shared, frozenset(disturbed))


def raised(folder: Path, paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Ask the command which alerts these files would have raised."""
    config = folder / "agent.json"
    alerts = ALERTS.model_dump(mode="json", include={"host_anomaly", "rack_anomaly"})
    config.write_text(json.dumps({"sources": SOURCES, "alerts": alerts}))
    command = [sys.executable, "-m", "agent.cli", "alerts", "--replay", "--json", "--quiet", "-c", str(config)]
    found = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=True, timeout=DAY_S)
    return [alert for alert in json.loads(found.stdout) if not alert["withheld_by"]]


def table(hours: float, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each seed: alerts, causes, the most alerts of one cause, and those without any by name."""
    yield f"{hours:g} h | seed | alerts | causes | at most a cause | without cause"
    for seed in seeds:
        with tempfile.TemporaryDirectory() as name:
            paths, truth = written(Path(name), seed, hours)
            found = raised(Path(name), paths)
        causes = Counter(cause for alert in found if (cause := truth.cause(alert)))
        false = Counter(alert["alertname"] for alert in found if not truth.cause(alert))
        most = max(causes.values(), default=0)
        named = ", ".join(f"{count} {alert}" for alert, count in sorted(false.items())) or "none"
        yield f"{'':4} | {seed:4} | {len(found):6} | {len(causes):6} | {most:15} | {named}"


if __name__ == "__main__":
    for line in table(float(sys.argv[1]), [int(seed) for seed in sys.argv[2:]]):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
