"""What a centre of a thousand hosts sends: ten figures of each host every ten seconds, and one job a second."""

import heapq
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

FIELDS: Final = tuple(f"metric_{number}" for number in range(10))
EVERY_S: Final = 10.0
SIZES: Final = (1, 2, 4, 8, 16, 32)
APPLICATIONS: Final = 20
SYSTEM: Final = "centre"
DAY: Final = 86_400.0


def moment(time_s: float) -> str:
    """Return a time as producers write it.

    >>> moment(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain(event: dict[str, Any]) -> bytes:
    """Return an event as a message."""
    return json.dumps(event, separators=(",", ":")).encode()


@dataclass
class Load:
    """Messages by the time that has passed. `completed` are the runs that were sent as completed, by job id."""

    hosts: int
    seed: int
    began_s: float
    jobs_per_s: float = 1.0
    samples: int = 0
    started: int = 0
    completed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311 - the same load for the same seed
        self._reported = 0  # messages of hosts so far
        self._running: list[tuple[float, str, dict[str, Any]]] = []

    def figures(self, now_s: float) -> Iterator[bytes]:
        """Yield what hosts have measured up to now: each every ten seconds, one after the other."""
        due = int((now_s - self.began_s) * self.hosts / EVERY_S)
        while self._reported < due:
            time_s = self.began_s + self._reported * EVERY_S / self.hosts
            values = ",".join(f"{name}={self._dice.gauss(50.0, 5.0):.3f}" for name in FIELDS)
            yield f"node,host=nid{self._reported % self.hosts:06d} {values} {time_s * 1e9:.0f}".encode()
            self._reported += 1
            self.samples += len(FIELDS)

    def jobs(self, now_s: float) -> Iterator[bytes]:
        """Yield the starts and the ends of jobs that are due."""
        while self.started < (now_s - self.began_s) * self.jobs_per_s:
            start_s = self.began_s + self.started / self.jobs_per_s
            job = self._job(start_s)
            yield plain({"type": "job.started", **job, "time_limit_s": 3600})
            run_time_s = round((20.0 + 300.0 / job["n"]) * self._dice.lognormvariate(0.0, 0.03), 3)
            heapq.heappush(self._running, (start_s + run_time_s, job["job_id"], job | {"run_time_s": run_time_s}))
            self.started += 1
        while self._running and self._running[0][0] <= now_s:
            end_s, job_id, job = heapq.heappop(self._running)
            self.completed[job_id] = job
            yield plain({"type": "job.completed", **job, "end": moment(end_s), "state": "COMPLETED"})

    def _job(self, start_s: float) -> dict[str, Any]:
        n = self._dice.choice(SIZES)
        first = self._dice.randrange(self.hosts - n + 1) if self.hosts >= n else 0
        hosts = [f"nid[{first:06d}-{first + n - 1:06d}]"] if n > 1 else [f"nid{first:06d}"]
        application = f"app{self._dice.randrange(APPLICATIONS):02d}"
        return {
            "system": SYSTEM, "job_id": str(self.started), "application": application, "n": n, "unit": "nodes",
            "start": moment(start_s), "user": f"u{self.started % 50}", "hosts": hosts,
        }  # fmt: skip
