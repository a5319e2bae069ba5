"""What a collector says of the topics of its sources."""

from agent.app import compose
from agent.app.lookout import TOPICS_MAX, SourceTopics
from agent.log.memory import MemoryLog
from processors.contracts.log import TopicSettings
from tests.kit.clock import FakeClock


def test_topics_beyond_the_bound_are_counted_and_make_no_configured_one_look_missing() -> None:
    log, metrics = MemoryLog(), compose.metrics()
    log.create([TopicSettings(f"ldms.{number:03}", 1, compacted=False) for number in range(TOPICS_MAX + 3)])
    log.create([TopicSettings("slurm", 1, compacted=False)])
    topics = SourceTopics(log, ["^ldms[.].*", "slurm", "power"], FakeClock(), metrics)
    topics.look()
    names = [report.topic for report in topics.latest()]
    assert len(names) == TOPICS_MAX
    assert {"power", "slurm"} < set(names), "those that the configuration names come first"
    assert "^ldms[.].*" not in names
    assert metrics.above_zero("scalewatch_bounds_hit_total") == {"source_topics_max": 5}
