"""What went wrong is told on the page and on the screen."""

from io import StringIO

from rich.console import Console

from sinks.prometheus.registry import Metrics
from sinks.terminal import Screen
from sinks.web.server import create_app
from sinks.web.views.agent import faults
from tests.kit.get import get
from tests.kit.service import FixedService


def metrics() -> Metrics:
    return Metrics(formats=(), reasons=("not-json", "future", "processor"), processors=("run_time", "job"))


def test_while_all_is_well_nothing_is_reported() -> None:
    assert faults(metrics()) == []


def test_a_fault_comes_first_and_is_counted_with_the_events_it_cost() -> None:
    found = metrics()
    found.add("scalewatch_bounds_hit_total", bound="hosts_max")
    found.add("scalewatch_dead_letters_total", reason="processor")
    found.add("scalewatch_processor_faults_total", 2, processor="run_time")
    first, second = ((fault.message, fault.grave) for fault in faults(found))
    shown = "A processor failed 3 times since the start: run_time 2, events that became dead letters 1."
    assert first == (shown, True)
    assert second == ("A bound was reached 1 time since the start: hosts_max 1.", False)


def test_what_was_sent_wrongly_is_no_fault() -> None:
    found = metrics()
    found.add("scalewatch_dead_letters_total", 2, reason="future")
    found.add("scalewatch_dead_letters_total", 9, reason="not-json")
    found.add("scalewatch_runs_refused_total", reason="too_old")
    assert [(fault.message, fault.grave) for fault in faults(found)] == [
        ("11 messages could not be processed since the start: not-json 9, future 2.", False),
        ("1 report of runs refused since the start: too_old 1.", False),
    ]


def test_the_page_shows_a_fault_as_a_notice_and_the_rest_below() -> None:
    found = metrics()
    app = create_app(FixedService(), found)
    assert "since the start" not in get(app, "/").text
    found.add("scalewatch_processor_faults_total", processor="job")
    found.add("scalewatch_dead_letters_total", reason="not-json")
    text = get(app, "/").text
    assert '<p class="notice">A processor failed 1 time since the start: job 1.</p>' in text
    assert "<span>1 message could not be processed since the start: not-json 1.</span>" in text.partition("<footer>")[2]


def test_the_screen_shows_them_live_and_in_its_summary() -> None:
    found = metrics()
    found.add("scalewatch_processor_faults_total", processor="job")
    file = StringIO()
    screen = Screen(FixedService(), faults=lambda: faults(found), console=Console(file=file, width=120))
    screen._console.print(screen.render())
    assert "A processor failed 1 time since the start: job 1." in file.getvalue()
    assert screen.summary() == ["A processor failed 1 time since the start: job 1."]
