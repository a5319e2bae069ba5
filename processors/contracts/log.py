"""The log: everything the roles need from a broker, as protocols. `agent.log.memory` and `agent.log.kafka.log` implement it.

Batches, never an object per record. A failed write means "unknown", not "lost": whoever gets an error drops its client,
goes back to its last position and writes again; identities make the repeat a no-op.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Protocol

import msgspec

from processors.contracts.errors import UnavailableError
from processors.contracts.events import Tick

SILENT_MS: Final = 120_000  # longer than a group needs to give the partitions of a dead collector to another one
COLLECTORS_MAX: Final = 256


class Hold(msgspec.Struct, frozen=True):
    """A collector lets time pass until `until_ms`; `clock_ms` was the newest clock when it said so."""

    until_ms: int
    clock_ms: int


class Watermarks(msgspec.Struct, frozen=True):
    """The newest clock of all collectors, and the hold of each collector that is behind, by its name.

    A hold ends with the next tick of its collector, or SILENT_MS after it: that collector is dead, and another one reads its
    partitions. A frozen value: a checkpoint keeps it while the fold goes on.

    >>> marks = Watermarks().after(Tick("", 900_000, "a", 300_000)).after(Tick("", 901_000, "b"))
    >>> marks.now_ms, marks.after(Tick("", 902_000, "a")).now_ms
    (300000, 902000)
    """

    clock_ms: int = 0
    holds: dict[str, Hold] = {}

    @property
    def now_ms(self) -> int:
        """The present time of the partition."""
        return min((self.clock_ms, *(hold.until_ms for hold in self.holds.values())))

    def after(self, tick: Tick) -> "Watermarks":
        """Return the watermarks after the next tick."""
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


# limits that every log keeps, so that what works on one works on the other
RECORD_BYTES_MAX = 1_000_000  # a broker refuses batches over 1,048,588 bytes unless told otherwise
RECORD_OVERHEAD_BYTES = 100  # generous: a record's own fields are some 20 bytes
IN_SYNC_MIN: Final = 2  # copies that acknowledge a write
REPLICAS_SAFE: Final = 3  # from so many copies on one may be away while two acknowledge
MARKER_KEY = b"__marker__"
STATE_BYTES_MAX = 900_000  # brokers refuse batches over 1,048,588 bytes unless told otherwise


def check_record(topic: str, value: bytes | None, key: bytes | None) -> int:
    """Return the size of a record in bytes. Raise ValueError if every broker would reject the record.

    >>> check_record("raw", b"value", b"key")
    108
    """
    size_bytes = len(value or b"") + len(key or b"") + RECORD_OVERHEAD_BYTES
    if size_bytes > RECORD_BYTES_MAX:
        raise ValueError(f"A record of {size_bytes} bytes for {topic} is larger than a broker takes.")
    return size_bytes


TopicPartition = tuple[str, int]


class Batch(msgspec.Struct, frozen=True):
    """Consecutive records of one partition, as columns of equal length. `next_offset` is where to go on."""

    topic: str
    partition: int
    next_offset: int
    offsets: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps_ms: Sequence[int]


class Position(msgspec.Struct, frozen=True):
    """A committed position of a group, with the metadata that was committed along."""

    offset: int
    metadata: str = ""


class Assignment(msgspec.Struct, frozen=True):
    """What a poll found out about partitions: gained and lost since the last poll."""

    gained: tuple[TopicPartition, ...] = ()
    lost: tuple[TopicPartition, ...] = ()


class Poll(msgspec.Struct, frozen=True):
    """The result of one poll: changes of the assignment come first and are acted on before the batches."""

    assignment: Assignment
    batches: tuple[Batch, ...] = ()


class Consumer(Protocol):
    """A member of a group over some topics. Offsets of lost partitions are dropped by the consumer itself."""

    def poll(self, timeout_s: float) -> Poll:
        """Return the available records; wait at most `timeout_s` for the first one. Raise UnavailableError if the broker is away."""

    def assigned(self) -> frozenset[TopicPartition]:
        """Return the partitions this member owns now."""

    def committed(self, partition: TopicPartition) -> Position | None:
        """Return the group's committed position. Raises UnavailableError."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from an offset of an owned partition."""

    def beginning(self, partition: TopicPartition) -> int:
        """Return the first offset that was not deleted."""

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record (of the last stable offset)."""

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions. Raises UnavailableError, or FencedError where another process has this member's name.

        Raises RebalancingError where the group has changed without this member; the next poll says what it lost.
        """

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop returning records of these partitions until `resume`."""

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Return records of these partitions again."""

    def close(self) -> None:
        """Leave the group."""


FLUSH_TIMEOUT_S: Final = 30.0  # longest wait for acknowledgements; a role that waits longer restarts


class Producer(Protocol):
    """Writes at least once. `send` only queues; `flush` returns when every record since the last flush is acknowledged."""

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Queue a record. Raises UnavailableError when the queue is full."""

    def flush(self, timeout_s: float) -> None:
        """Wait for every acknowledgement. Raises UnavailableError: what was sent is then unknown, the producer dead."""

    def close(self) -> None:
        """Give up what is queued and free the connections."""


class Marker(msgspec.Struct, frozen=True):
    """The last record of a checkpoint: the position it stands for. The marker is the position.

    `offset` is the next journal offset to fold, `number` counts checkpoints of the shard, `count` the state records
    of this checkpoint, `now_ms` is the newest tick that was folded. What is learned of hosts is written more rarely: it
    stands for `hosts_offset` and `hosts_now_ms`, and has no state yet where that is None. `last_record` is the digest of
    the journal's record before `offset`: a journal with another one in its place is another journal. Of the bytes that dead
    letters may have, `deadletter_bytes_left` were left at `deadletter_at_s` of event time; older markers do not say.
    `watermarks` are those at `offset`, `hosts_watermarks` those at `hosts_offset`; older markers have none.
    """

    offset: int
    number: int
    count: int
    agent_version: str
    config_hash: str
    journal_partitions: int
    now_ms: int = 0
    hosts_offset: int | None = None
    hosts_now_ms: int = 0
    last_record: str | None = None
    deadletter_bytes_left: float | None = None
    deadletter_at_s: float = 0.0
    watermarks: Watermarks | None = None
    hosts_watermarks: Watermarks | None = None


def record_digest(value: bytes | None) -> str:
    """Return a digest of the value of a record, 16 hexadecimal digits.

    >>> record_digest(b"{}")
    '01e7b720ff566d53'
    """
    return blake2b(value or b"", digest_size=8).hexdigest()


class StateTotals(msgspec.Struct, frozen=True):
    """What a checkpoint leaves in all: how many states, and their digest. Stored beside the marker; older ones have none."""

    live_states: int | None = None
    live_digest: str | None = None


class LiveStates:
    """Follows which states a shard has stored, so that a state that is lost or replaced outside of a checkpoint shows.

    The digest is a sum over keys and values, which no order changes.

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
                digest = int.from_bytes(blake2b(value, digest_size=16, key=_digest_key(key)).digest(), "little")
                self._digests[key] = digest
                self._sum += digest

    def totals(self) -> StateTotals:
        """Return number and digest of the stored states."""
        return StateTotals(len(self._digests), f"{self._sum % DIGESTS:032x}")


DIGESTS: Final = 1 << 128


def _digest_key(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=32).digest()


class Restored(msgspec.Struct, frozen=True):
    """What a take-over found: the last marker (none at the very first start) and every state, still encoded.

    `fault` says in what these are not what the last checkpoint left; such states must not be used.
    """

    marker: Marker | None
    states: Mapping[str, bytes]
    fault: str | None = None


def checkpoint_records(
    states: Mapping[str, bytes | None], marker: Marker, live: LiveStates | None = None
) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of a checkpoint in write order, the marker last.

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
        _check(key, value)
    if live is not None:
        live.change(states)
    totals = StateTotals() if live is None else live.totals()
    stored = msgspec.to_builtins(marker) | msgspec.to_builtins(totals)
    return [*records, (MARKER_KEY, msgspec.json.encode(stored))]


def _check(key: bytes, value: bytes | None) -> None:
    if key == MARKER_KEY:
        raise ValueError(f"The state key {MARKER_KEY.decode()} is the marker's own.")
    size_bytes = len(key) + len(value or b"")
    if size_bytes > STATE_BYTES_MAX:
        raise ValueError(f"The state {key.decode()} has {size_bytes} bytes; at most {STATE_BYTES_MAX} are allowed.")


class Restoration:
    """Gathers what a compacted partition holds: the last value of each key, of a state partition also the last marker.

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
        """Return the last marker and the states, after comparing them. Raise UnavailableError if the marker is not readable."""
        states = {key.decode(): value for key, value in self.values.items() if key != MARKER_KEY}
        value = self.values.get(MARKER_KEY)
        if value is None:
            return Restored(None, states, f"it holds {len(states)} states and no marker" if states else None)
        try:
            marker, totals = msgspec.json.decode(value, type=Marker), msgspec.json.decode(value, type=StateTotals)
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"The marker of the last checkpoint cannot be read: {error}.") from error
        return Restored(marker, states, _difference(totals, LiveStates(states).totals()))


def _difference(expected: StateTotals, found: StateTotals) -> str | None:
    if expected.live_states is None or expected == found:
        return None
    if expected.live_states != found.live_states:
        return f"it holds {found.live_states} states where the last checkpoint left {expected.live_states}"
    return f"its {found.live_states} states are not those that the last checkpoint left"


class CheckpointStore(Protocol):
    """Fenced checkpoints of one shard. After any error the store is dead: close it and take over with a new one."""

    def take_over(self) -> Restored:
        """Fence every former owner, abort its open transaction, and read the states.

        Raise UnavailableError if the broker is away, or FencedError if another owner took over meanwhile.
        """

    def save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        """Write states (None removes one) and the marker in one transaction, and confirm by reading the marker back.

        Returns only when the checkpoint is surely there. Raises FencedError, CheckpointLostError, UnavailableError.
        """

    def close(self) -> None:
        """Free the connections; never blocks longer than a second or two."""


class TopicSettings(msgspec.Struct, frozen=True):
    """How a topic has to be: `compacted` keeps the last record of each key.

    With `broker_time` the time of a record is that at which the broker took it, whatever its producer says.
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
    """How a topic is: its partitions, the least number of copies, its settings, and what the user may do with it.

    `settings` are None where the user may not read them, `operations` where the broker does not say. A topic that the user
    may not even see has no partition.
    """

    partitions: int
    replicas: int
    settings: Mapping[str, str] | None
    operations: frozenset[str] | None


class Examined(msgspec.Struct, frozen=True):
    """What a look at the cluster found; a topic that is missing is not there.

    Of groups and of transactional ids: what the user may do, None where the broker does not say.
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
    """Return the instruction for a topic whose partition count differs from the configuration.

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
    """A broker, or what stands for one."""

    def consumer(self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True) -> Consumer:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""

    def producer(self) -> Producer:
        """Return a new producer (acks of all replicas, idempotent)."""

    def checkpoints(self, shard: int) -> CheckpointStore:
        """Return a new store for a shard's checkpoints."""

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, None where the topic does not exist. Raises UnavailableError."""

    def ends(self, topics: Sequence[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the ends of the partitions of each topic that is there; names with ``^`` are regular expressions.

        Raises UnavailableError.
        """

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create the topics that are missing; return their names. Raises UnavailableError."""

    def examine(self, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]) -> Examined:
        """Return the settings of the topics, and the user's permissions. Raise UnavailableError if the broker is away."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first remaining offset and the end of a partition. Raise UnavailableError if the broker is away."""

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        """Read a partition from its beginning to its present end; return that end. Raise UnavailableError if the broker is away.

        With `newest`, read only the last `newest` offsets; compaction and transactions leave gaps, so the records may be fewer.
        """

    def close(self) -> None:
        """Close all clients that this log created."""
