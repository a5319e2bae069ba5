"""One size of a centre in a process of its own: what a unit costs in time, memory and restore, printed as JSON."""

import ctypes
import gc
import json
import sys
import time
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import numpy as np

from agent.app import compose
from agent.app.roles import Garbage
from agent.config.tree import Config
from processors.contracts.events import JournalRecord, encode_record
from processors.contracts.hosts import HostSettings
from processors.models.numerics import scipy_functions
from processors.pipeline.shard import Shard
from tests.bench import hosts
from tests.bench.footprint import resident_bytes
from tests.bench.growth import known
from tests.bench.growth.driven import Driven, continued, jobs_by_second, settings_for
from tests.bench.workload import Load

Found = dict[str, float]
RATE_PER_S: Final = 50.0  # of event time: fits are as many a second for each number of applications
WARM_S, MEASURED_S = 60, 60
SHARDS_S: Final = 20  # the same for shards, each of which has as much to do
SHARD_APPLICATIONS: Final = 1_000
SHARD_RATE_PER_S: Final = 20.0
MINUTES: Final = 4


def applications(count: int, *, quick: bool) -> Found:
    """Return what a completion costs where so many applications are known, their memory, and how soon they are back."""
    settings, seconds = settings_for(count), (SHARDS_S, SHARDS_S) if quick else (WARM_S, MEASURED_S)
    _begin()
    before = _resident()
    shard = compose.make_shard(settings)
    states = dict(known.known(count))
    began_s = time.process_time()
    shard.restore(states, known.time_ms())
    restored_s = time.process_time() - began_s
    del states
    memory = _resident() - before
    del shard
    return {
        "a completion, us": _completion_us(Driven(settings, count), 1, count, RATE_PER_S, seconds),
        "memory of an application at rest, bytes": memory / count,
        "restore of an application, us": restored_s / count * 1e6,
    }


def shards(count: int, *, quick: bool) -> Found:
    """Return what a completion costs a process that has so many shards, what each weighs, and how soon it is back."""
    settings = settings_for(SHARD_APPLICATIONS, count)
    _begin()
    before = _resident()
    driven = Driven(settings, SHARD_APPLICATIONS)
    states = dict(known.known(SHARD_APPLICATIONS))
    twin = compose.make_shard(settings)
    began_s = time.process_time()
    twin.restore(states, known.time_ms())
    restored_s = time.process_time() - began_s
    del twin, states
    completion_us = _completion_us(driven, count, SHARD_APPLICATIONS, SHARD_RATE_PER_S, (SHARDS_S, SHARDS_S))
    return {
        "a completion, us": completion_us,
        "memory of a shard, MB": (_resident() - before) / count / 1e6,
        "restore of a shard, ms": restored_s * 1000,
    }


def of_hosts(count: int, *, quick: bool) -> Found:
    """Return what a minute of a host costs where so many are measured, their memory, and how soon they are back."""
    config = Config(hosts=HostSettings(series_max=max(120_000, 2 * count * len(hosts.RESOURCES))))
    _begin()
    before = _resident()
    shard, seconds = _learned_hosts(config, count, 2 if quick else MINUTES)
    memory = _resident() - before
    states = {key: value for key, value in shard.unsaved(with_hosts=True).states().items() if value is not None}
    twin = compose.make_shard(config)
    began_s = time.process_time()
    twin.restore(states, shard.now_ms, shard.hosts.state.now_ms)
    return {
        "a minute of a host, us": min(seconds[1:]) / count * 1e6,
        "memory of a host, bytes": memory / count,
        "restore of a host, us": (time.process_time() - began_s) / count * 1e6,
    }


def _learned_hosts(config: Config, count: int, minutes: int) -> tuple[Shard, list[float]]:
    shard, dice, seconds = compose.make_shard(config), np.random.default_rng(1), []
    level = dice.random((count, len(hosts.RESOURCES)))
    for minute in range(minutes):
        level += 0.02 * dice.standard_normal(level.shape)
        spent_s = 0.0
        for record in hosts.reported_minute(level, minute, dice):  # one by one: all at once would weigh more than they
            began_s = time.process_time()
            shard.fold(record)
            spent_s += time.process_time() - began_s
        seconds.append(spent_s)
    return shard, seconds


def _completion_us(driven: Driven, count: int, names: int, rate_per_s: float, seconds: tuple[int, int]) -> float:
    """Return processor microseconds of a completion and its start, with ticks, fits, settlement and checkpoints."""
    warm_s, measured_s = seconds
    garbage = Garbage(0.0)
    garbage.restrain()
    garbage.collect(0.0)
    load = Load(
        names, round(rate_per_s * (warm_s + measured_s)), starts=True, rate_per_s=rate_per_s, t1_s=40.0, hosts_max=1
    )
    parts = islice(jobs_by_second(continued(load, driven.now_ms)), warm_s + measured_s)
    spent_s, records = 0.0, 0
    for number, values in enumerate(parts):
        began_s = time.process_time()
        driven.second((shard, value) for value in values for shard in range(count))
        if number >= warm_s:
            spent_s += time.process_time() - began_s
            records += len(values) * count
    return spent_s / records * 2 * 1e6


def _begin() -> None:
    """Load what every learner has soon, so that it weighs on no size, and look for garbage as a role does."""
    Garbage(0.0).restrain()
    scipy_functions.load()
    known.learned()
    encode_record(JournalRecord(next(hosts._jobs(hosts.HOSTS_OF_JOB)).event))


def _resident() -> float:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


SIZES: Final[dict[str, Callable[..., Found]]] = {"applications": applications, "shards": shards, "hosts": of_hosts}


def _measure(what: str, size: str, quick: str) -> dict[str, Any]:
    return SIZES[what](int(size), quick=quick == "1")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measure(*sys.argv[1:])))
