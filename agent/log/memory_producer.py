"""A producer of the memory log."""

from agent.contracts.errors import UnavailableError
from agent.log.limits import check_record
from agent.log.memory_broker import MemoryBroker


class MemoryProducer:
    """Writes at once, so there is never anything left to flush.

    >>> MemoryProducer(MemoryBroker()).send("raw", b"value")
    Traceback (most recent call last):
    agent.contracts.errors.UnavailableError: The topic raw does not exist.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self.closed = False

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Write a record; without a timestamp it gets 0. Raises UnavailableError, ValueError where it is too large."""
        self._check_open()
        check_record(topic, value, key)
        self._broker.append(topic, value, key, partition, timestamp_ms or 0)

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002 - the contract's argument; nothing is ever under way
        """Return at once: every record is there."""
        self._check_open()

    def close(self) -> None:
        """Refuse every further call."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError("The producer is closed.")
