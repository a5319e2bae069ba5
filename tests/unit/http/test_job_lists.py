"""Lists of running and ended jobs: filters, sorting, pages, and who sees what; the pages of users and projects."""

import re
from time import process_time
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp

from agent.learner.view import LearnerService, View
from processors.contracts.hosts import HostLines, ResourceBand, ResourceLine
from processors.contracts.load import UnderLoad
from processors.contracts.outputs import Emission
from processors.contracts.service import Health
from sinks.prometheus.registry import Metrics
from sinks.web.access import Reader
from sinks.web.server import create_app
from tests.kit.cases import each
from tests.kit.get import get
from tests.kit.messages import about_job, job, powered_curve, prediction
from tests.kit.pages import parsed, read
from tests.kit.read_by import ReadBy, text_of
from tests.kit.recent import NOON_MS, predicted, recent_run
from tests.kit.service import FixedService

JOBS_MANY = 20_000
PROCESSOR_S_MAX = 0.2
BYTES_MAX = 300_000


def app_of(service: FixedService | LearnerService) -> Starlette:
    return create_app(service, Metrics(formats=(), reasons=(), processors=()))


def listed(app: ASGIApp, path: str) -> list[str]:
    text = read(app, path)
    parsed(text)
    return re.findall(r'<th scope="row"><a [^>]*>archer2/([^<]*)</a>', text)


CENTRE = FixedService(
    [prediction()],
    jobs=[
        job("1", user="ann", partition="gpu", account="p1", end="2026-11-20T13:00:00Z"),
        job("2", user="bob", partition="standard", probability_exceeds_limit=0.9, end="2026-11-20T12:00:00Z"),
        job("3", user="ann", application="nektar", end=None, known=False, n=128.0),
    ],
    runs=[
        recent_run("11", 1700.0, user="ann", partition="gpu", account="p1", nodes=64, energy_j=3.6e6),
        recent_run("12", 3000.0, user="ann", partition="gpu", account="p1", nodes=64),
        recent_run(
            "13", 1800.0, user="bob", partition="standard", account="p2", state="FAILED", start_ms=NOON_MS + 60_000
        ),
        recent_run("14", 14_400.0, user="bob", partition="standard", account="p1", state="TIMEOUT"),
    ],
    alerts=[about_job("HangingJob", "3", "ann"), about_job("SlowJob", "1", "ann")],
)
APP = app_of(CENTRE)


@each(
    ("query", "jobs"),
    [
        ("", ["2", "1", "3"]),
        ("user=ann", ["1", "3"]),
        ("partition=gpu", ["1"]),
        ("application=lammps", ["2", "1"]),
        ("application=archer2/lammps/rhodo/nodes", ["2", "1"]),
        ("hits_limit=1", ["2"]),
        ("hangs=1", ["3"]),
        ("account=p1", ["1"]),
        ("tab=ended", ["14", "12", "13", "11"]),
        ("tab=ended&user=ann", ["12", "11"]),
        ("tab=ended&state=FAILED", ["13"]),
        ("state=FAILED", ["13"]),
        ("outside_band=1", ["12"]),
        ("tab=ended&hits_limit=1", ["14"]),
        ("tab=ended&partition=standard&account=p1", ["14"]),
        ("search=13", ["13"]),
        ("user=eve", []),
    ],
)
def test_a_list_shows_the_jobs_that_pass_its_filters(query: str, jobs: list[str]) -> None:
    assert listed(APP, f"/jobs?{query}") == jobs
    tab = "runs" if jobs and len(jobs[0]) == 2 else "jobs"
    without_tab = "&".join(part for part in query.split("&") if not part.startswith("tab"))
    rows = get(APP, f"/api/v1/{tab}?{without_tab}").json()["rows"]
    assert sorted(row["job_id"] for row in rows) == sorted(jobs), "the API means the same by a filter"


@pytest.mark.parametrize(
    ("query", "jobs"),
    [
        ("sort=end", ["2", "1", "3"]),
        ("sort=-end", ["1", "2", "3"]),
        ("sort=-size", ["3", "1", "2"]),
        ("tab=ended&sort=time", ["11", "13", "12", "14"]),
        ("tab=ended&sort=-against", ["14", "12", "13", "11"]),
        ("tab=ended&sort=energy", ["11"]),
    ],
)
def test_a_list_is_sorted_by_a_column_those_last_of_which_it_is_not_known(query: str, jobs: list[str]) -> None:
    assert listed(APP, f"/jobs?{query}")[: len(jobs)] == jobs


def test_a_column_in_the_head_reports_how_it_sorts_and_leads_to_the_other_way() -> None:
    text = read(APP, "/jobs?user=ann&sort=end")
    assert re.search(
        r'aria-sort="ascending"><a href="/jobs\?user=ann&amp;tab=running&amp;sort=-end">predicted end', text
    )
    assert text.count("aria-sort") == 1
    assert 'href="/jobs?user=ann&amp;tab=running&amp;sort=-size"' in text, "a first click shows the largest"


@pytest.mark.parametrize("query", ["sort=nothing", "sort=band", "tab=all", "state=odd", "outside_band=yes", "page=x"])
def test_a_parameter_that_makes_no_sense_is_refused(query: str) -> None:
    assert get(APP, f"/jobs?{query}").status_code == 400


def test_a_list_comes_in_pages_that_keep_filter_and_order() -> None:
    app = app_of(FixedService(jobs=[job(str(number), user="ann") for number in range(1000, 1120)]))
    assert listed(app, "/jobs?user=ann&sort=-job") == [str(number) for number in range(1119, 1069, -1)]
    text = read(app, "/jobs?user=ann&sort=-job&page=2")
    assert "51 to 100 of 120" in text
    assert '<a href="/jobs?user=ann&amp;tab=running&amp;sort=-job&amp;page=3" rel="next">' in text
    assert len(listed(app, "/jobs?user=ann&page=99")) == 20, "behind the last page is the last page"


def test_a_list_that_is_empty_leads_on() -> None:
    assert "No running job matches these filters." in text_of(read(APP, "/jobs?tab=running&state=FAILED"))
    assert "1 job ended" in text_of(read(APP, "/jobs?tab=running&state=FAILED"))
    assert "A run appears some minutes after its end." in text_of(read(app_of(FixedService()), "/jobs?tab=ended"))


def test_a_user_sees_and_counts_their_own_jobs_alone() -> None:
    app = ReadBy(APP, Reader(user="ann"))
    assert listed(app, "/jobs") == ["1", "3"]
    assert listed(app, "/jobs?tab=ended") == ["12", "11"]
    for query in ("", "?tab=ended", "?user=bob", "?search=1", "?state=FAILED", "?account=p1"):
        text = read(app, f"/jobs{query}")
        assert "bob" not in text.replace("user=bob", "")
        assert "standard" not in text
        assert re.findall(r'<span class="more">(\d+)</span></a>', text)[1] in ("0", "2"), (
            "nor are those of others counted"
        )


def test_the_page_of_a_user_shows_their_jobs_their_cost_and_what_to_ask_for() -> None:
    page = text_of(read(APP, "/users/ann"))
    assert "ended runs 2" in page
    assert "outside their band 1 of 2 predicted runs" in page
    assert "node-hours 84" in page
    assert "energy 1 kWh in 1 run; unknown for the others" in page
    assert "Time limit" not in page
    assert "such runs end within" in page
    assert listed(APP, "/users/ann") == ["1", "3", "12", "11"]
    read(ReadBy(APP, Reader(user="bob")), "/users/ann", 403)
    read(ReadBy(APP, Reader(user="bob")), "/users/nobody", 403)
    assert "No job of this user is known" in read(APP, "/users/nobody")


def test_the_page_of_a_project_shows_its_jobs_and_to_a_user_their_own_alone() -> None:
    assert listed(APP, "/projects/p1") == ["1", "14", "12", "11"]
    bobs = ReadBy(APP, Reader(user="bob"))
    assert listed(bobs, "/projects/p1") == ["14"]
    assert "Only your own jobs are counted." in read(bobs, "/projects/p1")


def test_two_runs_are_compared_line_by_line() -> None:
    first = recent_run("1", 1000.0, hosts=("nid[1-4]",), power_w=1000.0, counters={"FLOPS": 2.0, "LOADS": 1.0})
    second = recent_run("2", 1800.0, hosts=("nid[3-6]",), power_w=800.0, counters={"FLOPS": 1.0, "LOADS": 1.0})
    app = app_of(FixedService([prediction()], runs=[first, second]))
    page = text_of(read(app, "/jobs/compare?a=archer2/1&b=archer2/2"))
    assert "2 took 80 % longer than 1. Application, input and size are the same." in page
    assert "hosts 4 hosts 4 hosts 2 in common" in page
    assert "Common hosts: nid3 , nid4" in page
    assert "mean power of all hosts 1 kW 800 W 20 % less" in page
    assert "FLOPS 2 1 50 % less" in page
    assert "/jobs/compare?a=archer2%2F1&amp;b=archer2%2F2" in read(app, "/jobs/archer2/2")
    assert get(app, "/jobs/compare?a=archer2/1").status_code == 400
    assert "has ended yet, or the job" in read(app, "/jobs/compare?a=archer2/1&b=archer2/9", 404)


def test_two_runs_are_compared_by_the_load_of_their_hosts() -> None:
    first = recent_run("1", 1000.0, hosts=("nid[1-2]",))
    second = recent_run("2", 1800.0, hosts=("nid[3-4]",), start_ms=NOON_MS + 600_000, end_ms=NOON_MS + 2_400_000)
    service = FixedService([prediction()], runs=[first, second])
    app = app_of(service)
    page = text_of(read(app, "/jobs/compare?a=archer2/1&b=archer2/2"))
    assert "slow-down predicted from load at the start - -" in page
    assert "processor available, mean of its hosts during the run - -" in page
    load = UnderLoad(as_of="", hosts="its hosts", hosts_count=2.0, n=2.0, load=1.6)
    service.held_ended = [job("2", under_load=load, start="2026-11-20T12:10:00Z")]
    for host, level in (("nid1", 0.9), ("nid2", 0.9), ("nid3", 0.7), ("nid4", 0.3)):
        band = ResourceBand((level,) * 12, (level,) * 12, (level,) * 12)
        day = ResourceLine(NOON_MS - 1_800_000, 300, {"cpu_available": band})
        service.held_lines["archer2", host] = HostLines(
            "archer2", host, "2026-11-20T13:00:00Z", day, ResourceLine(0, 60)
        )
    page = text_of(read(app, "/jobs/compare?a=archer2/1&b=archer2/2"))
    assert "slow-down predicted from load at the start - 1.60 times" in page
    assert "mean of its hosts during the run 90 % 50 % (30 % on the most loaded host) 44 % less" in page


def test_two_runs_are_compared_for_those_who_may_see_both() -> None:
    app = app_of(FixedService(runs=[recent_run("1", user="ann"), recent_run("2", user="bob")]))
    read(ReadBy(app, Reader(user="ann")), "/jobs/compare?a=archer2/1&b=archer2/2", 403)
    read(ReadBy(app, Reader(user="ann")), "/jobs/compare?a=archer2/1&b=archer2/1")


def busy_view() -> View:
    view = View()
    for number in range(JOBS_MANY):
        shown = job(
            str(number), user=f"user{number % 500}", partition=f"p{number % 9}", application=f"app{number % 700}"
        )
        view.apply(Emission("job_predictions", f"archer2/{number}", msgspec.json.encode(shown)))
    shown = msgspec.to_builtins(predicted())
    for number in range(JOBS_MANY):
        evidence = {"user": f"user{number % 500}", "sizes": {"nodes": 8}, "hosts": [f"nid[{number}-{number + 7}]"]}
        event = {"system": "archer2", "job_id": f"e{number}", "start_ms": NOON_MS, "end_ms": NOON_MS + number}
        run = {"run_id": f"archer2/e{number}@{NOON_MS}", "application_id": f"archer2/app{number % 700}//nodes", "n": 8}
        outcome = {"run_time_s": 1000.0 + number, "state": "COMPLETED", "predicted": shown}
        value = msgspec.json.encode(run | outcome | {"event": event | {"evidence": evidence}})
        view.apply(Emission("runs", str(run["run_id"]), value))
    return view


def test_twenty_thousand_jobs_are_listed_in_a_moment_and_in_few_bytes() -> None:
    health = Health(role="learner", ready=True)
    service = LearnerService(busy_view(), shard_of=lambda _: None, health=lambda: [health])
    app = app_of(service)
    pages = ("/jobs", "/jobs?tab=ended", "/jobs?search=99&sort=-job", "/users/user7", "/jobs/archer2/777")
    read(app, "/jobs")  # what did not change is decoded once
    for path in pages:
        took_s = []
        for _ in range(3):  # the least of a few: other programs take the caches of the processor, too
            began_s = process_time()
            text = read(app, path)
            took_s.append(process_time() - began_s)
        assert len(text.encode()) < BYTES_MAX, path
        assert min(took_s) < PROCESSOR_S_MAX, path


def test_the_advice_of_a_user_rests_on_the_curve_where_there_is_one() -> None:
    service = FixedService([prediction(curve=powered_curve())], runs=[recent_run("1", 26.0, user="ann", nodes=64)])
    page = text_of(read(app_of(service), "/users/ann"))
    assert "lammps rhodo 1 run" in page
    assert "The size is worth it: 32 nodes take about" in page


def test_sessions_at_their_limits_are_listed_as_sessions_and_alarm_nobody() -> None:
    likely: dict[str, Any] = {"probability_exceeds_limit": 0.9, "application": None, "input": None}
    session: dict[str, Any] = {"application_id": None, "predicted": None, "state": "TIMEOUT", "session": True}
    app = app_of(
        FixedService(
            jobs=[job("1", session=True, **likely), job("2", **likely)],
            runs=[recent_run("11", **session), recent_run("12", **session | {"session": False})],
        )
    )
    assert listed(app, "/jobs") == ["2", "1"]
    assert listed(app, "/jobs?hits_limit=1") == ["2"]
    assert listed(app, "/jobs?tab=ended&hits_limit=1") == ["12"]
    assert [read(app, path).count(">session<") for path in ("/jobs", "/jobs?tab=ended")] == [2, 1]
    notice = '<p class="notice">'
    assert [notice in read(app, f"/jobs/archer2/{number}") for number in (1, 2)] == [False, True]
    assert "1 likely to hit the limit" in text_of(read(app, "/"))


def test_a_job_that_hangs_has_a_tile_and_its_alert_on_the_pages_of_the_job_and_its_user() -> None:
    text = read(APP, "/")
    assert "1 hanging job" in text_of(text)
    assert 'href="/jobs?hangs=1"' in text
    for path, names in (
        ("/jobs/archer2/3", ["HangingJob"]),
        ("/users/ann", ["HangingJob", "SlowJob"]),
        ("/users/bob", []),
    ):
        assert re.findall(r'<a href="/alerts/f\d"><strong>(\w+)<', read(APP, path)) == names, path
    assert "hanging job" not in text_of(read(app_of(FixedService([prediction()], jobs=[job("1")])), "/"))
