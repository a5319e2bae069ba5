"""The page of a job, for the person who ran it, and the list of those that run."""

import re
from urllib.parse import quote

import msgspec
import pytest
from starlette.applications import Starlette

from processors.contracts.outputs import Model
from processors.similar_runs import MODEL_NAME
from sinks.prometheus.registry import Metrics
from sinks.web.access import Reader
from sinks.web.server import create_app
from tests.kit.messages import job, powered_curve, prediction
from tests.kit.pages import HOSTILE, parsed, read
from tests.kit.read_by import ReadBy, text_of
from tests.kit.recent import NOON_MS, predicted, recent_run
from tests.kit.service import FixedService

HOUR_MS = 3_600_000


def app_of(service: FixedService) -> Starlette:
    return create_app(service, Metrics(formats=(), reasons=(), processors=()))


def test_a_job_that_ended_is_shown_how_it_went_and_what_to_ask_for() -> None:
    service = FixedService(
        [prediction(curve=powered_curve())], runs=[recent_run(run_time_s=26.0, energy_j=7e5, predicted=predicted(25.5))]
    )
    text = read(app_of(service), "/jobs/archer2/812")
    parsed(text)
    page = text_of(text)
    assert "The run took 26 s, as long as usual at 64 nodes; 9 of 10 such runs take" in page
    assert "The run used 0.194 kWh (700 kJ), 7.4 % more than usual." in page
    assert "The prediction is reliable. The last predicted run fell inside its band." in page
    assert "Time limit. 1 min is enough: 19 of 20 such runs end within 28 s." in page.replace("28.0", "28")
    assert "Size. The size is worth it: 32 nodes take about" in page
    assert "/applications/archer2/lammps/rhodo/nodes" in text
    assert 'data-kind="anomaly" data-words="this run: 26 s at 64 nodes"' in text, "its place in the chart"


def test_a_running_job_is_shown_its_end_its_limit_and_its_power() -> None:
    running = job(
        probability_exceeds_limit=0.8,
        power_w=51_200.0,
        power_low_w=50_000.0,
        power_high_w=52_000.0,
        coverage_measured=0.88,
    )
    text = read(app_of(FixedService([prediction()], jobs=[running])), "/jobs/archer2/812")
    parsed(text)
    page = text_of(text)
    assert "The job should end at about 10:31 UTC" in page
    assert "The job will probably be ended by its time limit of 2 h" in page
    assert "51.2 kW (50 kW to 52 kW)" in page
    assert "88 %" in page


def test_a_job_that_was_put_back_into_the_queue_shows_all_its_runs_and_the_one_that_goes_on() -> None:
    runs = [recent_run(start_ms=NOON_MS + HOUR_MS, state="NODE_FAIL"), recent_run(state="PREEMPTED")]
    text = read(app_of(FixedService([prediction()], jobs=[job()], runs=runs)), "/jobs/archer2/812")
    parsed(text)
    assert text_of(text).count("Run that ended") == 2
    assert "A host of the run failed" in text
    assert "The run was preempted" in text
    assert "The job should end at about" in text
    assert text.count("Next time") == 1, "advice rests on the newest run alone"


def test_a_job_whose_run_is_over_and_not_settled_reports_it_until_the_run_is_reported() -> None:
    service = FixedService([prediction()])
    service.held_ended = [job(job_id="812", start="2026-11-20T11:50:00Z")]
    page = text_of(read(app_of(service), "/jobs/archer2/812"))
    assert "The run has ended. Its outcome appears here once all reports are in, some minutes after the end." in page
    assert "The job runs" not in page
    service.held_runs = [recent_run(run_time_s=26.0, start_ms=NOON_MS)]
    page = text_of(read(app_of(service), "/jobs/archer2/812"))
    assert "The run has ended." not in page
    assert "The run took 26 s" in page


def test_a_job_of_which_nothing_was_known_reports_it() -> None:
    text = read(
        app_of(FixedService(runs=[recent_run(application_id=None, predicted=None, time_limit_s=None)])),
        "/jobs/archer2/812",
    )
    parsed(text)
    assert "Its application could not be identified" in text
    assert "Next time" not in text
    assert "<figure" not in text


def test_a_job_that_is_not_known_is_reported_as_missing() -> None:
    assert "is unknown or no longer known." in read(app_of(FixedService()), "/jobs/archer2/1", 404)
    assert "is unknown or no longer known." in read(app_of(FixedService()), "/jobs/archer2", 404)


@pytest.mark.parametrize("name", ["812", "8/12", "a b", "%2F", "ü", "?x=1", HOSTILE])
def test_a_job_is_found_whatever_it_is_called(name: str) -> None:
    app = app_of(FixedService(jobs=[job(name, system="a/b", application=HOSTILE, input=HOSTILE)]))
    links = [link for link in parsed(read(app, "/jobs")).links if link.startswith("/jobs/")]
    assert links == [f"/jobs/a%2Fb/{quote(name, safe='')}"]
    page = parsed(read(app, links[0]))
    assert "onclick" not in page.attributes


def test_running_jobs_are_listed_those_first_that_may_hit_their_limit() -> None:
    app = app_of(FixedService(jobs=[job("1"), job("2", probability_exceeds_limit=0.9), job("3", known=False)]))
    text = read(app, "/jobs")
    parsed(text)
    assert re.findall(r">archer2/(\d)</a>", text) == ["2", "1", "3"]


def test_jobs_are_found_by_id_and_application_and_by_their_id_when_they_ended() -> None:
    service = FixedService([prediction()], jobs=[job("1"), job("2", application="nektar")], runs=[recent_run("99")])
    app = app_of(service)
    assert "/jobs/archer2/2" in read(app, "/jobs?search=NEKTAR")
    assert "/jobs/archer2/1" not in read(app, "/jobs?search=nektar")
    assert "/jobs/archer2/99" in read(app, "/jobs?search=99")
    assert "/jobs/archer2/99" in read(app, "/jobs?search=archer2/99")
    assert "No job id or application" in read(app, "/jobs?search=nothing")
    assert "No running job was reported." in read(app_of(FixedService()), "/jobs")


def test_another_users_job_is_refused_in_one_message_and_in_no_list() -> None:
    service = FixedService(
        [prediction()],
        jobs=[job("1", user="u-1"), job("2", user="u-2"), job("3", user=None)],
        runs=[recent_run("98", user="u-2"), recent_run("99", user="u-1")],
    )
    app = ReadBy(app_of(service), Reader(user="u-1"))
    listed = read(app, "/jobs")
    assert "Your jobs" in listed
    assert re.findall(r">archer2/(\d+)</a>", listed) == ["1"]
    assert "/jobs/archer2/98" not in read(app, "/jobs?search=98")
    assert "/jobs/archer2/99" in read(app, "/jobs?search=99")
    for other in ("2", "3", "98"):
        text = read(app, f"/jobs/archer2/{other}", 403)
        assert text_of(text) == "Access denied This job belongs to another user."
    assert "The run took" in read(app, "/jobs/archer2/99")
    assert "The job should end" in read(app, "/jobs/archer2/1")


def test_a_job_id_that_two_users_had_is_shown_to_neither() -> None:
    service = FixedService(jobs=[job(user="u-1")], runs=[recent_run(user="u-2")])
    for user in ("u-1", "u-2"):
        read(ReadBy(app_of(service), Reader(user=user)), "/jobs/archer2/812", 403)


def test_a_running_job_forecast_from_similar_runs_is_to_be_taken_with_care() -> None:
    forecast = msgspec.structs.replace(job(), model=Model(MODEL_NAME, ()))
    page = text_of(read(app_of(FixedService([prediction()], jobs=[forecast])), "/jobs/archer2/812"))
    assert "It rests on runs of the same user, name or kind, not on a scaling curve." in page
