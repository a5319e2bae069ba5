"""Confluent's wire format: a zero byte, the number of a schema in four bytes, and an Avro record.

A message is converted to the JSON of its record, which the decoder of the source's format reads.

Source: "Wire format" in the documentation of Confluent's Schema Registry, 7.9.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from agent.decode.avro.schema import Plain, plain_schema
from agent.decode.message import invalid
from agent.decode.telemetry.columns import joined, nothing
from processors.contracts.errors import InvalidInputError, defect, described
from processors.contracts.events import Decode, Decoded
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, SeriesIndex

MAGIC: Final = 0
HEAD_BYTES: Final = 5
LENGTH_BYTES: Final = 4
READERS_MAX: Final = 1_024
READERS_PER_BATCH: Final = 256
REPEATED_BYTES_MAX: Final = 262_144  # of a message whose arrays and maps may have a value in each byte

ReadRecord = Callable[[bytes], bytes]
"""Returns the JSON of a message; raises InvalidInputError."""


class Schemas(Protocol):
    """Schemas by number, from a registry or a configuration."""

    def text(self, number: int) -> bytes | None:
        """Return a schema as JSON; None while it is looked up: ask again. Raise InvalidInputError if it does not exist."""

    def close(self) -> None:
        """Stop all look-ups."""


class ConfiguredSchemas:
    """The schemas of a configuration, without a registry.

    >>> ConfiguredSchemas({37: b"{}"}).text(37)
    b'{}'
    >>> ConfiguredSchemas({}).text(38)
    Traceback (most recent call last):
    processors.contracts.errors.InvalidInputError: The Avro schema 38 is not in the configuration.
    """

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        self._texts = texts

    def text(self, number: int) -> bytes:
        found = self._texts.get(number)
        if found is None:
            raise invalid("schema", f"The Avro schema {number} is not in the configuration.")
        return found

    def close(self) -> None: ...


def schema_number(value: bytes | None) -> int | None:
    r"""Return the schema number of a message; None for messages in another format.

    >>> schema_number(b"\0\0\0\0\x25\x02"), schema_number(b'{"jobid": 812}')
    (37, None)
    """
    if not value or value[0] != MAGIC or len(value) < HEAD_BYTES:
        return None
    return int.from_bytes(value[1:HEAD_BYTES], "big")


def wire_messages(content: bytes) -> list[bytes]:
    r"""Return the messages in a file: length-prefixed (four bytes) as ``kcat -f '%R%s'`` writes them, else a single message.

    >>> wire_messages(b"\0\0\0\x06\0\0\0\0\x25\x02"), wire_messages(b"\0\0\0\0\x25\x02")
    ([b'\x00\x00\x00\x00%\x02'], [b'\x00\x00\x00\x00%\x02'])
    """
    found, at = list[bytes](), 0
    while at < len(content):
        begin = at + LENGTH_BYTES
        size = int.from_bytes(content[at:begin], "big", signed=True)
        at = begin + max(size, 0)  # no value has the length -1
        if size < -1 or at > len(content):
            return [content]
        if size > 0:
            found.append(content[begin:at])
    return found if found and all(value[0] == MAGIC for value in found) else [content]


class AvroMessages:
    r"""Converts the messages of one source to JSON; `names` maps field names of records to JSON.

    Messages that do not begin with a zero byte stay unchanged; the decoder of the format judges them.

    >>> schema = b'{"type": "record", "name": "row", "fields": [{"name": "producer", "type": "string"}]}'
    >>> AvroMessages(ConfiguredSchemas({37: schema})).opened(b"\0\0\0\0\x25\x08nid1")
    b'{"producer":"nid1"}'
    """

    def __init__(self, schemas: Schemas, names: Callable[[str], str] = str) -> None:
        self._schemas, self._names = schemas, names
        self._readers: dict[int, ReadRecord | InvalidInputError] = {}

    def ready(self, values: Sequence[bytes | None]) -> int:
        """Return how many leading messages can be converted now; the first HEAD_BYTES of each message are enough."""
        if len(self._readers) > READERS_MAX - READERS_PER_BATCH:
            self._readers.clear()
        met: set[int] = set()
        for at, value in enumerate(values):
            number = schema_number(value)
            if number is None or number in met:
                continue
            if len(met) == READERS_PER_BATCH or self._reader(number) is None:
                return at
            met.add(number)
        return len(values)

    def opened(self, value: bytes) -> bytes:
        """Return the JSON of a message. Raise InvalidInputError (``schema``, ``avro``, ``too-large``, ``encoding``)."""
        number = schema_number(value)
        if number is None:
            return value
        reader = self._reader(number)
        if reader is None:
            raise invalid("schema", f"The Avro schema {number} has not been looked up.")
        if isinstance(reader, InvalidInputError):
            raise InvalidInputError(reader.reason, str(reader))
        return reader(value)

    def _reader(self, number: int) -> ReadRecord | InvalidInputError | None:
        """Return the reader for a schema, the error if there is none, or None while the schema is looked up."""
        known = self._readers.get(number)
        if known is not None:
            return known
        try:
            text = self._schemas.text(number)
        except InvalidInputError as error:  # there may be one later
            return error
        if text is None:
            return None
        try:
            made: ReadRecord | InvalidInputError = _reader(plain_schema(text, self._names))
        except InvalidInputError as error:  # a schema does not change
            made = error
        self._readers[number] = made
        return made


def _reader(plain: Plain) -> ReadRecord:
    from fastavro import parse_schema, schemaless_reader  # noqa: PLC0415 - only where messages are in Avro

    try:
        schema, turn, encode = parse_schema(plain.schema), plain.turn, msgspec.json.Encoder().encode
    except Exception as error:  # the schema is another's, and what may be wrong with it no list holds
        raise invalid("schema", f"The Avro schema is not read: {described(error)}.") from error

    def read(value: bytes) -> bytes:
        if plain.repeats and len(value) > REPEATED_BYTES_MAX:
            raise invalid(
                "too-large",
                f"The message has {len(value)} bytes; {REPEATED_BYTES_MAX} are allowed in Avro with arrays or maps.",
            )
        stream = io.BytesIO(value)
        stream.seek(HEAD_BYTES)
        try:
            record = schemaless_reader(stream, schema, None)
            turned = record if turn is None else turn(record)
        except UnicodeDecodeError:
            raise invalid("encoding", "The message holds text that is not UTF-8.") from None
        except (EOFError, LookupError, ValueError, OverflowError):
            raise invalid("avro", "The message does not fit its Avro schema: it ends early, or is damaged.") from None
        except Exception as error:  # a defect costs the message alone
            raise defect(error) from error
        if stream.tell() != len(value):
            raise invalid("avro", "The message does not fit its Avro schema: it is longer than its record.")
        return encode(turned)

    return read


def opening(decode: Decode, messages: AvroMessages) -> Decode:
    r"""Return a decoder of Avro messages, from the decoder of their JSON.

    >>> decode = opening(lambda value, received_ms: Decoded(unknown_fields=len(value)), AvroMessages(ConfiguredSchemas({})))
    >>> decode(b"{}", 0).unknown_fields
    2
    >>> decode(b"\0\0\0\0\x25", 0)
    Traceback (most recent call last):
    processors.contracts.errors.InvalidInputError: The Avro schema 37 is not in the configuration.
    """

    def decode_opened(value: bytes, received_ms: int) -> Decoded:
        return decode(messages.opened(value), received_ms)

    return decode_opened


def opening_slices(decode: DecodeSamples, messages: AvroMessages) -> DecodeSamples:
    r"""Return a decoder of slices of Avro messages, from the decoder of their JSON; a message that cannot be converted costs only itself.

    >>> decode = opening_slices(lambda values, received_ms, index: nothing([]), AvroMessages(ConfiguredSchemas({})))
    >>> [(at, other.rejects[0].reason) for at, other in decode([None, b"\0\0\0\0\x25"], [0, 0], SeriesIndex(9)).others]
    [(1, 'schema')]
    """

    def decode_opened(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        whole: list[int] = []
        opened: list[bytes | None] = []
        refused = []
        for at, value in enumerate(values):
            try:
                opened.append(value and messages.opened(value))
                whole.append(at)
            except InvalidInputError as error:
                refused.append((at, Decoded(rejects=[error])))
        if not refused:
            return decode(opened, received_ms, index)
        batch = decode(opened, [received_ms[at] for at in whole], index)
        return joined([(whole, batch), ([*range(len(values))], nothing(refused))])

    return decode_opened
