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
    """One reading: hmcollector writes value and time as texts, others as numbers, the time in ms."""

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


_Text = str | dict[str, str | None] | None
_Whole = int | dict[str, int | None] | None


class _Flat(msgspec.Struct, rename="pascal", gc=False):
    """One reading of HPCM or dftf; a field may be an object of one key, the name of its type in Avro's JSON."""

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
    """Yield the messages in one record; InvalidInputError where it is none, or holds more than `elements_max` parts.

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
        raise invalid("not-an-object", "The message is no JSON object.")
    if value.translate(None, _WHITESPACE).count(b'":') != _keys(plain):  # or nested ones
        refuse_duplicate_keys(value)
    if value.count(b'"Location"') > elements_max:
        raise _bomb(elements_max)
    wrapped = plain.get("metrics")
    if isinstance(wrapped, dict) and isinstance(wrapped.get("messages"), list):
        yield from map(_message, wrapped["messages"])
    else:
        yield _message(plain)


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
        event_timestamp=_text(plain, "EventTimestamp"),
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


def _flat(value: bytes) -> CrayMessage:
    """Return the message of a record that is one reading; dftf calls the message by the end of its name."""
    try:
        flat = _FLAT.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if not value.count(b'"Value":') == value.count(b'"Location":') == 1:
        refuse_duplicate_keys(value)
    name = _told(flat.message_id) or _told(flat.event_name)
    if not name:
        raise invalid("missing-field", "The record has no events, and names no message.")
    stamp = _bare(flat.timestamp) or flat.time or ""
    reading = Reading(
        _told(flat.location),
        _bare(flat.value),
        stamp,
        _told(flat.parental_context),
        _count(flat.parental_index),
        _told(flat.physical_context),
        _count(flat.index),
        _told(flat.physical_sub_context),
        _told(flat.device_specific_context),
        _count(flat.sub_index),
    )
    return CrayMessage([CrayEvent(name, oem=_Oem([reading], _told(flat.telemetry_source)))], system=_told(flat.cluster))


def _told(field: "_Text") -> str:
    return field if isinstance(field, str) else _bare(field) or ""


def _count(field: "_Whole") -> int:
    number = _bare(field)
    return NONE if number is None else int(number)


def _bare(field: Any) -> Any:
    """Return a field out of Avro's JSON for one of several types: the name of the type, and the value."""
    return next(iter(field.values()), None) if isinstance(field, dict) else field


def _reading(plain: Any) -> Reading:
    if not isinstance(plain, dict):
        raise invalid("wrong-type", "A reading is no object.")
    try:
        bare = {name: told for name, field in plain.items() if (told := _bare(field)) is not None}
        return msgspec.convert(bare, Reading)
    except msgspec.ValidationError as error:
        raise json_error(error) from None


def _text(plain: dict[str, Any], name: str) -> str:
    field = plain.get(name)
    if field is None:
        return ""
    if not isinstance(field, str):
        raise invalid("wrong-type", f"The field {name} is no text.")
    return field


def _bomb(elements_max: int) -> InvalidInputError:
    return invalid("array-bomb", f"The message has more events and readings than {elements_max}.")
