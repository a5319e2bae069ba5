"""The memory of seen runs: which runs were counted, where, and as what; bounded by dropping the oldest quarter hours.

A run that starts before everything that is still remembered can not be told from a repeat and is refused, so nothing
is ever counted twice. Per run 20 bytes are kept.
"""

import struct
from typing import ClassVar, Literal

import msgspec

from processors.digest import digest64

BUCKET_MS = 15 * 60_000
BUCKET_RUNS_MAX = 30_000  # keeps a stored bucket well below a broker's limit on records
_ENTRY = struct.Struct("<QQL")

Judgement = Literal["new", "repeat", "correction", "too_old"]


class SeenRun(msgspec.Struct, frozen=True):
    """A run as remembered: the digest of its application (0: none) and of its content."""

    application: int
    content: int


class SeenState(msgspec.Struct):
    """Stored form of a bucket: packed entries (run, application, content), sorted by run."""

    runs: bytes = b""


class SeenRuns:
    """The runs that started within one quarter of an hour.

    >>> seen = SeenRuns.build()
    >>> seen.score(("archer2/812@0", 7))
    >>> seen.learn(("archer2/812@0", SeenRun(application=1, content=7)))
    >>> SeenRuns.build(seen.snapshot()).score(("archer2/812@0", 8)).content
    7
    """

    name: ClassVar[str] = "seen"
    version: ClassVar[int] = 1

    def __init__(self, runs: dict[int, SeenRun]) -> None:
        self._runs = runs

    @classmethod
    def build(cls, state: SeenState | None = None) -> "SeenRuns":
        """Return the bucket of a stored state, or an empty one."""
        packed = state.runs if state else b""
        return cls({run: SeenRun(application, content) for run, application, content in _ENTRY.iter_unpack(packed)})

    def __len__(self) -> int:
        return len(self._runs)

    def score(self, fact: tuple[str, int]) -> SeenRun | None:
        """Return what is remembered of a run, given its id and its new content; None for a new run."""
        return self._runs.get(digest64(fact[0]))

    def learn(self, fact: tuple[str, SeenRun]) -> None:
        """Remember a run, or remember it anew."""
        run_id, seen = fact
        self._runs[digest64(run_id)] = seen

    def full(self) -> bool:
        """Tell whether the bucket takes no further run."""
        return len(self._runs) >= BUCKET_RUNS_MAX

    def due_ms(self) -> int | None:
        """Return None: a bucket never waits for time."""
        return None

    def snapshot(self) -> SeenState:
        """Return the stored form."""
        entries = sorted(self._runs.items())
        return SeenState(b"".join(_ENTRY.pack(run, seen.application, seen.content) for run, seen in entries))


def bucket(start_ms: int) -> str:
    """Return the key of the bucket of a start time; keys sort by time.

    >>> bucket(0), bucket(BUCKET_MS * 12 + 5)
    ('0000000000', '0000000012')
    """
    return f"{start_ms // BUCKET_MS:010d}"


def content_digest(n: float | None, run_time_s: float, state: str, end_ms: int) -> int:
    """Return 32 bits that stand for what a report says of a run; the lowest bit tells a completed one.

    >>> content_digest(4, 10.0, "COMPLETED", 5) & 1, content_digest(4, 10.0, "FAILED", 5) & 1
    (1, 0)
    """
    digest = digest64(repr(n), repr(run_time_s), state, str(end_ms)) & 0xFFFFFFFE
    return digest | (state == "COMPLETED")
