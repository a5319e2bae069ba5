"""The memory of answered requests: a request that is repeated after a crash is not answered twice."""

from typing import ClassVar

import msgspec

from processors.digest import digest64

MINUTE_MS = 60_000
KEEP_MS = 10 * MINUTE_MS
REQUESTS_MAX = 30_000  # of one minute; keeps the stored form well below a broker's limit on records


class AskedState(msgspec.Struct):
    """Stored form: digests of the requests of one minute, and when they may be forgotten."""

    requests: list[int] = []
    keep_until_ms: int = 0


class Asked:
    """The requests that were answered within one minute.

    >>> asked = Asked.build()
    >>> asked.learn(("r9", 0))
    >>> asked.score("r9"), asked.score("r10"), asked.due_ms()
    (True, False, 660000)
    """

    name: ClassVar[str] = "asked"
    version: ClassVar[int] = 1

    def __init__(self, requests: dict[int, None], keep_until_ms: int) -> None:
        self._requests = requests
        self._keep_until_ms = keep_until_ms

    @classmethod
    def build(cls, state: AskedState | None = None) -> "Asked":
        """Return the minute of a stored state, or an empty one."""
        return cls(dict.fromkeys(state.requests), state.keep_until_ms) if state else cls({}, 0)

    def score(self, fact: str) -> bool:
        """Tell whether a request was answered."""
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

    def snapshot(self) -> AskedState:
        """Return the stored form."""
        return AskedState(list(self._requests), self._keep_until_ms)


def minute(now_ms: int) -> str:
    """Return the key of a minute.

    >>> minute(120_001)
    '2'
    """
    return str(now_ms // MINUTE_MS)
