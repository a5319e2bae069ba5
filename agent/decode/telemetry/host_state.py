"""Native `host.state` events: a host was drained, went down, or came back."""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from agent.contracts.events import HostState
from agent.decode.checks import TEXT_MAX, refuse_control
from agent.decode.message import JSON_ERRORS, json_error, refuse_duplicate_keys
from agent.decode.options import DecodeOptions
from agent.decode.reasons import invalid, shown
from agent.decode.times import check_bounds, moment_ms

HOST_STATES: Final = ("up", "drain", "down", "fail", "maintenance", "reboot")

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_MAX)]


class _State(msgspec.Struct, tag_field="type", tag="host.state"):
    system: _Name
    host: _Name
    state: str
    time: datetime


_DECODER = msgspec.json.Decoder(_State)


def decode_host_state(value: bytes, received_ms: int, options: DecodeOptions) -> HostState:
    """Return the event of one JSON object; InvalidInputError where it is none. Unknown fields are left out.

    >>> message = b'{"type": "host.state", "system": "exa", "host": "nid1", "state": "drain", "time": "2026-11-20T10:00:00Z"}'
    >>> decode_host_state(message, 1795168800000, DecodeOptions()).state
    'drain'
    """
    try:
        message = _DECODER.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    refuse_duplicate_keys(value)
    if message.state not in HOST_STATES:
        raise invalid("state", f"The host state {shown(message.state)} is none of {', '.join(HOST_STATES)}.")
    refuse_control(message.system, "system")
    refuse_control(message.host, "host")
    time_ms = moment_ms(message.time)
    check_bounds(time_ms, time_ms, received_ms, options)
    return HostState(system=message.system, host=message.host, state=message.state, time_ms=time_ms)
