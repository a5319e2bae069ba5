"""Fenced checkpoints on Kafka.

Take-over: (a) make a transactional producer with the id of the shard, which ends and fences every former owner; (b) sweep,
that is, write and abort one transaction; (c) check that no transaction is open any more; (d) read the committed state back:
the last marker is the position. Save: (1) write states and marker in one transaction, and check every acknowledgement;
(2) commit within a deadline; (3) read the marker back. Every step is needed: the tests of checkpoints on a broker show
what fails without each of them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress

from agent.log.kafka.client import KafkaLogSettings, KeyValue, TransactionWriter, client_of, translated, within
from agent.log.kafka.consumer import KafkaReader
from processors.contracts.errors import CheckpointLostError, ScalewatchError, UnavailableError
from processors.contracts.log import (
    LiveStates,
    Marker,
    Restoration,
    Restored,
    checkpoint_records,
    transactional_ids,
)

SWEEP_KEY = b"__sweep__"
BYTES_PER_S_MIN = 20e6  # slowest write of a checkpoint; host states with 100,000 series take 280 MB
END_LOOKS_MAX = 20  # the abort marker is written shortly after the abort is acknowledged


class KafkaCheckpointStore:
    """Checkpoints of one shard in its own partition of the state topic.

    After any error the store has closed its clients and is unusable; take over with a new store.
    """

    def __init__(self, settings: KafkaLogSettings, shard: int) -> None:
        self._settings = settings
        self._client = client_of(settings)
        self._topic = settings.state_topic
        self._shard = shard
        self._owner = f"{transactional_ids(settings.state_topic)}{shard}"
        self._writer: TransactionWriter | None = None
        self._reader: KafkaReader | None = None
        self._live = LiveStates()
        self._death: str | None = None

    @property
    def closed(self) -> bool:
        return self._death is not None

    def take_over(self) -> Restored:
        """Fence every former owner, sweep its open transaction, and read the state back.

        Raise FencedError, or UnavailableError, which is also raised if a transaction of another producer stays open.
        """
        self._check_alive()
        with self._or_die("Taking over"):
            for _ in range(self._settings.take_overs_max):
                self._close()
                self._fence()
                self._sweep()
                if self._ends_agree():
                    return self._restore()
            raise UnavailableError(f"Another client keeps a transaction open in {self._topic}/{self._shard}.")

    def save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        """Write states and marker in one transaction, and confirm the commit by reading the marker back.

        Raise ValueError, before anything is written, if a state is too large or has a reserved key. Raise FencedError,
        CheckpointLostError or UnavailableError in other cases; the store is unusable afterwards.
        """
        self._check_alive()
        if self._reader is None:
            raise UnavailableError("A checkpoint can be saved only after the take-over.")
        records = checkpoint_records(states, marker, self._live)
        with self._or_die("Saving a checkpoint"):
            marker_offset = self._write(records)
            self._commit()
            self._confirm(marker_offset, records[-1][1])

    def close(self) -> None:
        """Close the connections; the next owner aborts an open transaction."""
        self._death = self._death or "The store is closed."
        self._close()

    def _fence(self) -> None:
        purpose = f"checkpoint-{self._shard}"
        self._writer = self._client.adapter.transaction_writer(self._settings, purpose, self._owner)
        self._deadline(self._writer.fence, "Fencing the former owner")

    def _sweep(self) -> None:
        """Write a record and abort its transaction, because the abort also ends a transaction that a former owner left open.

        A broker that was killed during a commit may leave the transaction in this partition open after its restart, although
        the former owner is fenced. Without the abort, the next commit would make the records of that transaction visible.
        """
        self._write([(SWEEP_KEY, None)])
        self._deadline(self._fencing().abort, "Aborting the sweep")

    def _ends_agree(self) -> bool:
        """Return whether no transaction is open: then the last committed record is also the last record of the partition."""
        with closing(self._reading(committed=True)) as committed, closing(self._reading(committed=False)) as everything:
            return any(committed.end() == everything.end() for _ in range(END_LOOKS_MAX))

    def _restore(self) -> Restored:
        self._reader = self._reading(committed=True)
        restoration = Restoration()
        self._reader.read(restoration.add)
        restored = restoration.result()
        self._live = LiveStates(restored.states)
        return restored

    def _write(self, records: list[KeyValue]) -> int:
        """Write records in a new transaction, wait for each acknowledgement, and return the offset of the last record."""
        size_bytes = sum(len(value or b"") for _, value in records)
        timeout_s = self._settings.checkpoint_timeout_s + size_bytes / BYTES_PER_S_MIN
        self._deadline(self._fencing().begin, "Beginning a transaction")
        return self._fencing().send(self._topic, self._shard, records, timeout_s, self._settings.stamp_ms())

    def _commit(self) -> None:
        self._deadline(self._fencing().commit, "Committing a checkpoint")

    def _confirm(self, marker_offset: int, marker: bytes | None) -> None:
        """Read the marker back, because a commit may return although the transaction was aborted."""
        if self._reader is None or self._reader.value_at(marker_offset) != (marker,):
            raise CheckpointLostError(
                f"The checkpoint at {self._topic}/{self._shard}/{marker_offset} is missing after its commit."
            )

    def _fencing(self) -> TransactionWriter:
        if self._writer is None:
            raise UnavailableError("A checkpoint can be written only after the take-over.")
        return self._writer

    def _deadline(self, call: Callable[[], object], doing: str) -> None:
        within(self._settings.checkpoint_timeout_s, call, doing)

    def _reading(self, *, committed: bool) -> KafkaReader:
        return KafkaReader(self._settings, self._topic, self._shard, committed=committed)

    def _check_alive(self) -> None:
        if self._death is not None:
            raise UnavailableError(f"The checkpoint store cannot be used any more. {self._death}")

    @contextmanager
    def _or_die(self, doing: str) -> Iterator[None]:
        try:
            with translated(self._client, doing):
                yield
        except ScalewatchError as error:
            self._death = str(error)
            self._close()
            raise

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        with suppress(Exception):  # a broken client may raise anything here
            if writer is not None:
                writer.give_up()
        with suppress(Exception):
            if reader is not None:
                reader.close()
