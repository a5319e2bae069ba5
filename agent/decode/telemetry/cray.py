"""Telemetry of HPE Cray EX: power and energy of nodes from Redfish events, and nodes being switched on and off.

hmcollector writes one event with many sensors per message; the telemetry API of SMA wraps such messages. HPCM and dftf
write one sensor per record, with times and values as numbers, and fields in Avro's JSON encoding (``{"string": "ASIC"}``).
"""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from agent.decode.fields import check_bounds, parse_time
from agent.decode.message import (
    JSON_ERRORS,
    DecodeOptions,
    TelemetryOptions,
    decode_json,
    invalid,
    json_error,
    refusals,
    refuse_duplicate_keys,
)
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, Stamps, in_slices, number_of
from agent.decode.telemetry.metric import VALUE_MAX
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decoded, HostState
from processors.contracts.telemetry import (
    ENERGY_TOTAL,
    IGNORED,
    PEER,
    POWER_W,
    DecodeSamples,
    Sensor,
    SensorRule,
    Sensors,
    SeriesIndex,
)


class Reading(msgspec.Struct, rename="pascal", gc=False):
    """A sensor reading. hmcollector writes value and time as strings, other producers as numbers, with the time in ms."""

    location: str
    value: str | float | None
    timestamp: str | float = ""
    parental_context: str = ""
    parental_index: int = -1
    physical_context: str = ""
    index: int = -1
    physical_sub_context: str = ""
    device_specific_context: str = ""
    sub_index: int = -1


class _FlatReading(Reading, rename="pascal", kw_only=True, gc=False):
    """A record of HPCM or dftf: one reading together with the fields of its event."""

    message_id: str = ""
    event_name: str = ""
    telemetry_source: str = ""
    time: float | None = msgspec.field(name="timestamp", default=None)
    cluster: str = msgspec.field(name="cluster", default="")


# a bad message is decoded part by part, so that its bad parts do not affect the others; S and E are then undecoded JSON
S = TypeVar("S")
E = TypeVar("E")


class _Oem(msgspec.Struct, Generic[S], rename="pascal", gc=False):
    sensors: list[S] | None = None
    telemetry_source: str | None = None


class _Origin(msgspec.Struct, gc=False):
    path: str = msgspec.field(name="@odata.id", default="")


class CrayEvent(msgspec.Struct, Generic[S], rename="pascal", gc=False):
    """One Redfish event: its name, and its readings or the state change of a component."""

    message_id: str | None = None
    event_timestamp: str | None = None
    message_args: list[Any] | None = None
    origin_of_condition: _Origin | None = None
    oem: _Oem[S] | None = None

    @property
    def readings(self) -> Sequence[S]:
        return (self.oem and self.oem.sensors) or ()


class _Message(msgspec.Struct, Generic[E], rename="pascal", gc=False):
    events: list[E]
    context: str | None = None


class CrayMessage(NamedTuple):
    """The events of a message, the controller that sent them, the system if the message names it, and the refused parts."""

    events: list[CrayEvent[Reading]]
    context: str = ""
    system: str = ""
    refused: Sequence[InvalidInputError] = ()


class _Messages(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]


class _Wrapper(msgspec.Struct, gc=False):
    metrics: _Messages | None = None


_MESSAGE = msgspec.json.Decoder(_Message[CrayEvent[Reading]])
_FLAT = msgspec.json.Decoder(_FlatReading)
_WRAPPER = msgspec.json.Decoder(_Wrapper)
_RAW_MESSAGE = msgspec.json.Decoder(_Message[msgspec.Raw])
_RAW_EVENT = msgspec.json.Decoder(CrayEvent[msgspec.Raw])
_FIELDS = msgspec.json.Decoder(dict[str, Any])


def cray_messages(value: bytes, options: DecodeOptions) -> list[CrayMessage]:
    """Return the Cray messages in one record. Raise InvalidInputError if the record is malformed or has too many parts."""
    if b'"Events"' not in value:
        return [_flat(value)]
    try:
        message = _MESSAGE.decode(value)
    except JSON_ERRORS:
        return _each_message(value, options)
    count = sum([len(event.readings) for event in message.events])
    options.check_count(count + len(message.events), "events and readings")
    if value.count(b'"Value":') != count:  # the message has white space or a duplicate key
        refuse_duplicate_keys(value)
    return [CrayMessage(message.events, message.context or "")]


def _each_message(value: bytes, options: DecodeOptions) -> list[CrayMessage]:
    """Return the messages in a wrapper, or a single message, decoded part by part; malformed parts are listed as refused."""
    wrapped = decode_json(_WRAPPER, value).metrics
    refuse_duplicate_keys(value)
    raw_messages = [msgspec.Raw(value)] if wrapped is None else wrapped.messages
    messages: list[CrayMessage] = []
    parts = 0

    def count(number: int) -> None:
        nonlocal parts
        parts += number
        options.check_count(parts, "events and readings")

    count(len(raw_messages))
    for raw in raw_messages:
        try:
            message = decode_json(_RAW_MESSAGE, raw)
        except InvalidInputError as error:
            messages.append(CrayMessage([], refused=(error,)))
            continue
        count(len(message.events))
        events: list[CrayEvent[Any]] = []
        refused: list[InvalidInputError] = []
        for number, part in enumerate(message.events):
            try:
                event = decode_json(_RAW_EVENT, part)
            except InvalidInputError as error:
                refused.append(error.at(f"Events[{number}]"))
                continue
            count(len(event.readings))
            readings, errors = _readings(event.readings, f"Events[{number}].Sensors[{{}}]")
            refused += errors
            oem = _Oem(readings, event.oem.telemetry_source if event.oem else None)
            events.append(msgspec.structs.replace(event, oem=oem))
        messages.append(CrayMessage(events, message.context or "", refused=refused))
    return messages


def _readings(sensors: Sequence[msgspec.Raw], place: str) -> tuple[list[Reading], list[InvalidInputError]]:
    readings: list[Reading] = []
    return readings, refusals(sensors, lambda sensor: readings.append(_bare(sensor, Reading)), place)


def _flat(value: bytes) -> CrayMessage:
    """Return the message of a record with one reading; dftf writes the message id as a suffix of the record's name."""
    try:
        reading = _FLAT.decode(value)
    except JSON_ERRORS:
        reading = _bare(value, _FlatReading)
    if not value.count(b'"Value":') == value.count(b'"Location":') == 1:
        refuse_duplicate_keys(value)
    name = reading.message_id or reading.event_name
    if not name:
        raise invalid("missing-field", "The record has no events and no message name.")
    reading.timestamp = reading.timestamp or reading.time or ""
    return CrayMessage([CrayEvent(name, oem=_Oem([reading], reading.telemetry_source))], system=reading.cluster)


R = TypeVar("R", bound=Reading)


def _bare(value: bytes | msgspec.Raw, kind: type[R]) -> R:
    """Return a reading without fields that are null, except the value, and without the type names that Avro's JSON encoding adds."""
    plain = decode_json(_FIELDS, value)
    bare = {
        name: next(iter(field.values()), None) if isinstance(field, dict) else field for name, field in plain.items()
    }
    try:
        return msgspec.convert(
            {name: field for name, field in bare.items() if field is not None or name == "Value"}, kind
        )
    except msgspec.ValidationError as error:
        raise json_error(error) from None


_OF_NODE: Final = re.compile(r"x[0-9]+c[0-9]+s[0-9]+b[0-9]+(?:n[0-9]+)?")
_SYSTEM, _CPU = f"{POWER_W}{PEER}system", f"{POWER_W}{PEER}cpu:{{parent}}"
_REGULATOR: Final = "VoltageRegulator"
_SIDES: Final = ("Input", "Output")

CRAY: Final = Sensors(
    [
        *(SensorRule("Power", _SYSTEM, "W", "Chassis", _REGULATOR, side) for side in _SIDES),
        SensorRule("Power", _SYSTEM, "W", physical_context="PowerControlIntake"),
        SensorRule("Power", _SYSTEM, "W", "-", "Chassis"),
        *(SensorRule("Power", _CPU, "W", "CPU", _REGULATOR, side) for side in _SIDES),
        *(SensorRule("Energy", f"{ENERGY_TOTAL}{PEER}system", "J", "Chassis", _REGULATOR, side) for side in _SIDES),
        SensorRule("Energy", f"{ENERGY_TOTAL}{PEER}cpu:{{parent}}", "J", "CPU", _REGULATOR),
    ]
)
"""The power of a node is the input of its voltage regulator, else its output, else the reading of a River server.

Sites may have nodes with different sensors, and may be billed by another sensor, so rules of the site's file of units come first.
"""


class Target(msgspec.Struct, gc=False):
    """The use of a sensor: its readings are samples of `series`, multiplied by a factor, or (`series` -1) ignored for a reason.

    `order` is the position of the sensor's rule among all rules, and the sensor itself; it decides between duplicate sensors.
    """

    series: int = -1
    factor: float = 1.0
    reason: str = ""
    order: tuple[int, Sensor] = (0, Sensor("", ""))


def _shown(sensor: Sensor) -> str:
    """Return a sensor without its location, in the form that an operator would search for in the file of units."""
    inner = f"{sensor.parental_context}/{sensor.physical_context}".strip("/")
    return " ".join(part for part in (sensor.message, inner, sensor.sub_context, sensor.device_context) if part)


SECONDS_MAX: Final = 16_384
POWER_STATE: Final = "ResourcePowerStateChanged"
STATES: Final = {"On": "up", "Off": "down"}
_NODE: Final = re.compile(r"/redfish/v1/Systems/(?:Node([0-9]{1,3})|Self|1)/?")
_THOUSANDTHS: Final = {f".{number:03d}": number for number in range(1000)}

_Key = tuple[str, str, str, int, str, int, str, str, int, str, str]


def cray_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of Cray EX telemetry from hmcollector, SMA's API, HPCM and dftf; the file of nodes gives the hosts.

    >>> from processors.contracts.nodes import Node, Nodes
    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> nodes = Nodes([Node("nid1", xname="x9c3s0b0n0")])
    >>> decode = cray_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa"), nodes=nodes))
    >>> sensor = b'{"Timestamp":"2026-11-20T10:00:00.5Z","Location":"x9c3s0b0n0","PhysicalContext":"Chassis","Value":"258"}'
    >>> event = b'{"MessageId":"CrayTelemetry.Power","Oem":{"Sensors":[' + sensor + b"]}}"
    >>> index = SeriesIndex(9)
    >>> batch = decode([b'{"Context":"x9c3s0b0","Events":[' + event + b"]}"], [1795168801000], index)
    >>> index[0], batch.samples.value.tolist()
    (Series(system='exa', host='nid1', resource='power_w>system'), [258.0])
    """
    return in_slices(_Decoder(options).decode, options)


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._sensors = options.sensors + CRAY
        self._known = Known[_Key, Target]()
        self._owners = Known[int, Target]()
        self._times = RedfishTimes()

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        for part in cray_messages(value, self._options.decode):
            for event in part.events:
                if event.readings:
                    self._take(event, event.readings, part.system, message, columns)
                elif not self._take_state(event, part, message, columns):
                    columns.ignore("event")
            for error in part.refused:
                columns.refuse(message, error)

    def _take(
        self, event: CrayEvent[Reading], readings: Sequence[Reading], system: str, message: int, columns: Columns
    ) -> None:
        name = event.message_id or ""
        if not self._sensors.concerns(name):
            self._options.missed.note("metrics", name[:KEY_BYTES_MAX])
            columns.ignore("metric", len(readings))
            return
        source, targets_by_key = (event.oem and event.oem.telemetry_source) or "", self._known.of(columns.index)
        keys: list[_Key] = [
            (
                name, r.location, r.parental_context, r.parental_index, r.physical_context, r.index,
                r.physical_sub_context, r.device_specific_context, r.sub_index, source, system,
            )
            for r in readings
        ]  # fmt: skip
        targets = [targets_by_key.get(key) for key in keys]
        # look up all targets before using the first reading, because the last sensor may be the preferred one
        if None in targets:
            targets = [targets_by_key.get(key) or self._target(key, columns.index, targets_by_key) for key in keys]
        self._add(zip(readings, targets, strict=True), event.event_timestamp or "", message, columns)

    def _add(
        self, readings: Iterable[tuple[Reading, Target | None]], event_stamp: str, message: int, columns: Columns
    ) -> None:
        series, values, times, times_of = columns.series, columns.values, columns.time_ms, self._times.time_ms
        before = len(series)
        for reading, target in readings:
            if target is None or target.series < 0:
                columns.ignore("text" if target is None else target.reason)
                continue
            amount = number(reading.value)
            if amount is None:
                columns.ignore("null")
                continue
            try:
                times.append(times_of(reading.timestamp or event_stamp))
            except InvalidInputError as error:
                columns.refuse(message, error)
                continue
            series.append(target.series)
            values.append(amount * target.factor)
        columns.messages.extend(repeat(message, len(series) - before))

    def _target(self, key: _Key, index: SeriesIndex, targets_by_key: dict[_Key, Target]) -> Target | None:
        """Return the target of a sensor and cache it; None if a name of the sensor is invalid."""
        system = self._options.decode.system_of(key[-1])
        try:
            target = self._resolved(Sensor(*key[:-1]), system, index)
        except InvalidInputError:
            return None
        if sum(len(text) for text in key if isinstance(text, str)) <= KEY_BYTES_MAX:
            targets_by_key[key] = target
        return target

    def _resolved(self, sensor: Sensor, system: str, index: SeriesIndex) -> Target:
        """Return the target of a sensor. Raise InvalidInputError if its names cannot be displayed.

        If several sensors measure the same resource of a host, only the sensor of the earliest rule is used, because input and output
        power of a node must not be added or mixed.
        """
        nodes, missed, location = self._options.nodes, self._options.missed, sensor.location
        node = nodes.controlled(location, system)
        if node is None:
            shared = not _OF_NODE.fullmatch(location.lower()) or nodes.shared(location, system)
            missed.note("shared" if shared else "hosts", location)
            return Target(reason="shared" if shared else "unknown-host")
        match = self._sensors.find(sensor)
        if match is None:
            missed.note("units", _shown(sensor))
            return Target(reason="unit")
        if match.rule.resource == IGNORED:
            return Target(reason="metric")
        resource, _, peer = match.rule.named(sensor).partition(PEER)
        series = number_of(system, node.host, resource, peer or None, index)
        if series is None:
            return Target(reason="series")
        target, owners = Target(series, match.rule.factor, order=(match.rank, sensor)), self._owners.of(index)
        owner = owners.setdefault(series, target)
        if owner.order == target.order:  # the same sensor, evicted from `_known`
            return owner
        owners[series], loser = sorted((owner, target), key=lambda target: target.order)
        missed.note("second", _shown(loser.order[1]))
        loser.series, loser.reason = -1, "second-sensor"
        return target

    def _take_state(self, event: CrayEvent[Reading], part: CrayMessage, message: int, columns: Columns) -> bool:
        """Add the event of a node that was switched on or off; return whether `event` reports a node that was switched."""
        args, origin = [*map(str, event.message_args or ())], event.origin_of_condition or _Origin()
        if not (event.message_id or "").endswith(POWER_STATE) or not args:
            return False
        place = _NODE.fullmatch(origin.path or args[0])
        state = STATES.get(args[-1])
        system = part.system or self._options.decode.default_system
        if place is None or state is None or not system:
            return False
        location = f"{part.context}n{place[1]}" if place[1] else part.context
        node = self._options.nodes.controlled(location, system)
        if node is None:
            self._options.missed.note("hosts", location)
            return False
        time_ms = self._times.time_ms(event.event_timestamp or "")
        check_bounds(time_ms, time_ms, columns.received_ms[message], self._options.decode)
        event_of_host = HostState(system=system, host=node.host, state=state, time_ms=time_ms)
        columns.others.append((message, Decoded(events=[event_of_host])))
        return True


def number(text: str | float | None) -> float | None:
    """Return the number in a text; None if the text is not a finite number."""
    try:
        amount = math.nan if text is None else float(text)
    except ValueError:
        return None
    return amount if -VALUE_MAX <= amount <= VALUE_MAX and not (isinstance(text, str) and "_" in text) else None


class RedfishTimes:
    """Times of readings: RFC 3339 up to nanoseconds, or a number of ms. The bounded cache is by second, because readings share seconds."""

    def __init__(self) -> None:
        self._seconds: dict[str, int] = {}
        self._stamps = Stamps("auto")

    def time_ms(self, stamp: str | float) -> int:
        """Return the time of a reading in ms. Raise InvalidInputError (``time``) if `stamp` is not a time."""
        if not isinstance(stamp, str):
            return self._stamps.time_ms(stamp)
        second_ms, rest = self._seconds.get(stamp[:19]), stamp[23:]
        if second_ms is not None and (rest == "Z" or (rest[-1:] == "Z" and rest[:-1].isdigit() and rest.isascii())):
            thousandths = _THOUSANDTHS.get(stamp[19:23])
            if thousandths is not None:
                return second_ms + thousandths
        if not stamp:
            raise invalid("time", "A reading has no time.")
        time_ms = parse_time(stamp)
        if stamp.endswith("Z") and len(stamp) > len("2026-11-20T10:00:00"):
            if len(self._seconds) >= SECONDS_MAX:
                self._seconds.clear()
            self._seconds[stamp[:19]] = parse_time(stamp[:19] + "Z")
        return time_ms
