"""Fair shares: lanes with much work take turns with lanes that have little, and lose keys first if room runs out.

Work and places belong to *lanes*, such as one for each user of a system. A lane with 60,000 waiting keys delays only
its own keys. The part of a lane before the first slash is its group, a system: groups take turns, too.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote

from processors.contracts.names import escaped

REMEMBERED = 8192  # the same few are asked for with every run
Head = tuple[int, int, str, str]  # turns taken, due time, key, lane
Waits = Callable[[str, int, str], bool]


def go_on() -> None:
    """Do nothing: the callback of a caller for whom nobody waits."""


class Overdue(NamedTuple):
    """Overdue work: number of keys in each lane, and the longest wait."""

    lanes: Counter[str]
    longest_ms: int


class FairQueue:
    """Keys by due time, in lanes; the lanes of a group are queued by their first keys.

    So lanes without due work cost nothing, even with a lane for each application.
    """

    def __init__(self) -> None:
        self._lanes: dict[str, list[tuple[int, str]]] = {}
        self._groups: dict[str, list[tuple[int, str, str]]] = {}  # due time and key, once the first of the lane
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, lane: str, due_ms: int, key: str) -> None:
        keys = self._lanes.setdefault(lane, [])
        heapq.heappush(keys, (due_ms, key))
        self._count += 1
        if keys[0] == (due_ms, key):
            self._queue(lane)

    def replace(self, waiting: Iterable[tuple[str, int, str]]) -> None:
        """Replace all waiting lanes, times and keys."""
        self._lanes.clear()
        self._groups.clear()
        self._count = 0
        for lane, due_ms, key in waiting:
            self.put(lane, due_ms, key)

    def take(self, now_ms: int, limit: int, waits: Waits, of_group_max: float = math.inf) -> list[str]:
        """Remove and return due keys, at most `limit`, and `of_group_max` of each group; drop keys for which `waits` is False.

        Groups take turns, and so do the lanes of a group; with equal turns the longest overdue goes first, ties by key.
        """
        due_keys: dict[str, None] = {}

        def stands(lane: str, due_ms: int, key: str) -> bool:
            return key not in due_keys and waits(
                lane, due_ms, key
            )  # a time that was put off and back stands here twice

        turns: dict[str, Turns] = {group: Turns() for group in self._groups}
        heads = ((group, self._head(group, turns[group], now_ms, stands)) for group in turns)
        order = [(0, *head[:3], group) for group, head in heads if head is not None]
        heapq.heapify(order)
        while order and len(due_keys) < limit:
            had, *_, group = heapq.heappop(order)
            head = self._head(group, turns[group], now_ms, stands)
            if head is None:
                continue
            turns_taken, _, key, lane = head
            due_keys[key] = None
            self._drop_first(lane)
            self._drop_gone(lane, stands)
            turns[group].taken(lane, turns_taken + 1, self._lanes.get(lane), now_ms)
            following = self._head(group, turns[group], now_ms, stands) if had + 1 < of_group_max else None
            if following is not None:
                heapq.heappush(order, (had + 1, *following[:3], group))
        for each in turns.values():
            for lane in each.lanes & self._lanes.keys():
                self._queue(lane)
        return list(due_keys)

    def overdue(self, now_ms: int, waits: Waits) -> "Overdue":
        """Return the due keys for which `waits` is True."""
        lanes: Counter[str] = Counter()
        earliest_ms = now_ms
        for lane, keys in self._lanes.items():
            if keys[0][0] > now_ms:
                continue
            due = {key: due_ms for due_ms, key in keys if due_ms <= now_ms and waits(lane, due_ms, key)}
            if due:
                lanes[lane] = len(due)
                earliest_ms = min(earliest_ms, *due.values())
        return Overdue(lanes, now_ms - earliest_ms)

    def _head(self, group: str, turns: "Turns", now_ms: int, waits: Waits) -> Head | None:
        """Return the lane whose turn it is in a group, lanes without a turn first; None if nothing is due."""
        queued = self._groups[group]
        while queued and queued[0][0] <= now_ms:
            due_ms, key, lane = queued[0]
            keys = self._lanes.get(lane)
            first = keys is not None and keys[0] == (due_ms, key) and lane not in turns.lanes
            if first and waits(lane, due_ms, key):
                return 0, due_ms, key, lane
            heapq.heappop(queued)
            if first:
                self._drop_gone(lane, waits)
                if lane in self._lanes:
                    self._queue(lane)
        return turns.heads[0] if turns.heads else None

    def _queue(self, lane: str) -> None:
        """Queue a lane in its group by its first key."""
        heapq.heappush(self._groups.setdefault(lane.partition("/")[0], []), (*self._lanes[lane][0], lane))

    def _drop_gone(self, lane: str, waits: Waits) -> None:
        """Drop the keys at the front of a lane that no longer wait."""
        while lane in self._lanes and not waits(lane, *self._lanes[lane][0]):
            self._drop_first(lane)

    def _drop_first(self, lane: str) -> None:
        keys = self._lanes[lane]
        heapq.heappop(keys)
        self._count -= 1
        if not keys:
            del self._lanes[lane]


class Turns:
    """The lanes of a group that had a turn, and those among them with due work."""

    def __init__(self) -> None:
        self.lanes: set[str] = set()
        self.heads: list[Head] = []

    def taken(self, lane: str, turns: int, keys: list[tuple[int, str]] | None, now_ms: int) -> None:
        """Record the turn of a lane in which `keys` wait."""
        if turns > 1:
            heapq.heappop(self.heads)
        self.lanes.add(lane)
        if keys is not None and keys[0][0] <= now_ms:
            heapq.heappush(self.heads, (turns, *keys[0], lane))


def given_up(held: Mapping[str, list[tuple[int, str]]], excess: int) -> list[str]:
    """Return the `excess` keys to evict, given the time of last use by lane and key: the largest lanes evict first.

    A lane evicts its longest unused keys. Among lanes of equal size the longest unused key of all goes, ties by key.
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
    """Return the size to which the largest lanes shrink together, and how many of them shrink by one more."""
    falling = [*sorted(counts, reverse=True), 0]
    for lanes, (count, following) in enumerate(pairwise(falling), 1):
        if excess <= (count - following) * lanes:
            shrink, rest = divmod(excess, lanes)
            return count - shrink, rest
        excess -= (count - following) * lanes
    return 0, 0


FLOOD_MIN = 500  # keys of one lane that wait


def flood(waiting: Mapping[str, int]) -> str | None:
    """Return a text that names the lane with more waiting keys than all others together, if there are many."""
    longest = max(waiting, key=lambda lane: (waiting[lane], lane), default=None)
    if longest is None or waiting[longest] < FLOOD_MIN or 2 * waiting[longest] <= sum(waiting.values()):
        return None
    system, *whose = (unquote(part) for part in longest.split("/"))
    return f"{' '.join(whose)} of {system}" if whose else f"system {system}"


@lru_cache(maxsize=REMEMBERED)
def lane_of_user(system: str, user: str | None) -> str:
    """Return the lane of a user; work without a user belongs to the lane of its system."""
    return f"{escaped(system)}/user/{escaped(user)}" if user else escaped(system)


def lane_of_application(application_id: str) -> str:
    """Return the lane that all inputs of an application share if several users run it."""
    system, application, *_ = application_id.split("/")
    return f"{system}/application/{application}"


@lru_cache(maxsize=REMEMBERED)
def lane_of_run(application_id: str, user: str | None, before: str | None) -> str:
    """Return the lane of an application after a run of a user; `before` is its former lane, None for the first run.

    The lane is the user's until another user runs the application.
    """
    system = application_id.partition("/")[0]
    lane = f"{system}/user/{escaped(user)}" if user else system
    return lane if before in (None, lane) else lane_of_application(application_id)
