"""Run times under load on the page: the histogram of an application, and what is reported running jobs."""

import re

from starlette.applications import Starlette

from processors.contracts.load import LoadHistogram, UnderLoad
from sinks.prometheus.registry import Metrics
from sinks.web.server import create_app
from tests.kit.messages import job, prediction, under_load
from tests.kit.pages import HOSTILE, parsed, read
from tests.kit.service import FixedService

PATH = "/applications/archer2/lammps/rhodo/nodes"


def app_of(shown: UnderLoad | None) -> Starlette:
    service = FixedService([prediction(under_load=shown)], [job(under_load=shown)])
    return create_app(service, Metrics(formats=(), reasons=(), processors=()))


def text_of(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_an_application_shows_the_histogram_of_its_run_time_under_load_beside_its_table() -> None:
    text = read(app_of(under_load()), PATH)
    parsed(text)
    assert text.count('data-bar="') == 5
    parts = text_of(text)
    for shown in ("Run time at 64 under the load of partition standard", "25 s 30 s 50 %", "29 s, 22.5 s to 42.5 s",
                 "1.25; usual 1", "64 time windows used, 2 missing", "medium"):  # fmt: skip
        assert shown in parts, shown
    assert "without load 25.5 s" in text


def test_an_application_shows_what_part_of_it_waits_for_the_network_once_that_counts() -> None:
    waits = {"communication_share": 0.3, "bandwidth": 3e9, "baseline_bandwidth": 9e9}
    text = text_of(read(app_of(under_load(**waits)), PATH))
    assert "time spent waiting for the network 30 %" in text
    assert "bandwidth left on the busiest host 3 GB/s (usually 9 GB/s)" in text
    assert "network" not in text_of(read(app_of(under_load(**waits | {"communication_share": 0.0})), PATH))


def test_a_certain_run_time_is_one_bar() -> None:
    text = read(app_of(under_load(histogram=LoadHistogram((30.0, 30.0), (1.0,)))), PATH)
    assert text.count('data-bar="') == 1


def test_where_too_little_is_known_of_the_load_the_page_states_what() -> None:
    text = read(app_of(under_load(histogram=None, q50_s=None, reason="No host has a window.")), PATH)
    parsed(text)
    assert "No host has a window." in text
    assert "data-bar=" not in text


def test_without_telemetry_nothing_is_reported_of_load() -> None:
    assert "under the load of partition" not in read(app_of(None), PATH)


def test_a_running_job_shows_its_run_time_under_the_load_of_its_hosts() -> None:
    text = read(app_of(under_load()), "/")
    assert '<span title="90 %: 22.5 s to 42.5 s">29 s</span>' in text
    assert "under load" not in read(app_of(None), "/")


def test_names_of_hosts_are_text() -> None:
    text = read(app_of(under_load(hosts=HOSTILE)), PATH)
    parsed(text)
    assert HOSTILE not in text
