"""Power that counters do not explain, and runs that were disturbed: what people are told, and when they are not."""

from collections.abc import Callable

import pytest

from processors.contracts.alerts import UnexplainedPower
from processors.contracts.hosts import HostCause
from processors.pipeline.alerts import Warnings
from processors.pipeline.completions import Forgetting
from tests.kit.measured_runs import KEY, Measured, measured_after
from tests.kit.scenario import DAY_MS, Scenario

KNOWN = 70  # runs until models are fitted and have been checked often enough
Restart = Callable[[Scenario], None]
WITH_AND_WITHOUT_RESTART = pytest.mark.parametrize(
    "pause", [lambda _: None, lambda centre: centre.restart()], ids=["no-restart", "restart"]
)


@WITH_AND_WITHOUT_RESTART
def test_power_beyond_what_counters_explain_is_reported_once_and_is_over_with_the_next_run_that_is_explained(
    pause: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnexplainedPower, "for_s", 0.0)
    day = measured_after(KNOWN)
    assert not day.published("UnexplainedPower")
    pause(day.centre)
    day.runs_on(2, watts=1.4)
    pause(day.centre)
    day.runs_on(1).settles()
    firing, resolved = day.published("UnexplainedPower")
    assert (firing["status"], resolved["status"]) == ("firing", "resolved")
    assert firing["labels"] == {
        "alertname": "UnexplainedPower", "severity": "warning", "application": "lammps", "system": "exa", "input": "",
        "unit": "nodes",
    }  # fmt: skip
    evidence = firing["evidence"]
    assert 1.3 < evidence["observed"] / evidence["expected"] < 1.5
    assert evidence["high"] < evidence["observed"]
    assert evidence["runs"][0].startswith(f"exa/r{KNOWN}@")
    assert "W that its counters explain." in firing["annotations"]["summary"]
    assert "PAPI" in evidence["detail"]["counters"]


def test_power_that_was_estimated_from_counters_raises_nothing() -> None:
    day = measured_after(KNOWN).runs_on(2, watts=1.4, estimated=0.5).settles()
    assert not day.published("UnexplainedPower")


def test_a_disturbed_run_is_reported_with_the_counters_that_show_it() -> None:
    day = measured_after(KNOWN).runs_on(1, disturbed=0.4).runs_on(2)
    (prediction,) = day.published("DisturbedRun")
    assert (prediction["status"], prediction["severity"], prediction["kind"]) == ("firing", "info", "anomaly")
    summary = prediction["annotations"]["summary"]
    assert summary.startswith("lammps on 16 nodes was disturbed: it took 1.4")
    assert "PAPI_RES_STL per cycle at 1.8" in summary
    assert "robust standard deviations from" in prediction["annotations"]["description"]
    assert f"job exa/r{KNOWN} " in prediction["annotations"]["description"]
    assert prediction["evidence"]["detail"]["weight"] < 0.5
    assert not day.published("UnexplainedPower")  # it drew what its counters explain


def test_a_disturbed_run_has_one_open_alert_which_names_its_hosts() -> None:
    day = measured_after(KNOWN).runs_on(1, disturbed=0.4, hosts=("n1", "n2")).settles()
    assert [alert["status"] for alert in day.published("StrangeRun")] == ["firing", "resolved"]
    (disturbed,) = day.published("DisturbedRun")
    assert disturbed["annotations"]["description"].startswith("Hosts: n[1-2]. In job ")


def test_a_strange_run_without_counters_keeps_its_alert() -> None:
    day = measured_after(KNOWN).runs_on(1, disturbed=0.4, profiles=False).settles()
    assert [alert["status"] for alert in day.published("StrangeRun")] == ["firing"]
    assert not day.published("DisturbedRun")


def test_the_alert_about_a_disturbed_run_is_over_when_nothing_new_came() -> None:
    day = measured_after(KNOWN, disturbed_run={"keep_firing_s": 600.0}).runs_on(1, disturbed=0.4).runs_on(5)
    assert [prediction["status"] for prediction in day.published("DisturbedRun")] == ["firing", "resolved"]


def test_undisturbed_runs_raise_nothing() -> None:
    day = measured_after(KNOWN).runs_on(60).settles()
    assert not day.published("DisturbedRun")
    assert not day.published("UnexplainedPower")


def test_history_wakes_nobody() -> None:
    day = Measured(run_age_max_s=60.0).runs_on(KNOWN).runs_on(1, disturbed=0.5, watts=1.5).settles()
    assert not day.published("DisturbedRun")
    assert not day.published("UnexplainedPower")


def test_what_is_switched_off_is_not_reported() -> None:
    off = {"unexplained_power": {"enabled": False}, "disturbed_run": {"enabled": False}}
    day = Measured(**off).runs_on(KNOWN).runs_on(1, disturbed=0.5).runs_on(1, watts=1.5).settles()
    assert not day.published("DisturbedRun")
    assert not day.published("UnexplainedPower")


def test_an_application_that_is_not_run_any_more_has_no_open_alert_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnexplainedPower, "for_s", 0.0)
    monkeypatch.setattr(UnexplainedPower, "quiet_s", 3600.0)
    day = measured_after(KNOWN).runs_on(1, watts=1.4).settles()
    assert [prediction["status"] for prediction in day.published("UnexplainedPower")] == ["firing"]
    day.centre.at_ms(day.centre.now_ms + 3_700_000)
    assert [prediction["status"] for prediction in day.published("UnexplainedPower")] == ["firing", "resolved"]


def test_what_was_reported_of_an_application_is_over_when_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnexplainedPower, "for_s", 0.0)
    day = measured_after(KNOWN).runs_on(1, watts=1.4).settles()
    state = day.centre.shard.state
    list(Forgetting(state, Warnings(state)).forget(KEY))
    day.settles()
    assert [prediction["status"] for prediction in day.published("UnexplainedPower")] == ["firing", "resolved"]


def status_by_subject(day: Measured) -> list[tuple[str, str]]:
    """Return what fired, and what resolved after it: the host, else the application."""
    found = [
        (one["labels"].get("host", one["labels"].get("application")), one["status"])
        for one in day.published("UnexplainedPower")
    ]
    fired = {subject for subject, status in found if status == "firing"}
    return [each for each in found if each[0] in fired and each[1] != "pending"]


def test_one_run_that_is_not_explained_among_others_that_are_wakes_nobody() -> None:
    day = measured_after(KNOWN).runs_on(1, watts=1.4).runs_on(3).settles()
    assert status_by_subject(day) == []


def test_an_application_whose_runs_are_not_explained_any_more_is_reported_after_a_while() -> None:
    day = measured_after(KNOWN).runs_on(9, watts=1.4).settles()
    assert status_by_subject(day)[0] == ("lammps", "firing")


@WITH_AND_WITHOUT_RESTART
def test_a_host_that_draws_too_much_is_named_once_whatever_runs_on_it(pause: Restart) -> None:
    day = measured_after(KNOWN, ("n1", "n2"))
    for _ in range(4):
        day.runs_on(1, hosts=("n1",), excess_w=190.0).runs_on(3, hosts=("n2", "n3"))
        pause(day.centre)
    day.settles()
    assert status_by_subject(day) == [("n1", "firing")]
    (firing,) = (one for one in day.published("UnexplainedPower") if one["status"] == "firing")
    assert firing["annotations"]["summary"].startswith("n1 on exa draws 1")
    assert 150 < firing["evidence"]["observed"] < 230


def test_a_host_that_is_as_others_again_is_named_no_more() -> None:
    day = measured_after(KNOWN, ("n1", "n2"))
    for _ in range(3):
        day.runs_on(1, hosts=("n1",), excess_w=190.0).runs_on(2, hosts=("n2",))
    day.runs_on(8, hosts=("n1",)).settles()
    assert status_by_subject(day) == [("n1", "firing"), ("n1", "resolved")]


def test_two_hosts_with_equal_evidence_are_both_named_and_an_exclusion_of_one_covers_both() -> None:
    day = measured_after(KNOWN, ("n1", "n2")).runs_on(6, hosts=("n1", "n2"), excess_w=190.0).settles()
    (firing,) = (alert for alert in day.published("UnexplainedPower") if alert["status"] == "firing")
    assert (firing["labels"]["hosts"], "host" in firing["labels"]) == ("n1,n2", False)
    assert firing["annotations"]["summary"].startswith("One of n1, n2 on exa draws 1")
    excluded = [{"hosts": "n2", "comment": "its sensor is broken"}]
    day = measured_after(KNOWN, ("n1", "n2"), exclusions=excluded).runs_on(6, hosts=("n1", "n2"), excess_w=190.0)
    assert "firing" not in [alert["status"] for alert in day.settles().published("UnexplainedPower")]


def test_the_alert_about_two_hosts_ends_when_a_run_shows_which_one_is_to_blame() -> None:
    day = measured_after(KNOWN, ("n1", "n2"))
    for hosts in (("n1", "n2"),) * 3 + (("n1",),) * 2:
        day.runs_on(1, hosts=hosts, excess_w=190.0).runs_on(3, hosts=("n3",))
    messages = [(alert["labels"], alert["status"]) for alert in day.settles().published("UnexplainedPower")]
    of_hosts = [(labels.get("hosts", labels.get("host")), status) for labels, status in messages]
    assert [entry for entry in of_hosts if entry[0]] == [("n1,n2", "firing"), ("n1", "firing"), ("n1,n2", "resolved")]


@pytest.mark.parametrize(("host", "statuses"), [("n1", ["firing", "resolved"]), ("n3", ["firing"])])
def test_power_of_a_host_and_another_alert_about_this_host_are_one_alert(host: str, statuses: list[str]) -> None:
    day = measured_after(KNOWN, ("n1", "n2")).runs_on(3, hosts=("n1",), excess_w=190.0)
    day.centre.predicted.odd = HostCause(host, day.centre.now_ms, day.centre.now_ms + DAY_MS, power_only=False)
    day.centre.shard.state.causes = day.centre.predicted
    day.runs_on(2, hosts=("n1",), excess_w=190.0).settles()
    assert status_by_subject(day) == [("n1", status) for status in statuses]
