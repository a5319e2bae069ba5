"""Native events: one JSON object with a `type`, or an array of such objects."""

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, get_args

import msgspec

from agent.decode.fields import (
    HOSTS_MAX,
    PATH_MAX,
    TEXT_MAX,
    Count,
    Path,
    Script,
    Seconds,
    Text,
    check_bounds,
    free_text,
    moment_ms,
    refuse_control,
    run_identity,
)
from agent.decode.mapping import MAPPING_MAX, NO_RANKS, RANKS_MAX, read_mapping
from agent.decode.message import (
    JSON_ERRORS,
    DecodeOne,
    DecodeOptions,
    invalid,
    json_error,
    refuse_duplicate_keys,
    shown,
    whole,
)
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import (
    NOTHING_EXCHANGED,
    STATES,
    SUCCESS,
    UNITS,
    Decode,
    Decoded,
    Evidence,
    Identity,
    JobCompleted,
    JobEvent,
    JobStarted,
    Network,
    PredictionRequested,
)

FEATURES_MAX: Final = 64
ARRAYS: Final = ("features", "links", "messages", "fifo_messages", "mapping")
"""The fields of which an event has one at least."""
HOST_LISTS_MAX: Final = 65_536
NUMBERS_MAX: Final = 16_384  # of all arrays of one event, so that it fits into a record of the journal

_FeatureName = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_MAX)]
_Id = _FeatureName | Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_FINITE_MAX: Final = sys.float_info.max
# bounds, because a decoder that takes "7" for 7 takes "nan" and "inf" for numbers, which the journal cannot hold
_Finite = Annotated[float, msgspec.Meta(ge=-_FINITE_MAX, le=_FINITE_MAX)]
Features = Annotated[dict[_FeatureName, _Finite], msgspec.Meta(max_length=FEATURES_MAX)]
_Amounts = list[Annotated[float, msgspec.Meta(ge=0, le=_FINITE_MAX)]]
_HostList = Annotated[str, msgspec.Meta(max_length=HOSTS_MAX)]
_Ranks = list[Annotated[int, msgspec.Meta(ge=0, lt=RANKS_MAX)]]


class Links(msgspec.Struct):
    """Bytes, and buffered and received packets, of each link."""

    bytes: _Amounts
    buffered: _Amounts
    received: _Amounts


class Messages(msgspec.Struct, rename={"sender": "from", "receiver": "to"}):
    """Bytes of each message, with its hops or, if there is a mapping, with the ranks of its sender and receiver."""

    bytes: _Amounts
    hops: _Amounts | None = None
    sender: _Ranks | None = None
    receiver: _Ranks | None = None


class Mapping(msgspec.Struct):
    """A rank file; `hosts` and `ranks_per_host` accompany a file that lists only the order of the ranks."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAPPING_MAX)]
    hosts: Annotated[list[_HostList], msgspec.Meta(max_length=HOST_LISTS_MAX)] | None = None
    ranks_per_host: Annotated[int, msgspec.Meta(ge=1, le=RANKS_MAX)] | None = None


class NetworkReport(msgspec.Struct, tag_field="type", tag="network", kw_only=True):
    """Network activity of a job: features; or links, messages and the messages of each injection queue; or the placement of its ranks."""

    system: _FeatureName
    job_id: _Id
    time: datetime
    features: Features | None = None
    links: Links | None = None
    messages: Messages | None = None
    fifo_messages: _Amounts | None = None
    mapping: Mapping | None = None

    @property
    def keys(self) -> int:
        """The number of keys in all its objects, without `type`."""
        given = sum(getattr(self, name) is not None for name in ARRAYS)
        within = len(self.features or ()) + 3 * (self.links is not None)
        within += sum(_given(each) for each in (self.messages, self.mapping) if each is not None)
        return 3 + given + within


def network_event(reported: NetworkReport, received_ms: int, options: DecodeOptions) -> Network:
    """Return the event of a report. Raise InvalidInputError if the lengths of its arrays differ or it holds too many numbers.

    >>> moment = datetime.fromisoformat("2026-11-20T10:31:12Z")
    >>> told = NetworkReport(system="exa", job_id="812", time=moment, features={"max_fifo": 5.0})
    >>> network_event(told, 1795170700000, DecodeOptions()).identity
    'network:exa/812@1795170672000'
    """
    if reported.keys == 3:  # the system, the job and the time alone
        raise invalid("missing-field", "The event needs features, links, messages, fifo_messages or a mapping.")
    links = () if reported.links is None else (reported.links.bytes, reported.links.buffered, reported.links.received)
    messages, exchanged = _messages(reported)
    queues = reported.fifo_messages or []
    if any(len({len(column) for column in columns}) > 1 for columns in (links, messages, exchanged)):
        raise invalid("columns", "Each link, and each message, needs all of its numbers.")
    numbers = sum(map(len, (*links, *messages, *exchanged, queues)))
    if numbers > NUMBERS_MAX:
        raise invalid(
            "out-of-range", f"The event has {numbers} numbers; {NUMBERS_MAX} are allowed: send features instead."
        )
    for name in reported.features or ():
        refuse_control(name, "feature")
    time_ms = moment_ms(reported.time)
    check_bounds(time_ms, time_ms, received_ms, options)
    mapping = reported.mapping
    ranks = NO_RANKS if mapping is None else read_mapping(mapping.text, mapping.hosts or (), mapping.ranks_per_host)
    if exchanged and max(map(max, exchanged[:2]), default=-1) >= len(ranks.ranks):
        raise invalid("out-of-range", "The messages name ranks that are not in the mapping.")
    return Network(
        system=reported.system,
        job_id=str(reported.job_id),
        time_ms=time_ms,
        features=reported.features or {},
        links=_columns(links, 3),  # type: ignore[arg-type]  # three of them
        messages=_columns(messages, 2),  # type: ignore[arg-type]  # two of them
        fifo_messages=tuple(queues),
        hosts=ranks.hosts,
        ranks=ranks.ranks,
        exchanged=_columns(exchanged, 3) if exchanged else NOTHING_EXCHANGED,  # type: ignore[arg-type]  # three of them
    )


def _given(part: msgspec.Struct) -> int:
    fields = msgspec.structs.astuple(part)
    return len(fields) - fields.count(None)


def _messages(reported: NetworkReport) -> tuple[tuple[list[float], ...], tuple[list[Any], ...]]:
    """Return the columns of messages with hops, or of messages between ranks. Raise InvalidInputError for other combinations."""
    sent = reported.messages
    if sent is None:
        return (), ()
    if sent.hops is not None and sent.sender is None and sent.receiver is None:
        return (sent.hops, sent.bytes), ()
    if sent.hops is None and sent.sender is not None and sent.receiver is not None and reported.mapping is not None:
        return (), (sent.sender, sent.receiver, sent.bytes)
    raise invalid("missing-field", "Messages need hops, or from and to and a mapping, and not both.")


def _columns(columns: tuple[list[float], ...], count: int) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, columns)) or ((),) * count


# The messages of native events as structs, and the two ways to read one.
# The fast path decodes into a struct of the known fields. A count of the keys in the bytes then tells whether there is
# anything else: only such messages are decoded a second time, to count unknown fields and to find keys named twice.
LATER_TYPES: Final = ("load", "counters", "power", "host.state")  # telemetry: known, not decoded here
ATTRIBUTES_MAX: Final = 32
REQUESTED_SIZES_MAX: Final = 256

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Value = Text | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float | bool
_Attributes = Annotated[dict[_Name, _Value], msgspec.Meta(max_length=ATTRIBUTES_MAX)]
_Sizes = Annotated[list[Count], msgspec.Meta(min_length=1, max_length=REQUESTED_SIZES_MAX)]


class Facts(msgspec.Struct, kw_only=True):
    """Fields that every native event about a job may have."""

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
    reservation: Text | None = None
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
    """A job started."""

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
    """Another source reports the application of a job."""

    job_id: _Id
    source: _Name


class Requested(Facts, tag_field="type", tag="prediction.requested", kw_only=True):
    """A request for predicted run times."""

    request_id: _Id
    n: Count | _Sizes
    unit: Text | None = None
    features: Features | None = None


NativeMessage = Started | Completed | Identified | Requested | NetworkReport

_IDENTITIES = ("system", "job_id", "array_job_id", "request_id", "source", "failed_host", "unit", "state")
_LINES = ("script", "comment")  # which may hold line feeds


class _Type(msgspec.Struct):
    type: str


_DECODER = msgspec.json.Decoder(NativeMessage, strict=False)  # stream processors write 7 as 7.0 or "7"
_TYPE = msgspec.json.Decoder(_Type)
_ANY = msgspec.json.Decoder(dict[str, Any])
_KNOWN: dict[type, frozenset[str]] = {
    kind: frozenset(("type", *kind.__struct_fields__)) for kind in get_args(NativeMessage)
}


def read_native(value: bytes) -> tuple[NativeMessage, int]:
    """Return the message of one JSON object and the number of its unknown fields.

    Raise InvalidInputError for other input, and for control characters in names of systems, jobs and hosts. In other
    texts control characters become spaces.

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
        _clean(message)
    return message, unknown_fields


def _unknown_fields(value: bytes, message: NativeMessage) -> int:
    # Every key is followed by a colon, and a quote that ends a string is not: without white space `":` counts the
    # keys, or more. No surplus over what the struct holds means no unknown field and no key named twice.
    keys = value.translate(None, b" \t\r\n").count(b'":')
    known = 1 + (message.keys if isinstance(message, NetworkReport) else _keys_of(message))
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


def _clean(message: NativeMessage) -> None:  # of features `network_event` tells the same
    for name, text in zip(message.__struct_fields__, msgspec.structs.astuple(message), strict=True):
        if isinstance(text, str) and (name in _IDENTITIES or isinstance(message, NetworkReport)):
            refuse_control(text, name)
        elif isinstance(text, str) and name not in _LINES:
            setattr(message, name, free_text(text, PATH_MAX))
    if isinstance(message, NetworkReport):
        return
    for host in message.hosts or ():
        refuse_control(host, "host")
    for feature in (message.features if isinstance(message, Requested) else None) or ():
        refuse_control(feature, "feature")
    if message.attributes:
        message.attributes = {
            free_text(name) or name: (free_text(value) or "") if isinstance(value, str) else value
            for name, value in message.attributes.items()
        }


def native_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of native messages.

    A job.completed needs `n` and `unit`, its start or its end, and `run_time_s` unless it has both times. Without a `state`,
    the state is COMPLETED, or FAILED if the exit code is not 0.

    >>> decode = native_decoder(DecodeOptions())
    >>> message = b'{"type": "job.completed", "system": "exa", "job_id": "812", "n": 64, "unit": "nodes"'
    >>> decoded = decode(message + b', "end": "2026-11-20T10:31:12Z", "run_time_s": 1872}', 1795170700000)
    >>> decoded.events[0].run_id, decoded.events[0].evidence.sizes
    ('exa/812@1795168800000', {'nodes': 64.0})
    """
    return whole(native_object(options), options)


def native_object(options: DecodeOptions) -> DecodeOne:
    """Return the decoder of one native object; see `native_decoder`.

    >>> decoded = Decoded()
    >>> native_object(DecodeOptions())(
    ...     b'{"type": "identity", "system": "exa", "job_id": "812", "source": "xalt", "module": "lammps"}', 0, decoded
    ... )
    >>> decoded.events[0].evidence.module
    'lammps'
    """

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        message, unknown_fields = read_native(value)
        decoded.events.append(_EVENTS[type(message)](message, received_ms, options))
        decoded.unknown_fields += unknown_fields

    return decode_one


def _started(message: Started, received_ms: int, options: DecodeOptions) -> JobStarted:
    start_ms = moment_ms(message.start)
    check_bounds(start_ms, start_ms, received_ms, options)
    job_id = str(message.job_id)
    return JobStarted(
        system=message.system,
        job_id=job_id,
        run_id=run_identity(message.system, job_id, start_ms),
        start_ms=start_ms,
        evidence=_evidence(message, _sizes(message), options),
    )


def _completed(message: Completed, received_ms: int, options: DecodeOptions) -> JobCompleted:
    sizes = _sizes(message)
    if not sizes:
        raise invalid("missing-field", "A completed job needs n and unit.")
    start_ms, end_ms, run_time_s = _times(message)
    check_bounds(start_ms, end_ms, received_ms, options)
    job_id = str(message.job_id)
    return JobCompleted(
        system=message.system,
        job_id=job_id,
        run_id=run_identity(message.system, job_id, start_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        run_time_s=run_time_s,
        state=_state(message, run_time_s),
        evidence=_evidence(message, sizes, options),
        exit_code=message.exit_code,
        failed_host=message.failed_host,
    )


def _identified(message: Identified, _received_ms: int, options: DecodeOptions) -> Identity:
    return Identity(
        system=message.system,
        job_id=str(message.job_id),
        source=message.source,
        evidence=_evidence(message, {}, options),
    )


def _requested(message: Requested, _received_ms: int, options: DecodeOptions) -> PredictionRequested:
    return PredictionRequested(
        system=message.system,
        request_id=str(message.request_id),
        n=tuple(message.n) if isinstance(message.n, list) else (message.n,),
        evidence=_evidence(message, {}, options),
        unit=None if message.unit is None else _unit(message.unit),
        features=message.features or {},
    )


_EVENTS: Final[dict[type, Callable[[Any, int, DecodeOptions], JobEvent]]] = {
    Started: _started,
    Completed: _completed,
    Identified: _identified,
    Requested: _requested,
    NetworkReport: network_event,
}


def _evidence(message: Facts, sizes: dict[str, float], options: DecodeOptions) -> Evidence:
    hosts = message.hosts
    if hosts and len(hosts) > 1 and sum(map(len, hosts)) > HOSTS_MAX:
        raise invalid("hosts", f"The hosts have more than {HOSTS_MAX} characters; send them as host lists.")
    return Evidence(
        sizes=sizes,
        application=message.application or None,
        input=message.input or None,
        executable=message.executable or None,
        module=message.module or None,
        container=message.container or None,
        job_name=message.job_name or None,
        user=message.user or None,
        account=message.account or None,
        partition=message.partition or None,
        qos=message.qos or None,
        reservation=message.reservation or None,
        work_dir=message.work_dir if options.keep.paths else None,
        script=message.script if options.keep.script else None,
        comment=message.comment if options.keep.comment else None,
        hosts=tuple(hosts) if hosts else (),
        time_limit_s=message.time_limit_s or None,
        submit_ms=None if message.submit is None else moment_ms(message.submit),
        exclusive=message.exclusive,
        array_job_id=None if message.array_job_id is None else str(message.array_job_id),
        attributes=message.attributes or {},
    )


def _sizes(message: Started | Completed) -> dict[str, float]:
    if message.n is None and message.unit is None:
        return {}
    if message.n is None or message.unit is None:
        raise invalid("missing-field", "n and unit belong together, and one of them is missing.")
    return {_unit(message.unit): message.n}


def _unit(unit: str) -> str:
    if unit not in UNITS:
        raise invalid("unit", f"The unit {shown(unit)} is not one of {', '.join(UNITS)}.")
    return unit


def _times(message: Completed) -> tuple[int, int, float]:
    start_ms = None if message.start is None else moment_ms(message.start)
    end_ms = None if message.end is None else moment_ms(message.end)
    run_time_s = message.run_time_s
    if start_ms is None and end_ms is None:
        raise invalid("missing-field", "A completed job needs its start or its end: they identify the run.")
    if run_time_s is None:
        if start_ms is None or end_ms is None:
            raise invalid("missing-field", "A completed job needs run_time_s, or start and end.")
        run_time_s = (end_ms - start_ms) / 1000
    if start_ms is None:
        start_ms = (end_ms or 0) - round(run_time_s * 1000)
    if end_ms is None:
        end_ms = start_ms + round(run_time_s * 1000)
    if end_ms < start_ms:
        raise invalid("out-of-range", "The end is before the start.")
    return start_ms, end_ms, run_time_s


def _state(message: Completed, run_time_s: float) -> str:
    state = message.state
    if state is None:
        state = "FAILED" if message.exit_code else SUCCESS
    if state not in STATES:
        raise invalid("state", f"The state {shown(state)} is not one of {', '.join(STATES)}.")
    if state == SUCCESS and run_time_s <= 0:
        raise invalid("out-of-range", "A completed run takes more than 0 s.")
    return state
