"""Output messages as records of their topics and as lines of files; equal messages are encoded as equal bytes.

A topic may hold unreadable records: of another version, of another program, or edited by hand. Every reader calls `record` or
`decoded` first and skips unreadable records.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from os import fsync
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Self, TypeVar, get_args

import msgspec

from processors.contracts.errors import ConfigError, InvalidInputError, UnavailableError
from processors.contracts.events import DeadLetter, Identity, JobCompleted
from processors.contracts.names import ApplicationKey, job_key, parse_rfc3339
from processors.contracts.outputs import (
    SCHEMAS,
    TIMES,
    Alert,
    Answer,
    Emission,
    HostReport,
    JobPrediction,
    Prediction,
    Run,
)

Kind = Literal["predictions", "job_predictions", "answers", "alerts", "runs", "hosts", "deadletters"]
Output = Prediction | JobPrediction | Answer | Alert | Run | HostReport | DeadLetter

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")  # independent of the insertion order of dicts


_ROUTES: Final[dict[type, tuple[Kind, Callable[..., str]]]] = {
    Prediction: (
        "predictions",
        lambda entry: ApplicationKey(entry.application, entry.system, entry.input, entry.unit).id,
    ),
    JobPrediction: ("job_predictions", lambda message: job_key(message.system, message.job_id)),
    Answer: ("answers", lambda message: str(message.request_id)),
    Alert: ("alerts", lambda message: str(message.fingerprint)),
    HostReport: ("hosts", lambda message: job_key(message.system, message.host)),
    Run: ("runs", lambda message: str(message.run_id)),
    DeadLetter: ("deadletters", lambda message: str(message.id)),
}


def encode(message: Output) -> bytes:
    """Return the JSON of a message on one line; equal messages give equal bytes.

    Fields keep the order of the schema, keys of maps are sorted, and numbers that are not finite become null.
    """
    return _ENCODER.encode(message)


def emission(message: Output) -> Emission:
    kind, key = _ROUTES[type(message)]
    return Emission(kind=kind, key=key(message), value=encode(message))


def tombstone(kind: str, key: str) -> Emission:
    """Return the record that removes a key from a compacted topic; raise ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of output; the kinds are {', '.join(KINDS)}.")
    return Emission(kind=kind, key=key, value=None)


UNREADABLE: Final = "unreadable"
BEFORE_ANY_TICK: Final = "1970-01-01T00:00:00"  # time in messages published before the first tick of the journal
_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {type_: msgspec.json.Decoder(type_) for type_ in _ROUTES}
_SCHEMA_OF: Final[dict[type, str]] = {type_: name for name, type_ in SCHEMAS.items()}
_TYPE_OF: Final = {kind: type_ for type_, (kind, _) in _ROUTES.items()}
_TIMES_OF: Final = {
    type_: tuple(field.name for field in msgspec.structs.fields(type_) if field.name in TIMES) for type_ in _ROUTES
}
_COMPLETION: Final = msgspec.json.Decoder(JobCompleted)
_IDENTITY: Final = msgspec.json.Decoder(Identity)
M = TypeVar("M", bound=Output)


def decoded(value: bytes, of: type[M]) -> M:
    """Return the message of a record; raise InvalidInputError if this version cannot read it.

    Unknown fields come from a later version and are ignored.
    """
    try:
        message: M = _DECODERS[of].decode(value)
        if isinstance(message, Run):
            _check_run(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(UNREADABLE, f"{error}.") from None
    if message.schema != _SCHEMA_OF[of]:
        raise InvalidInputError(UNREADABLE, f"The schema is {message.schema[:64]!a}, not {_SCHEMA_OF[of]}.")
    for name in _TIMES_OF[of]:
        text = getattr(message, name)
        if text is not None and not text.startswith(BEFORE_ANY_TICK):
            parse_rfc3339(text)
    if isinstance(message, Prediction):
        _check_curve(message)
    return message


def record(kind: Kind, key: bytes | None, value: bytes | None) -> Emission:
    """Return the output record with a raw key and value; None is a tombstone. Raise InvalidInputError if this version cannot read it."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        raise InvalidInputError(UNREADABLE, "The key is not UTF-8.") from None
    if value is not None:
        decoded(value, _TYPE_OF[kind])
    return Emission(kind=kind, key=text, value=value)


def _check_curve(message: Prediction) -> None:
    """Raise InvalidInputError if a size or a run time of the curve, or a size of ADEPT's study, is not positive: readers divide by them."""
    for point in message.curve:
        if not (point.n > 0 and point.run_time_s > 0):
            raise InvalidInputError(
                UNREADABLE, f"The curve has a run time of {point.run_time_s:g} s at size {point.n:g}."
            )
    study = message.model.study
    if study is not None and not all(part.to_n > 0 for part in study.fluctuation):
        raise InvalidInputError(UNREADABLE, "A step of the study ends at size 0 or below.")


def _check_run(run: Run) -> None:
    """Raise msgspec's error if the events in a settled run are malformed."""
    _COMPLETION.decode(run.event)
    for identity in run.identities:
        _IDENTITY.decode(identity)


_LINE_ENCODER: Final = msgspec.json.Encoder()
_NULL: Final = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    key: str
    value: msgspec.Raw


def file_name(kind: str) -> str:
    return f"{kind.replace('_', '-')}.jsonl"


def line(record: Emission) -> bytes:
    value = _NULL if record.value is None else msgspec.Raw(record.value)
    return _LINE_ENCODER.encode(_Line(record.key, value)) + b"\n"


class JsonLines:
    """A folder of JSON-lines files, one per kind of output; kinds without records have empty files.

    Use it as a context manager. Files are named `.partial` until the block ends without an error, so a file with its final name
    is complete. If the block fails before the first record, no files remain. Raise ConfigError if the folder cannot be created
    or opened, UnavailableError if a later write fails.
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
                for file in self._files.values() if kind is None else ():
                    file.flush()
                    fsync(file.fileno())  # a file name must never appear before its content
            for output in KINDS:
                if kind is None:
                    self._partial(output).replace(self._folder / file_name(output))
                elif not any(self.written.values()):
                    self._partial(output).unlink(missing_ok=True)
            if self._new and not any(self._folder.iterdir()):
                self._folder.rmdir()
        except OSError as problem:
            raise self._unavailable(problem) from problem

    def _partial(self, kind: str) -> Path:
        return self._folder / f"{file_name(kind)}.partial"

    def _unavailable(self, error: OSError) -> UnavailableError:
        return UnavailableError(f"The files of {self._folder} cannot be written: {error.strerror}.")
