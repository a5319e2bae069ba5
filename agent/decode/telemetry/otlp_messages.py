"""Messages with OpenTelemetry metrics (OTLP), in JSON or protobuf, decoded into the same objects.

Source: metrics/v1/metrics.proto, resource/v1/resource.proto and common/v1/common.proto of OpenTelemetry's protocol 1.x, with the
JSON rules of its specification: names in camel case, 64-bit integers as strings or as numbers.
"""

import math
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec

from agent.decode.fields import number_in
from agent.decode.message import decode_json, invalid, utf8
from processors.contracts.errors import InvalidInputError

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5
_VARINT_BYTES_MAX: Final = 10
_NUMBER_MAX: Final = 2**29 - 1
_DOUBLE: Final = struct.Struct("<d")


class Field(NamedTuple):
    """A protobuf field: its number, wire type and value; a fixed-length value is an unsigned number."""

    number: int
    wire: int
    value: int
    data: bytes

    def message(self) -> bytes:
        """Return the bytes of an embedded message. Raise InvalidInputError (``wrong-type``) for other fields."""
        return self.data if self.wire == LENGTH else self._other("a message")

    def text(self) -> str:
        """Return the text of a field. Raise InvalidInputError if it is not a text (``wrong-type``) or not UTF-8 (``encoding``)."""
        if self.wire != LENGTH:
            self._other("a text")
        return utf8(self.data)

    def number_of(self, wire: int) -> int:
        """Return the unsigned integer in a field. Raise InvalidInputError (``wrong-type``) for a wire type other than `wire`."""
        if self.wire != wire:
            self._other("a number of its kind")
        return self.value

    def signed(self, wire: int) -> int:
        """Return a signed 64-bit integer in two's complement."""
        value = self.number_of(wire)
        return value - 2**64 if value >= 2**63 else value

    def double(self) -> float:
        found: float = _DOUBLE.unpack(self.number_of(FIXED64).to_bytes(8, "little"))[0]
        return found

    def _other(self, wanted: str) -> bytes:
        raise invalid("wrong-type", f"Field {self.number} of a protobuf message is not {wanted}.")


def fields(data: bytes) -> Iterator[Field]:
    r"""Yield the fields of a protobuf message in order.

    Raise InvalidInputError (``encoding``) if the bytes are not a message: truncated, with obsolete groups, or with a number
    that is too long.

    >>> [field.data for field in fields(b"\x0a\x03nid")]
    [b'nid']
    """
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        if key < 0x80:  # one byte, like nearly every key
            at += 1
        else:
            key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if not 0 < number <= _NUMBER_MAX:
            raise _damaged()
        if wire == LENGTH:
            length = data[at] if at < end else end
            if length < 0x80:
                at += 1
            else:
                length, at = _varint(data, at)
            if length > end - at:
                raise _damaged()
            yield Field(number, wire, 0, data[at : at + length])
            at += length
        elif wire == VARINT:
            value, at = _varint(data, at)
            yield Field(number, wire, value, b"")
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
            if length > end - at:
                raise _damaged()
            yield Field(number, wire, int.from_bytes(data[at : at + length], "little"), b"")
            at += length
        else:
            raise _damaged()


def is_row_of(number: int, data: bytes) -> bool:
    r"""Return whether `data` consists only of embedded messages in the field `number`; a text is unlikely to pass this test.

    >>> is_row_of(1, b"\x0a\x01a\x0a\x00"), is_row_of(1, b"\nload 1")
    (True, False)
    """
    key, at, end = number << 3 | LENGTH, 0, len(data)
    try:
        while at < end and data[at] == key:
            length, at = _varint(data, at + 1)
            at += length
    except InvalidInputError:
        return False
    return at == end > 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number encoded in seven bits per byte, lowest first, and the position after it."""
    value = shift = 0
    for byte in data[at : at + _VARINT_BYTES_MAX]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, at
        shift += 7
    raise _damaged()


def _damaged() -> InvalidInputError:
    return invalid("encoding", "The message is not valid protobuf, or is truncated.")


Kind = Literal["gauge", "total", "delta", "other"]
"""Kinds of metrics: a level; a cumulative sum; an increment since the previous point; a histogram or another kind, which is ignored."""

_DELTA: Final = (1, "AGGREGATION_TEMPORALITY_DELTA")
_CUMULATIVE: Final = (2, "AGGREGATION_TEMPORALITY_CUMULATIVE")
_KNOWN_BYTES_MAX: Final = 256  # maximum length of a cached attribute
_OBJECT_BYTES: Final = 12  # minimum bytes per object: half of the shortest attribute, which has two objects
_NO_VALUE: Final = 1  # flag of a point without a value
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")


class Point(NamedTuple):
    """A value (or None) at a time in ns. For a delta, `start_ns` is the start of its interval; for other points it is 0."""

    attributes: dict[str, str]
    time_ns: int
    start_ns: int
    value: float | None


class OtlpSeries(NamedTuple):
    """A metric with its kind and points."""

    name: str
    kind: Kind
    points: list[Point]


class Resource(NamedTuple):
    """The attributes of a measured entity, such as ``host.name``, and its metrics."""

    attributes: dict[str, str]
    series: list[OtlpSeries]


class _Any(msgspec.Struct, frozen=True, rename="camel", gc=False):
    string_value: str | None = None
    int_value: int | str | None = None
    bool_value: bool | None = None

    def text(self) -> str | None:
        if self.string_value is not None:
            return self.string_value
        if self.bool_value is not None:
            return str(self.bool_value).lower()
        return None if self.int_value is None else str(self.int_value)


class _Attribute(msgspec.Struct, gc=False):
    key: str
    value: _Any = _Any()


class _Point(msgspec.Struct, rename="camel", gc=False):
    attributes: list[_Attribute] = []
    time_unix_nano: int | str = 0
    start_time_unix_nano: int | str = 0
    as_double: float | str | bool | None = None
    as_int: float | str | bool | None = None
    flags: int = 0


class _Points(msgspec.Struct, rename="camel", gc=False):
    data_points: list[_Point] = []
    aggregation_temporality: int | str = 0
    is_monotonic: bool = False


class _Metric(msgspec.Struct, gc=False):
    name: str
    gauge: _Points | None = None
    sum: _Points | None = None


class _Scope(msgspec.Struct, gc=False):
    metrics: list[_Metric] = []


class _Attributes(msgspec.Struct, frozen=True, gc=False):
    attributes: list[_Attribute] = []


class _Resource(msgspec.Struct, rename="camel", gc=False):
    resource: _Attributes = _Attributes()
    scope_metrics: list[_Scope] = []


class _Message(msgspec.Struct, rename="camel", gc=False):
    resource_metrics: list[_Resource]


_MESSAGE = msgspec.json.Decoder(_Message)


def read_json(value: bytes, points_max: int) -> list[Resource]:
    """Return the resources in a JSON message. Raise InvalidInputError if it is malformed or has far more than `points_max` points.

    >>> point = b'{"dataPoints": [{"timeUnixNano": "1787217284000000000", "asInt": "3"}]}'
    >>> read_json(b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "a", "gauge": ' + point + b"}]}]}]}", 9)
    [Resource(attributes={}, series=[OtlpSeries(name='a', kind='gauge', points=[Point(attributes={}, time_ns=1787217284000000000, start_ns=0, value=3.0)])])]
    """
    braces = value.count(b"{")
    # checked first, so that a malicious message does not become a million objects
    if braces > points_max and braces * _OBJECT_BYTES > len(value):
        raise invalid("array-bomb", "The message has more data points than are allowed.")
    return [
        Resource(
            _attributes(resource.resource.attributes),
            [_series(metric) for scope in resource.scope_metrics for metric in scope.metrics],
        )
        for resource in decode_json(_MESSAGE, value).resource_metrics
    ]


def _series(metric: _Metric) -> OtlpSeries:
    points = metric.gauge or metric.sum
    if points is None:
        return OtlpSeries(metric.name, "other", [])
    kind = "gauge" if metric.gauge else _kind(points.aggregation_temporality, monotonic=points.is_monotonic)
    return OtlpSeries(metric.name, kind, [_point(point) for point in points.data_points])


def _kind(temporality: int | str, *, monotonic: bool) -> Kind:
    """Return the kind of a sum; a cumulative sum that may fall is a level."""
    if temporality in _CUMULATIVE:
        return "total" if monotonic else "gauge"
    return "delta" if monotonic and temporality in _DELTA else "other"


def _point(point: _Point) -> Point:
    value = _known_value(number_in(point.as_int if point.as_double is None else point.as_double), point.flags)
    attributes = _attributes(point.attributes)
    return Point(attributes, _whole(point.time_unix_nano), _whole(point.start_time_unix_nano), value)


def _known_value(value: float | None, flags: int) -> float | None:
    return None if value is None or flags & _NO_VALUE or not math.isfinite(value) else value


def _attributes(attributes: list[_Attribute]) -> dict[str, str]:
    return {each.key: text for each in attributes if (text := each.value.text()) is not None}


def _whole(number: int | str) -> int:
    """Return a time in ns; 0, which means no time, for a string that is not a number and for numbers outside 64 bits."""
    if isinstance(number, str):
        number = int(number) if _WHOLE.fullmatch(number) else 0
    return number if 0 <= number < 2**64 else 0


def read_protobuf(value: bytes, points_max: int) -> list[Resource]:
    """Return the resources in a protobuf message. Raise InvalidInputError if it is malformed or has far more than `points_max` points."""
    reader = _Reader(2 * points_max)
    return [reader.resource(field.message()) for field in fields(value) if field.number == 1]


class _Reader:
    """Reads resources, metrics and points, at most `left` in total, because a message of two bytes per point would fill the memory."""

    def __init__(self, left: int) -> None:
        self._left = left

    def resource(self, data: bytes) -> Resource:
        self._count()
        attributes: dict[str, str] = {}
        series = []
        for field in fields(data):
            if field.number == 1:
                for each in fields(field.message()):
                    if each.number == 1:
                        _add_attribute(each.message(), attributes)
            elif field.number == 2:
                series += [self._series(each.message()) for each in fields(field.message()) if each.number == 2]
        return Resource(attributes, series)

    def _series(self, data: bytes) -> OtlpSeries:
        self._count()
        name, points = "", list[Point]()
        kind: Kind = "other"
        for field in fields(data):
            if field.number == 1:
                name = field.text()
            elif field.number == 5:
                kind, points = "gauge", [self._point(each) for each in fields(field.message()) if each.number == 1]
            elif field.number == 7:
                kind, points = self._sum(field.message())
        return OtlpSeries(name, kind, points)

    def _sum(self, data: bytes) -> tuple[Kind, list[Point]]:
        points = []
        temporality, monotonic = 0, False
        for field in fields(data):
            if field.number == 1:
                points.append(self._point(field))
            elif field.number == 2:
                temporality = field.number_of(VARINT)
            elif field.number == 3:
                monotonic = bool(field.number_of(VARINT))
        return _kind(temporality, monotonic=monotonic), points

    def _point(self, field: Field) -> Point:
        self._count()
        return _read_point(field.message())

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise invalid("array-bomb", "The message has more data points than are allowed.")


def _read_point(data: bytes) -> Point:
    attributes: dict[str, str] = {}
    times, flags = [0, 0], 0
    value: float | None = None
    for field in fields(data):
        number = field.number
        if number == 7:
            _add_attribute(field.message(), attributes)
        elif number in (2, 3):
            times[number - 2] = field.number_of(FIXED64)
        elif number == 4:
            value = field.double()
        elif number == 6:
            value = float(field.signed(FIXED64))
        elif number == 8:
            flags = field.number_of(VARINT)
    return Point(attributes, times[1], times[0], _known_value(value, flags))


def _add_attribute(data: bytes, attributes: dict[str, str]) -> None:
    """Add an attribute whose value is a text, a bool or an integer; skip attributes of other types, such as lists or bytes."""
    key, text = _known_attribute(data) if len(data) <= _KNOWN_BYTES_MAX else _read_attribute(data)
    if text is not None:
        attributes[key] = text


def _read_attribute(data: bytes) -> tuple[str, str | None]:
    key, text = "", None
    for field in fields(data):
        if field.number == 1:
            key = field.text()
        elif field.number == 2:
            text = _read_any(field.message())
    return key, text


# cached because each point repeats the same few attributes
_known_attribute: Final = lru_cache(maxsize=65_536)(_read_attribute)


def _read_any(data: bytes) -> str | None:
    for field in fields(data):
        if field.number == 1:
            return field.text()
        if field.number == 2:
            return "true" if field.number_of(VARINT) else "false"
        if field.number == 3:
            return str(field.signed(VARINT))
    return None
