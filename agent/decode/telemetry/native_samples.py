"""The native messages that are samples of hosts: load, power and counters."""

import re
from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec

from agent.contracts.telemetry import COMPONENTS, COUNTER_DELTA, COUNTER_TOTAL, POWER_W
from agent.decode.checks import TEXT_MAX
from agent.decode.message import JSON_ERRORS, json_error, refuse_duplicate_keys
from agent.decode.reasons import invalid, shown

NAMES_MAX: Final = 256  # counters of one record
INTERVAL_MAX_S: Final = 86_400.0
QUOTES_OF_LOAD: Final = 22  # of six keys and five texts
QUOTES_OF_PEER: Final = 4

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_MAX)]
JobId = Name | Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Counts = Annotated[dict[Name, float | None], msgspec.Meta(max_length=NAMES_MAX)]
_Interval = Annotated[float, msgspec.Meta(gt=0, le=INTERVAL_MAX_S)]
Key = tuple[str, str, str | None, str | int | None, bool | None]
COMPONENT: Final = rf"(?:{'|'.join(COMPONENTS)})(?::[!-\"$-=?-~]{{1,64}})?"  # of a socket or device after the colon
_COMPONENT = re.compile(COMPONENT)


class NamesOf(NamedTuple):
    """What the values of a record are of: the resource, the other side of each (or None), and the job."""

    resource: str
    peers: tuple[str | None, ...]
    job_id: str | None


class Load(msgspec.Struct, tag_field="type", tag="load", gc=False):
    """One value of one resource of a host.

    >>> Load("exa", "nid1", "load1", "2026-11-20T10:00:00Z", 0.5).quotes
    22
    """

    system: Name
    host: Name
    resource: Name
    time: str
    value: float
    peer: Name | None = None

    @property
    def quotes(self) -> int:
        """How many quotes the message has where nothing is in it that is not here.

        With just as many there is no room for an unknown field, a key named twice or an escaped quote.
        """
        return QUOTES_OF_LOAD if self.peer is None else QUOTES_OF_LOAD + QUOTES_OF_PEER

    def names(self) -> NamesOf:
        """Return what the values are of."""
        return NamesOf(self.resource, (self.peer,), None)


class Power(msgspec.Struct, tag_field="type", tag="power", gc=False):
    """What a host drew, in W: all of it, or one component; ``cpu:0`` is one of several.

    >>> Power("exa", "nid1", "cpu:0", "2026-11-20T10:00:00Z", 210.0, job_id=812).names()
    NamesOf(resource='power_w', peers=('cpu:0',), job_id='812')
    """

    system: Name
    host: Name
    component: Name
    time: str
    power_w: float | None
    job_id: JobId | None = None

    before_ms = 0

    @property
    def quotes(self) -> int:
        """How many quotes the message has; see `Load.quotes`."""
        return 22 + _quotes_of_job(self.job_id)

    @property
    def key(self) -> Key:
        """What it shares with the other messages of its series alone."""
        return self.system, self.host, self.component, self.job_id, None

    @property
    def counters_named(self) -> tuple[str, ...]:
        """The names of the values, where they have any: none."""
        return ()

    def values(self) -> Iterable[float | None]:
        """Return the values."""
        return (self.power_w,)

    def names(self) -> NamesOf:
        """Return what the values are of; InvalidInputError where it is none of the components."""
        if not _COMPONENT.fullmatch(self.component):
            allowed = ", ".join(COMPONENTS)
            raise invalid(
                "text", f"The component {shown(self.component)} is none of {allowed}, nor a part such as cpu:0."
            )
        return NamesOf(POWER_W, (self.component,), _job(self.job_id))


class Counters(msgspec.Struct, tag_field="type", tag="counters"):
    """What counters of a host grew by during the interval that ended at `time`, or, where cumulative, their values.

    Where their producer counted one job alone, `job_id` says which. What a counter grew by counts in the middle of its
    interval.

    >>> sample = Counters("exa", "nid1", "2026-11-20T10:00:00Z", {"PAPI_TOT_CYC": 1e9}, interval_s=60.0)
    >>> sample.before_ms, sample.names()
    (30000, NamesOf(resource='counter_delta', peers=('PAPI_TOT_CYC',), job_id=None))
    """

    system: Name
    host: Name
    time: str
    counters: _Counts
    interval_s: _Interval | None = None
    job_id: JobId | None = None
    cumulative: bool | None = None

    @property
    def before_ms(self) -> int:
        """How long before its time the values count."""
        return 0 if self.interval_s is None or self.cumulative else round(self.interval_s * 500.0)

    @property
    def quotes(self) -> int:
        """How many quotes the message has; see `Load.quotes`."""
        given = (self.interval_s is not None) + (self.cumulative is not None)
        return 18 + 2 * len(self.counters) + 2 * given + _quotes_of_job(self.job_id)

    @property
    def key(self) -> Key:
        """What it shares with the other messages of its series, and with few others."""
        return self.system, self.host, None, self.job_id, self.cumulative

    @property
    def counters_named(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(self.counters)

    def values(self) -> Iterable[float | None]:
        """Return the values."""
        return self.counters.values()

    def names(self) -> NamesOf:
        """Return what the values are of."""
        return NamesOf(COUNTER_TOTAL if self.cumulative else COUNTER_DELTA, self.counters_named, _job(self.job_id))


SAMPLE_TYPES: Final = ("load", "power", "counters")
SAMPLE: Final = msgspec.json.Decoder(Load | Power | Counters)
SAMPLES: Final = msgspec.json.Decoder(list[Load | Power | Counters])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KNOWN: Final = {kind: frozenset(("type", *kind.__struct_fields__)) for kind in (Load, Power, Counters)}


def unknown_fields(value: bytes, sample: Load | Power | Counters) -> int:
    """Return how many fields a message has that are not known; InvalidInputError where it names a key twice.

    >>> unknown_fields(b'{"x": 1, "type": "power", "component": "cpu"}', Power("exa", "nid1", "cpu", "now", 9.0))
    1
    """
    refuse_duplicate_keys(value)
    try:
        return len(_FIELDS.decode(value).keys() - _KNOWN[type(sample)])
    except JSON_ERRORS as error:
        raise json_error(error) from None


def _quotes_of_job(job_id: str | int | None) -> int:
    return 0 if job_id is None else 4 if isinstance(job_id, str) else 2


def _job(job_id: str | int | None) -> str | None:
    return None if job_id is None else str(job_id)
