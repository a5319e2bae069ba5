"""Shelves: the processors of one kind, kept by key, decoded on first use, dirty until a checkpoint is confirmed."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from processors.contracts.errors import ConfigError
from processors.fairness import FairQueue, Overdue, given_up

REMEMBERED = 8192  # the digests of one run and of its application are asked for a dozen times in a row


@lru_cache(maxsize=REMEMBERED)
def digest64(*parts: str) -> int:
    """Return 64 bits that stand for the parts."""
    return _digest(parts)


def hexdigest(*parts: str) -> str:
    """Return 16 hexadecimal digits that stand for the parts, for ids and fingerprints; each is asked for once."""
    return f"{_digest(parts):016x}"


def _digest(parts: Iterable[str]) -> int:
    text = "\x1f".join(parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


# How much is done between two ticks, and at one: it follows from the journal, and so is the same in a replay.
# At a quick pace some runs tell as much as all, and cost less to score.

FULL_TICK_MS: Final = 10_000
FIT_COST_MAX: Final = 60  # of the steps of fits in ten seconds, of all applications: about as many milliseconds
FIT_COST_GRAIN_MS: Final = 1_000  # one step may cost what is allowed in a second

RateLimit = tuple[int, int]  # the time of the last tick in ms, and how many runs were scored since


def due(rate: RateLimit, now_ms: int, most: int) -> bool:
    """Return whether one more run is to be scored before the next tick."""
    return rate[0] != now_ms or rate[1] < most


def counted(rate: RateLimit, now_ms: int) -> RateLimit:
    """Return the pace with one more run scored."""
    return now_ms, (rate[1] if rate[0] == now_ms else 0) + 1


def share(most: int, now_ms: int, since_ms: int, grain_ms: int = 1) -> int:
    """Return how much may be done at a tick, where in ten seconds it is at most so much; `since_ms` is since the last tick.

    Frequent ticks have their share each, so that none holds the fold for long. It is counted by the time of day, so that ticks
    of any length have as much in ten seconds: shares that were rounded up gave five short ticks five times that of a long one.
    What comes in parts that may cost more than the share of a short tick is shared out at each `grain_ms`.
    """
    before_ms = now_ms - min(since_ms, FULL_TICK_MS)
    return _allowed(most, now_ms, grain_ms) - _allowed(most, before_ms, grain_ms)


def _allowed(most: int, time_ms: int, grain_ms: int) -> int:
    """Return how much may have been done from the beginning of time on."""
    return most * (time_ms - time_ms % grain_ms) // FULL_TICK_MS


Fact = TypeVar("Fact", contravariant=True)
Finding = TypeVar("Finding", covariant=True)


class Processor(Protocol[Fact, Finding]):
    """A pure component about one thing (an application, a job, a host, an alert).

    `name` is the prefix of its state's keys; `version` numbers the form of its state. Its class has a `build`
    that takes settings and a state, or None for a new one, and `snapshot` returns a copy that `build` takes back.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def score(self, fact: Fact) -> Finding:
        """Judge a fact by what was known before it; changes nothing and works before any learning."""

    def learn(self, fact: Fact) -> None:
        """Take a fact in, wholly or (where it raises) not at all; a repeat changes nothing."""

    def due_ms(self) -> int | None:
        """Return when it next wants a tick; None while it only waits for facts."""

    def snapshot(self) -> msgspec.Struct:
        """Return the state as plain data, a copy."""


class Untimed:
    """A processor that changes by facts alone: it never wants a tick."""

    def due_ms(self) -> int | None:
        """Return None: it waits for facts."""
        return None


P = TypeVar("P", bound=Processor[Any, Any])
STALE_MAX = 1000  # entries of the queue of times that nothing waits for any more, besides one for each key


Data = TypeVar("Data", bound=msgspec.Raw | msgspec.Struct)


class Envelope(msgspec.Struct, Generic[Data], frozen=True, omit_defaults=True):
    """How a state is stored. What the store needs stands outside of `data`, so that a restore need not decode it."""

    version: int
    used_ms: int
    due_ms: int | None
    data: Data
    lane: str = ""


Encoded = Envelope[msgspec.Raw]


class Kind(msgspec.Struct, Generic[P], frozen=True):
    """What a store has to know of its processors. State of another version than `version` is rebuilt from settled runs."""

    name: str
    version: int
    state: type[msgspec.Struct]
    build: Callable[[Any], P]


class Entry(Generic[P]):
    """One key's place: the processor, or its encoded state until it is used; `stored` if a checkpoint may hold it."""

    __slots__ = ("due_ms", "lane", "processor", "raw", "stored", "used_ms")

    def __init__(self, raw: bytes | None, used_ms: int, due_ms: int | None, lane: str, *, stored: bool) -> None:
        self.processor: P | None = None
        self.raw, self.used_ms, self.due_ms, self.lane, self.stored = raw, used_ms, due_ms, lane, stored


class Store(Generic[P]):
    """Processors of one kind by key.

    A processor that was changed has to be reported with `changed`. Everything that a restore rebuilds is a function of
    the stored states, so that a restored store behaves like one that never stopped. Each key is in a lane, by default
    all in one: when keys are due lanes take turns, and where there are too many the longest lane gives up its own first.
    """

    def __init__(self, kind: Kind[P], live_max: int = 5000) -> None:
        self.kind = kind
        self.changes = 0  # the version of all states together: a cache of something derived from them has it in its key
        self._live_max = live_max
        self._entries: dict[str, Entry[P]] = {}
        self._live: dict[str, None] = {}
        self._due = FairQueue()
        self._dirty: dict[str, None] = {}
        self._saving: dict[str, None] = {}
        self._unencoded: dict[
            str, None
        ] = {}  # of those, what `get`, `open` and `remove` have to encode before anybody can change it
        self._encoded: dict[str, bytes | None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def keys(self) -> Iterator[str]:
        """Return all keys, in the order of their creation."""
        return iter(self._entries)

    def restore(self, key: str, value: bytes) -> None:
        """Put an encoded state back; ConfigError where this agent cannot read it."""
        envelope = self._readable(key, value)
        self.changes += 1
        self._entries[key] = Entry(value, envelope.used_ms, envelope.due_ms, envelope.lane, stored=True)
        self._schedule(key, envelope.due_ms, envelope.lane)

    def get(self, key: str) -> P | None:
        """Return the processor of a key, or None."""
        if key in self._unencoded:
            self._encode(key)
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.processor is not None and len(self._entries) <= self._live_max:
            return entry.processor  # all may stay decoded: no order of use to keep
        return self._processor(key, entry)

    def open(self, key: str) -> P:
        """Return the processor of a key; a new one where there is none (kept only once it is told `changed`)."""
        found = self.get(key)
        return self.kind.build(None) if found is None else found

    def changed(self, key: str, processor: P, now_ms: int, lane: str | None = None) -> None:
        """Take in a processor that is new or was changed; without a lane it stays in that where it is."""
        entry = self._entries.get(key)
        due_ms = processor.due_ms()
        self.changes += 1
        if entry is None:
            stored = key in self._dirty or key in self._saving
            self._entries[key] = entry = Entry(None, now_ms, None, lane or "", stored=stored)
        entry.processor, entry.raw, entry.used_ms = processor, None, now_ms
        self._live[key] = self._dirty[key] = None
        if lane is None:
            lane = entry.lane
        if due_ms != entry.due_ms or lane != entry.lane:
            entry.due_ms, entry.lane = due_ms, lane
            self._schedule(key, due_ms, lane)

    def lane(self, key: str) -> str | None:
        """Return the lane of a key; None where the key is not there."""
        entry = self._entries.get(key)
        return entry.lane if entry is not None else None

    def remove(self, key: str) -> None:
        """Forget a key; one that no checkpoint has seen leaves nothing to write."""
        if key in self._unencoded:
            self._encode(key)
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.changes += 1
        self._live.pop(key, None)
        if entry.stored or key in self._saving:
            self._dirty[key] = None
        else:
            self._dirty.pop(key, None)

    def due(self, now_ms: int, limit: int, of_group_max: float = math.inf) -> list[str]:
        """Return keys whose time has come: of each lane in turn the longest overdue first, ties by key.

        They are at most `limit`, and at most `of_group_max` of a group of lanes.
        """
        found = self._due.take(now_ms, limit, self._waits, of_group_max)
        for key in found:
            self._entries[key].due_ms = None
        return found

    def overdue(self, now_ms: int) -> Overdue:
        """Return how many keys are due in each lane, and for how long; it follows from the stored states."""
        return self._due.overdue(now_ms, self._waits)

    def excess(self, most: int, stale_ms: int = 0) -> list[str]:
        """Return the keys to remove so that `most` are left.

        Keys last used before `stale_ms` go first, then keys of the longest lanes: in both cases the longest unused ones,
        ties by key.
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
        """Return the state of a key as it would be stored, None where it is gone."""
        entry = self._entries.get(key)
        if entry is None or entry.processor is None:
            return entry.raw if entry else None
        data, due_ms = entry.processor.snapshot(), entry.processor.due_ms()
        return msgspec.json.encode(Envelope(self.kind.version, entry.used_ms, due_ms, data, entry.lane))

    def begin_saving(self) -> None:
        """Make what is dirty now that which the next checkpoint has to write; it stays so until `confirm`."""
        self._saving.update(self._dirty)
        self._dirty.clear()
        self._unencoded = dict(self._saving)
        self._encoded.clear()

    def encode_next(self, most: int) -> int:
        """Encode at most so many states of those that are saved, as they were when that began; return how many it was.

        Then give the memory of processors long unused back, whose states are encoded for that.
        """
        chosen = list(itertools.islice(self._unencoded, most))
        for key in chosen:
            self._encode(key)
        excess = 0 if self._unencoded else min(most - len(chosen), len(self._live) - self._live_max)
        for key in list(itertools.islice(self._live, max(0, excess))):
            self._put_to_rest(key)
        return len(chosen) + max(0, excess)

    def saving(self) -> dict[str, bytes | None]:
        """Return what the checkpoint has to write, once all of it was encoded."""
        found, self._encoded = self._encoded, {}
        return found

    def confirm(self) -> None:
        """Record that the checkpoint of `saving` is durable; give memory of processors long unused back."""
        for key in self._saving:
            if key in self._entries:
                self._entries[key].stored = True
        self._saving.clear()

    def _put_to_rest(self, key: str) -> None:
        """Keep a state encoded; one that was not changed since it was encoded for the checkpoint is that."""
        entry = self._entries[key]
        encoded = None if key in self._dirty else self._encoded.get(key)
        entry.raw, entry.processor = encoded or self.encode(key), None
        del self._live[key]

    def _encode(self, key: str) -> None:
        del self._unencoded[key]
        self._encoded[key] = self.encode(key)

    def _readable(self, key: str, value: bytes) -> Encoded:
        what = f"The stored state {self.kind.name}/{key}"
        try:
            envelope = msgspec.json.decode(value, type=Encoded)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{what} is damaged ({error}): run `scalewatch rebuild`.") from error
        if envelope.version > self.kind.version:
            raise ConfigError(
                f"{what} was written by a newer agent, in version {envelope.version} where this one knows "
                f"{self.kind.version}: start that agent again, or run `scalewatch rebuild`."
            )
        if envelope.version < self.kind.version:
            raise ConfigError(f"{what} has version {envelope.version}, which is too old: run `scalewatch rebuild`.")
        return envelope

    def _processor(self, key: str, entry: Entry[P]) -> P:
        if entry.processor is None:
            entry.processor, entry.raw = self.kind.build(self._decode(entry.raw or b"")), None
            self._live[key] = None
        elif len(self._entries) > self._live_max:
            self._live[key] = self._live.pop(key, None)
        return entry.processor

    def _decode(self, value: bytes) -> msgspec.Struct:
        envelope = msgspec.json.decode(value, type=Encoded)
        return msgspec.json.decode(envelope.data, type=self.kind.state)

    def _waits(self, lane: str, due_ms: int, key: str) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.due_ms == due_ms and entry.lane == lane

    def _schedule(self, key: str, due_ms: int | None, lane: str) -> None:
        if due_ms is None:
            return
        self._due.put(lane, due_ms, key)
        if len(self._due) > 2 * len(self._entries) + STALE_MAX:
            entries = self._entries.items()
            self._due.replace((entry.lane, entry.due_ms, key) for key, entry in entries if entry.due_ms is not None)


Rows = Callable[[], dict[str, bytes | None]]
AT_ONCE: Final = 1_000


def no_rows() -> dict[str, bytes | None]:
    """Return no states."""
    return {}


class Unsaved:
    """What a checkpoint has to write of some stores, as it is now: encoded some at a time while the fold goes on.

    All at once, the states of 10,000 applications that had changed held the fold for more than a second. A state is encoded
    at the latest when somebody asks for its processor, who may change it. `rows` makes states of what was copied, such as
    the rows of hosts.
    """

    def __init__(self, stores: Sequence[Store[Any]], rows: Rows = no_rows) -> None:
        self._stores, self._rows = stores, rows
        self._left = list(stores)
        for store in stores:
            store.begin_saving()

    def encode(self, most: int) -> bool:
        """Encode at most so many states; return whether any are left."""
        while self._left and (most := most - self._left[-1].encode_next(most)) > 0:
            self._left.pop()
        return bool(self._left)

    def states(self) -> dict[str, bytes | None]:
        """Return every state by `kind/key`, None where it is gone; encodes what is left, and is asked once.

        Once nothing is left, any thread may ask.
        """
        while self.encode(AT_ONCE):
            pass
        found = {f"{store.kind.name}/{key}": value for store in self._stores for key, value in store.saving().items()}
        return found | self._rows()
