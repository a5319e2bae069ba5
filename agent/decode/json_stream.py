"""Cut a stream of JSON into its values, in constant memory: values in a row, over several lines, or in one array."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_STRUCTURE = re.compile(rb'[{}\[\]"\n,]')
_IN_STRING = re.compile(rb'["\\\n]')
_BLANK: Final = b" \t\r\n"


class JsonCutter:
    """Finds where values begin and end by brackets and strings alone; whether a value is JSON its decoder tells.

    The elements of a top-level array are values. A value longer than `bytes_max` comes cut to one byte more, so that
    its decoder refuses it. `feed` yields each value with the number of the line on which it begins.

    >>> cutter = JsonCutter(bytes_max=100)
    >>> [*cutter.feed(b'[{"a": 1}, {"b": [2, 3]}, 7]'), *cutter.close()]
    [(b'{"a": 1}', 1), (b'{"b": [2, 3]}', 1), (b'7', 1)]
    """

    def __init__(self, bytes_max: int, line: int = 1) -> None:
        self._bytes_max = bytes_max
        self._value = bytearray()
        self._line = line  # of the position reached
        self._value_line = line
        self._depth = 0  # brackets open within the value
        self._in_array = False
        self._in_string = False
        self._escaped = False  # the last byte fed was a backslash in a string

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        """Take the next bytes; yield the values that end in them."""
        position = 1 if self._escaped else 0
        self._keep(chunk[:position])
        self._escaped = self._escaped and not chunk
        while position < len(chunk):
            found = (_IN_STRING if self._in_string else _STRUCTURE).search(chunk, position)
            if found is None:
                self._keep(chunk[position:])
                return
            self._keep(chunk[position : found.start()])
            position = found.end()
            yield from self._token(found[0])
            if found[0] == b"\\":
                self._keep(chunk[position : position + 1])
                self._escaped = position == len(chunk)
                position += 1

    def close(self) -> Iterator[tuple[bytes, int]]:
        """End the stream: yield what is left, which may be half a value."""
        yield from self._end()

    def _token(self, token: bytes) -> Iterator[tuple[bytes, int]]:
        if token == b"\n":
            self._keep(token)
            self._line += 1
        elif token == b'"':
            self._in_string = not self._in_string
            self._keep(token)
        elif self._in_string:  # a backslash
            self._keep(token)
        elif token == b"," and self._depth == 0:
            yield from self._end()
        elif token == b"[" and self._depth == 0 and not self._in_array:
            yield from self._end()
            self._in_array = True
        elif token == b"]" and self._depth == 0 and self._in_array:
            yield from self._end()
            self._in_array = False
        else:
            yield from self._bracket(token)

    def _bracket(self, token: bytes) -> Iterator[tuple[bytes, int]]:
        if token in b"{[" and self._depth == 0:
            yield from self._end()
        self._keep(token)
        if token in b"{[":
            self._depth += 1
        elif token in b"}]":
            self._depth = max(self._depth - 1, 0)
            if self._depth == 0:
                yield from self._end()

    def _keep(self, part: bytes) -> None:
        if not self._value:
            part = part.lstrip(_BLANK)
            self._value_line = self._line
        self._value += part[: self._bytes_max + 1 - len(self._value)]

    def _end(self) -> Iterator[tuple[bytes, int]]:
        value, self._value, self._depth = bytes(self._value).rstrip(_BLANK), bytearray(), 0
        if value:
            yield value, self._value_line


def cut_json(chunks: Iterable[bytes], bytes_max: int, line: int = 1) -> Iterator[tuple[bytes, int]]:
    """Return the values of a stream that begins on line `line`, each with the number of its first; see `JsonCutter`.

    >>> list(cut_json([b'{"a":', b' "]"}', bytes([10]), b'{}'], 100))
    [(b'{"a": "]"}', 1), (b'{}', 2)]
    """
    cutter = JsonCutter(bytes_max, line)
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.close()
