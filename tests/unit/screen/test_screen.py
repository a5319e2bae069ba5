import re
from io import StringIO
from threading import Event

import pytest
from rich.console import Console

from processors.contracts.outputs import AlertEvidence, Quality, Reliability
from processors.contracts.service import Health
from sinks.terminal import (
    ALERTS_SHOWN,
    APPLICATIONS_SHOWN,
    HOSTS_SHOWN,
    JOBS_SHOWN,
    LOADED_SHOWN,
    SUMMARY_EVERY,
    Screen,
    sparkline,
)
from tests.kit.messages import alert, host_view, job, power_fields, prediction, resource_view, under_load
from tests.kit.service import FixedService, busy_service

HOSTILE = "[red]evil[/]\x1b[2J"


def text_of(screen: Screen, width: int = 180, height: int = 60) -> str:
    console = Console(file=StringIO(), width=width, height=height)
    screen._console = console
    console.print(screen.render())
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def line_of(text: str, word: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(word))


class Refreshes(Event):
    """A stop signal that is set after a number of waits: time passes without anyone waiting."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout == 1.0
        self.left -= 1
        if self.left <= 0:
            self.set()
        return self.is_set()


def run(service: FixedService, refreshes: int, *, terminal: bool) -> str:
    file = StringIO()
    console = Console(file=file, width=160, height=50, force_terminal=terminal, legacy_windows=False, _environ={})
    Screen(service, console=console).run(Refreshes(refreshes))
    return file.getvalue()


def test_each_application_has_its_runs_its_curve_its_band_and_its_verdict() -> None:
    line = line_of(text_of(Screen(busy_service())), "lammps rhodo")
    for part in ("41", "█▇▆▅▄▃▂▁▁", "64", "25.5 s", "-10 % +10 %", "reliable", "3.1 %", "91 %"):
        assert part in line


def test_power_has_a_column_where_it_is_known_of_any_application_that_is_shown() -> None:
    service = FixedService([prediction("dark"), prediction("measured", **power_fields())])
    text = text_of(Screen(service))
    assert "25.6 kW" in line_of(text, "measured rhodo")
    assert "kW" not in line_of(text, "dark rhodo")
    assert "power" not in text_of(Screen(FixedService([prediction()])))


def test_what_needs_attention_comes_first() -> None:
    service = FixedService([prediction("fine"), prediction("bad", reliability=Reliability("high_error"))])
    names = re.findall(r"^(fine|bad) ", text_of(Screen(service)), re.MULTILINE)
    assert names == ["bad", "fine"]


def test_the_truth_stands_beside_the_prediction_where_it_is_known() -> None:
    shown = text_of(Screen(busy_service(), truth=lambda _id, _n: 26.1))
    assert "off truth" in shown
    assert line_of(shown, "lammps rhodo").rstrip().endswith("-2.4 %")
    assert "truth" not in text_of(Screen(busy_service()))


def test_running_jobs_show_their_predicted_end_and_the_risk_of_their_limit() -> None:
    service = FixedService(jobs=[job(probability_exceeds_limit=0.7), job("900", known=False, end=None)])
    shown = text_of(Screen(service))
    for part in ("2026-11-20 10:31", "10:28 to 10:34", "70 %"):
        assert part in line_of(shown, "812")
    assert "10:28" not in line_of(shown, "900")


def test_open_alerts_come_before_resolved_ones() -> None:
    service = FixedService(alerts=[alert("f1", status="resolved", annotations={"summary": "is over"}),
                                   alert("f2", annotations={"summary": "goes on"})])  # fmt: skip
    shown = text_of(Screen(service))
    assert shown.index("goes on") < shown.index("is over")


def test_the_screen_stays_small_however_much_there_is() -> None:
    service = FixedService([prediction(f"app{index:02}") for index in range(100)], [job(str(index)) for index in range(100)],
                           [alert(f"f{index}") for index in range(100)],
                           hosts=[host_view(f"nid{index}") for index in range(100)])  # fmt: skip
    shown = text_of(Screen(service))
    assert "84 more on the page" in shown
    assert f"{JOBS_SHOWN} of 100" in shown
    rows = APPLICATIONS_SHOWN + JOBS_SHOWN + ALERTS_SHOWN + HOSTS_SHOWN + LOADED_SHOWN
    assert len(shown.splitlines()) <= rows + 12


def test_names_are_text_without_markup_or_control_characters() -> None:
    service = FixedService(
        [prediction(HOSTILE, input=HOSTILE)],
        [job(HOSTILE, application=HOSTILE)],
        [alert(annotations={"summary": HOSTILE}, labels={"alertname": HOSTILE})],
    )
    for shown in (text_of(Screen(service)), run(service, 1, terminal=False)):
        assert "[red]evil[/]?[2J" in shown
        assert "\x1b" not in shown


def test_a_role_that_is_not_ready_is_named() -> None:
    service = FixedService(health=[Health(role="learner", ready=False, reasons=("it restores its state",))])
    assert "The learner is not ready: it restores its state" in text_of(Screen(service))


def test_the_headline_is_the_first_line() -> None:
    assert text_of(Screen(FixedService(), headline=lambda: "Hour 7 of 20")).startswith("Hour 7 of 20")


def test_a_terminal_gets_a_live_screen_that_leaves_no_trace() -> None:
    shown = run(busy_service(), 2, terminal=True)
    assert "\x1b[?1049h" in shown
    assert shown.rstrip().endswith("\x1b[?25h") or "\x1b[?1049l" in shown
    assert "lammps" in shown


def test_without_a_terminal_each_change_of_an_alert_is_one_line_and_no_escape_is_written() -> None:
    service = busy_service()
    shown = run(service, 3, terminal=False)
    assert shown.count("firing warning SlowSize: lammps is 50 % slower at 16 nodes than its curve says.") == 1
    assert "lammps rhodo: 41 runs, reliable, 25.5 s at 64 nodes\n" in shown
    assert "\x1b" not in shown


def test_the_plain_summary_comes_back_now_and_then() -> None:
    shown = run(busy_service(), SUMMARY_EVERY + 1, terminal=False)
    assert shown.count("lammps rhodo: 41 runs") == 2


def test_an_alert_that_fires_and_resolves_is_reported_twice_and_forgotten_when_it_is_gone() -> None:
    service = FixedService(alerts=[alert()])
    screen = Screen(service, console=Console(file=StringIO()))
    assert len(screen.lines()) == 1
    assert screen.lines() == []
    service.held_alerts = [alert(status="resolved")]
    assert " resolved warning SlowSize" in screen.lines()[0]
    service.held_alerts = []
    assert screen.lines() == []


def test_an_alert_that_came_again_is_not_reported_over_and_over() -> None:
    before = alert(status="resolved", starts="2026-11-20T08:00:00Z")
    screen = Screen(FixedService(alerts=[alert(), before]), console=Console(file=StringIO()))
    assert [len(screen.lines()) for _ in range(3)] == [2, 0, 0]


def test_the_error_against_the_truth_is_in_the_plain_summary() -> None:
    screen = Screen(FixedService([prediction()]), truth=lambda _id, n: (10.0 + 990.0 / n) / 1.25)
    assert screen.summary() == ["lammps rhodo: 41 runs, reliable, 25.5 s at 64 nodes, error against truth 25 %"]


def test_an_application_without_a_curve_has_dashes() -> None:
    service = FixedService([prediction(curve=(), quality=Quality())])
    assert line_of(text_of(Screen(service)), "lammps").split()[3:6] == ["-", "-", "-"]
    assert Screen(service).summary() == ["lammps rhodo: 41 runs, reliable"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        ([0.0, float("nan"), float("inf")], ""),
        ([3.0], "▄"),
        ([1e-300, 1.0, 1e299], "▁▅█"),
        ([4.0, 2.0, 1.0], "█▅▁"),
    ],
)
def test_a_sparkline_has_a_block_for_each_usable_value(values: list[float], text: str) -> None:
    assert sparkline(values) == text


def test_an_anomaly_without_numbers_is_shown_all_the_same() -> None:
    assert "SlowSize" in text_of(Screen(FixedService(alerts=[alert(evidence=AlertEvidence())])))


@pytest.mark.parametrize("width", [80, 100, 130, 200])
def test_nothing_is_cut_at_the_widths_terminals_have(width: int) -> None:
    service = FixedService(
        [prediction("weather-ensemble", input="europe")], [job(application="weather-ensemble")], [alert()]
    )
    shown = text_of(Screen(service, truth=lambda _id, _n: 26.1), width)
    assert "…" not in shown
    assert "weather-ensemble europe" in shown
    assert ("90 % band" in shown) == (width >= 100)


@pytest.mark.parametrize("height", [24, 30, 40, 60])
def test_every_table_has_its_place_in_a_small_terminal(height: int) -> None:
    service = FixedService(
        [prediction(f"app{i:02d}") for i in range(30)],
        [job(job_id=str(i)) for i in range(30)],
        [alert(fingerprint=str(i), labels={"alertname": f"Alert{i}"}) for i in range(30)],
    )
    lines = text_of(Screen(service, headline=lambda: "Hour 7"), 80, height).splitlines()
    assert len(lines) <= height
    assert lines[1].startswith("Applications (")
    titles = [line.partition(" (")[0].strip() for line in lines if line.startswith(("Alerts", "Running"))]
    assert titles == ["Alerts", "Running jobs"]


def test_hosts_show_their_window_class_forecast_and_what_is_anomalous() -> None:
    outlier = resource_view("memory_free", variation=None, anomalous_since="2026-11-20T09:58:00Z")
    service = FixedService(hosts=[host_view("nid1"), host_view("nid2", resources=(resource_view(), outlier))])
    shown = text_of(Screen(service))
    for part in ("cpu_available", "▃▃▅█▅", "80 %", "55 % to 97.5 %", "high", "83 %", "0.25"):
        assert part in line_of(shown, "nid1")
    for part in ("memory_free", "since 09:58"):
        assert part in line_of(shown, "nid2")


def test_jobs_show_their_run_time_under_the_load_of_their_hosts_beside_that_of_the_curve() -> None:
    service = FixedService(
        jobs=[job(under_load=under_load()), job("900"), job("901", under_load=under_load(histogram=None))]
    )
    shown = text_of(Screen(service)).partition("Run times under the load of their hosts")[2]
    for part in ("partition standard", "29 s", "22.5 s to 42.5 s", "▂█▄▂▂", "medium"):
        assert part in line_of(shown, "812")
    assert shown.count("900") == shown.count("901") == 1, "only in the table of running jobs"


def test_hosts_leave_a_small_terminal_to_applications_and_alerts() -> None:
    service = FixedService([prediction()], [job(under_load=under_load())], hosts=[host_view()])
    assert "Hosts" in text_of(Screen(service), height=40)
    assert "Hosts" not in text_of(Screen(service), height=24)
    assert "under the load" not in text_of(Screen(service), height=24)


def test_after_the_first_come_hosts_with_anomalies_then_those_whose_load_changes_most() -> None:
    calm, outlier = resource_view(variation="low"), resource_view(anomalous_since="2026-11-20T09:58:00Z")
    others = [host_view("bursty"), host_view("strange", resources=(calm, outlier))]
    hosts = [host_view("first", resources=(calm,)), host_view("calm", resources=(calm,)), *others]
    shown = text_of(Screen(FixedService(hosts=hosts)))
    assert shown.index("first") < shown.index("strange") < shown.index("bursty") < shown.index("calm")
