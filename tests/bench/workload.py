"""Streams of jobs with known shape, the same for the same settings: what every benchmark is fed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from agent.app import compose
from agent.config.tree import Config, Source
from agent.decode.formats import DECODERS
from processors.contracts.events import JobEvent
from processors.contracts.names import rfc3339

START_MS = 1_795_168_800_000
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
SYSTEM = "bench"
HOSTS = 4096
LARGEST = 4096
TICK_MS = 10_000
NOISE = 0.05
TOPIC = "bench.jobs"


@dataclass(frozen=True)
class Load:
    """What a stream is like. Every size is equally frequent; `rate_per_s` counts jobs in event time.

    `failures` is the share of runs that fail. A run names at most `hosts_max` hosts: on one host several share it, as
    the tasks of arrays do; the learner follows each host on which a run has failed.
    """

    applications: int
    jobs: int
    starts: bool = False
    rate_per_s: float = 3000.0
    failures: float = 0.02
    t1_s: float = 400.0
    hosts_max: int = 128
    start_ms: int = START_MS
    first_job: int = 0
    seed: int = 1


@dataclass(frozen=True)
class Message:
    """A message of a producer and when it is sent."""

    time_ms: int
    value: bytes


def run_time_s(t1_s: float, parallelism: float, n: float) -> float:
    """Return the true run time: Downey's low-variance law with sigma 0.5 is near enough to Amdahl's for a load."""
    return t1_s * (1.0 / n + 1.0 / parallelism)


def messages(load: Load) -> list[Message]:
    """Return the whole stream in order of time."""
    return sorted(_messages(load), key=lambda message: message.time_ms)


def _messages(load: Load) -> Iterator[Message]:
    random = np.random.default_rng(load.seed)
    applications = random.integers(load.applications, size=load.jobs)
    sizes = random.choice(SIZES, size=load.jobs)
    noise = np.exp(random.normal(0.0, NOISE, size=load.jobs))
    failed = random.random(load.jobs) < load.failures
    hosts = random.integers(HOSTS, size=load.jobs)
    for i in range(load.jobs):
        application, n = int(applications[i]), int(sizes[i])
        parallelism = 20.0 * 1.7 ** (application % 8)
        seconds = round(run_time_s(load.t1_s * (1 + application % 5), parallelism, n) * float(noise[i]), 3)
        reported_ms = load.start_ms + round(i * 1000 / load.rate_per_s)
        start_ms = reported_ms if load.starts else reported_ms - round(seconds * 1000)
        job = _job(load.first_job + i, application, n, _hosts(int(hosts[i]), min(n, load.hosts_max)), start_ms)
        if load.starts:
            yield Message(start_ms, msgspec.json.encode({"type": "job.started", **job, "time_limit_s": 7200}))
        end_ms = start_ms + round(seconds * 1000)
        ended = {"end": rfc3339(end_ms), "run_time_s": seconds, "state": "FAILED" if failed[i] else "COMPLETED"}
        yield Message(end_ms, msgspec.json.encode({"type": "job.completed", **job, **ended}))


def _hosts(first: int, count: int) -> str:
    return f"nid[{first:06d}-{first + count - 1:06d}]" if count > 1 else f"nid{first:06d}"


def _job(number: int, application: int, n: int, hosts: str, start_ms: int) -> dict[str, Any]:
    return {
        "system": SYSTEM,
        "job_id": str(number),
        "job_name": f"run-{number % 100}",
        "executable": f"/opt/app{application:05d}/bin/app{application:05d}",
        "n": n,
        "unit": "nodes",
        "start": rfc3339(start_ms),
        "user": f"u{application % 200}",
        "account": f"a{application % 40}",
        "partition": "standard",
        "hosts": [hosts],
    }


def config(**changes: Any) -> Config:
    """Return the default configuration with one native topic."""
    return Config(sources=(Source(topics=(TOPIC,), format="native"),), **changes)


def events(stream: Sequence[Message]) -> list[JobEvent]:
    """Return the events of native messages."""
    decode = DECODERS["native"](compose.decode_options(config()))
    return [event for message in stream for event in decode(message.value, message.time_ms).events]


def geometric_sizes(count: int) -> list[float]:
    """Return so many distinct whole sizes: powers of two, or evenly on a log scale up to 4096 where these are too few.

    >>> geometric_sizes(4)
    [1.0, 2.0, 4.0, 8.0]
    """
    sizes: list[float] = []
    for size in np.geomspace(1, min(2 ** (count - 1), LARGEST), count):
        sizes.append(float(max(round(size), (sizes[-1] + 1) if sizes else 1)))
    return sizes
