"""Recognise the format of a JSON message by its keys; nothing on the log says what a message is."""

import msgspec

from agent.contracts.decoding import Decode, Decoded
from agent.decode.message import JSON_ERRORS, DecodeOne, json_error, whole
from agent.decode.native import native_object
from agent.decode.options import DecodeOptions
from agent.decode.reasons import invalid
from agent.decode.slurm import slurm_object
from agent.decode.sonar import sonar_object


class _Probe(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()
    jobid: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()
    meta: msgspec.Raw = msgspec.Raw()


_PROBE = msgspec.json.Decoder(_Probe)


def sniff(value: bytes) -> str:
    """Return the name of the format of one JSON object: native by its `type`, Slurm by its `jobid`, Sonar by its envelope.

    Raises InvalidInputError (``unknown-format``, or what is wrong with the JSON).

    >>> sniff(b'{"type": "identity"}'), sniff(b'{"jobid": 812, "state": "COMPLETED"}')
    ('native', 'slurm')
    """
    try:
        probe = _PROBE.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if bytes(probe.type):
        return "native"
    if bytes(probe.jobid):
        return "slurm"
    if bytes(probe.data) and bytes(probe.meta):
        return "sonar"
    raise invalid(
        "unknown-format", "The message has neither the type of a native event, nor the keys of Slurm or Sonar."
    )


def any_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of JSON messages of any format, which may be mixed within an array.

    >>> decode = any_decoder(DecodeOptions())
    >>> decode(b'[{"type": "load"}, {"JobID": 1}]', 0).rejects[1].reason
    'unknown-format'
    """
    formats: dict[str, DecodeOne] = {
        "native": native_object(options),
        "slurm": slurm_object(options),
        "sonar": sonar_object(options),
    }

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        formats[sniff(value)](value, received_ms, decoded)

    return whole(decode_one, options)
