"""Durations as people say them: no more digits than matter to somebody who waits."""

from typing import Final

from agent.words import duration

_STEPS: Final = ((36_000.0, 900), (600.0, 60), (100.0, 5))  # from so many seconds on, rounded to so many


def rounded(seconds: float) -> str:
    """Return a duration, rounded: whole minutes from ten minutes on, quarters of an hour from ten hours on.

    >>> [rounded(seconds) for seconds in (3.14, 48.26, 131.0, 1872.0, 40_000.0)]
    ['3.1 s', '48.3 s', '2 min 10 s', '31 min', '11 h']
    """
    step = next((step for least, step in _STEPS if seconds >= least), None)
    return duration(seconds if step is None or seconds >= 1e9 else round(seconds / step) * step)


def between(low_s: float, high_s: float) -> str:
    """Return a range of durations, the unit said once where that reads well.

    >>> between(1620.0, 2040.0), between(3300.0, 4500.0), between(1860.0, 1870.0)
    ('27 to 34 min', '55 min to 1 h 15 min', '31 min to 31 min 10 s')
    """
    low, high = rounded(low_s), rounded(high_s)
    if low == high and low_s != high_s:
        low, high = duration(low_s), duration(high_s)
    (number, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    return f"{number} to {high}" if unit == other else f"{low} to {high}"


def next_limit(seconds: float) -> float:
    """Return a time limit that a person would write down, in seconds: not below, in steps that grow with it.

    >>> [next_limit(seconds) / 60 for seconds in (30.0, 550.0, 2244.0, 9000.5, 90_000.0)]
    [1.0, 10.0, 40.0, 165.0, 1500.0]
    """
    minutes = seconds / 60
    step = next((step for most, step in ((10, 1), (120, 5), (480, 15), (1440, 30)) if minutes <= most), 60)
    return max(-(-minutes // step) * step, 1.0) * 60.0
