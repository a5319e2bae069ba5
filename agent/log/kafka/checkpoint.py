"""The fenced checkpoint on Kafka.

Take-over: (a) a transactional producer of the shard's own name, which ends and fences every former owner; (b) the
sweep; (c) no transaction is open any more; (d) read the committed state back, the last marker is the position.
Save: (1) states and marker in one transaction, every acknowledgement checked, (2) commit within a deadline, (3) read
the marker back. None of these steps can be left out: the tests of checkpoints on a broker show for each of them what
goes wrong without it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from agent.log.kafka.client import KafkaSettings, TransactionWriter, client_of, translated, within
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
BYTES_PER_S_MIN = 20e6  # of a checkpoint; what is learned of 100,000 series has 280 MB
END_LOOKS_MAX = 20  # the end of an aborted transaction is written a little after the abort is acknowledged


class KafkaCheckpointStore:
    """Checkpoints of one shard in its partition of the state topic, where nobody else writes.

    After any error the store is dead and has let go of everything; take over with a new one.
    """

    def __init__(self, settings: KafkaSettings, shard: int) -> None:
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
        """Return whether it was closed, or died of an error."""
        return self._death is not None

    def take_over(self) -> Restored:
        """Fence every former owner, sweep what it left open, and read the state back.

        Raises UnavailableError, also when another transaction stays open, or FencedError.
        """
        self._check_alive()
        with self._or_die("Taking over"):
            for _ in range(self._settings.take_overs_max):
                self._close()
                self._fence()
                self._sweep()
                if self._ends_agree():
                    return self._restore()
            raise UnavailableError(f"A transaction of somebody else stays open in {self._topic}/{self._shard}.")

    def save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        """Write states and marker in one transaction and confirm by reading the marker back.

        Raises ValueError where a state can never be written; then nothing has happened. Raises FencedError,
        CheckpointLostError or UnavailableError otherwise; then the store is dead.
        """
        self._check_alive()
        if self._reader is None:
            raise UnavailableError("Nothing can be saved before the take-over.")
        records = checkpoint_records(states, marker, self._live)
        with self._or_die("Saving a checkpoint"):
            marker_offset = self._write(records)
            self._commit()
            self._confirm(marker_offset, records[-1][1])

    def close(self) -> None:
        """Free the connections; what is not committed will be aborted by the next owner."""
        self._death = self._death or "It is closed."
        self._close()

    def _fence(self) -> None:
        self._writer = self._client.transaction_writer(f"checkpoint-{self._shard}", self._owner)
        self._deadline(self._writer.fence, "Fencing the former owner")

    def _sweep(self) -> None:
        """Abort once, so that records which a former transaction left open can never be committed by ours.

        A broker that is killed within a commit may forget, at its restart, to end the transaction in this partition.
        Its records then stay open behind the fencing, and our next commit would make them visible.
        """
        self._write([(SWEEP_KEY, None)])
        self._deadline(self._fencing().abort, "Aborting the sweep")

    def _ends_agree(self) -> bool:
        """Return whether nothing is open: else what is committed may be hidden behind it."""
        with self._reading(committed=True) as committed, self._reading(committed=False) as everything:
            return any(committed.end() == everything.end() for _ in range(END_LOOKS_MAX))

    def _restore(self) -> Restored:
        self._reader = self._reading(committed=True)
        restoration = Restoration()
        self._reader.read(restoration.add)
        restored = restoration.result()
        self._live = LiveStates(restored.states)
        return restored

    def _write(self, records: list[tuple[bytes, bytes | None]]) -> int:
        """Write records in a new transaction, wait for each acknowledgement, and return the offset of the last."""
        size_bytes = sum(len(value or b"") for _, value in records)
        timeout_s = self._settings.checkpoint_timeout_s + size_bytes / BYTES_PER_S_MIN
        self._deadline(self._fencing().begin, "Beginning a transaction")
        return self._fencing().send(self._topic, self._shard, records, timeout_s, self._settings.stamp_ms())

    def _commit(self) -> None:
        self._deadline(self._fencing().commit, "Committing a checkpoint")

    def _confirm(self, marker_offset: int, marker: bytes | None) -> None:
        """Read the marker back: a commit can return although everything was aborted."""
        if self._reader is None or self._reader.value_at(marker_offset) != (marker,):
            raise CheckpointLostError(f"The checkpoint at {self._topic}/{self._shard}/{marker_offset} is not there.")

    def _fencing(self) -> TransactionWriter:
        if self._writer is None:
            raise UnavailableError("Nothing can be written before the take-over.")
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
        with suppress(Exception):  # a client that is in trouble may raise anything here
            if writer is not None:
                writer.give_up()
        with suppress(Exception):
            if reader is not None:
                reader.close()
