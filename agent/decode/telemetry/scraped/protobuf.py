"""The wire format of Protocol Buffers, as far as OpenTelemetry metrics need it, parsed strictly and without recursion.

A message is a sequence of fields: a key, which is the number of the field times 8 plus its wire type, and the value. Source: the encoding
guide of Protocol Buffers. The caller knows the meaning of a field; unknown fields are skipped, as the format requires.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from agent.decode.message import invalid
from processors.contracts.errors import InvalidInputError

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5
_VARINT_BYTES_MAX: Final = 10
_NUMBER_MAX: Final = 2**29 - 1
_DOUBLE: Final = struct.Struct("<d")


class Field(NamedTuple):
    """One field of a message: its number, wire type and value; a value of fixed length is an unsigned number.

    >>> next(fields(bytes([8, 150, 1])))
    Field(number=1, wire=0, value=150, data=b'')
    """

    number: int
    wire: int
    value: int
    data: bytes

    def message(self) -> bytes:
        """Return the bytes of an embedded message. Raise InvalidInputError (``wrong-type``) for other fields."""
        return self.data if self.wire == LENGTH else self._other("a message")

    def text(self) -> str:
        """Return a text. Raise InvalidInputError (``wrong-type``, ``encoding``) for other fields."""
        if self.wire != LENGTH:
            self._other("a text")
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            raise invalid("encoding", "The message holds text that is not UTF-8.") from None

    def number_of(self, wire: int) -> int:
        """Return an unsigned integer of a wire type. Raise InvalidInputError (``wrong-type``) for other fields."""
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
    r"""Yield the fields of a message in order.

    Raise InvalidInputError (``encoding``) if the bytes are no message: truncated, with groups, which are obsolete, or with a number
    that is too long.

    >>> [field.data for field in fields(b"\x0a\x03nid")]
    [b'nid']
    """
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        if key < 0x80:  # as nearly every key
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
    r"""Return whether the bytes consist of messages in field `number` alone, and are therefore hardly a text.

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
    """Return a number written seven bits a byte, lowest first, and the position behind it."""
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
