"""One shard on a real broker: a learner in this process, ticks for its journal, and what an operator does to its topics."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions
from kafka.errors import UnknownTopicOrPartitionError
from msgspec.structs import replace

from agent.app import compose
from agent.app.kafka import kafka_settings
from agent.app.roles import CollectorRole, LearnerRole
from agent.clock import SystemClock
from agent.config.load import loads
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.log.kafka.client import ClientName
from agent.log.kafka.log import KafkaLog
from processors.contracts.events import JournalEvent, JournalRecord, Tick, encode_record
from sinks.prometheus.registry import Metrics
from tests.kit.agent_process import until
from tests.kit.kafka_broker import KafkaBroker

START_MS = 1_700_000_000_000  # long ago, whatever the clock of this machine
SOON_S = 60.0  # nothing takes so long where it works


class KafkaShard:
    """The topics of one agent with one shard."""

    def __init__(
        self,
        broker: KafkaBroker,
        prefix: str,
        source: str = "raw",
        client: ClientName = "kafka-python",
        *,
        broker_time: bool = True,
        settings: str = "",
    ) -> None:
        self.config: Config = loads(
            f"kafka: {{bootstrap: '{broker.bootstrap}', client: {client}}}\ntopics: {{prefix: '{prefix}'}}\nsources: [{{topics: ['{source}']}}]\n{settings}"
        )
        self.journal, self.state = self.config.topics.journal, self.config.topics.state
        self.metrics: Metrics = compose.metrics()
        self._bootstrap = broker.bootstrap
        with self.log() as log:
            journal = replace(own_topics(self.config)[0], broker_time=broker_time)
            log.create([journal, *own_topics(self.config)])

    @contextmanager
    def log(self) -> Iterator[KafkaLog]:
        """Yield a log of its own, which knows nothing from before."""
        log = KafkaLog(kafka_settings(self.config))
        try:
            yield log
        finally:
            log.close()

    @contextmanager
    def learner(self) -> Iterator[LearnerRole]:
        """Yield a learner that owns the shard."""
        with self.log() as log:
            role = LearnerRole(self.config, log, self.metrics, SystemClock(), restarts=0)
            try:
                role.open()
                until(lambda: role.step() or role.service.health()[0].partitions, SOON_S, "a shard")
                yield role
            finally:
                role.close()

    def fold(self, role: LearnerRole) -> None:
        """Let the learner fold the whole journal."""
        with self.log() as log:
            end = log.bounds(self.journal, 0)[1]
        shard = role.service.learner.shards()[0]  # type: ignore[attr-defined] # the role's own service
        until(lambda: role.step() or shard.offset >= end, SOON_S, "the journal is folded")

    def live(self) -> None:
        """Let a learner fold the whole journal, checkpoint and leave."""
        with self.learner() as role:
            self.fold(role)
            role.finish()

    def ticks(self, *seconds: int, first_ms: int = START_MS) -> None:
        """Write ticks into the journal."""
        self.report(*(Tick("", time_ms=first_ms + second * 1000) for second in seconds))

    def report(self, *events: JournalEvent, producer_ms: int | None = None) -> None:
        """Write events into the journal, as a producer whose clock shows `producer_ms`."""
        with self.log() as log:
            producer = log.producer()
            for event in events:
                producer.send(self.journal, encode_record(JournalRecord(event)), None, 0, producer_ms)
            producer.flush(SOON_S)

    def write(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Write a record as somebody else would, past the agent."""
        with self.log() as log:
            producer = log.producer()
            producer.send(topic, value, key, 0)
            producer.flush(SOON_S)

    def committed(self, source: str) -> int | None:
        """Return the offset that the collectors have committed of a source; None before the first."""
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        offsets = admin.list_consumer_group_offsets(self.config.collector_group)
        admin.close()
        found = offsets.get(TopicPartition(source, 0))
        return None if found is None else found.offset

    def write_many(self, topic: str, count: int) -> None:
        """Write records that nobody can use."""
        with self.log() as log:
            producer = log.producer()
            for _ in range(count):
                producer.send(topic, b"not json", b"", 0)
            producer.flush(SOON_S)

    @staticmethod
    def owned(role: CollectorRole) -> bool:
        """Return whether a collector has been given the source."""
        collector = role._collector
        return collector is not None and bool(collector.assigned())

    def delete_before(self, topic: str, offset: int) -> None:
        """Delete the records before an offset, as retention does."""
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        admin.delete_records({TopicPartition(topic, 0): offset})
        admin.close()

    def recreate(self, topic: str) -> None:
        """Delete a topic and make it again, empty."""
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        admin.delete_topics([topic])
        wanted = [one for one in own_topics(self.config) if one.name == topic]

        def gone() -> bool:
            try:
                return bool(admin.describe_topics([topic])[0]["error_code"])
            except UnknownTopicOrPartitionError:
                return True

        until(gone, SOON_S, f"{topic} is deleted")
        admin.close()
        with self.log() as log:
            until(lambda: list(log.create(wanted)) == [topic], SOON_S, f"{topic} is made again")

    def add_partition(self, topic: str) -> None:
        """Add a second partition to a topic."""
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        admin.create_partitions({topic: NewPartitions(2)})
        admin.close()
