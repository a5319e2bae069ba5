"""The records of a checkpoint: states by their key, and last the marker, which is the position."""

from collections.abc import Mapping

import msgspec

from agent.contracts.errors import UnavailableError
from agent.contracts.log import Batch, Marker, Restored

MARKER_KEY = b"__marker__"
STATE_BYTES_MAX = 900_000  # brokers refuse batches over 1,048,588 bytes unless told otherwise
Record = tuple[bytes, bytes | None]


def checkpoint_records(states: Mapping[str, bytes | None], marker: Marker) -> list[Record]:
    """Return keys and values in the order in which they are written, the marker last.

    Raises ValueError, naming the key, where a state is larger than a broker takes, has the marker's key, or where the
    marker counts other states than these.

    >>> marker = Marker(offset=7, number=1, count=1, agent_version="1", config_hash="c", journal_partitions=1)
    >>> [key for key, _ in checkpoint_records({"lammps": b"{}"}, marker)]
    [b'lammps', b'__marker__']
    """
    if marker.count != len(states):
        raise ValueError(f"The marker counts {marker.count} states, but there are {len(states)}.")
    records = [(key.encode(), value) for key, value in states.items()]
    for key, value in records:
        _check(key, value)
    return [*records, (MARKER_KEY, msgspec.json.encode(marker))]


def _check(key: bytes, value: bytes | None) -> None:
    if key == MARKER_KEY:
        raise ValueError(f"The state key {MARKER_KEY.decode()} is the marker's own.")
    size_bytes = len(key) + len(value or b"")
    if size_bytes > STATE_BYTES_MAX:
        raise ValueError(f"The state {key.decode()} has {size_bytes} bytes; at most {STATE_BYTES_MAX} are allowed.")


class Restoration:
    """Gathers what a state partition holds: the last record of each key, and the last marker.

    >>> restoration = Restoration()
    >>> restoration.add(Batch("state", 0, 2, [0, 1], [b"{}", None], [b"lammps", b"namd"], [0, 0]))
    >>> restoration.result().states
    {'lammps': b'{}'}
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    def add(self, batch: Batch) -> None:
        """Take the next records of the partition, in their order; a value of None removes its key."""
        for key, value in zip(batch.keys, batch.values, strict=True):
            if key is not None and value is not None:
                self._values[key] = value
            elif key is not None:
                self._values.pop(key, None)

    def result(self) -> Restored:
        """Return the last marker and the states. UnavailableError where the marker is not one of ours."""
        states = {key.decode(): value for key, value in self._values.items() if key != MARKER_KEY}
        return Restored(marker=self._marker(), states=states)

    def _marker(self) -> Marker | None:
        value = self._values.get(MARKER_KEY)
        try:
            return None if value is None else msgspec.json.decode(value, type=Marker)
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"The marker of the last checkpoint cannot be read: {error}.") from error
