"""The log: the broker functions that all roles need, as protocols. `agent.log.memory` and `agent.log.kafka.log` implement them.

Records are read in batches, without an object for each record. After an error in a write, its result is unknown: the records
may be in the log or not. The caller closes its client, returns to its last position and writes again. The identities of events
make repeated records harmless.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Protocol

import msgspec

from processors.contracts.errors import UnavailableError
from processors.contracts.events import Tick

SILENT_MS: Final = 120_000  # longer than a consumer group needs to reassign the partitions of a dead collector
COLLECTORS_MAX: Final = 256


class Hold(msgspec.Struct, frozen=True):
    """A collector's request that event time does not advance beyond `until_ms`; `clock_ms` was the newest clock at the request."""

    until_ms: int
    clock_ms: int


class Watermarks(msgspec.Struct, frozen=True):
    """The newest clock of all collectors, and by collector name the hold of each collector that lags behind its sources.

    A hold ends with the next tick of its collector, or after SILENT_MS: a collector without ticks for so long is considered
    dead, and its partitions are read by another collector. The struct is frozen, because a checkpoint keeps it while the fold
    continues.

    >>> marks = Watermarks().after(Tick("", 900_000, "a", 300_000)).after(Tick("", 901_000, "b"))
    >>> marks.now_ms, marks.after(Tick("", 902_000, "a")).now_ms
    (300000, 902000)
    """

    clock_ms: int = 0
    holds: dict[str, Hold] = {}

    @property
    def now_ms(self) -> int:
        """The present event time of the partition, in ms."""
        return min((self.clock_ms, *(hold.until_ms for hold in self.holds.values())))

    def after(self, tick: Tick) -> "Watermarks":
        clock_ms = max(self.clock_ms, tick.time_ms)
        if not self.holds and tick.until_ms is None:
            return Watermarks(clock_ms)
        holds = {
            name: hold
            for name, hold in self.holds.items()
            if name != tick.collector and clock_ms - hold.clock_ms < SILENT_MS
        }
        if tick.until_ms is not None and len(holds) < COLLECTORS_MAX:
            holds[tick.collector] = Hold(tick.until_ms, clock_ms)
        return Watermarks(clock_ms, holds)


# every log enforces these limits, so that code tested on one log works on every other log
RECORD_BYTES_MAX = 1_000_000  # by default a broker refuses batches over 1,048,588 bytes
RECORD_OVERHEAD_BYTES = 100  # generous: the other fields of a record need about 20 bytes
IN_SYNC_MIN: Final = 2  # replicas that acknowledge a write
REPLICAS_SAFE: Final = 3  # with three replicas, a write succeeds while one replica is away
MARKER_KEY = b"__marker__"
STATE_BYTES_MAX = 900_000  # by default a broker refuses batches over 1,048,588 bytes


def check_record(topic: str, value: bytes | None, key: bytes | None) -> int:
    """Return the size of a record in bytes. Raise ValueError if the record exceeds the limit of every broker.

    >>> check_record("raw", b"value", b"key")
    108
    """
    size_bytes = len(value or b"") + len(key or b"") + RECORD_OVERHEAD_BYTES
    if size_bytes > RECORD_BYTES_MAX:
        raise ValueError(f"A record of {size_bytes} bytes for {topic} is larger than a broker takes.")
    return size_bytes


TopicPartition = tuple[str, int]


class Batch(msgspec.Struct, frozen=True):
    """Consecutive records of one partition, as columns of equal length. `next_offset` is the offset to continue at."""

    topic: str
    partition: int
    next_offset: int
    offsets: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps_ms: Sequence[int]

    def part(self, begin: int, end: int) -> "Batch":
        """Return the records `begin` (inclusive) to `end` (exclusive)."""
        if not begin and end >= len(self.offsets):
            return self
        next_offset = self.offsets[end] if end < len(self.offsets) else self.next_offset
        part = slice(begin, end)
        columns = self.offsets[part], self.values[part], self.keys[part], self.timestamps_ms[part]
        return Batch(self.topic, self.partition, next_offset, *columns)


class Position(msgspec.Struct, frozen=True):
    """A committed position of a group, with the metadata of the commit."""

    offset: int
    metadata: str = ""


class Assignment(msgspec.Struct, frozen=True):
    """The partitions gained and lost since the previous poll."""

    gained: tuple[TopicPartition, ...] = ()
    lost: tuple[TopicPartition, ...] = ()


class Poll(msgspec.Struct, frozen=True):
    """The result of one poll. The caller must handle changes of the assignment before the batches."""

    assignment: Assignment
    batches: tuple[Batch, ...] = ()


class Consumer(Protocol):
    """A member of a consumer group on some topics. The consumer itself drops the offsets of lost partitions."""

    def poll(self, timeout_s: float) -> Poll:
        """Return the available records; wait at most `timeout_s` for the first one. Raise UnavailableError if the broker is away."""

    def assigned(self) -> frozenset[TopicPartition]:
        """Return the partitions this member owns now."""

    def committed(self, partition: TopicPartition) -> Position | None:
        """Return the committed position of the group in `partition`. Raise UnavailableError if the broker is away."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the position of an owned `partition`: the next poll returns records from `offset` on."""

    def beginning(self, partition: TopicPartition) -> int:
        """Return the offset of the oldest record of `partition` that is not deleted."""

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record of `partition` that is not part of an open transaction."""

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions. Raise UnavailableError if the broker is away, FencedError if another process has the name of this member.

        Raise RebalancingError if the group is being reassigned without this member; the next poll then returns the lost partitions.
        """

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop returning records of these partitions until `resume`."""

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Return records of `partitions` again after a `pause`."""

    def close(self) -> None:
        """Leave the group."""


FLUSH_TIMEOUT_S: Final = 30.0  # longest wait for acknowledgements; a role that waits longer restarts


class Producer(Protocol):
    """Writes records at least once. `send` only queues; `flush` returns when all records since the last flush are acknowledged."""

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Queue a record. Raise UnavailableError if the queue is full."""

    def flush(self, timeout_s: float) -> None:
        """Wait for all acknowledgements.

        Raise UnavailableError if acknowledgements are missing. The queued records may then be written or not, and the producer is unusable.
        """

    def close(self) -> None:
        """Discard queued records and free the connections."""


class HostPosition(msgspec.Struct, frozen=True):
    """The position of the saved host state: the next journal offset, the newest tick before it, and the watermarks at that moment."""

    offset: int
    now_ms: int
    watermarks: Watermarks = Watermarks()


class BytesLeft(msgspec.Struct, frozen=True):
    """The balance of an allowance in bytes, and the time in seconds, on the clock of the allowance, at which it was computed."""

    count: float
    at_s: float


class Marker(msgspec.Struct, frozen=True):
    """The last record of a checkpoint: the journal position up to which the states of the checkpoint include all events.

    `offset` is the offset of the next journal record to process, and `now_ms` the event time of the newest processed tick.
    `number` counts the checkpoints of the shard, and `count` the state records of this checkpoint. The state of hosts is saved
    less often: `hosts` is its position, None before its first save. `last_record` is the digest of the journal record before
    `offset`; if that record has another digest, the journal was replaced. `dead_letters` is the balance of the byte budget of
    dead letters, in event time. `watermarks` belong to `offset`.
    """

    offset: int
    number: int
    count: int
    agent_version: str
    config_hash: str
    journal_partitions: int
    now_ms: int = 0
    last_record: str | None = None
    watermarks: Watermarks = Watermarks()
    hosts: HostPosition | None = None
    dead_letters: BytesLeft | None = None


def record_digest(value: bytes | None) -> str:
    """Return a digest of the value of a record, as 16 hexadecimal digits.

    >>> record_digest(b"{}")
    '01e7b720ff566d53'
    """
    return blake2b(value or b"", digest_size=8).hexdigest()


class StateTotals(msgspec.Struct, frozen=True):
    """The number and the digest of all states after a checkpoint, stored beside the marker; old checkpoints lack both."""

    live_states: int | None = None
    live_digest: str | None = None


class LiveStates:
    """The digests of the states that a shard has stored, to detect a state that was lost or replaced outside of a checkpoint.

    The total digest is a sum over keys and values, so the order of writes does not change this digest.

    >>> found = LiveStates({"a": b"1", "b": b"2"})
    >>> found.change({"b": None, "c": b"3"})
    >>> found.totals() == LiveStates({"c": b"3", "a": b"1"}).totals()
    True
    """

    def __init__(self, states: Mapping[str, bytes] | None = None) -> None:
        self._digests: dict[str, int] = {}
        self._sum = 0
        self.change(states or {})

    def change(self, states: Mapping[str, bytes | None]) -> None:
        """Apply the states that a checkpoint writes; None removes a state."""
        for key, value in states.items():
            self._sum -= self._digests.pop(key, 0)
            if value is not None:
                digest = int.from_bytes(
                    blake2b(value, digest_size=16, key=blake2b(key.encode(), digest_size=32).digest()).digest(),
                    "little",
                )
                self._digests[key] = digest
                self._sum += digest

    def totals(self) -> StateTotals:
        return StateTotals(len(self._digests), f"{self._sum % DIGESTS:032x}")


DIGESTS: Final = 1 << 128


class Restored(msgspec.Struct, frozen=True):
    """The states that a take-over read, still encoded, and the last marker (None if the shard never had a checkpoint).

    `fault` tells how these states differ from the last checkpoint; None if they agree. States with a fault must not be used.
    """

    marker: Marker | None
    states: Mapping[str, bytes]
    fault: str | None = None


def checkpoint_records(
    states: Mapping[str, bytes | None], marker: Marker, live: LiveStates | None = None
) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of a checkpoint in write order, with the marker last.

    `live` is updated with the states, and its totals are written with the marker.

    Raise ValueError, naming the key, if a state is too large for a broker or has the key of the marker. Raise ValueError if
    the marker counts a different number of states.

    >>> [key for key, _ in checkpoint_records({"a": b"1"}, Marker(40, 3, 1, "1.0", "hash", 1))]
    [b'a', b'__marker__']
    """
    if marker.count != len(states):
        raise ValueError(f"The marker counts {marker.count} states, but there are {len(states)}.")
    records = [(key.encode(), value) for key, value in states.items()]
    for key, value in records:
        size_bytes = len(key) + len(value or b"")
        if key == MARKER_KEY:
            raise ValueError(f"The state key {MARKER_KEY.decode()} is the marker's own.")
        if size_bytes > STATE_BYTES_MAX:
            raise ValueError(f"The state {key.decode()} has {size_bytes} bytes; at most {STATE_BYTES_MAX} are allowed.")
    if live is not None:
        live.change(states)
    totals = StateTotals() if live is None else live.totals()
    stored = msgspec.to_builtins(marker) | msgspec.to_builtins(totals)
    return [*records, (MARKER_KEY, msgspec.json.encode(stored))]


class Restoration:
    """Collects the last value of each key of a compacted partition, and the last marker of a state partition.

    >>> restoration = Restoration()
    >>> restoration.add(Batch("state", 0, 2, [0, 1], [b"1", None], [b"a", b"b"], [0, 0]))
    >>> restoration.result()
    Restored(marker=None, states={'a': b'1'}, fault='it holds 1 states and no marker')
    """

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def add(self, batch: Batch) -> None:
        """Add the next records of the partition, in order; a value of None removes its key."""
        for key, value in zip(batch.keys, batch.values, strict=True):
            if key is not None and value is not None:
                self.values[key] = value
            elif key is not None:
                self.values.pop(key, None)

    def result(self) -> Restored:
        """Return the last marker, the states, and in `fault` how the states differ from the totals stored with the marker.

        `fault` is None if the states agree, if an old marker has no totals, or if the partition is empty; states without a marker
        are a fault. Raise UnavailableError if the marker is not readable.
        """
        states = {key.decode(): value for key, value in self.values.items() if key != MARKER_KEY}
        value = self.values.get(MARKER_KEY)
        if value is None:
            return Restored(None, states, f"it holds {len(states)} states and no marker" if states else None)
        try:
            marker, totals = msgspec.json.decode(value, type=Marker), msgspec.json.decode(value, type=StateTotals)
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"The marker of the last checkpoint cannot be read: {error}.") from error
        return Restored(marker, states, _difference(totals, LiveStates(states).totals()))


def _difference(expected: StateTotals, restored: StateTotals) -> str | None:
    if expected.live_states is None or expected == restored:
        return None
    if expected.live_states != restored.live_states:
        return f"it holds {restored.live_states} states where the last checkpoint left {expected.live_states}"
    return f"its {restored.live_states} states are not those that the last checkpoint left"


class CheckpointStore(Protocol):
    """Fenced checkpoints of one shard. After any error the store is unusable: close it and take over with a new store."""

    def take_over(self) -> Restored:
        """Fence all former owners, abort their open transaction, and read the states.

        Raise UnavailableError if the broker is away, or FencedError if another process took over meanwhile.
        """

    def save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        """Write states (None deletes a state) and the marker in one transaction, and confirm it by reading the marker back.

        Return only after the checkpoint is confirmed. Raise FencedError, CheckpointLostError or UnavailableError.
        """

    def close(self) -> None:
        """Free the connections within two seconds."""


class TopicSettings(msgspec.Struct, frozen=True):
    """The required settings of a topic. A `compacted` topic keeps the last record of each key.

    With `broker_time` the broker stamps each record with its own clock and ignores the time of the producer.
    """

    name: str
    partitions: int
    compacted: bool
    retention_ms: int | None = None
    broker_time: bool = False

    def options(self) -> Mapping[str, str]:
        """Return the broker settings of this topic that differ from the default.

        >>> TopicSettings("answers", 1, compacted=False, retention_ms=60_000).options()
        {'cleanup.policy': 'delete', 'retention.ms': '60000'}
        """
        options = {"cleanup.policy": "compact" if self.compacted else "delete"}
        if self.retention_ms is not None:
            options["retention.ms"] = str(self.retention_ms)
        if self.broker_time:
            options["message.timestamp.type"] = "LogAppendTime"
        return options


class FoundTopic(msgspec.Struct, frozen=True):
    """The actual settings of a topic: partitions, least number of replicas, and the operations that the user may perform.

    `settings` is None if the user may not read the settings, `operations` if the broker does not report permissions. A topic that
    the user may not see has no partitions.
    """

    partitions: int
    replicas: int
    settings: Mapping[str, str] | None
    operations: frozenset[str] | None


class Examined(msgspec.Struct, frozen=True):
    """The result of examining a cluster: the existing topics, and the permissions for groups and transactional ids.

    `groups` and `transactional_ids` list the operations that the user may perform, None if the broker does not report permissions.
    """

    topics: Mapping[str, FoundTopic]
    groups: Mapping[str, frozenset[str] | None]
    transactional_ids: Mapping[str, frozenset[str] | None]


def transactional_ids(state_topic: str) -> str:
    """Return the prefix of the transactional ids of all state writers; the shard number follows the prefix.

    >>> transactional_ids("scalewatch.state")
    'scalewatch.state-'
    """
    return f"{state_topic}-"


def partitions_fault(topic: str, found: int | str, wanted: int) -> str:
    """Return the message for a topic whose partition count `found` differs from the configured count `wanted`.

    >>> partitions_fault("scalewatch.journal", 2, 1)[:49]
    'The topic scalewatch.journal has 2 partitions and'
    """
    return (
        f"The topic {topic} has {found} partitions and topics.journal_partitions is {wanted}: systems would change their "
        "shards. If the setting was changed, set it back. If partitions were added, set other names for topics.journal "
        "and topics.state and run `scalewatch rebuild`."
    )


def topic_pattern(topics: Sequence[str]) -> re.Pattern[str]:
    """Return a regular expression that matches the full name of any of the topics; names with ``^`` are regular expressions.

    >>> bool(topic_pattern(["slurm.jobs", "^ldms[.].*"]).fullmatch("ldms.cpu"))
    True
    """
    return re.compile("|".join(f"(?:{name if name.startswith('^') else re.escape(name)})" for name in topics))


class Log(Protocol):
    """The topics of a broker, or of a substitute for a broker in memory."""

    def consumer(self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True) -> Consumer:
        """Return a new member of a group. Topics that start with ``^`` are regular expressions."""

    def producer(self) -> Producer:
        """Return a new idempotent producer that waits for all in-sync replicas."""

    def checkpoints(self, shard: int) -> CheckpointStore:
        """Return a new store for the checkpoints of a shard."""

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions; None if the topic does not exist. Raise UnavailableError if the broker is away."""

    def ends(self, topics: Sequence[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the end offsets of the partitions of each existing topic. Topics that start with ``^`` are regular expressions.

        Raise UnavailableError if the broker is away.
        """

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create the missing topics and return their names. Raise UnavailableError if the broker is away."""

    def examine(self, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]) -> Examined:
        """Return the settings of the topics, and the user's permissions. Raise UnavailableError if the broker is away."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first available offset and the end of a partition. Raise UnavailableError if the broker is away."""

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        """Read a partition from its beginning to its present end and return that end. Raise UnavailableError if the broker is away.

        With `newest`, read only the last `newest` offsets; gaps from compaction and transactions may leave fewer records.
        """

    def close(self) -> None:
        """Close all clients that this log created."""
