"""A message as a whole: its size, its encoding, JSON errors as reasons, and arrays of events as batches."""

import json
from collections.abc import Callable
from typing import Final

import msgspec

from agent.contracts.decoding import Decode, Decoded
from agent.contracts.errors import InvalidInputError
from agent.decode.options import DecodeOptions
from agent.decode.reasons import Reason, invalid

DecodeOne = Callable[[bytes, int, Decoded], None]
"""Decodes one JSON object, received at a time in ms, and adds what it yields; raises InvalidInputError and adds nothing."""

JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that msgspec raises for bytes that are not what was asked for."""

_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_BRACE = ord("{")
_WHITESPACE = b" \t\r\n"
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_REASONS: tuple[tuple[str, Reason], ...] = (  # a part of the library's message, and the reason it stands for
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
    """Return the refusal for one of JSON_ERRORS. The library's messages name fields and types, never values.

    >>> json_error(msgspec.ValidationError("Object missing required field `n`")).reason
    'missing-field'
    """
    if isinstance(error, RecursionError):
        return invalid("nesting", "The message is nested too deeply.")
    if isinstance(error, UnicodeDecodeError):
        return invalid("encoding", "The message holds text that is not UTF-8.")
    text = str(error)
    if "Expected `object`, got" in text and "at `$" in text:  # inside the object, not the message itself
        return invalid("wrong-type", f"{text}.")
    return invalid(next((reason for part, reason in _REASONS if part in text), "wrong-type"), f"{text}.")


def whole(decode_one: DecodeOne, options: DecodeOptions) -> Decode:
    """Return the decoder of whole messages: an object, or an array of objects of which each stands for itself.

    >>> decode = whole(lambda value, received_ms, decoded: None, DecodeOptions())
    >>> decode(b"{}", 0).events
    []
    """

    def decode(value: bytes, received_ms: int) -> Decoded:
        decoded = Decoded()
        value = checked(value, options)
        if value[0] == _BRACE or not value.lstrip(_WHITESPACE).startswith(b"["):
            decode_one(value, received_ms, decoded)
        else:
            for element in _elements(value, options):
                try:
                    decode_one(element, received_ms, decoded)
                except InvalidInputError as error:
                    decoded.rejects.append(error)
        return decoded

    return decode


def checked(value: bytes, options: DecodeOptions) -> bytes:
    """Return the message without the NUL bytes that C programs leave at its end; refuse one that nobody should parse.

    >>> checked(b"{}" + bytes(1), DecodeOptions())
    b'{}'
    """
    if not value:
        raise invalid("empty", "The message has no value.")
    if len(value) > options.max_message_bytes:
        raise invalid("too-large", f"The message has {len(value)} bytes; {options.max_message_bytes} are allowed.")
    if value[-1] == 0:
        value = value.rstrip(b"\0")
    if value[:1] == b"{":  # as nearly every message
        return value
    if not value or value.isspace():
        raise invalid("empty", "The message is blank.")
    if value.startswith(_BYTE_ORDER_MARKS):
        raise invalid("encoding", "The message starts with a byte order mark.")
    return value


def refuse_duplicate_keys(value: bytes) -> None:
    """Raise InvalidInputError (``duplicate-key``) where an object of this valid JSON names a key twice.

    Slow: to be called when a count of the keys has raised the suspicion.

    >>> refuse_duplicate_keys(b'{"n": 1, "unit": "nodes"}')
    """
    try:
        json.loads(value, object_pairs_hook=_unique, parse_int=str, parse_float=str)
    except RecursionError:
        raise invalid("nesting", "The message is nested too deeply.") from None
    except (UnicodeDecodeError, json.JSONDecodeError):  # in fields that nobody has read yet
        raise invalid("encoding", "The message holds text that no JSON may hold.") from None


def _unique(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise invalid("duplicate-key", "The message names a key twice.")


def _elements(value: bytes, options: DecodeOptions) -> list[bytes]:
    # an honest event has more than six bytes to a comma; this keeps a bomb from becoming a million objects
    commas = value.count(b",")
    if commas > options.elements_max and commas * 6 > len(value):
        raise _bomb(options)
    try:
        elements = _ELEMENTS.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if len(elements) > options.elements_max:
        raise _bomb(options)
    return [bytes(element) for element in elements]


def _bomb(options: DecodeOptions) -> InvalidInputError:
    return invalid("array-bomb", f"The array has more elements than {options.elements_max}.")
