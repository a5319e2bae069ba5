"""Envelopes around messages. They are opened before any decoder sees a message, on topics and in files.

Supported are CloudEvents 1.0 in the structured mode of its Kafka binding (in the binary mode the value is the message itself), hits
and answers of Elasticsearch, Kafka Connect's JSON converter with schemas (with Debezium's change events inside), and lines
wrapped by Logstash, Filebeat, Fluent Bit and GELF.

Sources: CloudEvents 1.0.2, its JSON event format and its Kafka protocol binding; Elasticsearch's search API; Kafka's
JsonConverter; the Elastic Common Schema.
"""

from base64 import b64decode
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from agent.decode.message import JSON_ERRORS, invalid, shown

VERSION: Final = "1.0"
HITS_MAX: Final = 10_000
ABSENT: Final = msgspec.Raw()


class _Outer(msgspec.Struct, gc=False):
    """The undecoded keys that distinguish envelopes; the keys in the first line belong to messages without an envelope."""

    type: msgspec.Raw = ABSENT
    jobid: msgspec.Raw = ABSENT
    specversion: msgspec.Raw = ABSENT
    data: msgspec.Raw = ABSENT
    data_base64: msgspec.Raw = ABSENT
    source: msgspec.Raw = msgspec.field(name="_source", default=ABSENT)
    hits: msgspec.Raw = ABSENT
    schema: msgspec.Raw = ABSENT
    payload: msgspec.Raw = ABSENT
    message: msgspec.Raw = ABSENT
    log: msgspec.Raw = ABSENT
    short_message: msgspec.Raw = ABSENT
    received: msgspec.Raw = msgspec.field(name="@timestamp", default=ABSENT)


class _Hit(msgspec.Struct, gc=False):
    source: msgspec.Raw = msgspec.field(name="_source")


class _Change(msgspec.Struct, gc=False):
    after: msgspec.Raw = ABSENT
    op: msgspec.Raw = ABSENT


class _Hits(msgspec.Struct, gc=False):
    hits: list[_Hit]


_OUTER = msgspec.json.Decoder(_Outer)
_CHANGE = msgspec.json.Decoder(_Change)
_HITS = msgspec.json.Decoder(_Hits)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_OPTIONAL_TEXT = msgspec.json.Decoder(str | None)


class Envelope(NamedTuple):
    """A kind of envelope: bytes that every such message contains, a test of its keys, and a function that opens it."""

    mark: bytes
    is_one: Callable[[_Outer], bool]
    open: Callable[[_Outer], bytes]


def _is_line(outer: _Outer, text: bytes) -> bool:
    """Return whether a text is a line wrapped by a log shipper. If the wrapper has a time of its own, the line need not be JSON."""
    other = outer.type is not ABSENT or outer.jobid is not ABSENT
    return text[:1] == b'"' and not other and (outer.received is not ABSENT or text[1:].lstrip()[:1] in (b"{", b"["))


def _row_of(payload: msgspec.Raw) -> bytes:
    """Return the payload of a Kafka Connect message; for a change event of Debezium, the row after the change."""
    value = _text(bytes(payload))
    if b'"after"' in value:
        change = _CHANGE.decode(value)
        return bytes(change.after) if bytes(change.after)[:1] == b"{" and change.op is not ABSENT else value
    return value


def _open_cloud_event(outer: _Outer) -> bytes:
    try:
        version = _TEXT.decode(outer.specversion)
        data_base64 = _OPTIONAL_TEXT.decode(bytes(outer.data_base64) or b"null")
    except JSON_ERRORS:
        raise invalid(
            "wrong-type", "The envelope of the CloudEvent has a specversion or data of a wrong type."
        ) from None
    if version != VERSION:
        raise invalid("unsupported-type", f"CloudEvents of specversion {shown(version)} are not read, only {VERSION}.")
    return _message(bytes(outer.data) or b"null", data_base64)


def _message(data: bytes, data_base64: str | None) -> bytes:
    if data == b"null" and data_base64 is None:
        raise invalid("missing-field", "The CloudEvent has no data.")
    try:
        if data_base64 is None:
            return _text(data)
        if data == b"null":
            return b64decode(data_base64, validate=True)
    except ValueError:  # as those of base64 and of halves of surrogate pairs
        raise invalid("wrong-type", "The data of the CloudEvent is not text, or its base64 is invalid.") from None
    raise invalid("wrong-type", "The CloudEvent has data and data_base64, of which only one may be there.")


def _text(data: bytes) -> bytes:
    return _TEXT.decode(data).encode() if data.startswith(b'"') else data


def _open_hits(outer: _Outer) -> bytes:
    try:
        sources = [bytes(hit.source) for hit in _HITS.decode(outer.hits).hits]
    except JSON_ERRORS:
        raise invalid("wrong-type", "The answer of Elasticsearch has hits without a _source.") from None
    if len(sources) > HITS_MAX:
        raise invalid("array-bomb", f"The answer has more hits than {HITS_MAX}.")
    return b"[%b]" % b",".join(sources)


ENVELOPES: Final[dict[str, Envelope]] = {
    "CloudEvent": Envelope(b'"specversion"', lambda outer: outer.specversion is not ABSENT, _open_cloud_event),
    "hit of Elasticsearch": Envelope(
        b'"_source"', lambda outer: bytes(outer.source)[:1] == b"{", lambda outer: bytes(outer.source)
    ),
    "answer of Elasticsearch": Envelope(
        b'"hits"', lambda outer: bytes(outer.hits)[:1] == b"{" and b'"_source"' in bytes(outer.hits), _open_hits
    ),
    "envelope of Kafka Connect": Envelope(
        b'"payload"',
        lambda outer: outer.schema is not ABSENT and bytes(outer.payload)[:1] in (b"{", b"[", b'"'),
        lambda outer: _row_of(outer.payload),
    ),
    "document of Logstash": Envelope(
        b'"message"',
        lambda outer: _is_line(outer, bytes(outer.message)),
        lambda outer: _text(bytes(outer.message)),
    ),
    "record of Fluent Bit": Envelope(
        b'"log"', lambda outer: _is_line(outer, bytes(outer.log)), lambda outer: _text(bytes(outer.log))
    ),
    "message of GELF": Envelope(
        b'"short_message"',
        lambda outer: _is_line(outer, bytes(outer.short_message)),
        lambda outer: _text(bytes(outer.short_message)),
    ),
}


def may_be_envelopes(values: bytes) -> bool:
    """Return whether a message, or one of several joined messages, may be an envelope.

    >>> may_be_envelopes(b'{"jobid": 812}'), may_be_envelopes(b'{"payload": {}}')
    (False, True)
    """
    return any(kind.mark in values for kind in ENVELOPES.values())


def opened(value: bytes) -> bytes:
    """Return the message inside an envelope (an array for several messages); return a message without an envelope unchanged.

    A text payload is returned as its characters, so an envelope may hold lines. Envelopes of different kinds may be nested. Raise
    InvalidInputError: ``nesting`` if an envelope contains one of its own kind, ``unsupported-type`` for other versions of
    CloudEvents, ``missing-field`` without a message, ``wrong-type`` if there are two messages or the base64 is invalid.

    >>> opened(b'{"specversion": "1.0", "type": "job", "data": {"jobid": 812}}'), opened(b'{"jobid": 812}')
    (b'{"jobid": 812}', b'{"jobid": 812}')
    >>> opened(b'{"specversion": "1.0", "data_base64": "bG9hZA=="}')
    b'load'
    """
    if not may_be_envelopes(value):
        return value
    names: list[str] = []
    if value[:1] == b"[":
        return _opened_array(value)
    while (kind := _kind(value)) is not None:
        name, outer = kind
        if name in names:
            raise invalid("nesting", f"The {name} holds another one.")
        names.append(name)
        try:
            value = ENVELOPES[name].open(outer)
        except (*JSON_ERRORS, UnicodeEncodeError):
            raise invalid("wrong-type", f"The {name} holds a text that no message may hold.") from None
    return value


def _opened_array(value: bytes) -> bytes:
    try:
        elements = [bytes(element) for element in _ELEMENTS.decode(value)]
    except JSON_ERRORS:
        return value
    if not elements or len(elements) > HITS_MAX or _kind(elements[0]) is None:
        return value
    return b"[%b]" % b",".join([opened(element) if element[:1] == b"{" else element for element in elements])


def _kind(value: bytes) -> tuple[str, _Outer] | None:
    if not may_be_envelopes(value):
        return None
    try:
        outer = _OUTER.decode(value.rstrip(b"\0"))
    except JSON_ERRORS:
        return None
    return next(((name, outer) for name, kind in ENVELOPES.items() if kind.is_one(outer)), None)
