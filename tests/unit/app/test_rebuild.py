"""A rebuild learns from settled runs what the agent that settled them knew."""

from typing import Any

import msgspec
import pytest

from agent.app import compose
from agent.cli.rebuild import rebuild
from agent.config.load import loads
from agent.config.tree import Config
from agent.log.memory import MemoryBroker, MemoryLog
from processors import __version__
from processors.contracts.events import JobProfile, JournalRecord, Tick
from processors.contracts.log import Marker, TopicSettings
from processors.contracts.names import LATEST_MS
from processors.pipeline.shard import Shard
from tests.kit.profiled_runs import START_MS, profiled_run
from tests.kit.scenario import Scenario


def a_fortnight() -> Scenario:
    """Return a centre whose jobs only XALT and their starts can name, days apart; one has not settled, one still runs."""
    centre = Scenario()
    for day in range(0, 14, 2):
        centre.at(f"{day}d 10:00").report_from("xalt", str(day), executable="/opt/lmp")
        centre.ran(str(day), None, 2 ** (day % 4), 600.0 + day, job_name="run7")
        centre.at(f"{day}d 11:00").starts(f"s{day}", "gromacs", nodes=4)
        centre.at(f"{day}d 12:00").ends(f"s{day}", application=None, sizes={}, nodes=None)
        centre.at(f"{day}d 12:30")
    centre.at("14d 10:00").starts("pending", "gromacs", nodes=4)
    centre.starts("running", "lmp", nodes=2)
    centre.at("14d 10:30").ends("pending", application=None, sizes={}, nodes=None)
    return centre.at("14d 10:31")


def rebuilt(centre: Scenario, config: Config) -> tuple[Shard, MemoryLog]:
    """Store a centre's state and settled runs in a log, rebuild, and return the shard that takes over."""
    topics = config.topics
    log = MemoryLog(MemoryBroker(), state_topic=topics.state)
    names = {topics.state: True, topics.journal: False, topics.runs: True, topics.predictions: True}
    log.create([TopicSettings(name=name, partitions=1, compacted=compacted) for name, compacted in names.items()])
    producer = log.producer()
    retained = {"runs": topics.runs, "predictions": topics.predictions}
    for sent in centre.sent:
        if sent.kind in retained:
            producer.send(retained[sent.kind], sent.value, sent.key.encode())
    for _ in range(7):
        producer.send(topics.journal, b"", None, 0)
    producer.flush(1.0)
    centre.checkpoint()
    store = log.checkpoints(0)
    store.take_over()
    store.save(centre.stored, Marker(7, 1, len(centre.stored), __version__, "hash", 1, centre.now_ms))
    store.close()
    rebuild(config, log, 0, lambda _: None, now_ms=LATEST_MS)
    taken = log.checkpoints(0).take_over()
    assert taken.marker is not None
    assert taken.marker.offset == 7
    shard = compose.make_shard(config)
    shard.restore(taken.states, taken.marker.now_ms)
    return shard, log


def runs_of(shard: Shard, application: str) -> list[tuple[str, float, float]]:
    model = shard.state.models.get(f"exa/{application}//nodes")
    return sorted((run.run_id, run.n, run.run_time_s) for run in model.snapshot().runs) if model else []


@pytest.mark.parametrize("application", ["lmp", "gromacs"])
def test_runs_are_named_by_the_evidence_that_was_settled_with_them(application: str) -> None:
    centre = a_fortnight()
    shard, _ = rebuilt(centre, Config())
    assert len(runs_of(shard, application)) >= 7
    assert runs_of(shard, application) == runs_of(centre.shard, application)
    assert list(shard.state.models.keys()) == list(centre.shard.state.models.keys())


def test_a_request_that_was_answered_and_is_read_again_has_no_second_answer() -> None:
    centre = a_fortnight()
    assert centre.asks("r1", 4, application="lmp")
    request = centre.events[-1]
    shard, _ = rebuilt(centre, Config())
    assert shard.fold(JournalRecord(event=request)) == []


def test_a_job_that_had_not_settled_and_one_that_runs_are_still_there() -> None:
    centre = a_fortnight()
    shard, _ = rebuilt(centre, Config())
    pending, running = shard.state.jobs.get("exa/pending"), shard.state.jobs.get("exa/running")
    assert pending is not None
    assert running is not None
    assert [run.placement.application_id for run in pending.ended] == ["exa/gromacs//nodes"]
    assert running.running is not None


def test_other_rules_name_the_same_runs_otherwise() -> None:
    text = "identify: {rules: [{match: {executable: lmp}, application: lammps}]}\n"
    centre = a_fortnight()
    shard, log = rebuilt(centre, loads(text, sources_required=False))
    assert len(runs_of(shard, "lammps")) == 7
    assert runs_of(shard, "lmp") == []
    last: dict[str, Any] = {}

    def take(batch: Any) -> None:
        last.update(zip((key.decode() for key in batch.keys), batch.values, strict=True))

    log.read(Config().topics.predictions, 0, take)
    assert last["exa/lmp//nodes"] is None
    assert msgspec.json.decode(last["exa/lammps//nodes"])["observations"] == 7


def test_profiles_of_settled_runs_and_of_one_that_has_not_settled_are_learned_again() -> None:
    centre = Scenario()
    for i in range(31):
        fact = profiled_run(i)
        centre.at_ms(START_MS + i * 600_000)
        event = centre.ran(f"r{i}", "lammps", fact.n, fact.run_time_s)
        centre.fold(JobProfile("exa", f"r{i}", event.run_id, fact.profile))
    centre.at_ms(centre.now_ms + 10_000)
    shard, _ = rebuilt(centre, Config())
    for each in (centre.shard, shard):
        moment_ms = max(centre.now_ms, shard.now_ms) + 20_000
        for time_ms in range(each.now_ms + 10_000, moment_ms + 600_000, 10_000):
            each.fold(JournalRecord(event=Tick(system="", time_ms=time_ms)))
    reported = [each.state.profile_models.open("exa/lammps//nodes") for each in (centre.shard, shard)]
    assert len(reported[0].snapshot().trainer["reservoir"]["ids"]) == 31
    powers = [models.power_w([2.0, 4.0]) for models in reported]
    assert powers[0][0] is not None
    assert powers[1] == powers[0]
