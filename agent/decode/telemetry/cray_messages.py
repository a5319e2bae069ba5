"""Messages of Cray EX telemetry in the forms in which they come: Redfish events, their wrapper, and flat records.

hmcollector writes one event to a message, with many sensors; the telemetry API of SMA wraps such messages; HPCM and dftf
write one sensor to a record, with times and values as numbers, and fields in the JSON of Avro (``{"string": "ASIC"}``).
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from agent.contracts.errors import InvalidInputError
from agent.decode.message import JSON_ERRORS, json_error, refuse_duplicate_keys
from agent.decode.reasons import invalid

NONE: Final = -1  # in the place of a number
_WHITESPACE: Final = b" \t\r\n"


class Reading(msgspec.Struct, rename="pascal", gc=False):
    """One reading as hmcollector writes it: value and time are texts; a time may be a number of ms in one."""

    location: str
    value: str
    timestamp: str = ""
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
    """One Redfish event: its name, its readings, or what happened to what."""

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
    """The events of a message, the controller that sent them, the system where it is named, and parts that are refused."""

    events: list[CrayEvent]
    context: str = ""
    system: str = ""
    refused: tuple[InvalidInputError, ...] = ()


_MESSAGE = msgspec.json.Decoder(_Message)


def cray_messages(value: bytes, elements_max: int) -> Iterator[CrayMessage]:
    """Yield the messages in one record; InvalidInputError where it is none, or holds more than `elements_max` parts.

    >>> record = b'{"MessageId": "CrayTelemetry.Power", "Timestamp": 1755683564000, "Location": "x9c3r3b0", "Index": {"int": 5}, "Value": 77.1}'
    >>> [message] = cray_messages(record, 100)
    >>> message.events[0].readings[0].index, message.events[0].readings[0].value
    (5, '77.1')
    """
    try:
        message = _MESSAGE.decode(value)
    except JSON_ERRORS:
        yield from _others(value, elements_max)
        return
    count = sum([len(event.oem.sensors) for event in message.events])
    if count + len(message.events) > elements_max:
        raise _bomb(elements_max)
    if not value.count(b'"Value":') == value.count(b'"Location":') == count:  # white space, or a key named twice
        refuse_duplicate_keys(value)
    yield CrayMessage(message.events, message.context)


def _others(value: bytes, elements_max: int) -> Iterator[CrayMessage]:
    try:
        plain = msgspec.json.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if not isinstance(plain, dict):
        raise invalid("not-an-object", "The message is no JSON object.")
    if value.translate(None, _WHITESPACE).count(b'":') != _keys(plain):  # or nested ones
        refuse_duplicate_keys(value)
    if value.count(b'"Location"') > elements_max:
        raise _bomb(elements_max)
    wrapped = plain.get("metrics")
    if isinstance(wrapped, dict) and isinstance(wrapped.get("messages"), list):
        yield from map(_message, wrapped["messages"])
    elif "Events" in plain:
        yield _message(plain)
    else:
        yield _flat(plain)


def _keys(plain: dict[str, Any]) -> int:
    return len(plain) + sum([len(field) for field in plain.values() if isinstance(field, dict)])


def _message(plain: Any) -> CrayMessage:
    events = plain.get("Events") if isinstance(plain, dict) else None
    if not isinstance(events, list):
        return CrayMessage([], refused=(invalid("wrong-type", "The message has no list of events."),))
    found: list[CrayEvent] = []
    refused: list[InvalidInputError] = []
    for event in events:
        try:
            found.append(_event(event, refused))
        except InvalidInputError as error:
            refused.append(error)
    return CrayMessage(found, _text(plain, "Context"), refused=tuple(refused))


def _event(plain: Any, refused: list[InvalidInputError]) -> CrayEvent:
    if not isinstance(plain, dict):
        raise invalid("wrong-type", "An event of the message is no object.")
    oem, origin, texts = (plain.get(name) for name in ("Oem", "OriginOfCondition", "MessageArgs"))
    oem = oem if isinstance(oem, dict) else {}
    event = CrayEvent(
        message_id=_text(plain, "MessageId"),
        event_timestamp=_stamp(plain, "EventTimestamp"),
        message_args=[str(text) for text in texts] if isinstance(texts, list) else [],
        origin_of_condition=_Origin(_text(origin, "@odata.id") if isinstance(origin, dict) else ""),
        oem=_Oem(telemetry_source=_text(oem, "TelemetrySource")),
    )
    sensors = oem.get("Sensors")
    for sensor in sensors if isinstance(sensors, list) else ():
        try:
            event.readings.append(_reading(sensor))
        except InvalidInputError as error:
            refused.append(error)
    return event


def _flat(plain: dict[str, Any]) -> CrayMessage:
    """Return the message of a record that is one reading; dftf calls the message by the end of its name."""
    name = _text(plain, "MessageId") or _text(plain, "EventName")
    if not name:
        raise invalid("missing-field", "The record has no events, and names no message.")
    oem = _Oem([_reading(plain)], _text(plain, "TelemetrySource"))
    event = CrayEvent(name, event_timestamp=_stamp(plain, "timestamp"), oem=oem)
    return CrayMessage([event], system=_text(plain, "cluster"))


def _reading(plain: Any) -> Reading:
    if not isinstance(plain, dict):
        raise invalid("wrong-type", "A reading is no object.")
    location, value = _text(plain, "Location"), _unwrapped(plain.get("Value"))
    if not location:
        raise invalid("missing-field", "A reading names no location.")
    return Reading(
        location,
        _value(value),
        _stamp(plain, "Timestamp"),
        _text(plain, "ParentalContext"),
        _number(plain, "ParentalIndex"),
        _text(plain, "PhysicalContext"),
        _number(plain, "Index"),
        _text(plain, "PhysicalSubContext"),
        _text(plain, "DeviceSpecificContext"),
        _number(plain, "SubIndex"),
    )


def _unwrapped(field: Any) -> Any:
    """Return a field out of Avro's JSON for one of several types: the name of the type, and the value."""
    return next(iter(field.values())) if isinstance(field, dict) and len(field) == 1 else field


def _text(plain: dict[str, Any], name: str) -> str:
    field = _unwrapped(plain.get(name))
    if field is None:
        return ""
    if not isinstance(field, str):
        raise invalid("wrong-type", f"The field {name} is no text.")
    return field


def _number(plain: dict[str, Any], name: str) -> int:
    field = _unwrapped(plain.get(name))
    if field is None:
        return NONE
    if isinstance(field, bool) or not isinstance(field, int) or abs(field) > 2**31:
        raise invalid("wrong-type", f"The field {name} is no whole number.")
    return field


def _stamp(plain: dict[str, Any], name: str) -> str:
    field = _unwrapped(plain.get(name))
    if isinstance(field, int | float) and not isinstance(field, bool) and abs(field) < 1e18:
        return str(int(field))
    return _text({name: field}, name)


def _value(field: Any) -> str:
    if field is None or isinstance(field, str):
        return field or ""
    if isinstance(field, bool) or not isinstance(field, int | float):
        raise invalid("wrong-type", "The value of a reading is no number.")
    return str(field)


def _bomb(elements_max: int) -> InvalidInputError:
    return invalid("array-bomb", f"The message has more events and readings than {elements_max}.")
