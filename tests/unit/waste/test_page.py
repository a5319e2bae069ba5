"""The report of a week for people: complete, well-formed, without a script, and without a word that nobody escaped."""

import re
from datetime import UTC

import pytest

from agent.app.compose import encode
from agent.cli.options import table
from agent.reports.page import page, text
from agent.reports.waste import Amount, WasteBounds, WeekReport, amount, number, report, unit_hours
from agent.reports.week import WeekRuns, week_named
from processors.contracts.outputs import SlowedBy
from tests.kit.week_runs import curve, settled
from tests.unit.backtest.test_page import EVIL, checked


@pytest.fixture(scope="module")
def whole() -> WeekReport:
    return week_of(None)


def week_of(user: str | None) -> WeekReport:
    week = week_named("2026-W47", UTC)
    collected = WeekRuns(week, user)
    collected.write([
        encode(curve()),
        settled("1", 128.0, user=EVIL),
        settled("2", 64.0, time_limit_s=86_400.0, user=EVIL),
        settled("3", 64.0, state="FAILED", user=EVIL),
        settled(EVIL, 64.0, 600.0, state="TIMEOUT", time_limit_s=600.0, application_id=None, user="u\x1b[31m"),
        settled("5", 64.0, slowed_by=SlowedBy(EVIL, 1.5), user=None),
    ])  # fmt: skip
    return report(week, collected, WasteBounds(), "1.0")


def test_the_page_is_well_formed_and_fetches_and_runs_nothing(whole: WeekReport) -> None:
    found = checked(page(whole, 10))
    assert (found.wrong, found.open) == ([], [])
    assert found.fetched == ["data:,"]
    assert "script" not in found.tags
    assert "<script>alert" not in page(whole, 10)


def test_the_page_shows_each_user_with_each_kind(whole: WeekReport) -> None:
    shown = page(whole, 10)
    assert len(re.findall("<section", shown)) == 3
    for heading in ("More than the useful size", "Time limits far too long", "Failed runs", "no fault of the user"):
        assert heading in shown
    assert "runs without a user" in shown


def test_the_page_is_cut_at_the_top_users(whole: WeekReport) -> None:
    assert len(re.findall("<section", page(whole, 1))) == 1
    assert "2 more are not shown" in page(whole, 1)


def test_the_text_has_what_was_used_lost_and_not_judged_with_units(whole: WeekReport) -> None:
    shown = text(whole, 10, table)
    assert shown.startswith("Week 2026-W47, 2026-11-16 to 2026-11-22 (UTC)\n\nUsers\nUSER ")
    assert "3 runs, 55.3 node-hours; lost about 22.7 (21.9 to 23.5) node-hours, 41 %." in shown
    assert "More than the useful size: 1 run, about 6.4 (5.6 to 7.2) node-hours lost" in shown
    assert "\x1b" not in shown


def test_the_text_of_one_user_has_no_table_of_users() -> None:
    assert "OF USED" not in text(week_of(EVIL), 10, table)


def test_an_empty_week_is_a_page_too() -> None:
    week = week_named("2026-W47", UTC)
    found = checked(page(report(week, WeekRuns(week), WasteBounds(), "1.0"), 10))
    assert (found.wrong, found.open) == ([], [])


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (Amount(123.4, 95.2, 148.9), "about 120 (100 to 150) node-hours"),
        (Amount(1234.5, 1230.1, 1240.2), "about 1,230 (1,230 to 1,240) node-hours"),
        (Amount(0.034, 0.02, 0.05), "about 0.03 (0.02 to 0.05) node-hours"),
        (Amount.measured(1234.5), "1,230 node-hours"),
        (Amount(), "0 node-hours"),
    ],
)
def test_no_digit_is_finer_than_the_ends_are_apart(found: Amount, shown: str) -> None:
    assert amount(found, "nodes") == shown


def test_numbers_and_units_read_as_people_write_them() -> None:
    assert [number(value) for value in (0.0, 12.34, 987.6, 123_456.0)] == ["0", "12.3", "988", "123,000"]
    assert [unit_hours(unit) for unit in ("nodes", "gpus", "processes")] == ["node-hours", "GPU-hours", "process-hours"]


def test_sessions_are_shown_apart_of_each_user_and_of_all() -> None:
    week = week_named("2026-W47", UTC)
    collected = WeekRuns(week)
    session = {"state": "TIMEOUT", "application_id": None, "identified_by": "session"}
    collected.write([settled("1", 2.0, 3600.0, **session), settled("2", 6.0, 3600.0, user="joe", application_id=None)])
    whole = report(week, collected, WasteBounds(), "1.0")
    of_mary = "1 interactive session used 2 node-hours (100 %), not counted as lost"
    of_all = "1 interactive session used 2 node-hours (25 %), not counted as lost"
    for shown in (text(whole, 10, table), page(whole, 10)):
        assert of_mary in shown
        assert of_all in shown
