"""Avro messages in Confluent's wire format: a zero byte, the schema id in four bytes, and an Avro record.

A message is converted to JSON, which the decoder of the source's format then reads. Schemas are checked before use, so that
no message costs more time or memory than its length allows. A plain schema has its named types expanded, so that no
type can contain itself. Each type carries a function that converts values of logical types to JSON.

Sources: "Wire format" in the documentation of Confluent's Schema Registry, 7.9; the specification of Apache Avro 1.11.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from agent.decode.message import JSON_ERRORS, invalid, shown
from processors.contracts.errors import InvalidInputError, defect, described
from processors.contracts.names import EARLIEST_MS, LATEST_MS, rfc3339

SCHEMA_BYTES_MAX: Final = 1024 * 1024
DEPTH_MAX: Final = 32
TYPES_MAX: Final = 10_000  # limit on types in a schema; named types count each time they are used
NAME_MAX: Final = 256
FIXED_MAX: Final = 65_536

Turn = Callable[[Any], Any]
"""Converts an Avro value to its value in JSON; changes lists and dicts in place."""

_PRIMITIVES: Final = frozenset(("boolean", "int", "long", "float", "double", "bytes", "string"))
_PER_MS: Final = {"timestamp-millis": 1, "timestamp-micros": 1_000, "timestamp-nanos": 1_000_000}
_TIMESTAMP: Final = "timestamp"


class Plain(NamedTuple):
    """An Avro schema without references to named types; the function `turn` converts a decoded value to JSON.

    If `turn` is None, values need no conversion. `bytes_min` is the minimum encoded length of a value. `repeats` is true if the
    schema contains an array or a map, so that a short message may decode to many values.
    """

    schema: Any
    turn: Turn | None = None
    bytes_min: int = 1
    repeats: bool = False


def plain_schema(text: bytes, names: Callable[[str], str] = str) -> Plain:
    """Return the schema in the JSON `text` with all named types expanded; the outermost type must be a record.

    The function `names` converts the outermost field names to the names in JSON. Times become RFC 3339 texts. The outermost
    field `timestamp` becomes seconds since the epoch, as LDMS writes it in JSON. Raise InvalidInputError (``schema``) if the
    schema is invalid or too large.

    >>> found = plain_schema(b'{"type": "record", "name": "row", "fields": [{"name": "load", "type": "double"}]}')
    >>> found.schema["fields"], found.turn, found.bytes_min
    ([{'name': 'load', 'type': 'double'}], None, 8)
    """
    if len(text) > SCHEMA_BYTES_MAX:
        raise _wrong(f"has {len(text)} bytes; {SCHEMA_BYTES_MAX} are allowed")
    try:
        node = msgspec.json.decode(text)
    except JSON_ERRORS:
        raise _wrong("is no JSON") from None
    if not isinstance(node, dict) or node.get("type") != "record":
        raise _wrong("is of no record")
    return _Walk(names).record(node, "", 0)


def _wrong(fault: str) -> InvalidInputError:
    return invalid("schema", f"The Avro schema {fault}.")


class _Walk:
    """One traversal of a schema, which collects the named types; a schema with too many types is refused."""

    def __init__(self, names: Callable[[str], str]) -> None:
        self._names = names
        self._known: dict[str, tuple[dict[str, Any], str]] = {}
        self._open: set[str] = set()
        self._types = self._given = 0

    def type(self, node: object, space: str, depth: int) -> Plain:
        """Return the plain schema of one type; `space` is the enclosing namespace."""
        self._count(depth)
        if isinstance(node, list):
            return self._union(node, space, depth)
        if isinstance(node, str):
            return self._called(node, space, depth)
        if not isinstance(node, dict):
            raise _wrong("has a type that is neither a name, nor an object, nor a list")
        kind = node.get("type")
        composed = {
            "array": self._array,
            "map": self._map,
            "record": self.record,
            "error": self.record,
            "enum": self._enum,
            "fixed": self._fixed,
        }
        if isinstance(kind, str) and kind in composed:
            return composed[kind](node, space, depth)
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return Plain(kind, _logical(kind, node.get("logicalType")), _bytes_min(kind))
        return self.type(kind, space, depth + 1)

    def record(self, node: dict[str, Any], space: str, depth: int) -> Plain:
        """Return the plain schema of a record; the outermost record has depth 0."""
        name, inner = self._define(node, space)
        fields: dict[str, Plain] = {}
        self._open.add(name)
        for field in _items(node, "fields"):
            avro_name = _text(field, "name")
            name_in_json = avro_name if depth else self._names(avro_name)
            if name_in_json in fields:
                raise _wrong(f"has the field {shown(avro_name)} twice")
            plain = self.type(field.get("type") if isinstance(field, dict) else None, inner, depth + 1)
            fields[name_in_json] = _seconds(plain) if not depth and name_in_json == _TIMESTAMP else plain
        self._open.discard(name)
        turns = {name_in_json: field.turn for name_in_json, field in fields.items() if field.turn is not None}
        plain_fields = [{"name": name_in_json, "type": field.schema} for name_in_json, field in fields.items()]
        return Plain(
            {"type": "record", "name": self._fresh(), "fields": plain_fields},
            _of_fields(turns) if turns else None,
            sum(field.bytes_min for field in fields.values()),
            any(field.repeats for field in fields.values()),
        )

    def _called(self, name: str, space: str, depth: int) -> Plain:
        if name == "null":
            return Plain("null", None, 0)
        if name in _PRIMITIVES:
            return Plain(name, None, _bytes_min(name))
        whole = name if "." in name or not space else f"{space}.{name}"
        whole = whole if whole in self._known else name
        if whole not in self._known:
            raise _wrong(f"names the type {shown(name)}, which is not in it")
        if whole in self._open:
            raise _wrong(f"has the type {shown(name)} within itself, which is not read")
        node, outer = self._known[whole]
        return self.type(node, outer, depth + 1)

    def _union(self, branches: list[Any], space: str, depth: int) -> Plain:
        plain_branches = [self.type(branch, space, depth + 1) for branch in branches]
        if not plain_branches:
            raise _wrong("has a union of nothing")
        not_null = [branch for branch in plain_branches if branch.schema != "null"]
        # with several branches, the branch of a value is unknown
        turn = not_null[0].turn if len(not_null) == 1 else None
        return Plain(
            [branch.schema for branch in plain_branches],
            None if turn is None else _unless_null(turn),
            1 + min(branch.bytes_min for branch in plain_branches),
            any(branch.repeats for branch in plain_branches),
        )

    def _array(self, node: dict[str, Any], space: str, depth: int) -> Plain:
        item = self.type(node.get("items"), space, depth + 1)
        if not item.bytes_min:
            raise _wrong("has an array whose items take no bytes, so that a message could hold any number of them")
        # inside arrays LDMS writes the true value of an unsigned 32-bit number
        turn = None if item.turn in (None, _unless_zero) else item.turn
        schema = {"type": "array", "items": item.schema}
        return Plain(schema, None if turn is None else _of_items(turn), repeats=True)

    def _map(self, node: dict[str, Any], space: str, depth: int) -> Plain:
        value = self.type(node.get("values"), space, depth + 1)
        schema = {"type": "map", "values": value.schema}
        return Plain(schema, None if value.turn is None else _of_values(value.turn), repeats=True)

    def _enum(self, node: dict[str, Any], space: str, _depth: int) -> Plain:
        self._define(node, space)
        symbols = [_name(symbol) for symbol in _items(node, "symbols")]
        if not symbols:
            raise _wrong("has an enum without symbols")
        return Plain({"type": "enum", "name": self._fresh(), "symbols": symbols})

    def _fixed(self, node: dict[str, Any], space: str, _depth: int) -> Plain:
        self._define(node, space)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= FIXED_MAX:
            raise _wrong(f"has a fixed type whose size is not of 0 to {FIXED_MAX}")
        return Plain({"type": "fixed", "name": self._fresh(), "size": size}, None, size)

    def _define(self, node: dict[str, Any], space: str) -> tuple[str, str]:
        """Register a named type; return its full name, and the namespace that applies to the names inside the type."""
        name, namespace = _text(node, "name"), node.get("namespace")
        outer = namespace if isinstance(namespace, str) else space
        whole = name if "." in name or not outer else f"{outer}.{name}"
        self._known[whole] = (node, space)
        return whole, whole.rpartition(".")[0]

    def _fresh(self) -> str:
        self._given += 1
        return f"type{self._given}"

    def _count(self, depth: int) -> None:
        self._types += 1
        if self._types > TYPES_MAX:
            raise _wrong(f"has more than {TYPES_MAX} types")
        if depth > DEPTH_MAX:
            raise _wrong(f"is nested deeper than {DEPTH_MAX} types")


def _items(node: dict[str, Any], key: str) -> list[Any]:
    items = node.get(key)
    if not isinstance(items, list):
        raise _wrong(f"has a type without {key}")
    return items


def _text(node: object, key: str) -> str:
    return _name(node.get(key) if isinstance(node, dict) else None)


def _name(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
        raise _wrong(f"has a name that is no text of 1 to {NAME_MAX} characters")
    return name


def _bytes_min(kind: str) -> int:
    return {"float": 4, "double": 8}.get(kind, 1)


def _logical(kind: str, logical: object) -> Turn | None:
    """Return the conversion function of a logical type; None if no conversion is needed."""
    if kind != "long":
        return None
    if logical == "unsigned-long":  # type of the unsigned 64-bit numbers of LDMS
        return _unsigned
    if logical == "unsigned-int":
        return _unless_zero
    per_ms = _PER_MS.get(str(logical).removeprefix("local-"))
    return None if per_ms is None else _Time(per_ms).text


def _unsigned(value: int) -> int:
    return value if value >= 0 else value + (1 << 64)


def _unless_zero(value: int) -> int | None:
    """Return `value`; None for 0, because LDMS writes 0 in place of every unsigned 32-bit number outside arrays."""
    return value or None


class _Time:
    """Converts integer times to JSON, with `per_ms` units per millisecond; a time outside 1990 to 2100 stays a number."""

    def __init__(self, per_ms: int) -> None:
        self._per_ms = per_ms

    def text(self, value: int) -> str | int:
        time_ms = value // self._per_ms
        return rfc3339(time_ms) if EARLIEST_MS <= time_ms <= LATEST_MS else value

    def seconds(self, value: int) -> float:
        return value / (1000.0 * self._per_ms)


def _seconds(plain: Plain) -> Plain:
    """Return `plain` with a conversion of timestamps to seconds; return any other type unchanged.

    Timestamps are Avro's logical types of time, and records with the fields `sec` and `usec`.
    """
    owner = getattr(plain.turn, "__self__", None)
    if isinstance(owner, _Time):
        return plain._replace(turn=owner.seconds)
    fields = plain.schema.get("fields", ()) if isinstance(plain.schema, dict) else ()
    has_parts = [(field["name"], field["type"]) for field in fields] == [("sec", "int"), ("usec", "int")]
    return plain._replace(turn=lambda value: value["sec"] + value["usec"] / 1e6) if has_parts else plain


def _unless_null(turn: Turn) -> Turn:
    return lambda value: None if value is None else turn(value)


def _of_items(turn: Turn) -> Turn:
    return lambda values: [turn(value) for value in values]


def _of_values(turn: Turn) -> Turn:
    return lambda values: {name: turn(value) for name, value in values.items()}


def _of_fields(turns: Mapping[str, Turn]) -> Turn:
    def turned(record: dict[str, Any]) -> dict[str, Any]:
        for name, turn in turns.items():
            record[name] = turn(record[name])
        return record

    return turned


MAGIC: Final = 0
HEAD_BYTES: Final = 5
LENGTH_BYTES: Final = 4
READERS_MAX: Final = 1_024
READERS_PER_BATCH: Final = 256
REPEATED_BYTES_MAX: Final = 262_144  # maximum length of a message whose arrays and maps may hold one value per byte

ReadRecord = Callable[[bytes], bytes]
"""Converts an Avro message to JSON; raises InvalidInputError."""


class Schemas:
    """Schemas by id from the configuration; a registry adds further ones."""

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        self._texts = texts

    def text(self, number: int) -> bytes | None:
        """Return the schema with the id `number` as JSON; None while the look-up runs, so that the caller must ask again later.

        Raise InvalidInputError if the schema does not exist.
        """
        text = self._texts.get(number)
        if text is None:
            raise invalid("schema", f"The Avro schema {number} is not in the configuration.")
        return text

    def close(self) -> None:
        """Stop all look-ups."""


def schema_number(value: bytes | None) -> int | None:
    """Return the schema id in the wire format of the schema registry; None if the message has no such prefix."""
    if not value or value[0] != MAGIC or len(value) < HEAD_BYTES:
        return None
    return int.from_bytes(value[1:HEAD_BYTES], "big")


def wire_messages(content: bytes) -> list[bytes]:
    r"""Return the messages in a file written by ``kcat -f '%R%s'``, which puts a length of four bytes before each message.

    A file in any other form is returned as one message.

    >>> wire_messages(b"\0\0\0\x06\0\0\0\0\x25\x02"), wire_messages(b"\0\0\0\0\x25\x02")
    ([b'\x00\x00\x00\x00%\x02'], [b'\x00\x00\x00\x00%\x02'])
    """
    messages, position = list[bytes](), 0
    while position < len(content):
        begin = position + LENGTH_BYTES
        size = int.from_bytes(content[position:begin], "big", signed=True)
        position = begin + max(size, 0)  # the length -1 means that the message has no value
        if size < -1 or position > len(content):
            return [content]
        if size > 0:
            messages.append(content[begin:position])
    return messages if messages and all(value[0] == MAGIC for value in messages) else [content]


class AvroMessages:
    r"""Converts the messages of one source to JSON; the function `names` converts Avro field names to the names in JSON.

    Messages that do not begin with a zero byte stay unchanged; the decoder of the source's format accepts or refuses them.

    >>> schema = b'{"type": "record", "name": "row", "fields": [{"name": "producer", "type": "string"}]}'
    >>> AvroMessages(Schemas({37: schema})).opened(b"\0\0\0\0\x25\x08nid1")
    b'{"producer":"nid1"}'
    """

    def __init__(self, schemas: Schemas, names: Callable[[str], str] = str) -> None:
        self._schemas, self._names = schemas, names
        self._readers: dict[int, ReadRecord | InvalidInputError] = {}

    def ready(self, values: Sequence[bytes | None]) -> int:
        """Return the number of leading messages that can be converted now; the first HEAD_BYTES of each message are enough."""
        if len(self._readers) > READERS_MAX - READERS_PER_BATCH:
            self._readers.clear()
        met: set[int] = set()
        for place, value in enumerate(values):
            number = schema_number(value)
            if number is None or number in met:
                continue
            if len(met) == READERS_PER_BATCH or self._reader(number) is None:
                return place
            met.add(number)
        return len(values)

    def opened(self, value: bytes) -> bytes:
        """Return an Avro message as JSON, and any other message unchanged.

        Raise InvalidInputError if the schema is unknown or invalid (``schema``), or if the message does not match its schema
        (``avro``), is too large (``too-large``) or holds text that is not UTF-8 (``encoding``).
        """
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
        """Return the reader for the schema id `number`; None while the schema is being looked up.

        If the schema is invalid or absent, return the error instead of raising it.
        """
        cached = self._readers.get(number)
        if cached is not None:
            return cached
        try:
            text = self._schemas.text(number)
        except InvalidInputError as error:  # not cached, because the schema may be registered later
            return error
        if text is None:
            return None
        try:
            reader: ReadRecord | InvalidInputError = _reader(plain_schema(text, self._names))
        except InvalidInputError as error:  # cached, because the text of a schema id never changes
            reader = error
        self._readers[number] = reader
        return reader


def _reader(plain: Plain) -> ReadRecord:
    from fastavro import parse_schema, schemaless_reader  # noqa: PLC0415 - imported only if messages are in Avro

    try:
        schema, turn, encode = parse_schema(plain.schema), plain.turn, msgspec.json.Encoder().encode
    # the schema comes from outside, and the exceptions that a bad schema can raise are not documented
    except Exception as error:
        raise invalid("schema", f"The Avro schema is not read: {described(error)}.") from error

    def read(value: bytes) -> bytes:
        if plain.repeats and len(value) > REPEATED_BYTES_MAX:
            allowed = f"{REPEATED_BYTES_MAX} are allowed in Avro with arrays or maps"
            raise invalid("too-large", f"The message has {len(value)} bytes; {allowed}.")
        stream = io.BytesIO(value)
        stream.seek(HEAD_BYTES)
        try:
            record = schemaless_reader(stream, schema, None)
            turned = record if turn is None else turn(record)
        except UnicodeDecodeError:
            raise invalid("encoding", "The message holds text that is not UTF-8.") from None
        except (EOFError, LookupError, ValueError, OverflowError):
            raise invalid("avro", "The message does not fit its Avro schema: it ends early, or is damaged.") from None
        except Exception as error:  # a defect of the reader must affect only this message
            raise defect(error) from error
        if stream.tell() != len(value):
            raise invalid("avro", "The message does not fit its Avro schema: it is longer than its record.")
        return encode(turned)

    return read
