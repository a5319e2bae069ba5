"""What a client library has to do for the log, as protocols: `kafka.python` and `kafka.confluent` implement them.

What is decided stands beside this file, once: which errors are ours, deadlines, the steps of a checkpoint, what a
rebalance takes away. Here a client only adapts: it raises what its library raises, and `Client.fault` says what it means.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from agent.log.kafka.settings import KafkaSettings
from processors.contracts.log import Batch, FoundTopic, Position, TopicPartition


class Meaning(Enum):
    """What an error of a client means to us."""

    FENCED = auto()
    """Another process has this name."""
    REBALANCED = auto()
    """The group has gone on, or goes on, without this member."""
    FORBIDDEN = auto()
    """The user has no right to it."""
    UNREACHABLE = auto()
    """No broker can be talked to."""
    OTHER = auto()


class Fault(NamedTuple):
    """An error of a client: its meaning, its text, and what the user may not use: kind of resource and names."""

    meaning: Meaning
    reason: str
    resource: str = "this"
    names: tuple[str, ...] = ()


class NotQueuedError(Exception):
    """Nothing was queued, and the producer is as it was: the cause says why."""


class RecordWriter(Protocol):
    """An idempotent producer: acks of all replicas. After an error it is given up."""

    def offer(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None
    ) -> bool:
        """Queue a record; False where the queue is full. Raises NotQueuedError where the topic cannot be found."""

    def settle(self, timeout_s: float) -> bool:
        """Take in what was acknowledged, and wait for one where none was; False at the deadline. Raises for what failed."""

    def unacknowledged(self) -> int:
        """Return how many records are queued or under way."""

    def flush(self, timeout_s: float) -> None:
        """Wait for every acknowledgement. Raises for what failed, and at the deadline."""

    def give_up(self) -> None:
        """Free everything within about a second, and write nothing more of what is queued."""


class TransactionWriter(Protocol):
    """A transactional producer. Every call but `send` and `give_up` may hang, whatever its deadline."""

    def fence(self) -> None:
        """End and fence every former producer of this name."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(
        self,
        topic: str,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        timeout_s: float,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write keys and values, wait for each acknowledgement, and return the offset of the last. Raises for what failed."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def give_up(self) -> None:
        """Free everything within about a second, and write nothing more of what is queued."""


class GroupMember(Protocol):
    """A member of a group that commits nothing by itself.

    At a rebalance it gives all partitions up, and it reads none of the new ones before `start`.
    """

    def poll(self, timeout_s: float) -> Sequence[Batch]:
        """Return what is there, waiting at most so long for the first record."""

    def rebalancing(self) -> bool:
        """Return whether the group shares its partitions out, and this member has given its own up."""

    def assignment(self) -> frozenset[TopicPartition] | None:
        """Return what a rebalance gave, once after it; None while there was none."""

    def generation(self) -> int | None:
        """Return the number of the group's generation; None where it cannot be told, or where partitions were lost."""

    def start(self, offsets: Mapping[TopicPartition, int | None], paused: Iterable[TopicPartition]) -> None:
        """Read all assigned partitions on from these offsets; None: from where the client is, or what is committed."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records again."""

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset to read, past what transactions hide; None where it is not known yet."""

    def committed(self, partition: TopicPartition) -> Position | None:
        """Return the group's committed position."""

    def beginning(self, partition: TopicPartition) -> int:
        """Return the first offset that is still there."""

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record that is committed."""

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions."""

    def close(self) -> None:
        """Leave the group, within a second or two whatever the broker does."""


class PartitionReader(Protocol):
    """Reads one partition by hand."""

    def beginning(self) -> int:
        """Return the first offset that is still there."""

    def end(self) -> int:
        """Return the offset after the last record that this reader may see."""

    def seek(self, offset: int) -> None:
        """Read on from an offset."""

    def position(self) -> int:
        """Return the next offset to read, past what transactions hide."""

    def poll(self, timeout_s: float) -> Batch | None:
        """Return the next records; None where none came in time."""

    def close(self) -> None:
        """Free the connections."""


class ClusterAdmin(Protocol):
    """Asks a cluster about its topics, and makes some."""

    def topics(self) -> Sequence[str]:
        """Return the names of all topics that the user may see."""

    def describe(self, topics: Sequence[str]) -> Mapping[str, FoundTopic]:
        """Return how topics are, without their settings; those that are missing are left out.

        Of one that the user may not even see: no partition, no operation.
        """

    def settings(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of the topics that the user may read them of."""

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset after the last record of partitions that is committed."""

    def group_operations(self, group: str) -> frozenset[str] | None:
        """Return what the user may do with a group; None where the broker does not say."""

    def transactional_operations(self, names: Sequence[str]) -> Mapping[str, frozenset[str] | None]:
        """Return what the user may do with transactional ids; None where that cannot be told without fencing their owners."""

    def brokers(self) -> int:
        """Return how many brokers serve."""

    def create(self, topic: str, partitions: int, replicas: int, options: Mapping[str, str]) -> bool:
        """Create a topic; False where somebody else was faster."""

    def close(self) -> None:
        """Free the connections."""


class Client(Protocol):
    """One client library, with the settings of a cluster. Whatever it makes is connected when it is made or first used."""

    settings: KafkaSettings
    reads_metadata_exactly: bool
    """Whether the metadata of a committed position ends where it was written to end."""

    def fault(self, error: BaseException) -> Fault:
        """Return what an error of this library means."""

    def named_brokers(self, timeout_s: float) -> int:
        """Return how many brokers the cluster names when it is asked who it is; it may be none for a moment."""

    def record_writer(self) -> RecordWriter:
        """Return a new producer."""

    def transaction_writer(self, purpose: str, transactional_id: str) -> TransactionWriter:
        """Return a new transactional producer, which has fenced nobody yet."""

    def group_member(self, group: str, topics: Sequence[str], member: str, *, from_beginning: bool) -> GroupMember:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""

    def partition_reader(self, topic: str, partition: int, *, committed: bool) -> PartitionReader:
        """Return a reader; with `committed` off it also sees what open and aborted transactions wrote."""

    def cluster_admin(self) -> ClusterAdmin:
        """Return what asks the cluster."""
