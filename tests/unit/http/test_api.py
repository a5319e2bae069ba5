from typing import Any
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from processors.contracts.errors import UnavailableError
from processors.contracts.events import PredictionRequested
from processors.contracts.outputs import Answer
from processors.contracts.service import Health
from tests.kit.get import get, get_json
from tests.kit.messages import alert, job, prediction
from tests.kit.service import FixedService


def test_the_process_answers(app: Starlette) -> None:
    assert get_json(app, "/healthz") == {"status": "alive"}


def test_it_is_ready_when_every_role_is(app: Starlette, service: FixedService) -> None:
    assert get_json(app, "/readyz")["ready"] is True
    service.held_health.append(Health(role="collector", ready=False, reasons=("The broker does not answer.",)))
    response = get(app, "/readyz")
    assert response.status_code == 503
    assert response.json()["reasons"] == ["collector: The broker does not answer."]
    assert [role["role"] for role in response.json()["roles"]] == ["learner", "collector"]


def test_it_is_not_ready_before_any_role_has_started(app: Starlette, service: FixedService) -> None:
    service.held_health.clear()
    response = get(app, "/readyz")
    assert (response.status_code, response.json()["reasons"]) == (503, ["No role has started yet."])


def test_metrics_are_in_the_text_format_of_prometheus(app: Starlette) -> None:
    response = get(app, "/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in text_string_to_metric_families(response.text)}
    assert {"scalewatch_ready", "scalewatch_predicted_run_time_seconds", "scalewatch_events"} <= names


def test_the_list_of_applications_states_all_but_the_curve(app: Starlette) -> None:
    listed = get_json(app, "/api/v1/applications")
    assert (listed["total"], listed["offset"]) == (2, 0)
    first = listed["rows"][0]
    assert first["id"] == "archer2/lammps/rhodo/nodes"
    assert (first["observations"], first["reliability"]["verdict"]) == (41, "reliable")
    assert first["useful_n"]["at_efficiency_0.5"] == 80.0
    assert "curve" not in first


def test_the_list_is_filtered_and_paged(app: Starlette, service: FixedService) -> None:
    service.held_predictions = [prediction(f"app{index:02}") for index in range(30)]
    page = get_json(app, "/api/v1/applications?offset=10&limit=5")
    assert page["total"] == 30
    assert [row["application"] for row in page["rows"]] == ["app10", "app11", "app12", "app13", "app14"]
    assert get_json(app, "/api/v1/applications?application=app07")["total"] == 1
    assert get_json(app, "/api/v1/applications?system=other")["total"] == 0


@pytest.mark.parametrize(
    "key",
    [
        {"application": "lammps", "input": "a/b"},
        {"application": "lammps", "input": ""},
        {"application": "100%", "input": "?x=1#y"},
        {"application": "ümläut 数", "input": "<script>"},
    ],
)
def test_every_application_is_found_at_the_url_that_the_list_gives(
    app: Starlette, service: FixedService, key: dict[str, str]
) -> None:
    service.held_predictions = [prediction(**key)]
    url = get_json(app, "/api/v1/applications")["rows"][0]["url"]
    assert get_json(app, url)["curve"][0]["n"] == 1.0
    assert {name: get_json(app, url)[name] for name in key} == key


def test_an_id_typed_as_it_is_printed_is_found_too(app: Starlette, service: FixedService) -> None:
    service.held_predictions = [prediction(input="a/b"), prediction("qcd", input="")]
    assert get_json(app, "/api/v1/applications/archer2/lammps/a%2Fb/nodes")["input"] == "a/b"
    assert get_json(app, "/api/v1/applications/archer2/qcd/nodes")["application"] == "qcd"


def test_an_unknown_application_is_not_found_and_what_is_known_is_reported(app: Starlette) -> None:
    response = get(app, "/api/v1/applications/archer2/vasp//nodes")
    assert response.status_code == 404
    assert response.json() == {
        "error": "There is no model of 'archer2/vasp//nodes'.",
        "known": ["archer2/lammps/rhodo/nodes", "archer2/nektar//nodes"],
    }


def test_sizes_are_asked_for_one_by_one_or_as_a_list(app: Starlette, service: FixedService) -> None:
    answer = get_json(app, "/api/v1/predictions?application=lammps&n=64,128&n=256")
    assert [point["n"] for point in answer["points"]] == [64.0, 128.0, 256.0]
    assert answer["points"][0]["run_time_s"] == pytest.approx(25.46875)
    requested = service.requested[0]
    assert (requested.system, requested.evidence.input, requested.unit) == ("archer2", "rhodo", "nodes")


def test_without_sizes_those_of_the_curve_are_answered(app: Starlette, service: FixedService) -> None:
    answer = get_json(app, "/api/v1/predictions?application=lammps")
    assert [point["n"] for point in answer["points"]] == [point.n for point in service.held_predictions[0].curve]


def test_the_same_question_has_the_same_id(app: Starlette, service: FixedService) -> None:
    for url in ("n=64", "n=64", "n=65"):
        get_json(app, f"/api/v1/predictions?application=lammps&{url}")
    first, second, third = (request.request_id for request in service.requested)
    assert first == second != third


def test_hosts_and_a_partition_are_asked_for_and_make_another_question(app: Starlette, service: FixedService) -> None:
    for url in ("n=4", "n=4&hosts=nid[1-4]&hosts=login1", "n=4&partition=standard", "n=4&hosts=&partition="):
        get_json(app, f"/api/v1/predictions?application=lammps&{url}")
    plain, named, pooled, empty = service.requested
    assert named.evidence.hosts == ("nid[1-4]", "login1")
    assert (pooled.evidence.partition, pooled.evidence.application) == ("standard", "lammps")
    assert len({plain.request_id, named.request_id, pooled.request_id}) == 3
    assert empty == plain


def test_attributes_and_features_are_asked_with_and_make_another_question(
    app: Starlette, service: FixedService
) -> None:
    for url in ("n=4", "n=4&attribute.atoms=32000&attribute.solver=cg", "n=4&feature.max_fifo=5"):
        get_json(app, f"/api/v1/predictions?application=lammps&{url}")
    plain, job, placement = service.requested
    assert job.evidence.attributes == {"atoms": "32000", "solver": "cg"}
    assert placement.features == {"max_fifo": 5.0}
    assert (plain.evidence.attributes, plain.features) == ({}, {})
    assert len({plain.request_id, job.request_id, placement.request_id}) == 3


def test_hosts_without_a_size_ask_for_as_many_nodes(app: Starlette, service: FixedService) -> None:
    get_json(app, "/api/v1/predictions?application=lammps&hosts=nid[1-48]")
    get_json(app, "/api/v1/predictions?application=lammps&partition=standard")
    named, pooled = service.requested
    assert named.n == (48.0,)
    assert len(pooled.n) == len(service.held_predictions[0].curve)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("n=64", "application is missing."),
        ("application=&n=64", "application is missing."),
        ("application=lammps&n=", "n='' is not a size: it has to be a number above 0 and at most 1e9."),
        ("application=lammps&n=many", "n='many' is not a size: it has to be a number above 0 and at most 1e9."),
        ("application=lammps&n=64,,2", "n='' is not a size: it has to be a number above 0 and at most 1e9."),
        ("application=lammps&n=0", "n='0' is not a size: it has to be a number above 0 and at most 1e9."),
        ("application=lammps&n=-4", "n='-4' is not a size: it has to be a number above 0 and at most 1e9."),
        ("application=lammps&n=nan", "n='nan' is not a size: it has to be a number above 0 and at most 1e9."),
        ("application=lammps&n=1e999", "n='1e999' is not a size: it has to be a number above 0 and at most 1e9."),
        ("application=lammps&n=" + "1," * 100 + "1", "n has 101 sizes, at most 100 are allowed."),
        ("application=" + "x" * 257 + "&n=1", "application is longer than 256 characters."),
        ("application=lammps&partition=" + "x" * 257, "partition is longer than 256 characters."),
        ("application=lammps&hosts=nid[1-", "The host list has unbalanced brackets, empty names or blanks."),
        ("application=lammps&feature.max_fifo=many", "feature.max_fifo='many' is not a number."),
        ("application=lammps&feature.max_fifo=inf", "feature.max_fifo='inf' is not a number."),
        ("application=lammps&attribute.=4", "attribute. needs a name and a value of at most 256 characters."),
        (
            "application=lammps&" + "&".join(f"attribute.a{i}=1" for i in range(33)),
            "There are 33 parameters attribute.NAME, at most 32 are allowed.",
        ),
        (
            "application=lammps&hosts=" + "n" * 16_385,
            "hosts has more than 16384 characters; use host lists such as n[1-64].",
        ),
    ],
)
def test_a_bad_question_is_refused_with_a_message(app: Starlette, query: str, message: str) -> None:
    response = get(app, f"/api/v1/predictions?{query}")
    assert (response.status_code, response.json()) == (400, {"error": message})


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=x", "limit=10001", "offset=1.5", "offset=%C2%B2", "limit=" + "9" * 5000]
)
def test_a_page_out_of_range_is_refused(app: Starlette, query: str) -> None:
    assert get(app, f"/api/v1/applications?{query}").status_code == 400


def test_members_are_left_out_where_they_are_not_wanted(app: Starlette) -> None:
    path = "/api/v1/applications/archer2/lammps/rhodo/nodes"
    assert get_json(app, path)["model"]["members"]
    slim = get_json(app, f"{path}?members=false")
    assert (slim["model"]["members"], len(slim["curve"])) == ([], len(get_json(app, path)["curve"]))
    answer = get_json(app, "/api/v1/predictions?application=lammps&n=8&members=false")
    assert answer["model"]["members"] == []
    refused = get(app, f"{path}?members=no")
    assert (refused.status_code, refused.json()["error"]) == (400, "members='no' has to be true or false.")


def test_a_job_that_is_not_described_has_no_curve(app: Starlette) -> None:
    nameless, nowhere = get(app, "/api/v1/curves?system=exa"), get(app, "/api/v1/curves?job_name=md-1")
    assert nameless.json()["error"].startswith(
        "Describe the job by at least one parameter: application, executable, module"
    )
    long = get(app, f"/api/v1/curves?system=exa&script={'x' * 4097}")
    assert (nameless.status_code, nowhere.status_code, long.status_code) == (400, 400, 400)
    assert long.json()["error"] == "script is longer than 4096 characters."
    assert nowhere.json()["error"] == "system is missing."


def test_a_question_about_an_unknown_application_is_answered_with_those_that_are_known(app: Starlette) -> None:
    response = get(app, "/api/v1/predictions?application=vasp&n=64")
    assert (response.status_code, len(response.json()["known"])) == (404, 2)


def test_a_name_that_is_known_twice_needs_more_to_distinguish_them(app: Starlette, service: FixedService) -> None:
    service.held_predictions.append(prediction(input="water"))
    response = get(app, "/api/v1/predictions?application=lammps&n=64")
    assert response.status_code == 400
    assert response.json()["error"] == "'lammps' has 2 models: add system, input or unit."
    assert get_json(app, "/api/v1/predictions?application=lammps&n=64&input=water")["input"] == "water"


def test_an_input_that_was_never_run_is_asked_of_the_models_with_the_unit_and_system_of_the_others(
    app: Starlette, service: FixedService
) -> None:
    response = get(app, "/api/v1/predictions?application=lammps&n=64&input=huge")
    assert response.status_code == 404, "nothing tells of it here"
    assert response.json()["error"] == "There is no model of 'lammps' with input 'huge'."
    requested = service.requested[-1]
    assert (requested.evidence.input, requested.system, requested.unit, requested.n) == (
        "huge",
        "archer2",
        "nodes",
        (64.0,),
    )


def test_an_application_evicted_between_two_reads_is_not_found(app: Starlette, service: FixedService) -> None:
    retained = service.held_predictions
    service.held_predictions = []
    service.predictions = lambda: retained  # type: ignore[method-assign]  # the list is older than the models
    assert get(app, "/api/v1/predictions?application=lammps&n=64").status_code == 404


def test_while_the_models_are_away_the_question_may_be_asked_again_later(app: Starlette, service: FixedService) -> None:
    def away(request: PredictionRequested) -> Answer:
        raise UnavailableError(f"The models of {request.system} are not in this process.")

    service.answer = away  # type: ignore[method-assign]  # the learner starts again
    response = get(app, "/api/v1/predictions?application=lammps&n=64")
    assert response.status_code == 503
    assert "archer2" in response.json()["error"]


def test_jobs_and_alerts_are_listed_and_filtered(app: Starlette, service: FixedService) -> None:
    service.held_jobs.append(job("900", application="qcd"))
    service.held_alerts.append(alert("f2", status="resolved"))
    assert [row["job_id"] for row in get_json(app, "/api/v1/jobs?application=qcd")["rows"]] == ["900"]
    assert get_json(app, "/api/v1/jobs")["total"] == 2
    assert [row["fingerprint"] for row in get_json(app, "/api/v1/alerts?status=firing")["rows"]] == ["f1"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/api/v1/predictions", "/static/style.css"])
def test_nothing_can_be_changed_over_http(app: Starlette, method: str, path: str) -> None:
    assert get(app, path, method).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics",
        "/healthz",
        "/nothing",
        "/api/v1/jobs",
        "/api/v1/nothing",
        "/static/style.css",
        "/?search=" + "x" * 300,
    ],
)
def test_every_response_forbids_scripts_frames_and_sniffing(app: Starlette, path: str) -> None:
    headers = get(app, path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "data:" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == ("no-cache" if path.startswith("/static/") else "no-store")


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v2/applications"])
def test_an_unknown_resource_is_reported_in_json(app: Starlette, path: str) -> None:
    response = get(app, path)
    assert (response.status_code, response.json()) == (404, {"error": "This page does not exist."})


@pytest.mark.parametrize("path", ["/static/../pages.py", "/static/%2e%2e/pages.py", "/static//etc/passwd"])
def test_nothing_but_the_style_is_served_from_disk(app: Starlette, path: str) -> None:
    assert get(app, path).status_code == 404


def test_a_name_in_an_error_is_cut_and_quoted(app: Starlette) -> None:
    response: Any = get(app, "/api/v1/applications/" + quote("x" * 300))
    assert len(response.json()["error"]) < 120
