"""A learner that waits for its shard, and what readers see when it gets it."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import msgspec

from agent.app import compose
from agent.app.roles import STANDBY_S, CollectorRole, LearnerRole
from agent.config.roles import SchemaRegistrySettings
from agent.config.topics import own_topics
from agent.config.tree import Config, Source
from agent.log.memory import MemoryBroker, MemoryLog, MemoryProducer
from processors.contracts.events import (
    Evidence,
    JobCompleted,
    JournalEvent,
    JournalRecord,
    Tick,
    encode_record,
)
from processors.contracts.log import Batch, TopicSettings
from processors.contracts.outputs import Run
from tests.kit.clock import FakeClock
from tests.kit.messages import alert, prediction
from tests.kit.schema_registry import row

MINUTE_MS = 60_000


def test_a_learner_that_takes_over_shows_what_the_other_one_reported_while_it_waited() -> None:
    config, broker, clock = Config(), MemoryBroker(records_max=100_000), FakeClock()

    def learner(name: str) -> LearnerRole:
        log = MemoryLog(broker, state_topic=config.topics.state)
        role = LearnerRole(config, log, compose.metrics(), clock, restarts=0)
        role.name = name
        log.create(own_topics(config))
        role.open()
        role.step()
        return role

    first, second = learner("first"), learner("second")
    active, waiting = (first, second) if first.service.health()[0].partitions else (second, first)
    writer = MemoryLog(broker, state_topic=config.topics.state).producer()
    for number, n in enumerate((1, 2, 4, 8) * 2):
        at_ms = clock.now_ms() + number * 10 * MINUTE_MS
        evidence = Evidence(application="lammps", sizes={"nodes": float(n)})
        run = JobCompleted(
            "exa", f"{number}", f"exa/{number}", at_ms, at_ms + MINUTE_MS, 60.0 / n, "COMPLETED", evidence
        )
        _write(writer, config, run)
        _write(writer, config, Tick("", time_ms=at_ms + 5 * MINUTE_MS))
    writer.flush(1.0)
    active.step()
    assert [each.application for each in active.service.predictions()] == ["lammps"]
    assert not waiting.service.predictions()

    active.finish()
    active.close()
    while not waiting.service.health()[0].ready:
        waiting.step()
    assert [each.application for each in waiting.service.predictions()] == ["lammps"]
    assert [run.job_id for run in waiting.service.runs("exa/lammps//nodes")] == [*"76543210"]
    assert [run.n for run in waiting.service.runs_of_job("exa", "3")] == [8.0]


def test_a_learner_reports_others_of_its_own_shards_only_though_it_read_what_all_of_them_reported() -> None:
    config, clock = Config(), FakeClock()
    log = MemoryLog(MemoryBroker(), state_topic=config.topics.state)
    log.create(own_topics(config))
    producer = log.producer()
    producer.send(config.topics.predictions, msgspec.json.encode(prediction()), b"archer2/lammps/rhodo/nodes")
    producer.send(config.topics.alerts, msgspec.json.encode(alert(labels={"system": "archer2"})), b"f1")
    producer.flush(1.0)
    owner = log.consumer(config.learner_group, [config.topics.journal], member="0")
    assert owner.poll(0.0).assignment.gained
    role = LearnerRole(config, log, compose.metrics(), clock, restarts=0)
    role.open()
    role.step()
    clock.advance(STANDBY_S)
    role.step()
    assert (len(role.service.predictions()), len(role.service.alerts())) == (1, 1), "readers see what was true once"
    assert (role.own.predictions(), role.own.alerts()) == ([], []), "figures and notices come from the owner alone"
    producer.send(config.topics.alerts, None, b"f1")
    late = prediction(application="late")
    producer.send(config.topics.predictions, msgspec.json.encode(late), b"archer2/late/rhodo/nodes")
    producer.flush(1.0)
    role.follow()
    assert sorted(entry.application for entry in role.service.predictions()) == ["lammps", "late"]
    assert role.service.alerts() == [], "an alert that ended elsewhere ends here too"
    producer.send(config.topics.alerts, msgspec.json.encode(alert(labels={"system": "archer2"})), b"f1")
    producer.send(config.topics.predictions, None, b"archer2/late/rhodo/nodes")
    producer.flush(1.0)
    owner.close()
    _write(producer, config, Tick("", time_ms=clock.now_ms()))
    while not role.service.health()[0].ready:
        role.step()
    role.follow()
    assert (len(role.own.predictions()), len(role.own.alerts())) == (1, 1)


class CountedLog(MemoryLog):
    """Counts how often each topic is read."""

    def __init__(self, broker: MemoryBroker, state_topic: str) -> None:
        super().__init__(broker, state_topic=state_topic)
        self.reads: Counter[str] = Counter()

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        self.reads[topic] += 1
        return super().read(topic, partition, on_batch, newest=newest)


def test_a_start_reads_what_was_reported_once() -> None:
    config = Config()
    log = CountedLog(MemoryBroker(), config.topics.state)
    role = LearnerRole(config, log, compose.metrics(), FakeClock(), restarts=0)
    role.open()
    _write(log.producer(), config, Tick("", time_ms=FakeClock().now_ms()))
    while not role.service.health()[0].ready:
        role.step()
    role.step()
    names = config.topics
    assert log.reads == dict.fromkeys((names.predictions, names.job_predictions, names.alerts, names.runs), 1)


def test_a_learner_that_waits_for_long_shows_what_the_other_one_reported_so_far() -> None:
    config, broker, clock = Config(), MemoryBroker(records_max=100_000), FakeClock()
    log = MemoryLog(broker, state_topic=config.topics.state)
    log.create(own_topics(config))
    owner = log.consumer(config.learner_group, [config.topics.journal], member="0")
    assert owner.poll(0.0).assignment.gained
    run = Run(
        schema="scalewatch.run/1",
        id="exa/1@0",
        time="2026-11-20T10:00:00Z",
        as_of="2026-11-20T10:00:00Z",
        agent_version="0.1.0",
        run_id="exa/1@0",
        application_id=None,
        identified_by="none",
        confidence=0.0,
        n=None,
        run_time_s=9.0,
        state="FAILED",
        event=msgspec.Raw(msgspec.json.encode(JobCompleted("exa", "1", "exa/1@0", 0, 9000, 9.0, "FAILED", Evidence()))),
        identities=(),
    )
    producer = log.producer()
    producer.send(config.topics.runs, msgspec.json.encode(run), b"exa/1@0")
    producer.flush(1.0)
    role = LearnerRole(config, log, compose.metrics(), clock, restarts=0)
    role.open()
    role.step()
    assert role.service.runs_of_job("exa", "1") == []
    clock.advance(STANDBY_S)
    role.step()
    assert [run.state for run in role.service.runs_of_job("exa", "1")] == ["FAILED"]
    assert not role.service.health()[0].ready


def _write(writer: MemoryProducer, config: Config, event: JournalEvent) -> None:
    writer.send(config.topics.journal, encode_record(JournalRecord(event)), None, 0, 0)


def collecting(config: Config, log: MemoryLog, clock: FakeClock) -> CollectorRole:
    role = CollectorRole(config, log, compose.metrics(), clock, restarts=2)
    role.open()
    role.topics.look()
    return role


def test_a_learner_is_not_ready_before_the_first_tick_nor_minutes_behind_and_states_it() -> None:
    config, clock, log = Config(), FakeClock(), MemoryLog()
    role = LearnerRole(config, log, compose.metrics(), clock, restarts=0)
    role.open()
    role.step()
    role.step()
    (health,) = role.service.health()
    assert (health.ready, "no tick" in health.reasons[0]) == (False, True)
    _write(log.producer(), config, Tick("", time_ms=clock.now_ms()))
    role.step()
    assert role.service.health()[0].ready
    clock.advance(300.0)
    (health,) = role.service.health()
    assert (health.ready, health.reasons, health.working) == (False, ("It is 5 minutes behind.",), True)


def test_a_learner_shows_how_collectors_are_and_which_sources_never_spoke() -> None:
    config = Config(sources=(Source(topics=("slurm", "ldms"), format="native"),))
    clock, log = FakeClock(), MemoryLog()
    log.create([*own_topics(config), TopicSettings("slurm", 1, compacted=False)])
    writer = log.producer()
    writer.send("slurm", b"no JSON", None, 0, clock.now_ms())
    collector, learner = collecting(config, log, clock), LearnerRole(config, log, compose.metrics(), clock, restarts=0)
    learner.open()
    for _ in range(4):
        collector.step()
        learner.step()
        clock.advance(10.0)
    (report,) = learner.service.collectors()
    assert (report.restarts, report.dead_letters, report.lag_s) == (2, {"not-json": 1}, 0.0)
    found = {source.topic: (source.messages, source.heard_ms) for source in learner.service.sources()}
    assert found == {"slurm": (1, FakeClock().now_ms()), "ldms": (0, None)}


def test_a_collector_that_cannot_keep_up_is_not_ready() -> None:
    config = Config(sources=(Source(topics=("slurm",), format="native"),))
    clock, log = FakeClock(), MemoryLog()
    log.create([*own_topics(config), TopicSettings("slurm", 1, compacted=False)])
    writer = log.producer()
    for _ in range(20_000):
        writer.send("slurm", b"{}", None, 0, clock.now_ms() - 600_000)
    role = collecting(config, log, clock)
    for _ in range(5):
        role.step()
        clock.advance(10.0)
    assert role.service.health()[0].reasons == ("It is 11 minutes behind.",)
    for _ in range(10):
        role.step()
        clock.advance(1.0)
    assert role.service.health()[0].ready


class OneTry(FakeClock):
    """A clock in whose time a schema is asked for once."""

    def sleep(self, seconds: float, stop: threading.Event) -> bool:
        of_schemas = threading.current_thread().name == "schemas"
        return stop.wait(60.0) if of_schemas else super().sleep(seconds, stop)


def test_a_collector_whose_topic_waits_for_a_schema_is_behind_and_goes_on_elsewhere() -> None:
    avro = Source(topics=("avro",), format="ldms", encoding="avro", system="exa")
    unreachable = SchemaRegistrySettings(url="http://127.0.0.1:9")
    sources = (avro, Source(topics=("slurm",), format="native"))
    config = Config(sources=sources, schema_registry=unreachable)
    clock, log = OneTry(), MemoryLog()
    log.create([*own_topics(config), *(TopicSettings(name, 1, compacted=False) for name in ("avro", "slurm"))])
    writer = log.producer()
    writer.send("avro", row(clock.now_ms(), "nid1", 3.0), None, 0, clock.now_ms())
    with closing(collecting(config, log, clock)) as role:
        for _ in range(4):
            role.step()
            clock.advance(70.0)
        assert role.service.health()[0].reasons == ("It is 4 minutes behind.",)
        writer.send("slurm", b"no JSON", None, 0, clock.now_ms())
        role.step()
        role.step()
        assert role._collector is not None
        assert role._collector.dead_letters() == {"not-json": 1}
    assert not [thread for thread in threading.enumerate() if thread.name == "schemas"]
