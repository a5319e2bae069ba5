"""Weeks as ISO 8601 names them: from Monday to Sunday, in a time zone."""

import re
from contextlib import suppress
from datetime import date, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from processors.contracts.errors import ConfigError

_NAME: Final = re.compile(r"(\d{4})-W(\d{2})")
_FIRST_YEAR, _LAST_YEAR = 1990, 2099


class Week(NamedTuple):
    """A week: its name, its days with their zone, and its first moment and the one after its last, in ms."""

    name: str
    days: str
    from_ms: int
    until_ms: int

    def holds(self, time_ms: int) -> bool:
        """Return whether a moment is in the week."""
        return self.from_ms <= time_ms < self.until_ms


def week_named(name: str, zone: tzinfo) -> Week:
    """Return the week of a name such as 2026-W47; ConfigError where there is none."""
    found = _NAME.fullmatch(name)
    monday = None
    if found is not None and _FIRST_YEAR <= int(found[1]) <= _LAST_YEAR:
        with suppress(ValueError):  # most years have 52 weeks
            monday = date.fromisocalendar(int(found[1]), int(found[2]), 1)
    if monday is None:
        raise ConfigError(f"There is no week {name[:40]!r}; write an ISO week such as 2026-W47.")
    return _from(monday, zone)


def week_of(time_ms: int, zone: tzinfo) -> Week:
    """Return the week that holds a moment."""
    day = datetime.fromtimestamp(time_ms / 1000, zone).date()
    return _from(day - timedelta(days=day.weekday()), zone)


def last_whole_week(now_ms: int, zone: tzinfo) -> Week:
    """Return the last week that is over."""
    return week_of(week_of(now_ms, zone).from_ms - 1, zone)


def _from(monday: date, zone: tzinfo) -> Week:
    year, number, _ = monday.isocalendar()
    starts = (datetime.combine(monday + timedelta(days=days), datetime.min.time(), zone) for days in (0, 7))
    from_ms, until_ms = (round(start.timestamp() * 1000) for start in starts)
    days = f"{monday} to {monday + timedelta(days=6)} ({zone})"
    return Week(f"{year}-W{number:02d}", days, from_ms, until_ms)
