"""Records of files, and how the telemetry in them is decoded."""

import msgspec

from agent.contracts.decoding import Decoded
from agent.contracts.errors import InvalidInputError
from agent.contracts.telemetry import Samples, SeriesIndex
from agent.decode.telemetry.options import TelemetryOptions


class FileRecord(msgspec.Struct):
    """One record of a file: where it stands (`file:line`), its bytes, and what it yields or why it is refused.

    `samples` are those of the record itself; records that hold nothing else come together as one without bytes, which
    stands for `records` of them. Where `until_ms` is told, no sample that follows is from before.
    """

    place: str
    format: str
    value: bytes
    decoded: Decoded
    error: InvalidInputError | None = None
    samples: Samples | None = None
    records: int = 1
    until_ms: int | None = None


class Telemetry(msgspec.Struct, frozen=True):
    """How samples are decoded, and the numbers of their series, shared by all files that are read together.

    >>> len(Telemetry(TelemetryOptions(), SeriesIndex(9)).index)
    0
    """

    options: TelemetryOptions
    index: SeriesIndex
