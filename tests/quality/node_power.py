"""Power of nodes from what else they measure, asked of the product: metrics and jobs as files into a replay, runs out.

clustercockpit: one job of 32 nodes for a day, as lines of metrics a minute each, through decoder, windows, journal and fold. Beside it
runs of a minute on single nodes, some of which are in every minute: what the topic `runs` reports of one is what is scored, against the
sensor of its node, after the first hour. Three centres:

- half of the nodes have no sensor: what their runs drew is estimated, from the others;
- the sensor of each node is silent in every other half hour, in turns, so that half of them have one at any time;
- all have one, and each run is of one application: what its counters let expect of it before it is learned (`by_counters`).

kepler-rapl is a single server. Where no other host of its kind has a sensor in the same minute nothing is estimated, so it is not asked.
"""

import gzip
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from agent.app import compose
from agent.app.replay import Replay
from agent.config.tree import Config
from processors.contracts.names import rfc3339
from processors.contracts.outputs import Emission

Floats = npt.NDArray[np.float64]
Has = Callable[[int, int], bool]
"""Whether a node has a sensor in a minute, both by their numbers."""

SYSTEM: Final = "emmy"
BEGIN_MS: Final = 1_767_225_600_000
MINUTE_MS: Final = 60_000
METRICS: Final = ("clock", "cpu_load", "flops_any", "ipc", "mem_bw", "mem_used")
POWER: Final = "rapl_power"
COMPONENT: Final = "cpu"  # whose power that is
FIRST_MINUTES: Final = 60  # that are not scored
EVERY: Final = 16  # minutes between two runs on a node
TURN: Final = 30  # minutes with a sensor, and as many without
MOST_W: Final = 2000.0


class Scored(NamedTuple):
    """A mean error, the median one, and the share of values within the band, each in %; nan where there is no band."""

    mean: float
    median: float
    coverage: float = float("nan")


class Nodes(NamedTuple):
    """The nodes of a job: metrics by name (nodes, minutes), nan for none, and the watts that can be (nodes, minutes)."""

    names: tuple[str, ...]
    metrics: dict[str, Floats]
    power_w: Floats

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield node and minute of the runs of a minute in which all was measured, in the order of time."""
        good = np.isfinite(self.power_w) & np.isfinite(np.stack([*self.metrics.values()])).all(axis=0)
        for minute in range(self.power_w.shape[1]):
            for node in range(minute % EVERY, len(self.names), EVERY):
                if good[node, minute]:
                    yield node, minute


def nodes(path: Path) -> Nodes:
    """Return the nodes of an archived job."""
    with gzip.open(path, "rt") as opened:
        archived = json.load(opened)
    found = {name: _matrix(archived[name]) for name in (*METRICS, POWER) if name in archived}
    power = found.pop(POWER)
    names = tuple(each["hostname"] for each in archived[POWER]["node"]["series"])
    return Nodes(names, found, np.where((power > 0) & (power < MOST_W), power, np.nan))


def _matrix(metric: dict[str, Any]) -> Floats:
    series = [each["data"] for each in metric["node"]["series"]]
    found = np.full((len(series), max(map(len, series))), np.nan)
    for row, data in zip(found, series, strict=True):
        row[: len(data)] = [np.nan if value is None else value for value in data]
    return found


def lines(folder: Path) -> Iterator[str]:
    """Yield the rows of the sets that are there."""
    yield f"{'set':58} {'runs':>6} | mean error % median  in band % of 90  answered %"
    archived = folder / "clustercockpit" / "1608923076" / "data.json.gz"
    if archived.is_file():
        reported = nodes(archived)
        for name, answers in centres(reported):
            yield f"{name:58} {answers.runs:6} | {_row(answers)}"
    if (folder / "kepler-rapl").is_dir():
        yield "kepler, a single server: not asked, nothing is estimated where no host of its kind has a sensor at the time"


class Answers(NamedTuple):
    """How far off answers were, |ratio - 1|, whether their bands held, where they have one, and of how many runs they are."""

    off: list[float]
    inside: list[bool]
    runs: int

    @property
    def scored(self) -> Scored:
        """The errors in %."""
        inside = 100 * float(np.mean(self.inside)) if self.inside else float("nan")
        return Scored(100 * float(np.mean(self.off)), 100 * float(np.median(self.off)), inside)


def _row(answers: Answers) -> str:
    found = answers.scored
    answered = 100 * len(answers.off) / answers.runs
    return f"{found.mean:12.2f} {found.median:6.2f} {found.coverage:18.1f} {answered:11.1f}"


def centres(reported: Nodes) -> Iterator[tuple[str, Answers]]:
    """Yield how the product did in each centre."""
    yield "job, half of the nodes never with a sensor", estimates(reported, _half)
    yield "job, each sensor silent every other half hour", estimates(reported, _in_turns)
    yield "job, a node by its counters, as a run", expectations(reported)


def _half(node: int, _minute: int) -> bool:
    return node % 2 == 0


def _in_turns(node: int, minute: int) -> bool:
    return (minute // TURN + node) % 2 == 0


def estimates(reported: Nodes, has: Has) -> Answers:
    """Return the errors of what runs drew by estimate, where sensors were silent."""
    silent = [(node, minute) for node, minute in reported.runs() if not has(node, minute)]
    off, runs = [], 0
    for (node, minute), run in zip(silent, replayed(reported, has, silent, None), strict=True):
        if minute < FIRST_MINUTES:
            continue
        runs += 1
        profile = run["profile"] or {}
        if profile.get("minutes") and profile.get("estimated", {}).get(COMPONENT) == 1.0:
            off.append(abs(profile["power_w"][COMPONENT] / float(reported.power_w[node, minute]) - 1.0))
    return Answers(off, [], runs)


def expectations(reported: Nodes) -> Answers:
    """Return the errors of what counters let expect of runs before they are learned."""
    every = list(reported.runs())
    off, inside, runs = [], [], 0
    for (_, minute), run in zip(every, replayed(reported, _always, every, "solver"), strict=True):
        if minute < FIRST_MINUTES:
            continue
        runs += 1
        for found in run["by_counters"]:
            if found["target"] == f"{COMPONENT}_power_w":
                off.append(abs(found["expected"] / found["observed"] - 1.0))
                inside.append(found["low"] <= found["observed"] <= found["high"])
    return Answers(off, inside, runs)


def _always(_node: int, _minute: int) -> bool:
    return True


def replayed(
    reported: Nodes, has: Has, runs: Sequence[tuple[int, int]], application: str | None
) -> Iterator[dict[str, Any]]:
    """Yield what the topic of runs holds of each of some runs, in their order, after a replay of all."""
    published: dict[str, dict[str, Any]] = {}

    class Runs:
        def write(self, emissions: Iterable[Emission]) -> None:
            for each in emissions:
                if each.kind == "runs" and each.value is not None:
                    found = msgspec.json.decode(each.value)
                    published[found["event"]["job_id"]] = found

    with tempfile.TemporaryDirectory() as folder:
        metrics, jobs = Path(folder, "metrics.lp"), Path(folder, "jobs.jsonl")
        metrics.write_text("".join(metric_lines(reported, has)))
        jobs.write_bytes(b"\n".join(job_events(reported, runs, application)) + b"\n")
        config = Config()
        replay = Replay(config, Runs())
        replay.run([str(metrics), str(jobs)], compose.file_options(config, "UTC"))
        replay.agent.close()
    for number in range(len(runs)):
        yield published[str(number)]


def metric_lines(reported: Nodes, has: Has) -> Iterator[str]:
    """Yield what the nodes measured as lines of ClusterCockpit, in the middle of each minute, power where a sensor is."""
    for minute in range(reported.power_w.shape[1]):
        time_s = (BEGIN_MS + minute * MINUTE_MS) // 1000 + 30
        for node, name in enumerate(reported.names):
            measured = {metric: float(values[node, minute]) for metric, values in reported.metrics.items()}
            if has(node, minute):
                measured[POWER] = float(reported.power_w[node, minute])
            for metric, value in measured.items():
                if np.isfinite(value):
                    yield f"{metric},cluster={SYSTEM},hostname={name},type=node,type-id=0 value={value!r} {time_s}\n"


def job_events(reported: Nodes, runs: Iterable[tuple[int, int]], application: str | None) -> Iterator[bytes]:
    """Yield start and end of runs of a minute on one node each."""
    events = []
    for number, (node, minute) in enumerate(runs):
        start_ms = BEGIN_MS + minute * MINUTE_MS
        job = {"system": SYSTEM, "job_id": str(number), "n": 1, "unit": "nodes", "hosts": [reported.names[node]]}
        job |= {"start": rfc3339(start_ms)} | ({} if application is None else {"application": application})
        ended = {"end": rfc3339(start_ms + MINUTE_MS), "run_time_s": MINUTE_MS / 1000, "state": "COMPLETED"}
        events.append((start_ms, 1, {"type": "job.started", **job}))
        events.append((start_ms + MINUTE_MS, 0, {"type": "job.completed", **job, **ended}))
    events.sort(key=lambda each: each[:2])
    return (msgspec.json.encode(event) for _, _, event in events)
