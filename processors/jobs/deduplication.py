"""The memory of counted runs and of answered requests, bounded by dropping the oldest buckets.

A run that started before all remembered runs cannot be told from a repeat. The agent refuses such a run, so that no run
is counted twice. A remembered run takes 20 bytes.
"""

import struct
from functools import lru_cache
from typing import ClassVar

import msgspec

from processors.store import PlainProcessor, Untimed, digest64

MINUTE_MS = 60_000
KEEP_MS = 10 * MINUTE_MS
REQUESTS_MAX = 30_000  # requests in one minute; keeps the stored form well below a broker's record size limit


class AnsweredRequestsState(msgspec.Struct):
    """Stored form of `AnsweredRequests`: digests of the requests of one minute, and the time when they may be forgotten."""

    requests: list[int] = []
    keep_until_ms: int = 0


class AnsweredRequests:
    """The requests that were answered within one minute."""

    name: ClassVar[str] = "answered_requests"
    version: ClassVar[int] = 1

    def __init__(self, state: AnsweredRequestsState) -> None:
        self._requests = dict.fromkeys(state.requests)
        self._keep_until_ms = state.keep_until_ms

    @classmethod
    def build(cls, state: AnsweredRequestsState | None = None) -> "AnsweredRequests":
        return cls(state or AnsweredRequestsState())

    def score(self, fact: str) -> bool:
        """Return whether the request with the id `fact` was answered."""
        return digest64(fact) in self._requests

    def learn(self, fact: tuple[str, int]) -> None:
        """Record the id and the time of an answered request; with too many requests the oldest one is forgotten."""
        identity, now_ms = fact
        request = digest64(identity)
        if request not in self._requests and len(self._requests) >= REQUESTS_MAX:
            del self._requests[next(iter(self._requests))]
        self._requests[request] = None
        self._keep_until_ms = now_ms - now_ms % MINUTE_MS + MINUTE_MS + KEEP_MS

    def due_ms(self) -> int | None:
        return self._keep_until_ms

    def snapshot(self) -> AnsweredRequestsState:
        return AnsweredRequestsState(list(self._requests), self._keep_until_ms)


@lru_cache(maxsize=1)  # all requests of a minute look at the same keys
def minutes_back(minute: int) -> tuple[str, ...]:
    """Return the keys of a minute since the epoch and of the remembered minutes before it, newest first."""
    return tuple(str(minute - back) for back in range(KEEP_MS // MINUTE_MS + 1))


BUCKET_MS = 15 * 60_000
BUCKET_RUNS_MAX = 30_000  # keeps a stored bucket well below a broker's record size limit
_ENTRY = struct.Struct("<QQL")


class KnownRun(msgspec.Struct, frozen=True, gc=False):
    """A remembered run: the digest of its application (0 for no application) and of its content."""

    application: int
    content: int

    @property
    def trained(self) -> bool:
        """Whether a model has learned the run."""
        return bool(self.content & 1)

    def matches(self, content: int) -> bool:
        """Return whether a report has the remembered content, whether or not a model learned it."""
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
        packed = state.runs if state else b""
        return cls({run: KnownRun(application, content) for run, application, content in _ENTRY.iter_unpack(packed)})

    def __len__(self) -> int:
        return len(self._runs)

    def score(self, fact: str) -> KnownRun | None:
        """Return the entry of the run with the id `fact`; None for a new run."""
        return self._runs.get(digest64(fact))

    def learn(self, fact: tuple[str, KnownRun]) -> None:
        run_id, known_run = fact
        self._runs[digest64(run_id)] = known_run

    def full(self) -> bool:
        """Return whether the next run must go to a following bucket."""
        return len(self._runs) >= BUCKET_RUNS_MAX

    def snapshot(self) -> RunDeduplicationState:
        entries = (_ENTRY.pack(run, known.application, known.content) for run, known in sorted(self._runs.items()))
        return RunDeduplicationState(b"".join(entries))


@lru_cache(maxsize=64)  # each run asks several times in a row
def bucket(run_id: str, start_ms: int) -> str:
    """Return the bucket key of a run: its quarter of an hour, and one of four parts of it; keys sort by time."""
    return f"{start_ms // BUCKET_MS:010d}.{digest64(run_id) & 3}"


def following(first: str, follows: int) -> str:
    """Return the key of the bucket number `follows` after the full bucket `first`."""
    return f"{first}+{follows}"


class LowWater(PlainProcessor, omit_defaults=True):
    """The key of the earliest remembered bucket, and the number of remembered runs.

    A run that belongs before this bucket cannot be told from a repeat.
    """

    name: ClassVar[str] = "low_water"
    version: ClassVar[int] = 1

    bucket: str = ""
    runs: int = 0

    def count(self, runs: int) -> None:
        """Add to the number of remembered runs; a negative number counts runs that were forgotten."""
        self.runs = max(self.runs + runs, 0)

    def score(self, fact: str) -> bool:
        """Return whether the bucket with the key `fact` was forgotten."""
        return fact < self.bucket

    def learn(self, fact: str) -> None:
        """Set the key of the earliest remembered bucket."""
        self.bucket = max(self.bucket, fact)


def content_digest(n: float | None, run_time_s: float, state: str, end_ms: int, *, trained: bool) -> int:
    """Return a 32-bit digest of a report of a run; its lowest bit says whether a model learned the run."""
    size = None if n is None else float(n)
    digest = digest64(repr(size), repr(float(run_time_s)), state, str(end_ms)) & 0xFFFFFFFE
    return digest | trained
