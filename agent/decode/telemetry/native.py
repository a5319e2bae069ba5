"""Native `load` samples, alone or in arrays, also mixed with other native events in one topic."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec

from agent.contracts.decoding import Decode, Decoded
from agent.contracts.errors import InvalidInputError
from agent.contracts.telemetry import DecodedBatch, DecodeSamples, SeriesIndex
from agent.decode.checks import TEXT_MAX
from agent.decode.message import JSON_ERRORS, checked, json_error, refuse_duplicate_keys
from agent.decode.native import native_decoder
from agent.decode.reasons import invalid
from agent.decode.telemetry.columns import Columns, Known, number_of
from agent.decode.telemetry.host_state import decode_host_state
from agent.decode.telemetry.options import TelemetryOptions
from agent.decode.telemetry.resources import BoundsTable
from agent.decode.times import moment_ms

TIMES_MAX: Final = 16_384

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_MAX)]
_Key = tuple[str, str, str, str | None]


class _Load(msgspec.Struct, tag_field="type", tag="load", gc=False):
    system: _Name
    host: _Name
    resource: _Name
    time: str
    value: float
    peer: _Name | None = None


class _Type(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()


_LOAD = msgspec.json.Decoder(_Load)
_LOADS = msgspec.json.Decoder(list[_Load])
_TYPE = msgspec.json.Decoder(_Type)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEYS: Final = frozenset(("type", *_Load.__struct_fields__))
_OTHERS: Final = (*JSON_ERRORS, KeyError, InvalidInputError)  # of what is no plain sample of a known series
# Six keys and five texts have 22 quotes, a peer has 4 more. All are there, so that with just as many there is no
# room for an unknown field, a key named twice or an escaped quote.
_QUOTES: Final = 22
_QUOTES_OF_PEER: Final = 4


def load_decoder(options: TelemetryOptions, others: Decode | None = None) -> DecodeSamples:
    """Return the decoder of native messages: samples and states of hosts, and events of jobs beside them.

    What is neither a sample nor a host state is decoded by `others`, without it as a native event.

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
        self._known = Known[_Key, int]()
        self._times: dict[str, int] = {}

    def decode(self, values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        columns = Columns(received_ms, index)
        known, times, bytes_max = self._known.of(index), self._times, self._options.decode.max_message_bytes
        series, time_ms, samples, messages = columns.series, columns.time_ms, columns.values, columns.messages
        for message, value in enumerate(values):
            if value is None or len(value) > bytes_max:
                self._decode_other(value or b"", message, columns)
                continue
            try:
                load = _LOAD.decode(value)
                number = known[load.system, load.host, load.resource, load.peer]
                moment = times.get(load.time) or self._moment_ms(load.time)
            except _OTHERS:
                self._decode_other(value, message, columns)
                continue
            if value.count(b'"') != (_QUOTES if load.peer is None else _QUOTES + _QUOTES_OF_PEER):
                self._decode_other(value, message, columns)
                continue
            series.append(number)
            time_ms.append(moment)
            samples.append(load.value)
            messages.append(message)
            columns.counts.append(1)
        return columns.batch(self._bounds, self._options)

    def _moment_ms(self, text: str) -> int:
        try:
            moment = moment_ms(msgspec.convert(text, datetime))
        except msgspec.ValidationError as error:
            raise json_error(error) from None
        if len(self._times) >= TIMES_MAX:  # of many hosts that share a clock's seconds, or of none
            self._times.clear()
        self._times[text] = moment
        return moment

    def _decode_other(self, value: bytes, message: int, columns: Columns) -> None:
        """Decode what is no plain sample of a known series: the first of a series, an array, another event."""
        try:
            value = checked(value, self._options.decode)
            if value.lstrip()[:1] != b"[":
                self._decode_one(value, message, columns)
            elif not self._decode_loads(value, message, columns):
                self._decode_elements(value, message, columns)
        except InvalidInputError as error:
            columns.refuse(message, error)

    def _decode_loads(self, value: bytes, message: int, columns: Columns) -> bool:
        """Take an array of plain samples at one go; tell whether it was one."""
        try:
            loads = _LOADS.decode(value)
        except JSON_ERRORS:
            return False
        quotes = len(loads) * _QUOTES + _QUOTES_OF_PEER * sum(load.peer is not None for load in loads)
        if len(loads) > self._options.decode.elements_max or value.count(b'"') != quotes:
            return False
        known = self._known.of(columns.index)
        try:
            series = [known[load.system, load.host, load.resource, load.peer] for load in loads]
            moments = [self._times.get(load.time) or self._moment_ms(load.time) for load in loads]
        except _OTHERS:
            return False
        columns.series += series
        columns.time_ms += moments
        columns.values += [load.value for load in loads]
        columns.messages += [message] * len(loads)
        columns.counts += [1] * len(loads)
        return True

    def _decode_elements(self, value: bytes, message: int, columns: Columns) -> None:
        elements_max = self._options.decode.elements_max
        if value.count(b",") > elements_max and value.count(b",") * 6 > len(value):  # no honest event is so short
            raise invalid("array-bomb", f"The array has more elements than {elements_max}.")
        try:
            elements = _ELEMENTS.decode(value)
        except JSON_ERRORS as error:
            raise json_error(error) from None
        if len(elements) > elements_max:
            raise invalid("array-bomb", f"The array has more elements than {elements_max}.")
        for element in elements:
            try:
                self._decode_one(bytes(element), message, columns)
            except InvalidInputError as error:
                columns.refuse(message, error)

    def _decode_one(self, value: bytes, message: int, columns: Columns) -> None:
        kind = _kind(value)
        if kind == "load":
            self._decode_load(value, message, columns)
        elif kind == "host.state":
            event = decode_host_state(value, columns.received_ms[message], self._options.decode)
            columns.others.append((message, Decoded(events=[event])))
        else:
            columns.others.append((message, self._others(value, columns.received_ms[message])))

    def _decode_load(self, value: bytes, message: int, columns: Columns) -> None:
        try:
            load = _LOAD.decode(value)
        except JSON_ERRORS as error:
            raise json_error(error) from None
        if value.count(b'"') != (_QUOTES if load.peer is None else _QUOTES + _QUOTES_OF_PEER):
            refuse_duplicate_keys(value)
            columns.unknown_fields += _unknown_fields(value)
        moment = self._moment_ms(load.time)
        number = number_of(load.system, load.host, load.resource, load.peer, columns.index)
        if number is None:
            columns.ignore("series")
            return
        self._known.of(columns.index)[load.system, load.host, load.resource, load.peer] = number
        columns.add((number,), (load.value,), moment, message)


def _kind(value: bytes) -> object:
    try:
        return msgspec.json.decode(_TYPE.decode(value).type or b"null")
    except JSON_ERRORS as error:
        raise json_error(error) from None


def _unknown_fields(value: bytes) -> int:
    try:
        return len(_FIELDS.decode(value).keys() - _KEYS)
    except JSON_ERRORS as error:
        raise json_error(error) from None
