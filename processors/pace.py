"""How much is done between two ticks, and at one: it follows from the journal, and so is the same in a replay.

At a quick pace some runs tell as much as all, and cost less to score.
"""

from typing import Final

FULL_TICK_MS: Final = 10_000
FIT_COST_MAX: Final = 60  # of the steps of fits in ten seconds, of all applications: about as many milliseconds

Pace = tuple[int, int]  # the time of the last tick in ms, and how many runs were scored since


def due(pace: Pace, now_ms: int, most: int) -> bool:
    """Tell whether one more run is to be scored before the next tick.

    >>> due((60_000, 2), 60_000, most=2), due((60_000, 2), 70_000, most=2)
    (False, True)
    """
    return pace[0] != now_ms or pace[1] < most


def counted(pace: Pace, now_ms: int) -> Pace:
    """Return the pace with one more run scored.

    >>> counted((60_000, 2), 60_000), counted((60_000, 2), 70_000)
    ((60000, 3), (70000, 1))
    """
    return now_ms, (pace[1] if pace[0] == now_ms else 0) + 1


def share(most: int, since_ms: int) -> int:
    """Return how much may be done at a tick, where in ten seconds it is at most so much; `since_ms` is since the last tick.

    Frequent ticks have their share each, so that none holds the fold for long.

    >>> share(60, 10_000), share(60, 1_000), share(60, 3_600_000)
    (60, 6, 60)
    """
    return -(-most * min(since_ms, FULL_TICK_MS) // FULL_TICK_MS)
