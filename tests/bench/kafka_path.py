"""The whole path on a real Kafka: how many completions a second it carries."""

import time
from collections.abc import Iterator
from typing import Final

from agent.log.kafka.client import ClientName
from tests.bench.centre import centre, cpu_s, producing
from tests.bench.result import Row
from tests.kit.logs import CLIENTS

APPLICATIONS: Final = 50
RATE_PER_S: Final = 3600.0  # more than the goal: so the figure is what the agent carries, not what it was given
WARM_UP_S: Final = 12.0
LOOK_S: Final = 1.0


def throughput(*, quick: bool) -> Iterator[Row]:
    """Yield the completions a second that both roles carry, and the processor time of each process, with each client."""
    for client in CLIENTS:
        yield from _throughput(client, 25.0 if quick else 50.0)


def _throughput(client: ClientName, seconds: float) -> Iterator[Row]:
    with centre(client=client) as found, producing(found.kafka, RATE_PER_S, seconds, APPLICATIONS) as producer:
        time.sleep(WARM_UP_S)
        pids = {**found.pids(), "producer": producer.pid}
        began_s, before, used = time.monotonic(), found.processed(), {name: cpu_s(pid) for name, pid in pids.items()}
        time.sleep(seconds - WARM_UP_S - LOOK_S)
        elapsed_s = time.monotonic() - began_s
        completions = found.processed() - before
        spent = {name: cpu_s(pid) - used[name] for name, pid in pids.items()}
        times = found.times()
    each_us = {name: spent[name] / completions * 1e6 for name in spent}
    shares = ", ".join(f"{name} {each_us[name]:.0f}" for name in each_us)
    details = {"us_per_completion": each_us, "offered_per_s": RATE_PER_S, "measured_s": elapsed_s,
               "cores_used": sum(spent.values()) / elapsed_s, "mean_s": times}  # fmt: skip
    meaning = "raw topic to journal to runs and state, two role processes and a producer on this machine"
    rate = completions / elapsed_s
    yield Row(f"whole path, {client}", rate, "completions/s", meaning, 3000.0, larger_is_better=True, details=details)
    yield Row(
        f"whole path, {client}, busiest role",
        1e6 / max(each_us["learner"], each_us["collector"]),
        "completions/s per core",
        f"what a role carries that has a core for itself; µs of processor each: {shares}",
        details=details,
    )
