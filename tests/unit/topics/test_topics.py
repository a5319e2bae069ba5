"""The agent's own topics on a log, and the rights that running takes."""

import pytest

from agent.config.load import loads
from agent.log.memory import MemoryLog
from agent.topics import (
    create,
    faults,
    literal_prefix,
    own_topics,
    rights,
    rights_to_create,
)
from processors.contracts.log import TopicSettings

SHARDED = loads("topics: {prefix: hpc, journal_partitions: 3}\nsources: [{topics: [slurm.jobs, '^ldms.*']}]")


def test_the_journal_and_the_state_have_a_partition_for_each_shard() -> None:
    partitions = {topic.name: topic.partitions for topic in own_topics(SHARDED)}
    assert partitions["hpc.journal"] == partitions["hpc.state"] == 3
    assert partitions["hpc.predictions"] == 1


def test_topics_whose_last_record_per_key_counts_are_compacted_and_the_others_expire() -> None:
    for topic in own_topics(SHARDED):
        assert topic.compacted == (topic.retention_ms is None)
    assert {topic.name for topic in own_topics(SHARDED) if topic.compacted} == {
        "hpc.state", "hpc.predictions", "hpc.job-predictions", "hpc.alerts", "hpc.runs",
    }  # fmt: skip


def test_missing_topics_are_named_then_made_once() -> None:
    log = MemoryLog()
    assert len(faults(log, SHARDED)) == 9
    assert len(create(log, SHARDED)) == 8
    assert list(create(log, SHARDED)) == []
    assert faults(log, SHARDED) == ["The topic slurm.jobs does not exist; create it before its producer starts."]


def test_a_journal_with_another_number_of_partitions_is_refused_naming_the_command() -> None:
    log = MemoryLog()
    log.create([TopicSettings("hpc.journal", 2, compacted=False)])
    create(log, SHARDED)
    (fault, _) = faults(log, SHARDED)
    assert fault.startswith("The topic hpc.journal has 2 partitions and topics.journal_partitions is 3")
    assert "scalewatch rebuild" in fault


def test_the_rights_cover_every_topic_group_and_the_writer_of_the_state() -> None:
    granted = rights(SHARDED)
    topics = {right.name for right in granted if right.resource == "topic"}
    assert {topic.name for topic in own_topics(SHARDED)} | {"slurm.jobs", "ldms"} == topics
    assert {right.name for right in granted if right.resource == "group"} == {
        "scalewatch-collector",
        "scalewatch-learner",
    }
    (writer,) = [right for right in granted if right.resource == "transactional-id"]
    assert writer.prefixed
    assert writer.name == "hpc.state-"


def test_sources_are_read_and_never_written() -> None:
    for right in rights(SHARDED):
        if right.name in ("slurm.jobs", "ldms"):
            assert right.operations == ("Read", "Describe")


def test_what_a_learner_shows_to_readers_it_may_read_back() -> None:
    may_read = {right.name for right in rights(SHARDED) if "Read" in right.operations}
    names = SHARDED.topics
    assert {names.predictions, names.job_predictions, names.alerts, names.runs, names.deadletters} <= may_read


def test_rights_are_reported_as_commands_of_kafkas_own_tool() -> None:
    (ldms,) = [right for right in rights(SHARDED) if right.name == "ldms"]
    assert ldms.command("User:agent", "kafka:9092") == (
        "kafka-acls.sh --bootstrap-server kafka:9092 --add --allow-principal User:agent --operation Read "
        "--operation Describe --topic ldms --resource-pattern-type prefixed"
    )
    assert all(right.operations == ("Create",) for right in rights_to_create(SHARDED))


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        (r"^slurm\.jobs.*", "slurm.jobs"),
        ("^slurm.jobs", "slurm"),
        ("^abc*", "ab"),
        ("^abc+", "abc"),
        ("^abc{0,3}", "ab"),
        ("^a|b", ""),
        ("^.*", ""),
        ("^[ab]", ""),
        ("^(ab)?c", ""),
        ("^abc$", "abc"),
    ],
)  # fmt: skip
def test_the_prefix_of_a_pattern_is_what_all_its_topics_start_with(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix
