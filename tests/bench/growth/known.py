"""A learner's state that knows any number of applications: what a few have taught it, under as many names.

The few are learned run by run, so each state is one that the product wrote. Learning 100,000 so would take hours.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from agent.app import compose
from processors.contracts.events import JournalRecord, Tick
from processors.pipeline.shard import Shard
from tests.bench.workload import START_MS, TICK_MS, Load, config, events, messages

LEARNED: Final = 16
RUNS_EACH: Final = 48
RATE_PER_S: Final = 2.0  # of event time: every application is fitted several times
QUIET_MS: Final = 600_000  # after the last run: all settle, and each model is published
USERS: Final = 200
_APPLICATION: Final = re.compile(rb"app(\d{5})")
_USER: Final = re.compile(rb"/user/u\d+")


@lru_cache(maxsize=1)
def learned() -> tuple[dict[str, bytes], int]:
    """Return the states of the few by their keys, and the time of their last tick in ms."""
    shard = compose.make_shard(config())
    load = Load(LEARNED, LEARNED * RUNS_EACH, starts=True, rate_per_s=RATE_PER_S, t1_s=40.0, hosts_max=1, failures=0.0)
    stream = messages(load)
    now_ms = START_MS - START_MS % TICK_MS
    for message, event in zip(stream, events(stream), strict=True):
        now_ms = _ticked(shard, now_ms, message.time_ms)
        shard.fold(JournalRecord(event))
    now_ms = _ticked(shard, now_ms, now_ms + QUIET_MS)
    found = shard.unsaved().states()
    return {key: value for key, value in found.items() if value is not None}, now_ms


def _ticked(shard: Shard, now_ms: int, until_ms: int) -> int:
    while now_ms + TICK_MS <= until_ms:
        now_ms += TICK_MS
        shard.fold(JournalRecord(Tick("", time_ms=now_ms)))
    return now_ms


def known(applications: int) -> Iterator[tuple[str, bytes]]:
    """Yield the key and value of each state of a shard that knows so many applications."""
    states, _ = learned()
    for key, value in states.items():
        found = _APPLICATION.search(key.encode())
        if found is None:
            yield key, value
            continue
        own = found.group(0)
        for number in range(int(found.group(1)), applications, LEARNED):
            name = b"app%05d" % number
            user = b"/user/u%d" % (number % USERS)
            yield key.replace(own.decode(), name.decode()), _USER.sub(user, value.replace(own, name))


def time_ms() -> int:
    """Return the time of the newest tick in these states."""
    return learned()[1]
