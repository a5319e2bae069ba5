"""Output messages as records of their topics: bytes that depend on the message alone."""

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from processors.contracts.events import DeadLetter
from processors.contracts.names import ApplicationKey, job_key
from processors.contracts.outputs import Alert, Answer, Emission, JobPrediction, Prediction, Run

Kind = Literal["predictions", "job_predictions", "answers", "alerts", "runs", "deadletters"]
Output = Prediction | JobPrediction | Answer | Alert | Run | DeadLetter

KINDS: Final[tuple[Kind, ...]] = ("predictions", "job_predictions", "answers", "alerts", "runs", "deadletters")
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")  # a dict's order of insertion must not show


def _application_id(message: Prediction) -> str:
    return ApplicationKey(message.application, message.system, message.input, message.unit).id


def _job(message: JobPrediction) -> str:
    return job_key(message.system, message.job_id)


_ROUTES: Final[dict[type, tuple[Kind, Callable[..., str]]]] = {
    Prediction: ("predictions", _application_id),
    JobPrediction: ("job_predictions", _job),
    Answer: ("answers", lambda message: str(message.request_id)),
    Alert: ("alerts", lambda message: str(message.fingerprint)),
    Run: ("runs", lambda message: str(message.run_id)),
    DeadLetter: ("deadletters", lambda message: str(message.id)),
}


def encode(message: Output) -> bytes:
    """Return the JSON of a message on one line; equal messages give equal bytes.

    Fields keep the order of the schema, keys of maps are sorted, numbers that are not finite become null.
    """
    return _ENCODER.encode(message)


def emission(message: Output) -> Emission:
    """Return the record of a message: the kind of its topic, its key and its bytes."""
    kind, key = _ROUTES[type(message)]
    return Emission(kind=kind, key=key(message), value=encode(message))


def tombstone(kind: str, key: str) -> Emission:
    """Return the record that removes a key from a compacted topic; ValueError where there is no such kind."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of output; the kinds are {', '.join(KINDS)}.")
    return Emission(kind=kind, key=key, value=None)
