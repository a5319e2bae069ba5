"""Decoding of whole messages: options, size limits, encodings, reasons for JSON errors, and arrays of events."""

import json
import re
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Literal, TypeVar, get_args

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.events import DeadLetter, Decode, Decoded, Refusal
from processors.contracts.names import EARLIEST_MS, LATEST_MS, rfc3339
from processors.contracts.nodes import NO_NODES, Nodes
from processors.contracts.telemetry import NO_SENSORS, DecodeSamples, Keep, Samples, Sensors, SeriesIndex, Telemetry

# Limits of the unknown names that decoders record for an operator who checks a configuration. A running agent only counts.
NAMES_MAX: Final = 1_000
NAME_MAX: Final = 200
HOSTS_REPORTED_MAX: Final = 20
_NO_NAME: Final = re.compile(r"[0-9.]+|.*:.*", re.DOTALL)  # an address, or the number of a host's part
_PORT: Final = re.compile(r"[0-9]{1,5}")


class Missed:
    """Names without an entry in a table that decoders looked up; results are cached, so counts are look-ups, not samples.

    `hosts` are hosts missing in the file of nodes, `shared` are locations that several nodes share, `units` are sensors with an
    unknown unit, `second` are duplicate sensors of one quantity, `metrics` are metrics that the agent does not use. At most
    1,000 names of each kind are kept.
    """

    def __init__(self) -> None:
        self._names = defaultdict[str, Counter[str]](Counter)

    def note(self, kind: str, name: str) -> None:
        names = self._names[kind]
        if len(names) < NAMES_MAX or name in names:
            names[name[:NAME_MAX]] += 1

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(self._names.get(kind, ())))


class HostsReported(Missed):
    """Calls `report` once for each host missing in the file of nodes, for at most 20 hosts; all other unknown names are ignored."""

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report, self._reported = report, set[str]()

    def note(self, kind: str, name: str) -> None:
        if kind == "hosts" and name not in self._reported and len(self._reported) < HOSTS_REPORTED_MAX:
            self._reported.add(name[:NAME_MAX])
            self._report(name[:NAME_MAX])


class _NotNoted(Missed):
    def note(self, kind: str, name: str) -> None:
        del kind, name


NOT_NOTED: Final = _NotNoted()

DAY_MS: Final = 86_400_000


class DecodeOptions(msgspec.Struct, frozen=True):
    """Options of all decoders.

    `default_system` is the system of records that name no system. Scripts, comments and working directories of
    jobs are private: they are dropped unless `keep` retains them. A time is refused if it is before `earliest_ms`, or more than
    `future_ms` after the receive time of the message. `timezone` (such as ``Europe/Oslo`` or ``+02:00``) is the zone of
    `sacct` times, which have no zone. `columns` maps the agent's column names of job tables to the column names of a file.
    """

    default_system: str | None = None
    keep: Keep = Keep()
    max_message_bytes: int = 4 * 1024 * 1024
    elements_max: int = 10_000
    earliest_ms: int = EARLIEST_MS
    future_ms: int = DAY_MS
    timezone: str = "UTC"
    columns: dict[str, str] = {}

    def system_of(self, named: str | None) -> str:
        """Return `named`, the system in a record, or else the default system. Raise InvalidInputError if both are missing."""
        system = named or self.default_system
        if not system:
            raise invalid("system", "The record names no system, and its source has none in the configuration.")
        return system

    def check_count(self, count: int, parts: str, whole: str = "message") -> None:
        """Raise InvalidInputError (``array-bomb``) if `count` exceeds `elements_max`; `parts` and `whole` are nouns for the error text."""
        if count > self.elements_max:
            raise invalid("array-bomb", f"The {whole} has more {parts} than {self.elements_max}.")


class TelemetryOptions(msgspec.Struct, frozen=True):
    """Options of telemetry decoders.

    `taken` is the `telemetry` section of the source. `nodes` maps a producer's name to a host, `hosts` maps a component id
    (LDMS) to a host. `sensors` describes sensor readings and takes precedence over the built-in table. `missed` collects names
    that no table contains. `host` is the host of records without a host name, such as those of a file. `schemas` holds the Avro
    schemas of files by schema id.
    """

    decode: DecodeOptions = DecodeOptions()
    taken: Telemetry = Telemetry()
    hosts: dict[int, str] = {}
    host: str | None = None
    nodes: Nodes = NO_NODES
    sensors: Sensors = NO_SENSORS
    missed: Missed = NOT_NOTED
    schemas: dict[int, bytes] = {}

    def host_of(self, name: str, system: str | None = None) -> str:
        """Return the host with a producer's name, in `system` or in the default system."""
        listed = self._listed(name, system)
        no_name = _NO_NAME.fullmatch(name)
        if listed is None and (len(self.nodes) or no_name):
            self.missed.note("hosts", name)
        return listed or (name.partition(".")[0] if self.taken.short_hosts and not no_name else name)

    def host_in(self, labels: Mapping[str, str], *others: str | None) -> str | None:
        """Return the host named by the host labels in `labels` or by `others`; None if there is no name.

        Hosts in the file of nodes are preferred, then other names, then addresses.

        >>> TelemetryOptions().host_in({"instance": "10.4.1.8:9100", "nodename": "n4"})
        'n4'
        """
        wanted = self.taken.host_labels
        names = [labels[label] for label in (*map("exported_{}".format, wanted), *wanted) if labels.get(label)]
        hosts = [without_port(name) for name in (*names, *others) if name]
        listed = next((host for host in hosts if self._listed(host)), None)
        return listed or next((host for host in hosts if not _NO_NAME.fullmatch(host)), next(iter(hosts), None))

    def _listed(self, name: str, system: str | None = None) -> str | None:
        return self.nodes.host(name, system or self.decode.default_system or "") if len(self.nodes) else None


def without_port(address: str) -> str:
    """Return the host part of the address from which metrics are scraped, without its port.

    >>> without_port("nid001042:9100"), without_port("[fd00::7]:9100"), without_port("fd00::7"), without_port("nid1")
    ('nid001042', 'fd00::7', 'fd00::7', 'nid1')
    """
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, _, port = address.rpartition(":")
    return host if host and ":" not in host and _PORT.fullmatch(port) else address


TelemetryFactory = Callable[[TelemetryOptions], DecodeSamples]
"""Creates the telemetry decoder of a format."""

# Reasons for refusing input: a closed list, so that counters by reason have a bounded set of labels.
Reason = Literal[
    "empty",  # an empty message or a tombstone
    "too-large",  # exceeds the maximum bytes of a message or line
    "encoding",  # a byte order mark, invalid UTF-8, or a lone surrogate
    "not-json",
    "nesting",  # nested deeper than any valid event
    "array-bomb",  # more elements than a message may have
    "not-an-object",
    "duplicate-key",
    "unknown-format",
    "unknown-type",
    "unsupported-type",
    "missing-field",
    "system",  # no system in the record or its source
    "wrong-type",
    "out-of-range",
    "text",  # too long, or with control characters
    "time",  # not a time, or outside 1990 to 2100
    "future",
    "state",
    "unit",
    "hosts",  # not a host list
    "mapping",  # not a rank file
    "host",  # a host number without a host name
    "columns",  # a table without required columns, or a row that does not fit the columns
    "schema",  # an Avro schema that does not exist or cannot be read
    "avro",  # bytes that do not fit their Avro schema
    "file",  # a damaged file
]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
SHOWN_MAX: Final = 40  # maximum characters of a payload that an error message may quote


def invalid(reason: Reason, detail: str) -> InvalidInputError:
    """Return the error for input that no retry can fix; `detail` is one sentence."""
    return InvalidInputError(reason, detail)


def shown(text: str) -> str:
    """Return the part of a payload that an error message may quote: in quotes, cut, and one line of plain ASCII."""
    return ascii(text[:SHOWN_MAX])


class FileRecord(msgspec.Struct):
    """A record of a file: its position (`file:line`), its bytes, and its events and samples, or the error that refuses it.

    `samples` holds the samples of this record. Consecutive records that hold only samples are merged into one FileRecord, which
    has no bytes; `records` is their number. `until_ms`, if set, is a lower limit for the times of all later samples. A `remark`
    is a statement about the whole file, such as an assumption of the reader; a FileRecord with a remark represents no record.
    """

    place: str
    format: str
    value: bytes
    decoded: Decoded
    error: InvalidInputError | None = None
    samples: Samples | None = None
    records: int = 1
    until_ms: int | None = None
    remark: str | None = None


class FileTelemetry(msgspec.Struct, frozen=True):
    """Options for decoding samples, and the series numbers, which are common to all files that are read together."""

    options: TelemetryOptions
    index: SeriesIndex


SCHEMA: Final = "scalewatch.dead-letter/1"
VALUE_BYTES_MAX: Final = 65_536
DETAIL_MAX: Final = 500


def dead_letter(refusal: Refusal) -> DeadLetter:
    """Return the dead letter of a refused message, with the first VALUE_BYTES_MAX bytes of the message.

    A message timestamp outside 1970 to 2100 is replaced by the nearest valid time, so that every refused message gets a dead
    letter.
    """
    origin, error, value = refusal.origin, refusal.refused.error, refusal.value or b""
    return DeadLetter(
        schema=SCHEMA,
        id=f"{origin.topic}/{origin.partition}/{origin.offset}/{error.reason}",
        time=rfc3339(min(max(refusal.timestamp_ms, 0), LATEST_MS)),
        reason=error.reason,
        detail=str(error)[:DETAIL_MAX],
        topic=origin.topic,
        partition=origin.partition,
        offset=origin.offset,
        format=refusal.format,
        value_base64=b64encode(value[:VALUE_BYTES_MAX]).decode(),
        value_bytes=len(value),
        truncated=len(value) > VALUE_BYTES_MAX,
        count=refusal.refused.count,
        places=refusal.refused.places,
    )


DecodeOne = Callable[[bytes, int, Decoded], None]
"""Decodes one JSON object received at a time in ms, and adds its events and samples to the result.

Adds nothing and raises InvalidInputError if the object is invalid.
"""

JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All exceptions that msgspec raises for bytes that do not match the requested type."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
P = TypeVar("P")
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_BRACE = ord("{")
_WHITESPACE = b" \t\r\n"
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_REASONS: tuple[tuple[str, Reason], ...] = (  # parts of msgspec's error texts, with the reason for each
    ("surrogate", "encoding"),
    ("malformed", "not-json"),
    ("truncated", "not-json"),
    ("missing required field", "missing-field"),
    ("RFC3339", "time"),
    ("`str` of length", "text"),
    (" of length", "out-of-range"),
    ("out of range", "out-of-range"),
    ("Expected `object`, got", "not-an-object"),
    (">", "out-of-range"),
    ("<", "out-of-range"),
)


def json_error(error: Exception) -> InvalidInputError:
    """Return the refusal for an error in JSON_ERRORS. The error texts of msgspec name fields and types, never values."""
    if isinstance(error, RecursionError):
        return invalid("nesting", "The message is nested too deeply.")
    if isinstance(error, UnicodeDecodeError):
        return invalid("encoding", "The message holds text that is not UTF-8.")
    text = str(error)
    # the error is inside the message, which itself is an object
    if "Expected `object`, got" in text and "at `$" in text:
        return invalid("wrong-type", f"{text}.")
    return invalid(next((reason for part, reason in _REASONS if part in text), "wrong-type"), f"{text}.")


_SPACES: Final = dict.fromkeys(range(32), " ")
_ESCAPE: Final = re.compile(
    r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt]|)'
)


def repaired(value: bytes) -> bytes:
    r"""Return JSON with U+FFFD in place of bytes that are not UTF-8 and of lone surrogates, and spaces for raw control characters.

    Schedulers pass on names that users typed in Latin-1 or pasted from a terminal. Broken escapes become backslashes.

    >>> repaired(b'{"name": "m\xfcller"}').decode(), repaired(b'{"name": "a\tb\\d"}')
    ('{"name": "m\ufffdller"}', b'{"name": "a b\\\\d"}')
    """
    text = value.decode(errors="replace").translate(_SPACES)
    return _ESCAPE.sub(_repaired_escape, text).encode()


def _repaired_escape(escape: re.Match[str]) -> str:
    text = escape[0]
    if len(text) == 1:
        return r"\\"
    half = len(text) == 6 and text[2] in "dD" and text[3] in "89abcdefABCDEF"
    return r"\ufffd" if half else text


def utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise json_error(error) from None


def decode_json(decoder: msgspec.json.Decoder[T], value: bytes | msgspec.Raw) -> T:
    """Decode JSON. Raise InvalidInputError if `value` is not JSON or does not match the type."""
    try:
        return decoder.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None


def read_json(decoder: msgspec.json.Decoder[T], value: bytes | msgspec.Raw) -> T:
    """Decode JSON or, if decoding fails, the `repaired` text. Raise InvalidInputError if both fail."""
    try:
        return decoder.decode(value)
    except JSON_ERRORS:
        return decode_json(decoder, repaired(bytes(value)))


def remember(entries: dict[K, T], key: K, entry: T, entries_max: int) -> None:
    """Set an entry. A new entry replaces the oldest entry if there are `entries_max` entries."""
    if len(entries) >= entries_max and key not in entries:
        del entries[next(iter(entries))]
    entries[key] = entry


def refusals(parts: Iterable[P], decode: Callable[[P], None], place: str, first: int = 0) -> list[InvalidInputError]:
    """Call `decode` with each part of a message; return the errors of the parts that it refuses.

    `place` is a template for the position of a part in its message; ``{}`` is replaced by the number of the part, counted from
    `first`.
    """
    errors = []
    for number, part in enumerate(parts, first):
        try:
            decode(part)
        except InvalidInputError as error:
            errors.append(error.at(place.replace("{}", str(number))))
    return errors


def decoded_lines(lines: Iterable[tuple[bytes, int]], decode_one: DecodeOne, received_ms: int) -> Decoded:
    """Decode pairs of line and line number; an error in one line does not affect other lines."""
    decoded = Decoded()
    for line, number in lines:
        try:
            decode_one(line, received_ms, decoded)
        except InvalidInputError as error:
            decoded.rejects.append(error.at(f"line {number}"))
    return decoded


def whole(decode_one: DecodeOne, options: DecodeOptions) -> Decode:
    """Return the decoder of whole messages, which hold one object or an array of independent objects.

    If the encoding of an object is broken, the object is decoded from its `repaired` bytes.
    """

    def decode_tolerantly(value: bytes, received_ms: int, decoded: Decoded) -> None:
        try:
            decode_one(value, received_ms, decoded)
        except InvalidInputError as error:
            better = repaired(value) if error.reason in ("encoding", "not-json") else value
            if better == value:
                raise
            decode_one(better, received_ms, decoded)

    def decode(value: bytes, received_ms: int) -> Decoded:
        decoded = Decoded()
        value = checked(value, options)
        if value[0] == _BRACE or not value.lstrip(_WHITESPACE).startswith(b"["):
            decode_tolerantly(value, received_ms, decoded)
        else:
            elements = elements_of(value, options)
            decoded.rejects += refusals(
                elements, lambda element: decode_tolerantly(element, received_ms, decoded), "[{}]"
            )
        return decoded

    return decode


def sized(value: bytes, options: DecodeOptions) -> bytes:
    """Return the message unchanged. Raise InvalidInputError if it is empty or too large."""
    if not value:
        raise invalid("empty", "The message has no value.")
    if len(value) > options.max_message_bytes:
        raise invalid("too-large", f"The message has {len(value)} bytes; {options.max_message_bytes} are allowed.")
    return value


def checked(value: bytes, options: DecodeOptions) -> bytes:
    """Return the message without trailing NUL bytes, which C programs add. Raise InvalidInputError if it is empty or too large."""
    sized(value, options)
    if value[-1] == 0:
        value = value.rstrip(b"\0")
    if value[:1] == b"{":  # the most frequent case
        return value
    if not value or value.isspace():
        raise invalid("empty", "The message is blank.")
    if value.startswith(_BYTE_ORDER_MARKS):
        raise invalid("encoding", "The message starts with a byte order mark.")
    return value


def check_keys(value: bytes, keys: int) -> None:
    """Raise InvalidInputError (``duplicate-key``) if this valid JSON repeats a key; `keys` is the number of keys that were decoded.

    In JSON without white space, ``":`` occurs only at the end of a key. If it occurs `keys` times, no key was dropped as a
    duplicate, and the slow test of all keys is skipped.
    """
    if value.translate(None, _WHITESPACE).count(b'":') != keys:
        refuse_duplicate_keys(value)


def refuse_duplicate_keys(value: bytes) -> None:
    """Raise InvalidInputError (``duplicate-key``) if an object in this valid JSON has a key twice. Slow; see `check_keys`."""
    try:
        json.loads(value, object_pairs_hook=_unique, parse_int=str, parse_float=str)
    except RecursionError:
        raise invalid("nesting", "The message is nested too deeply.") from None
    except (UnicodeDecodeError, json.JSONDecodeError):  # raised for fields that no decoder has read yet
        raise invalid("encoding", "The message holds text that JSON does not allow.") from None


def _unique(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise invalid("duplicate-key", "The message names a key twice.")


def refuse_bomb(value: bytes, options: DecodeOptions) -> None:
    """Raise InvalidInputError (``array-bomb``) for a message that would decode into too many objects, before it is decoded.

    Messages with at least six bytes per comma are accepted, because events are never denser.
    """
    commas = value.count(b",")
    if commas * 6 > len(value):
        options.check_count(commas, "elements", "array")


def elements_of(value: bytes, options: DecodeOptions) -> list[bytes]:
    """Return the JSON text of each element of an array, repaired if it cannot be decoded.

    Raise InvalidInputError (``array-bomb``) for more than `options.elements_max` elements.
    """
    refuse_bomb(value, options)
    elements = read_json(_ELEMENTS, value)
    options.check_count(len(elements), "elements", "array")
    return [bytes(element) for element in elements]
