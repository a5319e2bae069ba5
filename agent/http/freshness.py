"""How fresh the sources are: the newest event of each against the present in event time."""

from collections.abc import Sequence
from typing import Final

import msgspec

from agent.contracts.moments import rfc3339
from agent.contracts.recent import SourceSeen
from agent.words import duration, moment

OLD_S: Final = 900.0  # a source that is so far behind stands out


class SourceRow(msgspec.Struct, frozen=True):
    """A source: its topic, how many events came, the newest one's time, and how far that is behind the present."""

    topic: str
    events: int
    newest: str
    behind: str
    is_old: bool


def source_rows(sources: Sequence[SourceSeen], now_ms: int = 0) -> list[SourceRow]:
    """Return the sources, those furthest behind first. `now_ms` is the present, where something else than they tells it.

    >>> seen = [SourceSeen(topic="slurm", events=3, newest_ms=0), SourceSeen(topic="load", events=9, newest_ms=1_200_000)]
    >>> [(row.topic, row.behind, row.is_old) for row in source_rows(seen)]
    [('slurm', '20 min behind', True), ('load', 'newest', False)]
    """
    now = max([now_ms, *(seen.newest_ms for seen in sources)])
    return [
        SourceRow(
            seen.topic,
            seen.events,
            moment(rfc3339(seen.newest_ms)),
            _behind((now - seen.newest_ms) / 1000),
            (now - seen.newest_ms) / 1000 > OLD_S,
        )
        for seen in sorted(sources, key=lambda seen: (seen.newest_ms, seen.topic))
    ]


def _behind(seconds: float) -> str:
    return "newest" if seconds < 1 else f"{duration(seconds)} behind"
