"""State: how large an application is, encoded and in memory, and how long a learner needs to read all of it back."""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from typing import Final

import msgspec

from agent.app import compose
from agent.config.topics import own_topics
from agent.log.kafka.client import KafkaLogSettings
from agent.log.kafka.log import KafkaLog
from agent.log.memory import MemoryLog
from processors.contracts.log import Log, Marker
from processors.contracts.settings import RunTimeSettings
from processors.jobs.memory import BUCKET_RUNS_MAX, KnownRun, RunDeduplication, RunDeduplicationState
from processors.pipeline.shard import Shard
from processors.pipeline.state import SEEN_LIVE_MAX
from processors.store import digest64
from tests.bench.refit import learned
from tests.bench.result import Row
from tests.bench.workload import START_MS, config
from tests.kit.kafka_broker import KafkaBroker

SIZES: Final = 8
RUNS_PER_SIZE: Final = 16  # 128 runs: the 64 newest unmerged, the others in sketches, 64 scores
APPLICATIONS: Final = 100_000
GOAL_S: Final = 60.0
SAMPLES: Final = 200
TRANSACTION: Final = 2_000


def sizes(*, quick: bool) -> Iterator[Row]:
    """Yield bytes per application."""
    value = _state()
    meaning = f"run-time model of {SIZES} sizes and {SIZES * RUNS_PER_SIZE} runs as JSON in the state topic"
    yield Row("state of an application, encoded", len(value) / 1024, "KiB", meaning, 8.0)
    at_rest, in_use = _memory_bytes(value, 50 if quick else SAMPLES)
    yield Row("state of an application, at rest", at_rest / 1024, "KiB", "in the learner's memory, not used lately")
    yield Row("state of an application, in use", in_use / 1024, "KiB", "decoded; at most 5,000 are kept so")
    at_rest, in_use = _remembered_bytes()
    yield Row("a remembered run, at rest", at_rest, "bytes", "recognised when it is repeated")
    yield Row("a remembered run, in use", in_use, "bytes", f"those of the {SEEN_LIVE_MAX} buckets that were used last")


def _remembered_bytes() -> tuple[float, float]:
    """Return how much memory a run takes by which repeats are recognised: encoded and decoded."""
    gc.collect()
    tracemalloc.start()
    known = RunDeduplication(RunDeduplicationState())
    for number in range(BUCKET_RUNS_MAX):
        known.learn((f"bench/{number}@{START_MS}", KnownRun(digest64(str(number)), number)))
    in_use = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return len(msgspec.json.encode(known.snapshot())) / BUCKET_RUNS_MAX, in_use / BUCKET_RUNS_MAX


def restore_memory(*, quick: bool) -> Iterator[Row]:
    """Yield the seconds that a restore takes without a broker."""
    yield restore(MemoryLog(), 2_000 if quick else 20_000, "memory", None)


def restore_kafka(*, quick: bool) -> Iterator[Row]:
    """Yield the seconds that a restore takes from a real Kafka."""
    applications = 5_000 if quick else APPLICATIONS
    with KafkaBroker() as kafka:
        log = KafkaLog(KafkaLogSettings(bootstrap=kafka.bootstrap))
        yield restore(log, applications, "Kafka", None if quick else GOAL_S)
        log.close()


def restore(log: Log, applications: int, where: str, goal_s: float | None) -> Row:
    """Write so many applications into the state topic, and time how long a new learner takes to have them back."""
    settings = config(run_time=RunTimeSettings(applications_max=applications))
    log.create(own_topics(settings))
    written_s = _fill(log, applications)
    shard = compose.make_shard(settings)
    gc.collect()
    began_s = time.monotonic()
    restored = log.checkpoints(0).take_over()
    read_s = time.monotonic() - began_s
    shard.restore(restored.states, restored.marker.now_ms if restored.marker else 0)
    total_s = time.monotonic() - began_s
    assert shard.sizes()["run_time"] == applications
    return Row(
        f"restore of {applications:,} applications, {where}",
        total_s,
        "s",
        f"take-over, read, and every state in its place ({SIZES} sizes each); decoded at first use",
        goal_s,
        details={"read_s": read_s, "write_s": written_s, "state_bytes": sum(map(len, restored.states.values()))},
    )


def _fill(log: Log, applications: int) -> float:
    value = _state()
    began_s = time.monotonic()
    store = log.checkpoints(0)
    store.take_over()
    for number, first in enumerate(range(0, applications, TRANSACTION)):
        states = {
            f"run_time/bench/app{i:06d}//nodes": value for i in range(first, min(first + TRANSACTION, applications))
        }
        store.save(states, Marker(first, number + 1, len(states), "bench", "bench", 1, START_MS))
    store.close()
    return time.monotonic() - began_s


def _state() -> bytes:
    shard = learned(SIZES, RUNS_PER_SIZE)
    return next(value for key, value in shard.unsaved().states().items() if key.startswith("run_time/") and value)


def _memory_bytes(value: bytes, count: int) -> tuple[float, float]:
    """Return bytes per application before and after they are decoded."""
    shard = compose.make_shard(config())
    states = {f"run_time/bench/app{i:06d}//nodes": bytes(bytearray(value)) for i in range(count)}
    encoded = len(value) + 33  # the bytes themselves were made before
    tracemalloc.start()
    shard.restore(states, START_MS)
    at_rest = tracemalloc.get_traced_memory()[0] / count + encoded
    _touch(shard, count)
    in_use = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    return at_rest, in_use


def _touch(shard: Shard, count: int) -> None:
    for i in range(count):
        assert shard.state.models.get(f"bench/app{i:06d}//nodes") is not None
    gc.collect()
