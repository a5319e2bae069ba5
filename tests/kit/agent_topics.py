"""The topics of one configuration, from outside: what producers write, what came out, and what should have.

The journal is the truth: whatever the roles went through, their state and their messages have to be those of an
undisturbed fold of it.
"""

import json
from collections.abc import Iterable
from contextlib import closing
from typing import Any, Self

import msgspec
from kafka import KafkaConsumer, TopicPartition

from agent.app import compose
from agent.app.kafka import kafka_settings
from agent.config.tree import Config
from agent.log.kafka.checkpoint import SWEEP_KEY
from agent.log.kafka.consumer import KafkaReader
from agent.log.kafka.log import KafkaLog
from processors.contracts.events import JobCompleted, JournalEvent, decode_record
from processors.contracts.log import Batch, Marker, Restored, TopicSettings
from processors.contracts.outputs import Emission
from processors.pipeline.host_state import of_hosts
from processors.pipeline.shard import Shard

Records = list[tuple[str, bytes | None]]
WRITE_S = 90.0
MARKER = "__marker__"


class AgentTopics:
    """Sources to write to, and the agent's own topics to read; of those, partition 0."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.log = KafkaLog(kafka_settings(config))

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a source."""
        self.log.create([TopicSettings(topic, partitions, compacted=False)])

    def write(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        """Write messages and wait for their acknowledgement."""
        producer = self.log.producer()
        for value in values:
            producer.send(topic, value, None, partition)
        producer.flush(WRITE_S)
        producer.close()

    def read(self, topic: str) -> Records:
        """Return keys and values in order; nothing where the topic does not exist yet."""
        found: Records = []

        def take(batch: Batch) -> None:
            found.extend(((key or b"").decode(), value) for key, value in zip(batch.keys, batch.values, strict=True))

        if self.log.partitions(topic):
            self.log.read(topic, 0, take)
        return found

    def outputs(self) -> dict[str, Records]:
        """Return the records of all output topics by kind."""
        return {kind: self.read(topic) for kind, topic in compose.output_topics(self.config).items()}

    def messages(self, kind: str) -> list[dict[str, Any]]:
        """Return the messages of one kind of output, decoded, without the tombstones."""
        records = self.read(compose.output_topics(self.config)[kind])
        return [json.loads(value) for _, value in records if value is not None]

    def newest(self, kind: str) -> dict[str, bytes | None]:
        """Return the newest record of each key of one kind of output."""
        return dict(self.read(compose.output_topics(self.config)[kind]))

    def journal(self) -> list[bytes]:
        """Return the journal."""
        return [value for _, value in self.read(self.config.topics.journal) if value is not None]

    def marker(self) -> Marker | None:
        """Return the last marker, without taking the shard over."""
        markers = [value for key, value in self.read(self.config.topics.state) if key == MARKER and value is not None]
        return msgspec.json.decode(markers[-1], type=Marker) if markers else None

    def saved(self) -> bool:
        """Return whether the last checkpoint holds the whole journal."""
        marker = self.marker()
        return marker is not None and marker.offset == self.log.read(self.config.topics.journal, 0, lambda _: None)

    def committed(self, topic: str, partitions: int) -> bool:
        """Return whether the collectors have committed all of a source."""
        ends = sum(self.log.read(topic, number, lambda _: None) for number in range(partitions))
        group = self.config.collector_group
        consumer = KafkaConsumer(bootstrap_servers=self.config.kafka.bootstrap, group_id=group)
        try:
            return ends == sum(consumer.committed(TopicPartition(topic, number)) or 0 for number in range(partitions))
        finally:
            consumer.close(autocommit=False)

    def sweeps(self) -> int:
        """Return how often the shard was taken over: each time leaves a record of its own, which is aborted."""
        keys: list[bytes | None] = []
        settings = kafka_settings(self.config)
        with closing(KafkaReader(settings, self.config.topics.state, 0, committed=False)) as reader:
            reader.read(lambda batch: keys.extend(batch.keys))
        return keys.count(SWEEP_KEY)

    def take_over(self) -> Restored:
        """Return the last checkpoint; whoever owned the shard is fenced."""
        store = self.log.checkpoints(0)
        try:
            return store.take_over()
        finally:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()


def folded(config: Config, journal: Iterable[bytes]) -> tuple[Shard, list[Emission]]:
    """Fold a journal from its beginning without any trouble; return the fold and what it sends."""
    shard = compose.make_shard(config)
    emissions = [compose.encode(message) for value in journal for message in shard.fold(decode_record(value))]
    return shard, emissions


def states(shard: Shard) -> dict[str, bytes]:
    """Return every state of a fold that was never saved, hosts too."""
    everything = shard.unsaved(with_hosts=True).states()
    return {key: value for key, value in everything.items() if value is not None}


def host_states(shard: Shard) -> dict[str, bytes | None]:
    """Return every state of hosts that a checkpoint has to write, None where one is gone."""
    return {key: value for key, value in shard.unsaved(with_hosts=True).states().items() if of_hosts(key)}


def events(journal: Iterable[bytes]) -> list[JournalEvent]:
    """Return the events of a journal."""
    return [decode_record(value).event for value in journal]


def ended_runs(journal: Iterable[bytes]) -> set[str]:
    """Return the ids of all runs that a journal tells the end of."""
    return {event.run_id for event in events(journal) if isinstance(event, JobCompleted)}


def observations(shard: Shard) -> dict[str, int]:
    """Return how many runs each application's models have learned."""
    counted: dict[str, int] = {}
    for key in shard.state.models.keys():  # noqa: SIM118 - a store is no mapping
        model = shard.state.models.get(key)
        assert model is not None
        application = key.split("/")[1]
        counted[application] = counted.get(application, 0) + model.observations
    return counted
