"""Emissions as JSON-lines files, one per output topic, which a replay writes."""

from collections.abc import Iterable
from contextlib import ExitStack
from os import fsync
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec

from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.outputs import Emission
from sinks.topics import KINDS

_ENCODER: Final = msgspec.json.Encoder()
_NULL: Final = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    key: str
    value: msgspec.Raw


def file_name(kind: str) -> str:
    return f"{kind.replace('_', '-')}.jsonl"


def line(record: Emission) -> bytes:
    """Return the line of a record with its key and value, null for a tombstone."""
    value = _NULL if record.value is None else msgspec.Raw(record.value)
    return _ENCODER.encode(_Line(record.key, value)) + b"\n"


class JsonLines:
    """A folder of JSON-lines files, one per kind of output; kinds without records have empty files.

    Use it as a context manager. Files are named `.partial` until the block ends without an error, so a file with its final name
    is complete. A block that fails before it wrote anything leaves no files. Raises ConfigError if the folder cannot be written
    at the start, UnavailableError later.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._new = False
        self._open = ExitStack()
        self._files: dict[str, BinaryIO] = {}
        self.written: dict[str, int] = dict.fromkeys(KINDS, 0)

    def __enter__(self) -> Self:
        try:
            self._new = not self._folder.exists()
            self._folder.mkdir(parents=True, exist_ok=True)
            for kind in KINDS:
                self._files[kind] = self._open.enter_context(self._partial(kind).open("wb"))
        except OSError as error:
            self._open.close()
            raise ConfigError(f"The folder {self._folder} cannot be written: {error.strerror}.") from error
        return self

    def write(self, records: Iterable[Emission]) -> None:
        try:
            for record in records:
                self._files[record.kind].write(line(record))
                self.written[record.kind] += 1
        except OSError as error:
            raise self._unavailable(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            with self._open:
                if kind is None:
                    self._sync()
            if kind is None:
                self._rename()
            elif not any(self.written.values()):
                self._remove()
        except OSError as problem:
            raise self._unavailable(problem) from problem

    def _sync(self) -> None:
        for file in self._files.values():
            file.flush()
            fsync(file.fileno())  # a name must never appear before its content

    def _rename(self) -> None:
        for kind in KINDS:
            self._partial(kind).replace(self._folder / file_name(kind))

    def _remove(self) -> None:
        for kind in KINDS:
            self._partial(kind).unlink(missing_ok=True)
        if self._new and not any(self._folder.iterdir()):
            self._folder.rmdir()

    def _partial(self, kind: str) -> Path:
        return self._folder / f"{file_name(kind)}.partial"

    def _unavailable(self, error: OSError) -> UnavailableError:
        return UnavailableError(f"The files of {self._folder} cannot be written: {error.strerror}.")
