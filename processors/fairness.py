"""Fair shares: whoever asks for much takes turns with those who ask for little, and gives up first where there is too little room.

Work and places belong to *lanes*: one for each user of a system, say. A lane that holds 60,000 waiting names delays its
own names alone. The part of a lane before the first slash is its group, a system: groups take turns, too.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from urllib.parse import unquote

from processors.contracts.names import escaped

REMEMBERED = 8192  # the same few are asked for with every run
Head = tuple[int, int, str, str]  # turns taken, due time, key, lane


class FairQueue:
    """Keys by the time at which they are due, in lanes."""

    def __init__(self) -> None:
        self._lanes: dict[str, list[tuple[int, str]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, lane: str, due_ms: int, key: str) -> None:
        """Let a key wait in a lane until it is due."""
        heapq.heappush(self._lanes.setdefault(lane, []), (due_ms, key))
        self._count += 1

    def replace(self, waiting: Iterable[tuple[str, int, str]]) -> None:
        """Put lanes, times and keys in the place of all that wait."""
        self._lanes.clear()
        self._count = 0
        for lane, due_ms, key in waiting:
            self.put(lane, due_ms, key)

    def take(self, now_ms: int, limit: int, waits: Callable[[str, int, str], bool]) -> list[str]:
        """Remove and return keys whose time has come, at most `limit`; those that `waits` denies are dropped.

        Groups take turns, and so do the lanes of a group; among those with equal turns the longest overdue goes first, ties
        by key.
        """
        found: dict[str, None] = {}

        def stands(lane: str, due_ms: int, key: str) -> bool:
            return key not in found and waits(lane, due_ms, key)  # a time that was put off and back stands here twice

        groups: dict[str, list[Head]] = {}
        for lane in list(self._lanes):
            self._put_head(groups.setdefault(lane.partition("/")[0], []), 0, lane, now_ms, stands)
        order = [(0, *heads[0][:3], group) for group, heads in groups.items() if heads]
        heapq.heapify(order)
        while order and len(found) < limit:
            turns, *_, group = heapq.heappop(order)
            heads = groups[group]
            taken, _, key, lane = heapq.heappop(heads)
            heapq.heappop(self._lanes[lane])
            self._count -= 1
            found[key] = None
            self._put_head(heads, taken + 1, lane, now_ms, stands)
            if heads:
                heapq.heappush(order, (turns + 1, *heads[0][:3], group))
        return list(found)

    def overdue(self, now_ms: int) -> Counter[str]:
        """Return how many keys are due in each lane; those that wait no more are among them."""
        due = {lane: sum(due_ms <= now_ms for due_ms, _ in keys) for lane, keys in self._lanes.items()}
        return Counter({lane: count for lane, count in due.items() if count})

    def _put_head(
        self, heads: list[Head], turns: int, lane: str, now_ms: int, waits: Callable[[str, int, str], bool]
    ) -> None:
        """Let the first key of a lane stand for it, where its time has come."""
        keys = self._lanes[lane]
        while keys and not waits(lane, *keys[0]):
            heapq.heappop(keys)
            self._count -= 1
        if not keys:
            del self._lanes[lane]
        elif keys[0][0] <= now_ms:
            heapq.heappush(heads, (turns, *keys[0], lane))


def given_up(held: Mapping[str, list[tuple[int, str]]], excess: int) -> list[str]:
    """Return which `excess` keys go, of those that lanes hold with the time of their last use: who holds most gives first.

    A lane gives those that were unused for the longest time. Where lanes hold as much as each other the longest unused of
    all goes, ties by key.
    """
    if excess <= 0:
        return []
    level, rest = _level([len(keys) for keys in held.values()], excess)
    gone: list[tuple[int, str]] = []
    next_ones: list[tuple[int, str]] = []
    for keys in held.values():
        if len(keys) >= level:
            oldest = heapq.nsmallest(len(keys) - level + 1, keys)
            gone += oldest[: len(keys) - level]
            next_ones += oldest[len(keys) - level :]
    return [key for _, key in sorted(gone + heapq.nsmallest(rest, next_ones))]


def _level(counts: list[int], excess: int) -> tuple[int, int]:
    """Return to how many keys the largest lanes go down together, and how many of these give one more."""
    falling = [*sorted(counts, reverse=True), 0]
    for lanes, (count, following) in enumerate(pairwise(falling), 1):
        if excess <= (count - following) * lanes:
            each, rest = divmod(excess, lanes)
            return count - each, rest
        excess -= (count - following) * lanes
    return 0, 0


FLOOD_MIN = 500  # keys of one lane that wait


def flood(waiting: Mapping[str, int]) -> str | None:
    """Return who floods, in words: the lane in which most keys wait, where these are many and more than in all others."""
    longest = max(waiting, key=lambda lane: (waiting[lane], lane), default=None)
    if longest is None or waiting[longest] < FLOOD_MIN or 2 * waiting[longest] <= sum(waiting.values()):
        return None
    system, *whose = (unquote(part) for part in longest.split("/"))
    return f"{' '.join(whose)} of {system}" if whose else f"system {system}"


@lru_cache(maxsize=REMEMBERED)
def lane_of_user(system: str, user: str | None) -> str:
    """Return the lane of a user; work that nobody's name stands on is that of its system."""
    return f"{escaped(system)}/user/{escaped(user)}" if user else escaped(system)


def lane_of_application(application_id: str) -> str:
    """Return the lane of an application that several users run: of all its inputs together."""
    system, application, *_ = application_id.split("/")
    return f"{system}/application/{application}"


@lru_cache(maxsize=REMEMBERED)
def lane_of_run(application_id: str, user: str | None, before: str | None) -> str:
    """Return the lane of an application with a run of a user; `before` is that without it, None for the first run.

    It is its user's, until another one runs it.
    """
    system = application_id.partition("/")[0]
    own = f"{system}/user/{escaped(user)}" if user else system
    return own if before in (None, own) else lane_of_application(application_id)
