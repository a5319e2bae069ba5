"""What an operator may choose about decoding telemetry."""

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from agent.contracts.nodes import NO_NODES, Nodes
from agent.contracts.sensors import NO_SENSORS, Sensors
from agent.contracts.telemetry import TAKEN, DecodeSamples
from agent.decode.options import DecodeOptions
from agent.decode.telemetry.metric import Convert, Metric, kibibytes, mebibytes, megabits, milliseconds, percent
from agent.decode.telemetry.missed import NOT_NOTED, Missed

TimeUnit = Literal["auto", "s", "ms", "us", "ns"]


class TelemetryOptions(msgspec.Struct, frozen=True):
    """Options of the decoders of telemetry; each uses those that concern it.

    `resources` are taken, others are counted and left out; native samples are all taken. `metrics` are mappings of a
    site's own, which go before the built-in ones. `nodes` tells which host a producer's name stands for, `hosts` the same of
    a component id (LDMS), `sensors` what readings of sensors are, before what is built in. `host_cpus` are the processors of
    a host where a load average alone tells of it. `short_hosts` cuts the domain off names that the nodes do not list.
    `missed` notes what could not be placed. `time_unit` is that of the numbers of line protocol; ``auto`` tells by their size. `host` is that of records that name
    none, such as those of a file. `counters` are the names of counters in rows of LDMS, or how they begin (``PAPI_*``), which
    `counters_cumulative` tells to grow since some start where they are of a whole host.

    >>> TelemetryOptions(hosts={1042: "nid001042"}).hosts[1042]
    'nid001042'
    """

    decode: DecodeOptions = DecodeOptions()
    resources: frozenset[str] = TAKEN
    metrics: tuple[Metric, ...] = ()
    hosts: dict[int, str] = {}
    counters: tuple[str, ...] = ("PAPI_*",)
    counters_cumulative: bool = False
    host_cpus: int = 1
    short_hosts: bool = False
    time_unit: TimeUnit = "auto"
    host: str | None = None
    nodes: Nodes = NO_NODES
    sensors: Sensors = NO_SENSORS
    missed: Missed = NOT_NOTED

    def host_of(self, name: str, system: str | None = None) -> str:
        """Return the host that a producer's name stands for, in a system or in that of records that name none."""
        listed = self.nodes.host(name, system or self.decode.default_system or "") if len(self.nodes) else None
        if listed is None and len(self.nodes):
            self.missed.note("hosts", name)
        return listed or (name.partition(".")[0] if self.short_hosts else name)


CONVERSIONS: Final[dict[str, Convert]] = {
    "percent": percent,
    "KiB": kibibytes,
    "MiB": mebibytes,
    "ms": milliseconds,
    "Mbit/s": megabits,
}
"""From the unit of a producer, as a configuration names it, to that of the resource."""

TelemetryFactory = Callable[[TelemetryOptions], DecodeSamples]
"""Makes the decoder of a format."""
