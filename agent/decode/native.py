"""Native events: one JSON object with a `type`, or an array of JSON objects with a `type`."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple, get_args

import msgspec

from agent.decode.fields import (
    HOSTS_MAX,
    PATH_MAX,
    Count,
    ExitCode,
    HostList,
    JobId,
    Name,
    Path,
    Script,
    Seconds,
    Text,
    Times,
    check_bounds,
    completed_job,
    filled_times,
    free_text,
    has_control,
    moment_ms,
    refuse_control,
    started_job,
)
from agent.decode.message import (
    JSON_ERRORS,
    DecodeOptions,
    decode_json,
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
from processors.contracts.nodes import expand_all

RANKS_MAX: Final = 65_536
MAPPING_MAX: Final = 1 << 20  # maximum characters of a rank file
HOST_MAX: Final = 256
_RANK: Final = re.compile(r"rank\s+([0-9]{1,6})\s*=\s*([^\s]+)(?:\s+slots?\s*=.*)?", re.IGNORECASE)
_ORDER: Final = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:\s*,\s*[0-9]{1,6}(?:-[0-9]{1,6})?)*,?")
_HOST: Final = re.compile(
    r"([^\s,:]+)(?::([0-9]{1,6}))?(?:\s+(?:slots\s*=\s*)?([0-9]{1,6}))?(?:\s+max[-_]slots\s*=\s*[0-9]+)?"
)


class Ranks(NamedTuple):
    """Placement of MPI ranks: `hosts` in order of first mention, and for each rank the index of its host in `hosts`."""

    hosts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


NO_RANKS: Final = Ranks()


def read_mapping(text: str, hosts: Sequence[str] = (), ranks_per_host: int | None = None) -> Ranks:
    """Return the placement of MPI ranks from the text of a rank file. Raise InvalidInputError (``mapping``) for other texts.

    A rank file has one of these forms:
    - a host for each rank, one per line or separated by commas (SLURM_HOSTFILE, PBS_NODEFILE);
    - hosts with their number of slots (``n1 slots=4``, ``n1:4``, ``n1 4``);
    - hosts of numbered ranks (``rank 0=n1 slot=0:1``, Open MPI's rank file);
    - the order in which ranks fill the `hosts` of the job, `ranks_per_host` on each host (MPICH_RANK_ORDER); `hosts` is a list of
      host lists.
    """
    lines = [line for each in text.splitlines() if (line := each.partition("#")[0].strip())]
    if not lines:
        raise _wrong("The mapping is empty.")
    if _RANK.fullmatch(lines[0]):
        return _numbered(_rank_hosts(lines))
    if _ORDER.fullmatch(lines[0]):
        return _numbered(_ordered(lines, hosts, ranks_per_host))
    return _placed(_listed(lines))


def _listed(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the host and its number of consecutive ranks for each entry of a list of hosts."""
    for line in lines:
        for part in line.split(",") if "," in line else (line,):
            match = _HOST.fullmatch(part.strip())
            if match is None:
                raise _wrong(f"The mapping has a line that names no host: {shown(line)}.")
            yield match[1], int(match[2] or match[3] or 1)


def _rank_hosts(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for line in lines:
        match = _RANK.fullmatch(line)
        if match is None:
            raise _wrong(f"The rank file has a line that names no rank: {shown(line)}.")
        yield int(match[1]), match[2]


def _ordered(lines: Sequence[str], hosts: Sequence[str], ranks_per_host: int | None) -> Iterator[tuple[int, str]]:
    """Yield pairs of rank and host: the lines list the ranks in the order in which they fill the `hosts`."""
    if not hosts or ranks_per_host is None:
        raise _wrong("An order of ranks needs the hosts of the job, and ranks_per_host.")
    try:
        names = expand_all(hosts, RANKS_MAX)
    except InvalidInputError as error:
        raise _wrong(str(error)) from None
    for place, rank in enumerate(_order(lines)):
        if place // ranks_per_host >= len(names):
            raise _wrong(f"The order has more ranks than fit on {len(names)} hosts with {ranks_per_host} each.")
        yield rank, names[place // ranks_per_host]


def _order(lines: Sequence[str]) -> Iterator[int]:
    for line in lines:
        if not _ORDER.fullmatch(line):
            raise _wrong(f"The order of ranks has a line that is not a list of ranks: {shown(line)}.")
        for part in filter(None, (each.strip() for each in line.split(","))):
            first, _, last = part.partition("-")
            step = 1 if int(last or first) >= int(first) else -1
            yield from range(int(first), int(last or first) + step, step)


def _numbered(found: Iterable[tuple[int, str]]) -> Ranks:
    """Return the placement of ranks from pairs of rank and host. Raise InvalidInputError if a rank is missing or listed twice."""
    # cut off, because a range of a few bytes may describe a million ranks
    numbered = list(islice(found, RANKS_MAX + 1))
    if len(numbered) > RANKS_MAX:
        raise _wrong(f"The mapping has more than {RANKS_MAX} ranks.")
    by_rank = dict(numbered)
    if len(by_rank) < len(numbered) or any(rank not in by_rank for rank in range(len(by_rank))):
        raise _wrong(f"The mapping does not name each of the ranks from 0 to {len(numbered) - 1} once.")
    return _placed((by_rank[rank], 1) for rank in range(len(by_rank)))


def _placed(found: Iterable[tuple[str, int]]) -> Ranks:
    places: dict[str, int] = {}
    ranks: list[int] = []
    for host, count in found:
        if len(host) > HOST_MAX or has_control(host):
            raise _wrong(f"The mapping has a host name with control characters or more than {HOST_MAX} characters.")
        if len(ranks) + count > RANKS_MAX:
            raise _wrong(f"The mapping has more than {RANKS_MAX} ranks.")
        ranks += [places.setdefault(host, len(places))] * count
    if sum(map(len, places)) > HOSTS_MAX:
        raise _wrong(f"The hosts of the mapping have more than {HOSTS_MAX} characters.")
    return Ranks(tuple(places), tuple(ranks))


def _wrong(detail: str) -> InvalidInputError:
    return invalid("mapping", detail)


FEATURES_MAX: Final = 64
ARRAYS: Final = ("features", "links", "messages", "fifo_messages", "mapping")
"""Fields of a network event; each event has at least one."""
HOST_LISTS_MAX: Final = 65_536
# maximum total of numbers in all arrays of one event, so that the event fits into a journal record
NUMBERS_MAX: Final = 16_384

_FINITE_MAX: Final = sys.float_info.max
# bounds are needed because a lax decoder, which reads "7" as 7, also reads "nan" and "inf", which the journal cannot hold
_Finite = Annotated[float, msgspec.Meta(ge=-_FINITE_MAX, le=_FINITE_MAX)]
Features = Annotated[dict[Name, _Finite], msgspec.Meta(max_length=FEATURES_MAX)]
_Amounts = list[Annotated[float, msgspec.Meta(ge=0, le=_FINITE_MAX)]]
_Ranks = list[Annotated[int, msgspec.Meta(ge=0, lt=RANKS_MAX)]]


class Links(msgspec.Struct):
    """Bytes, buffered packets and received packets, one number for each link."""

    bytes: _Amounts
    buffered: _Amounts
    received: _Amounts


class Messages(msgspec.Struct, rename={"sender": "from", "receiver": "to"}):
    """Bytes of each message, with its number of hops or, if the report has a mapping, with the ranks of its sender and receiver."""

    bytes: _Amounts
    hops: _Amounts | None = None
    sender: _Ranks | None = None
    receiver: _Ranks | None = None


class Mapping(msgspec.Struct):
    """A rank file; `hosts` and `ranks_per_host` are needed if the file lists only the order of the ranks."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAPPING_MAX)]
    hosts: Annotated[list[HostList], msgspec.Meta(max_length=HOST_LISTS_MAX)] | None = None
    ranks_per_host: Annotated[int, msgspec.Meta(ge=1, le=RANKS_MAX)] | None = None


class NetworkReport(msgspec.Struct, tag_field="type", tag="network", kw_only=True):
    """Network activity of a job: features; or links, messages, and messages per injection queue; or the placement of ranks."""

    system: Name
    job_id: JobId
    time: datetime
    features: Features | None = None
    links: Links | None = None
    messages: Messages | None = None
    fifo_messages: _Amounts | None = None
    mapping: Mapping | None = None


def _network(reported: NetworkReport, received_ms: int, options: DecodeOptions) -> Network:
    """Return the event of a network report. Raise InvalidInputError if its arrays differ in length or contain too many numbers."""
    if all(getattr(reported, name) is None for name in ARRAYS):
        raise invalid("missing-field", "The event needs features, links, messages, fifo_messages or a mapping.")
    links = () if reported.links is None else (reported.links.bytes, reported.links.buffered, reported.links.received)
    messages, exchanged = _messages(reported)
    queues = reported.fifo_messages or []
    if any(len({*map(len, columns)}) > 1 for columns in (links, messages, exchanged)):
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
        links=_columns(links, 3),  # type: ignore[arg-type]  # three columns
        messages=_columns(messages, 2),  # type: ignore[arg-type]  # two columns
        fifo_messages=tuple(queues),
        hosts=ranks.hosts,
        ranks=ranks.ranks,
        exchanged=_columns(exchanged, 3) if exchanged else NOTHING_EXCHANGED,  # type: ignore[arg-type]  # three columns
    )


def _messages(reported: NetworkReport) -> tuple[tuple[list[float], ...], tuple[list[Any], ...]]:
    """Return the columns of messages with hops, and the columns of messages between ranks; one of the two is empty.

    Raise InvalidInputError (``missing-field``) if the messages have neither hops nor ranks with a mapping, or both.
    """
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


# Structs for native events, and two ways to read a message.
# The fast path decodes into a struct of the known fields. The number of keys in the bytes then tells whether the
# message has further fields. Only such messages are decoded a second time, to count unknown fields and to find
# duplicate keys.
LATER_TYPES: Final = ("load", "counters", "power", "host.state")  # telemetry, which other decoders read
ATTRIBUTES_MAX: Final = 32
REQUESTED_SIZES_MAX: Final = 256

_Value = Text | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float | bool
_Attributes = Annotated[dict[Name, _Value], msgspec.Meta(max_length=ATTRIBUTES_MAX)]
_Sizes = Annotated[list[Count], msgspec.Meta(min_length=1, max_length=REQUESTED_SIZES_MAX)]


class Facts(msgspec.Struct, kw_only=True):
    """Fields that every native event about a job may have."""

    system: Name
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
    hosts: Annotated[list[HostList], msgspec.Meta(max_length=HOST_LISTS_MAX)] | None = None
    time_limit_s: Seconds | None = None
    submit: datetime | None = None
    exclusive: bool | None = None
    array_job_id: JobId | None = None
    attributes: _Attributes | None = None


class Started(Facts, tag_field="type", tag="job.started", kw_only=True):
    """A job started."""

    job_id: JobId
    start: datetime
    n: Count | None = None
    unit: Text | None = None


class Completed(Facts, tag_field="type", tag="job.completed", kw_only=True):
    """A run ended."""

    job_id: JobId
    n: Count | None = None
    unit: Text | None = None
    start: datetime | None = None
    end: datetime | None = None
    run_time_s: Seconds | None = None
    state: Text | None = None
    exit_code: ExitCode | None = None
    failed_host: Text | None = None


class Identified(Facts, tag_field="type", tag="identity", kw_only=True):
    """The application of a job as reported by another source."""

    job_id: JobId
    source: Name


class Requested(Facts, tag_field="type", tag="prediction.requested", kw_only=True):
    """A request for run time predictions."""

    request_id: JobId
    n: Count | _Sizes
    unit: Text | None = None
    features: Features | None = None


NativeMessage = Started | Completed | Identified | Requested | NetworkReport

_IDENTITIES = ("system", "job_id", "array_job_id", "request_id", "source", "failed_host", "unit", "state")
_LINES = ("script", "comment")  # fields that may hold line feeds


class _Type(msgspec.Struct):
    type: str


# strict=False because stream processors write 7 as 7.0 or "7"
_DECODER = msgspec.json.Decoder(NativeMessage, strict=False)
_TYPE = msgspec.json.Decoder(_Type)
_ANY = msgspec.json.Decoder(dict[str, Any])
_KNOWN: dict[type, frozenset[str]] = {
    kind: frozenset(("type", *kind.__struct_fields__)) for kind in get_args(NativeMessage)
}


def _read(value: bytes) -> tuple[NativeMessage, int]:
    """Return the message in a JSON object and the number of its unknown fields.

    Raise InvalidInputError for other input, and for control characters in names of systems, jobs and hosts. In other
    texts control characters become spaces.
    """
    try:
        message = _DECODER.decode(value)
    except JSON_ERRORS as error:
        raise _refusal(value, error) from None
    unknown_fields = _unknown_fields(value, message)
    # otherwise the message has no control character
    if not value.isascii() or b"\\" in value or b"\x7f" in value:
        _clean(message)
    return message, unknown_fields


def _unknown_fields(value: bytes, message: NativeMessage) -> int:
    # A colon follows every key, but not the quote that ends a string value. Hence in JSON without white space,
    # the number of `":` is at least the number of keys. If that number does not exceed the known fields, there is no
    # unknown field and no duplicate key.
    keys = value.translate(None, b" \t\r\n").count(b'":')
    if not isinstance(message, NetworkReport):
        fields = msgspec.structs.astuple(message)
        features = (message.features if isinstance(message, Requested) else None) or ()
        if keys == 1 + len(fields) - fields.count(None) + len(message.attributes or ()) + len(features):
            return 0
    plain = decode_json(_ANY, value)
    if keys != len(plain) + sum(len(field) for field in plain.values() if isinstance(field, dict)):
        refuse_duplicate_keys(value)
    return len(plain.keys() - _KNOWN[type(message)])


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


def _clean(message: NativeMessage) -> None:  # `_network` checks the features of network events
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

    A job.completed event needs `n` and `unit`, its start or its end, and `run_time_s` unless it has both times. If `state` is
    missing, the state is COMPLETED, or FAILED if the exit code is not 0.

    >>> decode = native_decoder(DecodeOptions())
    >>> message = b'{"type": "job.completed", "system": "exa", "job_id": "812", "n": 64, "unit": "nodes"'
    >>> decoded = decode(message + b', "end": "2026-11-20T10:31:12Z", "run_time_s": 1872}', 1795170700000)
    >>> decoded.events[0].run_id, decoded.events[0].evidence.sizes
    ('exa/812@1795168800000', {'nodes': 64.0})
    """

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        message, unknown_fields = _read(value)
        decoded.events.append(_EVENTS[type(message)](message, received_ms, options))
        decoded.unknown_fields += unknown_fields

    return whole(decode_one, options)


def _started(message: Started, received_ms: int, options: DecodeOptions) -> JobStarted:
    evidence = _evidence(message, _sizes(message), options)
    return started_job(message.system, str(message.job_id), moment_ms(message.start), evidence, received_ms, options)


def _completed(message: Completed, received_ms: int, options: DecodeOptions) -> JobCompleted:
    sizes = _sizes(message)
    if not sizes:
        raise invalid("missing-field", "A completed job needs n and unit.")
    system, job_id, times = message.system, str(message.job_id), _times(message)
    state, evidence = _state(message, times[2]), _evidence(message, sizes, options)
    code, failed_host = message.exit_code, message.failed_host
    return completed_job(system, job_id, times, state, evidence, received_ms, options, code, failed_host)


def _identified(message: Identified, _received_ms: int, options: DecodeOptions) -> Identity:
    evidence = _evidence(message, {}, options)
    return Identity(message.system, job_id=str(message.job_id), source=message.source, evidence=evidence)


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
    NetworkReport: _network,
}


_FACTS: Final = (
    *("application", "input", "executable", "module", "container", "job_name", "user", "account", "partition", "qos"),
    *("reservation", "time_limit_s"),
)
"""Fields of an event that evidence adopts unchanged; an empty text means unknown."""


def _evidence(message: Facts, sizes: dict[str, float], options: DecodeOptions) -> Evidence:
    hosts = message.hosts
    if hosts and len(hosts) > 1 and sum(map(len, hosts)) > HOSTS_MAX:
        raise invalid("hosts", f"The hosts have more than {HOSTS_MAX} characters; send them as host lists.")
    return Evidence(
        **{name: getattr(message, name) or None for name in _FACTS},
        sizes=sizes,
        work_dir=message.work_dir if options.keep.paths else None,
        script=message.script if options.keep.script else None,
        comment=message.comment if options.keep.comment else None,
        hosts=tuple(hosts) if hosts else (),
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


def _times(message: Completed) -> Times:
    start_ms = None if message.start is None else moment_ms(message.start)
    end_ms = None if message.end is None else moment_ms(message.end)
    if start_ms is None and end_ms is None:
        raise invalid("missing-field", "A completed job needs its start or its end: they identify the run.")
    times = filled_times(start_ms, end_ms, message.run_time_s)
    if times is None:
        raise invalid("missing-field", "A completed job needs run_time_s, or start and end.")
    return times


def _state(message: Completed, run_time_s: float) -> str:
    state = message.state
    if state is None:
        state = "FAILED" if message.exit_code else SUCCESS
    if state not in STATES:
        raise invalid("state", f"The state {shown(state)} is not one of {', '.join(STATES)}.")
    if state == SUCCESS and run_time_s <= 0:
        raise invalid("out-of-range", "A completed run takes more than 0 s.")
    return state
