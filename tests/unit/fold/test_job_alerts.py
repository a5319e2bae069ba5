"""Alerts about running jobs: hanging, slow, or about to hit the time limit; on event time, through restarts."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.host_minutes import MINUTE_MS, minute
from tests.kit.scenario import Scenario, moment_ms

SIZES = (1, 2, 4, 8, 16) * 4
Restart = Callable[[Scenario], None]
WITH_AND_WITHOUT_RESTART = pytest.mark.parametrize(
    "pause", [lambda _: None, lambda centre: centre.restart()], ids=["no-restart", "restart"]
)


def learned(**alerts: Any) -> Scenario:
    """Return a centre that knows lammps: 270 s on 4 nodes."""
    centre = Scenario(alerts=alerts)
    centre.at("08:00").scales("lammps", *SIZES)
    return centre.at("10:00")


@WITH_AND_WITHOUT_RESTART
def test_a_job_that_hangs_for_five_hours_fires_once_and_resolves_when_it_ends(pause: Restart) -> None:
    centre = learned()
    centre.starts("812", "lammps", nodes=4, user="u-1")
    centre.at("10:14")
    assert centre.alerts("HangingJob") == []
    centre.at("10:16")
    assert centre.alerts("HangingJob") == ["pending"]
    pause(centre)
    centre.at("10:33")
    assert centre.alerts("HangingJob") == ["pending", "firing"]
    alert = centre.messages("alerts")[-1]
    assert alert["labels"] == {
        "alertname": "HangingJob", "severity": "warning", "system": "exa", "job": "812", "user": "u-1", "application": "lammps",
    }  # fmt: skip
    assert alert["annotations"]["summary"].startswith("Job 812 (lammps) on exa may hang: it has run for 30 min, 6")
    assert "No telemetry tells whether its hosts are busy." in alert["annotations"]["description"]
    assert alert["evidence"]["low"] < alert["evidence"]["expected"] < alert["evidence"]["high"] < 300
    pause(centre)
    centre.at("15:00")
    assert centre.alerts("HangingJob") == ["pending", "firing"]
    centre.ends("812", "CANCELLED")
    centre.at("15:01")
    assert centre.alerts("HangingJob") == ["pending", "firing", "resolved"]


def test_a_job_inside_its_band_or_a_little_beyond_does_not_fire() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    centre.at("10:04:30").ends("1")
    centre.starts("2", "lammps", nodes=4)
    centre.at("10:18").ends("2")
    centre.at("12:00")
    assert centre.alerts("HangingJob") == centre.alerts("SlowJob") == []


def test_a_job_that_ends_while_the_alert_gathers_never_fires() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    centre.at("10:20").ends("1")
    centre.at("12:00")
    assert centre.alerts("HangingJob") == ["pending", "resolved"]


def test_an_unknown_application_a_session_and_a_rule_switched_off_raise_nothing() -> None:
    centre = learned(hanging_job={"enabled": False})
    centre.starts("1", "lammps", nodes=4)
    other = learned()
    other.starts("2", "unheard", nodes=4)
    other.starts("3", job_name="jupyter", nodes=4)
    for each in (centre, other):
        each.at("15:00")
        assert each.alerts("HangingJob") == each.alerts("SlowJob") == []


def test_a_job_past_its_limit_has_ended_although_nobody_reported_it() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, time_limit_s=1200.0)
    centre.at("10:29")
    assert centre.alerts("HangingJob") == ["pending"]
    centre.at("15:00")
    assert centre.alerts("HangingJob") == ["pending", "resolved"]


def test_a_requeued_job_starts_without_the_alert_of_its_former_run() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    centre.at("10:40")
    assert centre.alerts("HangingJob") == ["pending", "firing"]
    centre.starts("1", "lammps", nodes=4)
    centre.at("10:41")
    assert centre.alerts("HangingJob") == ["pending", "firing", "resolved"]


def test_the_alert_resolves_when_later_evidence_names_another_application() -> None:
    centre = learned()
    centre.starts("1", job_name="lammps", nodes=4)
    centre.at("10:40")
    assert centre.alerts("HangingJob") == ["pending", "firing"]
    centre.report_from("xalt", "1", executable="/opt/gromacs/gmx")
    centre.at("10:42")
    assert centre.alerts("HangingJob") == ["pending", "firing", "resolved"]


def measured_until(centre: Scenario, moment: str, *hosts: str, **resources: float) -> Scenario:
    """Let time pass; at each minute the hosts report these values."""
    while centre.now_ms < moment_ms(moment):
        for host in hosts:
            means: dict[str, Any] = {name: (value,) for name, value in resources.items()}
            centre.fold(minute(host, centre.now_ms // MINUTE_MS, **means))
        centre.at_ms(centre.now_ms + MINUTE_MS)
    return centre


@WITH_AND_WITHOUT_RESTART
def test_a_job_on_idle_hosts_hangs_sooner_and_surely_and_is_busy_again_later(pause: Restart) -> None:
    centre = Scenario()
    centre.at("08:00").scales("long", *(each / 16 for each in SIZES))  # 4020 s on a quarter of a node
    centre.at("10:00").starts("1", "long", nodes=0.25, hosts=("nid[1-2]",))
    measured_until(centre, "11:16", "nid1", "nid2", cpu_available=0.3)
    measured_until(centre, "11:24", "nid1", "nid2", cpu_available=0.999, load1=0.02)
    assert centre.alerts("HangingJob") == ["pending"]
    pause(centre)
    measured_until(centre, "11:42", "nid1", "nid2", cpu_available=0.999, load1=0.02)
    assert centre.alerts("HangingJob") == ["pending", "firing"]
    alert = centre.messages("alerts")[-1]
    assert alert["annotations"]["summary"].endswith(", and its hosts are idle.")
    assert alert["evidence"]["observed"] < 1.5 * alert["evidence"]["high"]
    pause(centre)
    measured_until(centre, "11:50", "nid1", "nid2", cpu_available=0.2)
    assert centre.alerts("HangingJob") == ["pending", "firing", "resolved"]


def test_a_job_busy_beyond_its_band_is_called_slow_and_not_hanging() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, user="u-1", hosts=("nid1", "nid2"))
    measured_until(centre, "10:40", "nid1", "nid2", cpu_available=0.05)
    assert centre.alerts("HangingJob") == []
    assert centre.alerts("SlowJob") == ["pending", "firing"]
    alert = centre.messages("alerts")[-1]
    assert (alert["severity"], alert["labels"]["job"]) == ("info", "1")
    assert "Its hosts are busy" in alert["annotations"]["description"]
    measured_until(centre, "11:10", "nid1", "nid2", cpu_available=0.999)
    assert centre.alerts("SlowJob") == ["pending", "firing", "resolved"]
    assert centre.alerts("HangingJob") == ["pending", "firing"]
    centre.ends("1")
    centre.at("11:11")
    assert centre.alerts("HangingJob") == ["pending", "firing", "resolved"]


@pytest.mark.parametrize(
    ("resources", "verdict"),
    [
        ({"cpu_available": 0.999}, "HangingJob"),
        ({"cpu_available": 0.999, "load1": 1.0}, "SlowJob"),
        ({"cpu_available": 0.999, "gpu_utilisation": 0.9}, "SlowJob"),
        ({"cpu_available": 0.999, "power_w>gpu:0": 60.0}, "HangingJob"),
        ({"cpu_available": 0.999, "power_w>gpu:0": 300.0}, "SlowJob"),
        ({"cpu_available": 0.999, "memory_free": 1e9, "bandwidth>nid2": 1e9}, "HangingJob"),
        ({"cpu_available": 0.9}, "SlowJob"),
    ],
)
def test_processor_gpu_and_network_show_whether_a_job_is_busy(resources: dict[str, float], verdict: str) -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, hosts=("nid1",))
    measured_until(centre, "10:40", "nid1", **resources)
    named = {name: centre.alerts(name) for name in ("HangingJob", "SlowJob")}
    assert named == {"HangingJob": [], "SlowJob": [], verdict: ["pending", "firing"]}


def test_where_most_hosts_are_not_measured_nobody_knows_whether_a_job_is_busy() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, hosts=("nid[1-4]",))
    measured_until(centre, "10:40", "nid1", cpu_available=0.999)
    assert centre.alerts("HangingJob") == ["pending", "firing"]
    assert "No telemetry tells" in centre.messages("alerts")[-1]["annotations"]["description"]


@WITH_AND_WITHOUT_RESTART
def test_a_job_that_will_hit_its_limit_fires_once_half_an_hour_before_and_resolves_when_it_ends(pause: Restart) -> None:
    centre = Scenario()
    centre.at("08:00").scales("long", *(each / 16 for each in SIZES))
    centre.at("10:00").starts("1", "long", nodes=0.25, user="u-1", time_limit_s=3600.0)
    centre.at("10:29")
    assert centre.alerts("JobNearLimit") == []
    centre.at("10:32")
    assert centre.alerts("JobNearLimit") == ["firing"]
    alert = centre.messages("alerts")[-1]
    assert (alert["labels"]["job"], alert["labels"]["user"], alert["severity"]) == ("1", "u-1", "info")
    assert alert["annotations"]["summary"] == (
        "Job 1 (long) on exa will probably be ended by its limit of 1 h at 11:00 on 20 Nov (UTC)."
    )
    assert alert["annotations"]["description"].startswith("The chance is at least 99 %. It has run for 3")
    pause(centre)
    centre.at("11:00").ends("1", "TIMEOUT")
    centre.at("11:01")
    assert centre.alerts("JobNearLimit") == ["firing", "resolved"]
    assert centre.alerts("HangingJob") == []


def test_the_user_of_a_short_job_is_warned_when_half_of_the_limit_is_left() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, time_limit_s=200.0)
    centre.at("10:01:30")
    assert centre.alerts("JobNearLimit") == []
    centre.at("10:02:50")
    assert centre.alerts("JobNearLimit") == ["firing"]


@pytest.mark.parametrize(("chance_min", "statuses"), [(0.1, ["firing"]), (0.9, [])])
def test_a_job_is_warned_of_only_if_its_limit_is_likely_enough(chance_min: float, statuses: list[str]) -> None:
    centre = learned(job_near_limit={"chance_min": chance_min})
    centre.starts("1", "lammps", nodes=4, time_limit_s=275.0)
    centre.at("10:04:20")
    assert centre.alerts("JobNearLimit") == statuses


def test_a_job_that_will_end_in_time_or_has_no_limit_or_is_switched_off_is_not_warned_of() -> None:
    centre, off = learned(), learned(job_near_limit={"enabled": False})
    centre.starts("1", "lammps", nodes=4, time_limit_s=600.0)
    centre.starts("2", "lammps", nodes=4)
    centre.starts("3", "unheard", nodes=4, time_limit_s=600.0)
    off.starts("4", "lammps", nodes=4, time_limit_s=200.0)
    for each in (centre, off):
        each.at("10:04")
        assert each.alerts("JobNearLimit") == []


def test_a_job_of_similar_runs_alone_is_warned_of_in_time_too() -> None:
    """Its prediction was revised so seldom that the limit came first."""
    centre = Scenario(alerts={"job_near_limit": {"chance_min": 0.5}})
    centre.at("02:00")
    for i, state in enumerate(("COMPLETED", *["TIMEOUT"] * 4) * 8):
        run_time_s = 29_000.0 if state == "COMPLETED" else 30_000.0
        centre.ran(f"s{i}", None, 4, run_time_s, state=state, user="ann", job_name="odd", time_limit_s=30_000.0)
    centre.at("10:00").starts("1", None, nodes=4, user="ann", job_name="odd", time_limit_s=30_000.0)
    for moment in ("12:00", "15:00", "17:45", "18:06"):
        centre.at(moment)
    assert centre.alerts("JobNearLimit") == ["firing"]
