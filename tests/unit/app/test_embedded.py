"""The agent in one process: what readers see of sources, dead letters and settled runs."""

from agent.app.embedded import Embedded
from agent.config.tree import Config, Source
from processors.contracts.service import DeadLetterView
from tests.kit.clock import FakeClock

MINUTE_MS = 60_000
COMPLETED = (
    b'{"type": "job.completed", "system": "exa", "job_id": "%d", "start": "2026-11-20T09:%02d:00Z", '
    b'"end": "2026-11-20T09:%02d:30Z", "state": "COMPLETED", "application": "lammps", "n": 4, "unit": "nodes"}'
)


def test_runs_dead_letters_and_sources_are_seen_as_they_come() -> None:
    clock = FakeClock()
    agent = Embedded(Config(sources=(Source(topics=("jobs",), format="native"),)), clock)
    collector, producer = agent.collector(), agent.log.producer()
    collector.step(clock.now_ms(), 0.0)
    for number in range(3):
        producer.send("jobs", COMPLETED % (number, 50 + number, 50 + number), timestamp_ms=clock.now_ms())
    producer.send("jobs", b"no JSON at all", timestamp_ms=clock.now_ms())
    producer.flush(1.0)
    assert (list(agent.service.dead_letters()), list(agent.service.sources())) == ([], [])
    collector.step(clock.now_ms(), 0.0)
    agent.step()
    (dead_letter,) = agent.service.dead_letters()
    assert isinstance(dead_letter, DeadLetterView)
    assert (dead_letter.topic, dead_letter.offset, dead_letter.reason) == ("jobs", 3, "not-json")
    (source,) = agent.service.sources()
    assert (source.topic, source.events) == ("jobs", 3)
    agent.tick(clock.now_ms() + 10 * MINUTE_MS)
    agent.step()
    assert [run.job_id for run in agent.service.runs("exa/lammps//nodes")] == ["2", "1", "0"]
    assert agent.service.runs_of_job("exa", "1")[0].run_time_s == 30.0
    agent.close()
    assert len(agent.service.dead_letters()) == 1, "what was seen last"
