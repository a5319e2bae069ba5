"""Telemetry of HPE Cray EX: power and energy of nodes from Redfish events, and nodes that are switched on and off."""

import math
import re
from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

import msgspec

from agent.decode.fields import check_bounds, parse_time
from agent.decode.message import JSON_ERRORS, TelemetryOptions, checked, invalid, json_error, refuse_duplicate_keys
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

# Messages of Cray EX telemetry in the forms in which they come: Redfish events, their wrapper, and flat records.
# hmcollector writes one event to a message, with many sensors; the telemetry API of SMA wraps such messages; HPCM and dftf
# write one sensor to a record, with times and values as numbers, and fields in the JSON of Avro (``{"string": "ASIC"}``).
NONE: Final = -1  # in the place of a number
_WHITESPACE: Final = b" \t\r\n"


class Reading(msgspec.Struct, rename="pascal", gc=False):
    """One reading: hmcollector writes value and time as texts, other producers as numbers, with the time in ms."""

    location: str
    value: str | float | None
    timestamp: str | float = ""
    parental_context: str = ""
    parental_index: int = NONE
    physical_context: str = ""
    index: int = NONE
    physical_sub_context: str = ""
    device_specific_context: str = ""
    sub_index: int = NONE


class _Oem(msgspec.Struct, rename="pascal", gc=False):
    sensors: list[Reading] = []
    telemetry_source: str = ""


class _Origin(msgspec.Struct, gc=False):
    path: str = msgspec.field(name="@odata.id", default="")


class CrayEvent(msgspec.Struct, rename="pascal", gc=False):
    """One Redfish event: its name, and its readings or the change of a component."""

    message_id: str
    event_timestamp: str = ""
    message_args: list[str] = []
    origin_of_condition: _Origin = msgspec.field(default_factory=_Origin)
    oem: _Oem = msgspec.field(default_factory=_Oem)

    @property
    def readings(self) -> list[Reading]:
        """The readings in their order."""
        return self.oem.sensors


class _Message(msgspec.Struct, rename="pascal", gc=False):
    events: list[CrayEvent]
    context: str = ""


class CrayMessage(NamedTuple):
    """The events of a message, the controller that sent them, the system if it is named, and refused parts."""

    events: list[CrayEvent]
    context: str = ""
    system: str = ""
    refused: tuple[InvalidInputError, ...] = ()


_Text = str | dict[str, str | None] | None
_Whole = int | dict[str, int | None] | None


class _Flat(msgspec.Struct, rename="pascal", gc=False):
    """One reading of HPCM or dftf; a field may be an object with one key, the type name in Avro's JSON."""

    location: _Text
    value: str | float | dict[str, str | float | None] | None
    message_id: _Text = None
    event_name: _Text = None
    timestamp: str | float | dict[str, str | float | None] | None = None
    parental_context: _Text = None
    parental_index: _Whole = None
    physical_context: _Text = None
    index: _Whole = None
    physical_sub_context: _Text = None
    device_specific_context: _Text = None
    sub_index: _Whole = None
    telemetry_source: _Text = None
    time: float | None = msgspec.field(name="timestamp", default=None)
    cluster: _Text = msgspec.field(name="cluster", default=None)


_MESSAGE = msgspec.json.Decoder(_Message)
_FLAT = msgspec.json.Decoder(_Flat)


def cray_messages(value: bytes, elements_max: int) -> Iterator[CrayMessage]:
    """Yield the messages in one record. Raise InvalidInputError if it is malformed or holds more than `elements_max` parts.

    >>> record = b'{"MessageId": "CrayTelemetry.Power", "Timestamp": 1755683564000, "Location": "x9c3r3b0", "Index": {"int": 5}, "Value": 77.1}'
    >>> [message] = cray_messages(record, 100)
    >>> message.events[0].readings[0].index, message.events[0].readings[0].value
    (5, 77.1)
    """
    if b'"Events"' not in value:
        yield _flat(value)
        return
    try:
        message = _MESSAGE.decode(value)
    except JSON_ERRORS:
        yield from _others(value, elements_max)
        return
    count = sum([len(event.oem.sensors) for event in message.events])
    if count + len(message.events) > elements_max:
        raise _bomb(elements_max)
    if value.count(b'"Value":') != count:  # white space, or one named twice
        refuse_duplicate_keys(value)
    yield CrayMessage(message.events, message.context)


def _others(value: bytes, elements_max: int) -> Iterator[CrayMessage]:
    try:
        plain = msgspec.json.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if not isinstance(plain, dict):
        raise invalid("not-an-object", "The message is not a JSON object.")
    if value.translate(None, _WHITESPACE).count(b'":') != _keys(plain):  # or nested ones
        refuse_duplicate_keys(value)
    wrapped = plain.get("metrics")
    wrapped = wrapped.get("messages") if isinstance(wrapped, dict) else None
    messages = wrapped if isinstance(wrapped, list) else [plain]
    if len(messages) + sum(map(_parts, messages)) > elements_max:
        raise _bomb(elements_max)
    yield from map(_message, messages)


def _parts(plain: Any) -> int:
    """Return the number of events and readings in a message, valid or not: each one may become a refusal."""
    events = plain.get("Events") if isinstance(plain, dict) else None
    events = events if isinstance(events, list) else []
    inner = [
        event["Oem"].get("Sensors")
        for event in events
        if isinstance(event, dict) and isinstance(event.get("Oem"), dict)
    ]
    return len(events) + sum(len(sensors) for sensors in inner if isinstance(sensors, list))


def _keys(plain: dict[str, Any]) -> int:
    return len(plain) + sum([len(field) for field in plain.values() if isinstance(field, dict)])


def _message(plain: Any) -> CrayMessage:
    events = plain.get("Events") if isinstance(plain, dict) else None
    if not isinstance(events, list):
        return CrayMessage([], refused=(invalid("wrong-type", "The message has no list of events."),))
    found: list[CrayEvent] = []
    refused: list[InvalidInputError] = []
    for number, event in enumerate(events):
        try:
            found.append(_event(event, number, refused))
        except InvalidInputError as error:
            refused.append(error.at(f"Events[{number}]"))
    return CrayMessage(found, _text(plain, "Context"), refused=tuple(refused))


def _event(plain: Any, number: int, refused: list[InvalidInputError]) -> CrayEvent:
    if not isinstance(plain, dict):
        raise invalid("wrong-type", "An event of the message is no object.")
    oem, origin, texts = (plain.get(name) for name in ("Oem", "OriginOfCondition", "MessageArgs"))
    oem = oem if isinstance(oem, dict) else {}
    event = CrayEvent(
        message_id=_text(plain, "MessageId"),
        event_timestamp=_text(plain, "EventTimestamp"),
        message_args=[str(text) for text in texts] if isinstance(texts, list) else [],
        origin_of_condition=_Origin(_text(origin, "@odata.id") if isinstance(origin, dict) else ""),
        oem=_Oem(telemetry_source=_text(oem, "TelemetrySource")),
    )
    sensors = oem.get("Sensors")
    for at, sensor in enumerate(sensors if isinstance(sensors, list) else ()):
        try:
            event.readings.append(_reading(sensor))
        except InvalidInputError as error:
            refused.append(error.at(f"Events[{number}].Sensors[{at}]"))
    return event


def _flat(value: bytes) -> CrayMessage:
    """Return the message of a record that is one reading; for dftf, the suffix of its name is the name of the message."""
    try:
        flat = _FLAT.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if not value.count(b'"Value":') == value.count(b'"Location":') == 1:
        refuse_duplicate_keys(value)
    name = _value_text(flat.message_id) or _value_text(flat.event_name)
    if not name:
        raise invalid("missing-field", "The record has no events and no message name.")
    stamp = _bare(flat.timestamp) or flat.time or ""
    reading = Reading(
        _value_text(flat.location),
        _bare(flat.value),
        stamp,
        _value_text(flat.parental_context),
        _count(flat.parental_index),
        _value_text(flat.physical_context),
        _count(flat.index),
        _value_text(flat.physical_sub_context),
        _value_text(flat.device_specific_context),
        _count(flat.sub_index),
    )
    return CrayMessage(
        [CrayEvent(name, oem=_Oem([reading], _value_text(flat.telemetry_source)))], system=_value_text(flat.cluster)
    )


def _value_text(field: "_Text") -> str:
    return field if isinstance(field, str) else _bare(field) or ""


def _count(field: "_Whole") -> int:
    number = _bare(field)
    return NONE if number is None else int(number)


def _bare(field: Any) -> Any:
    """Return the value of a field that Avro's JSON writes as a type name with a value."""
    return next(iter(field.values()), None) if isinstance(field, dict) else field


def _reading(plain: Any) -> Reading:
    if not isinstance(plain, dict):
        raise invalid("wrong-type", "A reading is not an object.")
    try:
        bare = {name: reported for name, field in plain.items() if (reported := _bare(field)) is not None}
        return msgspec.convert(bare, Reading)
    except msgspec.ValidationError as error:
        raise json_error(error) from None


def _text(plain: dict[str, Any], name: str) -> str:
    field = plain.get(name)
    if field is None:
        return ""
    if not isinstance(field, str):
        raise invalid("wrong-type", f"The field {name} is not text.")
    return field


def _bomb(elements_max: int) -> InvalidInputError:
    return invalid("array-bomb", f"The message has more events and readings than {elements_max}.")


_OF_NODE: Final = re.compile(r"x[0-9]+c[0-9]+s[0-9]+b[0-9]+(?:n[0-9]+)?")
_SYSTEM, _CPU = f"{POWER_W}{PEER}system", f"{POWER_W}{PEER}cpu:{{parent}}"
_REGULATOR: Final = "VoltageRegulator"

CRAY: Final = Sensors(
    [
        SensorRule("Power", _SYSTEM, "W", "Chassis", _REGULATOR, "Input"),
        SensorRule("Power", _SYSTEM, "W", "Chassis", _REGULATOR, "Output"),
        SensorRule("Power", _SYSTEM, "W", physical_context="PowerControlIntake"),
        SensorRule("Power", _SYSTEM, "W", "-", "Chassis"),
        SensorRule("Power", _CPU, "W", "CPU", _REGULATOR, "Input"),
        SensorRule("Power", _CPU, "W", "CPU", _REGULATOR, "Output"),
        SensorRule("Energy", f"{ENERGY_TOTAL}{PEER}system", "J", "Chassis", _REGULATOR, "Input"),
        SensorRule("Energy", f"{ENERGY_TOTAL}{PEER}system", "J", "Chassis", _REGULATOR, "Output"),
        SensorRule("Energy", f"{ENERGY_TOTAL}{PEER}cpu:{{parent}}", "J", "CPU", _REGULATOR),
    ]
)
"""The power of a node is what goes into its voltage regulator, else what comes out of it, else what a River server tells.

Which of them a site's nodes have, and which is the one that is billed, a site may say in its own file, which goes before.
"""


class Target(msgspec.Struct, gc=False):
    """The meaning of a sensor's readings: samples of a series, multiplied by a factor, or (`series` -1) left out for a reason.

    >>> Target(reason="shared").series
    -1
    """

    series: int = -1
    factor: float = 1.0
    reason: str = ""
    order: tuple[int, Sensor] = (0, Sensor("", ""))


class Resolver:
    """Finds the target of each sensor, for one index of series.

    If several sensors measure the same resource of a host, only the sensor of the earliest rule counts: input and output power of a
    node must not be added or mixed.

    >>> from processors.contracts.nodes import Node, Nodes
    >>> options = TelemetryOptions(nodes=Nodes([Node("nid1", xname="x9c3s0b0n0")]))
    >>> resolver, index = Resolver(options), SeriesIndex(9)
    >>> sensor = Sensor("CrayTelemetry.Power", "x9c3s0b0n0", "Chassis", -1, "VoltageRegulator", 0, "Output")
    >>> target = resolver.target(sensor, "exa", index)
    >>> target.series, index[0].resource, resolver.target(sensor._replace(location="x9c3"), "exa", index).reason
    (0, 'power_w>system', 'shared')
    >>> resolver.target(sensor._replace(sub_context="Input"), "exa", index).series, target.reason
    (0, 'second-sensor')
    """

    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._sensors = options.sensors + CRAY
        self._index: SeriesIndex | None = None
        self._owners: dict[int, Target] = {}

    def concerns(self, message: str) -> bool:
        """Return whether readings of messages with this name can matter."""
        return self._sensors.concerns(message)

    def target(self, sensor: Sensor, system: str, index: SeriesIndex) -> Target:
        """Return the meaning of a sensor's readings. Raise InvalidInputError if its names cannot be displayed."""
        if index is not self._index:
            self._index, self._owners = index, {}
        node = self._options.nodes.controlled(sensor.location, system)
        if node is None:
            return self._nowhere(sensor.location, system)
        found = self._sensors.find(sensor)
        if found is None:
            self._options.missed.note("units", _shown(sensor))
            return Target(reason="unit")
        if found.rule.resource == IGNORED:
            return Target(reason="metric")
        resource, _, peer = found.rule.named(sensor).partition(PEER)
        series = number_of(system, node.host, resource, peer or None, index)
        if series is None:
            return Target(reason="series")
        return self._owned(Target(series, found.rule.factor, order=(found.rank, sensor)))

    def _nowhere(self, location: str, system: str) -> Target:
        """Return the reason why a place has no host: several nodes share it, or its node is not listed."""
        if not _OF_NODE.fullmatch(location.lower()) or self._options.nodes.shared(location, system):
            self._options.missed.note("shared", location)
            return Target(reason="shared")
        self._options.missed.note("hosts", location)
        return Target(reason="unknown-host")

    def _owned(self, target: Target) -> Target:
        """Return the target, left out if a better sensor of the same resource has it."""
        owner = self._owners.setdefault(target.series, target)
        if owner.order == target.order:  # the same, forgotten meanwhile
            return owner
        better, other = sorted((owner, target), key=lambda one: one.order)
        self._owners[target.series] = better
        self._options.missed.note("second", _shown(other.order[1]))
        other.series, other.reason = -1, "second-sensor"
        return target


def _shown(sensor: Sensor) -> str:
    """Return a sensor without its place, as an operator would search for it in the file of units."""
    inner = f"{sensor.parental_context}/{sensor.physical_context}".strip("/")
    return " ".join(part for part in (sensor.message, inner, sensor.sub_context, sensor.device_context) if part)


SECONDS_MAX: Final = 16_384
POWER_STATE: Final = "ResourcePowerStateChanged"
STATES: Final = {"On": "up", "Off": "down"}
_NODE: Final = re.compile(r"/redfish/v1/Systems/(?:Node([0-9]{1,3})|Self|1)/?")
_THOUSANDTHS: Final = {f".{number:03d}": number for number in range(1000)}

_Key = tuple[str, str, str, int, str, int, str, str, int, str, str]


def cray_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of Cray EX telemetry as hmcollector, SMA's API, HPCM and dftf write it; the file of nodes gives the hosts.

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
        self._resolver = Resolver(options)
        self._known = Known[_Key, Target]()
        self._times = RedfishTimes()

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        value = checked(value, self._options.decode)
        for one in cray_messages(value, self._options.decode.elements_max):
            for event in one.events:
                if event.readings:
                    self._take(event, one, message, columns)
                elif not self._take_state(event, one, message, columns):
                    columns.ignore("event")
            for error in one.refused:
                columns.refuse(message, error)

    def _take(self, event: CrayEvent, one: CrayMessage, message: int, columns: Columns) -> None:
        name, readings = event.message_id, event.readings
        if not self._resolver.concerns(name):
            self._options.missed.note("metrics", name[:KEY_BYTES_MAX])
            columns.ignore("metric", len(readings))
            return
        source, system, known = event.oem.telemetry_source, one.system, self._known.of(columns.index)
        keys: list[_Key] = [
            (
                name, r.location, r.parental_context, r.parental_index, r.physical_context, r.index,
                r.physical_sub_context, r.device_specific_context, r.sub_index, source, system,
            )
            for r in readings
        ]  # fmt: skip
        targets = [known.get(key) for key in keys]
        if None in targets:  # all before the first is taken, which the last may outdo
            targets = [known.get(key) or self._target(key, columns, known) for key in keys]
        self._add(event, targets, message, columns)

    def _add(self, event: CrayEvent, targets: list[Target | None], message: int, columns: Columns) -> None:
        series, values, times, times_of = columns.series, columns.values, columns.time_ms, self._times.time_ms
        before = len(series)
        for reading, target in zip(event.oem.sensors, targets, strict=True):
            if target is None or target.series < 0:
                columns.ignore("text" if target is None else target.reason)
                continue
            amount = number(reading.value)
            if amount is None:
                columns.ignore("null")
                continue
            try:
                times.append(times_of(reading.timestamp or event.event_timestamp))
            except InvalidInputError as error:
                columns.refuse(message, error)
                continue
            series.append(target.series)
            values.append(amount * target.factor)
        columns.messages.extend(repeat(message, len(series) - before))

    def _target(self, key: _Key, columns: Columns, known: dict[_Key, Target]) -> Target | None:
        """Return the target of a sensor, cached; None if its names cannot belong to a sensor."""
        system = self._options.decode.system_of(key[-1])
        try:
            target = self._resolver.target(Sensor(*key[:-1]), system, columns.index)
        except InvalidInputError:
            return None
        if sum(len(text) for text in key if isinstance(text, str)) <= KEY_BYTES_MAX:
            known[key] = target
        return target

    def _take_state(self, event: CrayEvent, one: CrayMessage, message: int, columns: Columns) -> bool:
        """Add the event of a node that was switched on or off; return whether the event was of this kind."""
        if not event.message_id.endswith(POWER_STATE) or not event.message_args:
            return False
        place = _NODE.fullmatch(event.origin_of_condition.path or event.message_args[0])
        state = STATES.get(event.message_args[-1])
        system = one.system or self._options.decode.default_system
        if place is None or state is None or not system:
            return False
        location = f"{one.context}n{place[1]}" if place[1] else one.context
        node = self._options.nodes.controlled(location, system)
        if node is None:
            self._options.missed.note("hosts", location)
            return False
        time_ms = self._times.time_ms(event.event_timestamp)
        check_bounds(time_ms, time_ms, columns.received_ms[message], self._options.decode)
        found = HostState(system=system, host=node.host, state=state, time_ms=time_ms)
        columns.others.append((message, Decoded(events=[found])))
        return True


def number(text: str | float | None) -> float | None:
    """Return the number in a text; None if it is not a finite number.

    >>> number("473.000"), number(473), number("NaN"), number("1_0"), number("")
    (473.0, 473.0, None, None, None)
    """
    try:
        amount = math.nan if text is None else float(text)
    except ValueError:
        return None
    return amount if -VALUE_MAX <= amount <= VALUE_MAX and not (isinstance(text, str) and "_" in text) else None


class RedfishTimes:
    """Times of readings: RFC 3339 to the nanosecond, or a number of ms. Cached by second, because many readings share it; bounded.

    >>> RedfishTimes().time_ms("2021-04-28T18:36:11.951742109Z"), RedfishTimes().time_ms(1755683564000)
    (1619634971951, 1755683564000)
    """

    def __init__(self) -> None:
        self._seconds: dict[str, int] = {}
        self._stamps = Stamps("auto")

    def time_ms(self, stamp: str | float) -> int:
        """Return the time in ms. Raise InvalidInputError (``time``) for other texts."""
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
