"""Durations and time limits as Slurm prints them."""

import re
from typing import Final

from agent.decode.checks import SECONDS_MAX
from agent.decode.reasons import invalid, shown

NO_LIMIT: Final = ("", "UNLIMITED", "Partition_Limit", "INVALID", "NONE", "Unknown")

_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?(?:\.\d+)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of ``[days-]hours:minutes:seconds`` or a shorter form that Slurm takes; fractions are cut.

    Without days, two parts are minutes and seconds and one part is minutes; with days, they start at the hours.
    Raises InvalidInputError (``wrong-type``, ``out-of-range``).

    >>> parse_duration("1-02:03:04"), parse_duration("02:30"), parse_duration("1-12"), parse_duration("90")
    (93784.0, 150.0, 129600.0, 5400.0)
    """
    parts = _DURATION.fullmatch(text)
    if parts is None:
        raise invalid("wrong-type", f"{shown(text)} is no duration.")
    days, first, second, third = (None if part is None else int(part) for part in parts.groups())
    if days is not None or third is not None:
        seconds = (days or 0) * 86_400 + (first or 0) * 3600 + (second or 0) * 60 + (third or 0)
    else:
        seconds = (first or 0) * 60 + (second or 0)
    if seconds > SECONDS_MAX:
        raise invalid("out-of-range", f"{shown(text)} is longer than thirty years.")
    return float(seconds)


def parse_limit(text: str) -> float | None:
    """Return a time limit in seconds, None where there is none.

    >>> parse_limit("1-00:00:00"), parse_limit("UNLIMITED")
    (86400.0, None)
    """
    return None if text in NO_LIMIT else parse_duration(text) or None
