"""Output messages as records of their topics, with bytes that depend only on the message; and the reverse.

A topic may hold unreadable records: of another version, of another program, or edited by hand. Every reader calls `record` or
`decoded` first and skips such records, so that they do not cost the reader the others.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import msgspec

from processors.contracts.errors import InvalidInputError
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

KINDS: Final[tuple[Kind, ...]] = ("predictions", "job_predictions", "answers", "alerts", "runs", "hosts", "deadletters")
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")  # the insertion order of a dict must not show


def _application_id(message: Prediction) -> str:
    return ApplicationKey(message.application, message.system, message.input, message.unit).id


def _job(message: JobPrediction) -> str:
    return job_key(message.system, message.job_id)


_ROUTES: Final[dict[type, tuple[Kind, Callable[..., str]]]] = {
    Prediction: ("predictions", _application_id),
    JobPrediction: ("job_predictions", _job),
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
    """Return the record of a message: kind of topic, key and bytes."""
    kind, key = _ROUTES[type(message)]
    return Emission(kind=kind, key=key(message), value=encode(message))


def tombstone(kind: str, key: str) -> Emission:
    """Return the record that removes a key from a compacted topic; ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of output; the kinds are {', '.join(KINDS)}.")
    return Emission(kind=kind, key=key, value=None)


UNREADABLE: Final = "unreadable"
BEFORE_ANY_TICK: Final = "1970-01-01T00:00:00"  # time of messages published before the first tick of the journal
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
    """Return the message of a record; InvalidInputError if this version cannot read it.

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
    """Return a record of a topic as an emission; a value of None is a tombstone. InvalidInputError if it is unreadable."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        raise InvalidInputError(UNREADABLE, "The key is not UTF-8.") from None
    if value is not None:
        decoded(value, _TYPE_OF[kind])
    return Emission(kind=kind, key=text, value=value)


def _check_curve(message: Prediction) -> None:
    """Refuse a curve, and steps of ADEPT's study, that would make readers divide by zero."""
    for point in message.curve:
        if not (point.n > 0 and point.run_time_s > 0):
            raise InvalidInputError(
                UNREADABLE, f"The curve has a run time of {point.run_time_s:g} s at size {point.n:g}."
            )
    study = message.model.study
    if study is not None and not all(part.to_n > 0 for part in study.fluctuation):
        raise InvalidInputError(UNREADABLE, "A step of the study ends at size 0 or below.")


def _check_run(run: Run) -> None:
    """Raise the error of msgspec if the events in a settled run are malformed."""
    _COMPLETION.decode(run.event)
    for identity in run.identities:
        _IDENTITY.decode(identity)
