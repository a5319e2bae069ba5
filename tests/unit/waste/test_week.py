"""Weeks: ISO names, in the zone of the centre."""

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from agent.reports.week import last_whole_week, week_named, week_of
from processors.contracts.errors import ConfigError
from processors.contracts.names import parse_rfc3339

OSLO = ZoneInfo("Europe/Oslo")
HOUR_MS = 3_600_000


def test_a_week_goes_from_monday_to_sunday() -> None:
    week = week_named("2026-W47", UTC)
    assert week.days == "2026-11-16 to 2026-11-22 (UTC)"
    assert week.holds(parse_rfc3339("2026-11-16T00:00:00Z"))
    assert week.holds(parse_rfc3339("2026-11-22T23:59:59Z"))
    assert not week.holds(parse_rfc3339("2026-11-23T00:00:00Z"))


def test_a_week_begins_at_midnight_of_its_zone_also_where_the_clock_is_put_back() -> None:
    week = week_named("2026-W43", OSLO)
    assert week.holds(parse_rfc3339("2026-10-18T22:00:00Z"))
    assert not week.holds(parse_rfc3339("2026-10-18T21:59:59Z"))
    assert week.until_ms - week.from_ms == (7 * 24 + 1) * HOUR_MS


def test_a_week_about_new_year_has_the_name_of_the_year_of_its_thursday() -> None:
    assert week_of(parse_rfc3339("2027-01-03T12:00:00Z"), UTC).name == "2026-W53"
    assert week_named("2026-W53", UTC) == week_of(parse_rfc3339("2026-12-28T00:00:00Z"), UTC)


@pytest.mark.parametrize("now", ["2026-11-23T00:00:00Z", "2026-11-29T23:59:59Z"])
def test_the_last_whole_week_is_the_one_before_this(now: str) -> None:
    assert last_whole_week(parse_rfc3339(now), UTC).name == "2026-W47"


@pytest.mark.parametrize("name", ["2026-47", "2026-W7", "2026-W00", "2025-W53", "W47", "0001-W01", "2026-W47 "])
def test_what_is_no_week_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="write an ISO week such as 2026-W47"):
        week_named(name, UTC)
