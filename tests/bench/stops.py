"""How long the fold of a large centre holds whoever has a question: the longest of each kind of work, with all of it going on.

The centre is there at once: its applications are restored from states that were learned under other names, its hosts have
measured for two minutes. Then come starts and completions, minutes of all hosts, ticks, settlement, fits,
young garbage, and checkpoints of jobs and of hosts. Times are of the processor, of the thread that folds.
"""

import gc
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np

from agent.app.roles import Garbage
from agent.config.roles import LearnerSettings
from agent.config.tree import Config
from processors.contracts.events import HostMinute, JournalRecord, encode_record
from tests.bench import hosts
from tests.bench.growth.driven import SECOND_MS, Driven, continued, jobs_by_second, settings_for
from tests.bench.result import Row
from tests.bench.workload import Load

MANY: Final = 10_000
RATE_PER_S: Final = 100.0
MINUTE_S: Final = 60
MINUTES: Final = 4
WARM_MINUTES: Final = 2
GOAL_MS: Final = 60.0
SHOWN: Final = 6


def run(*, quick: bool) -> Iterator[Row]:
    """Yield the longest stop in which a question waits, and that of each kind of work."""
    count = MANY // 10 if quick else MANY
    driven = Driven(_settings(count), count)
    garbage, collections = Garbage(0.0), _Collections()
    garbage.restrain()
    garbage.collect(0.0)
    load = Load(count, MINUTES * MINUTE_S * round(RATE_PER_S), True, RATE_PER_S, t1_s=40.0, hosts_max=1)  # noqa: FBT003
    seconds = islice(jobs_by_second(continued(load, driven.now_ms)), MINUTES * MINUTE_S)
    dice = np.random.default_rng(1)
    level = dice.random((count, len(hosts.RESOURCES)))
    with collections:
        for number, values in enumerate(seconds):
            minute = list(_minute(level, driven.now_ms, dice)) if number % MINUTE_S == 0 else []
            if number == WARM_MINUTES * MINUTE_S:
                garbage.collect(0.0)
                collections.longest_s.clear()
                driven.stops.clear()
            driven.second((0, value) for value in [*minute, *values])
    yield from _rows(driven, f"{count:,} applications and hosts", collections)


def _rows(driven: Driven, name: str, collections: "_Collections") -> Iterator[Row]:
    stops = driven.stops
    longest, seconds = stops.longest
    young = ", ".join(f"{1000 * each:.0f} ms" for _, each in sorted(collections.longest_s.items()))
    details = {"longest_ms": {kind: 1000 * each for kind, each in stops.longest_first()}}
    meaning = f"a {longest}; the longest collection of garbage meanwhile, by generation: {young or 'none'}"
    yield Row(f"longest stop of the fold, {name}", seconds * 1000, "ms", meaning, GOAL_MS, details=details)
    for kind, each in stops.longest_first()[:SHOWN]:
        mean_ms = stops.total_s[kind] / stops.count[kind] * 1000
        yield Row(
            f"longest {kind}, {name}", each * 1000, "ms", f"of {stops.count[kind]:,}; {mean_ms:.2f} ms on average"
        )


def _settings(count: int) -> Config:
    return settings_for(count).model_copy(
        update={"learner": LearnerSettings(host_checkpoint_interval_s=float(MINUTE_S))}
    )


def _minute(level: Any, now_ms: int, dice: np.random.Generator) -> Iterator[bytes]:
    """Yield what all hosts measured in the minute that has just ended."""
    level += 0.02 * dice.standard_normal(level.shape)
    begin_ms = now_ms - now_ms % (MINUTE_S * SECOND_MS) - MINUTE_S * SECOND_MS
    for record in hosts.reported_minute(level, 0, dice):
        if isinstance(record.event, HostMinute):
            yield encode_record(JournalRecord(msgspec.structs.replace(record.event, minute_ms=begin_ms)))


class _Collections:
    """The longest collection of garbage of each generation."""

    def __init__(self) -> None:
        self.longest_s: dict[int, float] = {}
        self._began_s = 0.0

    def __enter__(self) -> None:
        gc.callbacks.append(self._note)

    def __exit__(self, *_error: object) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.thread_time()
            return
        seconds = time.thread_time() - self._began_s
        self.longest_s[info["generation"]] = max(seconds, self.longest_s.get(info["generation"], 0.0))
