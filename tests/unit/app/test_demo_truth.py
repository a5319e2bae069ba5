"""What the demo shows over an hour of the present, against what its simulation knows: ends of jobs, hosts, causes of alerts."""

import heapq
import re
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from agent.app.demo import HOST, LIVE_STEP_S, LOCAL_SYSTEM, PAST_S, Demo
from agent.simulation.centre import TimedEvent
from agent.simulation.meters import STEP_MS
from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import Alert
from sinks.web.server import create_app
from tests.kit.clock import FakeClock
from tests.kit.pages import read
from tests.kit.read_by import text_of
from tests.kit.simulated_power import true_power_w
from tests.kit.unaccounted import unaccounted

pytestmark = pytest.mark.slow  # the centre lives more than nine hours

HOUR_S = 3_600
STEP_S = 10
MINUTE_MS = 60_000
MINUTE_STEPS = 6  # of the load
ANALYSIS = "simulated/image-analysis//nodes"
POWER = "power_w>system"
UNEVEN = {"spectral-solver", "climate-coupler", "genome-assembly"}  # with sizes that are slower than their neighbours


class Foretold(NamedTuple):
    """What was shown of a running job, in ms since the epoch."""

    low_ms: int
    high_ms: int


class Hour:
    """An hour of the demo as it happens: what was shown of jobs each ten minutes, and what the simulation says of them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.demo = Demo(1, None, self.clock, lambda: {"cpu_available": 0.25})
        self.demo.step()
        self.opened_ms = self.clock.now_ms()
        self.shown: list[tuple[set[str], set[str]]] = []  # the jobs that run, as shown and in truth
        self.foretold: dict[str, Foretold] = {}
        events = (self.demo.centre.events(), self.demo.shared.events())
        self._events = heapq.merge(*events, key=lambda event: event.time_ms)
        self._running: dict[str, TimedEvent] = {}
        self._next = next(self._events)
        self.ends_ms: dict[str, int] = {}
        self.minute_used_s = self._minute()
        for second in range(STEP_S, HOUR_S + 1, STEP_S):
            self.clock.advance(STEP_S)
            self.demo.step()
            if second % 600 == 0:
                self._look()
        self.running = dict(self._running)
        self._follow(self.clock.now_ms() + 2 * HOUR_S * 1000)

    def _minute(self) -> float:
        """Let a minute pass in the steps of the demo; return the time of the processor that it took."""
        began_s = time.process_time()
        for _ in range(round(60 / LIVE_STEP_S)):
            self.clock.advance(LIVE_STEP_S)
            self.demo.step()
        return time.process_time() - began_s

    def _look(self) -> None:
        self._follow(self.clock.now_ms())
        jobs = self.demo.service.jobs()
        self.shown.append(({job.job_id for job in jobs}, set(self._running)))
        for job in jobs:
            if job.known and job.end_low is not None and job.end_high is not None:
                span = Foretold(parse_rfc3339(job.end_low), parse_rfc3339(job.end_high))
                self.foretold.setdefault(job.job_id, span)

    def _follow(self, until_ms: int) -> None:
        """Follow what really happens."""
        while self._next.time_ms <= until_ms:
            job_id = self._next.event["job_id"]
            if self._next.event["type"] == "job.started":
                self._running[job_id] = self._next
            else:
                del self._running[job_id]
                if self._next.event["state"] == "COMPLETED":
                    self.ends_ms[job_id] = self._next.time_ms
            self._next = next(self._events)


@pytest.fixture(scope="module")
def hour() -> Iterator[Hour]:
    lived = Hour()
    yield lived
    lived.demo.close()


def test_its_time_is_the_present_and_no_source_is_late(hour: Hour) -> None:
    now_ms = hour.clock.now_ms()
    assert hour.opened_ms - hour.demo.start_ms == pytest.approx(PAST_S * 1000, abs=60_000)
    assert hour.demo.now_ms == now_ms
    assert hour.demo.headline().endswith("as it happens")
    sources = {source.topic: source for source in hour.demo.service.sources()}
    assert set(sources) == {"simulated.jobs", "simulated.load", "simulated.energy", "local.load"}
    assert not [topic for topic, source in sources.items() if source.is_silent(now_ms)]
    assert all(now_ms - 120_000 <= (source.newest_ms or 0) <= now_ms for source in sources.values())


def test_it_takes_half_a_core_at_most_once_it_has_caught_up(hour: Hour) -> None:
    assert hour.minute_used_s < 30


def test_this_machine_is_shown_beside_the_centre_at_the_same_time(hour: Hour) -> None:
    view = hour.demo.service.reading(LOCAL_SYSTEM).host(HOST)
    assert view is not None
    assert hour.clock.now_ms() - view.resources[0].window.until_ms < 120_000


def test_the_jobs_that_run_are_those_of_the_simulation(hour: Hour) -> None:
    assert len(hour.shown) == 6
    for shown, real in hour.shown:
        assert shown == real
    assert sum(len(real) for _, real in hour.shown) > 60


def test_jobs_end_when_it_was_predicted(hour: Hour) -> None:
    ended = [(span, hour.ends_ms[job]) for job, span in hour.foretold.items() if job in hour.ends_ms]
    assert len(ended) > 40
    inside = sum(span.low_ms - 1000 <= end_ms <= span.high_ms + 1000 for span, end_ms in ended)
    assert inside / len(ended) > 0.8


def test_run_times_are_near_the_truth_and_mostly_within_their_bands(hour: Hour) -> None:
    errors, inside = [], []
    for entry in hour.demo.service.predictions():
        name = f"{entry.system}/{entry.application}/{entry.input or ''}/{entry.unit}"
        for point in entry.curve:
            truth = hour.demo.truth(name, point.n)
            if truth is not None and point.source == "observed" and entry.observations >= 20:
                errors.append(abs(point.run_time_s / truth - 1))
                inside.append(point.low_s <= truth <= point.high_s)
    assert len(errors) > 40
    assert statistics.median(errors) < 0.05
    assert statistics.mean(inside) > 0.8


def test_hosts_show_their_real_load_and_the_job_that_runs_there(hour: Hour) -> None:
    loads, hosts = hour.demo.shared.loads(), hour.demo.shared.hosts
    job_at = {
        hosts[place].name: event.event["job_id"]
        for event in hour.running.values()
        if event.event["partition"] == "shared"
        for place in event.nodes
    }
    views = {view.host: view for view in hour.demo.agent.service.hosts(100)}
    for place, host in enumerate(hosts):
        view = views[host.name]
        shown = next(entry for entry in view.resources if entry.resource == "cpu_available")
        last_ms = shown.window.until_ms
        real = [loads.at(last_ms - step * STEP_MS)[place, 0] for step in range(1, MINUTE_STEPS + 1)]
        assert shown.window.mean == pytest.approx(statistics.mean(real), abs=0.01), host.name
        assert (view.job or "").rpartition("/")[2] == job_at.get(host.name, ""), host.name


def test_every_alert_has_a_cause_that_the_simulation_knows(hour: Hour) -> None:
    shared = hour.demo.shared
    slow, hungry = shared.hosts[shared.slow_host].name, shared.hosts[shared.hungry_host].name
    changed = {each.name for each in hour.demo.centre.applications if each.regression != 1.0}
    failing = {each.name for each in hour.demo.centre.applications if each.failure_rate[0] != each.failure_rate[1]}
    disturbed = {shared.application.name}  # now and then a neighbour slows a run down
    causes: dict[str, set[str]] = {
        "HostAnomaly": {slow}, "PeerDifference": {slow, hungry}, "RackAnomaly": {"r3"},
        "UnexplainedPower": {hungry} | disturbed, "DisturbedRun": disturbed, "StrangeRun": disturbed | changed,
        "Regression": changed, "ApplicationFailureRate": failing, "SlowSize": UNEVEN, "PredictionUnreliable": UNEVEN | changed,
    }  # fmt: skip
    # any job may have too short a limit, so JobNearLimit needs no cause in the application
    alerts = [alert for alert in hour.demo.service.alerts() if alert.name != "JobNearLimit"]
    about = {(alert.labels["alertname"], subject(alert)) for alert in alerts}
    assert {(name, each) for name, each in about if each not in causes.get(name, set())} == set()
    assert {("HostAnomaly", slow), ("UnexplainedPower", hungry), ("RackAnomaly", "r3")} <= about


def subject(alert: Alert) -> str:
    """Return what an alert is about: a host, a rack, or an application."""
    return next((alert.labels[name] for name in ("host", "rack", "application") if name in alert.labels), "")


def test_runs_are_shown_with_the_prediction_at_their_start(hour: Hour) -> None:
    service = hour.demo.service
    runs = service.runs(ANALYSIS)
    predicted = [run.predicted for run in runs if run.predicted is not None]
    assert len(runs) > 20
    assert len(predicted) > len(runs) / 2
    assert service.runs_of_job(runs[0].system, runs[0].job_id)[0] == runs[0]


def test_the_page_of_a_project_lists_its_applications(hour: Hour) -> None:
    page = text_of(read(create_app(hour.demo.service, hour.demo.agent.metrics), "/projects/life-sciences"))
    assert "Project life-sciences" in page
    assert "genome-assembly" in page
    assert "image-analysis" in page


def test_the_application_that_becomes_slower_is_reported_with_its_factor(hour: Hour) -> None:
    (regression,) = (
        alert
        for alert in hour.demo.service.alerts()
        if alert.labels["alertname"] == "Regression" and alert.labels["application"] == "crash-test"
    )
    assert parse_rfc3339(regression.starts) > hour.demo.centre.halfway_ms
    assert re.search(r"crash-test on simulated has taken 1\.[23]", regression.annotations["summary"])


def test_every_shared_node_has_a_fresh_window_of_five_minutes_and_a_forecast(hour: Hour) -> None:
    views = hour.demo.agent.service.hosts(100)
    assert len(views) == 36
    for view in views:
        loads = [entry for entry in view.resources if entry.resource != POWER]
        assert [entry.resource for entry in loads] == ["bandwidth", "cpu_available", "memory_free"]
        for entry in loads:
            assert (entry.window.count, entry.window.stale) == (30, False)
            assert entry.forecast is not None
    power = [entry for view in views for entry in view.resources if entry.resource == POWER]
    assert len(power) == 30, "every sixth host has no sensor"
    assert sum(entry.window.stale for entry in power) <= 2, "whose sampler was silent for a minute"
    assert all(6 <= entry.window.count <= 10 for entry in power)
    assert {"low"} < {view.resources[1].variation for view in views}, "calm hosts and bursty ones"


def test_jobs_on_shared_nodes_are_shown_their_run_time_under_the_load_of_their_hosts(hour: Hour) -> None:
    service = hour.demo.service
    loads = [job.under_load for job in service.jobs() if job.application == "image-analysis"]
    assert len(loads) > 2
    assert all(load is not None and load.histogram is not None and load.missing == 0 for load in loads)
    prediction = service.prediction(ANALYSIS)
    assert prediction is not None
    assert prediction.under_load is not None
    assert prediction.under_load.quality is not None
    assert prediction.under_load.quality.crps_ratio is not None
    assert prediction.under_load.quality.crps_ratio < 1.0, "the load of the hosts told more than the plain band"


def test_the_slow_host_and_the_rack_that_is_held_up_are_reported_within_minutes(hour: Hour) -> None:
    shared = hour.demo.shared
    alerts = [alert for alert in hour.demo.service.alerts() if alert.labels["alertname"].endswith("Anomaly")]
    (rack,) = (alert for alert in alerts if alert.labels["alertname"] == "RackAnomaly")
    assert rack.labels["rack"] == "r3"
    assert 0 <= parse_rfc3339(rack.starts) - shared.rack_ms < 10 * MINUTE_MS
    assert rack.evidence.observed is not None
    assert rack.evidence.observed >= 6
    hosts = {
        alert.labels["host"]: parse_rfc3339(alert.starts)
        for alert in alerts
        if alert.labels["alertname"] == "HostAnomaly"
    }
    assert 0 <= hosts[shared.hosts[shared.slow_host].name] - shared.slow_ms < 10 * MINUTE_MS
    held_up = range(shared.rack_ms, shared.rack_ms + 20 * MINUTE_MS)
    assert not any(host.startswith("r3") and starts_ms in held_up for host, starts_ms in hosts.items()), (
        "the rack is one alert"
    )


def test_power_of_measured_applications_is_reported_near_the_truth(hour: Hour) -> None:
    compared = 0
    for name in ("simulated/battery-design//nodes", "simulated/molecules/membrane/nodes"):
        prediction = hour.demo.service.prediction(name)
        assert prediction is not None
        assert prediction.profiles
        for point in prediction.curve:
            truth = true_power_w(hour.demo.centre, name, point.n)
            if point.source == "observed":
                assert point.power_w == pytest.approx(truth, rel=0.05)
                assert point.energy_j == pytest.approx((point.power_w or 0.0) * point.run_time_s, rel=0.05)
                compared += 1
    assert compared >= 10
    shared = hour.demo.service.prediction(ANALYSIS)
    assert shared is not None
    assert shared.power is not None
    assert shared.power.estimated > 0, "some shared nodes have no sensor"


def test_nothing_is_refused_or_lost(hour: Hour) -> None:
    metrics = hour.demo.agent.metrics
    assert metrics.above_zero("scalewatch_dead_letters_total") == {}
    assert metrics.above_zero("scalewatch_processor_faults_total") == {}
    assert unaccounted(metrics) == {}
