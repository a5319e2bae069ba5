"""Moments in time: milliseconds since the epoch inside, RFC 3339 in messages for people and schedulers."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from agent.contracts.errors import InvalidInputError

EARLIEST_MS = (
    631_152_000_000  # 1990-01-01: the oldest public job logs are of 1993, a clock that was never set says 1970
)
LATEST_MS = 4_102_444_800_000  # 2100-01-01
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONG_FRACTION = re.compile(r"(\.\d{6})\d+")


def parse_rfc3339(text: str) -> int:
    """Return milliseconds since the epoch; a time without a zone is UTC.

    Raises InvalidInputError (reason ``time``) where the text is no time or lies outside 1990 to 2100.

    >>> parse_rfc3339("2026-11-20T10:00:00Z")
    1795168800000
    """
    try:
        moment = datetime.fromisoformat(_LONG_FRACTION.sub(r"\1", text))
    except ValueError as error:
        raise InvalidInputError("time", f"{text[:40]!r} is not a time.") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return checked_ms((moment - _EPOCH) // _MILLISECOND)


def checked_ms(time_ms: int) -> int:
    """Return the time if it is plausible, else raise InvalidInputError (reason ``time``).

    >>> checked_ms(1795168800000)
    1795168800000
    """
    if not EARLIEST_MS <= time_ms <= LATEST_MS:
        raise InvalidInputError("time", f"{time_ms} ms since the epoch is outside 1990 to 2100.")
    return time_ms


@lru_cache(maxsize=512)  # the same moment is told in every message of a tick
def rfc3339(time_ms: int) -> str:
    """Return the time as RFC 3339 in UTC, with milliseconds only where there are any.

    >>> rfc3339(1795168800000), rfc3339(1795168800250)
    ('2026-11-20T10:00:00Z', '2026-11-20T10:00:00.250Z')
    """
    moment = _EPOCH + time_ms * _MILLISECOND
    timespec = "milliseconds" if time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
