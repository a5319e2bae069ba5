"""This machine beside the centre of the demo: measured in its own time, and shown with the centre's hosts."""

import pytest

from agent.app.demo import EVERY_S, HOST, LOCAL_SYSTEM, CombinedService, ThisMachine, measured
from processors.contracts.events import Evidence, PredictionRequested
from tests.kit.clock import FakeClock
from tests.kit.messages import alert, host_view, prediction
from tests.kit.service import FixedService


def watched(clock: FakeClock, seconds: float, cpu: float = 0.25) -> ThisMachine:
    machine = ThisMachine(clock, lambda: {"cpu_available": cpu})
    for _ in range(round(seconds / EVERY_S)):
        machine.step()
        clock.advance(EVERY_S)
    return machine


def test_it_measures_the_processor_memory_and_disk_of_this_machine() -> None:
    reported = measured()
    assert set(reported) == {"cpu_available", "memory_free", "disk_free"}
    assert 0.0 <= reported["cpu_available"] <= 1.0
    assert reported["memory_free"] > 0


def test_after_a_minute_it_has_a_window_in_real_time_however_fast_the_centre_is() -> None:
    clock = FakeClock()
    view = watched(clock, 150.0).service.reading(LOCAL_SYSTEM).host(HOST)
    assert view is not None
    window = view.resources[0].window
    assert (window.mean, window.edges, window.shares) == (0.25, (0.25,), (1.0,))
    assert 30 <= window.count <= 75, "a sample every two seconds"
    assert 0 <= clock.now_ms() - window.until_ms < 120_000


def test_it_is_measured_every_two_seconds_and_not_more_often() -> None:
    clock = FakeClock()
    machine = ThisMachine(clock, lambda: {"cpu_available": 0.5})
    assert (machine.step(), machine.step()) == (True, False)
    clock.advance(EVERY_S)
    assert machine.step()


def test_hosts_of_both_are_shown_and_this_machine_is_never_left_out() -> None:
    centre = FixedService(
        [prediction()],
        alerts=[alert("a"), alert("b", status="resolved")],
        hosts=[host_view(f"nid{n}") for n in range(5)],
    )
    machine = FixedService(alerts=[alert("c")], hosts=[host_view(HOST, system=LOCAL_SYSTEM)])
    both = CombinedService(centre, {LOCAL_SYSTEM: machine})
    assert [view.host for view in both.hosts(3)] == [HOST, "nid0", "nid1"]
    assert [view.host for view in both.hosts(1)] == [HOST]
    assert both.hosts(0) == []
    assert both.reading(LOCAL_SYSTEM).host(HOST) == machine.held_hosts[0]
    assert both.reading("archer2").host("nid4") == centre.held_hosts[4]
    assert both.reading("archer2").host(HOST) is None
    assert [entry.fingerprint for entry in both.alerts()] == ["a", "c", "b"], "open ones first"


def test_jobs_and_answers_are_the_centres() -> None:
    centre = FixedService([prediction()])
    both = CombinedService(centre, {LOCAL_SYSTEM: FixedService([prediction("other")])})
    assert [entry.application for entry in both.predictions()] == ["lammps"]
    assert both.prediction("archer2/other/rhodo/nodes") is None
    request = PredictionRequested(
        "archer2", request_id="r", n=(8.0,), evidence=Evidence(application="lammps", input="rhodo")
    )
    assert both.answer(request).known
    assert both.health() == centre.health()
    assert both.jobs() == []


@pytest.mark.parametrize("cpu", [0.0, 1.0])
def test_a_machine_that_is_wholly_busy_or_idle_is_shown_as_such(cpu: float) -> None:
    view = watched(FakeClock(), 150.0, cpu).service.reading(LOCAL_SYSTEM).host(HOST)
    assert view is not None
    assert view.resources[0].window.mean == cpu
