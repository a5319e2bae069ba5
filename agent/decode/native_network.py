"""Native `network` events: what the network did for a job, as ready features or as bounded arrays."""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from agent.contracts.events import Network
from agent.decode.checks import TEXT_MAX, refuse_control
from agent.decode.options import DecodeOptions
from agent.decode.reasons import invalid
from agent.decode.times import check_bounds, moment_ms

FEATURES_MAX: Final = 64
ARRAYS: Final = ("features", "links", "messages", "fifo_messages")
"""The fields of which an event has one at least."""
NUMBERS_MAX: Final = 16_384  # of all arrays of one event, so that it fits into a record of the journal

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_MAX)]
_Id = _Name | Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Features = Annotated[dict[_Name, float], msgspec.Meta(max_length=FEATURES_MAX)]
_Amounts = list[Annotated[float, msgspec.Meta(ge=0)]]


class Links(msgspec.Struct):
    """Bytes, and buffered and received packets, of each link."""

    bytes: _Amounts
    buffered: _Amounts
    received: _Amounts


class Messages(msgspec.Struct):
    """Hops and bytes of each message."""

    hops: _Amounts
    bytes: _Amounts


class NetworkTold(msgspec.Struct, tag_field="type", tag="network", kw_only=True):
    """What the network did for a job: features, or links, messages and the messages of each injection queue."""

    system: _Name
    job_id: _Id
    time: datetime
    features: Features | None = None
    links: Links | None = None
    messages: Messages | None = None
    fifo_messages: _Amounts | None = None

    @property
    def keys(self) -> int:
        """How many keys its objects have in all, but for the type."""
        given = sum(getattr(self, name) is not None for name in ARRAYS)
        within = len(self.features or ()) + 3 * (self.links is not None) + 2 * (self.messages is not None)
        return 3 + given + within


def network_event(told: NetworkTold, received_ms: int, options: DecodeOptions) -> Network:
    """Return the event of a message; InvalidInputError where its arrays do not fit together, or are too many numbers.

    >>> moment = datetime.fromisoformat("2026-11-20T10:31:12Z")
    >>> told = NetworkTold(system="exa", job_id="812", time=moment, features={"max_fifo": 5.0})
    >>> network_event(told, 1795170700000, DecodeOptions()).identity
    'network:exa/812@1795170672000'
    """
    if told.keys == 3:  # the system, the job and the time alone
        raise invalid("missing-field", "The event needs features, links, messages or fifo_messages.")
    links = () if told.links is None else (told.links.bytes, told.links.buffered, told.links.received)
    messages = () if told.messages is None else (told.messages.hops, told.messages.bytes)
    queues = told.fifo_messages or []
    if len({len(column) for column in links}) > 1 or len({len(column) for column in messages}) > 1:
        raise invalid("columns", "Each link, and each message, needs all of its numbers.")
    numbers = sum(map(len, (*links, *messages, queues)))
    if numbers > NUMBERS_MAX:
        raise invalid(
            "out-of-range", f"The event has {numbers} numbers; {NUMBERS_MAX} are allowed: send features instead."
        )
    for name in told.features or ():
        refuse_control(name, "feature")
    time_ms = moment_ms(told.time)
    check_bounds(time_ms, time_ms, received_ms, options)
    return Network(
        system=told.system,
        job_id=str(told.job_id),
        time_ms=time_ms,
        features=told.features or {},
        links=_columns(links, 3),  # type: ignore[arg-type]  # three of them
        messages=_columns(messages, 2),  # type: ignore[arg-type]  # two of them
        fifo_messages=tuple(queues),
    )


def _columns(columns: tuple[list[float], ...], count: int) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, columns)) or ((),) * count
