"""Failure rates of applications and hosts: credibly above their own past and the usual one."""

import msgspec
import pytest

from processors.contracts.alerts import AlertSettings
from processors.contracts.events import HostState
from tests.kit.scenario import SYSTEM, Scenario


def centre_with_a_past(runs: int = 60, **alerts: object) -> Scenario:
    """Return a centre in which two applications ran well, on all four hosts, since eight."""
    centre = Scenario(alerts=alerts)
    centre.at("08:00")
    for i in range(runs):
        centre.ran(f"a{i}", "lammps", 4, 100.0, hosts=("nid[1-4]",))
        centre.ran(f"b{i}", "gromacs", 4, 100.0, hosts=("nid[1-4]",))
    return centre.at("09:00")


def test_an_application_that_begins_to_fail_is_reported_once_and_resolves_when_it_runs_well_again() -> None:
    centre = centre_with_a_past()
    for i in range(8):
        centre.ran(f"bad{i}", "lammps", 4, 10.0, state="FAILED")
    assert centre.alerts("ApplicationFailureRate") == ["firing"]
    (prediction,) = [
        prediction
        for prediction in centre.messages("alerts")
        if prediction["labels"]["alertname"] == "ApplicationFailureRate"
    ]
    assert prediction["labels"]["application"] == "lammps"
    assert "of the last 20 runs of lammps on exa failed." in prediction["annotations"]["summary"]
    assert prediction["evidence"]["observed"] > prediction["evidence"]["expected"]
    for i in range(30):
        centre.ran(f"good{i}", "lammps", 4, 100.0)
    centre.at("09:30")
    assert centre.alerts("ApplicationFailureRate") == ["firing"], "it keeps firing for an hour"
    centre.restart()
    centre.at("10:01")
    assert centre.alerts("ApplicationFailureRate") == ["firing", "resolved"]


def test_an_application_that_has_always_failed_this_often_is_not_reported() -> None:
    centre = Scenario()
    centre.at("08:00")
    for i in range(200):
        centre.ran(f"{i}", "lammps", 4, 100.0, state="FAILED" if i % 5 == 0 else "COMPLETED")
    assert centre.alerts("ApplicationFailureRate") == []


def test_two_failures_are_no_rate() -> None:
    centre = centre_with_a_past()
    for i in range(2):
        centre.ran(f"bad{i}", "lammps", 4, 10.0, state="FAILED")
    assert centre.messages("alerts") == []


def test_runs_that_were_cancelled_report_nothing() -> None:
    centre = centre_with_a_past()
    for i in range(20):
        centre.ran(f"c{i}", "lammps", 4, 10.0, state="CANCELLED")
    assert centre.messages("alerts") == []


def test_a_host_on_which_two_applications_fail_is_reported_and_its_neighbours_are_not() -> None:
    centre = centre_with_a_past()
    for i in range(5):
        for application in ("lammps", "gromacs"):
            centre.ran(f"{application}{i}", application, 1, 10.0, state="FAILED", hosts=("nid3",))
    reported = [
        prediction["labels"]
        for prediction in centre.messages("alerts")
        if prediction["labels"]["alertname"] == "HostFailureRate"
    ]
    assert [(labels["system"], labels["host"]) for labels in reported] == [("exa", "nid3")]


def with_a_failing_host() -> Scenario:
    centre = centre_with_a_past()
    for i in range(5):
        for application in ("lammps", "gromacs"):
            centre.ran(f"{application}{i}", application, 1, 10.0, state="FAILED", hosts=("nid3",))
    assert centre.alerts("HostFailureRate") == ["firing"]
    return centre


@pytest.mark.parametrize("state", ["drain", "down"])
def test_the_alert_of_a_host_that_is_taken_out_of_service_ends_and_its_failures_are_forgotten(state: str) -> None:
    centre = with_a_failing_host()
    centre.at("09:10").fold(HostState(SYSTEM, "nid3", state, centre.now_ms))
    centre.restart()
    centre.at("10:09")
    assert centre.alerts("HostFailureRate") == ["firing"]
    centre.at("10:11")
    assert centre.alerts("HostFailureRate") == ["firing", "resolved"]
    centre.fold(HostState(SYSTEM, "nid3", "up", centre.now_ms))
    centre.ran("again", "lammps", 1, 10.0, state="FAILED", hosts=("nid3",))
    assert centre.alerts("HostFailureRate") == ["firing", "resolved"], "it was mended"


def test_the_alert_of_a_host_that_is_reported_as_up_or_of_another_host_stays() -> None:
    centre = with_a_failing_host()
    centre.at("09:10").fold(HostState(SYSTEM, "nid3", "up", centre.now_ms))
    centre.fold(HostState(SYSTEM, "nid4", "down", centre.now_ms))
    centre.at("20:00")
    assert centre.alerts("HostFailureRate") == ["firing"]


def test_the_alert_of_a_host_on_which_nothing_runs_any_more_ends_after_a_day() -> None:
    centre = with_a_failing_host()
    centre.restart()
    centre.at("1d 08:50")
    assert centre.alerts("HostFailureRate") == ["firing"]
    centre.at("1d 09:10")
    assert centre.alerts("HostFailureRate") == ["firing", "resolved"]


def test_a_host_on_which_one_application_fails_is_not_to_blame() -> None:
    centre = centre_with_a_past()
    for i in range(10):
        centre.ran(f"bad{i}", "lammps", 1, 10.0, state="FAILED", hosts=("nid3",))
    assert centre.alerts("HostFailureRate") == []


def hosts_reported(centre: Scenario) -> list[str]:
    return [alert["labels"]["host"] for alert in centre.messages("alerts") if "host" in alert["labels"]]


def test_applications_that_begin_to_fail_everywhere_blame_no_host() -> None:
    centre = centre_with_a_past()
    for i in range(40):
        centre.ran(f"{i}", ("lammps", "gromacs")[i % 2], 1, 10.0, state="FAILED", hosts=(f"nid{1 + i // 2 % 4}",))
    assert centre.alerts("ApplicationFailureRate") == ["firing", "firing"]
    assert hosts_reported(centre) == []


def test_hosts_that_always_work_together_are_not_to_blame_for_each_other() -> None:
    centre = centre_with_a_past()
    for i in range(12):
        centre.ran(f"{i}", ("lammps", "gromacs")[i % 2], 16, 10.0, state="FAILED", hosts=("nid[101-116]",))
    assert hosts_reported(centre) == []


def test_a_host_that_breaks_jobs_of_many_hosts_is_blamed_and_its_neighbours_are_not() -> None:
    centre = centre_with_a_past()
    names = ("lammps", "gromacs", "qcd", "icon")
    for i in range(60):  # each job has nid9, or none of its neighbours' trouble
        others = ",".join(f"nid{10 + (3 * i + k) % 20}" for k in range(3))
        centre.ran(f"good{i}", names[i % 4], 3, 100.0, hosts=(others,))
        if i % 3 == 0:
            centre.ran(f"bad{i}", names[i // 3 % 4], 4, 10.0, state="FAILED", hosts=(f"nid9,{others}",))
    assert hosts_reported(centre) == ["nid9"]
    alert = next(alert for alert in centre.messages("alerts") if "host" in alert["labels"])
    assert "failures were expected" in alert["annotations"]["summary"]


def test_only_the_host_that_failed_is_to_blame_where_it_is_named() -> None:
    centre = centre_with_a_past()
    for i in range(5):
        for name in ("lammps", "gromacs"):
            centre.ran(f"{name}{i}", name, 4, 10.0, state="NODE_FAIL", hosts=("nid[1-4]",), failed_host="nid2")
    reported = [
        prediction["labels"]["host"] for prediction in centre.messages("alerts") if "host" in prediction["labels"]
    ]
    assert reported == ["nid2"]


def test_a_corrected_failure_is_taken_back_from_its_host() -> None:
    centre = Scenario()
    event = centre.at("08:00").ran("1", "lammps", 1, 10.0, state="FAILED", hosts=("nid3",))
    centre.fold(msgspec.structs.replace(event, state="COMPLETED"))
    (rate,) = [centre.shard.state.hosts.open(key) for key in centre.shard.state.hosts.keys()]  # noqa: SIM118 - no mapping
    assert [failed for _, failed, *_ in rate.snapshot().recent] == [False]


def test_a_run_on_more_hosts_than_the_bound_counts_for_its_application_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AlertSettings.FailureRate, "hosts_per_run_max", 8)
    centre = Scenario()
    centre.at("08:00").ran("1", "lammps", 9, 10.0, state="FAILED", hosts=("nid[1-9]",))
    assert (len(centre.shard.state.hosts), centre.tally["bound:hosts_per_run_max"]) == (0, 1)
    assert len(centre.shard.state.failures) == 2


def test_hosts_that_cannot_be_read_cost_nothing_but_their_count() -> None:
    centre = Scenario()
    centre.at("08:00").ran("1", "lammps", 9, 10.0, state="FAILED", hosts=("nid[1-",))
    assert (len(centre.shard.state.hosts), len(centre.shard.state.failures)) == (0, 2)
