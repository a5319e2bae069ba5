"""How many runs are scored between two ticks: at a quick pace some tell as much as all, and cost less."""

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
