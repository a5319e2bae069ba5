"""Stores of processors by key. States are decoded at first use; changed states stay dirty until a checkpoint is confirmed."""

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import pairwise
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import msgspec

from processors.contracts.errors import ConfigError

REMEMBERED = 8192  # cached hashes: those of a run and its application are needed a dozen times in a row


@lru_cache(maxsize=REMEMBERED)
def digest64(*parts: str) -> int:
    """Return a 64-bit hash of the parts. Recent results are cached."""
    return _digest(parts)


def hexdigest(*parts: str) -> str:
    """Return a hash of the parts as 16 hexadecimal digits, for ids and fingerprints; not cached."""
    return f"{_digest(parts):016x}"


def _digest(parts: Iterable[str]) -> int:
    text = "\x1f".join(parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


# Limits on the work at a tick and between two ticks. They depend only on the journal, so a replay does the same work.
# If runs end at a high rate, scoring some of them shows as much as scoring all, and costs less.

FULL_TICK_MS: Final = 10_000
FIT_COST_MAX: Final = 60  # most cost of the fits of all applications in ten seconds; a unit is about a millisecond
FIT_COST_GRAIN_MS: Final = 1_000  # one step may use the budget of a second

RateLimit = tuple[int, int]  # time of the last tick in ms, and number of runs scored since then


def due(rate: RateLimit, now_ms: int, most: int) -> bool:
    """Return whether the limit of `most` runs per tick still allows scoring one more run."""
    return rate[0] != now_ms or rate[1] < most


def counted(rate: RateLimit, now_ms: int) -> RateLimit:
    return now_ms, (rate[1] if rate[0] == now_ms else 0) + 1


def share(most: int, now_ms: int, since_ms: int, grain_ms: int = 1) -> int:
    """Return the amount of work allowed at the tick at `now_ms`, given a budget of `most` per ten seconds.

    `since_ms` is the time since the previous tick; the longer it is, the larger the share, so that frequent ticks do not block
    the fold for long. The share is the difference of two cumulative amounts, so ticks of any length add up to the same amount in
    ten seconds: rounded-up shares once gave five short ticks five times the work of a long tick. If one unit of work may cost
    more than the share of a short tick, pass a larger `grain_ms`: work is then allowed only once every `grain_ms`.
    """
    before_ms = now_ms - min(since_ms, FULL_TICK_MS)
    return _allowed(most, now_ms, grain_ms) - _allowed(most, before_ms, grain_ms)


def _allowed(most: int, time_ms: int, grain_ms: int) -> int:
    """Return the cumulative amount of work allowed from time zero to `time_ms`."""
    return most * (time_ms - time_ms % grain_ms) // FULL_TICK_MS


Fact = TypeVar("Fact", contravariant=True)
Finding = TypeVar("Finding", covariant=True)


class Processor(Protocol[Fact, Finding]):
    """A deterministic component that learns about one subject: an application, a job, a host or an alert.

    `name` is the prefix of the keys of its state, and `version` the version of the format of the state. The constructor takes
    settings and a state as `snapshot` returns it.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def score(self, fact: Fact) -> Finding:
        """Score a fact against the state before the fact. The state does not change. A new processor can score as well."""

    def learn(self, fact: Fact) -> None:
        """Learn a fact. If this method raises, the state is unchanged. A repeated fact changes nothing."""

    def due_ms(self) -> int | None:
        """Return the time of the next tick that the processor needs; None if it changes only by facts."""

    def snapshot(self) -> msgspec.Struct:
        """Return a copy of the state as plain data."""


class Untimed:
    """A processor that changes only by facts and never needs a tick."""

    def due_ms(self) -> int | None:
        return None


class PlainProcessor(msgspec.Struct):
    """A processor whose fields are its stored form. A PlainProcessor changes only by facts, unless it overrides `due_ms`."""

    def due_ms(self) -> int | None:
        return None

    def snapshot(self) -> Self:
        return msgspec.structs.replace(self)


P = TypeVar("P", bound=Processor[Any, Any])
STALE_MAX = 1000  # most outdated entries in the queue, in addition to one entry for each key


Data = TypeVar("Data", bound=msgspec.Raw | msgspec.Struct)


Head = tuple[int, int, str, str]  # turns taken, due time, key, lane
Turns = tuple[set[str], list[Head]]
"""The lanes of a group that had a turn during one call of `take`, and the first keys of these lanes that are due."""
Waits = Callable[[str, int, str], bool]


class Overdue(NamedTuple):
    """Overdue work: number of keys in each lane, and the longest wait in ms."""

    lanes: Counter[str]
    longest_ms: int


class FairQueue:
    """Keys by due time, in lanes. Each lane belongs to a group, which orders its lanes by the due time of their first key.

    Only lanes with due keys are looked at, so each application can have its own lane without extra cost.
    """

    def __init__(self) -> None:
        self.next_ms: float = math.inf  # no key is due before this time
        self._lanes: dict[str, list[tuple[int, str]]] = {}
        # due time, key and lane; the key was the first of its lane when it was queued
        self._groups: dict[str, list[tuple[int, str, str]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, lane: str, due_ms: int, key: str) -> None:
        keys = self._lanes.setdefault(lane, [])
        heapq.heappush(keys, (due_ms, key))
        self._count += 1
        self.next_ms = min(self.next_ms, due_ms)
        if keys[0] == (due_ms, key):
            self._queue(lane)

    def replace(self, waiting: Iterable[tuple[str, int, str]]) -> None:
        self._lanes.clear()
        self._groups.clear()
        self._count, self.next_ms = 0, math.inf
        for lane, due_ms, key in waiting:
            self.put(lane, due_ms, key)

    def take(self, now_ms: int, limit: int, waits: Waits, of_group_max: float = math.inf) -> list[str]:
        """Remove and return at most `limit` due keys, and at most `of_group_max` of each group. Drop keys for which `waits` is False.

        Groups take turns, and so do the lanes of a group. If turns are equal, the longest overdue key comes first, ties by key.
        """
        due_keys: dict[str, None] = {}

        def stands(lane: str, due_ms: int, key: str) -> bool:
            # a due time that was postponed and moved back is queued twice
            return key not in due_keys and waits(lane, due_ms, key)

        turns: dict[str, Turns] = {group: (set(), []) for group in self._groups}
        first = ((group, self._head(group, turns[group], now_ms, stands)) for group in turns)
        order = [(0, *head[:3], group) for group, head in first if head is not None]
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
            lanes, heads = turns[group]
            if turns_taken:
                heapq.heappop(heads)
            lanes.add(lane)
            if lane in self._lanes and self._lanes[lane][0][0] <= now_ms:
                heapq.heappush(heads, (turns_taken + 1, *self._lanes[lane][0], lane))
            following = self._head(group, turns[group], now_ms, stands) if had + 1 < of_group_max else None
            if following is not None:
                heapq.heappush(order, (had + 1, *following[:3], group))
        for lanes, _ in turns.values():
            for lane in lanes & self._lanes.keys():
                self._queue(lane)
        self.next_ms = min((queued[0][0] for queued in self._groups.values() if queued), default=math.inf)
        return list(due_keys)

    def overdue(self, now_ms: int, waits: Waits) -> Overdue:
        """Count the due keys for which `waits` is True."""
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

    def _head(self, group: str, turns: Turns, now_ms: int, waits: Waits) -> Head | None:
        """Return the next due key of a group, from a lane without a turn or else from the lane with the fewest turns; None if no key is due."""
        queued, (lanes, heads) = self._groups[group], turns
        while queued and queued[0][0] <= now_ms:
            due_ms, key, lane = queued[0]
            keys = self._lanes.get(lane)
            first = keys is not None and keys[0] == (due_ms, key) and lane not in lanes
            if first and waits(lane, due_ms, key):
                return 0, due_ms, key, lane
            heapq.heappop(queued)
            if first:
                self._drop_gone(lane, waits)
                if lane in self._lanes:
                    self._queue(lane)
        return heads[0] if heads else None

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


def given_up(held: Mapping[str, list[tuple[int, str]]], excess: int) -> list[str]:
    """Return the `excess` keys to evict. `held` has the keys of each lane, as (last use, key).

    Keys are taken from the largest lanes, until these are no larger than the others; from a lane, the longest unused keys. Between
    lanes of equal size, the longest unused key of all is taken, ties by key.
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
    """Return the size to which the largest lanes shrink, and the number of lanes that shrink by one more key."""
    for lanes, (count, following) in enumerate(pairwise([*sorted(counts, reverse=True), 0]), 1):
        if excess <= (count - following) * lanes:
            shrink, rest = divmod(excess, lanes)
            return count - shrink, rest
        excess -= (count - following) * lanes
    return 0, 0


class StoredState(msgspec.Struct, Generic[Data], frozen=True, omit_defaults=True):
    """The stored form of a state. The fields other than `data` let the store restore its indexes without decoding `data`."""

    version: int
    used_ms: int
    due_ms: int | None
    data: Data
    lane: str = ""


Encoded = StoredState[msgspec.Raw]


class Kind(msgspec.Struct, Generic[P], frozen=True):
    """What a store needs to know about its kind of processor. A stored state of another version is rebuilt from settled runs."""

    name: str
    version: int
    state: type[msgspec.Struct]
    build: Callable[[Any], P]

    @classmethod
    def of(cls, processor: type[P], state: type[msgspec.Struct] | None, settings: Sequence[object]) -> "Kind[P]":
        """Return the description of a class of processors; `state` is None if the class is its own stored form."""
        build: Any = processor.snapshot if state is None else partial(processor, *settings)
        return cls(processor.name, processor.version, state or cast("type[msgspec.Struct]", processor), build)


class Entry(Generic[P]):
    """The processor of a key, or its encoded state before first use; `stored` is True if a checkpoint may hold the state."""

    __slots__ = ("due_ms", "lane", "processor", "raw", "stored", "used_ms")

    def __init__(self, raw: bytes | None, used_ms: int, due_ms: int | None, lane: str, *, stored: bool) -> None:
        self.processor: P | None = None
        self.raw, self.used_ms, self.due_ms, self.lane, self.stored = raw, used_ms, due_ms, lane, stored


UNBOUNDED: Final = 2**62


class Store(Generic[P]):
    """The processors of one kind, by key.

    The caller must report each changed processor with `changed`. A restore rebuilds all indexes from the stored states, so a
    restored store behaves like a store that never stopped. Each key belongs to a lane; by default all keys share one lane. Lanes
    with due keys take turns. If there are more keys than `bound`, the largest lane evicts its keys first.

    A tick skips a store that is not `overfull` and whose `next_due_ms` has not come yet.
    """

    def __init__(self, kind: Kind[P], live_max: int = 5000, bound: int = UNBOUNDED) -> None:
        self.kind = kind
        self.bound = bound
        self.overfull = False
        self.next_due_ms: float = math.inf
        self.changes = 0  # version of all states together, for the keys of caches that derive from states
        self._live_max = live_max
        self._entries: dict[str, Entry[P]] = {}
        self._live: dict[str, None] = {}
        self._due = FairQueue()
        self._dirty: dict[str, None] = {}
        self._saving: dict[str, None] = {}
        # part of `_saving` that `get`, `open` and `remove` must encode before a caller can change it
        self._unencoded: dict[str, None] = {}
        self._encoded: dict[str, bytes | None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def keys(self) -> Iterator[str]:
        return iter(self._entries)

    def restore(self, key: str, value: bytes) -> None:
        """Restore an encoded state. Raise ConfigError if this agent cannot read the state."""
        envelope = self._readable(key, value)
        self.changes += 1
        self._entries[key] = Entry(value, envelope.used_ms, envelope.due_ms, envelope.lane, stored=True)
        self.overfull = len(self._entries) > self.bound
        self._schedule(key, envelope.due_ms, envelope.lane)

    def get(self, key: str) -> P | None:
        if key in self._unencoded:
            self._encode(key)
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.processor is not None and len(self._entries) <= self._live_max:
            return entry.processor  # without a limit on decoded processors, the order of use does not matter
        return self._processor(key, entry)

    def open(self, key: str) -> P:
        """Return the processor of a key. For an unknown key, return a new processor, which is stored only by a call of `changed`."""
        processor = self.get(key)
        return self.kind.build(self.kind.state()) if processor is None else processor

    def changed(self, key: str, processor: P, now_ms: int, lane: str | None = None) -> None:
        """Store a new or changed processor; if `lane` is None, the key keeps its lane."""
        entry = self._entries.get(key)
        due_ms = processor.due_ms()
        self.changes += 1
        if entry is None:
            stored = key in self._dirty or key in self._saving
            self._entries[key] = entry = Entry(None, now_ms, None, lane or "", stored=stored)
            self.overfull = len(self._entries) > self.bound
        entry.processor, entry.raw, entry.used_ms = processor, None, now_ms
        self._live[key] = self._dirty[key] = None
        if lane is None:
            lane = entry.lane
        if due_ms != entry.due_ms or lane != entry.lane:
            entry.due_ms, entry.lane = due_ms, lane
            self._schedule(key, due_ms, lane)

    def learn(self, key: str, fact: Any, now_ms: int) -> None:
        """Let the processor of a key, or a new processor, learn a fact."""
        processor = self.open(key)
        processor.learn(fact)
        self.changed(key, processor, now_ms)

    def lane(self, key: str) -> str | None:
        entry = self._entries.get(key)
        return entry.lane if entry is not None else None

    def remove(self, key: str) -> None:
        """Remove a key. A checkpoint deletes its state only if the state was stored before."""
        if key in self._unencoded:
            self._encode(key)
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.changes += 1
        self.overfull = len(self._entries) > self.bound
        self._live.pop(key, None)
        if entry.stored or key in self._saving:
            self._dirty[key] = None
        else:
            self._dirty.pop(key, None)

    def due(self, now_ms: int, limit: int, of_group_max: float = math.inf) -> list[str]:
        """Remove and return due keys. Lanes take turns, and the longest overdue key of a lane comes first, ties by key.

        The result has at most `limit` keys, and at most `of_group_max` of each group of lanes.
        """
        due = self._due.take(now_ms, limit, self._waits, of_group_max)
        self.next_due_ms = self._due.next_ms
        for key in due:
            self._entries[key].due_ms = None
        return due

    def forget_due(self, now_ms: int, limit: int) -> None:
        """Remove at most `limit` due keys, for processors whose due time is the end of their use."""
        for key in self.due(now_ms, limit):
            self.remove(key)

    def overdue(self, now_ms: int) -> Overdue:
        """Return the number of due keys of each lane, and the longest wait. Both depend only on the stored states."""
        return self._due.overdue(now_ms, self._waits)

    def excess(self, most: int, stale_ms: int = 0) -> list[str]:
        """Return the keys to remove so that at most `most` keys are left.

        Keys last used before `stale_ms` go first, then keys of the largest lanes. In both cases the longest unused keys go
        first, ties by key.
        """
        excess = len(self._entries) - most
        if excess <= 0:
            return []
        unused = [(entry.used_ms, key) for key, entry in self._entries.items() if entry.used_ms < stale_ms]
        gone = [key for _, key in heapq.nsmallest(excess, unused)]
        if len(gone) == excess:
            return gone
        held: dict[str, list[tuple[int, str]]] = {}
        for key, entry in self._entries.items():
            if entry.used_ms >= stale_ms:
                held.setdefault(entry.lane, []).append((entry.used_ms, key))
        return gone + given_up(held, excess - len(gone))

    def encode(self, key: str) -> bytes | None:
        """Return the encoded state of a key; None if the key was removed."""
        entry = self._entries.get(key)
        if entry is None or entry.processor is None:
            return entry.raw if entry else None
        data, due_ms = entry.processor.snapshot(), entry.processor.due_ms()
        return msgspec.json.encode(StoredState(self.kind.version, entry.used_ms, due_ms, data, entry.lane))

    def begin_saving(self) -> None:
        """Select all dirty keys for the next checkpoint; they stay dirty until `confirm`."""
        self._saving.update(self._dirty)
        self._dirty.clear()
        self._unencoded = dict(self._saving)
        self._encoded.clear()

    def encode_next(self, most: int) -> int:
        """Encode at most `most` states for the checkpoint, unchanged since `begin_saving`; return the number of encoded states.

        If no state is left to encode, encode processors that were unused for long instead, to free their memory.
        """
        chosen = list(itertools.islice(self._unencoded, most))
        for key in chosen:
            self._encode(key)
        excess = 0 if self._unencoded else min(most - len(chosen), len(self._live) - self._live_max)
        for key in list(itertools.islice(self._live, max(0, excess))):
            self._put_to_rest(key)
        return len(chosen) + max(0, excess)

    def saving(self) -> dict[str, bytes | None]:
        """Return the states that the checkpoint must write. All states must be encoded before."""
        states, self._encoded = self._encoded, {}
        return states

    def confirm(self) -> None:
        """Record that the checkpoint with the states of `saving` is durable, and free the memory of processors unused for long."""
        for key in self._saving:
            if key in self._entries:
                self._entries[key].stored = True
        self._saving.clear()

    def _put_to_rest(self, key: str) -> None:
        """Replace a processor by its encoded state. Reuse the bytes of the checkpoint if the processor has not changed since."""
        entry = self._entries[key]
        encoded = None if key in self._dirty else self._encoded.get(key)
        entry.raw, entry.processor = encoded or self.encode(key), None
        del self._live[key]

    def _encode(self, key: str) -> None:
        del self._unencoded[key]
        self._encoded[key] = self.encode(key)

    def _readable(self, key: str, value: bytes) -> Encoded:
        title = f"The stored state {self.kind.name}/{key}"
        try:
            envelope = msgspec.json.decode(value, type=Encoded)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{title} is damaged ({error}): run `scalewatch rebuild`.") from error
        if envelope.version > self.kind.version:
            raise ConfigError(
                f"{title} was written by a newer agent, in version {envelope.version} where this one knows "
                f"{self.kind.version}: start that agent again, or run `scalewatch rebuild`."
            )
        if envelope.version < self.kind.version:
            raise ConfigError(f"{title} has version {envelope.version}, which is too old: run `scalewatch rebuild`.")
        return envelope

    def _processor(self, key: str, entry: Entry[P]) -> P:
        if entry.processor is None:
            envelope = msgspec.json.decode(entry.raw or b"", type=Encoded)
            state = msgspec.json.decode(envelope.data, type=self.kind.state)
            entry.processor, entry.raw = self.kind.build(state), None
            self._live[key] = None
        elif len(self._entries) > self._live_max:
            self._live[key] = self._live.pop(key, None)
        return entry.processor

    def _waits(self, lane: str, due_ms: int, key: str) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.due_ms == due_ms and entry.lane == lane

    def _schedule(self, key: str, due_ms: int | None, lane: str) -> None:
        if due_ms is None:
            return
        self._due.put(lane, due_ms, key)
        self.next_due_ms = self._due.next_ms
        if len(self._due) > 2 * len(self._entries) + STALE_MAX:
            entries = self._entries.items()
            self._due.replace((entry.lane, entry.due_ms, key) for key, entry in entries if entry.due_ms is not None)


def go_on() -> None:
    """Do nothing: the default callback of callers that need not give way to other work."""


Rows = Callable[[], dict[str, bytes | None]]
AT_ONCE: Final = 1_000


class Unsaved:
    """The states of some stores for a checkpoint: a snapshot that is encoded in small parts while the fold continues.

    Encoding 10,000 changed applications at once blocked the fold for more than a second. A state is encoded before a caller gets
    its processor, because the caller may change the processor. `rows` makes states from copied data, such as the rows of hosts.
    """

    def __init__(self, stores: Sequence[Store[Any]], rows: Rows = dict) -> None:
        self._stores, self._rows = stores, rows
        self._left = list(stores)
        for store in stores:
            store.begin_saving()

    def encode(self, most: int) -> bool:
        """Encode at most `most` states; return whether any are left."""
        while self._left and (most := most - self._left[-1].encode_next(most)) > 0:
            self._left.pop()
        return bool(self._left)

    def states(self) -> dict[str, bytes | None]:
        """Return all states by `kind/key`, None for a removed key. The remaining states are encoded first. Call this only once.

        Any thread may call this method when no state is left to encode.
        """
        while self.encode(AT_ONCE):
            pass
        states = {f"{store.kind.name}/{key}": value for store in self._stores for key, value in store.saving().items()}
        return states | self._rows()
