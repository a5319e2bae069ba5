"""The agent's own topics: their settings, their creation and checks, and the permissions that the agent needs."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from agent.config.tree import Config
from processors.contracts.errors import ConfigError
from processors.contracts.log import (
    IN_SYNC_MIN,
    RECORD_BYTES_MAX,
    REPLICAS_SAFE,
    Examined,
    FoundTopic,
    Log,
    TopicSettings,
    partitions_fault,
    transactional_ids,
)

Resource = Literal["topic", "group", "transactional-id", "cluster"]
RHYTHMS_MIN: Final = 2  # minimum retention of the journal, as a number of checkpoint intervals
BATCH_BYTES_MAX: Final = 1_048_588  # the default maximum batch size of Kafka brokers
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\[.-])")


class Right(msgspec.Struct, frozen=True):
    """Operations that the agent's user needs on a resource; with `prefixed`, on all resources whose name starts with `name`."""

    resource: Resource
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False
    purpose: str = ""

    def command(self, principal: str, bootstrap: str) -> str:
        """Return the command of Kafka's own tool that grants this right."""
        parts = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", principal]
        for operation in self.operations:
            parts += ["--operation", operation]
        parts += [f"--{self.resource}"] + ([] if self.resource == "cluster" else [self.name])
        return shlex.join(parts + (["--resource-pattern-type", "prefixed"] if self.prefixed else []))


def own_topics(config: Config) -> tuple[TopicSettings, ...]:
    """Return the settings of the agent's own topics.

    Journal and state have one partition for each shard. A topic is compacted if only the newest record of each key matters.
    """
    names = config.topics
    shards = names.journal_partitions
    return (
        TopicSettings(
            names.journal, shards, compacted=False, retention_ms=_ms(names.journal_retention_s), broker_time=True
        ),
        TopicSettings(names.state, shards, compacted=True),
        TopicSettings(names.predictions, 1, compacted=True),
        TopicSettings(names.job_predictions, 1, compacted=True),
        TopicSettings(names.answers, 1, compacted=False, retention_ms=_ms(names.answers_retention_s)),
        TopicSettings(names.alerts, 1, compacted=True),
        TopicSettings(names.runs, 1, compacted=True),
        *([TopicSettings(names.hosts, 1, compacted=True)] if config.hosts.publish_s else ()),
        TopicSettings(names.deadletters, 1, compacted=False, retention_ms=_ms(names.deadletters_retention_s)),
    )


def source_topics(config: Config, retention_ms: int | None = None) -> tuple[TopicSettings, ...]:
    """Return settings with one partition for each source topic in the configuration, except for patterns.

    Sites whose producers cannot create topics create them from these settings.
    """
    names = (topic for source in config.sources for topic in source.topics if not topic.startswith("^"))
    return tuple(TopicSettings(name, 1, compacted=False, retention_ms=retention_ms) for name in dict.fromkeys(names))


def create(log: Log, config: Config, *, sources: bool = False) -> Sequence[str]:
    """Create the agent's missing topics, with `sources` also the missing source topics; return the names of the created topics.

    Raise UnavailableError if the broker cannot be reached or refuses.
    """
    return log.create((*own_topics(config), *(source_topics(config) if sources else ())))


def faults(examined: Examined, config: Config) -> list[str]:
    """Return a sentence for each problem with a topic of the agent or of a source: missing, wrong setting, or missing permission.

    Missing source topics count as well, because the first producer of a new topic may lose its first records.
    """
    return [*own_faults(examined, config), *_source_faults(examined, config)]


def rights(config: Config) -> tuple[Right, ...]:
    names, sources = config.topics, [topic for source in config.sources for topic in source.topics]
    # the agent needs DescribeConfigs to report topics with wrong settings
    write, read_and_write = ("Write", "Describe", "DescribeConfigs"), ("Read", "Write", "Describe", "DescribeConfigs")
    topics = [
        (names.journal, read_and_write, "from the collector to the learner"),
        (names.state, read_and_write, "checkpoints"),
        (names.predictions, read_and_write, "written, and read back for readers"),
        (names.job_predictions, read_and_write, "written, and read back for readers"),
        (names.alerts, read_and_write, "written, and read back for readers"),
        (names.answers, write, "write the answers"),
        (names.runs, read_and_write, "settled runs, read for readers and by a rebuild"),
        *([(names.hosts, write, "hosts for subscribers")] if config.hosts.publish_s else []),
        (names.deadletters, read_and_write, "what could not be used"),
    ]
    writers = transactional_ids(names.state)
    return (
        *map(_source_right, sources),
        *(Right("topic", name, operations, purpose=purpose) for name, operations, purpose in topics),
        Right(
            "transactional-id",
            writers,
            ("Write", "Describe"),
            prefixed=True,
            purpose="one writer of each shard's state",
        ),
        Right("group", config.collector_group, ("Read", "Describe"), purpose="the collectors' group"),
        Right("group", config.learner_group, ("Read", "Describe"), purpose="the learners' group"),
        Right("cluster", "", ("IdempotentWrite",), purpose="writes without repeats, on brokers before 3.0"),
    )


def rights_to_create(config: Config) -> tuple[Right, ...]:
    """Return the rights that only `scalewatch topics --create` needs."""
    return tuple(Right("topic", topic.name, ("Create",), purpose="create topics") for topic in own_topics(config))


def literal_prefix(pattern: str) -> str:
    """Return the literal prefix of all topics that match a regular expression; empty if they have no common prefix."""
    if "|" in pattern:
        return ""
    position, prefix = 1, ""
    while examined := _LITERAL.match(pattern, position):
        prefix += examined.group()[-1]
        position = examined.end()
    optional = pattern[position : position + 1] in ("?", "*", "{")
    return prefix[:-1] if optional else prefix


def _source_right(topic: str) -> Right:
    is_pattern = topic.startswith("^")
    name = literal_prefix(topic) if is_pattern else topic
    return Right("topic", name or "*", ("Read", "Describe"), is_pattern and name != "", "read the events")


def check_shards(log: Log, config: Config) -> None:
    """Raise ConfigError if the journal or state topic has another number of partitions than configured.

    A missing topic is no error. Raise UnavailableError if the broker cannot be reached.
    """
    shards = config.topics.journal_partitions
    for topic in (config.topics.journal, config.topics.state):
        partitions = log.partitions(topic)
        if partitions not in (None, shards):
            raise ConfigError(partitions_fault(topic, partitions or 0, shards))


def examine(log: Log, config: Config) -> Examined:
    """Return the current settings of all named topics, and the rights on topics, groups and transactional ids.

    Raise UnavailableError without a broker.
    """
    topics = [topic.name for topic in (*own_topics(config), *source_topics(config))]
    writers = [f"{transactional_ids(config.topics.state)}{shard}" for shard in range(config.topics.journal_partitions)]
    return log.examine(topics, [config.collector_group, config.learner_group], writers)


def own_faults(examined: Examined, config: Config) -> Iterator[str]:
    """Yield a sentence for each problem with the agent's own topics, and for each permission that the agent lacks."""
    shards = (config.topics.journal, config.topics.state)
    for topic in own_topics(config):
        existing = examined.topics.get(topic.name)
        if existing is None:
            yield f"The topic {topic.name} does not exist; `scalewatch topics --create` makes it."
        elif existing.partitions:
            if topic.name in shards and existing.partitions != topic.partitions:
                yield partitions_fault(topic.name, existing.partitions, topic.partitions)
            yield from _copy_faults(topic.name, existing, config.topics.replication)
            yield from _setting_faults(topic, existing, config)
    yield from _right_faults(examined, config)


def _copy_faults(topic: str, examined: FoundTopic, replication: int) -> Iterator[str]:
    in_sync = int((examined.settings or {}).get("min.insync.replicas", "1"))
    if examined.replicas < replication:
        yield f"The topic {topic} has {examined.replicas} copies and topics.replication is {replication}."
    if in_sync > examined.replicas:
        yield f"Nothing can be written to {topic}: min.insync.replicas is {in_sync} and it has {examined.replicas} copies."
    elif in_sync < IN_SYNC_MIN <= REPLICAS_SAFE <= examined.replicas:
        yield _change(topic, "min.insync.replicas", str(in_sync), str(IN_SYNC_MIN), "what one broker holds can be lost")


def _setting_faults(topic: TopicSettings, examined: FoundTopic, config: Config) -> Iterator[str]:
    if examined.settings is None:
        return  # stop here, because a missing right is reported separately
    why = "its states and messages would be deleted" if topic.compacted else "records without a key would be refused"
    reasons = {"cleanup.policy": why, "message.timestamp.type": "a collector's wrong clock would stop time"}
    for name, wanted in topic.options().items():
        real = examined.settings.get(name, wanted)
        if name in reasons and real != wanted:
            yield _change(topic.name, name, real, wanted, reasons[name])
    if not topic.compacted:
        yield from _retention_faults(topic, examined.settings, config)
    bytes_max = int(examined.settings.get("max.message.bytes", RECORD_BYTES_MAX))
    if bytes_max < RECORD_BYTES_MAX:
        yield _change(
            topic.name, "max.message.bytes", str(bytes_max), str(BATCH_BYTES_MAX), "larger records would be refused"
        )


def _retention_faults(topic: TopicSettings, settings: Mapping[str, str], config: Config) -> Iterator[str]:
    real_ms, wanted_ms = int(settings.get("retention.ms", -1)), topic.retention_ms or 0
    if 0 <= real_ms < wanted_ms:
        why = "it is kept for less long than configured"
        rhythm_ms = _ms(max(config.learner.checkpoint_interval_s, config.learner.host_checkpoint_interval_s))
        if topic.name == config.topics.journal and real_ms < RHYTHMS_MIN * rhythm_ms:
            why = f"checkpoints are up to {rhythm_ms / 1000:g} s apart, so a restart would miss records"
        yield _change(topic.name, "retention.ms", str(real_ms), str(wanted_ms), why)
    if topic.name == config.topics.journal and int(settings.get("retention.bytes", -1)) >= 0:
        why = "how long it is kept would depend on how much is written"
        yield _change(topic.name, "retention.bytes", settings["retention.bytes"], "-1", why)


def _change(topic: str, setting: str, real: str, wanted: str, why: str) -> str:
    return (
        f"The topic {topic} has {setting}={real} and needs {wanted}: {why}. "
        f"`kafka-configs.sh --alter --topic {topic} --add-config {setting}={wanted}` sets it."
    )


def _right_faults(examined: Examined, config: Config) -> Iterator[str]:
    for right in rights(config):
        for name, allowed in _allowed(right, examined):
            missing = [operation for operation in right.operations if allowed is not None and operation not in allowed]
            if missing:
                yield (
                    f"The user may not {' and '.join(missing)} the {right.resource} {name} ({right.purpose}); "
                    "`scalewatch topics --acls` prints the commands that allow it."
                )


def _allowed(right: Right, examined: Examined) -> Iterator[tuple[str, frozenset[str] | None]]:
    """Yield each resource name that needs the right, and the operations allowed on it; None if the operations are unknown."""
    if right.resource == "topic" and not right.prefixed and right.name in examined.topics:
        yield right.name, examined.topics[right.name].operations
    elif right.resource == "group":
        yield right.name, examined.groups.get(right.name)
    elif right.resource == "transactional-id":
        yield from examined.transactional_ids.items()


def _source_faults(examined: Examined, config: Config) -> Iterator[str]:
    for topic in source_topics(config):
        if topic.name not in examined.topics:
            yield f"The topic {topic.name} does not exist; create it before its producer starts."


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
