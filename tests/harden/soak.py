"""A soak: 1,000 hosts with ten figures every ten seconds and one job a second, for minutes, on a real broker.

Memory has to stay flat once everything is there, processors near what is known of them, and nothing may be refused or lost.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.bench.centre import cpu_s
from tests.bench.result import Row
from tests.harden.count import Run, settled_run
from tests.harden.load import FIELDS, SYSTEM, Load
from tests.harden.topics import create, producing, records
from tests.kit.agent_process import ROLES, AgentProcess, write_config
from tests.kit.kafka_broker import KafkaBroker

HOSTS: Final = 1_000
PREFIX: Final = "soak"
JOBS, FIGURES = "soak-jobs", "soak-figures"
SETTLE_S: Final = 60.0
HOST_CHECKPOINT_S: Final = 240.0
SLICE_S: Final = 0.1
SAMPLE_S: Final = 5.0
LOOK_S: Final = 15.0  # as often as Prometheus
WARM_UP: Final = 0.5  # of the time: every application is met by then, and hosts were saved twice
SHOWN: Final = (0.25, 0.5, 0.75, 1.0)  # of the time
PRODUCED_S: Final = 120.0
WORKED_OFF_S: Final = 400.0
SWING_MB: Final = 20.0  # by which memory differs from one save of hosts to the next; a longer soak finds smaller growth
CPU_MAX: Final = {"learner": 3.5, "collector": 7.0}  # percent of a core, as measured when this test was made
CPU_ALLOWED: Final = 2.0  # times that: machines differ
LAG_S_MAX: Final = 15.0
MB: Final = 1e6


@dataclass
class Measured:
    """What was seen of one process: seconds since the start, resident megabytes, and processor seconds."""

    pid: int
    at_s: list[float] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)
    used_s: list[float] = field(default_factory=list)
    lag_s: list[float] = field(default_factory=list)

    def look(self, at_s: float) -> None:
        """Take down memory and processor time."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        self.at_s.append(at_s)
        self.resident_mb.append(pages * 4096 / MB)
        self.used_s.append(cpu_s(self.pid))

    def slope_mb_per_h(self, from_s: float) -> float:
        """Return by how much memory grows after a time, by least squares."""
        later = [number for number, at_s in enumerate(self.at_s) if at_s >= from_s]
        at_h = np.array([self.at_s[number] / 3600 for number in later])
        return float(np.polyfit(at_h, np.array([self.resident_mb[number] for number in later]), 1)[0])

    def cpu_percent(self, from_s: float) -> float:
        """Return the share of a core that was used after a time."""
        first = next(number for number, at_s in enumerate(self.at_s) if at_s >= from_s)
        return 100 * (self.used_s[-1] - self.used_s[first]) / (self.at_s[-1] - self.at_s[first])

    def resident_at(self, at_s: float) -> float:
        """Return the memory at a time, the last before it."""
        return next(mb for when, mb in zip(self.at_s[::-1], self.resident_mb[::-1], strict=True) if when <= at_s)


def run(*, seed: int, minutes: float, report: Callable[[str], object]) -> Iterator[Row]:
    """Yield the figures of a soak of so many minutes."""
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaBroker())
        create(kafka.bootstrap, {JOBS: 1, FIGURES: 1})
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalewatch-soak-")))
        agent = stack.enter_context(AgentProcess(configured(folder, kafka.bootstrap)))
        agent.wait_ready()
        soak = Soak(agent, kafka.bootstrap, Load(HOSTS, seed, time.time()), minutes * 60, report)
        soak.run()
        lost, dead_letters = soak.worked_off()
        yield from rows(soak, lost, dead_letters)


def configured(folder: Path, bootstrap: str) -> Path:
    """Write the configuration: runs settle soon, and what is learned of hosts is saved several times within a soak."""
    metrics = [{"measurement": "node", "field": name, "resource": name} for name in FIELDS]
    sources: list[dict[str, Any]] = [
        {"topics": [JOBS], "format": "native"},
        {"topics": [FIGURES], "format": "line-protocol", "system": SYSTEM, "telemetry": {"metrics": metrics}},
    ]
    learner = {"checkpoint_interval_s": 10.0, "host_checkpoint_interval_s": HOST_CHECKPOINT_S}
    return write_config(folder, bootstrap, PREFIX, sources, jobs={"settle_max_s": SETTLE_S}, learner=learner)


class Soak:
    """One soak, from its first message until everything is worked off."""

    def __init__(
        self, agent: AgentProcess, bootstrap: str, load: Load, seconds: float, report: Callable[[str], object]
    ) -> None:
        self.agent, self.load, self.seconds = agent, load, seconds
        self.processes = {role: Measured(pid) for role, pid in agent.role_pids().items()}
        self._bootstrap, self._report = bootstrap, report
        self._next_sample_s = self._next_look_s = self._next_report_s = 0.0

    @property
    def warm_s(self) -> float:
        """When everything is there."""
        return self.seconds * WARM_UP

    def run(self) -> None:
        """Send, and look at the processes."""
        with producing(self._bootstrap) as producer:
            while (now_s := time.time()) < self.load.began_s + self.seconds:
                for message in self.load.figures(now_s):
                    producer.send(FIGURES, message)
                for message in self.load.jobs(now_s):
                    producer.send(JOBS, message)
                self._look(now_s - self.load.began_s)
                time.sleep(SLICE_S)
            self._sample(self.seconds)
            producer.flush(PRODUCED_S)

    def _look(self, at_s: float) -> None:
        if at_s >= self._next_sample_s:
            self._next_sample_s += SAMPLE_S
            self._sample(at_s)
        if at_s >= self._next_look_s:
            self._next_look_s += LOOK_S
            for role, process in self.processes.items():
                process.lag_s.append(self.agent.metric(role, "scalewatch_event_time_lag_seconds"))
        if at_s >= self._next_report_s:
            self._next_report_s += 60.0
            now = ", ".join(f"{role} {one.resident_mb[-1]:.0f} MB" for role, one in self.processes.items())
            self._report(
                f"soak: {at_s / 60:.0f} of {self.seconds / 60:.0f} min, {len(self.load.completed)} runs, {now}"
            )

    def _sample(self, at_s: float) -> None:
        if self.agent.role_pids() != {role: one.pid for role, one in self.processes.items()}:
            raise AssertionError(f"A role ended by itself:\n{self.agent.output()}")
        for process in self.processes.values():
            process.look(at_s)

    def worked_off(self) -> tuple[int, int]:
        """Wait until every run has settled; return how many have not, or not as sent, and how many dead letters there are."""
        deadline = time.monotonic() + WORKED_OFF_S
        while (lost := self._lost()) and time.monotonic() < deadline:
            time.sleep(5.0)
        return lost, len(records(self._bootstrap, self.agent.config.topics.deadletters))

    def _lost(self) -> int:
        """Count the runs that came out as nothing, or as something else than was sent."""
        messages = [each.plain() for each in records(self._bootstrap, self.agent.config.topics.runs)]
        settled = {message["event"]["job_id"]: settled_run(message) for message in messages}
        sent = {
            job_id: Run(job["application"], job["n"], job["run_time_s"]) for job_id, job in self.load.completed.items()
        }
        return sum(settled.get(job_id) != run for job_id, run in sent.items())


def rows(soak: Soak, lost: int, dead_letters: int) -> Iterator[Row]:
    """Yield the figures of a soak that has ended."""
    for role in ROLES:
        one = soak.processes[role]
        for share in SHOWN:
            at_s = share * soak.seconds
            yield Row(f"soak: {role}, memory after {at_s / 60:g} min", one.resident_at(at_s), "MB", "resident")
        yield Row(
            f"soak: {role}, growth", one.slope_mb_per_h(soak.warm_s), "MB/h",
            f"of its memory after {soak.warm_s / 60:g} min", SWING_MB * 3600 / (soak.seconds - soak.warm_s),
            details={"at_s": one.at_s, "resident_mb": one.resident_mb},
        )  # fmt: skip
        yield Row(
            f"soak: {role}, processor", one.cpu_percent(soak.warm_s), "% of a core",
            f"reference {CPU_MAX[role]:g}", CPU_MAX[role] * CPU_ALLOWED,
        )  # fmt: skip
        yield Row(f"soak: {role}, lag", max(one.lag_s), "s", "the largest, in event time", LAG_S_MAX)
    processed = soak.agent.metric("collector", "scalewatch_events_total", format="line-protocol", outcome="processed")
    yield Row("soak: runs", float(len(soak.load.completed)), "", "sent as completed")
    yield Row("soak: runs lost", float(lost), "", "not settled, or not as they were sent", 0.0)
    yield Row("soak: samples", float(soak.load.samples), "", "of hosts, sent")
    yield Row("soak: samples lost", soak.load.samples - processed, "", "not taken by the collector", 0.0)
    yield Row("soak: dead letters", float(dead_letters), "", "", 0.0)
