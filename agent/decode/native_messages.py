"""The messages of native events as structs, and the two ways to read one.

The fast path decodes into a struct of the known fields. A count of the keys in the bytes then tells whether there is
anything else: only such messages are decoded a second time, to count unknown fields and to find keys named twice.
"""

from datetime import datetime
from typing import Annotated, Any, Final, get_args

import msgspec

from agent.contracts.errors import InvalidInputError
from agent.decode.checks import HOSTS_MAX, Count, Path, Script, Seconds, Text, has_control
from agent.decode.message import JSON_ERRORS, json_error, refuse_duplicate_keys
from agent.decode.native_network import Features, NetworkTold
from agent.decode.reasons import invalid, shown

LATER_TYPES: Final = ("load", "counters", "power", "host.state")  # telemetry: known, not decoded here
ATTRIBUTES_MAX: Final = 32
REQUESTED_SIZES_MAX: Final = 256
HOST_LISTS_MAX: Final = 65_536

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Id = _Name | Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Value = Text | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float | bool
_Attributes = Annotated[dict[_Name, _Value], msgspec.Meta(max_length=ATTRIBUTES_MAX)]
_HostList = Annotated[str, msgspec.Meta(max_length=HOSTS_MAX)]
_Sizes = Annotated[list[Count], msgspec.Meta(min_length=1, max_length=REQUESTED_SIZES_MAX)]


class Facts(msgspec.Struct, kw_only=True):
    """What every native event may say about a job."""

    system: _Name
    application: Text | None = None
    input: Text | None = None
    executable: Path | None = None
    module: Text | None = None
    container: Path | None = None
    job_name: Text | None = None
    user: Text | None = None
    account: Text | None = None
    partition: Text | None = None
    qos: Text | None = None
    work_dir: Path | None = None
    script: Script | None = None
    comment: Path | None = None
    hosts: Annotated[list[_HostList], msgspec.Meta(max_length=HOST_LISTS_MAX)] | None = None
    time_limit_s: Seconds | None = None
    submit: datetime | None = None
    exclusive: bool | None = None
    array_job_id: _Id | None = None
    attributes: _Attributes | None = None


class Started(Facts, tag_field="type", tag="job.started", kw_only=True):
    """A job began to run."""

    job_id: _Id
    start: datetime
    n: Count | None = None
    unit: Text | None = None


class Completed(Facts, tag_field="type", tag="job.completed", kw_only=True):
    """A run ended."""

    job_id: _Id
    n: Count | None = None
    unit: Text | None = None
    start: datetime | None = None
    end: datetime | None = None
    run_time_s: Seconds | None = None
    state: Text | None = None
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)] | None = None
    failed_host: Text | None = None


class Identified(Facts, tag_field="type", tag="identity", kw_only=True):
    """Another source says what a job runs."""

    job_id: _Id
    source: _Name


class Requested(Facts, tag_field="type", tag="prediction.requested", kw_only=True):
    """A question about run times."""

    request_id: _Id
    n: Count | _Sizes
    unit: Text | None = None
    features: Features | None = None


NativeMessage = Started | Completed | Identified | Requested | NetworkTold


_FREE_TEXT = ("script", "comment")  # several lines are their nature


class _Type(msgspec.Struct):
    type: str


_DECODER = msgspec.json.Decoder(NativeMessage)
_TYPE = msgspec.json.Decoder(_Type)
_ANY = msgspec.json.Decoder(dict[str, Any])
_KNOWN: dict[type, frozenset[str]] = {
    kind: frozenset(("type", *kind.__struct_fields__)) for kind in get_args(NativeMessage)
}


def read_native(value: bytes) -> tuple[NativeMessage, int]:
    """Return the message of one JSON object and how many fields it has that are not known.

    Raises InvalidInputError for whatever is no such object, also where a text has control characters.

    >>> message, unknown = read_native(b'{"type": "identity", "system": "exa", "job_id": 812, "source": "xalt", "x": 1}')
    >>> message.job_id, unknown
    (812, 1)
    """
    try:
        message = _DECODER.decode(value)
    except JSON_ERRORS as error:
        raise _refusal(value, error) from None
    unknown_fields = _unknown_fields(value, message)
    if not value.isascii() or b"\\" in value or b"\x7f" in value:  # else no control character can be in it
        _refuse_control(message)
    return message, unknown_fields


def _unknown_fields(value: bytes, message: NativeMessage) -> int:
    # Every key is followed by a colon, and a quote that ends a string is not: without white space `":` counts the
    # keys, or more. No surplus over what the struct holds means no unknown field and no key named twice.
    keys = value.translate(None, b" \t\r\n").count(b'":')
    known = 1 + (message.keys if isinstance(message, NetworkTold) else _keys_of(message))
    return 0 if keys == known else _count_unknown(value, _KNOWN[type(message)], keys)


def _keys_of(message: Facts) -> int:
    fields = msgspec.structs.astuple(message)
    features = (message.features if isinstance(message, Requested) else None) or ()
    return len(fields) - fields.count(None) + len(message.attributes or ()) + len(features)


def _count_unknown(value: bytes, known: frozenset[str], keys: int) -> int:
    try:
        fields = _ANY.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if keys != len(fields) + sum(len(field) for field in fields.values() if isinstance(field, dict)):
        refuse_duplicate_keys(value)
    return len(fields.keys() - known)


def _refusal(value: bytes, error: Exception) -> InvalidInputError:
    if "at `$.type`" not in str(error):
        return json_error(error)
    try:
        type_ = _TYPE.decode(value).type
    except JSON_ERRORS as type_error:
        return json_error(type_error)
    if type_ in LATER_TYPES:
        return invalid("unsupported-type", f"Events of type {type_} are telemetry, which is not read as job events.")
    return invalid("unknown-type", f"There is no event of type {shown(type_)}.")


def _refuse_control(message: NativeMessage) -> None:  # of features `network_event` tells the same
    for name, text in zip(message.__struct_fields__, msgspec.structs.astuple(message), strict=True):
        if isinstance(text, str) and name not in _FREE_TEXT and has_control(text):
            raise invalid("text", f"The {name} {shown(text)} has control characters.")
    if isinstance(message, NetworkTold):
        return
    texts = list(message.hosts or ())
    for key, value in (message.attributes or {}).items():
        texts += (key, value) if isinstance(value, str) else (key,)
    if isinstance(message, Requested):
        texts += message.features or ()
    if any(has_control(text) for text in texts):
        raise invalid("text", "A host, an attribute or a feature has control characters.")
