"""What an operator may choose about decoding; every default in one place."""

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from processors.contracts.names import EARLIEST_MS
from processors.contracts.nodes import NO_NODES, Nodes
from processors.contracts.telemetry import NO_SENSORS, DecodeSamples, Keep, Sensors, Telemetry

# What decoders could not place, by name, for an operator who checks a configuration; a running agent only counts it.


NAMES_MAX: Final = 1_000
NAME_MAX: Final = 200


class Missed:
    """Names that were met and not known, each as often as decoders looked it up: once or a few times, not once a sample.

    `hosts` are names that are not in the file of nodes, `shared` places of several nodes, `units` sensors whose unit is not
    known, `second` sensors beside another one that is the same, `metrics` those that are not taken. At most 1,000 of each.

    >>> missed = Missed()
    >>> missed.note("hosts", "nid7")
    >>> missed.names("hosts")
    ('nid7',)
    """

    def __init__(self) -> None:
        self._names: dict[str, Counter[str]] = {}

    def note(self, kind: str, name: str) -> None:
        """Take a name of a kind."""
        names = self._names.setdefault(kind, Counter())
        if len(names) < NAMES_MAX or name in names:
            names[name[:NAME_MAX]] += 1

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of a kind, sorted."""
        return tuple(sorted(self._names.get(kind, ())))


class _NotNoted(Missed):
    def note(self, kind: str, name: str) -> None:
        """Forget it."""
        del kind, name


NOT_NOTED: Final = _NotNoted()


DAY_MS: Final = 86_400_000


class DecodeOptions(msgspec.Struct, frozen=True):
    """Options of all decoders; each uses those that concern it.

    `default_system` names the system of records that do not name it. Scripts, comments and working directories of
    jobs are private: they are dropped here unless `keep` asks for them. A time is refused before `earliest_ms`, or more than
    `future_ms` after the message was received. `timezone` (such as ``Europe/Oslo`` or ``+02:00``) is the zone of
    `sacct` times, which carry none.

    >>> DecodeOptions(default_system="archer2").keep.script
    False
    """

    default_system: str | None = None
    keep: Keep = Keep()
    max_message_bytes: int = 4 * 1024 * 1024
    elements_max: int = 10_000
    earliest_ms: int = EARLIEST_MS
    future_ms: int = DAY_MS
    timezone: str = "UTC"


# What an operator may choose about decoding telemetry.


class TelemetryOptions(msgspec.Struct, frozen=True):
    """Options of the decoders of telemetry; each uses those that concern it.

    `taken` is what the source's settings say. `nodes` tells which host a producer's name stands for, `hosts` the same of
    a component id (LDMS), `sensors` what readings of sensors are, before what is built in. `missed` notes what could not be placed. `host` is that of records that name
    none, such as those of a file.

    >>> TelemetryOptions(hosts={1042: "nid001042"}).hosts[1042]
    'nid001042'
    """

    decode: DecodeOptions = DecodeOptions()
    taken: Telemetry = Telemetry()
    hosts: dict[int, str] = {}
    host: str | None = None
    nodes: Nodes = NO_NODES
    sensors: Sensors = NO_SENSORS
    missed: Missed = NOT_NOTED

    def host_of(self, name: str, system: str | None = None) -> str:
        """Return the host that a producer's name stands for, in a system or in that of records that name none."""
        listed = self.nodes.host(name, system or self.decode.default_system or "") if len(self.nodes) else None
        if listed is None and len(self.nodes):
            self.missed.note("hosts", name)
        return listed or (name.partition(".")[0] if self.taken.short_hosts else name)


TelemetryFactory = Callable[[TelemetryOptions], DecodeSamples]
"""Makes the decoder of a format."""
