"""A week of runs whose energy is known by hand: who used what, on which day, and how much of it was measured."""

import json
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import jsonschema
import msgspec
import pytest

from agent.app.compose import encode
from agent.decode.message import DecodeOptions
from agent.decode.sacct import finished_job
from agent.describe.describe import schema
from agent.reports.energy import EnergyReport, EnergyTotal, Factor, IntensitySeries, report
from agent.reports.week import WeekRuns, week_named
from processors.contracts.hosts import Profile
from processors.contracts.names import parse_rfc3339
from processors.contracts.nodes import Intensity
from processors.contracts.outputs import Emission, Prediction, Tombstone
from tests.kit.week_runs import curve, settled

HOUR_MS = 3_600_000
KWH_J = 3.6e6
MONDAY_MS = parse_rfc3339("2026-11-16T00:00:00Z")


def metered(power_w: float = 500.0, hosts: int = 4, time_s: float = 3600.0, **changes: Any) -> Profile:
    """Return the profile of a run on hosts of which each drew so much, all of it measured."""
    minutes = round(hosts * time_s / 60)
    fields: dict[str, Any] = {
        "hosts": hosts, "minutes": minutes, "expected": minutes, "power_w": {"system": power_w},
        "energy_j": {"system": power_w * hosts * time_s}, "measured": {"system": 1.0},
    }  # fmt: skip
    return Profile(**(fields | changes))


def powered(power_w: float, low_w: float, high_w: float) -> Prediction:
    """Return the curve of the week's runs with a power for every size."""
    points = tuple(
        msgspec.structs.replace(
            point, power_w=power_w, power_low_w=low_w, power_high_w=high_w,
            energy_j=power_w * point.run_time_s, energy_low_j=low_w * point.run_time_s, energy_high_j=high_w * point.run_time_s,
        )
        for point in curve().curve
    )  # fmt: skip
    return curve(curve=points)


def week(
    *runs: Emission, carbon: Factor | IntensitySeries | None = None, known: Prediction | None = None, user: str | None = None,
    name: str = "2026-W47", zone: tzinfo = UTC,
) -> EnergyReport:  # fmt: skip
    whole = week_named(name, zone)
    collected = WeekRuns(whole, user, partly=True)
    collected.write([encode(known or curve()), *runs])
    return report(whole, zone, collected, carbon, "1.0")


def shares(total: EnergyTotal) -> tuple[float, float, float]:
    return total.measured_s / total.node_s, total.estimated_s / total.node_s, total.unknown_s / total.node_s


def test_energy_is_summed_by_application_user_account_and_job() -> None:
    found = week(
        settled("1", 4.0, 3600.0, profile=metered(500.0), account="p1"),
        settled("2", 4.0, 3600.0, profile=metered(250.0), account="p2"),
        settled("3", 4.0, 3600.0, profile=metered(250.0), account="p1", user="joe", application_id=None),
    )
    assert found.total.energy_j == pytest.approx(4 * KWH_J)
    assert {group.name: group.total.energy_j / KWH_J for group in found.users} == {"mary": 3.0, "joe": 1.0}
    assert {group.name: group.total.energy_j / KWH_J for group in found.accounts} == {"p1": 3.0, "p2": 1.0}
    assert {group.name: group.total.energy_j / KWH_J for group in found.applications} == {"lammps": 3.0, None: 1.0}
    assert [(job.job_id, job.total.energy_j / KWH_J) for job in found.jobs] == [("1", 2.0), ("2", 1.0), ("3", 1.0)]
    assert found.total.node_s == 3 * 4 * 3600
    assert shares(found.total) == (1.0, 0.0, 0.0)


def test_measured_estimated_and_unknown_are_shares_of_node_seconds() -> None:
    """Of 16 node-hours, 8 have half a meter and a quarter an estimate, 8 have neither."""
    part = metered(minutes=360, expected=480, hosts=8, measured={"system": 2 / 3}, estimated={"system": 1 / 3})
    found = week(settled("1", 8.0, 3600.0, profile=part), settled("2", 8.0, 3600.0, application_id=None))
    assert shares(found.total) == pytest.approx((0.25, 0.125, 0.625))
    assert found.total.energy_j == pytest.approx(4 * KWH_J)


def test_a_run_without_a_meter_and_without_a_model_adds_no_energy() -> None:
    found = week(settled("1", 8.0, 3600.0), settled("2", 8.0, 3600.0, profile=metered(hosts=8, energy_j={"cpu": 9.0})))
    assert found.total.energy_j == 0.0
    assert shares(found.total) == (0.0, 0.0, 1.0)


def test_a_run_without_a_meter_has_the_power_that_its_size_is_predicted_with_its_band() -> None:
    found = week(settled("1", 64.0, 3600.0), known=powered(20_000.0, 18_000.0, 24_000.0)).total
    ends = (found.energy_low_j, found.energy_j, found.energy_high_j)
    assert [end / KWH_J for end in ends] == pytest.approx([18.0, 20.0, 24.0])
    assert shares(found) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    "known",
    [powered(20_000.0, 1.0, 1e9), msgspec.structs.replace(powered(20_000.0, 18_000.0, 24_000.0), application="nektar")],
    ids=["band too wide", "other application"],
)
def test_a_prediction_that_cannot_be_relied_on_estimates_nothing(known: Prediction) -> None:
    found = week(settled("1", 64.0, 3600.0), known=known)
    assert (found.total.energy_j, shares(found.total)) == (0.0, (0.0, 0.0, 1.0))


def test_a_run_over_midnight_belongs_to_both_days() -> None:
    found = week(settled("1", 4.0, 4 * 3600.0, end="2026-11-16T21:00:00Z", profile=metered(time_s=4 * 3600.0)))
    assert [(day.name, day.total.runs) for day in found.by_day] == [("2026-11-16", 1), ("2026-11-17", 1)]
    assert [day.total.energy_j / KWH_J for day in found.by_day] == pytest.approx([6.0, 2.0])
    assert found.total.runs == 1


def test_a_run_counts_for_the_part_of_it_that_lies_in_the_week() -> None:
    """It began two hours before Monday and ended two after."""
    run = settled("1", 4.0, 4 * 3600.0, end="2026-11-15T22:00:00Z", profile=metered(time_s=4 * 3600.0))
    before, after = week(run, name="2026-W46"), week(run)
    assert (before.total.energy_j, after.total.energy_j) == pytest.approx((4 * KWH_J, 4 * KWH_J))
    assert before.total.node_s == after.total.node_s == 4 * 2 * 3600
    assert week(run, name="2026-W48").total.runs == 0


def test_the_day_on_which_the_clock_goes_back_has_25_hours() -> None:
    """In Oslo the 25th of October 2026 lasts from 22 to 23 o'clock UTC."""
    oslo = ZoneInfo("Europe/Oslo")
    run = settled("1", 1.0, 27 * 3600.0, end="2026-10-24T21:00:00Z", profile=metered(1000.0, 1, 27 * 3600.0))
    found = week(run, name="2026-W43", zone=oslo)
    assert [(day.name, round(day.total.energy_j / KWH_J, 9)) for day in found.by_day] == [
        ("2026-10-24", 1.0),
        ("2026-10-25", 25.0),
    ]
    in_utc = week(run, name="2026-W43")
    assert [round(day.total.energy_j / KWH_J, 9) for day in in_utc.by_day] == [3.0, 24.0]


def test_carbon_by_a_factor_is_the_energy_times_it() -> None:
    found = week(settled("1", 4.0, 3600.0, profile=metered()), carbon=Factor(300.0))
    assert found.total.carbon_g == pytest.approx(600.0)
    assert found.total.carbon_unknown_j == 0.0


def test_without_a_factor_there_is_no_carbon() -> None:
    assert week(settled("1", 4.0, 3600.0, profile=metered())).total.carbon_g is None


def test_carbon_by_a_series_follows_the_hours_of_a_run() -> None:
    """2 kW for two hours, of which the first has 100 and the second 400 g a kWh."""
    series = IntensitySeries([Intensity(MONDAY_MS, 100.0), Intensity(MONDAY_MS + HOUR_MS, 400.0)], hold_s=3600.0)
    found = week(settled("1", 4.0, 7200.0, profile=metered(time_s=7200.0)), carbon=series)
    assert found.total.carbon_g == pytest.approx(2 * 100 + 2 * 400)
    assert found.total.carbon_unknown_j == pytest.approx(0.0)


def test_a_gap_in_the_series_is_energy_without_carbon() -> None:
    """Nothing is told of the second and third of four hours, and nothing after the end of the series."""
    series = IntensitySeries([Intensity(MONDAY_MS, 100.0), Intensity(MONDAY_MS + 3 * HOUR_MS, 400.0)], hold_s=3600.0)
    found = week(settled("1", 4.0, 5 * 3600.0, profile=metered(time_s=5 * 3600.0)), carbon=series).total
    assert found.energy_j == pytest.approx(10 * KWH_J)
    assert found.carbon_g == pytest.approx(2 * 100 + 2 * 400)
    assert found.carbon_unknown_j == pytest.approx(6 * KWH_J)


def test_before_the_series_begins_carbon_is_unknown() -> None:
    series = IntensitySeries([Intensity(MONDAY_MS + HOUR_MS, 100.0)], hold_s=3600.0)
    found = week(settled("1", 4.0, 3600.0, profile=metered()), carbon=series).total
    assert found.carbon_g == 0.0
    assert found.carbon_unknown_j == pytest.approx(2 * KWH_J)


def test_a_run_that_is_reported_again_counts_once_and_one_that_is_deleted_not_at_all() -> None:
    first, again = (settled("1", 4.0, 3600.0, profile=metered(power_w)) for power_w in (500.0, 250.0))
    assert week(first, again).total.energy_j == pytest.approx(KWH_J)
    assert week(first, encode(Tombstone("runs", first.key))).total.runs == 0


def test_one_user_has_a_report_of_their_own() -> None:
    runs = (settled("1", 4.0, 3600.0, profile=metered()), settled("2", 4.0, 3600.0, profile=metered(), user="joe"))
    found = week(*runs, user="joe")
    assert [(job.job_id, job.user) for job in found.jobs] == [("2", "joe")]


def test_the_json_follows_its_schema() -> None:
    found = week(settled("1", 4.0, 3600.0, profile=metered()), settled("2", None, 60.0), carbon=Factor(300.0))
    jsonschema.validate(json.loads(msgspec.json.encode(found)), schema("scalewatch.energy/1"))


def test_the_meter_of_the_scheduler_counts_where_hosts_have_none() -> None:
    found = week(
        settled("1", 4.0, 3600.0, energy_j=3 * KWH_J), settled("2", 4.0, 3600.0, energy_j=9 * KWH_J, profile=metered())
    )
    assert [job.total.energy_j / KWH_J for job in found.jobs] == pytest.approx([3.0, 2.0])
    assert shares(found.total) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "shares_a_node",
    [{"exclusive": False}, {"profile": metered(shared=10, minutes=0, energy_j={})}],
    ids=["asked", "seen"],
)
def test_the_meter_of_the_scheduler_does_not_count_on_a_shared_node(shares_a_node: dict[str, Any]) -> None:
    """It counts the whole node for each of the jobs on it."""
    found = week(settled("1", 4.0, 3600.0, energy_j=3 * KWH_J, **shares_a_node)).total
    assert (found.energy_j, shares(found)) == (0.0, (0.0, 0.0, 1.0))


@pytest.mark.parametrize(
    ("cells", "kwh"),
    [
        ({"consumedenergyraw": "7200000"}, 2.0),
        ({"alloctres": "cpu=4,energy=3600000,node=1"}, 1.0),
        ({"consumedenergyraw": "0"}, None),
        ({"alloctres": "cpu=4,energy=18446744073709551614,node=1"}, None),
        ({}, None),
    ],
)
def test_what_sacct_writes_of_energy_is_read_unless_it_stands_for_nothing(
    cells: dict[str, str], kwh: float | None
) -> None:
    row = {"jobid": "812", "state": "COMPLETED", "start": "2026-11-20T10:00:00", "elapsedraw": "60", "nnodes": "1"}
    job = finished_job(row | cells, UTC, parse_rfc3339("2026-11-21T00:00:00Z"), DecodeOptions(default_system="exa"))
    assert job.energy_j == (None if kwh is None else kwh * KWH_J)


def test_minutes_on_a_shared_node_of_which_nothing_was_split_give_their_energy_to_nobody() -> None:
    """Of an hour on one node of 1 kW, half was shared."""
    run = settled("1", 1.0, 3600.0, profile=metered(1000.0, 1, minutes=30, expected=60, shared=30))
    found = week(run).total
    assert found.energy_j == pytest.approx(0.5 * KWH_J)
    assert shares(found) == pytest.approx((0.5, 0.0, 0.5))


def test_what_was_split_of_a_shared_node_is_estimated() -> None:
    """Of an hour on one node of 1 kW, half was shared; 0.1 kWh of that is the run's."""
    profile = metered(1000.0, 1, minutes=30, expected=60, shared=30)
    run = settled("1", 1.0, 3600.0, profile=msgspec.structs.replace(profile, split=30.0, split_j=0.1 * KWH_J))
    found = week(run).total
    assert found.energy_j == pytest.approx(0.6 * KWH_J)
    assert shares(found) == pytest.approx((0.5, 0.5, 0.0))


def test_the_energy_of_sessions_stands_apart_from_applications_and_from_what_nothing_names() -> None:
    session = settled("1", 4.0, 3600.0, application_id=None, identified_by="session", profile=metered())
    found = week(session, settled("2", 4.0, 3600.0, application_id=None, profile=metered(100.0)))
    assert [group.name for group in found.applications] == ["interactive sessions", None]
    assert [job.application for job in found.jobs] == ["interactive sessions", None]
