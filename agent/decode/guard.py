"""Guards around all decoders: they open envelopes, and an exception costs only the message that caused it.

A decoder refuses input with InvalidInputError. Any other exception is a defect of the decoder: the message becomes a dead letter
with the reason ``decoder``, so that it can be examined and sent again.

These envelopes are opened:
- CloudEvents 1.0 in the structured mode of its Kafka binding (in the binary mode the value is the message itself);
- search hits and responses of Elasticsearch;
- Kafka Connect's JSON converter with schemas, which may contain Debezium's change events;
- lines wrapped by Logstash, Filebeat, Fluent Bit and GELF.

Sources: CloudEvents 1.0.2, its JSON event format and its Kafka protocol binding; Elasticsearch's search API; Kafka's
JsonConverter; the Elastic Common Schema.
"""

from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from agent.decode.message import JSON_ERRORS, invalid, shown
from agent.decode.telemetry.columns import joined, nothing
from processors.contracts.errors import InvalidInputError, ScalewatchError, defect
from processors.contracts.events import Decode, Decoded
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, SeriesIndex

VERSION: Final = "1.0"
HITS_MAX: Final = 10_000
ABSENT: Final = msgspec.Raw()


_KEYS: Final = "type jobid specversion data data_base64 hits schema payload message log short_message"
_RENAMED: Final = {"source": "_source", "received": "@timestamp"}
# undecoded values of the keys that tell envelopes apart; `type` and `jobid` belong to messages without an envelope
_Outer: Any = msgspec.defstruct(
    "_Outer", [(key, msgspec.Raw, ABSENT) for key in (*_KEYS.split(), *_RENAMED)], rename=_RENAMED, gc=False
)


class _Hit(msgspec.Struct, gc=False):
    source: msgspec.Raw = msgspec.field(name="_source")


class _Change(msgspec.Struct, gc=False):
    after: msgspec.Raw = ABSENT
    op: msgspec.Raw = ABSENT


class _Hits(msgspec.Struct, gc=False):
    hits: list[_Hit]


_OUTER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Outer)
_CHANGE = msgspec.json.Decoder(_Change)
_HITS = msgspec.json.Decoder(_Hits)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_OPTIONAL_TEXT = msgspec.json.Decoder(str | None)


def _cloud_event(outer: Any) -> bytes | None:
    if outer.specversion is ABSENT:
        return None
    try:
        version = _TEXT.decode(outer.specversion)
        data_base64 = _OPTIONAL_TEXT.decode(bytes(outer.data_base64) or b"null")
    except JSON_ERRORS:
        raise invalid(
            "wrong-type", "The envelope of the CloudEvent has a specversion or data of a wrong type."
        ) from None
    if version != VERSION:
        raise invalid("unsupported-type", f"CloudEvents of specversion {shown(version)} are not read, only {VERSION}.")
    data = bytes(outer.data) or b"null"
    if data == b"null" and data_base64 is None:
        raise invalid("missing-field", "The CloudEvent has no data.")
    try:
        if data_base64 is None:
            return _text(data)
        if data == b"null":
            return b64decode(data_base64, validate=True)
    except ValueError:  # raised for invalid base64 and for lone surrogates
        raise invalid("wrong-type", "The data of the CloudEvent is not text, or its base64 is invalid.") from None
    raise invalid("wrong-type", "The CloudEvent has data and data_base64, of which only one may be there.")


def _hit(outer: Any) -> bytes | None:
    source = bytes(outer.source)
    return source if source[:1] == b"{" else None


def _hits(outer: Any) -> bytes | None:
    """Return the hits of an Elasticsearch response as a JSON array."""
    if bytes(outer.hits)[:1] != b"{" or b'"_source"' not in bytes(outer.hits):
        return None
    try:
        sources = [bytes(hit.source) for hit in _HITS.decode(outer.hits).hits]
    except JSON_ERRORS:
        raise invalid("wrong-type", "The answer of Elasticsearch has hits without a _source.") from None
    if len(sources) > HITS_MAX:
        raise invalid("array-bomb", f"The answer has more hits than {HITS_MAX}.")
    return b"[%b]" % b",".join(sources)


def _connect(outer: Any) -> bytes | None:
    """Return the payload of a Kafka Connect message; of a Debezium change event, only the row after the change."""
    if outer.schema is ABSENT or bytes(outer.payload)[:1] not in (b"{", b"[", b'"'):
        return None
    value = _text(bytes(outer.payload))
    if b'"after"' in value:
        change = _CHANGE.decode(value)
        return bytes(change.after) if bytes(change.after)[:1] == b"{" and change.op is not ABSENT else value
    return value


def _line_in(key: str) -> Callable[[Any], bytes | None]:
    """Return a function that returns the text that a log shipper put under `key`; None for other objects.

    If the shipper did not add an @timestamp, the text is only used if it is JSON.
    """

    def open_line(outer: Any) -> bytes | None:
        text = bytes(getattr(outer, key))
        is_event = outer.type is not ABSENT or outer.jobid is not ABSENT
        is_json = text[1:].lstrip()[:1] in (b"{", b"[")
        return _text(text) if text[:1] == b'"' and not is_event and (is_json or outer.received is not ABSENT) else None

    return open_line


def _text(data: bytes) -> bytes:
    return _TEXT.decode(data).encode() if data.startswith(b'"') else data


ENVELOPES: Final[dict[str, tuple[bytes, Callable[[Any], bytes | None]]]] = {
    "CloudEvent": (b'"specversion"', _cloud_event),
    "hit of Elasticsearch": (b'"_source"', _hit),
    "answer of Elasticsearch": (b'"hits"', _hits),
    "envelope of Kafka Connect": (b'"payload"', _connect),
    "document of Logstash": (b'"message"', _line_in("message")),
    "record of Fluent Bit": (b'"log"', _line_in("log")),
    "message of GELF": (b'"short_message"', _line_in("short_message")),
}
"""Kinds of envelopes: bytes that all envelopes of a kind contain, and a function that opens one or returns None for other kinds."""


def may_be_envelopes(values: bytes) -> bool:
    """Return whether `values`, one message or several messages joined together, may contain an envelope."""
    return any(mark in values for mark, _ in ENVELOPES.values())


def opened(value: bytes) -> bytes:
    """Return the message inside an envelope (an array for several messages); return a message without an envelope unchanged.

    A payload that is a JSON string is returned as the content of the string, which need not be JSON. Envelopes of different
    kinds may be nested. Raise InvalidInputError: ``nesting`` if an envelope contains one of its own kind, ``unsupported-type``
    for other versions of CloudEvents, ``missing-field`` if there is no message, ``wrong-type`` if there are two or if base64 is
    invalid.

    >>> opened(b'{"specversion": "1.0", "type": "job", "data": {"jobid": 812}}'), opened(b'{"jobid": 812}')
    (b'{"jobid": 812}', b'{"jobid": 812}')
    """
    if value[:1] == b"[":
        return _opened_array(value) if may_be_envelopes(value) else value
    names: list[str] = []
    while (envelope := _inner(value)) is not None:
        name, value = envelope
        if name in names:
            raise invalid("nesting", f"The {name} holds another one.")
        names.append(name)
    return value


def _opened_array(value: bytes) -> bytes:
    try:
        elements = [bytes(element) for element in _ELEMENTS.decode(value)]
    except JSON_ERRORS:
        return value
    if not elements or len(elements) > HITS_MAX or _inner(elements[0]) is None:
        return value
    return b"[%b]" % b",".join([opened(element) if element[:1] == b"{" else element for element in elements])


def _inner(value: bytes) -> tuple[str, bytes] | None:
    """Return the kind of an envelope and the message inside the envelope; None if `value` is not an envelope."""
    if not may_be_envelopes(value):
        return None
    try:
        outer = _OUTER.decode(value.rstrip(b"\0"))
    except JSON_ERRORS:
        return None
    for name, (_, open_envelope) in ENVELOPES.items():
        try:
            message = open_envelope(outer)
        except (*JSON_ERRORS, UnicodeEncodeError):
            raise invalid("wrong-type", f"The {name} holds a text that no message may hold.") from None
        if message is not None:
            return name, message
    return None


Open = Callable[[bytes], bytes]
"""Returns the message inside an envelope or encoding; raises InvalidInputError."""


def opening(decode: Decode, open_message: Open) -> Decode:
    """Return a decoder that opens each message with `open_message` first."""
    return lambda value, received_ms: decode(open_message(value), received_ms)


def opening_slices(decode: DecodeSamples, open_message: Open) -> DecodeSamples:
    """Return a decoder that removes envelopes by `open_message` first; a message that it refuses affects no other message."""

    def decode_opened(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        places: list[int] = []
        messages: list[bytes | None] = []
        refused = []
        for at, value in enumerate(values):
            try:
                messages.append(value and open_message(value))
                places.append(at)
            except InvalidInputError as error:
                refused.append((at, Decoded(rejects=[error])))
        if not refused:
            return decode(messages, received_ms, index)
        batch = decode(messages, [received_ms[at] for at in places], index)
        return joined([(places, batch), ([*range(len(values))], nothing(refused))])

    return decode_opened


def guarded(decode: Decode) -> Decode:
    """Return a decoder of messages that raises only exceptions of the agent."""

    def decode_safely(value: bytes, received_ms: int) -> Decoded:
        try:
            return decode(opened(value), received_ms)
        except ScalewatchError:
            raise
        except Exception as error:  # a defect of a decoder must affect only this message
            raise defect(error) from error

    return decode_safely


def guarded_samples(make: Callable[[], DecodeSamples]) -> DecodeSamples:
    """Return a decoder of slices that never raises; `make` creates the decoder, and creates a new one after a failure.

    After a failure, the messages of the slice are decoded one by one to find the message that caused it. The new decoder starts
    without the state of the old decoder, such as which programs were already reported.
    """
    decode = make()

    def decode_all(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        # one search in the joined messages is cheaper than one search per message
        if may_be_envelopes(b"\n".join(filter(None, values))):
            return opening_slices(decode_safely, opened)(values, received_ms, index)
        return decode_safely(values, received_ms, index)

    def decode_safely(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        nonlocal decode
        try:
            return decode(values, received_ms, index)
        except Exception:  # noqa: BLE001  see `defect`; only the search below finds the message at fault
            decode = make()
        return joined([([at], decode_alone(value, received_ms[at], index)) for at, value in enumerate(values)])

    def decode_alone(value: bytes | None, received_ms: int, index: SeriesIndex) -> DecodedBatch:
        try:
            return decode([value], [received_ms], index)
        except Exception as error:  # noqa: BLE001  a defect of a decoder must cost only this message
            return nothing([(0, Decoded(rejects=[defect(error)]))])

    return decode_all
