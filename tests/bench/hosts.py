"""The learner with all hosts of a large centre: a minute of them, their checkpoint, and how soon they are back."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from agent.app import compose
from agent.config.tree import Config
from processors.contracts.events import (
    Evidence,
    HostMinute,
    JobStarted,
    JournalRecord,
    Origin,
    ResourceMinute,
    Tick,
    decode_record,
    encode_record,
)
from processors.contracts.names import run_id
from processors.pipeline.shard import Shard
from tests.bench.result import Row
from tests.bench.workload import START_MS

HOSTS: Final = 10_000
RESOURCES: Final = ("cpu_available", "memory_free", "load1", *(f"metric_{k}" for k in range(7)))
HOSTS_OF_JOB: Final = 100
SOURCES: Final = 8
MINUTES: Final = 5
TICK_MS: Final = 10_000
MINUTE_MS: Final = 60_000
SYSTEM: Final = "bench"


def run(*, quick: bool) -> Iterator[Row]:
    """Yield what one minute costs, and what a checkpoint does; all on one core."""
    hosts = HOSTS // 10 if quick else HOSTS
    series, whole = hosts * len(RESOURCES), not quick
    shard, seconds, longest_s = learned(hosts)
    name = f"{hosts:,} hosts x {len(RESOURCES)}"
    meaning = "decoded from the journal; windows, forecasts, anomalies, alerts; median of later minutes"
    later = statistics.median(seconds[1:])
    details = {"first_minute_s": seconds[0]}
    yield Row(f"learner, a minute of {name}", later, "s per core", meaning, 15.0 if whole else None, details=details)
    yield Row(f"longest part of a fold, {name}", longest_s, "s per core", "readers and questions wait for so long")
    copied_s, unsaved = _timed(lambda: shard.unsaved(with_hosts=True))
    encoded_s, found = _timed(unsaved.states)
    states: dict[str, bytes] = {key: value for key, value in found.items() if value is not None}
    size = sum(map(len, states.values()))
    details = {"states": len(states), "largest_bytes": max(map(len, states.values())), "encoded_s": encoded_s}
    meaning = "the fold waits for so long; the rest is done beside it"
    yield Row(f"copy of {series:,} series", copied_s, "s per core", meaning, 0.25 if whole else None, details=details)
    yield Row(f"encoding of {series:,} series", encoded_s, "s per core", "in the thread that saves")
    yield Row(f"checkpoint of {series:,} series", size / 1e6, "MB", "JSON in the state topic, every ten minutes")
    twin = compose.make_shard(Config())
    restored_s, _ = _timed(lambda: twin.restore(states, shard.now_ms, shard.hosts.state.now_ms))
    if twin.sizes()["host_series"] != series:
        raise AssertionError("Not everything came back.")
    yield Row(f"restore of {series:,} series", restored_s, "s per core", "from bytes to columns")


def learned(hosts: int) -> tuple[Shard, list[float], float]:
    """Return a shard that has learned some minutes, what each took, and the longest part of a fold that gives no way."""
    shard, dice = compose.make_shard(Config()), np.random.default_rng(1)
    for record in _jobs(hosts):
        shard.fold(record)
    level = dice.random((hosts, len(RESOURCES)))
    seconds, longest_s, before_s = [], 0.0, math.inf

    def give_way() -> None:
        nonlocal longest_s, before_s
        now_s = time.process_time()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s

    shard.give_way_by(give_way)
    for minute in range(MINUTES):
        level += 0.02 * dice.standard_normal(level.shape)
        values = [encode_record(record) for record in reported_minute(level, minute, dice)]
        began_s = time.process_time()
        for value in values:
            before_s = time.process_time()
            shard.fold(decode_record(value))
            give_way()
        seconds.append(time.process_time() - began_s)
    return shard, seconds, longest_s


def _jobs(hosts: int) -> Iterator[JournalRecord]:
    yield JournalRecord(Tick("", time_ms=START_MS))
    for job in range(hosts // HOSTS_OF_JOB):
        first = job * HOSTS_OF_JOB
        reported = Evidence(hosts=(f"nid[{first:06d}-{first + HOSTS_OF_JOB - 1:06d}]",), partition="standard")
        yield JournalRecord(JobStarted(SYSTEM, str(job), run_id(SYSTEM, str(job), START_MS), START_MS, reported))


def reported_minute(level: Any, minute: int, dice: np.random.Generator) -> Iterator[JournalRecord]:
    """Yield what all hosts measured in a minute, and the ticks of the next."""
    begin_ms = START_MS + minute * MINUTE_MS
    for host, own in enumerate(level):
        samples = (own[:, None] + 0.05 * dice.standard_normal((len(own), 6))).round(5)
        resources = dict(zip(RESOURCES, map(_resource, samples), strict=True))
        event = HostMinute(SYSTEM, f"load/{host % SOURCES}", f"nid{host:06d}", begin_ms, resources)
        yield JournalRecord(event, Origin("load", host % SOURCES, minute * len(level) + host))
    for tick_ms in range(begin_ms + MINUTE_MS + TICK_MS, begin_ms + 2 * MINUTE_MS + TICK_MS, TICK_MS):
        yield JournalRecord(Tick("", time_ms=tick_ms))


def _resource(means: Any) -> ResourceMinute:
    low, high = float(means.min()), float(means.max())
    edges = tuple(float(f"{edge:.7g}") for edge in np.linspace(low, high, 6))
    return ResourceMinute(60, float(means.mean()), low, high, tuple(means.tolist()), edges, (0.2,) * 5, 300)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began_s = time.process_time()
    result = work()
    return time.process_time() - began_s, result
