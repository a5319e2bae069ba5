"""Opens plain and compressed files. A damaged file is refused with a reason."""

import codecs
import gzip
import io
import itertools
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Final, NamedTuple

import msgspec

from agent.decode.message import invalid
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.telemetry import DecodeSamples

# the rest of a string, up to its end or to the end of the bytes
_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# everything except brackets, including whole strings, then a bracket, or the quote of a string that continues in the next chunk
_WITHIN = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb')*+([{}\[\]"]?)', re.DOTALL)
# like _WITHIN, but stops at commas, which separate values
_BETWEEN = re.compile(rb'(?:[^"{}\[\],]++|' + _STRING + rb')*+([{}\[\],"]?)', re.DOTALL)
_BLANK: Final = b" \t\r\n"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# messages of Slurm's commands that were captured together with their output
STDERR: Final = re.compile(rb"s\w{2,30}: (?:error|warning|fatal|debug\d?|info): ")
_JOBS = re.compile(rb'"jobs"\s*+:\s*+\[')


class JsonCutter:
    """Finds the start and end of JSON values by brackets and strings only; the decoder of a value checks its syntax.

    The elements of a top-level array are separate values. A value longer than `bytes_max` is cut to `bytes_max` + 1 bytes, so that
    the decoder refuses it. `feed` yields each value with the number of its first line.

    >>> cutter = JsonCutter(bytes_max=100)
    >>> [*cutter.feed(b'[{"a": 1}, {"b": [2, 3]}, 7]'), *cutter.close()]
    [(b'{"a": 1}', 1), (b'{"b": [2, 3]}', 1), (b'7', 1)]
    """

    def __init__(self, bytes_max: int, line: int = 1) -> None:
        self._bytes_max = bytes_max
        self._value = bytearray()
        self._line = line  # line number of the current position
        self._value_line = line
        self._depth = 0  # number of open brackets within the value
        self._in_array = False
        self._arrays = 0  # number of top-level arrays begun so far
        self._in_string = False
        self._escaped = False  # the last byte read was a backslash in a string

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        """Process the bytes `chunk`; yield the values that end in `chunk`."""
        begin = 0  # start of the bytes that do not belong to a value yet
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

    @property
    def in_first_array(self) -> bool:
        return self._in_array and self._arrays == 1

    def close(self) -> Iterator[tuple[bytes, int]]:
        """End the stream and yield the rest, which may be an incomplete value."""
        yield from self._take(b"")

    def _pass_string(self, chunk: bytes, position: int) -> int:
        """Return the position after the current string, or the end of the chunk; `position` is inside the string.

        A chunk may end in the middle of an escape.
        """
        rest = _REST.match(chunk, position)
        if rest is None:
            return position
        self._in_string = not rest[1]
        self._escaped = self._in_string and rest.end() < len(chunk)
        return rest.end()

    def _end_of_value(self, token: bytes, position: int) -> int | None:
        """Process a bracket or comma that ends at `position`; return the position at which a value begins or ends, else None."""
        if token in b"{[":
            if self._depth == 0 and token == b"[" and not self._in_array:
                self._in_array = True
                self._arrays += 1
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


def jobs_begin(head: bytes) -> int | None:
    """Return the offset of the first element in an object's array `jobs`; None if the array does not begin in `head`.

    >>> jobs_begin(b'{"meta": {"jobs": [1]}, "jobs": [{}]}')
    33
    """
    depth = position = 0
    marks = {mark.end() for mark in _JOBS.finditer(head)}
    while position < max(marks, default=0):
        found = _WITHIN.match(head, position)
        if found is None or found[1] in b'"' or (depth == 0 and found[1] != b"{"):
            return None
        position = found.end()
        depth += 1 if found[1] in b"{[" else -1
        if depth == 2 and position in marks:
            return position
    return None


def cut_jobs(head: bytes, chunks: Iterable[bytes], bytes_max: int, line: int = 1) -> Iterator[tuple[bytes, int]]:
    """Yield the elements of an array, and after it all further objects that contain an array `jobs`.

    `head` starts at the first element of the array; `chunks` is the rest of the file.

    >>> list(cut_jobs(b'{"job_id": 1}], "meta": {}}', [b'{"jobs": []}'], 100))
    [(b'{"job_id": 1}', 1), (b'{"jobs": []}', 1)]
    """
    cutter = JsonCutter(bytes_max, line)
    for chunk in itertools.chain([b"[" + head], chunks):
        for value, number in cutter.feed(chunk):
            if cutter.in_first_array or _JOBS.search(value):
                yield value, number
    if cutter.in_first_array:  # the file is truncated
        yield from cutter.close()


def cut_json(chunks: Iterable[bytes], bytes_max: int, line: int = 1) -> Iterator[tuple[bytes, int]]:
    """Yield the JSON values of a stream that begins on line `line`, each with the number of its first line; see `JsonCutter`.

    >>> list(cut_json([b'{"a":', b' "]"}', bytes([10]), b"{}"], 100))
    [(b'{"a": "]"}', 1), (b'{}', 2)]
    """
    cutter = JsonCutter(bytes_max, line)
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.close()


Numbered = Iterator[tuple[bytes, int]]
"""Records of a file, each with the number of its first line, counted from 1."""


class TextFile(NamedTuple):
    """An open text file: its name, its first line, and all lines including the first."""

    name: str
    first: bytes
    lines: Numbered


class RecordFile(msgspec.Struct):
    """A recognised file: the name of its format, the decoder for slices of its records, and the records.

    A `remark` is a sentence for the user about an assumption of the reader, such as an unknown date.
    """

    format: str
    decode: DecodeSamples
    records: Numbered
    remark: str | None = None


STDIN: Final = "-"
CHUNK_BYTES: Final = 65_536
_GZIP: Final = b"\x1f\x8b"


_UTF_16: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
# UTF-16 without a byte order mark
_WIDE_LE, _WIDE_BE = re.compile(rb"[\t -~]\0[\t -~]\0"), re.compile(rb"\0[\t -~]\0[\t -~]")


class OpenSource:
    """The bytes of an open file, decompressed if the file is gzip, and converted to UTF-8 if it is UTF-16.

    Damaged data raise InvalidInputError (``file``).

    >>> OpenSource(io.BufferedReader(io.BytesIO(gzip.compress(b"812")))).readline(100)
    b'812'
    >>> OpenSource(io.BufferedReader(io.BytesIO("JobID".encode("utf-16")))).readline(100)
    b'JobID'
    """

    def __init__(self, stream: IO[bytes]) -> None:
        compressed = _ahead(stream, 2) == _GZIP
        plain: IO[bytes] = gzip.GzipFile(fileobj=stream) if compressed else stream  # type: ignore[assignment]  # has all methods of a reader of bytes that are used here
        self._fault: InvalidInputError | None = None
        try:
            encoding = _wide(_ahead(plain, 4))
        # the first read reports the error, because a job archive has many files
        except (OSError, EOFError, zlib.error) as error:
            encoding, self._fault = None, _damaged(error)
        self._stream = plain if encoding is None else io.BufferedReader(_AsUtf8(plain, encoding))

    def readline(self, bytes_max: int) -> bytes:
        """Return the next line with its line end, at most `bytes_max` bytes; empty at the end of the file."""
        return self._taken(self._stream.readline, bytes_max)

    def read(self, bytes_max: int) -> bytes:
        """Return the next bytes, at most `bytes_max`; empty at the end of the file."""
        return self._taken(self._stream.read, bytes_max)

    def _taken(self, read: Callable[[int], bytes], bytes_max: int) -> bytes:
        if self._fault is not None:
            raise self._fault
        try:
            return read(bytes_max)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(error) from None


class _AsUtf8(io.RawIOBase):
    """A UTF-16 stream converted to UTF-8 without its byte order mark."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._ready = b""
        self._begun = self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            chunk = self._stream.read(CHUNK_BYTES)
            self._ended = not chunk
            text = self._decoder.decode(chunk, final=self._ended)
            self._ready = (text if self._begun else text.removeprefix("\ufeff")).encode(errors="replace")
            self._begun = self._begun or bool(text)
        view = memoryview(buffer)
        taken, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(taken)] = taken
        return len(taken)


def _ahead(stream: IO[bytes], count: int) -> bytes:
    """Return up to `count` next bytes without consuming them; empty if the stream has no `peek`."""
    peek = getattr(stream, "peek", None)
    return b"" if peek is None else bytes(peek(count)[:count])


def _wide(start: bytes) -> str | None:
    """Return the name of the UTF-16 variant of a text, from its first bytes; None for other encodings."""
    if start[:2] in _UTF_16:
        return _UTF_16[start[:2]]
    return "utf-16-le" if _WIDE_LE.match(start) else "utf-16-be" if _WIDE_BE.match(start) else None


@contextmanager
def open_source(path: str) -> Iterator[OpenSource]:
    """Open a file, or standard input for `-`. Raise ConfigError if the file cannot be opened."""
    with ExitStack() as stack:
        try:
            stream = sys.stdin.buffer if path == STDIN else stack.enter_context(open(path, "rb"))  # noqa: PTH123 - `-` is not a path
            source = OpenSource(stream)
        except OSError as error:
            raise ConfigError(f"The file {path} cannot be read: {error.strerror}.") from None
        yield source


def _damaged(error: Exception) -> InvalidInputError:
    if isinstance(error, EOFError):
        return invalid("file", "The compressed file ends too early, as after a copy that broke off; copy it again.")
    return invalid("file", f"The file is damaged: {str(error)[:80] or type(error).__name__}.")
