"""Files to be read, plain or compressed; what is wrong with them has its reason."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Final

from agent.contracts.errors import ConfigError, InvalidInputError
from agent.decode.reasons import invalid

STDIN: Final = "-"
_GZIP: Final = b"\x1f\x8b"


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


def _damaged(error: Exception) -> InvalidInputError:
    return invalid("file", f"The file is damaged: {str(error)[:80] or type(error).__name__}.")
