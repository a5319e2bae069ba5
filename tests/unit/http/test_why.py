"""Why a run took so long: the strongest cause that stands on a measurement, or that there is none."""

import re
from typing import Any

import msgspec
from markupsafe import Markup

from processors.contracts.events import Attribute
from processors.contracts.hosts import HostFinding
from processors.contracts.load import UnderLoad
from processors.contracts.nodes import HostRack
from processors.contracts.outputs import Alert, AlertEvidence, SlowedBy
from processors.contracts.service import Neighbour
from sinks.prometheus.registry import Metrics
from sinks.web.access import Reader, VisibilityFilter
from sinks.web.server import create_app
from sinks.web.views.why import neighbours, why_ended, why_running
from tests.kit.messages import alert, host_view, job, prediction
from tests.kit.pages import read
from tests.kit.recent import NOON_MS, predicted, recent_run
from tests.kit.service import FixedService

HOSTS = ("r2n[01-16]",)
SLOW: dict[str, Any] = {"run_time_s": 3000.0, "hosts": HOSTS}
APPLICATION = {"application": "lammps", "system": "archer2", "input": "rhodo", "unit": "nodes"}


def of_host(name: str = "PeerDifference", host: str = "r2n01", **changes: Any) -> Alert:
    detail: dict[str, Attribute] = {"job": "archer2/812", "jobs": 1, "cpu_frequency": "cpu_frequency 1.2, peers 2.4"}
    values: dict[str, Any] = {
        "labels": {"alertname": name, "system": "archer2", "host": host},
        "starts": "2026-11-20T12:10:00Z",
        "evidence": AlertEvidence(observed=1.2e9, expected=2.4e9, detail=detail),
    }
    return alert(f"f-{host}", **(values | changes))


def links_of(text: Markup) -> list[str]:
    return re.findall(r'href="([^"]+)"', text)


def why(*alerts: Alert, **changes: Any) -> str:
    return why_ended(FixedService(alerts=alerts), recent_run(**(SLOW | changes))).lead.striptags()


def test_a_slow_run_whose_host_differed_from_the_others_names_it_and_since_when() -> None:
    assert why(of_host()) == ("Host r2n01 (one of 16) ran at half the speed of the others since 2026-11-20 12:10 UTC.")
    links = links_of(why_ended(FixedService(alerts=[of_host()]), recent_run(**SLOW)).lead)
    assert links == ["/hosts/archer2/r2n01", "/alerts/f-r2n01"]


def test_what_differs_is_named_as_it_was_measured() -> None:
    evidence = AlertEvidence(observed=0.5, expected=0.98, detail={"cpu_available": "0.5"})
    assert "differed from the others (processor available 50 % against 98 %) since" in why(of_host(evidence=evidence))
    own = AlertEvidence(
        observed=1e11, low=1.8e11, high=1.9e11, detail={"memory_free": "110 GB (181 GB to 186 GB until then)"}
    )
    assert "r2n01 (one of 16) behaved abnormally (memory free) since" in why(of_host("HostAnomaly", evidence=own))


def test_nothing_is_claimed_of_hosts_that_were_odd_elsewhere_or_at_other_times() -> None:
    nothing = "The run took 76 % longer than expected. No measurement explains why."
    power = AlertEvidence(observed=300.0, expected=200.0, detail={"power_w>system": "300 W"})
    for other in (
        of_host(host="r9n99"),
        of_host(labels={"alertname": "PeerDifference", "system": "other", "host": "r2n01"}),
        of_host(starts="2026-11-20T18:00:00Z"),
        of_host(status="resolved", ends="2026-11-20T11:00:00Z"),
        of_host(status="pending"),
        of_host(evidence=power),
    ):
        assert why(other) == nothing
    assert why() == nothing


def test_the_host_that_settles_why_a_run_was_slow_comes_first() -> None:
    found = why_ended(
        FixedService(alerts=[of_host(host="r2n02"), of_host()]),
        recent_run(**SLOW, slowed_by=SlowedBy("r2n01", 1.76)),
    )
    assert found.lead.striptags().endswith(
        "ran at half the speed of the others since 2026-11-20 12:10 UTC; the run took 1.76 times as long as usual."
    )
    assert [text.striptags()[:30] for text in found.others] == ["Host r2n02 (one of 16) ran at "]
    assert why(slowed_by=SlowedBy("r2n01", 1.76)) == (
        "Host r2n01 (one of 16) was abnormal during the run; the run took 1.76 times as long as usual."
    )


def test_an_application_that_became_slower_explains_its_runs_after_that() -> None:
    evidence = AlertEvidence(observed=3000.0, expected=2000.0, detail={"since": "2026-11-20T08:00:00Z"})
    changed = alert(labels={"alertname": "Regression", **APPLICATION}, starts="2026-11-20T09:00:00Z", evidence=evidence)
    assert (
        why(changed)
        == "Other runs are affected, too: lammps has taken 1.50 times as long as before since 2026-11-20 08:00 UTC."
    )
    assert why(of_host(), changed).startswith("Host r2n01 (one of 16)"), (
        "what is wrong with a host is the stronger cause"
    )
    slow_size = alert(labels={"alertname": "SlowSize", **APPLICATION, "n": "32"}, evidence=evidence)
    assert "No measurement explains" in why(slow_size), "another size"


def test_the_counter_that_moved_with_an_application_is_named() -> None:
    counter: dict[str, Attribute] = {
        "counter": "PAPI_L2_DCM per instruction",
        "counter_before": 0.01,
        "counter_since": 0.014,
    }
    evidence = AlertEvidence(observed=3000.0, expected=2000.0, detail={"since": "2026-11-20T08:00:00Z", **counter})
    changed = alert(labels={"alertname": "Regression", **APPLICATION}, starts="2026-11-20T09:00:00Z", evidence=evidence)
    assert why(changed).endswith(
        "since 2026-11-20 08:00 UTC, with PAPI_L2_DCM per instruction at 1.40 times its former rate."
    )


def test_a_run_inside_its_band_took_as_long_as_expected_whatever_was_odd() -> None:
    assert why(of_host(), run_time_s=1800.0) == "The run took as long as expected."


def test_a_run_that_was_not_predicted_has_nothing_to_be_compared_with() -> None:
    assert why(of_host(), predicted=None) == "The run had no prediction, so its run time cannot be judged."


def test_a_limit_that_was_too_short_is_the_cause_of_a_time_out() -> None:
    assert why(state="TIMEOUT", run_time_s=1500.0, time_limit_s=1500.0) == (
        "The time limit of 25 min was too short: such runs take up to 34 min."
    )
    assert "r2n01" in why(of_host(), state="TIMEOUT", time_limit_s=3000.0)


def test_a_run_that_failed_names_what_fails_more_often() -> None:
    host = of_host("HostFailureRate", evidence=AlertEvidence(observed=0.5, expected=0.1))
    assert why(host, state="FAILED") == "Host r2n01 (one of 16) has failed more runs than expected."
    assert why(state="FAILED") == "No measurement explains how the run ended."


def test_what_is_unlike_other_runs_of_the_size_is_no_cause_and_is_listed() -> None:
    others = [recent_run(str(n), 1700.0, power_w=1000.0 + n, counters={"FLOPS": 100.0 + n}) for n in range(6)]
    run = recent_run("9", **SLOW, power_w=700.0, counters={"FLOPS": 50.0})
    found = why_ended(FixedService(runs=[*others, run]), run)
    assert found.lead.striptags().endswith("No measurement explains why.")
    assert found.remarks == [
        "The run drew 30 % less power than other runs of its size.",
        "Counter rates compared with other runs of this size: FLOPS 0.49 times as high.",
    ]


def test_neighbours_on_shared_hosts_are_named_where_they_are_more_than_usual() -> None:
    others = [recent_run(str(n), 1700.0, shared=0.1) for n in range(6)]
    run = recent_run("9", **SLOW, shared=0.6)
    assert why_ended(FixedService(runs=[*others, run]), run).lead.striptags() == (
        "Other jobs shared the hosts for 60 % of the time (usually 10 %)."
    )


def test_a_running_job_names_what_slows_it_and_else_that_nothing_does() -> None:
    service = FixedService([prediction()], alerts=[of_host(starts="2026-11-20T10:05:00Z")])
    running = job("812", start="2026-11-20T10:00:00Z")
    assert (
        why_running(service, running, NOON_MS)
        .lead.striptags()
        .endswith("such runs take up to 28 s. No measurement explains why.")
    )
    assert why_running(service, running, NOON_MS).remarks == [
        "The hosts of the job are unknown, so they were not examined."
    ]
    service.held_hosts_of_jobs[("archer2", "812")] = ("r2n01", "r2n02")
    finding = HostFinding(differs_since="2026-11-20T10:02:00Z")
    service.held_hosts = [host_view("r2n01", finding=finding)]
    assert why_running(service, running, NOON_MS).lead.striptags() == (
        "Host r2n01 (one of 2) ran at half the speed of the others since 2026-11-20 10:02 UTC."
    )
    calm = FixedService([prediction()])
    assert (
        why_running(calm, running, NOON_MS - 7_199_000).lead.striptags()
        == "No measurement shows that anything slows the job."
    )


def test_hosts_that_were_loaded_when_a_job_started_slow_it() -> None:
    load = UnderLoad(as_of="", hosts="its hosts", hosts_count=64.0, n=64.0, q50_s=40.0, load=1.6)
    running = job("812", n=64.0, under_load=load, start="2026-11-20T12:00:00Z")
    text = "The hosts were loaded when the job started: 40 s were expected instead of 25.5 s."
    service = FixedService([prediction()])
    assert why_running(service, running, NOON_MS).lead.striptags() == text
    service.held_ended = [running]
    assert why_ended(service, recent_run(run_time_s=41.0, predicted=predicted(25.5))).lead.striptags() == text
    counted_in = recent_run(run_time_s=60.0, predicted=predicted(40.0, source="under_load"))
    assert why_ended(service, counted_in).lead.striptags().endswith("No measurement explains why.")
    assert "short" in why_ended(service, recent_run(run_time_s=5.0, predicted=predicted(4.0))).lead.striptags()


def test_a_network_that_was_loaded_when_a_job_started_slows_it() -> None:
    load = UnderLoad(
        as_of="", hosts="its hosts", hosts_count=64.0, n=64.0, q50_s=40.0, load=1.6, baseline_load=1.5, follows=1.0,
        communication_share=0.3, bandwidth=3e9, baseline_bandwidth=9e9,
    )  # fmt: skip
    service = FixedService([prediction()])

    def lead(**changes: Any) -> str:
        under = msgspec.structs.replace(load, **changes)
        return why_running(
            service, job("812", n=64.0, under_load=under, start="2026-11-20T12:00:00Z"), NOON_MS
        ).lead.striptags()

    assert lead() == (
        "The network was loaded when the job started: 40 s were expected instead of 25.5 s. "
        "The job waits for the network for 30 % of its time, and 3 GB/s (usually 9 GB/s) were left."
    )
    for of_processors in ({"communication_share": 0.0}, {"bandwidth": 8.9e9}, {"bandwidth": None}, {"load": 4.0}):
        assert lead(**of_processors).startswith("The hosts were loaded when the job started")


def of_rack(**changes: Any) -> Alert:
    evidence = AlertEvidence(observed=9.0, n=12.0, detail={"bandwidth": "on 9 hosts"})
    values: dict[str, Any] = {
        "labels": {"alertname": "RackAnomaly", "system": "archer2", "rack": "r2"},
        "starts": "2026-11-20T12:10:00Z",
        "evidence": evidence,
    }
    return alert("f-rack", **(values | changes))


def in_racks(*alerts: Alert, listed: bool = True) -> FixedService:
    """A centre in which the first eight hosts of the run are in rack r2, and the others in r3."""
    service = FixedService(alerts=alerts)
    for number in range(1, 17):
        service.held_racks["archer2", f"r2n{number:02d}"] = HostRack("r2" if number <= 8 else "r3", listed=listed)
    return service


def test_a_rack_that_was_odd_while_a_run_was_on_hosts_of_it_explains_it() -> None:
    run = recent_run(**SLOW)
    found = why_ended(in_racks(of_rack()), run)
    assert found.lead.striptags() == (
        "8 of 16 hosts are in rack r2, where 9 of 12 hosts have behaved abnormally since 2026-11-20 12:10 UTC."
    )
    assert links_of(found.lead) == ["/alerts/f-rack"]
    assert "in rack r2 by its name, where" in why_ended(in_racks(of_rack(), listed=False), run).lead.striptags()
    slowed = recent_run(**SLOW, slowed_by=SlowedBy("r2n03", 1.76))
    assert (
        why_ended(in_racks(of_rack()), slowed)
        .lead.striptags()
        .endswith("12:10 UTC; the run took 1.76 times as long as usual.")
    )


def test_nothing_is_claimed_of_a_rack_elsewhere_or_at_other_times() -> None:
    power = AlertEvidence(observed=9.0, n=12.0, detail={"power_w>system": "on 9 hosts"})
    for other in (
        of_rack(labels={"alertname": "RackAnomaly", "system": "archer2", "rack": "r9"}),
        of_rack(labels={"alertname": "RackAnomaly", "system": "other", "rack": "r2"}),
        of_rack(labels={"alertname": "RackAnomaly", "system": "archer2", "partition": "standard"}),
        of_rack(status="resolved", ends="2026-11-20T11:00:00Z"),
        of_rack(evidence=power),
    ):
        assert "No measurement explains" in why_ended(in_racks(other), recent_run(**SLOW)).lead.striptags()
    of_partition = of_rack(labels={"alertname": "RackAnomaly", "system": "archer2", "partition": "standard"})
    text = why_ended(FixedService(alerts=[of_partition]), recent_run(**SLOW, partition="standard")).lead.striptags()
    assert text.startswith("All 16 hosts are in partition standard, where 9 of 12"), "no rack is known"


def test_the_page_of_a_running_job_names_the_jobs_beside_it_and_claims_nothing_of_them() -> None:
    service = FixedService([prediction()], jobs=[job("812", n=64.0, start="2026-11-20T12:00:00Z")])
    service.held_hosts_of_jobs["archer2", "812"] = ("r2n01", "r2n02")
    service.held_neighbours["archer2", "812"] = [Neighbour("813", 2, NOON_MS - 60_000), Neighbour("814", 1, NOON_MS)]
    running = service.jobs()[0]
    text = neighbours(service, running)
    assert text.striptags() == "Jobs 813 and 814 (on 1 of 2) run on the same hosts."
    assert links_of(text) == ["/jobs/archer2/813", "/jobs/archer2/814"]
    assert "No measurement" in why_running(service, running, NOON_MS).lead
    load = UnderLoad(as_of="", hosts="its hosts", hosts_count=64.0, n=64.0, q50_s=40.0, load=1.6)
    loaded = job("812", n=64.0, under_load=load, start="2026-11-20T12:00:00Z")
    assert (
        why_running(service, loaded, NOON_MS)
        .lead.striptags()
        .endswith("instead of 25.5 s. Job 813 was already running there.")
    )


def test_the_page_of_a_running_job_leads_to_its_neighbours_and_a_user_sees_their_own_alone() -> None:
    service = FixedService(
        [prediction()], jobs=[job("812", user="ann"), job("813", user="ann"), job("814", user="bob")]
    )
    service.held_hosts_of_jobs["archer2", "812"] = ("r2n01", "r2n02")
    service.held_neighbours["archer2", "812"] = [Neighbour("813", 2, NOON_MS), Neighbour("814", 1, NOON_MS)]
    app = create_app(service, Metrics(formats=(), reasons=(), processors=()))
    page = read(app, "/jobs/archer2/812")
    assert 'Jobs <a href="/jobs/archer2/813">813</a> and <a href="/jobs/archer2/814">814</a> (on 1 of 2) run' in page
    own = VisibilityFilter(service, lambda: Reader(user="ann"))
    assert [one.job_id for one in own.reading("archer2").neighbours("812")] == ["813"]
    assert not own.reading("archer2").neighbours("814"), "the job of another"


def test_nothing_has_to_explain_how_long_a_session_took() -> None:
    session: dict[str, Any] = {"application_id": None, "predicted": None, "slowed_by": None, "session": True}
    text = "The run was an interactive session: its user decides how long it takes."
    assert [why(state=state, **session) for state in ("TIMEOUT", "COMPLETED")] == [text, text]
