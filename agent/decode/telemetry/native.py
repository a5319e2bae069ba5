"""Native samples of load, power and counters, alone or in arrays, in one topic with other native events."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Final

import msgspec
import numpy as np

from agent.decode.fields import JobId, Name, check_bounds, moment_ms, number_in, refuse_control
from agent.decode.message import (
    JSON_ERRORS,
    TelemetryOptions,
    checked,
    decode_json,
    elements_of,
    invalid,
    json_error,
    refuse_duplicate_keys,
    shown,
)
from agent.decode.native import native_decoder
from agent.decode.telemetry.columns import Columns, Known, number_of, without_nan
from agent.decode.telemetry.metric import BoundsTable
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decode, Decoded, HostState
from processors.contracts.telemetry import (
    COMPONENTS,
    COUNTER_DELTA,
    COUNTER_TOTAL,
    POWER_W,
    DecodedBatch,
    DecodeSamples,
    SeriesIndex,
)

NAMES_MAX: Final = 256  # maximum number of counters per record
INTERVAL_MAX_S: Final = 86_400.0
QUOTES_OF_LOAD: Final = 22  # two quotes for each of six keys and five string values
QUOTES_OF_PEER: Final = 4

_Counts = Annotated[dict[Name, float | None], msgspec.Meta(max_length=NAMES_MAX)]
_Interval = Annotated[float, msgspec.Meta(gt=0, le=INTERVAL_MAX_S)]
Key = tuple[str, str, str | tuple[str, ...], str | int | None, bool | None]
COMPONENT: Final = rf"(?:{'|'.join(COMPONENTS)})(?::[!-\"$-=?-~]{{1,64}})?"  # after the colon: a socket or device
_COMPONENT = re.compile(COMPONENT)


_Names = tuple[str, tuple[str | None, ...], str | None]
"""The resource of a record's values, the peer of each value (or None), and the job."""


class Load(msgspec.Struct, tag_field="type", tag="load", gc=False):
    """A value of a resource of a host.

    A resource between two hosts, or of a part of a host, has a `peer`, or includes the peer in its name: ``power_w>system``.
    """

    system: Name
    host: Name
    resource: Name
    time: str
    value: float
    peer: Name | None = None

    before_ms = 0

    @property
    def quotes(self) -> int:
        """The number of quotes in a JSON message that has exactly the fields of this load.

        A message with this number of quotes therefore has no unknown field, repeated key or escaped quote.
        """
        return QUOTES_OF_LOAD if self.peer is None else QUOTES_OF_LOAD + QUOTES_OF_PEER

    def values(self) -> Iterable[float | None]:
        return (self.value,)

    def names(self) -> _Names:
        return self.resource, (self.peer,), None


class Power(msgspec.Struct, tag_field="type", tag="power", gc=False):
    """The power of a host in W: of the whole host, or of one component; ``cpu:0`` is one of several processors."""

    system: Name
    host: Name
    component: Name
    time: str
    power_w: float | None
    job_id: JobId | None = None

    before_ms = 0

    @property
    def quotes(self) -> int:
        return 22 + _quotes_of_job(self.job_id)

    @property
    def key(self) -> Key:
        return self.system, self.host, self.component, self.job_id, None

    def values(self) -> Iterable[float | None]:
        return (self.power_w,)

    def names(self) -> _Names:
        """Return the resource, the peers and the job of the values. Raise InvalidInputError if the component is unknown."""
        if not _COMPONENT.fullmatch(self.component):
            allowed = ", ".join(COMPONENTS)
            raise invalid(
                "text", f"The component {shown(self.component)} is not one of {allowed}, or a part such as cpu:0."
            )
        return POWER_W, (self.component,), _job(self.job_id)


class Counters(msgspec.Struct, tag_field="type", tag="counters"):
    """Increments of a host's counters during the interval that ended at `time`, or, if cumulative, the values of the counters.

    `job_id` names the job if the producer counted for one job alone. An increment gets the time of the middle of its interval.
    """

    system: Name
    host: Name
    time: str
    counters: _Counts
    interval_s: _Interval | None = None
    job_id: JobId | None = None
    cumulative: bool | None = None

    @property
    def before_ms(self) -> int:
        """The time in ms from the middle of the interval to its end, or 0; it is subtracted from `time`, see the class."""
        return 0 if self.interval_s is None or self.cumulative else round(self.interval_s * 500.0)

    @property
    def quotes(self) -> int:
        optional = (self.interval_s is not None) + (self.cumulative is not None)
        return 18 + 2 * len(self.counters) + 2 * optional + _quotes_of_job(self.job_id)

    @property
    def key(self) -> Key:
        """The system, host, counters, job and kind of the values; messages with equal keys have the same series."""
        return self.system, self.host, tuple(self.counters), self.job_id, self.cumulative

    def values(self) -> Iterable[float | None]:
        return self.counters.values()

    def names(self) -> _Names:
        return COUNTER_TOTAL if self.cumulative else COUNTER_DELTA, tuple(self.counters), _job(self.job_id)


SAMPLE_TYPES: Final = ("load", "power", "counters")
_QUOTED_TYPES: Final = (b'"load"', b'"power"', b'"counters"')
SAMPLE: Final = msgspec.json.Decoder(Load | Power | Counters)
SAMPLES: Final = msgspec.json.Decoder(list[Load | Power | Counters])
# decodes messages, each in its own brackets; with loads as the only type, a message without `type` would count as a load
SLICE: Final = msgspec.json.Decoder(list[tuple[Load | Power | Counters]])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KNOWN: Final = {kind: frozenset(("type", *kind.__struct_fields__)) for kind in (Load, Power, Counters)}


def _quotes_of_job(job_id: str | int | None) -> int:
    return 0 if job_id is None else 4 if isinstance(job_id, str) else 2


def _job(job_id: str | int | None) -> str | None:
    return None if job_id is None else str(job_id)


HOST_STATES: Final = ("up", "drain", "down", "fail", "maintenance", "reboot")


class _State(msgspec.Struct, tag_field="type", tag="host.state"):
    system: Name
    host: Name
    state: str
    time: datetime


_DECODER = msgspec.json.Decoder(_State)


def _host_state(value: bytes, received_ms: int, options: TelemetryOptions) -> HostState:
    """Return the host state event of one JSON object; unknown fields are ignored. Raise InvalidInputError if it is malformed."""
    message = decode_json(_DECODER, value)
    refuse_duplicate_keys(value)
    if message.state not in HOST_STATES:
        raise invalid("state", f"The host state {shown(message.state)} is not one of {', '.join(HOST_STATES)}.")
    refuse_control(message.system, "system")
    refuse_control(message.host, "host")
    time_ms = moment_ms(message.time)
    check_bounds(time_ms, time_ms, received_ms, options.decode)
    host = options.host_of(message.host, message.system)
    return HostState(system=message.system, host=host, state=message.state, time_ms=time_ms)


TIMES_MAX: Final = 16_384

_QUOTE: Final = ord('"')
_LoadKey = tuple[str, str, str, str | None]
_Place = tuple[Sequence[int], Iterable[float | None], int]  # series numbers, values, and their time in ms


class _Type(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()


_TYPE = msgspec.json.Decoder(_Type)
_VALUE = msgspec.json.Decoder(object)
# errors raised for every message that is not a plain sample of a known series
_OTHERS: Final = (*JSON_ERRORS, KeyError, InvalidInputError)


def load_decoder(options: TelemetryOptions, others: Decode | None = None) -> DecodeSamples:
    """Return the decoder of native messages: samples, states of hosts, and job events.

    Messages that are neither samples nor host states go to `others`; if it is None, they are decoded as native events.

    >>> message = b'{"type": "load", "system": "exa", "host": "nid1", "resource": "cpu_available", "value": 0.83'
    >>> batch = load_decoder(TelemetryOptions())([message + b', "time": "2026-11-20T10:00:00Z"}'], [0], SeriesIndex(9))
    >>> batch.samples.value.tolist(), batch.samples.time_ms.tolist()
    ([0.83], [1795168800000])
    """
    return _LoadDecoder(options, others or native_decoder(options.decode)).decode


class _LoadDecoder:
    def __init__(self, options: TelemetryOptions, others: Decode) -> None:
        self._options = options
        self._others = others
        self._bounds = BoundsTable()
        self._known = Known[_LoadKey, int]()
        # entries of `_known` for loads that came in arrays, by host
        self._hosts: dict[tuple[str, str, str | None], dict[str, int]] = {}
        self._hosts_known = self._known.of(SeriesIndex(0))
        self._rows = Known[Key, tuple[int, ...]]()  # series of records that differ only in time and values
        self._plain = False  # whether all messages of the previous slice were samples
        self._times: dict[str, int] = {}

    def decode(self, values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        columns = Columns(received_ms, index)
        if not (self._plain and self._take_slice(values, columns)):
            self._take_one_by_one(values, columns)
            self._plain = len(columns.messages) == len(values) and not columns.counts and not columns.others
        return columns.batch(self._bounds, self._options)

    def _take_slice(self, values: Sequence[bytes | None], columns: Columns) -> bool:
        """Add a slice of loads of known series at once; return False and add nothing if any message is of another kind.

        All messages are parsed as one JSON array, each in brackets of its own. A malformed message cannot join with the next
        one: the line feed between them would be invalid inside a string, and the number of quotes would be wrong for a field
        with an array.
        """
        bytes_max, known, times = self._options.decode.max_message_bytes, self._known.of(columns.index), self._times
        try:
            if max(map(len, values)) > bytes_max:  # type: ignore[arg-type]  # None is caught below
                return False
            joined = b"],\n[".join(values).join((b"[[", b"]]"))  # type: ignore[arg-type]  # see above
            loads: list[Load] = [load for (load,) in SLICE.decode(joined)]  # type: ignore[misc]  # see below
            if {*map(type, loads)} != {Load}:
                return False
            series = [known[load.system, load.host, load.resource, load.peer] for load in loads]
            moments = [times.get(load.time) or self._moment_ms(load.time) for load in loads]
        except (*_OTHERS, TypeError):
            return False
        peers = len(loads) - [load.peer for load in loads].count(None)
        if len(loads) != len(values) or _quotes(joined) != QUOTES_OF_LOAD * len(loads) + QUOTES_OF_PEER * peers:
            return False
        columns.series.fromlist(series)
        columns.time_ms.fromlist(moments)
        columns.values += [load.value for load in loads]
        columns.messages.extend(range(len(loads)))
        return True

    def _take_one_by_one(self, values: Sequence[bytes | None], columns: Columns) -> None:
        bytes_max = self._options.decode.max_message_bytes
        for message, value in enumerate(values):
            try:
                if value is None or len(value) > bytes_max:
                    raise KeyError
                sample = SAMPLE.decode(value)
                if value.count(b'"') != sample.quotes:
                    raise KeyError
                place = self._placed(sample, columns.index)
            except _OTHERS:
                self._decode_other(value or b"", message, columns)
                continue
            columns.add(*place, message)

    def _placed(self, sample: Load | Power | Counters, index: SeriesIndex) -> _Place:
        """Return the series numbers, values and time in ms of a sample. Raise KeyError if the series are not cached yet."""
        moment = self._times.get(sample.time) or self._moment_ms(sample.time)
        if isinstance(sample, Load):
            number = self._known.of(index)[sample.system, sample.host, sample.resource, sample.peer]
            return (number,), (sample.value,), moment
        series = self._rows.of(index)[sample.key]
        return series, sample.values(), moment - sample.before_ms

    def _moment_ms(self, text: str) -> int:
        try:
            moment = moment_ms(msgspec.convert(text, datetime))
        except msgspec.ValidationError as error:
            raise json_error(error) from None
        if len(self._times) >= TIMES_MAX:  # hosts with equal clocks share a few times; other hosts share none
            self._times.clear()
        self._times[text] = moment
        return moment

    def _decode_other(self, value: bytes, message: int, columns: Columns) -> None:
        """Decode a message that is not a plain sample of a known series: the first message of a series, an array, or another event."""
        try:
            value = checked(value, self._options.decode)
            if value[:1] == b"[" and self._decode_samples(value, message, columns):
                return
            if any(kind in value for kind in _QUOTED_TYPES):
                value = without_nan(value) or value
            if value.lstrip()[:1] != b"[":
                self._decode_one(value, message, columns)
            elif not self._decode_samples(value, message, columns):
                elements = elements_of(value, self._options.decode)
                columns.refuse_each(elements, lambda part: self._decode_one(part, message, columns), "[{}]", message)
        except InvalidInputError as error:
            columns.refuse(message, error)

    def _decode_samples(self, value: bytes, message: int, columns: Columns) -> bool:
        """Add an array of plain samples of known series at once; return False and add nothing for any other message."""
        try:
            samples = SAMPLES.decode(value)
            if len(samples) > self._options.decode.elements_max:
                return False
            if {*map(type, samples)} == {Load}:
                return self._take_loads(samples, _quotes(value), message, columns)  # type: ignore[arg-type]  # see above
            if _quotes(value) != sum(sample.quotes for sample in samples):
                return False
            places = [self._placed(sample, columns.index) for sample in samples]
        except _OTHERS:
            return False
        for place in places:
            columns.add(*place, message)
        return True

    def _take_loads(self, loads: list[Load], quotes: int, message: int, columns: Columns) -> bool:
        """Add the `loads` of a message whose series are known; return False and add nothing if the number of quotes does not fit.

        `quotes` is the number of quotes in the message; a different number means fields that loads do not have. Raise KeyError
        for an unknown series. Host and time are looked up only when they change from one load to the next, because they rarely
        do.
        """
        known, times = self._known.of(columns.index), self._times
        if known is not self._hosts_known:
            self._hosts_known, self._hosts = known, {}
        system = host = peer = time = None  # a load's system, host and time are never None
        series: list[int] = []
        moments: list[tuple[int, int]] = []  # index of the first load of each time, and that time in ms
        peers, row = 0, dict[str, int]()
        for load in loads:
            if load.host != host or load.system != system or load.peer != peer:
                system, host, peer = load.system, load.host, load.peer
                row = self._hosts.setdefault((load.system, load.host, peer), {})
            if load.time != time:
                time = load.time
                moments.append((len(series), times.get(load.time) or self._moment_ms(load.time)))
            peers += peer is not None
            number = row.get(load.resource)
            if number is None:
                number = row[load.resource] = known[load.system, load.host, load.resource, peer]
            series.append(number)
        if quotes != QUOTES_OF_LOAD * len(loads) + QUOTES_OF_PEER * peers:
            return False
        columns.series.fromlist(series)
        columns.values += [load.value for load in loads]
        for (first, moment), (end, _) in pairwise((*moments, (len(series), 0))):
            columns.count(moment, message, end - first)
        return True

    def _decode_one(self, value: bytes, message: int, columns: Columns) -> None:
        kind = decode_json(_VALUE, decode_json(_TYPE, value).type or b"null")
        if kind in SAMPLE_TYPES:
            self._decode_sample(value, message, columns)
        elif kind == "host.state":
            event = _host_state(value, columns.received_ms[message], self._options)
            columns.others.append((message, Decoded(events=[event])))
        else:
            columns.others.append((message, self._others(value, columns.received_ms[message])))

    def _decode_sample(self, value: bytes, message: int, columns: Columns) -> None:
        try:
            sample = SAMPLE.decode(value)
        except JSON_ERRORS as error:
            value, bad = _without_texts(value)
            if not bad:
                raise json_error(error) from None
            columns.ignore("no-number", bad)
            self._decode_sample(value, message, columns)
            return
        if value.count(b'"') != sample.quotes:
            refuse_duplicate_keys(value)
            columns.unknown_fields += len(decode_json(_FIELDS, value).keys() - _KNOWN[type(sample)])
        moment, (resource, peers, job_id) = self._moment_ms(sample.time), sample.names()
        host = self._options.host_of(sample.host, sample.system)
        numbers = [number_of(sample.system, host, resource, peer, columns.index, job_id) for peer in peers]
        series = tuple(number for number in numbers if number is not None)
        if len(series) < len(numbers):
            columns.ignore("series", len(numbers) - len(series))
        elif isinstance(sample, Load):
            self._known.of(columns.index)[sample.system, sample.host, sample.resource, sample.peer] = series[0]
        else:
            self._rows.of(columns.index)[sample.key] = series
        values = [value for number, value in zip(numbers, sample.values(), strict=True) if number is not None]
        if values:
            columns.add(series, values, moment - sample.before_ms, message)


def _without_texts(value: bytes) -> tuple[bytes, int]:
    """Return a message of counters with null in place of counter values that are not numbers, and the number of replacements."""
    try:
        record = _FIELDS.decode(value)
        counters = msgspec.json.decode(record.get("counters", b"null"))
    except JSON_ERRORS:
        return value, 0
    if not isinstance(counters, dict) or b'"counters"' not in value:
        return value, 0
    numbers = {name: number_in(count) for name, count in counters.items()}
    bad = sum(number is None and counters[name] is not None for name, number in numbers.items())
    return msgspec.json.encode({**record, "counters": numbers}), bad


def _quotes(value: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(value, np.uint8) == _QUOTE))
