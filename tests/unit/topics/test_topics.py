"""The agent's own topics on a log, and the rights that running takes."""

import msgspec

from agent.config.load import loads
from agent.config.topics import (
    create,
    examine,
    faults,
    literal_prefix,
    own_faults,
    own_topics,
    rights,
    rights_to_create,
)
from agent.log.memory import MemoryLog
from processors.contracts.log import FoundTopic, TopicSettings
from tests.kit.cases import each

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
    assert len(faults(examine(log, SHARDED), SHARDED)) == 9
    assert len(create(log, SHARDED)) == 8
    assert list(create(log, SHARDED)) == []
    assert faults(examine(log, SHARDED), SHARDED) == [
        "The topic slurm.jobs does not exist; create it before its producer starts."
    ]


def test_a_journal_with_another_number_of_partitions_is_refused_naming_the_command() -> None:
    log = MemoryLog()
    log.create([TopicSettings("hpc.journal", 2, compacted=False)])
    create(log, SHARDED)
    (fault, _) = faults(examine(log, SHARDED), SHARDED)
    assert fault.startswith("The topic hpc.journal has 2 partitions and topics.journal_partitions is 3")
    assert "scalewatch rebuild" in fault


def test_the_rights_cover_every_topic_group_and_the_writer_of_the_state() -> None:
    granted = rights(SHARDED)
    topics = {right.name for right in granted if right.resource == "topic"}
    assert {topic.name for topic in own_topics(SHARDED)} | {"slurm.jobs", "ldms"} == topics
    assert {right.name for right in granted if right.resource == "group"} == {
        "hpc-collector",
        "hpc-learner",
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


@each(
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


GOOD = {
    "cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1", "min.insync.replicas": "1",
    "message.timestamp.type": "LogAppendTime", "max.message.bytes": "1048588",
}  # fmt: skip


def journal_faults(replicas: int = 1, operations: frozenset[str] | None = None, **settings: str) -> list[str]:
    """Return what is wrong with a journal whose settings differ from good ones; a full stop is written as two underscores."""
    changed = {name.replace("__", "."): value for name, value in settings.items()}
    log = MemoryLog()
    create(log, SHARDED)
    found = examine(log, SHARDED)
    journal = FoundTopic(3, replicas, GOOD | changed, operations)
    return list(own_faults(msgspec.structs.replace(found, topics={**found.topics, "hpc.journal": journal}), SHARDED))


def test_a_good_journal_has_no_fault_nor_one_that_is_kept_for_longer() -> None:
    assert journal_faults() == []
    assert journal_faults(retention__ms="-1") == []
    assert journal_faults(3, min__insync__replicas="2") == []


@each(
    ("settings", "replicas", "fault"),
    [
        (
            {"cleanup__policy": "compact"},
            1,
            "has cleanup.policy=compact and needs delete: records without a key would be",
        ),
        (
            {"retention__ms": "60000"},
            1,
            "has retention.ms=60000 and needs 604800000: checkpoints are up to 600 s apart",
        ),
        ({"retention__ms": "86400000"}, 1, "has retention.ms=86400000 and needs 604800000: it is kept for less long"),
        ({"retention__bytes": "1000"}, 1, "has retention.bytes=1000 and needs -1"),
        (
            {"message__timestamp__type": "CreateTime"},
            1,
            "has message.timestamp.type=CreateTime and needs LogAppendTime",
        ),
        ({"max__message__bytes": "5000"}, 1, "has max.message.bytes=5000 and needs 1048588"),
        ({}, 3, "has min.insync.replicas=1 and needs 2: what one broker holds can be lost"),
        (
            {"min__insync__replicas": "2"},
            1,
            "Nothing can be written to hpc.journal: min.insync.replicas is 2 and it has 1",
        ),
    ],
)
def test_a_setting_that_can_lose_something_is_named_with_its_remedy(
    settings: dict[str, str], replicas: int, fault: str
) -> None:
    (found,) = journal_faults(replicas, None, **settings)
    assert fault in found
    assert "kafka-configs.sh --alter --topic hpc.journal --add-config" in found or "copies" in found


def test_a_right_that_is_missing_is_named_with_what_it_is_for() -> None:
    (fault,) = journal_faults(operations=frozenset({"Read", "Describe", "DescribeConfigs"}))
    assert fault.startswith("The user may not Write the topic hpc.journal (from the collector to the learner)")
