"""Cut a stream of JSON into its values, in constant memory: values in a row, over several lines, or in one array."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)  # of a string, to its end or as far as the bytes go
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# all that is no bracket, with whole strings, then a bracket, or the quote of a string that goes on in the next chunk
_WITHIN = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb')*+([{}\[\]"]?)', re.DOTALL)
_BETWEEN = re.compile(rb'(?:[^"{}\[\],]++|' + _STRING + rb')*+([{}\[\],"]?)', re.DOTALL)  # commas part values
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
        begin = 0  # of the bytes that belong to no value yet
        position = self._pass_string(chunk, 1 if self._escaped else 0) if self._in_string and chunk else 0
        while not self._in_string:
            found = (_WITHIN if self._depth else _BETWEEN).match(chunk, position)
            if found is None or not found[1]:
                break
            position = found.end()
            if found[1] == b'"':
                position = self._pass_string(chunk, position)
                continue
            end = self._end_of_value(found[1], position)
            if end is not None:
                yield from self._take(chunk[begin:end])
                begin = position - 1 if self._depth else position
        self._keep(chunk[begin:])

    def close(self) -> Iterator[tuple[bytes, int]]:
        """End the stream: yield what is left, which may be half a value."""
        yield from self._take(b"")

    def _pass_string(self, chunk: bytes, position: int) -> int:
        """Pass the rest of a string, from within it; what is left of a chunk without its end can be a backslash."""
        rest = _REST.match(chunk, position)
        if rest is None:
            return position
        self._in_string = not rest[1]
        self._escaped = self._in_string and rest.end() < len(chunk)
        return rest.end()

    def _end_of_value(self, token: bytes, position: int) -> int | None:
        """Take note of a bracket or a comma before `position`; return where it ends a value, if it does."""
        if token in b"{[":
            if self._depth == 0 and token == b"[" and not self._in_array:
                self._in_array = True
                return position - 1
            self._depth += 1
            return position - 1 if self._depth == 1 else None
        if self._depth:
            self._depth -= 1
            return None if self._depth else position
        if token == b"]" and self._in_array:
            self._in_array = False
            return position - 1
        return position - 1 if token == b"," else None

    def _keep(self, part: bytes) -> None:
        if not self._value:
            begun = part.lstrip(_BLANK)
            self._value_line = self._line + part.count(b"\n", 0, len(part) - len(begun))
            self._value += begun[: self._bytes_max + 1]
        else:
            self._value += part[: self._bytes_max + 1 - len(self._value)]
        self._line += part.count(b"\n")

    def _take(self, part: bytes) -> Iterator[tuple[bytes, int]]:
        self._keep(part)
        value, self._value = bytes(self._value).rstrip(_BLANK), bytearray()
        if value:
            yield value, self._value_line


def cut_json(chunks: Iterable[bytes], bytes_max: int, line: int = 1) -> Iterator[tuple[bytes, int]]:
    """Return the values of a stream that begins on line `line`, each with the number of its first; see `JsonCutter`.

    >>> list(cut_json([b'{"a":', b' "]"}', bytes([10]), b"{}"], 100))
    [(b'{"a": "]"}', 1), (b'{}', 2)]
    """
    cutter = JsonCutter(bytes_max, line)
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.close()
