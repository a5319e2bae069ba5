"""A learner that waits for its shard, and what readers see when it gets it."""

from agent.app import compose
from agent.app.roles import LearnerRole
from agent.config.tree import Config
from agent.contracts.events import Evidence, JobCompleted, JournalEvent, JournalRecord, Tick, encode_record
from agent.log.memory import MemoryLog
from agent.log.memory_broker import MemoryBroker
from agent.log.memory_producer import MemoryProducer
from agent.topics import own_topics
from tests.kit.clock import FakeClock

MINUTE_MS = 60_000


def test_a_learner_that_takes_over_shows_what_the_other_one_told_while_it_waited() -> None:
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
    active, waiting = (first, second) if first.service.health()[0].ready else (second, first)
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
    assert waiting.service.predictions() == []

    active.finish()
    active.close()
    while not waiting.service.health()[0].ready:
        waiting.step()
    assert [each.application for each in waiting.service.predictions()] == ["lammps"]


def _write(writer: MemoryProducer, config: Config, event: JournalEvent) -> None:
    writer.send(config.topics.journal, encode_record(JournalRecord(event)), None, 0, 0)
