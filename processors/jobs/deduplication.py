"""The memory of seen runs: which runs were counted, where, and as what; bounded by dropping the oldest buckets.

A run that starts before everything that is still remembered cannot be told from a repeat and is refused, so nothing
is ever counted twice. Per run 20 bytes are kept.
"""

import struct
from functools import lru_cache
from typing import ClassVar

import msgspec

from processors.store import Untimed, digest64

MINUTE_MS = 60_000
KEEP_MS = 10 * MINUTE_MS
REQUESTS_MAX = 30_000  # of one minute; keeps the stored form well below a broker's limit on records


class AnsweredRequestsState(msgspec.Struct):
    """Stored form: digests of the requests of one minute, and when they may be forgotten."""

    requests: list[int] = []
    keep_until_ms: int = 0


class AnsweredRequests:
    """The requests that were answered within one minute."""

    name: ClassVar[str] = "answered_requests"
    version: ClassVar[int] = 1

    def __init__(self, requests: dict[int, None], keep_until_ms: int) -> None:
        self._requests = requests
        self._keep_until_ms = keep_until_ms

    @classmethod
    def build(cls, state: AnsweredRequestsState | None = None) -> "AnsweredRequests":
        """Return the minute of a stored state, or an empty one."""
        return cls(dict.fromkeys(state.requests), state.keep_until_ms) if state else cls({}, 0)

    def score(self, fact: str) -> bool:
        """Return whether a request was answered."""
        return digest64(fact) in self._requests

    def learn(self, fact: tuple[str, int]) -> None:
        """Note that a request was answered at a time; the oldest is forgotten where there are too many."""
        identity, now_ms = fact
        request = digest64(identity)
        if request not in self._requests and len(self._requests) >= REQUESTS_MAX:
            del self._requests[next(iter(self._requests))]
        self._requests[request] = None
        self._keep_until_ms = now_ms - now_ms % MINUTE_MS + MINUTE_MS + KEEP_MS

    def due_ms(self) -> int | None:
        """Return when the minute may be forgotten."""
        return self._keep_until_ms

    def snapshot(self) -> AnsweredRequestsState:
        """Return the stored form."""
        return AnsweredRequestsState(list(self._requests), self._keep_until_ms)


@lru_cache(maxsize=1)  # all requests of a minute look at the same
def minutes_back(minute: int) -> tuple[str, ...]:
    """Return the keys of a minute, counted from the epoch, and of those before it whose requests are remembered, backwards."""
    return tuple(str(minute - back) for back in range(KEEP_MS // MINUTE_MS + 1))


BUCKET_MS = 15 * 60_000
BUCKET_RUNS_MAX = 30_000  # keeps a stored bucket well below a broker's limit on records
_ENTRY = struct.Struct("<QQL")


class KnownRun(msgspec.Struct, frozen=True, gc=False):
    """A run as remembered: the digest of its application (0: none) and of its content."""

    application: int
    content: int

    @property
    def trained(self) -> bool:
        """Whether a model has learned the run."""
        return bool(self.content & 1)

    def matches(self, content: int) -> bool:
        """Return whether a report has the same content as the one that is remembered."""
        return self.content | 1 == content | 1


class RunDeduplicationState(msgspec.Struct):
    """Stored form of a bucket: packed entries (run, application, content), sorted by run."""

    runs: bytes = b""


class RunDeduplication(Untimed):
    """The runs that started within one quarter of an hour."""

    name: ClassVar[str] = "run_deduplication"
    version: ClassVar[int] = 1

    def __init__(self, runs: dict[int, KnownRun]) -> None:
        self._runs = runs

    @classmethod
    def build(cls, state: RunDeduplicationState | None = None) -> "RunDeduplication":
        """Return the bucket of a stored state, or an empty one."""
        packed = state.runs if state else b""
        return cls({run: KnownRun(application, content) for run, application, content in _ENTRY.iter_unpack(packed)})

    def __len__(self) -> int:
        return len(self._runs)

    def score(self, fact: str) -> KnownRun | None:
        """Return what is remembered of a run, given its id; None for a new run."""
        return self._runs.get(digest64(fact))

    def learn(self, fact: tuple[str, KnownRun]) -> None:
        """Remember a run, or remember it anew."""
        run_id, seen = fact
        self._runs[digest64(run_id)] = seen

    def full(self) -> bool:
        """Return whether the bucket takes no further run: the next one goes to a bucket that follows."""
        return len(self._runs) >= BUCKET_RUNS_MAX

    def snapshot(self) -> RunDeduplicationState:
        """Return the stored form."""
        entries = sorted(self._runs.items())
        return RunDeduplicationState(
            b"".join(_ENTRY.pack(run, seen.application, seen.content) for run, seen in entries)
        )


@lru_cache(maxsize=64)  # it is asked for several times in a row
def bucket(run_id: str, start_ms: int) -> str:
    """Return the key of the bucket of a run: its quarter of an hour and one of four parts; keys sort by time."""
    return f"{start_ms // BUCKET_MS:010d}.{digest64(run_id) & 3}"


def following(first: str, follows: int) -> str:
    """Return the key of the bucket that follows the first one, and so many others, where these are full."""
    return f"{first}+{follows}"


class LowWaterState(msgspec.Struct, omit_defaults=True):
    """Stored form: the smallest key that is still remembered, and how many runs are."""

    bucket: str = ""
    runs: int = 0


class LowWater(Untimed):
    """What was forgotten: runs that belong before this bucket cannot be told from repeats. It counts those that are left."""

    name: ClassVar[str] = "low_water"
    version: ClassVar[int] = 1

    def __init__(self, state: LowWaterState) -> None:
        self._state = state

    @classmethod
    def build(cls, state: LowWaterState | None = None) -> "LowWater":
        """Return the mark of a stored state, or one that forgot nothing."""
        return cls(msgspec.structs.replace(state) if state else LowWaterState())

    @property
    def runs(self) -> int:
        """How many runs are remembered, since they are counted."""
        return self._state.runs

    def count(self, runs: int) -> None:
        """Count runs that are remembered now; below zero those that are not any more."""
        self._state.runs = max(self._state.runs + runs, 0)

    def score(self, fact: str) -> bool:
        """Return whether a bucket was forgotten."""
        return fact < self._state.bucket

    def learn(self, fact: str) -> None:
        """Note the smallest bucket that is still remembered."""
        self._state.bucket = max(self._state.bucket, fact)

    def snapshot(self) -> LowWaterState:
        """Return the stored form."""
        return LowWaterState(self._state.bucket, self._state.runs)


def content_digest(n: float | None, run_time_s: float, state: str, end_ms: int, *, trained: bool) -> int:
    """Return 32 bits that stand for what a report says of a run; the lowest bit tells whether a model learned it."""
    size = None if n is None else float(n)
    digest = digest64(repr(size), repr(float(run_time_s)), state, str(end_ms)) & 0xFFFFFFFE
    return digest | trained
