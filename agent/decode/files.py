"""Files of events of any format: opened, recognised by what they hold, and read record by record in constant memory."""

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Final

import msgspec

from agent.contracts.decoding import Decoded
from agent.contracts.errors import ConfigError, InvalidInputError
from agent.decode.options import DecodeOptions
from agent.decode.reasons import invalid
from agent.decode.recognise import RecordFile, recognise

STDIN: Final = "-"
_GZIP: Final = b"\x1f\x8b"


class FileRecord(msgspec.Struct):
    """One record of a file: where it stands (`file:line`), its bytes, and what it yields or why it is refused."""

    place: str
    format: str
    value: bytes
    decoded: Decoded
    error: InvalidInputError | None = None


class Source:
    """The bytes of an open file, plain or compressed with gzip; what is damaged becomes InvalidInputError (``file``).

    >>> import io
    >>> Source(io.BufferedReader(io.BytesIO(gzip.compress(b"812")))).readline(100)
    b'812'
    """

    def __init__(self, stream: IO[bytes]) -> None:
        peek = getattr(stream, "peek", None)
        compressed = peek is not None and peek(2)[:2] == _GZIP
        self._stream: IO[bytes] = gzip.GzipFile(fileobj=stream) if compressed else stream  # type: ignore[assignment]  # a reader of bytes by all that is used here

    def readline(self, bytes_max: int) -> bytes:
        """Return the next line with its end, at most `bytes_max` of it; empty at the end of the file."""
        try:
            return self._stream.readline(bytes_max)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(error) from None

    def read(self, bytes_max: int) -> bytes:
        """Return the next bytes, at most `bytes_max`; empty at the end of the file."""
        try:
            return self._stream.read(bytes_max)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(error) from None


def read_files(paths: Iterable[str], received_ms: int, options: DecodeOptions) -> Iterator[FileRecord]:
    """Return the records of files, decoded; `-` is standard input. What is refused comes with its place as well.

    Raises ConfigError where a file cannot be opened. A file that is damaged, or of an unknown format, gives one record
    with the error and ends there.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
    ...     _ = file.write(b'{"type": "identity", "system": "exa", "job_id": 8, "source": "xalt"}')
    ...     file.flush()
    ...     [record.decoded.events[0].job_id for record in read_files([file.name], 1795170700000, DecodeOptions())]
    ['8']
    """
    for path in paths:
        with open_source(path) as source:
            yield from read_source(path, source, received_ms, options)


@contextmanager
def open_source(path: str) -> Iterator[Source]:
    """Open a file, or standard input for `-`; ConfigError where that fails.

    >>> with open_source("no/such/file"):
    ...     pass
    Traceback (most recent call last):
    agent.contracts.errors.ConfigError: The file no/such/file cannot be read: No such file or directory.
    """
    with ExitStack() as stack:
        try:
            stream = sys.stdin.buffer if path == STDIN else stack.enter_context(open(path, "rb"))  # noqa: PTH123 - `-` is none
            source = Source(stream)
        except OSError as error:
            raise ConfigError(f"The file {path} cannot be read: {error.strerror}.") from None
        yield source


def read_source(name: str, source: Source, received_ms: int, options: DecodeOptions) -> Iterator[FileRecord]:
    """Return the records of one open file, called `name` in their places.

    >>> import io
    >>> [(record.place, record.error.reason) for record in read_source("in", Source(io.BytesIO(b"{}")), 0, DecodeOptions())]
    [('in:1', 'unknown-format')]
    """
    line, format_name = 0, ""
    try:
        opened = recognise(source, options)
        format_name = opened.format
        for value, line in opened.records:
            yield _record(f"{name}:{line}", opened, value, received_ms)
    except InvalidInputError as error:  # of reading; a decoder's errors are in the records
        yield FileRecord(place=f"{name}:{line + 1}", format=format_name, value=b"", decoded=Decoded(), error=error)


def _record(place: str, opened: RecordFile, value: bytes, received_ms: int) -> FileRecord:
    try:
        decoded = opened.decode(value, received_ms)
    except InvalidInputError as error:
        return FileRecord(place=place, format=opened.format, value=value, decoded=Decoded(), error=error)
    return FileRecord(place=place, format=opened.format, value=value, decoded=decoded)


def _damaged(error: Exception) -> InvalidInputError:
    return invalid("file", f"The file is damaged: {str(error)[:80] or type(error).__name__}.")
