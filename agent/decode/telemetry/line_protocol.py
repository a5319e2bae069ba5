"""Line protocol of InfluxDB as Telegraf and other agents write it: a strict parser, and the decoder."""

import re
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from agent.decode.clustercockpit import job_event, metric_of
from agent.decode.message import JSON_ERRORS, TelemetryOptions, checked, invalid, utf8
from agent.decode.opening import RecordFile, TextFile
from agent.decode.sacct import PAIRS
from agent.decode.telemetry.columns import Columns, Stamps
from agent.decode.telemetry.metric import BoundsTable
from agent.decode.telemetry.plans import FIELDS_MAX, Plan, Plans, ReadNumbers, Shape, take
from agent.decode.telemetry.telegraf import TELEGRAF
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decoded
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, SeriesIndex

_WORD: Final = rb"(?:[^\\,= ]++|\\.)++"  # a key or a tag value; a backslash escapes the next byte
_INTEGER: Final = rb"[+-]?[0-9]++(?=[iu])"
_NUMBER: Final = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_NUMBERS: Final = rb"(?:(" + _INTEGER + rb")[iu]|(" + _NUMBER + rb"))"
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_BOOLEAN: Final = rb"(?:true|True|TRUE|false|False|FALSE|[tTfF])"
# field values that Telegraf omits but other agents write
_NOT_FINITE: Final = rb"[+-]?(?i:nan|inf(?:inity)?)"
_BAD: Final = rb"([^\\,= \"]*+)"  # an invalid value, which invalidates its field but not the other fields
_LINE = re.compile(
    rb"((?:[^\\, ]++|\\.)++)((?:,(?:[^\\ ]++|\\.)++)?) "  # measurement and tags
    rb'((?:[^" \\]++|\\.|' + _STRING + rb")++)"  # fields, in which only quoted strings may contain spaces
    rb"(?: (-?[0-9]{1,20}))?",
    re.DOTALL,
)
_TAG = re.compile(rb",(" + _WORD + rb")=(" + _WORD + rb")", re.DOTALL)
_VALUE: Final = rb"|".join((_NUMBERS, _BOOLEAN, _NOT_FINITE, _STRING))
_FIELD = re.compile(rb"(%b)=(?:(?:%b)(?:,|$)|%b(?:,|$))" % (_WORD, _VALUE, _BAD), re.DOTALL)
_OPEN = re.compile(  # a line that ends inside the quoted string of a field
    rb'(?:[^\\, "]++|\\.)++(?:,(?:[^\\ "]++|\\.)++)? (?:[^" \\]++|\\.|' + _STRING + rb')*+"(?:[^"\\]++|\\.)*+\\?',
    re.DOTALL,
)
_ESCAPED_BYTE = re.compile(rb"\\.", re.DOTALL)
# maximum length of a record over several lines; InfluxDB has the same limit for a string field
TEXT_BYTES_MAX: Final = 1 << 16
_JOBS: Final = (b"job,", b"start_job,", b"start_job ", b"stop_job,", b"stop_job ")
AT_ONCE_BYTES: Final = 1 << 15  # number of bytes parsed together; they fit into the processor's cache
_SIGNS: Final = b"=," * FIELDS_MAX  # the separators after field names and after values
_NO_SIGN: Final = bytes(set(range(256)) - set(b"=,\\\t\n\r"))
_MINUS_ZERO = re.compile(rb"-0(?=[,iu\n]|\Z)")  # JSON reads -0 as an integer and loses the sign
_UNIT = re.compile(rb"(?<=[0-9])[iu](?=[,\n]|\Z)")
# a fraction or an exponent, followed by the integer suffix
_NO_INTEGER = re.compile(rb"=[^,\n.eE]*+[.eE][^,\n]*[iu]")
_ESCAPED = re.compile(r"\\([,= ])")  # backslashes before other characters are literal


class ProtocolLine(NamedTuple):
    """A line: measurement and tags as raw bytes (`head`), the fields (None for values that are not numbers), and the timestamp."""

    head: bytes
    fields: Mapping[str, float | None]
    stamp: int | None


def parse_line(line: bytes) -> ProtocolLine:
    """Return the parts of one line in UTF-8.

    Raise InvalidInputError: ``columns`` if the line is not line protocol, or ``duplicate-key``.

    >>> parse_line(b'system,host=nid1 load1=63.97,n_cpus=128i,note="a, b" 1787217284000000000')
    ProtocolLine(head=b'system,host=nid1', fields={'load1': 63.97, 'n_cpus': 128.0, 'note': None}, stamp=1787217284000000000)
    """
    match = _LINE.fullmatch(line)
    if match is None:
        raise invalid("columns", "The line is not line protocol.")
    stamp = match[4]
    return ProtocolLine(match[1] + match[2], _fields(match[3]), None if stamp is None else int(stamp))


def parse_head(head: bytes) -> tuple[str, dict[str, str]]:
    r"""Return the measurement and the tags in `head`, the first part of a line.

    >>> parse_head(rb"rdt_metric,cores=12\,19,host=r2")
    ('rdt_metric', {'cores': '12,19', 'host': 'r2'})
    """
    match = _LINE.fullmatch(head + b" f=1")
    if match is None:
        raise invalid("columns", "The line is not line protocol.")
    tags: dict[str, str] = {}
    position, part = 0, match[2]
    while position < len(part):
        tag = _TAG.match(part, position)
        if tag is None:
            raise invalid("columns", "The tags of the line are not valid line protocol.")
        if _text(tag[1]) in tags:
            raise invalid("duplicate-key", "The line names a tag twice.")
        tags[_text(tag[1])] = _text(tag[2])
        position = tag.end()
    return _text(match[1]), tags


def _fields(part: bytes) -> dict[str, float | None]:
    fields: dict[str, float | None] = {}
    position, count, bad = 0, 0, 0
    while position < len(part):
        field = _FIELD.match(part, position)
        if field is None:
            raise invalid("columns", "The fields of the line are not valid line protocol.")
        position, count, bad = field.end(), count + 1, bad + (field[4] is not None)
        number = field[2] or field[3]
        fields[_text(field[1])] = None if number is None else float(number)
    if part.endswith(b",") or bad == count:
        raise invalid("columns", "The line has no field with a valid value, or its fields end in a comma.")
    if count != len(fields):
        raise invalid("duplicate-key", "The line names a field twice.")
    return fields


def _text(part: bytes) -> str:
    text = part.decode()
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


_KnownLine = tuple[Shape, bytes, int]
"""A line that probably has the fields of an earlier line: the earlier line's shape, the bytes of the fields, and the time in ms."""


def is_line_protocol(line: bytes) -> bool:
    """Return whether a file with this first line is line protocol; `sacct`'s key=value lines look similar."""
    try:
        if not _OPEN.fullmatch(line.strip()):
            parse_line(line.strip())
        return not PAIRS.match(line.decode())
    except (InvalidInputError, UnicodeDecodeError):
        return False


def line_protocol_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    """Return the lines of an open file. A line without a timestamp is refused, because the time of reading would be wrong."""
    decode = line_protocol_decoder(options)

    def decode_lines(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        return decode([(value or b"").rstrip(b"\r\n") for value in values], [0] * len(received_ms), index)

    return RecordFile("line-protocol", decode_lines, whole_records(text.lines))


def line_protocol_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of line protocol, any number of lines per message; a line without a time has the message's time.

    Lines come from Telegraf or from ClusterCockpit, whose job events are decoded too.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = line_protocol_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> batch = decode([b"system,host=nid1 load1=3.5,load5=3i 1787217284000000000"], [1787217284000], SeriesIndex(9))
    >>> batch.samples.value.tolist(), batch.others[0][1].ignored
    ([3.5], {'metric': 1})
    """
    return _LineDecoder(options).decode


class _LineDecoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._plans = Plans(TELEGRAF, options)
        self._stamps = Stamps(options.taken.time_unit)
        self._bounds = BoundsTable()

    def decode(self, values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        columns, bytes_max = Columns(received_ms, index), self._options.decode.max_message_bytes
        plans = self._plans.of(index)
        lines = [
            None if value is None or len(value) > bytes_max else self._known_line(value, plans) for value in values
        ]
        for message, (line, numbers) in enumerate(zip(lines, _numbers(lines), strict=True)):
            if line is None or numbers is None:
                self._decode_message(values[message] or b"", message, columns)
            else:
                line[0].take_numbers(numbers, line[2], message, columns)
        return columns.batch(self._bounds, self._options)

    def _decode_message(self, value: bytes, message: int, columns: Columns) -> None:
        try:
            lines = _lines(checked(value, self._options.decode), self._options)
        except InvalidInputError as error:
            columns.refuse(message, error)
            return
        for number, line in enumerate(lines, 1):
            try:
                if not self._take_known(line, message, columns):
                    self._take_line(line, message, columns)
            except InvalidInputError as error:
                columns.refuse(message, error.at(f"line {number}"))

    def _known_line(self, line: bytes, plans: Mapping[tuple[Hashable, ...] | bytes, Plan]) -> _KnownLine | None:
        """Return the shape, fields and time in ms of a line whose tags were seen before; None for other lines."""
        parts = (line[:-1] if line.endswith(b"\n") else line).split(b" ")
        plan = plans.get(parts[0])
        if plan is None or plan.shape is None or plan.shape.read is None or len(parts) != 3:
            return None
        try:
            time_ms = self._stamps.time_of(parts[2])
        except InvalidInputError:
            return None
        return None if time_ms is None else (plan.shape, parts[1], time_ms)

    def _take_known(self, line: bytes, message: int, columns: Columns) -> bool:
        """Add the values of a line whose tags and fields were seen before; return False and add nothing for other lines."""
        parts = self._known_line(line, self._plans.of(columns.index))
        numbers = None if parts is None else _alone(parts)
        if parts is None or numbers is None:
            return False
        parts[0].take_numbers(numbers, parts[2], message, columns)
        return True

    def _take_line(self, line: bytes, message: int, columns: Columns) -> None:
        if line.startswith(_JOBS):
            event = job_event(line, columns.received_ms[message], self._options.decode)
            if event is not None:
                columns.other(message, Decoded(events=[event]))
                return
        head, fields, stamp = parse_line(line)
        plan = self._plans.of(columns.index).get(head) or self._plan(head)
        time_ms = columns.received_ms[message] if stamp is None else self._stamps.time_ms(stamp)
        if time_ms <= 0 and stamp is None:
            raise invalid("time", "Neither the line nor its message has a time.")
        take(fields, plan, time_ms, message, columns)

    def _plan(self, head: bytes) -> Plan:
        """Return the plan of lines with these tags, from the mappings of Telegraf or of ClusterCockpit."""
        measurement, tags = parse_head(head)
        host = self._options.host_in(tags)
        metric = metric_of(measurement, tags)
        if metric is None:
            return self._plans.add(head, measurement, host, tags)
        return self._plans.add(head, measurement, host, tags, also=(metric,), system=tags.get("cluster"))


def _numbers(lines: Sequence[_KnownLine | None]) -> list[tuple[float, ...] | None]:
    """Return the numbers of each line, None for lines with other values; lines with the same field names are parsed together."""
    numbers_of_lines: list[tuple[float, ...] | None] = [None] * len(lines)
    alike: dict[ReadNumbers | None, tuple[list[int], list[_KnownLine]]] = {}
    for place, line in enumerate(lines):
        if line is not None:
            places, same_names = alike.setdefault(line[0].read, ([], []))
            places.append(place)
            same_names.append(line)
    for places, same_names in alike.values():
        step = 1 + AT_ONCE_BYTES // (1 + max(len(fields) for _, fields, _ in same_names))
        for first in range(0, len(same_names), step):
            part = slice(first, first + step)
            numbers = _values(same_names[part]) or map(_alone, same_names[part])
            for place, of_line in zip(places[part], numbers, strict=True):
                numbers_of_lines[place] = of_line
    return numbers_of_lines


def _alone(line: _KnownLine) -> tuple[float, ...] | None:
    numbers = _values([line])
    return None if numbers is None else numbers[0]


def _values(lines: Sequence[_KnownLine]) -> list[tuple[float, ...]] | None:
    """Return the numbers of each line if all lines have exactly the fields of the first line; None otherwise.

    The fields are rewritten as JSON objects and parsed together, because JSON and line protocol write numbers alike. Lines with
    escapes or blanks are not parsed in this way.
    """
    shape = lines[0][0]
    joined = b"\n".join([fields for _, fields, _ in lines])
    if joined.translate(None, _NO_SIGN) != b"\n".join([_SIGNS[: 2 * len(shape.names) - 1]] * len(lines)):
        return None
    if shape.read is None or (b"-0" in joined and _MINUS_ZERO.search(joined)):
        return None
    try:
        numbers = shape.read(_objects(joined))
    except JSON_ERRORS:  # possible cause: integers with the suffix `i`
        try:
            numbers = [] if _NO_INTEGER.search(joined) else shape.read(_objects(_UNIT.sub(b"", joined)))
        except JSON_ERRORS:
            return None
    return numbers if len(numbers) == len(lines) else None


def _objects(joined: bytes) -> bytes:
    """Return the field sections of `joined` lines rewritten as a JSON array of objects."""
    objects = joined.replace(b"=", b'":').replace(b",", b',"').replace(b"\n", b'},{"')
    return b'[{"%b}]' % objects


def _lines(value: bytes, options: TelemetryOptions) -> Sequence[bytes]:
    if not value.isascii():
        utf8(value)
    if b"\n" not in value and b"\r" not in value and value[:1] != b"#":
        return (value,)
    lines = [line for line in value.splitlines() if line and not line.startswith(b"#") and not line.isspace()]
    if b'"' in value:
        lines = [line for line, _ in whole_records((line, 0) for line in lines)]
    options.decode.check_count(len(lines), "lines")
    return lines


def whole_records(lines: Iterable[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    r"""Yield the records in numbered lines: one line each, or several lines if a quoted string contains line breaks.

    A line whose string is never closed is a record of its own, so that it does not affect later lines.

    >>> [line for line, _ in whole_records([(b'm note="two', 1), (b'lines",a=1 5', 2), (b'm a="cut', 3), (b"m a=2 5", 4)])]
    [b'm note="two\nlines",a=1 5', b'm a="cut', b'm a=2 5']
    """
    rest, ahead = iter(lines), deque[tuple[bytes, int]]()
    while (record := ahead.popleft() if ahead else next(rest, None)) is not None:
        line, number = record
        if b'"' in line and _OPEN.fullmatch(line.rstrip(b"\r\n")):
            line = _closed(line, ahead, rest)
        yield line, number


def _closed(line: bytes, ahead: deque[tuple[bytes, int]], rest: Iterator[tuple[bytes, int]]) -> bytes:
    """Return the line joined with the lines that continue its string; return the line alone if this gives no valid record.

    `line` has an odd number of quotes, so it leaves a string open. The string ends in the next line with an odd number of
    quotes; if the joined record is invalid, these lines go back into `ahead`.
    """
    following_lines: list[tuple[bytes, int]] = []
    size = len(line)
    while size <= TEXT_BYTES_MAX:
        following = ahead.popleft() if ahead else next(rest, None)
        if following is None:
            break
        following_lines.append(following)
        size += len(following[0])
        if _ESCAPED_BYTE.sub(b"", following[0]).count(b'"') % 2:
            whole = b"\n".join([part.rstrip(b"\r\n") for part in (line, *[part for part, _ in following_lines])])
            with suppress(InvalidInputError):
                parse_line(whole)
                return whole
            break
    ahead.extendleft(reversed(following_lines))
    return line
