"""CloudEvents 1.0: a message within an envelope that names its type, source and time, of which only the message counts.

In the structured mode of the Kafka binding the value is the envelope; it is told by its `specversion` and opened here, before any decoder
sees it. In the binary mode the envelope is in the headers and the value is the message, so there is nothing to open.

Source: CloudEvents 1.0.2, its JSON event format and its Kafka protocol binding.
"""

from base64 import b64decode
from typing import Final

import msgspec

from agent.decode.message import JSON_ERRORS, invalid, shown

VERSION: Final = "1.0"
MARK: Final = b'"specversion"'  # stands in every envelope


class _Envelope(msgspec.Struct, gc=False):
    specversion: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    data_base64: str | None = None


class _Probe(msgspec.Struct, gc=False):
    specversion: msgspec.Raw = msgspec.Raw()


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_PROBE = msgspec.json.Decoder(_Probe)
_TEXT = msgspec.json.Decoder(str)


def is_envelope(value: bytes | None) -> bool:
    r"""Return whether a message is an envelope, of whatever version.

    >>> is_envelope(b'{"specversion": "1.0", "data": 7}'), is_envelope(b'{"jobid": 812, "comment": "a \\"specversion\\""}')
    (True, False)
    """
    if not value or MARK not in value:  # as nearly every message
        return False
    try:
        return bool(bytes(_PROBE.decode(value.rstrip(b"\0")).specversion))
    except JSON_ERRORS:
        return False


def opened(value: bytes) -> bytes:
    """Return the message within an envelope; one of another format as it is.

    A text is its characters, so that lines may stand in `data`. Raises InvalidInputError (``unsupported-type``) for another
    version, (``missing-field``) without a message, (``wrong-type``) where it is told twice or is not base64.

    >>> opened(b'{"specversion": "1.0", "type": "job", "data": {"jobid": 812}}'), opened(b'{"jobid": 812}')
    (b'{"jobid": 812}', b'{"jobid": 812}')
    >>> opened(b'{"specversion": "1.0", "data_base64": "bG9hZA=="}')
    b'load'
    """
    if not is_envelope(value):
        return value
    try:
        envelope = _ENVELOPE.decode(value.rstrip(b"\0"))
    except JSON_ERRORS:
        raise invalid(
            "wrong-type", "The envelope of the CloudEvent has a specversion or data of a wrong type."
        ) from None
    if envelope.specversion != VERSION:
        raise invalid(
            "unsupported-type",
            f"CloudEvents of specversion {shown(envelope.specversion)} are not read, only {VERSION}.",
        )
    message = _message(bytes(envelope.data), envelope.data_base64)
    if is_envelope(message):
        raise invalid("nesting", "The CloudEvent holds another one.")
    return message


def _message(data: bytes, data_base64: str | None) -> bytes:
    if data == b"null" and data_base64 is None:
        raise invalid("missing-field", "The CloudEvent has no data.")
    try:
        if data_base64 is None:
            return _TEXT.decode(data).encode() if data.startswith(b'"') else data
        if data == b"null":
            return b64decode(data_base64, validate=True)
    except ValueError:  # as those of base64 and of halves of surrogate pairs
        raise invalid("wrong-type", "The data of the CloudEvent is no text, or no base64.") from None
    raise invalid("wrong-type", "The CloudEvent has data and data_base64, of which only one may be there.")
