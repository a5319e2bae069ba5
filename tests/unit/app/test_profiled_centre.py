"""A centre whose power and counters are known, through the whole agent: what it says of power is near the truth."""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

import msgspec
import pytest

from agent.app import compose
from agent.app.demo import (
    ENERGY_TOPIC,
    JOBS,
    LOAD,
    RETENTION_MS,
    SOURCES,
    START_MS,
)
from agent.app.embedded import Embedded
from agent.config.tree import Config
from agent.simulation.load import SharedNodes
from agent.simulation.meters import Metered
from agent.simulation.workload import COUNTERS
from processors.contracts.events import JobStarted, JournalRecord, Tick, decode_record
from processors.contracts.log import Batch
from processors.contracts.outputs import Alert, Emission, JobPrediction, Run
from processors.pipeline.shard import Shard
from tests.kit.clock import FakeClock

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
ID = "simulated/image-analysis//nodes"
SYSTEM = 0  # of the components of what was metered


@dataclass
class Centre:
    """Shared nodes and the agent that hears of them; what it sent, and what truly ran."""

    agent: Embedded = field(init=False)
    runs: dict[str, Metered] = field(default_factory=dict)
    settled: dict[str, Run] = field(default_factory=dict)
    prediction: dict[str, JobPrediction] = field(default_factory=dict)
    alerts: dict[str, list[Alert]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.agent = Embedded(Config(sources=SOURCES), FakeClock(), self._sent, raw_retention_ms=RETENTION_MS)

    def live(self, hours: float) -> "Centre":
        """Let so many hours pass, a minute at a time."""
        nodes = SharedNodes(1, START_MS)
        messages = self._messages(nodes)
        collector, producer = self.agent.collector(), self.agent.log.producer()
        collector.step(START_MS, 0.0)
        pending = next(messages)
        for now_ms in range(START_MS + MINUTE_MS, START_MS + round(hours * HOUR_MS) + 1, MINUTE_MS):
            while pending[0] <= now_ms:
                time_ms, topic, value = pending
                producer.send(topic, value, None, 0, time_ms)
                pending = next(messages)
            producer.flush(1.0)
            for moment_ms in (now_ms - MINUTE_MS, now_ms):
                while collector.step(moment_ms, 0.0):
                    pass
            self.agent.step()
        return self

    def journal(self) -> list[JournalRecord]:
        """Return what is in the journal."""
        found: list[JournalRecord] = []

        def take(batch: Batch) -> None:
            found.extend(decode_record(value) for value in batch.values if value)

        self.agent.log.read(self.agent.config.topics.journal, 0, take)
        return found

    def _messages(self, nodes: SharedNodes) -> Iterator[tuple[int, str, bytes]]:
        jobs = ((event.time_ms, JOBS, event.value) for event in nodes.events())
        load = ((time_ms, LOAD, value) for time_ms, value in nodes.samples())
        reported = nodes.meters(lambda run: self.runs.__setitem__(run.job.job_id, run)).messages(nodes.events())
        meters = (
            (each.time_ms, topic, value)
            for each in reported
            for topic, value in ((LOAD, each.events), (ENERGY_TOPIC, each.lines))
            if value
        )
        return heapq.merge(jobs, load, meters, key=lambda message: message[0])

    def _sent(self, emission: Emission) -> None:
        if emission.value is None:
            return
        if emission.kind == "runs":
            run = msgspec.json.decode(emission.value, type=Run)
            self.settled[run.run_id.split("/")[1].split("@")[0]] = run
        elif emission.kind == "job_predictions":
            prediction = msgspec.json.decode(emission.value, type=JobPrediction)
            self.prediction.setdefault(prediction.job_id, prediction)
        elif emission.kind == "alerts":
            alert = msgspec.json.decode(emission.value, type=Alert)
            self.alerts[alert.labels["alertname"]].append(alert)


@pytest.fixture(scope="module")
def centre() -> Iterator[Centre]:
    found = Centre().live(6.5)  # the hungry host draws more from hour 4 on
    yield found
    found.agent.close()


@pytest.mark.slow
def test_the_profile_of_a_settled_run_is_what_truly_ran(centre: Centre) -> None:
    errors: dict[str, list[float]] = defaultdict(list)
    profiled = {job: run for job, run in centre.settled.items() if run.profile is not None and job in centre.runs}
    assert len(profiled) > 0.95 * len(centre.settled) > 100
    for job, run in profiled.items():
        profile, truth = run.profile, centre.runs[job]
        assert profile is not None
        assert profile.hosts == len(truth.nodes)
        if run.state != "COMPLETED" or truth.seconds < 600:
            continue
        assert profile.coverage > 0.7
        assert profile.shared <= 2 * profile.hosts, "minutes in which another job ended or began"
        for place, name in enumerate(COUNTERS):
            rate = float(truth.counts[place]) / truth.seconds / len(truth.nodes)
            errors[name].append(abs(profile.counters[name] / rate - 1))
        for place, name in enumerate(("system", "cpu", "memory")):
            if profile.measured.get(name, 0.0) > 0.9:
                watts = float(truth.power_w[place]) / len(truth.nodes)
                errors[name].append(abs(profile.power_w[name] / watts - 1))
                errors[f"{name} energy"].append(abs(profile.energy_j[name] / float(truth.energy_j[place]) - 1))
    assert set(errors) == {
        *COUNTERS,
        *(f"{name}{what}" for name in ("system", "cpu", "memory") for what in ("", " energy")),
    }
    for name, found in errors.items():
        assert len(found) > 20, name
        assert median(found) < 0.02, name
        assert sorted(found)[int(0.95 * len(found))] < 0.08, name


@pytest.mark.slow
def test_hosts_without_a_sensor_get_the_power_that_their_counters_let_expect(centre: Centre) -> None:
    errors = []
    for job, run in centre.settled.items():
        profile, truth = run.profile, centre.runs.get(job)
        if profile is None or truth is None or truth.seconds < 600 or truth.job.slowed > 1:
            continue
        if profile.measured.get("system", 0.0) == 0 and profile.estimated.get("system", 0.0) > 0.9:
            watts = float(truth.power_w[SYSTEM]) / len(truth.nodes)
            errors.append(abs(profile.power_w["system"] / watts - 1))
    assert len(errors) > 3
    assert median(errors) < 0.05
    assert max(errors) < 0.2


@pytest.mark.slow
def test_power_that_was_reported_at_the_start_comes_true_as_often_as_its_band_states(centre: Centre) -> None:
    errors, retained = [], []
    for job, truth in centre.runs.items():
        prediction, run = centre.prediction.get(job), centre.settled.get(job)
        if prediction is None or prediction.power_w is None or run is None or run.state != "COMPLETED":
            continue
        assert prediction.power_low_w is not None
        assert prediction.power_high_w is not None
        watts = float(truth.power_w[SYSTEM])
        errors.append(abs(prediction.power_w / watts - 1))
        retained.append(prediction.power_low_w <= watts <= prediction.power_high_w)
    assert len(errors) > 80
    assert median(errors) < 0.05
    assert 0.75 <= sum(retained) / len(retained) <= 0.99


@pytest.mark.slow
def test_the_prediction_reports_power_and_energy_by_size_and_which_counters_explain_them(centre: Centre) -> None:
    prediction = centre.agent.service.prediction(ID)
    assert prediction is not None
    for point in prediction.curve:
        if point.source != "observed":
            continue
        usual = median(
            float(run.power_w[SYSTEM]) for run in centre.runs.values() if run.job.n == point.n and run.seconds > 300
        )
        assert point.power_low_w is not None
        assert point.power_high_w is not None
        assert point.power_w == pytest.approx(usual, rel=0.06)
        assert point.power_low_w <= usual <= point.power_high_w
        assert point.energy_j == pytest.approx(usual * point.run_time_s, rel=0.1)
    assert prediction.power is not None
    assert prediction.power.scored >= 50
    assert prediction.power.median_error is not None
    assert prediction.power.median_error < 0.05
    assert 0.8 < prediction.power.measured < 0.9, "every sixth host has no sensor"
    assert 0.05 < prediction.power.estimated < 0.2, "and gets what its counters let expect"
    models = {model.target: model for model in prediction.profiles}
    assert {"run_time_s", "system_power_w", "cpu_power_w", "memory_power_w"} <= set(models)
    assert models["memory_power_w"].median_error is not None
    assert models["memory_power_w"].median_error < 0.03
    assert "memory_bytes" in {each.counter for each in models["memory_power_w"].explained[:2]}


@pytest.mark.slow
def test_runs_with_a_neighbour_raise_an_alert_and_hardly_any_other_does(centre: Centre) -> None:
    disturbed = {f"simulated/{job}" for job, run in centre.runs.items() if run.job.slowed > 1}
    reported = {
        alert.evidence.runs[0].split("@")[0] for alert in centre.alerts["DisturbedRun"] if alert.status == "firing"
    }
    assert len(disturbed) >= 3
    assert reported & disturbed, "predicted"
    assert len(reported - disturbed) <= 2, "and true"


@pytest.mark.slow
def test_the_host_that_draws_more_is_reported_by_its_name_and_its_runs_raise_nothing(centre: Centre) -> None:
    nodes = SharedNodes(1, START_MS)
    firing = [
        alert
        for name in ("PeerDifference", "UnexplainedPower")
        for alert in centre.alerts[name]
        if alert.status == "firing"
    ]
    hungry = nodes.hosts[nodes.hungry_host].name
    assert [alert.labels["alertname"] for alert in firing if alert.labels.get("host") == hungry] == ["UnexplainedPower"]
    assert not [alert for alert in firing if "application" in alert.labels]


def test_a_restart_in_the_middle_changes_nothing_that_is_reported() -> None:
    centre = Centre().live(1.7)
    records = centre.journal()
    centre.agent.close()
    assert any(isinstance(record.event, JobStarted) for record in records)
    whole, sent = compose.make_shard(centre.agent.config), list[bytes]()
    cuts = {len(records) * share // 10 for share in (4, 6, 8)}
    other, other_sent = compose.make_shard(centre.agent.config), list[bytes]()
    stored: dict[str, bytes] = {}
    for place, record in enumerate(records):
        sent += prediction(whole, record)
        other_sent += prediction(other, record)
        if isinstance(record.event, Tick) and any(cut <= place for cut in cuts):
            cuts -= {cut for cut in cuts if cut <= place}
            other = restarted(other, stored, centre.agent.config)
    assert not cuts
    assert any(b'"counters"' in message for message in sent)
    assert other_sent == sent


def prediction(shard: Shard, record: JournalRecord) -> list[bytes]:
    return [compose.encode(message).value or b"" for message in shard.fold(record)]


def restarted(shard: Shard, stored: dict[str, bytes], config: Config) -> Shard:
    """Return a shard that knows what the other one stored."""
    assert not shard.hosts.waiting
    for key, value in shard.unsaved(with_hosts=True).states().items():
        if value is None:
            stored.pop(key, None)
        else:
            stored[key] = value
    shard.confirm(with_hosts=True)
    found = compose.make_shard(config)
    found.restore(dict(stored), shard.now_ms, shard.hosts.state.now_ms)
    return found
