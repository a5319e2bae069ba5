"""The checkpoint store of the memory log."""

from collections.abc import Mapping

from agent.checkpoint.records import Restoration, checkpoint_records
from agent.contracts.errors import FencedError, UnavailableError
from agent.contracts.log import Marker, Restored
from agent.log.memory_broker import MemoryBroker


class MemoryCheckpointStore:
    """Fenced by an epoch: each take-over begins a new one, and a write under an older one is refused.

    >>> from agent.contracts.log import TopicSettings
    >>> broker = MemoryBroker()
    >>> _ = broker.create([TopicSettings(name="state", partitions=1, compacted=True)])
    >>> store = MemoryCheckpointStore(broker, "state", 0)
    >>> store.take_over().marker is None
    True
    >>> store.save({"lammps": b"{}"}, Marker(7, 1, 1, "1", "c", 1))
    >>> MemoryCheckpointStore(broker, "state", 0).take_over().marker.offset
    7
    """

    def __init__(self, broker: MemoryBroker, topic: str, shard: int) -> None:
        self._broker = broker
        self._partition = (topic, shard)
        self._owner = f"{topic}-{shard}"
        self._epoch: int | None = None
        self.closed = False

    def take_over(self) -> Restored:
        """Fence every former owner and read the state back."""
        self._check_open()
        self._epoch = self._broker.fence(self._owner)
        restoration = Restoration()
        batch, _ = self._broker.snapshot(self._partition)
        if batch is not None:
            restoration.add(batch)
        return restoration.result()

    def save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        """Write states and marker at once. After any error the store is dead."""
        self._check_open()
        if self._epoch is None:
            raise UnavailableError("Nothing can be saved before the take-over.")
        records = checkpoint_records(states, marker)
        try:
            self._broker.transact(self._owner, self._epoch, self._partition, records)
        except FencedError:
            self.close()
            raise

    def close(self) -> None:
        """Refuse every further call."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError("The checkpoint store is closed; take over with a new one.")
