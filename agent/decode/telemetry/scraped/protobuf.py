"""The wire format of Protocol Buffers, as far as metrics of OpenTelemetry need it, read strictly and without recursion.

A message is a row of fields: a key, which is the number of the field times 8 plus how it is written, and the value. Source: the encoding
guide of Protocol Buffers. What a field means is known to who reads it; unknown ones are passed over, as the format wants it.
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
    """One field of a message: its number, how it is written, and its value; of fixed length a number without a sign.

    >>> next(fields(bytes([8, 150, 1])))
    Field(number=1, wire=0, value=150, data=b'')
    """

    number: int
    wire: int
    value: int
    data: bytes

    def message(self) -> bytes:
        """Return the bytes of a message within the message; InvalidInputError (``wrong-type``) where it is none."""
        return self.data if self.wire == LENGTH else self._other("a message")

    def text(self) -> str:
        """Return a text; InvalidInputError (``wrong-type``, ``encoding``) where it is none."""
        if self.wire != LENGTH:
            self._other("a text")
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            raise invalid("encoding", "The message holds text that is not UTF-8.") from None

    def number_of(self, wire: int) -> int:
        """Return a whole number without a sign that has to be written so; InvalidInputError (``wrong-type``) otherwise."""
        if self.wire != wire:
            self._other("a number of its kind")
        return self.value

    def signed(self, wire: int) -> int:
        """Return a whole number of 64 bits with a sign, in two's complement."""
        value = self.number_of(wire)
        return value - 2**64 if value >= 2**63 else value

    def double(self) -> float:
        """Return a number of 64 bits with a fraction."""
        found: float = _DOUBLE.unpack(self.number_of(FIXED64).to_bytes(8, "little"))[0]
        return found

    def _other(self, wanted: str) -> bytes:
        raise invalid("wrong-type", f"Field {self.number} of a protobuf message is not {wanted}.")


def fields(data: bytes) -> Iterator[Field]:
    r"""Yield the fields of a message, in their order.

    Raises InvalidInputError (``encoding``) where the bytes are no message: cut off, with groups, which went out of use
    long ago, or with a number too long.

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
    r"""Return whether the bytes are nothing but messages in the field of a number, and hence hardly a text.

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
    """Return a number that is written seven bits a byte, the lowest first, and where it ends."""
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
    return invalid("encoding", "The message is no protobuf message, or was cut off.")
