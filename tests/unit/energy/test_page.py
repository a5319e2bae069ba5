"""The energy of a week for people: complete, well-formed, and without a word that nobody escaped."""

from datetime import UTC

import pytest

from agent.cli.options import table
from agent.reports.energy import EnergyReport, Factor, IntensitySeries, report
from agent.reports.page import page, per_cent, text
from agent.reports.week import WeekRuns, week_named
from processors.contracts.nodes import Intensity
from tests.kit.week_runs import settled
from tests.unit.backtest.test_page import EVIL, checked
from tests.unit.energy.test_report import MONDAY_MS, metered


def week(carbon: Factor | IntensitySeries | None) -> EnergyReport:
    whole = week_named("2026-W47", UTC)
    collected = WeekRuns(whole, partly=True)
    collected.write([
        settled("1", 4.0, 3600.0, profile=metered(), user=EVIL, account=EVIL),
        settled(EVIL, 4.0, 3600.0, profile=metered(250.0), user="u\x1b[31m", application_id=None),
        settled("3", 4.0, 3600.0, user=None, application_id=None),
    ])  # fmt: skip
    return report(whole, UTC, collected, carbon, "1.0")


def test_the_page_is_well_formed_and_fetches_and_runs_nothing() -> None:
    shown = page(week(Factor(300.0)), 10)
    found = checked(shown)
    assert (found.wrong, found.open) == ([], [])
    assert found.fetched == ["data:,"]
    assert "script" not in found.tags
    assert "<script>alert" not in shown


def test_the_page_shows_how_much_was_measured_and_has_every_list() -> None:
    shown = page(week(Factor(300.0)), 10)
    assert "3 runs used 3 kWh: 67 % of the node-seconds were measured, 0 % estimated, and 33 % are unknown." in shown
    assert "This energy caused 0.9 kg CO2e." in shown
    for heading in ("By application", "By user", "By account", "By day", "Jobs"):
        assert heading in shown
    for name in ("runs without a user", "runs without an account", "runs of unknown applications", "2026-11-16"):
        assert name in shown


def test_the_page_is_cut_at_the_top() -> None:
    assert "The largest first; 2 more are not shown" in page(week(None), 1)


def test_the_text_has_no_column_of_carbon_where_there_is_no_factor() -> None:
    plain, with_carbon = (text(week(carbon), 10, table) for carbon in (None, Factor(300.0)))
    assert "CO2E" not in plain
    assert "KG CO2E" in with_carbon
    assert "\x1b" not in plain


def test_the_text_has_the_energy_without_an_intensity() -> None:
    shown = text(week(IntensitySeries([Intensity(MONDAY_MS, 100.0)], 1800.0)), 10, table)
    assert "This energy caused 0.15 kg CO2e, without 1.5 kWh used at times without a known carbon intensity." in shown


def test_what_is_known_nowhere_has_a_dash_and_not_no_energy() -> None:
    shown = text(week(None), 10, table)
    line = next(line for line in shown.splitlines() if line.startswith("runs without a user"))
    assert line.split()[-8:] == ["4", "-", "0", "%", "0", "%", "100", "%"]


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (0.0, 0.0, "-"),
        (0.0, 8.0, "0 %"),
        (0.001, 1.0, "<1 %"),
        (0.998, 1.0, ">99 %"),
        (1.0, 1.0, "100 %"),
        (1.0, 3.0, "33 %"),
    ],
)
def test_a_share_is_neither_nothing_nor_all_unless_it_is(part: float, whole: float, shown: str) -> None:
    assert per_cent(part, whole) == shown
