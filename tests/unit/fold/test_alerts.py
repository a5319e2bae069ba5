"""Alerts: pending, firing, resolved, on event time, through restarts."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.scenario import Scenario

SIZES = (1, 2, 4, 8, 16) * 4
Restart = Callable[[Scenario], None]
WITH_AND_WITHOUT_RESTART = pytest.mark.parametrize(
    "pause", [lambda _: None, lambda centre: centre.restart()], ids=["no-restart", "restart"]
)


def learned(**alerts: Any) -> Scenario:
    centre = Scenario(alerts=alerts)
    centre.at("08:00").scales("lammps", *SIZES)
    centre.at("09:00").scales("lammps", *SIZES, prefix="scored")  # without scored runs nothing is strange
    return centre.at("10:00")


@WITH_AND_WITHOUT_RESTART
def test_a_run_far_outside_its_band_fires_at_once_and_resolves_after_an_hour(pause: Restart) -> None:
    centre = learned()
    centre.ran("slow", "lammps", 4, 540.0)
    (prediction,) = centre.messages("alerts")
    assert prediction["status"] == "firing"
    assert prediction["labels"] == {
        "alertname": "StrangeRun", "severity": "info", "application": "lammps", "system": "exa", "input": "",
        "unit": "nodes", "direction": "slow",
    }  # fmt: skip
    assert prediction["annotations"]["summary"].startswith("lammps on 4 nodes took 9 min, 1.9")
    assert prediction["evidence"]["observed"] == 540.0
    assert prediction["evidence"]["low"] < prediction["evidence"]["expected"] < prediction["evidence"]["high"] < 540
    pause(centre)
    centre.at("10:59:50")
    pause(centre)
    assert centre.alerts("StrangeRun") == ["firing"]
    centre.at("11:00")
    assert centre.alerts("StrangeRun") == ["firing", "resolved"]
    assert centre.messages("alerts")[-1]["ends"] == "2026-11-20T11:00:00Z"
    assert len(centre.topic("alerts")) == len({prediction["fingerprint"] for prediction in centre.messages("alerts")})


@WITH_AND_WITHOUT_RESTART
def test_another_such_run_keeps_the_alert_firing_without_another_message(pause: Restart) -> None:
    centre = learned()
    centre.ran("slow1", "lammps", 4, 540.0)
    pause(centre)
    centre.at("10:40").ran("slow2", "lammps", 4, 540.0)
    pause(centre)
    centre.at("11:39:50")
    assert centre.alerts("StrangeRun") == ["firing"]
    centre.at("11:40")
    assert centre.alerts("StrangeRun") == ["firing", "resolved"]
    assert centre.messages("alerts")[-1]["starts"] == "2026-11-20T10:00:00Z"


def test_a_strange_run_names_its_hosts_and_the_jobs_beside_it() -> None:
    centre = learned()
    for job, hosts in (("beside", ("n1",)), ("elsewhere", ("n9",))):
        centre.starts(job, "other", 1, hosts=hosts)
    centre.at("10:20").ran("slow", "lammps", 4, 540.0, hosts=("n1", "n2"))
    (alert,) = centre.messages("alerts")
    place = {name: alert["evidence"]["detail"].get(name) for name in ("hosts", "neighbours")}
    assert place == {"hosts": "n[1-2]", "neighbours": "job exa/beside"}
    assert alert["annotations"]["description"].startswith("Hosts: n[1-2]. Neighbours: job exa/beside. The predicted")


def test_a_strange_run_without_known_hosts_names_none() -> None:
    centre = learned()
    centre.ran("slow", "lammps", 4, 540.0)
    (alert,) = centre.messages("alerts")
    assert not {"hosts", "neighbours"} & alert["evidence"]["detail"].keys()
    assert alert["annotations"]["description"].startswith("The predicted range")


def test_a_run_within_its_band_or_of_a_young_model_raises_nothing() -> None:
    centre = learned()
    centre.ran("fine", "lammps", 4, 272.0)
    young = Scenario()
    for i in range(3):
        young.at("08:00").ran(f"{i}", "lammps", 4, 270.0)
    young.at("08:01").ran("slow", "lammps", 4, 540.0)
    assert centre.messages("alerts") == young.messages("alerts") == []


def test_a_run_of_history_raises_nothing() -> None:
    centre = learned()
    centre.at("17:00").ran("recent", "lammps", 4, 540.0)
    assert centre.alerts("StrangeRun") == ["firing"]
    centre = learned()
    old = Scenario().at("10:00").ran("old", "lammps", 4, 540.0)
    centre.at("17:00").fold(old)
    assert centre.alerts("StrangeRun") == []
    assert len(centre.runs_of("lammps")) == 2 * len(SIZES) + 1


def test_a_fast_run_is_information_and_an_alert_of_its_own() -> None:
    centre = learned()
    centre.ran("slow", "lammps", 4, 540.0)
    centre.ran("fast", "lammps", 4, 130.0)
    slow, fast = centre.messages("alerts")
    assert (fast["severity"], fast["labels"]["direction"]) == ("info", "fast")
    assert slow["fingerprint"] != fast["fingerprint"]


@WITH_AND_WITHOUT_RESTART
def test_a_slow_size_is_pending_fires_after_half_an_hour_and_resolves_three_hours_after_it_is_so_no_more(
    pause: Restart,
) -> None:
    centre = learned()
    for i in range(12):
        centre.ran(f"slow{i}", "lammps", 8, 290.0)
    centre.at("10:00:10")
    assert centre.alerts("SlowSize") == ["pending"]
    pause(centre)
    centre.at("10:30")
    pause(centre)
    assert centre.alerts("SlowSize") == ["pending"]
    centre.at("10:30:10")
    assert centre.alerts("SlowSize") == ["pending", "firing"]
    prediction = centre.messages("alerts")[-1]
    assert (prediction["labels"]["n"], prediction["severity"]) == ("8", "warning")
    assert (
        "lammps on exa is 98 % slower at 8 nodes than its other sizes suggest" in prediction["annotations"]["summary"]
    )
    assert "runbook_url" not in prediction["annotations"], "nobody said where the agent's page is"
    for i in range(40):
        centre.ran(f"good{i}", "lammps", 8, 145.0)
    pause(centre)
    centre.at("13:30")
    assert centre.alerts("SlowSize") == ["pending", "firing"], "one curve says little"
    pause(centre)
    centre.at("13:50")
    assert centre.alerts("SlowSize") == ["pending", "firing", "resolved"]


def test_what_is_slow_for_less_than_half_an_hour_never_fires() -> None:
    centre = learned()
    for i in range(12):
        centre.ran(f"slow{i}", "lammps", 8, 290.0)
    centre.at("10:10")
    for i in range(40):
        centre.ran(f"good{i}", "lammps", 8, 145.0)
    centre.at("12:00")
    assert centre.alerts("SlowSize") == ["pending", "resolved"]


def test_a_rule_that_is_switched_off_reports_nothing() -> None:
    centre = learned(strange_run={"enabled": False}, slow_size={"enabled": False})
    for i in range(12):
        centre.ran(f"slow{i}", "lammps", 8, 290.0)
    centre.at("12:00")
    assert centre.messages("alerts") == []


def test_predictions_that_are_not_reliable_are_reported_after_ten_minutes() -> None:
    centre = Scenario()
    centre.at("08:00")
    for i, time_s in enumerate((100.0, 80.0, 20.0, 35.0, 9.0) * 4):
        centre.ran(f"{i}", "mixed", 2.0 ** (i % 5), time_s)
    centre.at("08:10")
    assert centre.topic("predictions")["exa/mixed//nodes"]["reliability"]["verdict"] == "high_error"
    assert centre.alerts("PredictionUnreliable") == ["pending"]
    centre.at("08:10:10")
    assert centre.alerts("PredictionUnreliable") == ["pending", "firing"]
    assert centre.messages("alerts")[-1]["labels"]["verdict"] == "high_error"


def test_an_application_that_slows_down_is_advice_and_no_alert_unless_it_is_asked_for() -> None:
    centre = Scenario()
    centre.at("08:00")
    for i, time_s in enumerate((800.0, 420.0, 230.0, 150.0, 180.0) * 4):
        centre.ran(f"{i}", "slower", 2.0 ** (i % 5), time_s)
    centre.at("10:00")
    assert centre.topic("predictions")["exa/slower//nodes"]["useful_n"]["slower_beyond"] == 8.0
    assert centre.alerts("SlowsDown") == []


def test_an_application_that_slows_down_has_an_alert_of_its_own_and_its_prediction_is_as_good() -> None:
    centre = Scenario(alerts={"slows_down": {"enabled": True}})
    centre.at("08:00")
    for i, time_s in enumerate((800.0, 420.0, 230.0, 150.0, 180.0) * 4):
        centre.ran(f"{i}", "slower", 2.0 ** (i % 5), time_s)
    centre.at("08:10")
    predicted = centre.topic("predictions")["exa/slower//nodes"]
    assert predicted["useful_n"]["slower_beyond"] == 8.0
    assert "do not allocate more than 8" in " ".join(predicted["reliability"]["advice"])
    centre.at("08:10:10")
    assert centre.alerts("SlowsDown") == ["pending", "firing"]
    assert centre.alerts("PredictionUnreliable") == []
    (alert,) = centre.topic("alerts").values()
    assert (alert["labels"]["application"], alert["labels"]["system"]) == ("slower", "exa")
    assert alert["annotations"]["summary"] == "slower on exa is slower at 16 nodes than at 8."


def test_the_alert_of_an_application_that_slows_down_resolves_with_its_model() -> None:
    centre = Scenario(run_time={"applications_max": 1}, alerts={"slows_down": {"enabled": True}})
    centre.at("08:00")
    for i, time_s in enumerate((800.0, 420.0, 230.0, 150.0, 180.0) * 4):
        centre.ran(f"{i}", "slower", 2.0 ** (i % 5), time_s)
    centre.at("08:10:10")
    assert centre.alerts("SlowsDown") == ["pending", "firing"]
    centre.at("10:00").scales("lammps", *SIZES)
    centre.at("10:30")
    assert centre.alerts("SlowsDown")[-1] == "resolved"


def test_the_alerts_of_an_application_that_is_evicted_resolve() -> None:
    centre = Scenario(run_time={"applications_max": 1})
    centre.at("08:00").scales("lammps", *SIZES)
    for i in range(12):
        centre.ran(f"slow{i}", "lammps", 8, 290.0)
    centre.at("08:31")
    assert centre.alerts("SlowSize") == ["pending", "firing"]
    centre.at("12d 08:31").ran("1", "gromacs", 4, 100.0)
    centre.at("12d 08:32")
    assert centre.alerts("SlowSize") == ["pending", "firing", "resolved"]
    assert len(centre.shard.state.alerts) == 0


def test_no_more_alerts_than_the_bound_are_open_and_the_rest_is_counted() -> None:
    centre = Scenario(alerts={"open_max": 1})
    for hour in ("08", "09"):
        centre.at(f"{hour}:00").scales("lammps", *SIZES, prefix=hour)
        centre.scales("gromacs", *SIZES, prefix=hour)
    centre.at("10:00").ran("1", "lammps", 4, 540.0)
    centre.ran("2", "gromacs", 4, 540.0)
    assert [prediction["labels"]["application"] for prediction in centre.messages("alerts")] == ["lammps"]
    assert centre.tally["bound:open_alerts_max"] == 1
    centre.at("11:00").ran("3", "gromacs", 4, 540.0)
    assert centre.topic("alerts")
    assert [prediction["labels"]["application"] for prediction in centre.messages("alerts")] == [
        "lammps",
        "lammps",
        "gromacs",
    ]
