"""The demo: the same seed gives the same centre and the same predictions, however often it is looked at."""

import threading
from collections.abc import Iterator

import msgspec
import pytest

from agent.app.demo import START_MS, Demo
from agent.simulation.load import SharedNodes
from sinks.web.server import create_app
from tests.kit.clock import FakeClock
from tests.kit.pages import read
from tests.kit.read_by import text_of
from tests.kit.unaccounted import unaccounted

HOUR = 1.0  # of the centre, in seconds of the clock at this speed
ANALYSIS = "simulated/image-analysis//nodes"


def demo_of(seed: int) -> Demo:
    return Demo(seed=seed, speed=3600.0, clock=FakeClock(), measure=lambda: {"cpu_available": 0.25})


def advanced(seed: int, *seconds: float) -> Demo:
    demo = demo_of(seed)
    for moment in seconds:
        demo.advance(moment)
    return demo


def predicted(demo: Demo) -> bytes:
    service = demo.agent.service
    return msgspec.json.encode([service.predictions(), service.jobs(), service.alerts(), service.hosts(100)])


@pytest.fixture(scope="module")
def before_half_way() -> Demo:
    return advanced(1, *(moment / 2 * HOUR for moment in range(1, 20)))


@pytest.mark.slow  # for its centre lives nine hours first
def test_the_demo_shows_runs_with_what_was_predicted_of_them_and_who_spoke(before_half_way: Demo) -> None:
    service = before_half_way.service
    runs = service.runs(ANALYSIS)
    reported = [run.predicted for run in runs if run.predicted is not None]
    assert len(runs) > 20
    assert len(reported) > len(runs) / 2
    assert service.runs_of_job(runs[0].system, runs[0].job_id)[0] == runs[0]
    assert len(service.sources()) >= 3
    assert all(source.newest_ms is not None and source.newest_ms > START_MS for source in service.sources())


@pytest.mark.slow
def test_the_page_of_a_project_lists_its_applications_in_the_demo(before_half_way: Demo) -> None:
    page = text_of(read(create_app(before_half_way.service, before_half_way.agent.metrics), "/projects/life-sciences"))
    assert "Project life-sciences" in page
    assert "genome-assembly" in page
    assert "image-analysis" in page


@pytest.fixture(scope="module")
def names_before(before_half_way: Demo) -> list[str]:
    return [
        alert.labels["alertname"]
        for alert in before_half_way.service.alerts()
        if alert.labels.get("application") != "image-analysis"  # whose hosts become slower before
    ]


@pytest.fixture(scope="module")
def after_half_way(before_half_way: Demo, names_before: list[str]) -> Iterator[Demo]:
    del names_before  # it has to be asked for before
    before_half_way.advance(13 * HOUR)
    yield before_half_way
    before_half_way.close()


def test_the_same_seed_gives_the_same_predictions_jobs_alerts_and_hosts_to_the_byte() -> None:
    first, second = advanced(1, 0.5, 1.0), advanced(1, 0.25, 1.0)
    assert len(first.service.predictions()) > 3
    assert predicted(first) == predicted(second)


def test_another_seed_gives_another_centre() -> None:
    assert predicted(advanced(1, 0.5)) != predicted(advanced(2, 0.5))


def test_time_passes_at_the_speed_that_was_asked_for() -> None:
    demo = advanced(1, 0.5)
    assert demo.now_ms == START_MS + 1_800_000
    assert demo.headline() == "simulated centre, 2026-11-20T10:30:00Z, 3600 times real time"


def test_a_machine_that_cannot_keep_up_reports_how_fast_time_really_passes() -> None:
    clock = FakeClock()
    demo = Demo(seed=1, speed=3600.0, clock=clock, measure=lambda: {"cpu_available": 0.25})
    demo.advance(0.02)
    clock.advance(10.0)
    demo.advance(0.22)
    assert (
        demo.headline()
        == "simulated centre, 2026-11-20T10:13:12Z, 73.2 times real time; this machine cannot keep up with 3600"
    )


def test_who_looks_early_reads_how_much_of_the_past_is_still_to_come_and_can_stop_it() -> None:
    clock, stop = FakeClock(), threading.Event()
    demo = Demo(seed=1, speed=None, clock=clock, measure=lambda: {"cpu_available": 0.25})
    assert demo.headline() == "simulated centre, 2026-11-20T01:45:00Z, the last 8.2 hours are still to come"
    stop.set()
    demo.step(stop=stop)
    demo.run(stop)
    assert demo.now_ms == demo.start_ms
    assert not demo.is_live
    assert [source.topic for source in demo.service.sources() if source.topic.startswith("local")] == []


@pytest.mark.slow
def test_predictions_come_near_the_truth_that_the_agent_does_not_know(after_half_way: Demo) -> None:
    demo = after_half_way
    errors = []
    for prediction in demo.service.predictions():
        for point in prediction.curve:
            truth = demo.truth(
                f"{prediction.system}/{prediction.application}/{prediction.input}/{prediction.unit}", point.n
            )
            if truth is not None and point.source == "observed" and prediction.observations >= 20:
                errors.append(abs(point.run_time_s / truth - 1))
    assert len(errors) > 10
    assert sorted(errors)[len(errors) // 2] < 0.1


@pytest.mark.slow
def test_the_application_that_becomes_slower_half_way_is_reported_with_its_factor(
    names_before: list[str], after_half_way: Demo
) -> None:
    assert "Regression" not in names_before, "everything is as it was until then"
    prediction_for = [
        alert.annotations["summary"]
        for alert in after_half_way.service.alerts()
        if alert.labels["alertname"] == "Regression" and alert.labels["application"] == "crash-test"
    ]
    assert len(prediction_for) == 1
    assert (
        "crash-test on simulated has taken 1.2" in prediction_for[0]
        or "crash-test on simulated has taken 1.3" in prediction_for[0]
    )


@pytest.mark.slow
def test_every_shared_node_has_a_fresh_window_of_five_minutes_and_a_forecast(after_half_way: Demo) -> None:
    views = after_half_way.agent.service.hosts(100)
    assert len(views) == 36
    for view in views:
        loads = [entry for entry in view.resources if entry.resource != "power_w>system"]
        assert [entry.resource for entry in loads] == ["bandwidth", "cpu_available", "memory_free"]
        for entry in loads:
            assert (entry.window.count, entry.window.stale) == (30, False)
            assert entry.forecast is not None
    power = [entry for view in views for entry in view.resources if entry.resource == "power_w>system"]
    assert len(power) == 30, "every sixth host has no sensor"
    assert sum(entry.window.stale for entry in power) <= 2, "whose sampler was silent for a minute"
    assert all(6 <= entry.window.count <= 10 for entry in power)
    classes = [view.resources[1].variation for view in views]
    assert {"low"} < set(classes), "calm hosts and bursty ones"
    assert any(view.job for view in views)


@pytest.mark.slow
def test_jobs_on_shared_nodes_are_shown_their_run_time_under_the_load_of_their_hosts(after_half_way: Demo) -> None:
    service = after_half_way.service
    loads = [job.under_load for job in service.jobs() if job.application == "image-analysis"]
    assert len(loads) > 2
    assert all(load is not None and load.histogram is not None and load.missing == 0 for load in loads)
    prediction = service.prediction(ANALYSIS)
    assert prediction is not None
    assert prediction.under_load is not None
    assert prediction.under_load.quality is not None
    assert prediction.under_load.quality.crps_ratio is not None
    assert prediction.under_load.quality.crps_ratio < 1.0, "the load of the hosts told more than the plain band"


@pytest.mark.slow
def test_the_slow_host_and_the_rack_that_is_held_up_are_reported_within_minutes(after_half_way: Demo) -> None:
    alerts = [alert for alert in after_half_way.service.alerts() if alert.labels["alertname"].endswith("Anomaly")]
    racks = [alert for alert in alerts if alert.labels["alertname"] == "RackAnomaly"]
    assert [(alert.labels["rack"], alert.starts[:15]) for alert in racks] == [("r3", "2026-11-20T18:0")], (
        "at eight hours"
    )
    assert racks[0].evidence.observed is not None
    assert racks[0].evidence.observed >= 6
    hosts = {alert.labels["host"]: alert.starts for alert in alerts if alert.labels["alertname"] == "HostAnomaly"}
    assert hosts["r2n01"][:15] == "2026-11-20T15:0", "at five hours"
    assert len(hosts) < 6, "of three dozen hosts in half a day"
    assert not any(host.startswith("r3") and "18:00" <= hosts[host][11:16] < "18:20" for host in hosts), (
        "the rack is one"
    )


@pytest.mark.slow
def test_power_of_measured_applications_is_reported_near_the_truth(after_half_way: Demo) -> None:
    compared = 0
    for name in ("simulated/battery-design//nodes", "simulated/molecules/membrane/nodes"):
        prediction = after_half_way.service.prediction(name)
        assert prediction is not None
        assert prediction.profiles
        for point in prediction.curve:
            truth = after_half_way.true_power_w(name, point.n)
            if point.source == "observed":
                assert point.power_w == pytest.approx(truth, rel=0.05)
                assert point.energy_j == pytest.approx((point.power_w or 0.0) * point.run_time_s, rel=0.05)
                compared += 1
    assert compared >= 10
    shared = after_half_way.service.prediction(ANALYSIS)
    assert shared is not None
    assert shared.power is not None
    assert shared.power.estimated > 0, "some shared nodes have no sensor"


@pytest.mark.slow
def test_the_host_that_draws_more_and_runs_with_a_neighbour_are_reported(after_half_way: Demo) -> None:
    alerts = after_half_way.service.alerts()
    of_power = {"UnexplainedPower", "StragglerHost"}
    hosts = {alert.labels.get("host") for alert in alerts if alert.labels["alertname"] in of_power}
    runs = {"UnexplainedPower", "DisturbedRun"}
    applications = {alert.labels.get("application") for alert in alerts if alert.labels["alertname"] in runs} - {None}
    nodes = SharedNodes(1, START_MS)
    assert nodes.hosts[nodes.hungry_host].name in hosts
    assert applications == {"image-analysis"}, "the others have no trouble of that kind"


@pytest.mark.slow
def test_nothing_that_the_demo_sends_is_refused(after_half_way: Demo) -> None:
    metrics = after_half_way.agent.metrics
    assert metrics.above_zero("scalewatch_dead_letters_total") == {}
    assert metrics.above_zero("scalewatch_processor_faults_total") == {}
    assert unaccounted(metrics) == {}
