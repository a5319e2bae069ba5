"""The agent's own topics: how each has to be, making and checking them, and the rights that the agent needs."""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from agent.config.tree import Config
from processors.contracts.errors import ConfigError
from processors.contracts.log import Log, TopicSettings, partitions_fault

Resource = Literal["topic", "group", "transactional-id", "cluster"]
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\[.-])")


class Right(msgspec.Struct, frozen=True):
    """Operations that the agent's user needs on a resource; `prefixed` means all whose name starts so."""

    resource: Resource
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False
    purpose: str = ""

    def command(self, principal: str, bootstrap: str) -> str:
        """Return the command of Kafka's own tool that grants it."""
        parts = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", principal]
        for operation in self.operations:
            parts += ["--operation", operation]
        parts += [f"--{self.resource}"] + ([] if self.resource == "cluster" else [self.name])
        return shlex.join(parts + (["--resource-pattern-type", "prefixed"] if self.prefixed else []))


def own_topics(config: Config) -> tuple[TopicSettings, ...]:
    """Return how each of the agent's own topics has to be.

    The journal has a partition per shard and the state follows it. Where the last record of a key is all that counts,
    the topic is compacted.
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
        TopicSettings(names.deadletters, 1, compacted=False, retention_ms=_ms(names.deadletters_retention_s)),
    )


def source_topics(config: Config, retention_ms: int | None = None) -> tuple[TopicSettings, ...]:
    """Return the topics of sources that have a name, for centres whose producers make none: one partition each."""
    names = (topic for source in config.sources for topic in source.topics if not topic.startswith("^"))
    return tuple(TopicSettings(name, 1, compacted=False, retention_ms=retention_ms) for name in dict.fromkeys(names))


def create(log: Log, config: Config, *, sources: bool = False) -> Sequence[str]:
    """Create the missing ones of the agent's own topics, and of its sources if asked to; return their names. Raises UnavailableError."""
    return log.create((*own_topics(config), *(source_topics(config) if sources else ())))


def faults(log: Log, config: Config) -> list[str]:
    """Return a sentence for each topic that is missing or not as it has to be. Raises UnavailableError.

    Sources that do not exist are named too: a producer that is the first to write may lose its first records.
    """
    return [*_own_faults(log, config), *_source_faults(log, config)]


def rights(config: Config) -> tuple[Right, ...]:
    """Return every right that the agent's user needs to run, each with its purpose."""
    names = config.topics
    shown = (names.predictions, names.job_predictions, names.alerts)
    sources = [source for settings in config.sources for source in settings.topics]
    read, write = ("Read", "Describe"), ("Write", "Describe")
    return (
        *(Right("topic", *_pattern(topic), purpose="read the events") for topic in sources),
        Right("topic", names.journal, ("Read", "Write", "Describe"), purpose="from the collector to the learner"),
        Right("topic", names.state, ("Read", "Write", "Describe"), purpose="checkpoints"),
        Right("transactional-id", f"{names.state}-", write, prefixed=True, purpose="one writer of each shard's state"),
        *(Right("topic", name, (read[0], *write), purpose="written, and read back for readers") for name in shown),
        Right("topic", names.answers, write, purpose="write the answers"),
        Right(
            "topic",
            names.runs,
            ("Read", "Write", "Describe"),
            purpose="settled runs, read for readers and by a rebuild",
        ),
        Right("topic", names.deadletters, ("Read", "Write", "Describe"), purpose="what could not be used"),
        Right("group", config.collector.group, read, purpose="the collectors' group"),
        Right("group", config.learner.group, read, purpose="the learners' group"),
        Right("cluster", "", ("IdempotentWrite",), purpose="writes without repeats, on brokers before 3.0"),
    )


def rights_to_create(config: Config) -> tuple[Right, ...]:
    """Return the rights that only `scalewatch topics --create` needs."""
    return tuple(Right("topic", topic.name, ("Create",), purpose="create topics") for topic in own_topics(config))


def literal_prefix(pattern: str) -> str:
    r"""Return the text that every topic starts with that a regular expression matches; empty where there is none."""
    if "|" in pattern:
        return ""
    position, prefix = 1, ""
    while found := _LITERAL.match(pattern, position):
        prefix += found.group()[-1]
        position = found.end()
    optional = pattern[position : position + 1] in ("?", "*", "{")
    return prefix[:-1] if optional else prefix


def _pattern(topic: str) -> tuple[str, tuple[str, ...], bool]:
    operations = ("Read", "Describe")
    if not topic.startswith("^"):
        return topic, operations, False
    prefix = literal_prefix(topic)
    return (prefix, operations, True) if prefix else ("*", operations, False)


def check_shards(log: Log, config: Config) -> None:
    """Refuse a journal or a state with another number of partitions than the configuration: before anything is done.

    Raises ConfigError, or UnavailableError.
    """
    for fault in _shard_faults(log, config):
        raise ConfigError(fault)


def _own_faults(log: Log, config: Config) -> Iterator[str]:
    for topic in own_topics(config):
        if log.partitions(topic.name) is None:
            yield f"The topic {topic.name} does not exist; `scalewatch topics --create` makes it."
    yield from _shard_faults(log, config)


def _shard_faults(log: Log, config: Config) -> Iterator[str]:
    wanted = config.topics.journal_partitions
    for topic in (config.topics.journal, config.topics.state):
        found = log.partitions(topic)
        if found is not None and found != wanted:
            yield partitions_fault(topic, found, wanted)


def _source_faults(log: Log, config: Config) -> Iterator[str]:
    for source in config.sources:
        for topic in source.topics:
            if not topic.startswith("^") and log.partitions(topic) is None:
                yield f"The topic {topic} does not exist; create it before its producer starts."


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
